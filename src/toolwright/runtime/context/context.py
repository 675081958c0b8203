"""Run context: the record of the current run, the state of this process, and the commits."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import SPACES
from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.agents.deps import DepsType
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.dependencies.scope import Scope
from toolwright.core.env.env import EnvRow
from toolwright.core.env.redact import NOTHING, Redactor
from toolwright.core.journal.child_effects import HandOff
from toolwright.core.journal.effects import Effect, traced
from toolwright.core.journal.space_effects import Enter
from toolwright.core.journal.store import Store, ThreadView
from toolwright.core.journal.telemetry import RunTrace
from toolwright.core.journal.units import Advance, Claim, Committed, Conflict, Leaving, Release
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Clock, NewId
from toolwright.core.requests.request import RequestForm, read_request
from toolwright.core.spaces import entity_of
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Side
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.pipeline import Decision, PreparedCall
from toolwright.core.value import changed
from toolwright.runtime.context.active_space import ActiveSpace
from toolwright.runtime.context.commit import (
    REACTIONS,
    REBUILT,
    Answered,
    Changes,
    EffectRefused,
    End,
    Listeners,
    Next,
    ThreadLost,
    UnitWriter,
)
from toolwright.runtime.context.execution import Cancellation
from toolwright.runtime.context.record import RunRecord
from toolwright.runtime.context.requesters import requesters_of
from toolwright.runtime.env import Resolve, ThreadEnv
from toolwright.runtime.files import StoredFiles
from toolwright.runtime.spaces.membership import Membership
from toolwright.wire.event import message_payload, step_event

T = TypeVar("T")
_HAS_TURN: ContextVar[object] = ContextVar("_HAS_TURN", default=None)
"""The run context whose record the current task may change."""

OLDER = 500  # messages per read


class Ends(Protocol):
    """Ends runs. `max_steps` is the limit of a run whose agent sets none."""

    max_steps: int

    async def commit(self, context: "RunContext", following: Next, end: End) -> Answered | None:
        """Commit the unit with the end of the run. None if the run continues; the unit is not committed then."""
        ...


class RunContext(RunRecord):
    """A thread that this process executes, from the claim to the release.

    All writes go through `commit` and `write`, which keep the record equal to the journal. The active agent, the known
    secrets, the prepared calls and the cancellation exist in this process only.
    """

    def __init__(
        self,
        view: ThreadView,
        run: Run,
        store: Store,
        clock: Clock,
        new_id: NewId,
        resolve: Resolve,
        redactor_of: Callable[[Thread], Awaitable[Redactor]],
        active: ActiveAgent | None,
        listeners: Listeners,
        membership: Membership,
        ends: Ends,
        lifespan: object = None,
    ) -> None:
        super().__init__(view, run, active)
        self.clock = clock
        self.new_id = new_id
        self._store = store
        self._listeners = listeners
        self._ends = ends
        self._writer = UnitWriter(store, clock, view.thread.id, new_id("hold"), listeners.outage)
        self._resolve = resolve
        self.redactor_of = redactor_of
        self._rows: Sequence[EnvRow] = view.env
        self._envs: dict[int, ThreadEnv] = {}
        self.redactor = NOTHING
        enters = None if active is None else SPACES in active.agent.toolkits
        self.space = ActiveSpace(
            view.thread, self.reading, membership, store, self._writer.retry_until_available, enters
        )
        self.base = active
        self.author = None if active is None else entity_of(active.agent)
        self.side: Side | None = None  # the active side of an agent with two sides
        self._two_sides, self.speaker = False, None
        self.max_steps = self.most_steps = ends.max_steps  # the settings' limit, and that of the active agent
        self.time_limit = None if self.root.active is None else self.root.active.stops.max_seconds
        self._name_speaker()
        self._learn(self.env_for(active).redactor)
        self.is_isolated = False  # whether the run is the only suspect that is executed
        self._request: RequestForm | None = None
        self.unwritten: frozenset[str] = frozenset()
        self.handler_context: dict[str, Any] = {}  # arbitrary values that handlers store
        # calls that this process has started with validated arguments and not yet executed
        self.prepared: dict[str, PreparedCall] = {}
        self.decided: dict[str, Decision] = {}  # about calls that have not started
        self.verdicts: dict[str, Any] = {}  # their `CallVerdicts`s by hooks, a module above this one
        self.other_verdicts: list[Any] = []  # about requests beside the conversation, not recorded yet
        self.is_admitted = False  # whether hooks were asked about the messages that the run began with
        self.requesters: tuple[str, ...] | None = None  # as `read_requesters`, once a call needs them
        self._waits: dict[str, float] = {}
        self._streamed: dict[str, str] = {}
        # ids under which the next answer's calls were streamed, by their positions in the answer
        self.call_ids: dict[int, str] = {}
        # whether the agent and the variables of the next step were checked since the last commit; an agent that does
        # not change needs the check only once, before which `selected` is None
        self.selected: bool | None = None
        self.variables_checked = False
        self._claim: Changes | None = None  # of a claim that the next unit commits
        self.nudged = asyncio.Event()
        self.abort = Cancellation()
        self._turn = asyncio.Lock()
        self.trace: RunTrace | None = None
        self.dependencies, self.lifespan = Scope(), lifespan
        self.stopping = False
        self.deps_type: DepsType | None = None  # of the thread's agent, if the run has deps
        self._deps: dict[int, Any] = {}  # the instance of that type
        if run.cancel_requested_at is not None:
            self.abort.set()

    # ── the active agent, and its limits ────────────────────────────────────────────────────────────────────────

    @property
    def may_have_children(self) -> bool:
        """Return whether the thread can have child threads."""
        return self.thread.active_agent is not None or (self.base is not None and self.base.has_relations)

    def seconds_left(self) -> float:
        """Return the seconds until the run's time limit, infinity if it has none."""
        if self.time_limit is None or self.run.started_at is None:
            return math.inf
        return self.time_limit - (self.clock.now() - self.run.started_at).total_seconds()

    @property
    def agent_unchanged(self) -> bool:
        """Return whether the agent, its side and its tools are the same for the next step."""
        active = self.root.active
        return (
            active is self.base
            and active is not None
            and active.agent_id == self.thread.answering
            and active.side == self.run.side
            and not active.relations
            and not active.mcp
            and not active.is_dynamic
        )

    def set_speaker(self, base: ActiveAgent, active: ActiveAgent) -> None:
        """Make `active` the agent of the thread's own conversation: `base` with the tools of the next step."""
        self.base = base
        if active is not self.root.active:
            self.activate(self.root, active)
            self.author = entity_of(active.agent)
            self.time_limit = active.stops.max_seconds
            self._envs.clear()
            self._learn(self.env_for(active).redactor)
            self._name_speaker()

    def _name_speaker(self) -> None:
        """Set `speaker`, the name of the active prompt, if other prompts can have written to the thread too."""
        active = self.root.active
        self._two_sides = active is not None and len(active.sides) > 1
        several = active is not None and (self._two_sides or self.thread.active_agent is not None)
        self.speaker = active.prompt.name if active is not None and several else None
        self.side = self.run.side if self._two_sides else None
        limit = None if active is None or several else active.stops.max_steps
        self.most_steps = self.max_steps if limit is None else limit

    @property
    def by(self) -> str | None:
        """Name of the prompt that answers in the current conversation; None if no other prompt writes to it."""
        return self.speaker if self.frame.call is None else self.active.prompt.name

    @property
    def env(self) -> ThreadEnv:
        """The thread's env for the active agent."""
        return self.env_for(self.frame.active)

    def env_for(self, active: ActiveAgent | None) -> ThreadEnv:
        """Return the env of the thread for the active agent."""
        env = self._envs.get(id(active))
        if env is None:
            env = self._envs[id(active)] = self._resolve(self.thread, active, self._rows)
        return env

    def redact(self, text: str) -> str:
        """Return the text without the secrets that the run knows by now."""
        return self.redactor.text(text)

    def learn(self, name: str, secret: str) -> None:
        """Redact this secret from now on."""
        self._learn(self.redactor.with_secrets([(name, secret)]))

    def _learn(self, redactor: Redactor) -> None:
        self.redactor = self.redactor.with_secrets(redactor.secrets)

    def deps_of(self, active: ActiveAgent | None) -> Any:  # an instance of the declared type
        """Return the run's deps, or None if it has none, or `active` declares another type than the thread's agent.

        The instance is created once. Raises `InvalidRequest` if the stored value does not fit the type any more.
        """
        declared, stored = self.deps_type, self.run.deps
        if declared is None or stored is None or active is None or active.agent.deps is not declared.declared:
            return None
        if not self._deps:
            self._deps.setdefault(0, declared.load(stored))  # a sync handler reads it in a thread
        return self._deps[0]

    # ── state of the run in this process ────────────────────────────────────────────────────────────────────

    def is_to_begin(self, call: Call) -> bool:
        """Return whether the call is marked as running and its execution has not started."""
        prepared = self.prepared.get(call.id)
        begun = any(frame.id == call.id for frame in self.frames)
        return prepared is not None and call.attempts == 1 and not begun

    def stop(self) -> None:
        """Release the run after the current call or answer, because the process stops."""
        self.stopping = True

    def waits_since(self, call_id: str) -> float:
        """Start of the run's wait for the call in memory, by the monotonic clock: now, if it has not started."""
        return self._waits.setdefault(call_id, self.clock.monotonic())

    def stream_call(self, call_id: str, space_id: str) -> None:
        """Show a call in the space while the model writes it."""
        self._streamed[call_id] = space_id

    def abort_stream(self, call_id: str) -> None:
        """Forget the stream of a call, which was aborted."""
        self._streamed.pop(call_id, None)

    def is_streamed(self, call_id: str) -> bool:
        """Return whether the call was shown while the model wrote it."""
        return call_id in self._streamed

    @property
    def files(self) -> StoredFiles:
        """The thread's files."""
        return StoredFiles(self._store, self.thread.id, self.retry_until_available)

    # ── the state of the request that the thread executes ────────────────────────────────────────────────

    async def load_values(self) -> None:
        """Read the thread's values and its request into the record. Does nothing if they are already loaded."""
        if self.values is not None:
            return
        if self.thread.agent == REQUESTS.id:
            written = self.thread.arguments
            self._request = await in_thread_if_large(written, read_request, "The request", written)
        self.put_values(await self.retry_until_available(lambda: self._store.children.values(self.thread.id)))

    @contextmanager
    def reserve(self, keys: Iterable[str]) -> Generator[None]:
        """Reserve values that a handler has set while it waits for a call that it made."""
        before, self.unwritten = self.unwritten, self.unwritten.union(keys)
        try:
            yield
        finally:
            self.unwritten = before

    @property
    def request(self) -> RequestForm | None:
        """The composed request that the thread executes, after its values are loaded; None for any other thread."""
        return self._request

    def base_state(self, instance: str | None) -> JSONObject:
        """Return the initial state of an instance, or of calls without an instance."""
        return {} if self.request is None else self.request.state_of(instance)

    def input_of(self, instance: str | None) -> JSONObject:
        """Return the value of `†input` in an instance's calls: the request's input, or the thread's arguments."""
        return (self.thread.arguments or {}) if self.request is None else self.request.input_of(instance)

    # ── re-reading ───────────────────────────────────────────────────────────────────────────────────────────

    def retry_until_available(self, work: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Read the journal, repeatedly while it is unavailable."""
        return self._writer.retry_until_available(work)

    async def reload_inbox(self) -> None:
        """Re-read the inbox and the env: both can have been changed from outside.

        The wake-up is read first, so that an event that is missing from the inbox read here raises it again.
        """
        wake = await self.retry_until_available(lambda: self._store.wake(self.thread.id))
        if wake is not None:
            self.gen = wake.gen
        self.put_inbox(await self.retry_until_available(lambda: self._store.unread(self.thread.id)))
        if self.thread.compacted:
            await self.reload_compactions()
        await self.reload_pins()
        await self.retry_until_available(self.reload_env)

    async def read_all(self) -> None:
        """Read the messages that a compacted conversation leaves out, once."""
        if self.has_read_all:
            return
        older: list[Message] = []
        before: int | None = self.thread.cut + 1
        while before is not None:
            page = await self.retry_until_available(
                lambda at=before: self._store.messages_before(self.thread.id, at, OLDER)
            )
            older = [*page, *older]
            before = page[0].seq if len(page) == OLDER else None
        self.put_older([each for each in older if each.kept])

    async def reload_compactions(self) -> None:
        """Re-read the thread's compactions: the owner can edit summaries and delete them."""
        thread_id, cut = self.thread.id, self.thread.cut
        thread = await self.retry_until_available(lambda: self._store.thread(thread_id))
        while thread is not None:
            for frame in self.frames:
                if frame.holder is not None:
                    continue
                within = frame.id or ""
                rows = await self.retry_until_available(
                    lambda within=within: self._store.compactions(thread_id, within)
                )
                frame.compactions = {each.side: each for each in rows}
            before, thread = thread, await self.retry_until_available(lambda: self._store.thread(thread_id))
            # Otherwise a row was inserted between the reads.
            if thread is not None and thread.compacted == before.compacted:
                self.thread = changed(self.thread, compacted=thread.compacted, cut=thread.cut)
                break
        if self.thread.cut < cut:  # unread messages are shown again
            view = await self.retry_until_available(lambda: self._store.view(thread_id))
            if view is not None:
                self.put_messages(view.messages)

    async def reload_pins(self) -> None:
        """Re-read which messages are pinned."""
        self.put_pins(await self.retry_until_available(lambda: self._store.pinned_messages(self.thread.id)))

    async def reload_env(self) -> None:
        """Re-read the env. Secrets that the run has known stay known."""
        self._rows = await self._store.env(self.thread.id)
        self._envs.clear()
        self._learn(self.env_for(self.root.active).redactor)

    async def reload_call(self, call_id: str) -> Call:
        """Re-read a call, which can have been settled elsewhere."""
        call = await self.retry_until_available(lambda: self._store.call(call_id))
        assert call is not None, "a call is never deleted"
        self.put_call(call)
        return call

    async def read_requesters(self) -> tuple[str, ...]:
        """Return the ids of the people whose messages began the run, or of the thread's owner."""
        return await self.retry_until_available(lambda: requesters_of(self._store, self.thread, self.run))

    async def decisions(self) -> tuple[JSONObject, ...]:
        """Return who has decided about the run, such as who cancels it."""
        run = await self.retry_until_available(lambda: self._store.run(self.run.id))
        return () if run is None else run.decisions

    async def check_cancel(self) -> None:
        """Read whether the run was asked to cancel."""
        run = await self._store.run(self.run.id)
        if run is not None and run.cancel_requested_at is not None:
            self.abort.set()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Hold the lock on the record: handlers that run concurrently, and the loop, take turns.

        A call made by another call already holds the lock.
        """
        if _HAS_TURN.get() is self:
            yield
            return
        async with self._turn:
            token = _HAS_TURN.set(self)
            try:
                yield
            finally:
                _HAS_TURN.reset(token)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def add_message(self, changes: Changes, message: Message) -> None:
        """Add a message to the changes, with its event. Of a prompt tool's conversation only results have one."""
        changes.messages.append(message)
        if message.within is None or message.role == "tool":
            changes.events.append(EventDraft.lazy("message", message_payload, message))

    def claim_with_next(self, changes: Changes, run: Run) -> None:
        """Make the next unit claim the run, with the events of `changes`. No handler is called before it."""
        self.run, self._claim = run, changes

    @property
    def is_unclaimed(self) -> bool:
        """Return whether the unit that claims the run is not written yet."""
        return self._claim is not None

    async def commit(self, build: Callable[[], Next | Awaitable[Next]]) -> Answered:
        """Commit the unit that `build` returns, and the end of the run if it has one.

        After a guard of `REBUILT`, the unit is built again from the current state. Raises as `write` does.
        """
        while True:
            built = build()
            following = built if isinstance(built, Next) else await built
            answer = (
                None if following.end is None else await self._ends.commit(self, following, following.end)
            )
            if answer is None:
                if following.ends_step and not self.abort.aborted:
                    following.changes.events.append(step_event("step.started", following.run.step_count + 1))
                answer = await self.write(following.kind, following.changes, following.run)
            if answer not in REBUILT:
                return answer

    async def write(self, kind: Callable[..., Advance], changes: Changes, run: Run) -> Answered:
        """Commit `changes` and the run's new row as one unit of that kind. Return the failed guard if it is refused.

        Raises `ThreadLost` if this process no longer owns the thread, `Unwritable` if the journal cannot hold the unit,
        `EffectRefused` if the target of an effect has changed.
        """
        if self.selected:
            self.selected = False  # whatever the answer, the record can have changed
        self.variables_checked = False
        if self._claim is not None:
            kind, changes = Claim, changed(changes, events=[*self._claim.events, *changes.events])
        effects: Sequence[Effect] = changes.effects
        if effects and self.trace is not None:
            effects = traced(effects, self.trace.parent_of(changes.call_changes))
        if effects and any(isinstance(each, HandOff) for each in effects):
            run = changed(run, side="side_a")  # an agent that takes over has one side
        unit = self.unit(kind, changes, run, effects, next(self._writer.tokens), self.clock.now())
        answer = await (self._writer.write(unit) if self.trace is None else self._watched(self.trace, unit))
        if isinstance(answer, Conflict):
            return await self._refused(answer)
        self._absorb_commit(unit, answer)
        if answer.posted != self.posted:
            self.posted = answer.posted
            await self.reload_inbox()
        return "done"

    async def _watched(self, trace: RunTrace, unit: Advance) -> Committed | Conflict:
        began = self.clock.monotonic()
        answer = await self._writer.write(unit)
        if isinstance(answer, Committed):
            trace.committed(unit, self.clock.monotonic() - began)
        return answer

    def _absorb_commit(self, unit: Advance, answer: Committed) -> None:
        begun = self.absorb(unit, answer)
        self._claim = None
        if self._two_sides:
            self.side = self.run.side
        if answer.cancel_requested:
            self.abort.set()
        for effect in unit.effects:
            if isinstance(effect, Enter):
                self.space.space_id = effect.space_id
            elif isinstance(effect, HandOff):
                self._name_speaker()
        if begun or self._streamed or answer.runs:
            self._listeners.notify(unit, answer, begun, self._streamed)

    async def _refused(self, conflict: Conflict) -> Answered:
        """Re-read the changed state. Return the failed guard. Raises `ThreadLost` or its subclass `EffectRefused`."""
        guard = conflict.guard
        match REACTIONS[guard]:
            case "lost":
                raise ThreadLost(f"The thread {self.thread.id} has another owner ({guard}).")
            case "refused":
                raise EffectRefused(guard)
            case "space":
                await self.space.reload()
            case "compactions":
                await self.reload_compactions()
            case "inbox":
                await self.reload_inbox()
            case "cancelled":
                self.abort.set()
            case "calls":
                for call in self.unsettled():
                    await self.reload_call(call.id)
            case "rebuilt":
                pass
        return guard

    # ── release ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_due(self) -> bool:
        """Return whether the released thread is due again at once, for other messages or a cancel request."""
        if not self.left or (self.abort.aborted and not self.run.over):
            return True
        return self._due is not None and self._due <= self.clock.now()

    async def release(self) -> None:
        """Release the run to the next process: write the unfinished unit, if there is one, then the release.

        Each is tried once. A run that no unit has claimed yet is still due. Raises `StoreError` or `ThreadLost`.
        """
        unit = self._writer.left()
        if unit is not None:
            await self._once(unit)
        if self.run.status == "running" and self._claim is None:
            now = self.clock.now()
            changes = Changes(leaving=Leaving(gen=self.gen, due=now))
            await self._once(self.unit(Release, changes, self.run, (), next(self._writer.tokens), now))

    async def _once(self, unit: Advance) -> None:
        answer = await self._writer.write_once(unit)
        if isinstance(answer, Conflict):
            raise ThreadLost(f"The final commit of the thread {self.thread.id} was refused ({answer.guard}).")
        self._absorb_commit(unit, answer)
