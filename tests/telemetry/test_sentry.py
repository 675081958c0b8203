"""Sentry, by one setting: spans and exceptions as one trace, without secrets."""

from pathlib import Path

from tests.forks import Forks
from tests.telemetry.program import SECRET, lead
from tests.telemetry.receiver import receiving


def test_sentry_gets_the_spans_nested_and_an_exception_of_the_same_trace(
    tmp_path: Path, commands: Forks
) -> None:
    with receiving() as receiver:
        dsn = f"http://public@127.0.0.1:{receiver.port}/1"
        assert lead(tmp_path, commands, TOOLWRIGHT_SENTRY_DSN=dsn) == "completed True"
        spans = receiver.spans
        led, called = spans["invoke_agent boss"], spans["execute_tool fail"]
        step = next(
            span
            for span in receiver.all_spans
            if span.name == "step" and span.span_id == called.parent_span_id
        )
        assert step.parent_span_id == led.span_id
        raised = [event for event in receiver.events if "exception" in event]
        assert [event["exception"]["values"][0]["type"] for event in raised] == ["ValueError"]
        [event] = raised
        assert event["exception"]["values"][0]["value"] == "no luck with [redacted:KEY]"
        assert event["exception"]["values"][0]["stacktrace"]["frames"][-1]["function"] == "fail"
        assert event["contexts"]["trace"]["trace_id"] == called.trace_id.hex()
        assert event["contexts"]["trace"]["span_id"] == called.span_id.hex()
        assert SECRET.encode() not in receiver.text


def test_what_is_logged_as_an_error_is_an_event_of_the_same_trace(tmp_path: Path, commands: Forks) -> None:
    with receiving() as receiver:
        dsn = f"http://public@127.0.0.1:{receiver.port}/1"
        assert lead(tmp_path, commands, SENTRY_DSN=dsn) == "completed True"
        [logged] = [event for event in receiver.events if "logentry" in event]
        assert logged["logger"] == "mine"
        assert logged["contexts"]["trace"]["trace_id"] == receiver.spans["execute_tool fail"].trace_id.hex()
        assert "[redacted:KEY]" in str(logged["logentry"])
