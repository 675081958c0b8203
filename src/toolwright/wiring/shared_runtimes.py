"""Shared runtimes of `tw.run` and `tw.stream`, one for each journal in an event loop, and a background loop."""

import asyncio
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import TypeAlias, TypeVar

from toolwright.core.agents.agent import Agent
from toolwright.core.concurrency import start_task
from toolwright.core.errors import InvalidRequest, NotFound, ThreadBusy
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.app import App
from toolwright.wiring.parts import MemoryJournal
from toolwright.wiring.settings import MEMORY, Settings

T = TypeVar("T")
CANCEL_PATIENCE = 15.0  # seconds; a cancelled run ends within ten
WATCHED = 0.1  # seconds between checks whether the waiting task was cancelled
_END = object()
MAX_THREADS = 1_000  # maximum per in-memory journal
MAX_JOURNALS = 32  # maximum in-memory journals per agent or app and event loop
GRACE = 1.0  # seconds that calls in progress have to end after a run has lost its last caller


class BackgroundLoop:
    """An event loop in a separate thread, started on first use."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def wait(self, make: Callable[[], Awaitable[T]], context: Context | None = None) -> T:
        """Return the coroutine's result. Ctrl-C cancels it, and is raised after it has ended."""
        loop = self._running()
        over, tasks = threading.Event(), list[asyncio.Task[T]]()
        context = copy_context() if context is None else context

        def begin() -> None:
            task = loop.create_task(_awaited(make), context=context)
            tasks.append(task)
            task.add_done_callback(lambda _: over.set())

        loop.call_soon_threadsafe(begin)
        try:
            _wait_for(over)
        except BaseException:  # Ctrl-C
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            over.wait(CANCEL_PATIENCE)
            raise
        return tasks[0].result()

    def iterate(self, items: AsyncGenerator[T]) -> Generator[T]:
        """Yield the generator's values one by one; it is closed at the end of the iteration."""
        context = copy_context()  # shared by all steps, because the generator can set context variables
        try:
            while (item := self.wait(lambda: anext(items, _END), context)) is not _END:
                yield item  # type: ignore[misc]  # not the end
        finally:
            self.wait(items.aclose, context)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._thread is threading.current_thread():
            raise InvalidRequest(
                "run_sync cannot be called by async code that run_sync executes. Use `await tw.run(…)` there."
            )
        with self._starting:
            # none yet, or this is a forked process
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="toolwright-run-sync", daemon=True
                )
                self._thread.start()
            return self._loop


def _wait_for(over: threading.Event) -> None:
    """Wait, also in a task of a running loop, which `asyncio.run` cancels at Ctrl-C instead of raising it there."""
    try:
        waiting = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        waiting = None
    if waiting is None:
        over.wait()
        return
    before = waiting.cancelling()
    while not over.wait(WATCHED):
        if waiting.cancelling() > before:
            raise asyncio.CancelledError


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


Owner: TypeAlias = Agent | App
Keep: TypeAlias = Callable[[str], Awaitable[None]]
Mode: TypeAlias = tuple[int, object]
"""The app and the model that a journal runs with. Users of another mode have to wait."""

_ENTERED: ContextVar[frozenset[int]] = ContextVar("entered", default=frozenset())


class _Seat:
    """A journal, and the runtime that is open on it while it has users."""

    def __init__(self, memory: MemoryJournal | None = None) -> None:
        self.memory = memory
        self._free = asyncio.Condition()
        self._users = 0
        self._mode: Mode | None = None
        self._runtime: asyncio.Future[Runtime] | None = None
        self._released = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None
        self._threads: OrderedDict[str, None] = OrderedDict()

    @property
    def in_use(self) -> bool:
        """Return whether a run uses the journal, or waits to use it."""
        return self._users > 0 or self._free.locked()

    async def keep(self, thread_id: str, runtime: Runtime) -> None:
        """Keep a thread in memory so that it can be continued. Only the most recently used threads are kept."""
        if self.memory is None:
            return
        self._threads[thread_id] = None
        self._threads.move_to_end(thread_id)
        if len(self._threads) > MAX_THREADS:
            oldest, _ = self._threads.popitem(last=False)
            with suppress(NotFound, ThreadBusy):  # deleted by the user, or in use: then it is kept
                await runtime.threads.delete(oldest)

    @asynccontextmanager
    async def use(self, mode: Mode, app: App, settings: Settings) -> AsyncGenerator[Runtime]:
        """Yield the runtime of that app, shared by all users of the same mode. The last one closes it."""
        async with self._free:
            # The outer run only ends after this tool: waiting for the end of its mode would be a deadlock.
            if self._users and self._mode != mode and id(self) in _ENTERED.get():
                raise InvalidRequest(
                    "A tool cannot run another agent or model on the journal of its own run. Pass both runs an app= "
                    "that has both agents, or use another database_url."
                )
            await self._free.wait_for(lambda: self._users == 0 or self._mode == mode)
            self._mode, self._users = mode, self._users + 1
        token = _ENTERED.set(_ENTERED.get() | {id(self)})
        try:
            yield await asyncio.shield(self._opened(app, settings))  # other users wait for the same future
        finally:
            _ENTERED.reset(token)
            # Shielded: a user cancelled here would be counted forever, and the runtime would never close.
            await asyncio.shield(asyncio.ensure_future(self._leave()))

    def _opened(self, app: App, settings: Settings) -> "asyncio.Future[Runtime]":
        if self._runtime is None:
            self._runtime = asyncio.get_running_loop().create_future()
            self._released = asyncio.Event()
            holding = self._hold(app, settings, self._runtime, self._released)
            self._holder = start_task(holding, "toolwright-shared-runtime")
        return self._runtime

    async def _hold(
        self, app: App, settings: Settings, ready: "asyncio.Future[Runtime]", is_left: asyncio.Event
    ) -> None:
        """Keep the runtime open in a separate task, because the user that opened it can be cancelled."""
        try:
            async with app.runtime(settings, grace=GRACE, memory=self.memory) as runtime:
                ready.set_result(runtime)
                await is_left.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)  # raised to the users waiting for the runtime, not in this task

    async def _leave(self) -> None:
        async with self._free:
            self._users -= 1
            if self._users == 0:
                self._released.set()
                if self._holder is not None:
                    await asyncio.wait([self._holder])
                self._runtime = self._holder = None
            self._free.notify_all()


class _Loop:
    """The journals of one event loop: by URL, and in-memory journals by user."""

    def __init__(self) -> None:
        self.seats: dict[str, _Seat] = {}
        self.in_memory: dict[int, dict[object, _Seat]] = {}

    async def seat(self, owner: Owner, url: str, model: object, thread_id: str | None) -> _Seat:
        """Return the shared runtime of the journal at that URL.

        For an in-memory journal it is the runtime that has the thread, or the owner's runtime with that model.
        """
        if not url.startswith(MEMORY):
            return self.seats.setdefault(url, _Seat())
        if id(owner) not in self.in_memory:
            self.in_memory[id(owner)] = {}
            weakref.finalize(owner, self.in_memory.pop, id(owner), None)
        seats = self.in_memory[id(owner)]
        if thread_id is None:
            if model not in seats:
                _make_room(seats)
                seats[model] = _Seat(MemoryJournal())
            seats[model] = seats.pop(model)  # moves the most recently used to the end
            return seats[model]
        for seat in seats.values():
            if seat.memory is not None and await seat.memory.store.thread(thread_id) is not None:
                return seat
        raise NotFound(
            f"There is no thread {thread_id!r}. Without a database_url, a thread can be continued only in the event "
            "loop in which it started, with the same agent."
        )


def _make_room(seats: dict[object, _Seat]) -> None:
    """Drop the least recently used idle journal if there are too many: each model object has its own journal."""
    if len(seats) >= MAX_JOURNALS:
        oldest = next((key for key, seat in seats.items() if not seat.in_use), None)
        seats.pop(oldest, None)


LOOPS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop]" = weakref.WeakKeyDictionary()
"""The journals in use, and in-memory journals, by event loop, so that several calls can continue one conversation."""


@asynccontextmanager
async def shared_runtime(
    owner: Owner, settings: Settings, model: object | None, thread_id: str | None
) -> AsyncGenerator[tuple[Runtime, Keep]]:
    """Yield the runtime of an app, or of a single agent, within the block; `model` overrides all models.

    Also yields a function that records the use of a thread: in memory the last 1,000 threads are kept.
    """
    loop = LOOPS.setdefault(asyncio.get_running_loop(), _Loop())
    key = model if isinstance(model, str | None) else id(model)
    seat = await loop.seat(owner, settings.database_url, key, thread_id)
    app = owner if isinstance(owner, App) else App(agents=[owner])
    async with seat.use(
        (id(owner), key), app if model is None else app.with_model(model), settings
    ) as runtime:
        yield runtime, partial(seat.keep, runtime=runtime)
