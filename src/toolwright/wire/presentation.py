"""Presentations: how messages and events are shown to services, and to people."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Event
from toolwright.core.threads.message import Message
from toolwright.wire.message import message_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """How those of one kind are shown things.

    `event` gives the same object where an event holds nothing that they do not see.
    """

    message: Callable[[Message], JSONObject]
    event: Callable[[Event], Event]


def _whole(event: Event) -> Event:
    return event


def _message_without_stack(message: Message) -> JSONObject:
    shown = message_json(message)
    shown.pop("stack", None)
    return shown


def _event_without_stack(event: Event) -> Event:
    message = event.payload.get("message")
    if not isinstance(message, dict) or "stack" not in message:
        return event
    bare: JSONObject = {name: value for name, value in message.items() if name != "stack"}
    return replace(event, payload={**event.payload, "message": bare})


FOR_SERVICES = Presentation(message=message_json, event=_whole)
"""Services see all."""

FOR_PEOPLE = Presentation(message=_message_without_stack, event=_event_without_stack)
"""People see no stacks: where the server's code lies is for services alone."""
