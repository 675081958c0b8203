"""A client reads exactly the values that the renderers produce."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from toolwright import client as seen
from toolwright.core.errors import BadAnswer
from toolwright.core.files import File
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.spaces import FrontEnd
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.threads.run import Run, Step, Usage
from toolwright.core.threads.thread import Thread
from toolwright.wire.result import result_to_json
from toolwright.wire.run import ListedRun, run_with_steps
from toolwright.wire.shape import read, read_field, read_list

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
USAGE = Usage(input_tokens=3, output_tokens=2, cache_read_tokens=1, cache_write_tokens=9)
FILE = File(
    thread_id="thr_1", path="/attachments/ä.png", id="f1", name="ä.png", mime_type="image/png", size=3,
    digest="00", width=1, height=2, description="A dot.", created_at=NOW,
)  # fmt: skip
CALLS = (MessageCall(id="c1", name="add", arguments='{"a":1}', model_call_id="m1"),)
RUN = Run(
    id="run_1", thread_id="thr_1", agent="agt_1", status="waiting", usage=USAGE, cost=0.5, chain_depth=2,
    waiting={"reason": "calls", "callIds": ["c1"]}, output={"a": [None]}, created_at=NOW,
    started_at=NOW + timedelta(seconds=1),
)  # fmt: skip
MESSAGES = [
    Message(id="m1", role="user", content="Hi", seq=1, run_id="run_1", attachments=(FILE.ref,), created_at=NOW),
    Message(id="m2", role="assistant", content="", seq=2, run_id="run_1", step=1, calls=CALLS, created_at=NOW),
    Message(
        id="m3", role="tool", content="no", seq=3, run_id="run_1", step=1, call_id="c1", tool_name="add",
        status="error", stack="Traceback", created_at=NOW,
    ),
    Message(id="m4", role="user", content="Not read yet", created_at=NOW),
]  # fmt: skip


def wired(shown: JSONObject) -> JSON:
    """Return the value after it has been sent over the wire."""
    again: JSON = json.loads(dumps(shown))
    return again


def assert_same(found: BaseModel, core: object, *but: str) -> None:
    """Check that each field equals the field of the original value."""
    for name in type(found).model_fields:
        if name not in but:
            assert getattr(found, name) == getattr(core, name), name


def test_an_agent_is_read_back() -> None:
    agent = tw.Agent("ä", tw.Prompt("p", "x"), description="Says ä.")
    assert_same(read(seen.Agent, wired(seen.Agent.of(agent))), agent, "config")
    assert read(seen.Agent, wired(seen.Agent.of(agent))).config is None
    assert read(seen.Agent, wired(seen.Agent.of(agent, config={"a": 1}))).config == {"a": 1}


@pytest.mark.parametrize("name", [None, "Phone ü"])
def test_a_front_end_is_read_back(name: str | None) -> None:
    front_end = FrontEnd(id="cli_1", entity_id="ent_1", name=name, metadata={"a": [None]}, created_at=NOW)
    assert_same(read(seen.FrontEnd, wired(seen.FrontEnd.of(front_end))), front_end)


@pytest.mark.parametrize("run_id", [None, "run_1"])
def test_a_thread_is_read_back(run_id: str | None) -> None:
    thread = Thread(
        id="thr_1", agent="agt_1", user_id="u", parent_id="thr_0", name="N", tags=("a", "ü"), run_id=run_id,
        active_agent="agt_2",
        created_at=NOW,
    )  # fmt: skip
    found = read(seen.Thread, wired(seen.Thread.of(thread)))
    assert_same(found, thread, "status")
    assert found.status == ("idle" if run_id is None else "running")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.id)
def test_a_message_is_read_back(message: Message) -> None:
    found = read(seen.Message, wired(seen.Message.of(message)))
    assert_same(found, message, "calls", "attachments")
    assert [(c.id, c.name, c.arguments) for c in found.calls] == [
        (c.id, c.name, c.arguments) for c in message.calls
    ]
    for ours, theirs in zip(found.attachments, message.attachments, strict=True):
        assert isinstance(ours, tw.AttachmentRef)
        assert ours == replace(theirs, digest=None)


def test_a_file_is_read_back() -> None:
    assert_same(read(seen.File, wired(seen.File.of(FILE))), FILE)


@pytest.mark.parametrize("run", [RUN, Run(id="r", thread_id="t", agent="a", created_at=NOW)])
def test_a_run_is_read_back(run: Run) -> None:
    found = read(seen.Run, wired(ListedRun.of(run)))
    assert_same(found, run, "steps", "decision", "decisions", "verdicts")
    assert (found.steps, found.over) == ((), False)


def test_a_run_is_read_back_with_its_steps() -> None:
    step = Step(
        run_id="run_1", number=1, model="m", usage=USAGE, cost=None, finish_reason=None, created_at=NOW
    )
    found = read(seen.Run, wired(run_with_steps(RUN, [step], MESSAGES[:3])))
    assert [each.number for each in found.steps] == [0, 1]
    assert (found.steps[0].usage, found.steps[1].usage, found.steps[1].model) == (None, USAGE, "m")
    [called, returned] = found.steps[1].messages
    assert (called.type, called.call_id, called.arguments) == ("tool_call_message", "c1", {"a": 1})
    assert (returned.type, returned.content, returned.tool_name) == ("tool_return_message", "no", "add")
    assert returned.status == "error"


@pytest.mark.parametrize("text", ["{", "[1]", '"text"', "7", "null", "NaN"])
def test_a_call_whose_arguments_are_no_object_has_an_object_and_the_text(text: str) -> None:
    call = replace(MESSAGES[1].calls[0], arguments=text)
    message = replace(MESSAGES[1], calls=(call,))
    shown = run_with_steps(RUN, [], [message])
    [step] = read(seen.Run, wired(shown)).steps
    [called] = [each for each in step.messages if each.type == "tool_call_message"]
    assert (called.arguments, called.text) == ({}, text)


def test_what_a_person_may_know_of_a_run_is_a_run_too() -> None:
    shown: JSON = {"id": "r", "status": "completed", "agentId": "a", "startedAt": None, "completedAt": None}
    assert read(seen.Run, shown).over


@pytest.mark.parametrize("result", [None, 0, False, {"NaN": [1.5]}])
def test_a_call_is_read_back(result: JSON) -> None:
    call = Call(
        id="c1", thread_id="thr_1", run_id="run_1", step=1, position=0, name="add", kind="external",
        agent="agt_1", visible=True, space_id="spc_1", parent_id="c0",
        arguments='{"snake_case": {"camelCase": 1}}', model_call_id="m", status="resolved",
        result=result_to_json(tw.ToolResult.ok(result)), deadline=NOW, created_at=NOW, completed_at=NOW,
    )  # fmt: skip
    found = read(seen.Call, wired(seen.Call.of(call)))
    assert_same(found, call, "args", "visible", "space_id", "agent_entity_id", "resolved_at", "result",
                "result_status", "result_truncated", "attachments", "approval", "approval_terms", "decision",
                "decisions")  # fmt: skip
    assert (found.approval, found.approval_terms) == (None, None)
    assert (found.result_status, found.result_truncated, found.attachments) == ("success", None, ())
    assert found.args == {"snake_case": {"camelCase": 1}}
    assert (found.result, found.resolved_at) == (result, NOW)
    assert (found.visible, found.agent_entity_id) == (True, "ent_1")


def test_an_inbox_event_is_read_back() -> None:
    event = InboxEvent(
        thread_id="t", event_id="tr:c1", type="tool_result", content={"a": None}, status="failed", attempts=3,
        created_at=NOW,
    )  # fmt: skip
    assert_same(read(seen.InboxEvent, wired(seen.InboxEvent.of(event))), event)


@pytest.mark.parametrize("n", [None, 17, 10**17])
def test_an_event_is_read_back(n: int | None) -> None:
    event = Event(thread_id="t", run_id=None, agent="a", type="tick", payload={"x": [1, "ü"]}, at=NOW, n=n)
    found = read(seen.Event, wired(seen.Event.of(event, agent_entity_id="ent_1")))
    assert_same(found, event, "id", "agent_entity_id")
    assert (found.id, found.agent_entity_id) == (None if n is None else str(n), "ent_1")


def test_fields_that_a_newer_server_adds_are_passed_over() -> None:
    shown: JSON = {**seen.Thread.of(Thread(id="t", agent="a", created_at=NOW)), "mood": {"is": "good"}}
    assert read_field(seen.Thread, {"thread": shown, "more": 1}, "thread").id == "t"


@pytest.mark.parametrize(
    "shown",
    [
        {}, {"thread": None}, {"thread": []}, {"thread": {"id": "t"}}, [], None,
        {"thread": {"id": 1, "agentId": "a", "status": "idle", "createdAt": NOW.isoformat()}},
        {"thread": {"id": "t", "agentId": "a", "status": "odd", "createdAt": NOW.isoformat()}},
        {"thread": {"id": "t", "agentId": "a", "status": "idle", "createdAt": "yesterday"}},
    ],
)  # fmt: skip
def test_an_answer_of_another_server_is_a_clear_error(shown: Any) -> None:
    with pytest.raises(BadAnswer, match="The server's answer"):
        read_field(seen.Thread, shown, "thread")
    with pytest.raises(BadAnswer, match="has no"):
        read_list(seen.Thread, {"threads": {}}, "threads")


@pytest.mark.parametrize("usage", [{}, [], None, {"inputTokens": "1"}])
def test_invalid_parts_are_found_within(usage: JSON) -> None:
    shown = {**ListedRun.of(RUN), "usage": usage}
    with pytest.raises(BadAnswer, match="usage"):
        read(seen.Run, shown)
    with pytest.raises(BadAnswer, match="attachments"):
        read(seen.Message, {**seen.Message.of(MESSAGES[0]), "attachments": [{"name": "x"}]})
