"""Effects of a unit of work outside its thread: on spaces, other inboxes, timers, minds, memory, thread trees and MCP.

A call's effects are values that are committed with its result (JOURNAL, "What a call may do to the database"). Units
from outside a run carry the same values, so that each row is written in only one way.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from toolwright.core.agents.memory import Block, Passage, Vector
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.journal.child_effects import (
    Activated,
    BackOff,
    CancelChildren,
    ChildLimit,
    Close,
    CloseRequest,
    HandOff,
    HoldRequest,
    Notify,
    OpenRequest,
    Report,
    SetValue,
    Spawn,
    Speak,
    Stop,
    TakeRequest,
    Terminate,
)
from toolwright.core.journal.mcp_effects import DropMcpTask, HoldMcpTool, McpEffect, UnholdMcpTool
from toolwright.core.spaces.space import Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery
from toolwright.core.value import value

MindKind: TypeAlias = Literal["goals", "memories", "plans", "blocks", "links"]
"""Kinds of rows that an agent keeps; `links` are those to blocks of others, which it reads."""


def link_key(agent_id: str, label: str) -> str:
    """Return the key of a link, unique for its reader."""
    return f"{agent_id}/{label}"


@value
class CheckMind:
    """Check the rows of one kind in an agent's mind that this unit changes. Conflict: `mind`, if the check fails.

    `keys` are the rows that the unit writes. With these there are at most `most` rows. If `seen` is given, these rows
    are still stored under their keys; the check is executed before the effects that write them.
    """

    agent_id: str
    kind: MindKind
    keys: tuple[str, ...]
    most: int | None = None
    seen: Mapping[str, object] | None = None

    def holds(self, stored: Mapping[str, object]) -> bool:
        """Return whether the rows that are stored pass the check."""
        if self.seen is not None and any(stored.get(key) != self.seen.get(key) for key in self.keys):
            return False
        return self.most is None or len(stored.keys() | set(self.keys)) <= self.most


@value
class SetGoal:
    """A goal is new or has changed."""

    goal: Goal


@value
class DropGoal:
    """Delete a goal, if it exists."""

    agent_id: str
    id: str


@value
class SetMemory:
    """A memory is new or has changed."""

    memory: Memory


@value
class DropMemory:
    """A memory is forgotten; nothing happens if it is not there."""

    agent_id: str
    key: str


@value
class SetPlan:
    """A plan is new or has changed; its timer is set to its next time."""

    plan: Plan


@value
class DropPlan:
    """Delete a plan and its timer, if it exists."""

    agent_id: str
    id: str


@value
class FirePlan:
    """Fire a due plan: deliver its event and replace it with `then`, or delete it if `then` is None.

    Conflict: `plan`, if the plan has changed.
    """

    plan: Plan
    then: Plan | None
    delivery: Delivery


@value
class MovePlans:
    """Every relative plan is due so much later, or earlier if `by` is negative: the clock was set."""

    by: timedelta


@value
class DropMind:
    """Delete everything that is kept under one id: goals, memories, plans with their timers, blocks and passages."""

    agent_id: str


@value
class SetBlock:
    """A memory block is new or has other content; who is linked to it stays so."""

    block: Block


@value
class DropBlock:
    """Delete a memory block and its links. Conflict: `block`, if it does not exist."""

    agent_id: str
    label: str


@value
class LinkBlock:
    """Another agent, the `reader_id`, reads a block from now on; the guard `block` fails if it is not there."""

    agent_id: str
    label: str
    reader_id: str


@value
class UnlinkBlock:
    """Remove an agent's link to a block, if it exists."""

    agent_id: str
    label: str
    reader_id: str


@value
class AddPassage:
    """A passage is stored, as the newest of its agent; the guard `duplicate` fails if there is one with its id.

    It has no `vector` where nothing embeds passages, or where that failed.
    """

    passage: Passage
    vector: Vector | None = None


@value
class DropPassage:
    """Delete a passage. Conflict: `passage`, if it does not exist."""

    agent_id: str
    id: str


@value
class SetVector:
    """Set or replace the vector of a passage, if the passage exists."""

    agent_id: str
    id: str
    vector: Vector


@value
class Compact:
    """Shorten a conversation as sent to a model. Conflict: `compaction`, if that number exists.

    `cut` is the position in the thread up to which messages need no longer be read, or None to leave it unchanged. With
    `told` a worker that executes a run of the thread re-reads it.
    """

    compaction: Compaction
    cut: int | None = None
    told: bool = False


@value
class KeepTexts:
    """Store texts that were sent to a model. Existing ones with the same thread and digest are kept."""

    texts: tuple[SentText, ...]


@value
class Pin:
    """Set whether a message of a thread's own conversation is left out of no request.

    A worker that executes a run of the thread re-reads the pinned messages. Conflict: `message`, if there is no such
    message, if its run was skipped, or if `most` others are pinned already.
    """

    thread_id: str
    seq: int
    pinned: bool
    most: int


ContextEffect: TypeAlias = Compact | KeepTexts | Pin
"""Effects on what the models of a thread are sent."""


MemoryEffect: TypeAlias = (
    SetBlock | DropBlock | LinkBlock | UnlinkBlock | AddPassage | DropPassage | SetVector
)


@value
class Source:
    """The source of a space's events in a run; empty for what people and services do."""

    thread_id: str | None = None
    run_id: str | None = None
    agent: str | None = None


NOBODY = Source()


@value
class SpaceEffect:
    """The base of effects on a space: its id, their source, and the events that they give there."""

    space_id: str
    source: Source = NOBODY
    events: tuple[EventDraft, ...] = ()


@value
class Announce(SpaceEffect):
    """Events for the space's followers, without any change."""


@value
class Post(SpaceEffect):
    """Post a message at the next position of the space; its events get that `seq`.

    `revision` is the revision of the membership for which `deliveries` were built, or None if it does not matter. With
    `joining` its author becomes a member if it is not one yet.
    """

    message: SpaceMessage
    revision: int | None = None
    deliveries: tuple[Delivery, ...] = ()
    joining: Member | None = None


@value
class Edit(SpaceEffect):
    """Update a message's content and metadata. Conflict: `message`, if it does not exist.

    With `if_there` nothing happens instead: the message of a call can be deleted while the call runs.
    """

    message: SpaceMessage
    if_there: bool = False


@value
class Erase(SpaceEffect):
    """Delete a message with its reactions. Conflict: `message`, if it does not exist."""

    message_id: str


@value
class React(SpaceEffect):
    """An entity reacts to a message; once with the same emoji."""

    reaction: Reaction


@value
class Unreact(SpaceEffect):
    """Remove an entity's reaction, if it exists."""

    message_id: str
    entity_id: str
    emoji: str


@value
class SaveSpace(SpaceEffect):
    """Insert or update a space. In an update, `was` must be the stored row."""

    space: Space
    was: Space | None = None


@value
class DropSpace(SpaceEffect):
    """A space is deleted, with its members, messages and reactions."""


@value
class SaveMember(SpaceEffect):
    """Add an entity to a space, or change its role. `revision` is the expected revision of the membership."""

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
    """Set the thread's active space; None clears it. Conflict: `thread`, if the thread does not exist."""

    thread_id: str
    space_id: str | None


@value
class SetTimer:
    """Set the timer of that name to `due`."""

    name: str
    due: datetime


@value
class DropTimer:
    """A timer is not needed any more; nothing happens if it has fired already."""

    name: str


@value
class Deliver:
    """An event for an agent's inbox."""

    delivery: Delivery


Effect: TypeAlias = (
    Announce
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
    | CheckMind
    | SetGoal
    | DropGoal
    | SetMemory
    | DropMemory
    | SetPlan
    | DropPlan
    | FirePlan
    | MovePlans
    | DropMind
    | MemoryEffect
    | ContextEffect
    | McpEffect
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
    | BackOff
    | SetValue
    | OpenRequest
    | CloseRequest
    | ChildLimit
    | HoldRequest
    | TakeRequest
)

MAY_FIND_NOTHING = frozenset[type](
    {
        # What they would take away is gone already, which is what was wanted.
        *(
            Unreact,
            DropTimer,
            DropGoal,
            DropMemory,
            DropPlan,
            DropMind,
            UnlinkBlock,
            DropMcpTask,
            CloseRequest,
        ),
        # They follow the state of something else, which may have changed in the meantime.
        *(SetVector, HoldMcpTool, UnholdMcpTool),
        # Of these there may be any number, also none: followers, children in progress, and plans.
        *(Announce, CancelChildren, MovePlans),
    }
)
"""Effects that do nothing if there is no row for them. Every other one that needs a row fails a guard without it."""


def deliveries_of(effects: Sequence[Effect]) -> list[Delivery]:
    """Return all deliveries, by thread."""
    deliveries = [each.delivery for each in effects if isinstance(each, Deliver | FirePlan)]
    deliveries += [each for post in effects if isinstance(post, Post) for each in post.deliveries]
    return sorted(deliveries, key=lambda each: each.thread.id)
