"""What a unit does beside its thread: in spaces, in other agents' inboxes, to timers and minds.

A call's effects are values that are committed with its result (JOURNAL, "What a call may do to the database"). The
units from outside a run carry the same values, so that there is one way to write a space.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from toolwright.core.child import ChildStatus
from toolwright.core.env import EnvChange
from toolwright.core.event import EventDraft
from toolwright.core.file import FileChange
from toolwright.core.inbox import InboxEvent
from toolwright.core.json_value import JSONObject
from toolwright.core.mind import Goal, Memory, Plan
from toolwright.core.request import VariablesRequest
from toolwright.core.run import Run, Side
from toolwright.core.space import Member, Reaction, Space, SpaceMessage
from toolwright.core.thread import Thread
from toolwright.core.value import value


@value
class Delivery:
    """An event for the inbox of an agent's home thread, which is made if it is not there yet, and woken.

    The event waits for the next run: one that is queued, else `run`, with the event `queued`. A terminated thread
    gets nothing any more.
    """

    thread: Thread
    event: InboxEvent
    run: Run
    queued: EventDraft


@value
class Source:
    """What of a run a space's events come from; empty for what people and services do."""

    thread_id: str | None = None
    run_id: str | None = None
    agent: str | None = None


NOBODY = Source()


@value
class SpaceEffect:
    """What all effects on a space have: its id, whence it comes, and the events that it gives there."""

    space_id: str
    source: Source = NOBODY
    events: tuple[EventDraft, ...] = ()


@value
class Tell(SpaceEffect):
    """Nothing changes, but the space's followers are told the events."""


@value
class Post(SpaceEffect):
    """A message is said, at the next place of the space; its events get that `seq`.

    `revision` is that of the membership which `deliveries` were made for, None if it does not matter. With
    `joining` its author becomes a member, where it is none.
    """

    message: SpaceMessage
    revision: int | None = None
    deliveries: tuple[Delivery, ...] = ()
    joining: Member | None = None


@value
class Edit(SpaceEffect):
    """A message has another content and other metadata; one that is gone stays gone."""

    message: SpaceMessage


@value
class Erase(SpaceEffect):
    """A message is deleted, with its reactions."""

    message_id: str


@value
class React(SpaceEffect):
    """An entity reacts to a message; once with the same emoji."""

    reaction: Reaction


@value
class Unreact(SpaceEffect):
    """An entity takes a reaction back."""

    message_id: str
    entity_id: str
    emoji: str


@value
class SaveSpace(SpaceEffect):
    """A space is new, or no longer what it was: then `was` must be what the journal has."""

    space: Space
    was: Space | None = None


@value
class DropSpace(SpaceEffect):
    """A space is deleted, with its members, messages and reactions."""


@value
class SaveMember(SpaceEffect):
    """An entity is in a space, with that role. `revision` is that of the membership which was looked at."""

    member: Member
    revision: int


@value
class DropMember(SpaceEffect):
    """An entity is in a space no longer."""

    entity_id: str


@value
class MarkRead(SpaceEffect):
    """A member has read up to that place; never back."""

    entity_id: str
    seq: int


@value
class Enter:
    """The thread's active space, None for none."""

    thread_id: str
    space_id: str | None


@value
class SetTimer:
    """The motor is to wake what that name stands for, then and not before."""

    name: str
    due: datetime


@value
class DropTimer:
    """A timer is not needed any more."""

    name: str


@value
class Deliver:
    """An event for an agent's inbox."""

    delivery: Delivery


@value
class SetGoal:
    """A goal is new or has changed."""

    goal: Goal


@value
class DropGoal:
    """A goal is given up."""

    agent_id: str
    id: str


@value
class SetMemory:
    """A memory is new or has changed."""

    memory: Memory


@value
class DropMemory:
    """A memory is forgotten."""

    agent_id: str
    key: str


@value
class SetPlan:
    """A plan is new or has changed; its timer is set to its next time."""

    plan: Plan


@value
class DropPlan:
    """A plan is given up, and its timer with it."""

    agent_id: str
    id: str


@value
class FirePlan:
    """A plan's time has come: its event is delivered, `then` is what is left of it, None if it fires but once.

    Only if the plan is still as it was seen; else the guard `plan` fails.
    """

    plan: Plan
    then: Plan | None
    delivery: Delivery


@value
class ChildEffect:
    """What all effects on other threads of a family, and on what a thread keeps beside its messages, have."""

    thread_id: str


@value
class Spawn(ChildEffect):
    """A child thread begins with a message, its files and values, and is woken; once, however often it is asked.

    `told` is what followers of the parent read of it, where no call of the parent says so.
    """

    thread: Thread
    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    told: EventDraft | None = None


@value
class Speak(ChildEffect):
    """A message for a thread: it joins the open run, or `run` is made for it. The thread is woken.

    `report` is the call that waits for the end of the session, None if none does. To a terminated thread nobody
    speaks: the guard `terminated` fails.
    """

    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()
    report: str | None = None


@value
class Report(ChildEffect):
    """A child's session is over: it stands as `state`, and its parent is told.

    `report` is the call that waits for it: it is settled with `result`, or with the event `late` if its run has gone
    on; None tells the parent's inbox what `notice` says, if anything. If nobody is to be told any more, `report` has
    changed meanwhile.
    """

    parent: Thread
    state: ChildStatus
    report: str | None
    result: JSONObject | None
    outcome: EventDraft | None
    late: InboxEvent | None
    notice: Delivery | None
    finished: EventDraft
    files: tuple[FileChange, ...] = ()


@value
class Notify(ChildEffect):
    """Word of a child for the inbox of its parent, with copies of files."""

    notice: Delivery
    files: tuple[FileChange, ...] = ()


@value
class Close(ChildEffect):
    """The thread is terminated: nobody speaks to it any more, and all runs in it and below it are to stop."""


@value
class CancelChildren(ChildEffect):
    """The open runs of all threads below this one are to stop, and nobody is told of their end."""


@value
class Stop(ChildEffect):
    """The same, and those of the thread itself: it is over, and so is its family."""


@value
class Terminate(ChildEffect):
    """A child is never spoken to again; all runs in it and below it are to stop, and nobody is told of their end."""


@value
class HandOff(ChildEffect):
    """Another agent answers in the thread from now on."""

    agent: str


@value
class Activated(ChildEffect):
    """The prompts of these sides have begun in the thread."""

    sides: tuple[Side, ...]


@value
class SetValue(ChildEffect):
    """A value of the thread's own, as JSON text; None takes it away."""

    key: str
    value: str | None


@value
class OpenRequest(ChildEffect):
    """Somebody is asked for values."""

    request: VariablesRequest


@value
class CloseRequest(ChildEffect):
    """A request is not open any more, if it was."""

    id: str


@value
class Room(ChildEffect):
    """The thread has fewer than `most` children of that agent that are not terminated, else the guard `room` fails."""

    agent: str
    most: int


@value
class HoldRequest(ChildEffect):
    """A request is still open, else the guard `request` fails."""

    id: str


@value
class TakeRequest(ChildEffect):
    """A request is answered: once, else the guard `request` fails."""

    id: str


Effect: TypeAlias = (
    Tell
    | Post
    | Edit
    | Erase
    | React
    | Unreact
    | SaveSpace
    | DropSpace
    | SaveMember
    | DropMember
    | MarkRead
    | Enter
    | SetTimer
    | DropTimer
    | Deliver
    | SetGoal
    | DropGoal
    | SetMemory
    | DropMemory
    | SetPlan
    | DropPlan
    | FirePlan
    | Spawn
    | Speak
    | Report
    | Notify
    | Close
    | CancelChildren
    | Stop
    | Terminate
    | HandOff
    | Activated
    | SetValue
    | OpenRequest
    | CloseRequest
    | Room
    | HoldRequest
    | TakeRequest
)


def deliveries_of(effects: Sequence[Effect]) -> list[Delivery]:
    """All deliveries, by thread."""
    found = [each.delivery for each in effects if isinstance(each, Deliver | FirePlan)]
    found += [each for post in effects if isinstance(post, Post) for each in post.deliveries]
    return sorted(found, key=lambda each: each.thread.id)
