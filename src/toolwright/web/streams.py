"""Server-sent events: live events of threads, runs and spaces, filtered per subscriber (API §4)."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import TypeAlias

import anyio
import anyio.lowlevel
from anyio import CancelScope
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from toolwright.core.errors import NotFound, Reset, StoreError
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Event, EventType, Topic
from toolwright.runtime.threads.events import Subscription, Turn
from toolwright.web.answers import Names, cut_off
from toolwright.web.auth.access import Caller
from toolwright.web.dependencies import Serving
from toolwright.wire.event import frame, notice_json

log = logging.getLogger("toolwright.web")
KEEP_ALIVE = b": keep-alive\n\n"
AT_ONCE = 100  # events that are encoded and written at once: some milliseconds
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def no_longer_allowed(serving: Serving, caller: Caller) -> None:
    """Wait until the caller may no longer subscribe, which never happens for a service.

    Whether the entity exists is checked as often as comments are sent, because another process can have deleted it.
    """
    if caller.entity_id is None:
        await anyio.sleep_forever()
        return
    while await _is_registered(serving, caller.entity_id):
        patience = serving.options.keep_alive
        if caller.until is not None:
            remaining = caller.until - serving.options.clock.now().timestamp()
            if remaining <= 0:
                return
            patience = min(patience, remaining)
        await anyio.sleep(patience)


async def _is_registered(serving: Serving, entity_id: str) -> bool:
    """Return whether the client is registered, or True while the journal is unavailable."""
    with suppress(StoreError):
        return await serving.runtime.entities.get_human(entity_id) is not None
    return True


class EventFilter:
    """Filters the events of a topic for one subscriber, who may read it.

    The events themselves show when a person joins or leaves a space.
    """

    def __init__(self, serving: Serving, caller: Caller, topic: Topic) -> None:
        self._serving = serving
        self._caller = caller
        self._open: dict[str, bool] = {topic.id: True} if topic.kind == "space" else {}

    async def see(self, event: Event) -> bool:
        """Return whether the event may be shown. A leaving member still receives the event of leaving."""
        if event.space_id is None or self._caller.users is None:
            return True
        before = self._open.get(event.space_id)
        if before is None:
            before = await self._may_read(event.space_id)
        self._open[event.space_id] = now = await self._after(event, before)
        return now or before

    def is_hidden(self, space_id: str) -> bool:
        """Return whether further events of the space must be hidden."""
        return self._open.get(space_id) is False

    async def _after(self, event: Event, before: bool) -> bool:
        """Return whether the subscriber may read the space after the event."""
        if event.type == "space.deleted":
            return False
        if event.payload.get("entityId") != self._caller.entity_id:
            return before
        if event.type == "member_added":
            return True
        if event.type == "member_removed":
            return await self._is_public(event.space_id or "")
        return before

    async def _may_read(self, space_id: str) -> bool:
        try:
            await self._serving.permits.space(self._caller, space_id)
        except NotFound:
            return False
        return True

    async def _is_public(self, space_id: str) -> bool:
        try:
            return (await self._serving.runtime.spaces.get(space_id)).kind == "public"
        except NotFound:
            return False


Follow: TypeAlias = Callable[[Topic, int | None, Turn], AbstractAsyncContextManager[Subscription]]


class EventStream(StreamingResponse):
    """An unbounded answer: `connected`, then events, those together in one write that are available together.

    Streams that have much to send take turns, by caller: each reads and writes one page of events at a time.
    The stream ends when its reader disconnects or loses access, when the server stops, or when so much data is queued
    that the reader must be stuck. A run's stream continues after the run has finished. `connected` contains the number
    after which the stream starts, so that a reader that disconnects before the first event knows where to resume. `ids`
    are the ids of the topic, which every event carries. `names` selects the names in events.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        serving: Serving,
        caller: Caller,
        topic: Topic,
        after: int | None,
        ids: JSONObject,
        follow: Follow | None = None,
        names: Names = "s3",
    ) -> None:
        super().__init__((), headers=HEADERS)
        self._serving = serving
        self._caller = caller
        self._over = False
        self._eyes = EventFilter(serving, caller, topic)
        self._topic = topic
        self._after = after
        self._ids = ids
        self._frames = serving.frames[names]
        self._follow = follow or serving.runtime.events.following

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream. The subscription starts before `connected` is sent."""
        async with AsyncExitStack() as stack:
            first: list[bytes] = []
            try:
                events = await stack.enter_async_context(
                    self._follow(self._topic, self._after, self._reading)
                )
            except (
                Reset
            ):  # the id is too old or unknown: the reader receives `reset`, then the events from now on
                events = await stack.enter_async_context(self._follow(self._topic, None, self._reading))
                first.append(self._notice("reset"))
            begins: JSONObject = {} if events.start is None else {"after": str(events.start)}
            first.insert(0, self._notice("connected", begins))
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            for frame in first:
                await _write(send, frame)
            with self._counted():
                overrun = await self._go_on(events, receive, send)
            if overrun:
                self._cut(scope)
                await anyio.lowlevel.checkpoint()  # until the server notices the lost connection
                return
        if self._over or self._serving.options.closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    @contextmanager
    def _counted(self) -> Generator[None]:
        """Count the stream as active within the block."""
        runtime = self._serving.opened
        telemetry = None if runtime is None else runtime.telemetry
        if telemetry is None:
            yield
            return
        telemetry.streams(1)
        try:
            yield
        finally:
            telemetry.streams(-1)

    def _cut(self, scope: Scope) -> None:
        """Abort the connection, because a graceful end would wait for the reader."""
        log.info(
            "A follower of the %s %s does not read and is disconnected.", self._topic.kind, self._topic.id
        )
        cut_off(scope)

    async def _go_on(self, events: Subscription, receive: Receive, send: Send) -> bool:
        """Send events until the end. Return whether the reader is too far behind."""
        overrun = False

        async def too_much() -> None:
            nonlocal overrun
            await events.overrun()
            overrun = True

        async def no_longer() -> None:
            await no_longer_allowed(self._serving, self._caller)
            self._over = True

        async with anyio.create_task_group() as tasks:
            scope = tasks.cancel_scope
            tasks.start_soon(_end_after, self._serving.options.closing.wait, scope)
            tasks.start_soon(_end_after, lambda: _wait_for_disconnect(receive), scope)
            tasks.start_soon(_end_after, too_much, scope)
            tasks.start_soon(_end_after, no_longer, scope)
            tasks.start_soon(_keep_alive, send, self._serving.options.keep_alive)
            await self._write_all(events.pages, send)
            scope.cancel()
        return overrun

    async def _write_all(self, pages: AsyncGenerator[Sequence[Event]], send: Send) -> None:
        try:
            async with aclosing(pages):
                async for page in pages:
                    for start in range(0, len(page), AT_ONCE):
                        frames = await self._frames_of(page[start : start + AT_ONCE])
                        if frames:
                            await _write(send, frames)
                        if self._over:
                            return
        except StoreError as error:  # the reader reconnects with its last id
            log.info("The stream of the %s %s ended early: %s", self._topic.kind, self._topic.id, error)

    async def _frames_of(self, events: Sequence[Event]) -> bytes:
        """Encode the events that may be shown, up to the one after which nothing may be shown."""
        turn = self._serving.writing.take(self._caller.label) if len(events) > 1 else nullcontext()
        frames: list[bytes] = []
        async with turn:
            for event in events:
                if not self._caller.presentation.hidden(event) and await self._eyes.see(event):
                    frames.append(self._frame(event))
                if self._topic.kind == "space" and self._eyes.is_hidden(self._topic.id):
                    self._over = True
                    break
        return b"".join(frames)

    def _reading(self) -> AbstractAsyncContextManager[None]:
        """Return the caller's turn to read a page of the journal."""
        return self._serving.reading.take(self._caller.label)

    def _frame(self, event: Event) -> bytes:
        """Encode an event as an SSE frame. Frames are cached per audience unless they depend on the viewer."""
        presented = self._caller.presentation.event(event)
        return self._frames.frame(event) if presented is event else self._frames.encode_event(presented)

    def _notice(self, type_: EventType, content: JSONObject | None = None) -> bytes:
        return frame(notice_json(type_, self._serving.options.clock.now(), self._ids, content))


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _keep_alive(send: Send, interval: float) -> None:
    while True:
        await anyio.sleep(interval)
        await _write(send, KEEP_ALIVE)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end_after(wait: Callable[[], Awaitable[object]], scope: CancelScope) -> None:
    await wait()
    scope.cancel()
