"""Sent prompts: the request at each step of a run is rebuilt from the journal, message by message."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.kit import Watched, call
from tests.printed import SUMMARY
from tests.runtime.narrow import sent_messages
from tests.runtime.rig import running
from tests.runtime.solving import DONE, TEXT, TOOL, greet, greeting, said
from tests.runtime.test_context_window import Narrow, check_pairs, echo
from tests.runtime.test_loop import calling
from tests.runtime.test_spaces import calls, house
from toolwright import testing
from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.core.errors import NotFound
from toolwright.core.journal.space_effects import KeepTexts
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Advance, Committed, Conflict, Unit
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.compaction import Compaction, SentPrompt, parts_of
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.state_report import report_text
from toolwright.core.value import changed
from toolwright.runtime.runs import sent_prompts
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio


def text_of(message: Message) -> tuple[object, ...]:
    """Return everything of a message that a model receives."""
    return (
        message.role,
        message.content,
        [(each.id, each.name, each.arguments) for each in message.calls],
        message.call_id,
        [each.path for each in message.attachments],
    )


def assert_same(prompt: SentPrompt, request: ModelRequest) -> None:
    """Check that the rebuilt prompt equals the model's request: texts, tools and messages."""
    assert [text_of(each) for each in prompt.messages] == [text_of(each) for each in sent_messages(request)]
    assert prompt.system == request.system
    reported = request.state is not None and request.state.parts
    assert prompt.changing == (report_text(request.state) if request.state is not None and reported else "")
    assert [each["name"] for each in prompt.tools] == [each.name for each in request.tools]
    assert [each["parameters"] for each in prompt.tools] == [each.parameters for each in request.tools]


async def sent_in(rt: Runtime, thread_id: str) -> list[SentPrompt]:
    """Return the prompts of all runs of the thread, oldest first."""
    runs = [*reversed(await rt.runs.list(thread_id=thread_id, limit=500))]
    return [each for run in runs for each in await rt.sent_prompts.of_run(run.id, 500)]


async def say(rt: Runtime, thread_id: str, text: str) -> Run:
    run = await rt.runs.wait((await rt.threads.send(thread_id, text)).id, 20)
    assert run.status == "completed", run.error
    return run


@tw.tool(description="Look.")
async def look(number: int) -> str:
    return f"result {number} " + "data " * 200


async def test_each_request_of_a_long_conversation_is_rebuilt() -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        if request.messages[-1].role == "user":
            asked = ModelCall(id="look", name="look", arguments=f'{{"number": {len(request.messages)}}}')
            return ModelResponse(model="narrow", calls=(asked,))
        return echo(request)

    model = Narrow(answer, limit=3_000, window=3_000)
    agent = tw.Agent("talker", tw.Prompt("talker", "Talk.", model=model, tools=[look]))
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("talker")
        for number in range(30):
            await say(rt, thread.id, f"message {number}: " + "word " * 100)
        prompts = await sent_in(rt, thread.id)
        requests = [each for each in model.requests if "summary" not in each.who]
        assert len(prompts) == len(requests) == 60
        for prompt, request in zip(prompts, requests, strict=True):
            assert_same(prompt, request)
            check_pairs(prompt.messages)
        row = prompts[-1].compaction
        assert isinstance(row, Compaction) and row.summary and row.text in prompts[-1].messages[0].content
        assert prompts[0].compaction is None
        assert prompts[-1].parts["summary"] > 0 and prompts[-1].parts["results"] > 0
        sent = prompts[-1].sent
        assert sent is not None and sent.tokens == sum(prompts[-1].parts.values())


def both(a: object, b: object, tools: tuple[tw.Tool, ...] = ()) -> tw.App:
    one, two = tw.Side(tw.Prompt("one", "A.", model=a, tools=tools)), tw.Side(tw.Prompt("two", "B.", model=b))
    return tw.App(agents=[tw.Agent("both", one, two, type="dual_ai", max_session_turns=2)])


async def test_each_side_of_an_agent_with_two_is_rebuilt_as_it_reads_the_other() -> None:
    a = Watched([{"text": "Let me look.", **call("look", number=1)}, {"text": "a1"}, {"text": "a2"}])
    b = Watched([{"text": "b1"}, {"text": "b2"}])
    async with journals.runtime(both(a, b, (look,))) as rt:
        thread = await rt.threads.create("both")
        await say(rt, thread.id, "Go")
        prompts = await sent_in(rt, thread.id)
        assert [each.side for each in prompts] == ["side_a", "side_a", "side_b", "side_a", "side_b"]
        for side, model in (("side_a", a), ("side_b", b)):
            own = [each for each in prompts if each.side == side]
            for prompt, request in zip(own, model.requests, strict=True):
                assert_same(prompt, request)


async def test_the_conversations_of_prompt_tools_are_rebuilt_with_what_they_begin_with() -> None:
    inner = Watched([call("look", number=7), {"text": "Seven."}])
    outer = Watched(
        [{"when": "Hello", "text": "Before."}, call("sums", message="Sum it."), {"text": "Done."}]
    )
    sums = tw.Prompt(
        "sums",
        "You sum.",
        tool_description="Sums.",
        expose_as_tool=True,
        model=inner,
        tools=[look],
        include_chat=True,
        include_past_tools=True,
    )
    app = tw.App(
        agents=[tw.Agent("boss", tw.Prompt("main", "You ask.", tools=["sums"], model=outer))], prompts=[sums]
    )
    async with journals.runtime(app) as rt:
        thread = await rt.threads.create("boss")
        await say(rt, thread.id, "Hello")
        run = await say(rt, thread.id, "Go")
        prompts = await rt.sent_prompts.of_run(run.id)
        assert [each.within is None for each in prompts] == [True, False, False, True]
        for prompt, request in zip(
            prompts, [outer.requests[1], *inner.requests, outer.requests[2]], strict=True
        ):
            assert_same(prompt, request)
        assert [text_of(each)[:2] for each in prompts[1].messages] == [
            ("user", "Hello"),
            ("assistant", "Before."),
            ("user", "Go"),
            ("user", "Sum it."),
        ]
        assert [each.step for each in prompts] == [1, 1, 1, 2]
        assert await rt.sent_prompts.of_run(run.id, 2, 1) == prompts[1:3]


async def test_what_a_model_without_a_name_was_sent_within_a_prompt_tool_is_seen() -> None:
    inner = Narrow(lambda _: ModelResponse(text="Three."), limit=10**6)

    def ask(request: ModelRequest) -> ModelResponse:
        if request.messages[-1].role == "tool":
            return ModelResponse(text="Done.")
        return ModelResponse(calls=(ModelCall(id="s", name="sums", arguments='{"message": "Sum it."}'),))

    sums = tw.Prompt("sums", "You sum.", tool_description="Sums.", expose_as_tool=True, model=inner)
    boss = tw.Agent("boss", tw.Prompt("main", "You ask.", tools=["sums"], model=Narrow(ask, limit=10**6)))
    async with journals.runtime(tw.App(agents=[boss], prompts=[sums])) as rt:
        thread = await rt.threads.create("boss")
        await say(rt, thread.id, "Go")
        prompts = await sent_in(rt, thread.id)
        assert [each.by for each in prompts if each.within] == ["sums"]
        [prompt] = [each for each in prompts if each.within]
        assert_same(prompt, inner.requests[0])


async def test_edited_messages_are_shown_as_they_were() -> None:
    @tw.tool(description="Edit.")
    async def edit(state: tw.ThreadState) -> str:
        first = (await state.get_messages())[0]
        state.update_message(first.id, f"{first.content}!")
        return "edited"

    model = Watched([{"when": "On", "text": "More."}, call("edit"), call("edit"), {"text": "Done."}])
    app = tw.App(agents=[tw.Agent("boss", tw.Prompt("main", model=model, tools=[edit]))])
    async with journals.runtime(app) as rt:
        thread = await rt.threads.create("boss")
        await say(rt, thread.id, "Go")
        await say(rt, thread.id, "On")
        prompts = await sent_in(rt, thread.id)
        assert [each.messages[0].content for each in prompts] == ["Go", "Go!", "Go!!", "Go!!"]
        for prompt, request in zip(prompts, model.requests, strict=True):
            assert_same(prompt, request)


async def test_what_a_skipped_run_was_sent_is_seen_and_later_ones_were_not_sent_it() -> None:
    skip = {"name": "skip", "args": {"reason": "Small talk"}}
    turns = [{"when": "Lovely weather", **calls(skip)}, {"when": "Really", "text": "I was asked."}]
    async with house(turns) as made:
        first = await made.rt.runs.get(await made.hears("Lovely weather"))
        [prompt] = await made.rt.sent_prompts.of_run(first.id)
        assert first.status == "skipped"
        assert "Lovely weather" in prompt.messages[0].content and prompt.changing and prompt.system
        [prompt] = await made.rt.sent_prompts.of_run(await made.hears("Really"))
        assert "Lovely weather" not in repr(prompt.messages)


async def test_composed_requests_are_rebuilt_as_text() -> None:
    async with journals.runtime(tw.App(registry=greeting())) as rt:
        model = Watched([said(None, greet("Ada"), greet("Bob")), said(DONE)])
        run_id = (await rt.begin_request({"model": model}, SUMMARY, [TOOL, TEXT])).id
        await rt.runs.wait(run_id, 10)
        prompts = await rt.sent_prompts.of_run(run_id)
        for prompt, request in zip(prompts, model.requests, strict=True):
            assert_same(prompt, request)
        assert "Results of the calls" in prompts[1].messages[-1].content


class OldJournal:
    """A custom journal without records of requests."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if isinstance(unit, Advance):
            messages = tuple([changed(each, sent=None) for each in unit.messages])
            effects = tuple([each for each in unit.effects if not isinstance(each, KeepTexts)])
            unit = changed(unit, messages=messages, effects=effects)
        return await self._inner.commit(unit)

    def __getattr__(self, name: str) -> Any:  # reads pass through
        return getattr(self._inner, name)


@pytest.mark.one_journal
async def test_steps_of_before_there_were_records_have_none() -> None:
    async def opened(bus: MemoryBus) -> Any:  # a store
        return OldJournal(MemoryStore(bus.publish))

    async with running(
        Watched([calling("look", args={"number": 1}), {"text": "Done."}]), [look], store=opened
    ) as rig:
        thread = await rig.rt.threads.create("tester")
        run = await say(rig.rt, thread.id, "Go")
        prompts = await rig.rt.sent_prompts.of_run(run.id)
        assert [(each.step, each.sent, each.messages) for each in prompts] == [
            (1, None, ()),
            (2, None, ()),
        ]
        assert all(each.message_id for each in prompts)


async def test_what_was_said_in_a_channel_is_kept_once_though_each_request_has_it() -> None:
    words = "word " * 60
    model = Watched([{"text": "Hm."}] * 60)
    agent = tw.Agent("host", tw.Prompt("host", "You host.", model=model), toolkits=["channels"])
    async with journals.by_hand(tw.App(agents=[agent])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        for number in range(60):
            await rt.spaces.say("tea", husam.id, f"{number}. {words}")
            await motor.run_until_idle()
        home = (await rt.agents.get("host")).home_thread_id
        prompts = await sent_in(rt, home)
        for prompt, request in zip(prompts, model.requests, strict=True):
            assert_same(prompt, request)
            assert sum('"0. word' in each.content for each in prompt.messages) == 1
        first, *later = [request.state for request in model.requests]
        assert first is not None and "channels" in first.parts
        assert all(state is not None and not state.parts for state in later), (
            "the conversation has every message"
        )


async def test_the_prompt_of_a_step_reads_no_more_than_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Narrow(echo, limit=3_000, window=3_000)
    async with running(model) as rig:
        thread = await rig.rt.threads.create("tester")
        await say(rig.rt, thread.id, "Never forget the teapot.")
        [pinned, _] = await rig.rt.threads.messages(thread.id)
        await rig.rt.threads.pin(thread.id, pinned.id)
        for number in range(120):
            await say(rig.rt, thread.id, f"{number}. " + "word " * 60)
        monkeypatch.setattr(sent_prompts, "ROWS", 10)
        read: list[int] = []
        before = rig.store.messages_before

        async def messages_before(thread_id: str, seq: int | None, limit: int) -> Sequence[Message]:
            page = await before(thread_id, seq, limit)
            read.append(len(page))
            return page

        monkeypatch.setattr(rig.store, "messages_before", messages_before)
        [run] = await rig.rt.runs.list(limit=1)
        [prompt] = await rig.rt.sent_prompts.of_run(run.id)
        assert "Never forget the teapot." in repr(prompt.messages)
        assert len(prompt.messages) <= sum(read) <= len(prompt.messages) + 20
        request = model.asked[-1]
        assert [text_of(each) for each in prompt.messages] == [text_of(each) for each in request.messages]


async def test_a_run_that_is_not_there_has_no_prompts() -> None:
    async with journals.runtime(tw.App(agents=[])) as rt:
        with pytest.raises(NotFound):
            await rt.sent_prompts.of_run("run_none")


async def test_requests_are_put_together_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is computed from the whole conversation: a page of a long run would block all other requests."""
    model, threads = Narrow(echo, limit=100_000), set[int]()

    def noting(messages: Sequence[Message]) -> dict[str, int]:
        threads.add(threading.get_ident())
        return parts_of(messages)

    async with testing.runtime(tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=model)])) as rt:
        thread = await rt.threads.create("talker")
        await say(rt, thread.id, "Hello")
        monkeypatch.setattr(sent_prompts, "parts_of", noting)
        [prompt] = await sent_in(rt, thread.id)
    assert [each.content for each in prompt.messages] == ["Hello"]
    assert threads and threading.get_ident() not in threads
