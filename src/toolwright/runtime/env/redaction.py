"""Redaction of recorded and displayed data (D6), and re-encryption of secrets with the newest key."""

import json
import re
from collections.abc import Container
from typing import TypeVar

from toolwright.core.env.redact import Redactor
from toolwright.core.journal.effects import Add, AddPassage, Effect, Put, SetBlock, SetPlan
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Reseal
from toolwright.core.json_text import ValueCount
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.limits import MAX_JSON_VALUES
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.ports import Clock, NewId
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.message import Message
from toolwright.core.value import changed
from toolwright.runtime.env.env import Environment
from toolwright.wire.result import result_from_json, result_to_json

T = TypeVar("T")
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,9})?")


def clean_message(message: Message, redactor: Redactor) -> Message:
    """Return the redacted message. The object is the same if it contains no secrets."""
    content = _clean_content(message, redactor)
    calls = tuple(
        [changed(call, arguments=clean_arguments(call.arguments, redactor)) for call in message.calls]
    )
    stack, native = redactor.optional(message.stack), redactor.json(message.native)
    same = content == message.content and calls == message.calls and stack == message.stack
    if same and native is message.native:
        return message
    return changed(message, content=content, calls=calls, stack=stack, native=native)


def _clean_content(message: Message, redactor: Redactor) -> str:
    """Return the redacted content. The JSON of a tool stays valid JSON."""
    if message.role != "tool":
        return redactor.text(message.content)
    if _SCALAR.fullmatch(message.content):
        scalar: JSON = json.loads(message.content)
        clean = redactor.json(scalar)
        return message.content if clean is scalar else str(clean)
    return redactor.document(message.content)


def clean_response(
    response: ModelResponse, redactor: Redactor, tools: Container[str], *, formed: bool = False
) -> ModelResponse:
    """Return a model's redacted answer. Its tools, those with the given names, are called with the recorded arguments.

    The text of a `formed` answer is JSON, and stays valid JSON.
    """
    calls = [
        ModelCall(
            id=call.id,
            name=clean_name(call.name, redactor, tools),
            arguments=clean_arguments(call.arguments, redactor),
        )
        for call in response.calls
    ]
    return changed(
        response,
        text=redactor.document(response.text) if formed else redactor.text(response.text),
        calls=tuple(calls),
        native=redactor.json(response.native),
    )


def clean_call(call: Call, redactor: Redactor) -> Call:
    """Return the call with redacted arguments and result."""
    if not redactor:
        return call
    result = call.result
    if result is not None:
        result = result_to_json(redactor.result(result_from_json(result)))
    return changed(call, arguments=clean_arguments(call.arguments, redactor), result=result)


def clean_name(name: str, redactor: Redactor, tools: Container[str]) -> str:
    """Return the name of a tool unchanged, or redacted if the model has invented it."""
    return name if name in tools else redactor.text(name)


def clean_draft(draft: EventDraft, redactor: Redactor) -> EventDraft:
    """Return a handler's event with redacted type and data."""
    if not redactor:
        return draft
    payload = {**draft.payload, "data": redactor.json(draft.payload.get("data"))}
    return EventDraft(type=redactor.text(draft.type), payload=payload)


def clean_effect(effect: Effect, redactor: Redactor) -> Effect:
    """Return the effect of a built-in tool with redacted records, blocks and passages."""
    if not redactor:
        return effect
    match effect:
        case Put(record=record):
            return Put(record=_cleaned(record, redactor, *record.STORED.texts))
        case Add(record=record):
            return Add(record=_cleaned(record, redactor, *record.STORED.texts))
        case SetPlan(plan=plan):
            return SetPlan(plan=_cleaned(plan, redactor, *plan.STORED.texts))
        case SetBlock(block=block):
            return SetBlock(block=_cleaned(block, redactor, "label", "content"))
        case AddPassage(passage=passage, vector=vector):
            tags = tuple([redactor.text(tag) for tag in passage.tags])
            clean = changed(_cleaned(passage, redactor, "content"), tags=tags)
            return AddPassage(passage=clean, vector=vector if clean == passage else None)
        case _:
            return effect


def _cleaned(record: T, redactor: Redactor, *names: str) -> T:
    return changed(record, **{name: redactor.text(getattr(record, name)) for name in names})


def clean_arguments(text: str, redactor: Redactor) -> str:
    """Return redacted arguments, still valid JSON if they were; unchanged if they contain no secrets.

    Arguments with more values than a validator accepts are treated as text, because parsing them would take seconds.
    """
    if not redactor:
        return text
    try:
        if len(text) > MAX_JSON_VALUES:  # a shorter text cannot contain more
            ValueCount(MAX_JSON_VALUES).add(text.encode("utf-8", "replace"))
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return redactor.text(text)
    clean = redactor.json(value)
    same = clean is value and redactor.text(text) == text  # a duplicate name hides its first value
    return text if same else dumps_unescaped(clean)


BATCH = 500


class Keys:
    """The keys that encrypt secrets."""

    def __init__(self, store: Store, environment: Environment, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._environment = environment
        self._clock = clock
        self._new_id = new_id

    async def renew(self) -> int:
        """Re-encrypt secrets of other keys with the first key. Return their number.

        The other keys are not needed after that. A secret that no key can decrypt is not changed.
        """
        key, total, unreadable = self._environment.key, 0, 0
        while key is not None:
            rows = await self._store.sealed_otherwise(key, BATCH + unreadable)
            pairs = [(row, self._environment.resealed(row)) for row in rows]
            readable = tuple([(was, now) for was, now in pairs if now is not None])
            unreadable = len(pairs) - len(readable)
            if not readable:
                break
            unit = Reseal(token=self._new_id("unit"), at=self._clock.now(), rows=readable)
            answer = await self._store.commit(unit)
            total += answer.count if isinstance(answer, Committed) else 0
        return total
