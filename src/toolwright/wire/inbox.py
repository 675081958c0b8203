"""Inbox events as JSON on the wire (API §4)."""

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.inbox import InboxEvent


def inbox_json(event: InboxEvent) -> JSONObject:
    """`{eventId, type, status, attempts, data, timestamp}`."""
    return {
        "eventId": event.event_id,
        "type": event.type,
        "status": event.status,
        "attempts": event.attempts,
        "data": event.content,
        "timestamp": event.created_at.isoformat(),
    }
