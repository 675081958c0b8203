"""An event keeps at most 8 KiB (JOURNAL, Events)."""

from datetime import UTC, datetime

import pytest

from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.threads.run import Run
from toolwright.wire.event import MAX_PAYLOAD, message_event, run_event, tool_event

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "said",
    [
        {"result": "\U0001f600" * 700},
        {"result": "\x00" * 1_400},
        {f"k{i}": "y" * 499 for i in range(100)},
        {"result": ["x" * 100] * 100},
        {"result": {"\U0001f600" * 100: 1}, **{"\x07" * 300 + str(i): i for i in range(9)}},
        {"result": 10**4_000, "status": 10**4_000, "seq": -(10**4_000)},
        {"id": "\U0001f600" * 9_000, "role": "\U0001f600" * 9_000, "status": "\U0001f600" * 9_000},
    ],
)
def test_a_large_result_leaves_only_the_ids(said: JSONObject) -> None:
    payload = tool_event("tool.error", "call_1", "add", said).payload
    assert len(dumps(payload)) <= MAX_PAYLOAD
    assert payload["truncated"] is True
    assert (payload["streamId"], payload["toolCallId"], payload["toolName"]) == ("call_1", "call_1", "add")


@pytest.mark.parametrize("result", ["x" * 8_000, "\U0001f600" * 600, list(range(1_000)), None, True, 1.5])
def test_what_fits_is_whole(result: JSON) -> None:
    payload = tool_event("tool.done", "call_1", "add", {"result": result}).payload
    assert payload["result"] == result
    assert len(dumps(payload)) <= MAX_PAYLOAD


def test_a_large_message_leaves_its_id_and_place() -> None:
    for text, calls in (
        ("\U0001f600" * 900, ()),
        ("", (MessageCall(id="c", model_call_id="c", name="n" * 9_000, arguments="{}"),)),
    ):
        said = Message(id="msg_1", role="assistant", content=text, seq=3, calls=calls, created_at=NOW)
        payload = message_event(said).payload
        assert payload == {"message": {"id": "msg_1", "role": "assistant", "seq": 3}, "truncated": True}


def test_a_long_error_of_a_run_is_left_out() -> None:
    run = Run(id="run_1", thread_id="t", agent="a", status="failed", error="e" * 9_000, created_at=NOW)
    assert run_event(run).payload == {"runId": "run_1", "status": "failed", "truncated": True}


def test_a_name_that_a_model_made_up_is_cut_to_what_an_event_holds() -> None:
    payload = tool_event("tool.error", "call_1", "n" * 9_000, {"error": "no"}).payload
    assert payload["truncated"] is True
    assert len(dumps(payload)) <= MAX_PAYLOAD


def test_what_a_tool_says_cannot_stand_for_the_ids() -> None:
    said: JSONObject = {"error": "no", "toolCallId": "another", "streamId": "another"}
    payload = tool_event("tool.error", "call_1", "add", said).payload
    assert (payload["toolCallId"], payload["streamId"]) == ("call_1", "call_1")


def test_a_message_that_is_long_for_certain_is_not_written_only_to_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(_: JSON) -> str:
        raise AssertionError("It was written.")

    monkeypatch.setattr("toolwright.wire.event.dumps", never)
    message = Message(id="msg_1", role="user", content="é" * MAX_PAYLOAD, created_at=NOW)
    assert message_event(message).payload["truncated"] is True
