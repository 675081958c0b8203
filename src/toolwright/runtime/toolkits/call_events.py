"""Inbox events of external calls, and the unit that posts them to a thread."""

from collections.abc import Sequence
from datetime import datetime

from toolwright.core.checks import brief_value
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.redact import Redactor
from toolwright.core.errors import InvalidJSON
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.journal.units import PostCall
from toolwright.core.json_value import JSONObject, dumps_unescaped, has_more_values, plain
from toolwright.core.limits import MAX_JSON_VALUES
from toolwright.core.ports import Clock, NewId
from toolwright.core.threads.inbox import FAULT, InboxEvent
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed, value
from toolwright.runtime.env.redaction import clean_arguments, clean_name
from toolwright.runtime.threads.thread_tree import first_run
from toolwright.wire.event import run_event


@value
class Input:
    """The input of a call as JSON text, or a description of an invalid input with its error."""

    arguments: str
    fault: str | None = None


def write_input(arguments: object) -> Input:
    """Return the input of an external call as text."""
    if isinstance(arguments, str):
        return Input(arguments=arguments)
    if isinstance(arguments, bytes):
        return Input(arguments=arguments.decode(errors="replace"))
    if has_more_values(arguments, MAX_JSON_VALUES):
        return Input(arguments=brief_value(arguments), fault=f"hold more than {MAX_JSON_VALUES} JSON values.")
    try:
        return Input(arguments=dumps_unescaped(plain(arguments)))
    except InvalidJSON as error:
        return Input(arguments=brief_value(arguments), fault=error.message)


async def call_event(
    thread: Thread,
    call_id: str,
    name: object,
    written: Input,
    redactor: Redactor,
    names: Sequence[str],
    at: datetime,
) -> InboxEvent:
    """Return the call as an inbox event of the thread, redacted for the secrets that the thread can resolve."""
    arguments = written.arguments
    content: JSONObject = {
        "callId": call_id,
        "agent": thread.agent,
        "name": clean_name(name if isinstance(name, str) else brief_value(name), redactor, names),
        "arguments": await in_thread_if_large(arguments, clean_arguments, arguments, redactor),
    }
    if written.fault is not None:
        content[FAULT] = redactor.text(written.fault)
    return InboxEvent(
        thread_id=thread.id, event_id=f"ask_{call_id}", type="call", content=content, created_at=at
    )


def post_of(
    thread: Thread,
    event: InboxEvent,
    run_id: str,
    clock: Clock,
    new_id: NewId,
    telemetry: Telemetry | None,
) -> PostCall:
    """Return the unit that records the call in that run, which calls no model."""
    traceparent = None if telemetry is None else telemetry.current()
    run = changed(first_run(thread, run_id, 0, clock), calls_only=True, traceparent=traceparent)
    return PostCall(token=new_id("unit"), at=clock.now(), event=event, run=run, queued=run_event(run))
