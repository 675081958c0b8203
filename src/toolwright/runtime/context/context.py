"""A thread in the hands of one drain: what the drain knows of it, and its one way to write."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvRow
from toolwright.core.env.redact import NOTHING, Redactor
from toolwright.core.journal.child_effects import Activated, BackOff, HandOff
from toolwright.core.journal.effects import Effect, Enter, Source
from toolwright.core.journal.store import Store, ThreadView
from toolwright.core.journal.units import Advance, Claim, Committed, Conflict, Leaving, Release, Takeover
from toolwright.core.ports import Clock, NewId
from toolwright.core.spaces.entity import entity_of
from toolwright.core.threads.call import OPEN, Call, is_over
from toolwright.core.threads.inbox import InboxChange, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Side
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.value import changed
from toolwright.runtime.context.active_space import ActiveSpace
from toolwright.runtime.context.changes import Changes
from toolwright.runtime.context.commit import Answered, Journaling, ThreadLost
from toolwright.runtime.context.execution import Abort, RunExecution
from toolwright.runtime.context.frame import Frame
from toolwright.runtime.context.listeners import Listeners
from toolwright.runtime.env.env import Resolve, ThreadEnv
from toolwright.runtime.env.redaction import clean_message
from toolwright.runtime.files.files import StoredFiles
from toolwright.runtime.spaces.membership import Membership
from toolwright.wire.event import message_event

T = TypeVar("T")

_ANSWERED = attrgetter("call_id")


class RunContext:
    """One drain's hold on one thread, from its claim until it leaves.

    Everything is written through `commit`, which keeps what the drain knows equal to the journal.
    """

    def __init__(
        self,
        view: ThreadView,
        run: Run,
        store: Store,
        clock: Clock,
        new_id: NewId,
        resolve: Resolve,
        active: ActiveAgent | None,
        listeners: Listeners,
        membership: Membership,
    ) -> None:
        self._listeners = listeners
        self._journal = Journaling(store, clock, view.thread.id, new_id("hold"))
        self._membership = membership
        self._store = store
        self._resolve = resolve
        self._rows: Sequence[EnvRow] = view.env
        self._envs: dict[int, ThreadEnv] = {}
        self.root = Frame.of(active, view.messages, view.calls)  # the thread's own conversation
        self.frame = (
            self.root
        )  # the conversation at work: of the innermost prompt tool, else the thread's own
        self._frames = [self.root]
        self.author = None if active is None else entity_of(active.agent)
        self.redactor = NOTHING
        self.clock = clock
        self.new_id = new_id
        self.thread: Thread = view.thread
        self.run = run
        self.epoch, self.seq = view.thread.epoch, view.thread.seq
        self.nested: dict[str, Call] = {}
        self.base = active
        self.handler_context: dict[str, Any] = {}  # whatever handlers put there
        self.prepared: dict[str, PreparedCall] = {}
        self.waits: dict[str, float] = {}
        self.inbox: dict[str, InboxEvent] = {event.event_id: event for event in view.inbox}
        self.reading: dict[str, InboxEvent] = {event.event_id: event for event in view.reading}
        self.where = ActiveSpace(view.thread, self.reading, membership, store, self.retry_until_available)
        self.posted = view.thread.posted
        self.streamed: dict[str, str] = {}
        self.call_ids: dict[int, str] = {}
        self.gen = view.wake.gen if view.wake is not None else 0
        self.abort = Abort()
        self.nudged = asyncio.Event()
        self._due: datetime | None = None
        self.left = self.stopping = False
        self._two_sides, self.speaker = False, None
        self._name_speaker()
        self._learn(self.env_for(active).redactor)
        if run.cancel_requested_at is not None:
            self.abort.set()

    @property
    def frames(self) -> Sequence[Frame]:
        """The thread's own conversation, and those of the prompt tools within it, the innermost last."""
        return self._frames

    def enter_frame(self, frame: Frame) -> int:
        """From now on this conversation is at work; how many there were, for `leave_frames`."""
        self._frames.append(frame)
        self.frame = frame
        return len(self._frames) - 1

    def leave_frames(self, depth: int) -> None:
        """Only the outermost `depth` conversations go on."""
        del self._frames[depth:]
        self.frame = self._frames[-1]

    @property
    def holder(self) -> RunExecution | None:
        """The handler that waits in memory for what is at work, if one does: nothing may park or end the run then."""
        return next((frame.holder for frame in reversed(self._frames) if frame.holder is not None), None)

    @property
    def active(self) -> ActiveAgent:
        """Who speaks."""
        active = self.frame.active
        assert active is not None, "a run of an agent that is not there ends before it speaks"
        return active

    @property
    def may_have_children(self) -> bool:
        """Whether the thread may have made others."""
        return self.thread.active_agent is not None or (self.base is not None and self.base.has_relations)

    @property
    def side(self) -> Side | None:
        """The side that speaks, of an agent with two."""
        return self.run.side if self._two_sides else None

    @property
    def env(self) -> ThreadEnv:
        """What holds in the thread for whoever speaks."""
        return self.env_for(self.frame.active)

    def env_for(self, active: ActiveAgent | None) -> ThreadEnv:
        """What holds in the thread for that active agent."""
        env = self._envs.get(id(active))
        if env is None:
            env = self._envs[id(active)] = self._resolve(self.thread, active, self._rows)
        return env

    @property
    def goes_on_speaking(self) -> bool:
        """Whether the one who leads the thread's own conversation does so at the next step too, as it is."""
        active = self.root.active
        return (
            active is self.base
            and active is not None
            and active.agent_id == self.thread.answering
            and active.side == self.run.side
            and not active.relations
        )

    def speaks(self, base: ActiveAgent, active: ActiveAgent) -> None:
        """From now on this active agent leads the thread's own conversation; `base` is offered other tools."""
        self.base = base
        if active is not self.root.active:
            self.root.active, self.author = active, entity_of(active.agent)
            self._envs.clear()
            self._learn(self.env_for(active).redactor)
            self._name_speaker()

    def _name_speaker(self) -> None:
        """Set `speaker`, the name of the prompt that speaks, where others may have spoken in the thread too."""
        active = self.root.active
        self._two_sides = active is not None and len(active.sides) > 1
        several = active is not None and (self._two_sides or self.thread.active_agent is not None)
        self.speaker = active.prompt.name if active is not None and several else None

    @property
    def is_due(self) -> bool:
        """Whether the thread that was left is to be drained at once again: for what else waits, or for a cancel."""
        if not self.left or (self.abort.aborted and not self.run.over):
            return True
        return self._due is not None and self._due <= self.clock.now()

    def retry_until_available(self, work: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Read the journal, again and again while it is unavailable."""
        return self._journal.retry_until_available(work)

    def joined(self) -> list[InboxEvent]:
        """Messages that joined this run and have not been read."""
        return [event for event in self.inbox.values() if event.run_id == self.run.id]

    def place(self, changes: Changes) -> int:
        """The place in the thread of the next message of these changes."""
        return self.seq + len(changes.messages) + 1

    def say(self, changes: Changes, message: Message) -> None:
        """Put a message, made for its `place`, into the changes, with its event; no secret gets past here."""
        self.put(changes, clean_message(message, self.redactor) if self.redactor else message)

    def put(self, changes: Changes, message: Message) -> None:
        """The same for a message whose texts have all come without secrets through another door (decision 8)."""
        changes.messages.append(message)
        changes.events.append(message_event(message))

    def leaving(self) -> Leaving:
        """How to leave when the run is over: come back at once if the inbox still holds something."""
        rest = any(event.run_id != self.run.id for event in self.inbox.values())
        return Leaving(gen=self.gen, due=self.clock.now() if rest else None)

    async def look(self) -> None:
        """Read the inbox anew, and the env: both may have been changed from outside.

        The wake is read first, so that whatever is not in the inbox by then has raised it once more.
        """
        wake = await self.retry_until_available(lambda: self._store.wake(self.thread.id))
        if wake is not None:
            self.gen = wake.gen
        unread = await self.retry_until_available(lambda: self._store.unread(self.thread.id))
        self.inbox = {event.event_id: event for event in unread}
        await self.retry_until_available(self.look_at_env)

    async def look_at_env(self) -> None:
        """Read the env anew. Secrets that the run has known once it does not forget."""
        self._rows = await self._store.env(self.thread.id)
        self._envs.clear()
        self._learn(self.env_for(self.root.active).redactor)

    def learn(self, name: str, secret: str) -> None:
        """A secret that is to be kept out of everything from now on."""
        self._learn(self.redactor.with_secrets([(name, secret)]))

    def _learn(self, redactor: Redactor) -> None:
        grown = self.redactor.with_secrets(redactor.secrets)
        if grown is not self.redactor:
            self.redactor = grown
            for frame in self._frames:
                frame.messages = [clean_message(message, grown) for message in frame.messages]
                frame.opening = tuple([clean_message(message, grown) for message in frame.opening])

    def _unsettled(self) -> list[Call]:
        """The calls that somebody else may have settled meanwhile."""
        below = [call for call in self.nested.values() if not is_over(call.status)]
        return [call for frame in self._frames for call in frame.unanswered()] + below

    @property
    def files(self) -> StoredFiles:
        """The thread's files."""
        return StoredFiles(self._store, self.thread.id, self.retry_until_available)

    async def reload_call(self, call_id: str) -> Call:
        """Read a call anew: somebody else may have settled it."""
        call = await self.retry_until_available(lambda: self._store.call(call_id))
        assert call is not None, "a call is never deleted"
        self._put_call(call)
        return call

    def _put_call(self, call: Call) -> None:
        """Keep the call, as it stands now, where it belongs: with the step that made it, or below another call."""
        for frame in reversed(self._frames):
            if call.id in frame.calls:
                frame.put(call)
                return
        self.nested[call.id] = call

    def _call(self, call_id: str) -> Call:
        for frame in reversed(self._frames):
            call = frame.calls.get(call_id)
            if call is not None:
                return call
        return self.nested[call_id]

    async def check_cancel(self) -> None:
        """Read whether the run was asked to cancel."""
        run = await self._store.run(self.run.id)
        if run is not None and run.cancel_requested_at is not None:
            self.abort.set()

    async def commit(self, kind: Callable[..., Advance], changes: Changes, run: Run) -> Answered:
        """Commit `changes` and the run's new row as one unit of that kind; else the guard that failed.

        Raises `ThreadLost` if the thread is not ours any more, `Unwritable` if the journal cannot hold it.
        """
        if changes.effects:
            unit = await self._journal.made(lambda: self._made(kind, changes, run))
        else:
            unit = self._unit(kind, changes, run)
        answer = await self._journal.write(unit)
        if isinstance(answer, Conflict):
            return await self._refused(answer)
        self._absorb(unit, answer)
        if answer.posted != self.posted:
            self.posted = answer.posted
            await self.look()
        return "done"

    async def _made(self, kind: Callable[..., Advance], changes: Changes, run: Run) -> Advance:
        effects = await self._membership.settled(changes.effects)
        if any(isinstance(each, HandOff) for each in effects):
            run = changed(run, side="side_a")  # an agent that takes over has one side
        return self._unit(kind, changes, run, effects)

    def _unit(
        self, kind: Callable[..., Advance], changes: Changes, run: Run, effects: Sequence[Effect] = ()
    ) -> Advance:
        lives, held = run.lives if kind is Takeover else 0, changes.leaving is None
        if (run.lives, run.held) != (lives, held):
            run = changed(run, lives=lives, held=held)
        return kind(
            token=self._journal.token(),
            at=self.clock.now(),
            thread_id=self.thread.id,
            epoch=self.epoch,
            seq=self.seq,
            run=run,
            messages=tuple(changes.messages),
            calls=tuple(changes.calls),
            nested=tuple(changes.nested),
            edited=tuple(changes.edited),
            changes=tuple(changes.call_changes),
            read=tuple(changes.read),
            files=changes.files,
            env=changes.env,
            inbox=tuple(changes.inbox),
            dropped=tuple(changes.dropped),
            step=changes.step,
            events=tuple(changes.events),
            effects=tuple(effects),
            leaving=changes.leaving,
        )

    async def give_back(self) -> None:
        """Leave the run to the next process: what could not be written yet, then word that nobody has it.

        Each is tried once; raises `StoreError` or `ThreadLost`.
        """
        unit = await self._journal.left()
        if unit is not None:
            await self._once(unit)
        if self.run.status == "running":
            leaving = Leaving(gen=self.gen, due=self.clock.now())
            await self._once(self._unit(Release, Changes(leaving=leaving), self.run))

    async def _once(self, unit: Advance) -> None:
        answer = await self._journal.write_once(unit)
        if isinstance(answer, Conflict):
            raise ThreadLost(f"The last word on the thread {self.thread.id} was refused ({answer.guard}).")
        self._absorb(unit, answer)

    async def _refused(self, conflict: Conflict) -> Answered:
        match conflict.guard:
            case "file" | "busy" | "child_limit" | "terminated":
                return conflict.guard
            case "space":
                await self.where.look()
                return conflict.guard
            case "unread" | "inbox":
                await self.look()
                return conflict.guard
            case "cancel":
                self.abort.set()
                return conflict.guard
            case "call":
                for call in self._unsettled():
                    await self.reload_call(call.id)
                return conflict.guard
            case _:
                raise ThreadLost(f"The thread {self.thread.id} has another owner ({conflict.guard}).")

    def _absorb(self, unit: Advance, answer: Committed) -> None:
        """What the unit says is so now, in the journal and here."""
        if isinstance(unit, Claim | Takeover):
            self.epoch += 1
        turn, self.run = self.run.turn, unit.run
        self.seq += len(unit.messages)
        for message in unit.messages:
            (self.root if message.within is None else self._frame_of(message.within)).take(message)
        begun = self._absorb_calls(unit)
        for edited in unit.edited:
            self.root.messages = [edited if each.id == edited.id else each for each in self.root.messages]
        for event_id in unit.read:
            self.inbox.pop(event_id, None)
        for change in unit.inbox:
            self._absorb_inbox(change)
        if unit.leaving is not None:
            self.left, self._due = answer.left, unit.leaving.due
        if answer.cancel_requested:
            self.abort.set()
        for effect in unit.effects:
            self._absorb_effect(effect)
        if unit.run.turn != turn:  # the conversations of prompt tools end with the turn in which they began
            self.leave_frames(1)
        if begun or self.streamed or answer.runs:
            self._listeners.tell(unit, answer, begun, self.streamed)

    def _absorb_calls(self, unit: Advance) -> list[Call]:
        """The calls as they stand now; those of them that others may answer from now on."""
        if unit.calls:
            answered = set(map(_ANSWERED, unit.messages))
            self._frame_of(unit.calls[0].parent_id).begin(unit.calls, answered)
        for call in unit.nested:
            self.nested[call.id] = call
        begun = [call for call in (*unit.calls, *unit.nested) if call.status in OPEN]
        for change in unit.changes:
            call = self._call(change.id).moved(change)
            self._put_call(call)
            if change.now in OPEN and change.starts:
                begun.append(call)
        return begun

    def _frame_of(self, call_id: str | None) -> Frame:
        """The conversation within that call, the thread's own for None."""
        if call_id is None:
            return self.root
        return next(frame for frame in reversed(self._frames) if frame.id == call_id)

    def _absorb_effect(self, effect: Effect) -> None:
        match effect:
            case Enter():
                self.where.space_id = effect.space_id
            case HandOff():
                self.thread = changed(self.thread, active_agent=effect.agent, activated=())
                self._name_speaker()
            case Activated():
                self.thread = changed(self.thread, activated=effect.sides)
            case BackOff():
                self.thread = changed(self.thread, faults=effect.faults, not_before=effect.until)
            case _:
                pass

    def _absorb_inbox(self, change: InboxChange) -> None:
        event = self.inbox.pop(change.event_id, None) or self.reading.pop(change.event_id)
        if change.now == "processing":
            self.reading[event.event_id] = event.changed(change)
        elif change.now == "pending":
            self.inbox[event.event_id] = event.changed(change)


def source_of(context: RunContext) -> Source:
    """The run that is in hand."""
    return Source(thread_id=context.thread.id, run_id=context.run.id, agent=context.run.agent)
