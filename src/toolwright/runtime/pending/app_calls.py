"""Calls of the app's tools by MCP hosts: each is stored in a thread of its own from its start."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

from toolwright.core.agents.catalog import APP_TOOLS
from toolwright.core.agents.prompt import Prompt
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import AlreadyOver, CallCancelled, CallResolved, NotFound, RunOver, StoreError
from toolwright.core.journal.store import CallVisibility
from toolwright.core.journal.units import Committed, CreateThread
from toolwright.core.ports import Cipher, Follower
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call, CallStatus
from toolwright.core.threads.decision import Decider
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.toolset import Toolset
from toolwright.core.value import Value
from toolwright.runtime.journal import can_be_id
from toolwright.runtime.pending.pending import PendingCalls
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.toolkits.external_calls import Input, call_event, post_of, write_input
from toolwright.runtime.toolkits.toolkit import ToolkitParts
from toolwright.wire.result import result_from_json

EVERY: tuple[CallStatus, ...] = (
    "created", "running", "waiting", "pending", "done", "error", "resolved", "expired", "cancelled",
)  # fmt: skip


class AppCall(Value):
    """The ids of a host's call: of the call, of its thread and of its run."""

    id: str
    thread_id: str
    run_id: str


class AppCalls:
    """Makes calls of the app's tools, and finds them again, whichever process has made them.

    `user_id` is the owner of a call's thread. `users` are the owners whose calls may be found, or None for all.
    """

    def __init__(self, parts: ToolkitParts, runs: Runs, calls: PendingCalls) -> None:
        self._parts = parts
        self._runs = runs
        self._calls = calls

    @property
    def tools(self) -> Toolset:
        """The tools that hosts may call. Raises `DefinitionError` for tools that cannot be called by hosts."""
        return self._parts.catalog.app_tools.tools

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        """The prompts that the app declares, by name."""
        return self._parts.catalog.prompts

    @property
    def cipher(self) -> Cipher:
        """Encrypts state that a host returns to any process of this journal."""
        return self._parts.cipher

    def new(self, other: Call | None = None) -> AppCall:
        """Return the ids of a new call, in a new thread or in the thread of another call."""
        new_id = self._parts.new_id
        thread_id = new_id("thr") if other is None else other.thread_id
        return AppCall(id=new_id("call"), thread_id=thread_id, run_id=new_id("run"))

    async def make(self, call: AppCall, name: str, arguments: object, user_id: str | None = None) -> None:
        """Post the call; its row will hold the result. `arguments` are validated like arguments from a model."""
        parts, now = self._parts, self._parts.clock.now()
        thread = Thread(id=call.thread_id, agent=APP_TOOLS.id, user_id=user_id, created_at=now)
        written = await in_thread_if_large(arguments, write_input, arguments)
        await parts.store.commit(CreateThread(token=parts.new_id("unit"), at=now, thread=thread))
        await self._post(thread, call, name, written)

    async def make_in_thread_of(self, call: AppCall, other: Call, name: str, arguments: object) -> None:
        """Make the call in the thread of a finished call, with the variables set there since."""
        await self.check_thread(other.thread_id, None)
        thread = await self._parts.store.thread(other.thread_id)
        assert thread is not None, "it was there a moment ago"
        await self._post(thread, call, name, await in_thread_if_large(arguments, write_input, arguments))

    async def _post(self, thread: Thread, call: AppCall, name: str, written: Input) -> None:
        parts, now = self._parts, self._parts.clock.now()
        event = call_event(thread, call.id, name, written, now)
        unit = post_of(thread, event, call.run_id, parts.clock, parts.new_id, parts.telemetry)
        answer = await parts.store.commit(unit)
        if not isinstance(answer, Committed):
            raise StoreError(f"The call could not be recorded ({answer.guard}).")
        parts.motor.wake(thread.id)

    @contextmanager
    def watch(self, call: AppCall) -> Generator["CallWatch"]:
        """Follow the events of the call's thread. Call it before the call is made, so that nothing is missed."""
        with self._parts.bus.subscribe(Topic(kind="thread", id=call.thread_id)) as follower:
            yield CallWatch(self, call, follower)

    async def get_row(self, call: AppCall) -> Call | None:
        """Return the current call, or None before it has started."""
        return await self._parts.store.call(call.id)

    async def is_lost(self, call: AppCall) -> bool:
        """Return whether the call will never start, because its event was parked."""
        event = await self._parts.store.inbox_event(call.thread_id, f"ask_{call.id}")
        return event is None or event.status == "failed"

    async def find(self, call_id: str, users: Sequence[str] | None) -> Call:
        """Return the call with that id, made by a host as one of these users. Raises `NotFound` for any other call."""
        call = await self._calls.row(call_id)
        if call.parent_id is not None:
            raise NotFound(f"There is no call {call_id!r}.")
        await self.check_thread(call.thread_id, users)
        return call

    async def check_thread(self, thread_id: str, users: Sequence[str] | None) -> None:
        """Raise `NotFound` unless the thread belongs to a call that a host has made as one of these users."""
        thread = await self._parts.store.thread(thread_id) if can_be_id(thread_id) else None
        theirs = thread is not None and (users is None or thread.user_id in users)
        if thread is None or not theirs or thread.agent != APP_TOOLS.id:
            raise NotFound(f"There is no thread {thread_id!r}.")

    async def list(self, sees: CallVisibility | None, limit: int, offset: int) -> Sequence[Call]:
        """Return calls made by hosts, the oldest first, optionally only those that `sees` may see."""
        return await self._parts.store.calls(agent=APP_TOOLS.id, sees=sees, limit=limit, offset=offset)

    async def nested_calls(self, call: Call | AppCall, limit: int) -> Sequence[Call]:
        """Return the other calls of the same run, in order: those made by the call."""
        calls = await self._parts.store.calls(run_id=call.run_id, limit=limit)
        return [each for each in calls if each.id != call.id]

    def result(self, call: Call) -> ToolResult | None:
        """Return the result of the call, or None if it has none yet."""
        return None if call.result is None else result_from_json(call.result)

    async def cancel(self, call: Call | AppCall, *, by: Decider | None = None) -> None:
        """Cancel the call, whatever executes it. A finished call is not changed. `by` is who cancels it."""
        with suppress(RunOver, NotFound):
            await self._runs.cancel(call.run_id, by=by)
            return
        with suppress(NotFound, AlreadyOver, CallResolved, CallCancelled):
            await self._calls.cancel(call.id, by=by)


class CallWatch:
    """A follower of one call's events."""

    def __init__(self, calls: AppCalls, call: AppCall, follower: Follower) -> None:
        self._calls = calls
        self._call = call
        self._follower = follower

    async def next(self, timeout: float) -> Sequence[Event]:
        """Return the events since the last call, or none after `timeout` seconds."""
        return await self._follower.next(timeout)

    async def row(self) -> Call | None:
        """Return the current call, or None before it has started."""
        return await self._calls.get_row(self._call)


def call_of(call: Call) -> AppCall:
    """Return the ids of a call, given its row."""
    return AppCall(id=call.id, thread_id=call.thread_id, run_id=call.run_id)
