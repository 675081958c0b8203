"""External calls: the unit that posts their inbox events, and one reader of their ends for all waiting callers."""

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidJSON, RowBroken
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.journal.units import PostCall
from toolwright.core.json_value import JSONObject, dumps_unescaped, has_more_values, plain
from toolwright.core.limits import MAX_JSON_VALUES
from toolwright.core.ports import Bus, Clock, NewId
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import FAULT, InboxEvent
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Value, changed
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.threads.runs import ENDS, LOOK_AGAIN
from toolwright.runtime.threads.thread_tree import first_run
from toolwright.wire.event import run_event
from toolwright.wire.result import result_from_json, s3_pending


class Input(Value):
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


def call_event(thread: Thread, call_id: str, name: object, written: Input, at: datetime) -> InboxEvent:
    """Return the call as an inbox event of the thread."""
    content: JSONObject = {
        "callId": call_id,
        "agent": thread.agent,
        "name": name if isinstance(name, str) else brief_value(name),
        "arguments": written.arguments,
    }
    if written.fault is not None:
        content[FAULT] = written.fault
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


TELLING = frozenset({"tool.done", "tool.error", "message", *ENDS})


class CallEnds:
    """Delivers the results of calls to their waiting callers, as a model would read them."""

    def __init__(self, store: Store, bus: Bus, files: FileKeeper) -> None:
        self._store = store
        self._bus = bus
        self._files = files
        self._waiting: dict[str, tuple[InboxEvent, asyncio.Future[ToolResult]]] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}

    @contextmanager
    def expect(self, event: InboxEvent, call_id: str) -> Generator["asyncio.Future[ToolResult]"]:
        """Yield a future of the call's result. It is resolved while the block is open."""
        end: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = event, end
        if event.thread_id not in self._readers:
            reading = asyncio.create_task(self._read(event.thread_id), name=f"calls of {event.thread_id}")
            self._readers[event.thread_id] = reading
        try:
            yield end
        finally:
            del self._waiting[call_id]

    async def _read(self, thread_id: str) -> None:
        """Follow the thread while a caller waits for a call in it."""
        try:
            with self._bus.subscribe(Topic(kind="thread", id=thread_id), TELLING) as follower:
                while ids := self._waited_calls(thread_id):
                    events = await follower.next(LOOK_AGAIN)
                    await self._read_ended(ids if not events else _ended_by(events, ids))
        except Exception as error:  # noqa: BLE001 - the waiting caller gets it
            for call_id in self._waited_calls(thread_id):
                self._fail(call_id, error)
        finally:
            del self._readers[thread_id]

    def _waited_calls(self, thread_id: str) -> list[str]:
        """Return the calls of the thread that have waiting callers."""
        waiting = self._waiting.items()
        return [each for each, (event, end) in waiting if event.thread_id == thread_id and not end.done()]

    async def _read_ended(self, call_ids: Iterable[str]) -> None:
        for call_id in call_ids:
            waiting = self._waiting.get(call_id)
            if waiting is None or waiting[1].done():
                continue
            try:
                result = await self._result(call_id, waiting[0])
            except RowBroken as error:  # the other calls' rows can be intact
                self._fail(call_id, error)
                continue
            if result is not None and not waiting[1].done():
                waiting[1].set_result(result)

    async def _result(self, call_id: str, event: InboxEvent) -> ToolResult | None:
        """Return the result of the call, or None if it has none yet."""
        call = await self._store.call(call_id)
        if call is not None:
            return self._shown(call) if is_over(call.status) or call.status == "pending" else None
        row = await self._store.inbox_event(event.thread_id, event.event_id)
        if row is not None and row.status == "failed":
            return ToolResult.fail("The call could not be started.", error_code="not_begun")
        return None

    def _shown(self, call: Call) -> ToolResult:
        if call.result is None:
            return ToolResult.ok(s3_pending(call.id))
        return self._files.cut(result_from_json(call.result))

    def _fail(self, call_id: str, error: Exception) -> None:
        waiting = self._waiting.get(call_id)
        if waiting is not None and not waiting[1].done():
            waiting[1].set_exception(error)


def _ended_by(events: Iterable[Event], call_ids: list[str]) -> Iterable[str]:
    """Return the calls that these events can have ended: all of them after a run has finished."""
    ended_ids: dict[str, None] = {}
    for event in events:
        if event.type in ENDS or "truncated" in event.payload:
            return call_ids
        message = event.payload.get("message")
        call_id = (message if isinstance(message, dict) else event.payload).get("toolCallId")
        if isinstance(call_id, str):
            ended_ids[call_id] = None
    return ended_ids
