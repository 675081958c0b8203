"""A thread in the hands of one drain: what the drain knows of it, and its one way to write."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from toolwright.core import backoff
from toolwright.core.active import ActiveAgent
from toolwright.core.call import OPEN, Call, CallChange, is_over
from toolwright.core.drafts import by_path
from toolwright.core.effects import Activated, Effect, Enter, HandOff, Post, Terminate
from toolwright.core.entity import entity_of
from toolwright.core.env import EnvChange, EnvRow
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.event import Event, EventDraft
from toolwright.core.file import File, FileChange
from toolwright.core.inbox import InboxChange, InboxEvent
from toolwright.core.json_value import JSONObject
from toolwright.core.logs import logger
from toolwright.core.message import Message
from toolwright.core.pipeline import PreparedCall
from toolwright.core.ports import Clock, NewId, Store, ThreadView
from toolwright.core.redact import NOTHING, Redactor
from toolwright.core.run import Run, Side, Step
from toolwright.core.thread import Thread
from toolwright.core.units import Advance, Claim, Committed, Conflict, Leaving, Release, Takeover
from toolwright.core.value import changed
from toolwright.runtime.abort import Abort
from toolwright.runtime.env import ThreadEnv
from toolwright.runtime.execution import RunExecution
from toolwright.runtime.frame import Frame
from toolwright.runtime.redaction import clean_message
from toolwright.runtime.rooms import Rooms
from toolwright.runtime.showing import Intended
from toolwright.wire.call_shown import call_shown_by
from toolwright.wire.event import message_event

log = logger("toolwright.runtime")
T = TypeVar("T")
Resolve: TypeAlias = Callable[[Thread, ActiveAgent | None, Sequence[EnvRow]], ThreadEnv]
"""What holds in a thread for an agent through one of its prompts, from the rows of values."""
Opened: TypeAlias = Callable[[Call, str], None]
"""Takes a call that somebody outside may answer from now on, and the id of the agent that made it."""
Answered: TypeAlias = Literal["done", "call", "unread", "cancel", "inbox", "file", "space", "busy", "room"]
"""A unit is in the journal, or a guard has failed that its drain can answer."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told at once what a commit has done beside its own thread: threads woken, calls opened."""

    woken: Callable[[str], None]
    opened: Opened
    publish: Callable[[Sequence[Event]], None]


@dataclass(frozen=True, slots=True)
class Injected:
    """A message that a handler says in the thread with its result."""

    id: str
    role: Literal["user", "assistant"]
    content: str


class ThreadLost(Exception):
    """The thread is another owner's now: this drain writes no more."""


@dataclass(slots=True, kw_only=True)
class Move:
    """What one unit of a drain is to contain, while it is put together."""

    messages: list[Message] = field(default_factory=list[Message])
    calls: list[Call] = field(default_factory=list[Call])
    nested: list[Call] = field(default_factory=list[Call])
    edited: list[Message] = field(default_factory=list[Message])
    injected: Sequence[Injected] = ()
    changes: list[CallChange] = field(default_factory=list[CallChange])
    read: list[str] = field(default_factory=list[str])
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    inbox: list[InboxChange] = field(default_factory=list[InboxChange])
    effects: list[Intended] = field(default_factory=list[Intended])
    shown: dict[str, str] = field(default_factory=dict[str, str])
    dropped: list[int] = field(default_factory=list[int])
    events: list[EventDraft] = field(default_factory=list[EventDraft])
    step: Step | None = None
    leaving: Leaving | None = None

    def copy(self) -> "Move":
        """The move as it is, to be tried again from here."""
        return changed(
            self,
            messages=[*self.messages],
            changes=[*self.changes],
            events=[*self.events],
            read=[*self.read],
            effects=[*self.effects],
            shown={**self.shown},
        )


class Hold:
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
        voice: ActiveAgent | None,
        listeners: Listeners,
        rooms: Rooms,
    ) -> None:
        self._listeners = listeners
        self._rooms = rooms
        self._store = store
        self._resolve = resolve
        self._rows: Sequence[EnvRow] = view.env
        self._envs: dict[int, ThreadEnv] = {}
        self.root = Frame.of(voice, view.messages, view.calls)  # the thread's own conversation
        self.frames = [self.root]
        self.author = None if voice is None else entity_of(voice.agent)
        self.redactor = NOTHING
        self.clock = clock
        self.new_id = new_id
        self.thread: Thread = view.thread
        self.run = run
        self.epoch = view.thread.epoch
        self.seq = view.thread.seq
        self.nested: dict[str, Call] = {}
        self.base = voice
        self.context: dict[str, Any] = {}  # whatever handlers put there
        self.prepared: dict[str, PreparedCall] = {}
        self.waits: dict[str, float] = {}
        self.inbox: dict[str, InboxEvent] = {event.event_id: event for event in view.inbox}
        self.reading: dict[str, InboxEvent] = {event.event_id: event for event in view.reading}
        self.posted = view.thread.posted
        self.space_id = view.thread.space_id
        self.streamed: dict[str, str] = {}
        self.call_ids: dict[int, str] = {}
        self.gone: set[str] = set()
        self.gen = view.wake.gen if view.wake is not None else 0
        self._nonce, self._commits = new_id("hold"), 0
        self.abort = Abort()
        self.nudged = asyncio.Event()
        self.left = False
        self.stopping = False
        self._intended: tuple[Callable[..., Advance], Move, Run] | None = None
        self._unwritten: Advance | None = None
        self._learn(self.env_for(voice).redactor)
        if run.cancel_requested_at is not None:
            self.abort.set()

    @property
    def frame(self) -> Frame:
        """The conversation that is at work: that of the innermost prompt tool, else the thread's own."""
        return self.frames[-1]

    @property
    def holder(self) -> RunExecution | None:
        """The handler that waits in memory for what is at work, if one does: nothing may park or end the run then."""
        return next((frame.holder for frame in reversed(self.frames) if frame.holder is not None), None)

    @property
    def voice(self) -> ActiveAgent:
        """Who speaks."""
        voice = self.frame.voice
        assert voice is not None, "a run of an agent that is not there ends before it speaks"
        return voice

    @property
    def may_have_children(self) -> bool:
        """Whether the thread may have made others."""
        return self.thread.active_agent is not None or (self.base is not None and bool(self.base.relations))

    @property
    def side(self) -> Side | None:
        """The side that speaks, of an agent with two."""
        voice = self.root.voice
        return None if voice is None or len(voice.sides) < 2 else self.run.side

    @property
    def speaker(self) -> str | None:
        """The name of the prompt that speaks, where others may have spoken in the thread too."""
        voice = self.root.voice
        several = voice is not None and (len(voice.sides) > 1 or self.thread.active_agent is not None)
        return voice.prompt.name if voice is not None and several else None

    @property
    def env(self) -> ThreadEnv:
        """What holds in the thread for whoever speaks."""
        return self.env_for(self.frame.voice)

    def env_for(self, voice: ActiveAgent | None) -> ThreadEnv:
        """What holds in the thread for that voice."""
        known = self._envs.get(id(voice))
        if known is None:
            known = self._envs[id(voice)] = self._resolve(self.thread, voice, self._rows)
        return known

    def speaks(self, voice: ActiveAgent) -> None:
        """From now on this voice leads the thread's own conversation."""
        if voice is not self.root.voice:
            self.root.voice, self.author = voice, entity_of(voice.agent)
            self._envs.clear()
            self._learn(self.env_for(voice).redactor)

    def unanswered(self) -> list[Call]:
        """The calls of the step that the model has no answer to yet, in order."""
        return self.frame.unanswered()

    def joined(self) -> list[InboxEvent]:
        """Messages that joined this run and have not been read."""
        return [event for event in self.inbox.values() if event.run_id == self.run.id]

    @property
    def trigger_space_id(self) -> str | None:
        """The space of the message that the run reads, if it reads one."""
        told = self.trigger
        space_id = None if told is None else told.get("spaceId")
        return space_id if isinstance(space_id, str) and space_id not in self.gone else None

    @property
    def trigger(self) -> JSONObject | None:
        """The message in a space that the run reads, the newest if there are several."""
        told = [event.content for event in self.reading.values() if event.type == "space_message"]
        return told[-1] if told else None

    def space_in(self, move: Move) -> str | None:
        """The space that the agent is in once the move is done."""
        entered = [effect for effect in move.effects if isinstance(effect, Enter)]
        return entered[-1].space_id if entered else self.space_id

    def place(self, move: Move) -> int:
        """The place in the thread of the next message of this move."""
        return self.seq + len(move.messages) + 1

    def say(self, move: Move, message: Message) -> None:
        """Put a message, made for its `place`, into the move, with its event; no secret gets past here."""
        self.put(move, clean_message(message, self.redactor) if self.redactor else message)

    def put(self, move: Move, message: Message) -> None:
        """The same for a message whose texts have all come without secrets through another door (decision 8)."""
        move.messages.append(message)
        move.events.append(message_event(message))

    def leaving(self) -> Leaving:
        """How to leave when the run is over: come back at once if the inbox still holds something."""
        rest = any(event.run_id != self.run.id for event in self.inbox.values())
        return Leaving(gen=self.gen, due=self.clock.now() if rest else None)

    async def look(self) -> None:
        """Read the inbox anew, and the env: both may have been changed from outside.

        The wake is read first, so that whatever is not in the inbox by then has raised it once more.
        """
        wake = await self.insist(lambda: self._store.wake(self.thread.id))
        if wake is not None:
            self.gen = wake.gen
        unread = await self.insist(lambda: self._store.unread(self.thread.id))
        self.inbox = {event.event_id: event for event in unread}
        await self.insist(self.look_at_env)

    async def look_at_env(self) -> None:
        """Read the env anew. Secrets that the run has known once it does not forget."""
        self._rows = await self._store.env(self.thread.id)
        self._envs.clear()
        self._learn(self.env_for(self.root.voice).redactor)

    def learn(self, name: str, secret: str) -> None:
        """A secret that is to be kept out of everything from now on."""
        self._learn(self.redactor.with_secrets([(name, secret)]))

    def _learn(self, redactor: Redactor) -> None:
        grown = self.redactor.with_secrets(redactor.secrets)
        if grown is not self.redactor:
            self.redactor = grown
            for frame in self.frames:
                frame.messages = [clean_message(message, grown) for message in frame.messages]
                frame.opening = tuple([clean_message(message, grown) for message in frame.opening])

    def _unsettled(self) -> list[Call]:
        """The calls that somebody else may have settled meanwhile."""
        below = [call for call in self.nested.values() if not is_over(call.status)]
        return [call for frame in self.frames for call in frame.unanswered()] + below

    async def _look_at_space(self) -> None:
        """A space has changed, or is gone: then the agent is in none."""
        for space_id in self._near():
            if await self.insist(lambda one=space_id: self._store.spaces.space(one)) is None:
                self.gone.add(space_id)
        if self.space_id in self.gone:
            self.space_id = None

    async def check_space(self, move: Move) -> None:
        """Put the agent out of a space that it may be in no longer (D10)."""
        here, author = self.space_id, self.author
        if here is None or author is None:
            return
        if await self.insist(lambda: self._rooms.open_to(here, author.id)) is None:
            self.space_id = None
            move.effects.append(Enter(thread_id=self.thread.id, space_id=None))

    def _near(self) -> list[str]:
        """The spaces in which what the run does may be seen."""
        return [one for one in (self.space_id, self.trigger_space_id) if one is not None]

    async def unspoken(self) -> Redactor:
        """What must not be said where the run is seen: the secrets of the agents there."""
        unspoken = NOTHING
        for space_id in self._near():
            there = await self.insist(lambda one=space_id: self._rooms.redactor(one))
            unspoken = there.with_secrets(unspoken.secrets)
        return unspoken

    async def files(self) -> Mapping[str, File]:
        """The thread's files, by folded path."""
        return by_path(await self.insist(lambda: self._store.files(self.thread.id)))

    async def reload_call(self, call_id: str) -> Call:
        """Read a call anew: somebody else may have settled it."""
        call = await self.insist(lambda: self._store.call(call_id))
        assert call is not None, "a call is never deleted"
        self._calls_with(call_id)[call_id] = call
        return call

    def _calls_with(self, call_id: str) -> dict[str, Call]:
        """Where that call is known."""
        return next((frame.calls for frame in reversed(self.frames) if call_id in frame.calls), self.nested)

    async def check_cancel(self) -> None:
        """Read whether the run was asked to cancel."""
        run = await self._store.run(self.run.id)
        if run is not None and run.cancel_requested_at is not None:
            self.abort.set()

    async def commit(self, kind: Callable[..., Advance], move: Move, run: Run) -> Answered:
        """Commit `move` and the run's new row as one unit of that kind; else the guard that failed.

        Raises `ThreadLost` if the thread is not ours any more, `Unwritable` if the journal cannot hold it.
        While the journal cannot be written the same unit is tried again: what it carries is never dropped.
        """
        if move.effects:
            self._intended = kind, move, run
            unit = await self.insist(lambda: self._made(kind, move, run))
        else:
            unit = self._unit(kind, move, run)
        self._unwritten = unit
        try:
            answer = await self.insist(lambda: self._store.commit(unit))
        except Unwritable:
            self._intended = self._unwritten = None
            raise
        self._intended = self._unwritten = None
        if isinstance(answer, Conflict):
            return await self._refused(answer)
        self._absorb(unit, answer)
        if answer.posted != self.posted:
            self.posted = answer.posted
            await self.look()
        return "done"

    async def _made(self, kind: Callable[..., Advance], move: Move, run: Run) -> Advance:
        return self._unit(kind, move, run, await self._rooms.settled(move.effects))

    def _unit(
        self, kind: Callable[..., Advance], move: Move, run: Run, effects: Sequence[Effect] = ()
    ) -> Advance:
        lives, held = run.lives if kind is Takeover else 0, move.leaving is None
        if (run.lives, run.held) != (lives, held):
            run = changed(run, lives=lives, held=held)
        return kind(
            token=self._token(),
            at=self.clock.now(),
            thread_id=self.thread.id,
            epoch=self.epoch,
            seq=self.seq,
            run=run,
            messages=tuple(move.messages),
            calls=tuple(move.calls),
            nested=tuple(move.nested),
            edited=tuple(move.edited),
            changes=tuple(move.changes),
            read=tuple(move.read),
            files=move.files,
            env=move.env,
            inbox=tuple(move.inbox),
            dropped=tuple(move.dropped),
            step=move.step,
            events=tuple(move.events),
            effects=tuple(effects),
            leaving=move.leaving,
        )

    async def give_back(self) -> None:
        """Leave the run to the next process: what could not be written yet, then word that nobody has it.

        Each is tried once; raises `StoreError` or `ThreadLost`.
        """
        unit, intended = self._unwritten, self._intended
        self._intended = self._unwritten = None
        if unit is None and intended is not None:
            unit = await self._made(*intended)
        if unit is not None:
            await self._once(unit)
        if self.run.status == "running":
            leaving = Leaving(gen=self.gen, due=self.clock.now())
            await self._once(self._unit(Release, Move(leaving=leaving), self.run))

    async def _once(self, unit: Advance) -> None:
        answer = await self._store.commit(unit)
        if isinstance(answer, Conflict):
            raise ThreadLost(f"The last word on the thread {self.thread.id} was refused ({answer.guard}).")
        self._absorb(unit, answer)

    def _token(self) -> str:
        """A name for the next commit, cheaper than a new id and as unique."""
        self._commits += 1
        return f"{self._nonce}.{self._commits}"

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it, again and again while the journal is unavailable: a drain never drops what it has in hand."""
        delay: float | None = None
        while True:
            try:
                return await work()
            except StoreError as error:
                log.warning("Thread %s waits for the journal: %s", self.thread.id, error)
                delay = backoff.longer(delay)
                await self.clock.sleep(delay)

    async def _refused(self, conflict: Conflict) -> Answered:
        match conflict.guard:
            case "file" | "busy" | "room":
                return conflict.guard
            case "space":
                await self._look_at_space()
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
        self.epoch += isinstance(unit, Claim | Takeover)
        self.seq += len(unit.messages)
        self.run = unit.run
        for message in unit.messages:
            self._frame_of(message.within).take(message)
        if unit.calls:
            self._frame_of(unit.calls[0].parent_id).calls = {call.id: call for call in unit.calls}
        self.nested.update({call.id: call for call in unit.nested})
        for call in (*unit.calls, *unit.nested):
            if call.status in OPEN:
                self._listeners.opened(call, unit.run.agent)
        for change in unit.changes:
            known = self._calls_with(change.id)
            moved = known[change.id] = known[change.id].moved(change)
            if change.starts and change.now in OPEN:
                self._listeners.opened(moved, unit.run.agent)
        for edited in unit.edited:
            self.root.messages = [edited if each.id == edited.id else each for each in self.root.messages]
        for event_id in unit.read:
            self.inbox.pop(event_id, None)
        for change in unit.inbox:
            self._absorb_inbox(change)
        if unit.leaving is not None:
            self.left = answer.left
        if answer.cancel_requested:
            self.abort.set()
        for effect in unit.effects:
            self._absorb_effect(effect)
        if self.streamed:
            self._take_back(unit)
        for thread_id, _ in answer.runs:
            self._listeners.woken(thread_id)

    def _frame_of(self, call_id: str | None) -> Frame:
        """The conversation within that call, the thread's own for None."""
        if call_id is None:
            return self.root
        return next(frame for frame in reversed(self.frames) if frame.id == call_id)

    def _absorb_effect(self, effect: Effect) -> None:
        match effect:
            case Enter():
                self.space_id = effect.space_id
            case HandOff():
                self.thread = changed(self.thread, active_agent=effect.agent, activated=())
            case Activated():
                self.thread = changed(self.thread, activated=effect.sides)
            case Terminate(thread_id=thread_id) if thread_id == self.thread.id:
                self.thread = changed(self.thread, state="terminated")
            case _:
                pass

    def _take_back(self, unit: Advance) -> None:
        """What was shown of a call while the model wrote it, and came to nothing, is taken back."""
        for post in [effect for effect in unit.effects if isinstance(effect, Post)]:
            self.streamed.pop(call_shown_by(post.message.id), None)
        for change in [*unit.calls, *unit.changes]:
            status = change.status if isinstance(change, Call) else change.now
            if is_over(status) and (space_id := self.streamed.pop(change.id, None)) is not None:
                self._listeners.publish([_aborted(self.run, change.id, space_id, unit.at)])

    def _absorb_inbox(self, change: InboxChange) -> None:
        event = self.inbox.pop(change.event_id, None) or self.reading.pop(change.event_id)
        if change.now == "processing":
            self.reading[event.event_id] = event.changed(change)
        elif change.now == "pending":
            self.inbox[event.event_id] = event.changed(change)


def _aborted(run: Run, call_id: str, space_id: str, at: datetime) -> Event:
    payload: JSONObject = {"streamId": call_id}
    return Event(
        thread_id=run.thread_id,
        run_id=run.id,
        agent=run.agent,
        space_id=space_id,
        type="space.message.aborted",
        payload=payload,
        at=at,
    )
