"""Threads that continue a conversation from elsewhere: what is stored and sent, keys that find a thread, and limits."""

import asyncio
import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import toolwright as tw
from tests.core.test_imports import CHAT, PIXEL
from tests.databases import database, prepare
from tests.kit import DONE, Watched, call
from tests.runtime.rig import Rig, assert_valid, running
from toolwright.core.errors import AlreadyExists, InvalidRequest
from toolwright.core.imports.message import MAX_IMPORTED
from toolwright.core.json_value import JSON
from toolwright.core.limits import MAX_RESULT_TEXT
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio


@tw.tool(description="Tell the weather.", read_only=True)
async def weather(city: str) -> str:
    return "Sun"


def user(text: str) -> JSON:
    return {"role": "user", "content": text}


async def answered(rig: Rig, thread: Thread, text: str) -> str:
    """Send a message to the thread and return the id of its finished run."""
    run = await rig.rt.threads.send(thread.id, text)
    run = await rig.rt.runs.wait(run.id, 60)
    assert run.status == "completed", run.error
    return run.id


def read(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(each.role, each.content) for each in messages]


SAID = [("user", "Weather?"), ("assistant", "I look."), ("tool", "Rain"), ("assistant", "It rains.")]


async def test_a_thread_continues_a_conversation_from_elsewhere() -> None:
    model = Watched()
    async with running(model, [weather]) as rig:
        thread = await rig.rt.threads.create("tester", messages=CHAT)
        stored = await rig.transcript(thread.id)
        assert_valid(stored)
        assert all(each.imported and each.run_id is None for each in stored)
        [kept] = stored[1].calls
        assert kept.model_call_id == "c1" and kept.id == stored[2].call_id != "c1"
        assert thread.seq == 4 and (await rig.rt.threads.get(thread.id)).seq == 4
        run_id = await answered(rig, thread, "And now?")
        assert read(model.requests[0].messages) == [*SAID, ("user", "And now?")]
        [prompt] = await rig.rt.sent_prompts.of_run(run_id)
        assert read(prompt.messages) == [*SAID, ("user", "And now?")]
        assert [each.imported for each in await rig.transcript(thread.id)] == [True] * 4 + [False] * 2


async def test_an_invalid_conversation_creates_nothing() -> None:
    async with running(Watched()) as rig:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,no!"}}
        for messages, message in (
            (
                [user("Hi"), {"role": "tool", "tool_call_id": "c", "content": ""}],
                "messages.1 answers the call 'c'",
            ),
            (
                [user("Hi"), {"role": "user", "content": [picture]}],
                "messages.1 has a file that cannot be kept",
            ),
        ):
            with pytest.raises(InvalidRequest, match=message):
                await rig.rt.threads.create("tester", messages=messages)
        assert not await rig.rt.threads.list()


async def test_files_of_a_conversation_are_files_of_the_thread() -> None:
    async with running(Watched()) as rig:
        url = f"data:image/png;base64,{PIXEL}"
        parts: list[JSON] = [{"type": "image_url", "image_url": {"url": url}}] * 2
        thread = await rig.rt.threads.create("tester", messages=[{"role": "user", "content": parts}])
        [message] = await rig.transcript(thread.id)
        assert [each.path for each in message.attachments] == [
            "/attachments/image.png",
            "/attachments/image-2.png",
        ]
        for each in message.attachments:
            assert await rig.rt.files.read(thread.id, each.path) == base64.b64decode(PIXEL)


async def test_a_long_result_is_cut_and_stored_in_a_file() -> None:
    async with running(Watched()) as rig:
        result: JSON = {"role": "tool", "tool_call_id": "c1", "content": "x" * (MAX_RESULT_TEXT + 1)}
        thread = await rig.rt.threads.create("tester", messages=[CHAT[2], result])
        [_, cut] = await rig.transcript(thread.id)
        assert len(cut.content) < MAX_RESULT_TEXT + 1_000
        [whole] = cut.attachments
        assert len(await rig.rt.files.read(thread.id, whole.path)) == MAX_RESULT_TEXT + 1


async def test_the_result_of_an_imported_call_can_be_read_when_it_is_not_shown_any_more() -> None:
    messages: list[JSON] = []
    for n in range(6):
        function: JSON = {"name": "weather", "arguments": "{}"}
        made: JSON = {"role": "assistant", "tool_calls": [{"id": f"c{n}", "function": function}]}
        result: JSON = {"role": "tool", "tool_call_id": f"c{n}", "content": f"{n} word" * 800}
        messages += [made, result]
    model = Watched()
    context = tw.Context(max_tokens=4_000, summarize=False)
    async with running(model, [weather], prompt_options={"context": context}) as rig:
        thread = await rig.rt.threads.create("tester", messages=messages)
        first = (await rig.transcript(thread.id))[0].calls[0].id
        model.says([call("read_result", call_id=first), call("read_result", call_id="call_none"), DONE])
        await answered(rig, thread, "Read it")
        assert "read_result" in model.requests[0].messages[1].content
        seen, missing = [
            json.loads(each.content)
            for each in await rig.transcript(thread.id)
            if each.role == "tool" and not each.imported
        ]
        assert seen["text"].startswith("0 word0 word") and seen["tool"] == "weather"
        assert "There is no call 'call_none'" in missing["error"]


@pytest.mark.parametrize("place", [1, 2])
async def test_an_imported_call_is_hidden_together_with_its_result(place: int) -> None:
    model = Watched()
    async with running(model, [weather]) as rig:
        thread = await rig.rt.threads.create("tester", messages=CHAT)
        message = (await rig.transcript(thread.id))[place]
        hidden = await rig.rt.threads.hide_message(thread.id, message.id)
        assert [each.role for each in hidden] == ["assistant", "tool"]
        await answered(rig, thread, "And now?")
        assert read(model.requests[0].messages) == [SAID[0], SAID[3], ("user", "And now?")]


async def test_answers_belong_to_the_first_side_of_an_agent_with_two() -> None:
    model = Watched([{"text": "A"}, {"text": "B"}])
    one, two = (tw.Prompt(name, "Talk.", model=model, tool_description=name) for name in ("one", "two"))
    agent = tw.Agent(
        "pair", tw.Side(one), tw.Side(two), type="dual_ai", max_session_turns=1, tool_description="Talk."
    )
    async with running(Watched(), agents=[agent]) as rig:
        thread = await rig.rt.threads.create(
            "pair", messages=[user("Hi"), {"role": "assistant", "content": "Hello"}]
        )
        await answered(rig, thread, "Go")
        first, second = model.requests[:2]
        assert read(first.messages) == [("user", "Hi"), ("assistant", "Hello"), ("user", "Go")]
        assert read(second.messages)[:2] == [("user", "Hi"), ("user", "Hello")]


async def test_reasoning_is_kept_for_its_readers() -> None:
    agents = [
        tw.Agent(f"for_{each}", instructions="Talk.", model=Watched(), reasoning=each) for each in READERS
    ]
    async with running(Watched(), agents=agents) as rig:
        kept = dict[str, tuple[str | None, bool]]()
        for readers in READERS:
            thread = await rig.rt.threads.create(f"for_{readers}", messages=CHAT)
            message = (await rig.transcript(thread.id))[1]
            kept[readers] = message.reasoning, message.reasoning_shared
    assert kept == {
        "services": ("Ask the tool.", False),
        "everyone": ("Ask the tool.", True),
        "nobody": (None, False),
    }


READERS = ("services", "everyone", "nobody")


async def test_the_longest_conversation_is_stored_whole() -> None:
    async with running(Watched()) as rig:
        thread = await rig.rt.threads.create("tester", messages=[user(str(n)) for n in range(MAX_IMPORTED)])
        assert (await rig.rt.threads.get(thread.id)).seq == MAX_IMPORTED
        last = await rig.rt.threads.messages(thread.id, 2, MAX_IMPORTED - 2)
        assert [(each.seq, each.content) for each in last] == [
            (MAX_IMPORTED - 1, str(MAX_IMPORTED - 2)),
            (MAX_IMPORTED, str(MAX_IMPORTED - 1)),
        ]


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_finds_the_thread_of_its_owner_or_creates_it() -> None:
    async with running(Watched()) as rig:
        create = rig.rt.threads.create
        first = await create("tester", key="ticket 7", messages=[user("Hi")], tags=["new"])
        again = await create("tester", key="ticket 7", messages=[user("Hi")], tags=["other"])
        assert (first.created, again.created) == (True, False)
        assert (again.id, again.tags, len(await rig.transcript(first.id))) == (first.id, ("new",), 1)
        other = await create("tester", "ada", key="ticket 7")
        assert other.created and other.id != first.id
        assert (await rig.rt.threads.get(first.id)).key == "ticket 7"
        assert (await create("tester")).created is None
        await rig.rt.threads.delete(first.id)
        assert (await create("tester", key="ticket 7")).created


async def test_the_key_of_another_agents_thread_is_refused() -> None:
    async with running(Watched(), agents=[tw.Agent("other", instructions="Talk.")]) as rig:
        await rig.rt.threads.create("tester", key="k")
        with pytest.raises(AlreadyExists, match="The key 'k' is that of a thread of another agent"):
            await rig.rt.threads.create("other", key="k")
        for key in ("", "k" * 1_001, "a\x00"):
            with pytest.raises(InvalidRequest, match="key must"):
                await rig.rt.threads.create("tester", key=key)


async def test_many_at_once_with_one_key_create_one_thread() -> None:
    async with running(Watched()) as rig:
        made = await asyncio.gather(
            *[rig.rt.threads.create("tester", key="k", messages=[user("Hi")]) for _ in range(20)]
        )
        assert len({each.id for each in made}) == 1
        assert sorted(str(each.created) for each in made) == ["False"] * 19 + ["True"]
        assert len(await rig.rt.threads.list()) == 1 and len(await rig.transcript(made[0].id)) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_processes_at_once_create_one_thread_a_key(kind: str, tmp_path: Path) -> None:
    app = tw.App(agents=[tw.Agent("tester", instructions="Talk.", model=Watched())])

    async def create(rt: Runtime) -> list[Thread]:
        keys = [f"key {n}" for n in range(20)]
        return await asyncio.gather(
            *[rt.threads.create("tester", key=key, messages=[user("Hi")]) for key in keys]
        )

    async with database(kind, tmp_path) as url:
        prepare(url)
        settings = Settings(database_url=url, files_url="memory://")
        other = settings.model_copy(update={"work": False})
        async with app.runtime(settings) as one, app.runtime(other) as two:
            made = [*zip(*await asyncio.gather(create(one), create(two)), strict=True)]
            assert all(here.id == there.id and here.created != there.created for here, there in made)
            assert len(await one.threads.list(limit=100)) == 20
