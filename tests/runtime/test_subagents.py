"""Agents that run in threads of their own: called, created, messaged, reported, cancelled (S0 §5, §6)."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests import journals
from tests.behaviour.marks import requirement
from tests.databases import OpenStore, store_on
from tests.kit import DONE, Watched, call, hanging, ran, send_to
from tests.runtime.family_rig import RESUMABLE, Config, create, home, journal, model_of, until, worker
from tests.runtime.kin import kin
from toolwright import testing
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.journal.child_effects import Spawn, Speak
from toolwright.core.journal.units import Apply, Result, Unit
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message

pytestmark = pytest.mark.anyio


@tw.tool(description="Counts.")
async def count(state: tw.ThreadState) -> str:
    return f"{len(state.children)} there"


# ── direct calls ────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("S0-1-4", "S0-5-2")
async def test_a_direct_call_gives_what_the_child_says_last() -> None:
    agent = worker([{"text": "I have done it."}])
    async with home(agent, {}, [call("worker", message="Do it"), DONE]) as at:
        thread = await at.thread(user_id="u1")
        assert (await at.run(thread.id)).output == "Done."
        assert await at.results(thread.id) == ["I have done it."]
        [child] = await at.children(thread.id)
        assert (child.parent_id, child.user_id, child.child_status) == (thread.id, "u1", "terminated")
        assert child.arguments == {"message": "Do it"}
        assert await at.heard(child.id) == ["Do it"]


async def test_arguments_of_any_name_are_a_childs_own() -> None:
    class Args(BaseModel):
        model_config = {"extra": "allow"}

    agent = worker([{"text": "I have done it."}], required_schema=Args)
    async with home(agent, {}, [call("worker", message="Do it", _output=5), DONE]) as at:
        thread = await at.thread()
        assert (await at.run(thread.id)).output == "Done."
        assert await at.results(thread.id) == ["I have done it."]


async def test_the_parent_is_parked_while_its_child_works() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tw.tool(description="Takes its time.")
    async def work() -> str:
        begun.set()
        await go_on.wait()
        return "worked"

    agent = worker([call("work"), {"text": "Finished."}], [work])
    async with home(agent, {}, [call("worker", message="Do it"), DONE]) as at:
        thread = await at.thread()
        run = await at.rt.threads.send(thread.id, "Go")
        await begun.wait()

        async def parked() -> bool:
            return (await at.rt.runs.get(run.id)).status == "waiting"

        await until(at.rt, thread.id, parked)
        waiting = (await at.rt.runs.get(run.id)).waiting
        [made] = await at.rt.calls.list(run_id=run.id)
        assert waiting == {"reason": "child", "callIds": [made.id]}
        assert (made.status, made.deadline) == ("waiting", None)
        go_on.set()
        assert (await at.rt.runs.wait(run.id, 10)).output == "Done."
        assert await at.results(thread.id) == ["Finished."]


@pytest.mark.parametrize(
    ("turn", "result"),
    [
        (call("finish", answer={"n": 1}), {"n": 1}),
        (call("finish", answer=""), ""),
        ({"text": "Words.", **call("finish")}, "Words."),
    ],
)
async def test_a_stop_tool_gives_its_property(turn: object, result: object) -> None:
    options = {"stop_tool": "finish", "stop_tool_response_property": "answer"}
    finish = tw.Tool.from_config(
        {
            "name": "finish",
            "description": "Ends.",
            "inputSchema": {"type": "object"},
            "executionType": "internal",
        }
    )
    async with home(worker([turn], [finish], **options), {}, [call("worker", message="Do"), DONE]) as at:
        thread = await at.ran()
        assert await at.results(thread.id) == [result]


async def test_a_failed_session_is_an_error_of_the_call() -> None:
    give_up = tw.Tool.from_config(
        {
            "name": "give_up",
            "description": "Fails.",
            "inputSchema": {"type": "object"},
            "executionType": "internal",
        }
    )
    agent = worker([{"text": "I cannot.", **call("give_up")}], [give_up], session_fail="give_up")
    async with home(agent, {}, [call("worker", message="Do"), DONE]) as at:
        thread = await at.thread()
        assert (await at.run(thread.id)).status == "completed"
        [child] = await at.children(thread.id)
        assert child.child_status == "failed"
        [result] = await at.results(thread.id)
        assert result == {
            "error": "I cannot.", "error_code": "session_fail",
            "reference": child.id, "name": None, "status": "failed",
        }  # fmt: skip


async def test_a_child_without_an_answer_in_its_steps_is_an_error_of_the_call() -> None:
    agent = worker([call("count")] * 3, [count], max_steps=2)
    async with home(agent, {}, [call("worker", message="Do"), DONE]) as at:
        thread = await at.thread()
        assert (await at.run(thread.id)).status == "completed"
        [result] = await at.results(thread.id)
        assert result["error"] == "The session reached its step limit without an answer."
        assert (result["error_code"], result["status"]) == ("max_steps", "failed")


async def test_a_child_whose_model_fails_is_an_error_of_the_call() -> None:
    async with home(
        worker([{"fail": "refused", "message": "No."}]), {}, [call("worker", message="Do"), DONE]
    ) as at:
        thread = await at.thread()
        assert (await at.run(thread.id)).output == "Done."
        [result] = await at.results(thread.id)
        assert (result["error"], result["error_code"]) == ("No.", "subagent_failed")


async def test_a_call_that_does_not_block_is_reported_in_the_inbox() -> None:
    agent = worker([{"text": "Ready."}])
    turns = [{"when": "[Subagent", "text": "Thanks."}, call("worker", message="Do"), DONE]
    async with home(agent, {"blocking": False}, turns) as at:
        thread = await at.ran()

        async def told() -> bool:
            return len(await at.heard(thread.id)) == 2

        await until(at.rt, thread.id, told)
        [child] = await at.children(thread.id)
        [result] = await at.results(thread.id)
        assert result == {"reference": child.id, "name": None, "status": "running"}
        _, notice = await at.heard(thread.id)
        assert notice == f'[Subagent] (reference: {child.id}, status: terminated) "Ready."'


def drawing(name: str) -> tw.Tool:
    @tw.tool(description="Draws.", name=f"draw_{name}")
    async def draw() -> tw.ToolResult:
        made = tw.Attachment(name=f"{name}.txt", mime_type="text/plain", data="Y2hpbGQ=")
        return tw.ToolResult.ok("drawn", (made,))

    return draw


@pytest.mark.parametrize(
    ("config", "files"),
    [
        ({}, ["/attachments/last.txt"]),
        ({"resumable": {"receives_messages": "side_a"}}, ["/attachments/last.txt"]),
        ({"resumable": {"receives_messages": "side_a", "parentCommunication": "explicit"}}, []),
    ],
)
async def test_of_a_childs_files_those_of_its_last_message_are_given_and_none_where_it_speaks_for_itself(
    config: Any, files: list[str]
) -> None:
    agent = worker(
        [call("draw_early"), call("draw_last"), {"text": "Here it is."}], [drawing("early"), drawing("last")]
    )
    asked = create(message="Draw") if config else call("worker", message="Draw")
    async with home(agent, config, [asked, DONE]) as at:
        thread = await at.ran()
        answer = [m for m in await at.rt.threads.messages(thread.id) if m.role == "tool"][-1]
        assert [ref.path for ref in answer.attachments] == files
        assert [file.path for file in await at.rt.files.list(thread.id)] == files
        [child] = await at.children(thread.id)
        assert len(await at.rt.files.list(child.id)) == 2


@requirement("S0-5-1")
async def test_a_child_is_named_by_the_property_for_it() -> None:
    agent = worker([{"text": "Ready."}])
    config = {"initAgentNameProperty": "who", "initUserMessageProperty": "task"}
    async with home(agent, config, [call("worker", task="Do", who="Ada"), DONE]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        assert (child.name, child.tags, await at.heard(child.id)) == ("Ada", ("name:Ada",), ["Do"])


# ── resumable agents ────────────────────────────────────────────────────────────────────────────────────────────


@requirement("S0-5-3", "S0-6-1", "S0-6-4")
async def test_an_agent_that_lives_on_is_created_and_goes_on_with_its_history() -> None:
    agent = worker([{"text": "Yes?"}])

    def turns(reference: str) -> list[object]:
        return [call("subagent_message", reference=reference, message="And now?"), DONE]

    async with home(agent, RESUMABLE, [create(message="Hello"), DONE]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        assert (child.child_status, child.tags) == ("idle", ("name:Ada",))
        assert await at.results(thread.id) == [
            {"reference": child.id, "name": "Ada", "status": "idle", "result": "Yes?"}
        ]
        at.boss.says(turns(child.id))
        await at.run(thread.id)
        assert (await at.results(thread.id))[1:] == [
            {"reference": child.id, "name": "Ada", "status": "idle", "result": "Yes?"}
        ]
        assert await at.heard(child.id) == ["Hello", "And now?"]
        asked = [m.content for m in model_of(agent).requests[-1].messages]
        assert asked == ["Hello", "Yes?", "And now?"]
        assert [c.id for c in await at.children(thread.id)] == [child.id]


@requirement("S0-6-3")
@pytest.mark.parametrize("name", ["", "  ", None])
async def test_a_name_is_required(name: str | None) -> None:
    args: dict[str, object] = {"agent": "worker", "message": "Hi"}
    args |= {} if name is None else {"name": name}
    async with home(worker([DONE]), RESUMABLE, [call("subagent_create", **args), DONE]) as at:
        thread = await at.ran()
        [result] = await at.results(thread.id)
        assert result["error_code"] == "invalid_arguments"
        assert "name" in result["error"]
        assert await at.children(thread.id) == []


@requirement("S0-6-2")
async def test_the_lifecycle_tools_are_there_only_with_an_agent_that_lives_on() -> None:
    lifecycle = ["subagent_create", "subagent_message"]
    offers: list[tuple[Config, list[str]]] = [({}, ["worker"]), (RESUMABLE, lifecycle)]
    for config, names in offers:
        async with home(worker([DONE]), config, [DONE]) as at:
            await at.run((await at.thread()).id)
            assert [tool.name for tool in at.boss.requests[0].tools] == names


@requirement("S0-5-1", "S0-6-2")
async def test_no_more_than_the_most_instances_are_created() -> None:
    config = {"resumable": {"receives_messages": "side_a", "maxInstances": 1}}
    both = [{"name": "subagent_create", "args": {"agent": "worker", "name": name}} for name in "AB"]
    turns: list[object] = [{"calls": both}, create(name="C"), DONE]
    async with home(worker([{"text": "Hi"}]), config, turns) as at:
        thread = await at.ran()
        first, second, third = await at.results(thread.id)
        assert first["status"] == "idle"
        assert second["error_code"] == "max_instances"
        assert third == second
        assert [[t.name for t in r.tools] for r in at.boss.requests] == [
            ["subagent_create", "subagent_message"], ["subagent_message"], ["subagent_message"],
        ]  # fmt: skip


async def test_an_empty_message_to_a_child_is_an_error() -> None:
    async with home(worker([{"text": "Hi"}]), RESUMABLE, [create(message="Hello"), DONE]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        at.boss.says([call("subagent_message", reference=child.id, message=" "), DONE])
        await at.run(thread.id)
        assert (await at.results(thread.id))[-1]["error"] == "message is empty."
        assert await at.heard(child.id) == ["Hello"]


async def test_another_threads_reference_is_as_if_it_were_not_there() -> None:
    async with home(worker([{"text": "Hi"}]), RESUMABLE, [create(message="Hello"), DONE]) as at:
        first, second = await at.thread(), await at.thread()
        await at.run(first.id)
        [child] = await at.children(first.id)
        for reference in (child.id, first.id, "thr_nowhere"):
            at.boss.says([call("subagent_message", reference=reference, message="Hi"), DONE])
            await at.run(second.id)
            assert (await at.results(second.id))[-1]["error"] == f"There is no subagent {reference!r}."
        at.boss.says([call("subagent_message", reference="x" * 100_000, message="Hi"), DONE])
        await at.run(second.id)
        assert len((await at.results(second.id))[-1]["error"]) < 300
        assert await at.heard(child.id) == ["Hello"]


@requirement("S0-5-9")
@pytest.mark.parametrize("communication", ["implicit", "explicit"])
async def test_the_end_of_every_session_is_reported_once_or_not_at_all(communication: str) -> None:
    config = {
        "blocking": False,
        "resumable": {"receives_messages": "side_a", "parentCommunication": communication},
    }
    turns = [{"when": "[Subagent", "text": "Thanks."}, create(message="Do"), DONE]
    async with home(worker([{"text": "Ready."}]), config, turns) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)

        [first] = await at.rt.runs.list(thread_id=child.id)
        await at.rt.runs.wait(first.id, 10)
        for _ in range(2):  # two more sessions, from outside
            await at.run(child.id)
        inbox = [event for event in await journal(at.rt).inbox(thread.id) if event.type == "subagent"]
        assert len(inbox) == (3 if communication == "implicit" else 0)
        assert len({event.event_id for event in inbox}) == len(inbox)


@requirement("S0-5-9")
async def test_nor_is_a_failure_reported_of_a_child_that_speaks_for_itself() -> None:
    config = {
        "blocking": False,
        "resumable": {"receives_messages": "side_a", "parentCommunication": "explicit"},
    }
    failing = worker([{"fail": "refused", "message": "No."}])
    async with home(failing, config, [create(message="Do"), DONE]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        [session] = await at.rt.runs.list(thread_id=child.id)
        assert (await at.rt.runs.wait(session.id, 10)).status == "failed"
        [child] = await at.children(thread.id)
        assert child.child_status == "failed"
        assert [each.type for each in await journal(at.rt).inbox(thread.id)] == ["message"]


@requirement("S0-5-9", "S0-7-2")
async def test_a_child_tells_its_parent_what_it_wants() -> None:
    @tw.tool(description="Tells.")
    async def tell(state: tw.ThreadState) -> str:
        parent = await state.get_parent_thread()
        assert parent is not None
        report = tw.Attachment(name="report.txt", mime_type="text/plain", data="aGk=")
        await state.notify_parent("Half done.", [report])
        return parent.thread_id

    config = {"resumable": {"receives_messages": "side_a", "parentCommunication": "explicit"}}
    turns = [{"when": "[Subagent", "text": "Thanks."}, create(message="Do"), DONE]
    async with home(worker([call("tell"), {"text": "Ready."}], [tell]), config, turns) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        assert await at.results(thread.id) == [{"reference": child.id, "name": "Ada", "status": "idle"}]
        assert await at.results(child.id) == [thread.id]

        async def told() -> bool:
            return len(await at.heard(thread.id)) == 2

        await until(at.rt, thread.id, told)
        notice = [m for m in await at.rt.threads.messages(thread.id) if m.role == "user"][1]
        assert notice.content == f'[Subagent: Ada] (reference: {child.id}, status: running) "Half done."'
        assert [ref.path for ref in notice.attachments] == ["/attachments/report.txt"]
        assert await at.rt.files.read(thread.id, "/attachments/report.txt") == b"hi"


@requirement("S0-5-1")
async def test_messages_are_for_the_side_that_receives_them() -> None:
    side_b = tw.Prompt("reviewer", "You review.", model=Watched([{"text": "Good."}]))
    agent = worker([{"text": "Thanks."}], type="dual_ai", side_b=side_b, max_session_turns=1)
    async with home(
        agent, {"resumable": {"receives_messages": "side_b"}}, [create(message="Look"), DONE]
    ) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        said = [(m.side, m.content) for m in await at.rt.threads.messages(child.id) if m.role == "assistant"]
        assert said == [("side_b", "Good."), ("side_a", "Thanks.")]


class Query(BaseModel):
    """Arguments of the worker's call."""

    query: str
    depth: int = 1


@pytest.mark.parametrize("arguments", [None, {}, {"depth": 2}, {"query": "Other"}])
async def test_the_message_of_subagent_create_is_the_property_that_says_what_a_child_is_told(
    arguments: dict[str, Any] | None,
) -> None:
    config = {"initUserMessageProperty": "query", "resumable": {"receives_messages": "side_a"}}
    agent = worker([{"text": "Ready."}], required_schema=Query)
    more = {} if arguments is None else {"arguments": arguments}
    async with home(agent, config, [create(message="Look", **more), DONE]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        assert await at.heard(child.id) == ["Look"]
        assert child.arguments == {"query": "Look", "depth": 1} | (arguments or {})


@pytest.mark.parametrize("name", ["two\nlines", "x" * 201, "a\u2028b", " ", "\u202eab", "\u200b"])
async def test_the_name_of_a_child_is_one_line_of_at_most_200_characters(name: str) -> None:
    config = {"resumable": {"receives_messages": "side_a"}}
    async with home(worker([DONE]), config, [create(message="Do", name=name), DONE]) as at:
        thread = await at.ran()
        [answer] = await at.results(thread.id)
        assert "name" in answer["error"]
        assert await at.children(thread.id) == []
    config = {"initAgentNameProperty": "label"}
    async with home(worker([DONE]), config, [call("worker", message="Do", label=name), DONE]) as at:
        thread = await at.ran()
        [answer] = await at.results(thread.id)
        assert answer["error"] == "The name of a subagent must be one line of 1 to 200 characters."
        assert await at.children(thread.id) == []


@pytest.mark.parametrize(
    ("flag", "on"), [("true", True), ("Yes", True), ("1", True), (" true", False), ("on", False)]
)
async def test_a_flag_is_on_for_the_values_that_are_named_and_no_others(flag: str, on: bool) -> None:
    async with home(worker([DONE]), {"optional": "WORKERS"}, [DONE]) as at:
        await at.ran(env={"WORKERS": flag})
        assert [tool.name for tool in at.boss.requests[0].tools] == (["worker"] if on else [])


async def test_a_flag_is_text_whatever_it_is_stored_as() -> None:
    async with home(worker([DONE]), {"optional": "WORKERS"}, [{"text": "It is true, says Yes."}]) as at:
        with pytest.raises(InvalidRequest, match="WORKERS is a flag: store it as text, not as a secret"):
            await at.thread(env={"WORKERS": {"value": "true", "type": "secret"}})
        ada = await at.rt.entities.create(external_id="ada")
        await at.rt.entities.set_env(ada.id, {"WORKERS": "true"})  # of an unknown agent: a secret
        thread = await at.thread(user_id="ada")
        run = await at.run(thread.id)
        assert [tool.name for tool in at.boss.requests[0].tools] == ["worker"]
        assert run.output == "It is true, says Yes."


@requirement("S0-5-8")
async def test_a_flag_turns_an_agent_on_and_off_at_every_step() -> None:
    @tw.tool(description="Turns it.")
    async def turn(state: tw.ThreadState, flag: str) -> str:
        state.set_env("WORKERS", flag, "text")
        return "turned"

    turns = [call("turn", flag="YES"), call("turn", flag="0"), DONE]
    async with home(worker([DONE]), {"optional": "WORKERS"}, turns, [turn]) as at:
        await at.run((await at.thread()).id)
        offered = [[tool.name for tool in request.tools] for request in at.boss.requests]
        assert offered == [["turn"], ["turn", "worker"], ["turn"]]


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("S0-7-1", "S0-7-2", "S0-7-3")
async def test_files_are_copied_both_ways_under_free_names() -> None:
    @tw.tool(description="Draws.")
    async def draw(state: tw.ThreadState) -> tw.ToolResult:
        given = [ref.path for ref in await state.list_files()]
        assert given == ["/attachments/chart.txt"]
        assert await state.read_file(given[0]) == b"parent"
        made = tw.Attachment(name="chart.txt", mime_type="text/plain", data="Y2hpbGQ=")
        return tw.ToolResult.ok("drawn", (made,))

    @tw.tool(description="Begins.")
    async def begin() -> tw.ToolResult:
        return tw.ToolResult.ok(
            "", (tw.Attachment(name="chart.txt", mime_type="text/plain", data="cGFyZW50"),)
        )

    agent = worker([call("draw"), {"text": "Here it is."}], [draw])
    turns = [call("begin"), call("worker", message="Draw", files="/attachments/chart.txt"), DONE]
    async with home(agent, {"initAttachmentsProperty": "files"}, turns, [begin]) as at:
        thread = await at.ran()
        answer = [m for m in await at.rt.threads.messages(thread.id) if m.role == "tool"][-1]
        assert [ref.path for ref in answer.attachments] == ["/attachments/chart-2.txt"]
        assert await at.rt.files.read(thread.id, "/attachments/chart-2.txt") == b"child"
        assert await at.rt.files.read(thread.id, "/attachments/chart.txt") == b"parent"
        [child] = await at.children(thread.id)
        assert await at.rt.files.read(child.id, "/attachments/chart-2.txt") == b"child"
        first = next(m for m in await at.rt.threads.messages(child.id) if m.role == "user")
        assert [ref.path for ref in first.attachments] == ["/attachments/chart.txt"]


async def test_a_file_that_is_not_there_makes_the_call_an_error_and_no_child() -> None:
    turns = [call("worker", message="Draw", files="/nowhere.txt"), DONE]
    async with home(worker([DONE]), {"initAttachmentsProperty": "files"}, turns) as at:
        thread = await at.ran()
        [result] = await at.results(thread.id)
        assert result["error"] == "There is no file '/nowhere.txt' in this thread."
        assert await at.children(thread.id) == []


# ── in parallel ─────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("S0-5-4")
async def test_an_agent_runs_before_the_first_step_once() -> None:
    agent = worker([{"text": "Prepared."}])
    async with home(agent, {"immediate": True}, [DONE]) as at:
        thread = await at.ran("Begin")
        await at.run(thread.id, "Again")
        assert len(await at.children(thread.id)) == 1
        assert [m.role for m in at.boss.requests[0].messages] == ["user", "assistant", "tool"]
        assert at.boss.requests[0].messages[-1].content == "Prepared."
        [child] = await at.children(thread.id)
        assert await at.heard(child.id) == ["Begin"]
        _valid(await at.rt.threads.messages(thread.id))


@requirement("S0-5-5", "S0-5-6", "S0-5-7", "S0-5-10")
async def test_a_child_for_each_group_of_values_which_no_model_sees() -> None:
    seen: list[str | None] = []

    @tw.tool(description="Looks.")
    async def look(state: tw.ThreadState) -> str:
        seen.append(await state.env("API_KEY"))
        return f"It is {await state.env('API_KEY')}."

    agent = worker([call("look"), {"text": "Looked."}], [look])
    immediate = {"nameEnv": "SITE", "descriptionEnv": "ABOUT", "scopedEnv": ["API_KEY", "SITE"]}
    env: Any = {
        "API_KEY_A": {"value": "plain-key-of-a", "type": "text"},
        "API_KEY_B": "secret-key-of-b",
        "API_KEY_C": "without-a-site",
        "SITE_A": {"value": "Alpha", "type": "text"},
        "SITE_B": {"value": "Beta", "type": "text"},
        "ABOUT_A": {"value": "Look at Alpha", "type": "text"},
    }
    async with home(agent, {"immediate": immediate, "blocking": False}, [DONE]) as at:
        thread = await at.ran("Begin", env=env)

        async def over(child_id: str) -> bool:
            return (await at.rt.threads.get(child_id)).child_status == "terminated"

        for child in await at.children(thread.id):
            await until(at.rt, child.id, partial(over, child.id))
        assert sorted(str(key) for key in seen) == ["plain-key-of-a", "secret-key-of-b"]
        children = await at.children(thread.id)
        assert sorted([str(c.name) for c in children]) == ["Alpha", "Beta"]
        told = {c.name: (await at.heard(c.id))[0] for c in children}
        assert told == {"Alpha": "Look at Alpha", "Beta": "Begin"}
        shown = [
            m.content for request in [*at.boss.requests, *model_of(agent).requests] for m in request.messages
        ]
        shown += [c.arguments for request in at.boss.requests for m in request.messages for c in m.calls]
        assert not [text for text in shown if "plain-key" in text or "secret-key" in text]
        assert any("[redacted:API_KEY]" in text for text in shown)


async def test_a_secret_is_not_taken_for_a_name() -> None:
    agent = worker([DONE])
    async with home(agent, {"immediate": {"nameEnv": "SITE", "scopedEnv": ["SITE"]}}, [DONE]) as at:
        with pytest.raises(
            InvalidRequest, match="SITE is shown to models: store it as text, not as a secret"
        ):
            await at.thread(env={"SITE": {"value": "Alpha-is-secret", "type": "secret"}})
        ada = await at.rt.entities.create(external_id="ada")
        await at.rt.entities.set_env(ada.id, {"SITE": "of-nobody-knows-which-agent"})
        thread = await at.thread(user_id="ada")
        run = await at.run(thread.id)
        assert (run.status, run.error) == (
            "failed",
            "SITE is shown to models: store it as text, not as a secret.",
        )
        assert await at.children(thread.id) == []


# ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _valid(messages: Sequence[Message]) -> None:
    """Check that every call is answered once."""
    calls = [c.id for m in messages for c in m.calls]
    answers = [m.call_id for m in messages if m.role == "tool"]
    assert sorted(calls) == sorted(str(each) for each in answers)


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.idle_clock
async def test_cancelling_a_parent_cancels_its_children_and_theirs(blocking: bool) -> None:
    work, begun = hanging("work")

    deep = tw.Agent(
        "deep", tw.Prompt("deep", model=testing.ScriptedModel([call("work")]), tools=[work]),
        expose_as_tool=True, tool_description="Works.",
    )  # fmt: skip
    middle = tw.Agent(
        "worker",
        tw.Prompt("middle", model=testing.ScriptedModel([call("deep", message="Do")]), tools=[{"name": "deep"}]),
        expose_as_tool=True, tool_description="Leads.",
    )  # fmt: skip
    wait = tw.Tool.from_config(
        {
            "name": "wait",
            "description": "Waits.",
            "inputSchema": {"type": "object"},
            "executionType": "external",
        }
    )
    turns = [call("worker", message="Do"), call("wait")]
    boss = tw.Prompt(
        "boss", model=testing.ScriptedModel(turns), tools=[wait, {"name": "worker", "blocking": blocking}]
    )
    async with journals.runtime(tw.App(agents=[tw.Agent("boss", boss), middle, deep])) as rt:
        run = await send_to(rt, "boss")
        await begun.wait()
        await rt.runs.cancel(run.id)
        assert (await rt.runs.wait(run.id, 10)).status == "cancelled"
        [child] = await rt.threads.children(run.thread_id)
        [grandchild] = await rt.threads.children(child.id)
        for one in (child, grandchild):
            [ended] = await rt.runs.list(thread_id=one.id)
            assert (await rt.runs.wait(ended.id, 20)).status == "cancelled"
            _valid(await rt.threads.messages(one.id))
        _valid(await rt.threads.messages(run.thread_id))
        assert await journal(rt).inbox(run.thread_id, 10, 1) == []
        assert [r.id for r in await rt.runs.list(thread_id=run.thread_id)] == [run.id]


@pytest.mark.idle_clock
async def test_a_child_that_is_cancelled_by_itself_is_an_error_of_the_call() -> None:
    work, begun = hanging("work")

    async with home(worker([call("work")], [work]), {}, [call("worker", message="Do"), DONE]) as at:
        thread = await at.thread()
        run = await at.rt.threads.send(thread.id, "Go")
        await begun.wait()
        [child] = await at.children(thread.id)
        assert child.run_id is not None
        await at.rt.runs.cancel(child.run_id)
        assert (await at.rt.runs.wait(run.id, 20)).output == "Done."
        [result] = await at.results(thread.id)
        assert result["error"] == "The session was cancelled."


async def test_the_child_of_a_prompt_tool_is_a_child_of_the_thread() -> None:
    asking: Any = tw.Prompt(
        "asking",
        "You ask.",
        model=Watched([call("worker", message="Do"), {"text": "Asked."}]),
        tools=[{"name": "worker"}],
        expose_as_tool=True,
        tool_description="Asks.",
    )
    boss = tw.Prompt(
        "boss", model=Watched([call("asking", message="?"), call("count"), DONE]), tools=["asking", count]
    )
    app = tw.App(agents=[tw.Agent("boss", boss), worker([DONE])], prompts=[asking])
    async with journals.runtime(app) as rt:
        run = await ran(rt, "boss")
        told = [m.content for m in await rt.threads.messages(run.thread_id) if m.role == "tool"]
        assert (json.loads(told[0])["text"], told[1]) == ("Asked.", "1 there")


async def test_the_child_of_one_side_is_seen_by_the_other() -> None:
    asks = tw.Prompt(
        "asks", model=Watched([{"text": "Go on."}, call("count"), {"text": "So."}]), tools=[count]
    )
    makes = tw.Prompt(
        "makes", model=Watched([call("worker", message="Do"), DONE]), tools=[{"name": "worker"}]
    )
    pair = tw.Agent("pair", type="dual_ai", side_a=asks, side_b=makes, max_session_turns=2)
    async with journals.runtime(tw.App(agents=[pair, worker([DONE])])) as rt:
        run = await ran(rt, "pair")
        told = [m.content for m in await rt.threads.messages(run.thread_id) if m.tool_name == "count"]
        assert told == ["1 there"]


class Wants(BaseModel):
    topic: str


@requirement("S0-6-3")
async def test_one_that_lives_on_is_created_with_arguments_of_its_schema() -> None:
    agent = worker([DONE], required_schema=Wants)
    turns = [create(arguments={"subject": "rain"}), create(arguments={"topic": "rain"}), DONE]
    async with home(agent, RESUMABLE, turns) as at:
        thread = await at.ran()
        refused, made = await at.results(thread.id)
        assert refused["error_code"] == "invalid_arguments"
        assert refused["error"].startswith("Invalid arguments: arguments.")
        assert "arguments.topic: is missing" in refused["error"]
        assert made["status"] == "idle"
        [child] = await at.children(thread.id)
        assert child.arguments == {"topic": "rain"}
        [tool] = [each for each in at.boss.requests[0].tools if each.name == "subagent_create"]
        assert '"required":["topic"]' in tool.description


async def test_a_terminated_child_is_never_spoken_to_again() -> None:
    @tw.tool(description="Ends it.")
    async def end(state: tw.ThreadState) -> str:
        [child] = state.children
        assert (child.name, child.status) == ("Ada", "idle")
        kin = await state.get_child_thread(child.reference)
        assert kin is not None
        await state.terminate(child.reference)
        again = await state.get_child_thread(child.reference)
        assert again is not None
        for each in (kin, again):
            assert each.status == "terminated"
            with pytest.raises(InvalidRequest, match="is terminated"):
                each.queue_message("Hello?")
            with pytest.raises(InvalidRequest, match="limit of messages"):
                await each.get_messages(-1)
        assert [each.status for each in state.children] == ["terminated"]
        return child.reference

    async with home(
        worker([{"text": "Hi"}]), RESUMABLE, [create(message="Hello"), call("end"), DONE], [end]
    ) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        assert child.child_status == "terminated"
        at.boss.says([call("subagent_message", reference=child.id, message="Hi"), DONE])
        await at.run(thread.id)
        assert (await at.results(thread.id))[-1]["error_code"] == "terminated"


async def test_a_thread_ends_itself_and_tells_its_parent() -> None:
    @tw.tool(description="Ends.")
    async def end(state: tw.ThreadState) -> str:
        await state.terminate()
        return "ended"

    async with home(
        worker([{"text": "Bye.", **call("end")}], [end]), RESUMABLE, [create(message="Hello"), DONE]
    ) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        assert await at.results(thread.id) == [
            {"reference": child.id, "name": "Ada", "status": "terminated", "result": "Bye."}
        ]
        assert child.child_status == "terminated"


@requirement("S0-6-5")
async def test_a_child_without_required_scoped_variables_asks_for_them() -> None:
    key = tw.Variable("API_KEY", type="secret", scoped=True, description="Whose?")
    async with home(worker([DONE], variables=[key]), {}, [call("worker", message="Do"), DONE]) as at:
        thread = await at.ran(env={"API_KEY": "the-parent's-own-key"})
        [result] = await at.results(thread.id)
        [request] = await journal(at.rt).children.requests(thread.id)
        assert result == {
            "error": "The agent 'worker' requires values of its own: API_KEY.",
            "error_code": "subagent_env_required",
            "requestId": request.id,
            "required": [{"name": "API_KEY", "type": "secret", "description": "Whose?"}],
            "missing": ["API_KEY"],
            "variablesEndpoint": f"/threads/{thread.id}/variables/{request.id}",
        }
        assert (request.kind, await at.children(thread.id)) == ("child", [])


async def test_a_child_without_required_tenvs_is_not_made() -> None:
    class Needs(BaseModel):
        place: str

    @tw.tool(description="Looks.", tenvs=Needs)
    async def look() -> str:
        return ""

    async with home(worker([DONE], [look]), {}, [call("worker", message="Do"), DONE]) as at:
        thread = await at.ran()
        [result] = await at.results(thread.id)
        assert result["error_code"] == "tenvs_required"
        assert await at.children(thread.id) == []


async def test_followers_are_notified_of_children() -> None:
    async with home(worker([{"text": "Hi"}]), RESUMABLE, [create(message="Hello"), DONE]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        happened = [
            (event.type, event.payload["status"])
            for event in await at.rt.events.list(Topic(kind="thread", id=thread.id))
            if event.type.startswith("subagent.")
        ]
        assert happened == [("subagent.created", "running"), ("subagent.finished", "idle")]
        told = await at.rt.events.list(Topic(kind="thread", id=thread.id))
        named = [event.payload["agentId"] for event in told if event.type.startswith("subagent.")]
        assert named == [child.agent, child.agent]
        assert child.name == "Ada"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"name": "worker", "blockin": True}, "SubagentToolConfig is invalid: there is no field 'blockin'."),
        ({"blocking": True}, "Prompt 'boss': a called agent or prompt needs a name."),
    ],
)
def test_an_invalid_relationship_is_refused(config: Any, sentence: str) -> None:
    boss = tw.Agent("boss", tw.Prompt("boss", tools=[config]))
    with pytest.raises(DefinitionError) as refused:
        tw.App(agents=[boss, worker([DONE])])
    assert refused.value.message == sentence


# ── races ───────────────────────────────────────────────────────────────────────────────────────────────────────


store = store_on("memory", "sqlite", "postgres")


def leader(config: Config, turns: Sequence[object]) -> tw.Agent:
    prompt = tw.Prompt("boss", model=testing.ScriptedModel(turns), tools=[{"name": "worker", **config}])
    return tw.Agent("boss", prompt)


async def test_of_two_who_create_the_last_instance_at_once_one_is_refused(store: OpenStore) -> None:
    config = {"resumable": {"receives_messages": "side_a", "maxInstances": 1}}
    async with kin(store, leader(config, [create(message="Hi"), DONE]), worker([{"text": "Hi"}])) as rig:

        async def overtake(_: int, unit: Unit) -> None:
            begins = (
                [each for each in unit.effects if isinstance(each, Spawn)] if isinstance(unit, Result) else []
            )
            for one in begins:
                thread = replace(one.thread, id="thr_other", run_id="run_other")
                other = Spawn(
                    thread_id="thr_other",
                    thread=thread,
                    event=replace(one.event, thread_id="thr_other", event_id="msg_other"),
                    run=replace(one.run, id="run_other", thread_id="thr_other"),
                    queued=one.queued,
                )
                await rig.store.commit(Apply(token="other", at=unit.at, effects=(other,)))

        rig.store.before = overtake
        thread = await rig.rt.threads.create("boss")
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        assert run.output == "Done."
        assert [each.id for each in await rig.rt.threads.children(thread.id)] == ["thr_other"]
        [answer] = [m for m in await rig.transcript(thread.id) if m.role == "tool"]
        assert json.loads(answer.content)["error_code"] == "max_instances"


async def test_a_child_that_has_just_become_busy_keeps_its_own_end(store: OpenStore) -> None:
    @tw.tool(description="Speaks to it.")
    async def again(state: tw.ThreadState) -> object:
        [child] = state.children
        result = await state.invoke_tool(
            "subagent_message", {"reference": child.reference, "message": "Again"}
        )
        return result.error or result.result

    prompt = tw.Prompt(
        "boss",
        model=testing.ScriptedModel([create(message="Hi"), call("again"), DONE]),
        tools=[again, {"name": "worker", **RESUMABLE}],
    )
    async with kin(store, tw.Agent("boss", prompt), worker([{"text": "Hi"}])) as rig:
        overtaken: list[str] = []

        async def overtake(_: int, unit: Unit) -> None:
            if not isinstance(unit, Result) or overtaken:
                return
            if any(isinstance(each, Speak) and each.report for each in unit.effects):
                [child] = await rig.rt.threads.children(unit.thread_id)
                overtaken.append((await rig.rt.threads.send(child.id, "From outside")).id)

        rig.store.before = overtake
        run = await ran(rig.rt, "boss")
        assert (run.output, len(overtaken)) == ("Done.", 1)
        answer = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"][-1]
        busy = "is now busy. Send the message again." in answer.content
        assert busy or json.loads(answer.content)["status"] == "idle"  # it can be idle again by then
        assert (await rig.rt.runs.wait(overtaken[0], 10)).status == "completed"
