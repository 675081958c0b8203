"""Record of a run: the committed state of its thread, its conversations and its calls."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.catalog import APP_TOOLS
from toolwright.core.checks import brief_value
from toolwright.core.errors import RowBroken
from toolwright.core.journal.child_effects import Activated, BackOff, HandOff, SetValue
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.space_effects import Compact, Source
from toolwright.core.journal.store import KnownMessages, ThreadView
from toolwright.core.journal.units import Advance, Claim, Committed, Takeover
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelResponse
from toolwright.core.schemas.state_paths import read_value_key
from toolwright.core.threads.call import OPEN, Call, is_over
from toolwright.core.threads.inbox import InboxChange, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Usage
from toolwright.core.threads.state_report import OWN
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.conversation import Frame, is_mixed
from toolwright.runtime.context.execution import RunExecution

CALL_ID = attrgetter("call_id")


class RunRecord:
    """The committed state of a thread that this process executes.

    `root` is the thread's own conversation. `frame` is the current frame: the innermost prompt tool's conversation or
    handler's call, or the thread's own conversation if there is none. `holder` is the handler that waits in memory for
    the innermost call that a handler has made, or None; while there is one, the run can neither be suspended nor ended.
    `nested` are calls of frames that were left before the calls had ended. `inbox` are unread messages, `reading` the
    messages that the run reads. `values` are the thread's values by instance and name, or None until the run needs
    them. `absorb` applies a commit to the record. A thread that `answers_nothing` has the single call of an MCP host:
    neither a model is called nor a person asked for values.
    """

    def __init__(self, view: ThreadView, run: Run, active: ActiveAgent | None) -> None:
        self.thread: Thread = view.thread
        self.answers_nothing = view.thread.agent == APP_TOOLS.id
        self.run = run
        self._stored_run: Run | None = None  # the run's row as of the last commit of this process
        self.epoch, self.seq = view.thread.epoch, view.thread.seq
        self.root = self.frame = Frame.create(active, view.messages, view.calls)
        self._frames = [self.root]
        self.activate(self.root, active)
        self.holder: RunExecution | None = None
        self._older: list[Message] | None = None
        self.root.compactions = {each.side: each for each in view.compactions}
        self.nested: dict[str, Call] = {}
        self.inbox = _by_id(view.inbox)
        self.reading = _by_id(view.reading)
        self.posted = view.thread.posted
        self.gen = view.wake.gen if view.wake is not None else 0
        self.node: str | None = (
            None  # the node that must hold the thread's lease, until the claim's first commit
        )
        self.left = False
        self.step_usage: Usage | None = None  # of the step in progress, if it began in this process
        self.unpaid: list[ModelResponse] = []  # answers to hooks, which the next unit pays for
        self._paid = (
            0  # how many of them the unit pays for that is committed now: others can come in meanwhile
        )
        self.values: dict[str | None, dict[str, JSON]] | None = None
        self._due: datetime | None = None
        self._has_dropped = False

    @property
    def is_held_here(self) -> bool:
        """Return whether this process has claimed the run and not released it."""
        return self._stored_run is not None and self.run.held

    @property
    def answered_call(self) -> str | None:
        """The id of the parent's call whose message the run of a child answers; the message is named after it."""
        of_run = [
            each.id for each in self.root.messages if each.run_id == self.run.id and each.role == "user"
        ]
        named = next((each for each in reversed(of_run) if each.startswith(OWN)), None)
        return None if named is None else f"call_{named.removeprefix(OWN).replace('-', '.')}"

    @property
    def known(self) -> KnownMessages | None:
        """The messages as stored, or None if some of them were deleted or left out."""
        if self._has_dropped or self.thread.compacted or not all(each.kept for each in self.root.messages):
            return None
        messages = tuple(self.root.messages)
        return KnownMessages(epoch=self.epoch, seq=self.seq, messages=messages, hides=self.thread.hides)

    @property
    def has_read_all(self) -> bool:
        """Return whether the thread's messages were all read, including those that a compaction leaves out."""
        return self._older is not None or not self.thread.cut

    @property
    def all_messages(self) -> list[Message]:
        """The messages of the thread's own conversation that were read."""
        if not self._older:
            return self.root.messages
        read = {each.id for each in self.root.messages}
        older = [each for each in self._older if each.id not in read]
        # pinned messages lie between those that were left out
        return sorted([*older, *self.root.messages], key=_place)

    def put_older(self, messages: Sequence[Message]) -> None:
        """Add messages of the thread's own conversation that were not read when the thread was claimed."""
        self._older = [*messages]

    @property
    def frames(self) -> Sequence[Frame]:
        """The thread's own conversation, and those of prompt tools and the calls of handlers in it, innermost last."""
        return self._frames

    def activate(self, frame: Frame, active: ActiveAgent | None) -> None:
        """Make `active` the agent of a conversation. A run without an agent ends before it reads `active`."""
        frame.active = active
        if frame is self.frame:
            self.active: ActiveAgent = active  # type: ignore[assignment]  # as above

    def enter_frame(self, frame: Frame) -> int:
        """Make this the current frame. Return the previous number of frames, for `leave_frames`."""
        self._frames.append(frame)
        self.frame, self.holder = frame, frame.holder or self.holder
        self.activate(frame, frame.active)
        return len(self._frames) - 1

    def leave_frames(self, depth: int) -> None:
        """Leave all frames but the outermost `depth`."""
        for left in self._frames[depth:]:
            self.nested.update(left.open)
        del self._frames[depth:]
        self.frame = self._frames[-1]
        self.activate(self.frame, self.frame.active)
        self.holder = next((each.holder for each in reversed(self._frames) if each.holder is not None), None)

    @property
    def conversation(self) -> Frame:
        """The innermost conversation: that of a prompt tool, or the thread's own."""
        return next(frame for frame in reversed(self._frames) if frame.holder is None)

    def is_read(self, call: Call) -> bool:
        """Return whether the model of the prompt tool that has made the call reads its result as a message."""
        return self.frame.holder is None and call.parent_id == self.frame.id and call.id not in self.nested

    def joined(self) -> list[InboxEvent]:
        """Return messages that joined this run and have not been read."""
        return [event for event in self._joined() if event.type != "call"]

    def joined_calls(self) -> list[InboxEvent]:
        """Return the external calls that joined this run and have not started, in order."""
        return [event for event in self._joined() if event.type == "call"]

    def _joined(self) -> list[InboxEvent]:
        return [event for event in self.inbox.values() if event.run_id == self.run.id]

    def next_seq(self, changes: Changes) -> int:
        """Return the sequence number in the thread of the next message of these changes."""
        return self.seq + len(changes.messages) + 1

    def unit(
        self,
        kind: Callable[..., Advance],
        changes: Changes,
        run: Run,
        effects: Sequence[Effect],
        token: str,
        at: datetime,
    ) -> Advance:
        """Return the unit of that kind that makes these changes at the time `at`."""
        held = changes.leaving is None
        if self.unpaid:
            run, self._paid = _paying(run, self.unpaid), len(self.unpaid)
        if kind is not Takeover and run.lives and not changes.is_restart:
            run = changed(run, lives=0, isolated=0)
        if run.held != held:
            run = changed(run, held=held)
        return kind(
            token=token,
            at=at,
            thread_id=self.thread.id,
            epoch=self.epoch,
            seq=self.seq,
            run=run,
            was=self._stored_run,
            messages=tuple(changes.messages),
            calls=tuple(changes.calls.values()) if changes.calls else (),
            nested=changes.nested,
            edited=changes.edited,
            changes=tuple(changes.call_changes),
            read=changes.read,
            files=changes.files,
            env=changes.env,
            inbox=changes.inbox,
            dropped=changes.dropped,
            step=changes.step,
            events=tuple(changes.events),
            effects=tuple(effects),
            leaving=changes.leaving,
            node=self.node,
        )

    def absorb(self, unit: Advance, answer: Committed) -> list[Call]:
        """Apply a committed unit to the record. Return the calls that can now be answered from outside."""
        if isinstance(unit, Claim | Takeover):
            self.epoch, self.node = self.epoch + 1, None
        turn, self.run = self.run.turn, unit.run
        if self._paid:
            del self.unpaid[: self._paid]
            self._paid = 0
        self._stored_run = unit.run
        if unit.step is not None:
            self.step_usage = unit.step.usage
        self.seq += len(unit.messages)
        if unit.dropped:
            self._has_dropped = True
        for message in unit.messages:
            (self.root if message.within is None else self._frame_of(message.within)).append(message)
        begun = self._absorb_calls(unit)
        if unit.edited or unit.read or unit.inbox or unit.effects:
            self._absorb_rest(unit)
        if unit.leaving is not None:
            self.left, self._due = answer.left, unit.leaving.due
        if unit.run.turn != turn:  # the conversations of prompt tools end with their turn
            self.leave_frames(1)
        return begun

    def _absorb_rest(self, unit: Advance) -> None:
        """Absorb the rarer parts of a unit: edited messages, and changes of the inbox and the thread."""
        for edited in unit.edited:
            if self._older is not None:
                self._older = [edited if each.id == edited.id else each for each in self._older]
            self.root.messages = [edited if each.id == edited.id else each for each in self.root.messages]
        for event_id in unit.read:
            self.inbox.pop(event_id, None)
        for change in unit.inbox:
            self._absorb_inbox(change)
        for effect in unit.effects:
            self._absorb_effect(effect)

    def _absorb_calls(self, unit: Advance) -> list[Call]:
        if unit.calls:
            answered = set(map(CALL_ID, unit.messages))
            parent_id = unit.calls[0].parent_id
            (self.root if parent_id is None else self._frame_of(parent_id)).begin(unit.calls, answered)
        calls = unit.calls
        if unit.nested:
            for call in unit.nested:
                self.put_call(call)
            calls = (*calls, *unit.nested)
        begun = [call for call in calls if call.status in OPEN] if calls else []
        for change in unit.changes:
            call = change.after
            if call.id in self.frame.calls:
                self.frame.put(call)
            else:
                self.put_call(call)
            if call.status in OPEN and call.started_at is not change.before.started_at:
                begun.append(call)
        return begun

    def _absorb_inbox(self, change: InboxChange) -> None:
        event = self.inbox.pop(change.event_id, None) or self.reading.pop(change.event_id)
        if change.now == "processing":
            self.reading[event.event_id] = event.changed(change)
        elif change.now == "pending":
            self.inbox[event.event_id] = event.changed(change)

    def _absorb_effect(self, effect: Effect) -> None:
        match effect:
            case HandOff():
                self.thread = changed(self.thread, active_agent=effect.agent, activated=())
            case Activated():
                self.thread = changed(self.thread, activated=effect.sides)
            case BackOff():
                self.thread = changed(self.thread, faults=effect.faults, not_before=effect.until)
            case Compact():
                self.put_compaction(effect)
            case SetValue() if self.values is not None:
                _put_value(self.values, effect.key, effect.value)
            case _:
                pass

    def put_compaction(self, effect: Compact) -> None:
        """Apply a compaction to its conversation."""
        row = effect.compaction
        cut = self.thread.cut if effect.cut is None else effect.cut
        self.thread = changed(self.thread, compacted=max(self.thread.compacted, row.number), cut=cut)
        for frame in self._frames:
            if (frame.id or "") == row.within:
                frame.compactions = {**frame.compactions, row.side: row}

    def put_messages(self, messages: Sequence[Message]) -> None:
        """Replace the messages of the thread's own conversation by the re-read ones, and keep those known only here."""
        known = {each.id for each in messages}
        own = [each for each in self.root.messages if each.id not in known]
        self.root.messages = sorted([*messages, *own], key=lambda each: each.seq or 0)
        self.root.mixed = is_mixed(self.root.messages)  # messages that are shown again can be mixed

    def put_pins(self, pinned: Sequence[Message]) -> None:
        """Set which messages are pinned, as re-read. Pinned messages that were left out are shown again."""
        ids = {each.id for each in pinned}
        known = self.root.messages
        if ids == {each.id for each in known if each.pinned}:
            return
        said = [
            each if each.pinned == (each.id in ids) else changed(each, pinned=each.id in ids)
            for each in known
        ]
        there = {each.id for each in known}
        older = [each for each in pinned if each.id not in there]
        self.root.messages = sorted([*older, *said], key=lambda each: each.seq or 0)

    def put_values(self, texts: Mapping[str, str]) -> None:
        """Set the thread's values, given as JSON text by key. Raises `RowBroken` for invalid JSON."""
        values: dict[str | None, dict[str, JSON]] = {}
        for key, text in texts.items():
            try:
                _put_value(values, key, text)
            except ValueError:
                what = f"The value {brief_value(key)} of the thread {self.thread.id}"
                raise RowBroken(f"{what} is broken: it is not JSON.") from None
        self.values = values

    def put_call(self, call: Call) -> None:
        """Replace the call by its new state: in its frame, or among the calls of frames that were left."""
        for frame in reversed(self._frames):
            if call.id in frame.calls:
                frame.put(call)
                return
        self.nested[call.id] = call

    def unsettled(self) -> list[Call]:
        """Return the calls that can have been settled elsewhere."""
        below = [call for call in self.nested.values() if not is_over(call.status)]
        return [call for frame in self._frames for call in frame.unanswered()] + below

    def _frame_of(self, call_id: str | None) -> Frame:
        """Return the conversation of that call, or the thread's own for None."""
        if call_id is None:
            return self.root
        return next(frame for frame in reversed(self._frames) if frame.id == call_id)

    def put_inbox(self, unread: Iterable[InboxEvent]) -> None:
        """Set the unread events."""
        self.inbox = _by_id(unread)


def _paying(run: Run, answers: Sequence[ModelResponse]) -> Run:
    """Return the run with the cost of these answers."""
    for each in answers:
        cost = run.cost if each.cost is None else (run.cost or 0.0) + each.cost
        run = changed(run, usage=run.usage + each.usage, cost=cost)
    return run


def _place(message: Message) -> float:
    return math.inf if message.seq is None else message.seq


def _put_value(values: dict[str | None, dict[str, JSON]], key: str, text: str | None) -> None:
    name, instance = read_value_key(key)
    if text is None:
        values.get(instance, {}).pop(name, None)
    else:
        values.setdefault(instance, {})[name] = json.loads(text)


def _by_id(events: Iterable[InboxEvent]) -> dict[str, InboxEvent]:
    return {event.event_id: event for event in events}


def source_of(record: RunRecord) -> Source:
    """Return the current run as the source of an event."""
    return Source(thread_id=record.thread.id, run_id=record.run.id, agent=record.run.agent)
