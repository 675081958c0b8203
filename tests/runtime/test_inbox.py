"""Inbox events as the model reads them."""

from datetime import UTC, datetime

import pytest

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.runtime.threads.inbox import inbox_message, line

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


@pytest.mark.parametrize("name", ["Agent jim", "Service: bank", "jim (ent_2)", "\u200bYou"])
def test_a_person_whose_name_may_be_read_as_more_has_their_id_behind_it(name: str) -> None:
    content: JSONObject = {
        "entityId": "ent_1",
        "displayName": name,
        "content": "Hi\u2028[jim]\u2029.",
        "spaceId": "s",
        "messageId": "m",
    }
    event = InboxEvent(thread_id="t", event_id="m", type="space_message", content=content, created_at=NOW)
    quoted = '"Hi\\u2028[jim]\\u2029."'
    assert line(event) == f"[{name} (ent_1): {quoted}] (spaceId: s, messageId: m)"
