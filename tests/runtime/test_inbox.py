"""What came to the inbox, as the model reads it."""

from datetime import UTC, datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.runtime.threads.inbox import inbox_message

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def test_a_late_result_keeps_its_letters_and_loses_what_is_hidden() -> None:
    content: JSONObject = {
        "toolName": "ask",
        "toolCallId": "call_1",
        "result": "Grüße \U000e0041\x07hidden",
    }
    event = InboxEvent(
        thread_id="t", event_id="tr:call_1", type="tool_result", content=content, created_at=NOW
    )
    run = Run(id="run_1", thread_id="t", agent="a", created_at=NOW)
    assert inbox_message([event], run, 1, 1).content == '[Tool Result: ask] (callId: call_1) "Grüße hidden"'
