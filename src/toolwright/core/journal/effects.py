"""Effects of a unit of work outside its thread: records, spaces, other inboxes, timers, memory, thread trees, MCP.

A call's effects are values that are committed with its result (JOURNAL, "What a call may do to the database"). Units
from outside a run use the same values, so each kind of row is written by one piece of code.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from toolwright.core.agents.memory import Block, Passage, Vector
from toolwright.core.agents.mind import Plan
from toolwright.core.journal import child_effects
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.servers import McpDefinition
from toolwright.core.spaces import Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery
from toolwright.core.value import Record, Value, changed


class PinMcpTool(Value):
    """Record the definition of a tool at its first use by an agent. No effect at later uses."""

    definition: McpDefinition


class McpToolEffect(Value):
    """Base of effects on the recorded definition of a tool."""

    agent_id: str
    server: str
    tool: str
    at: datetime


class HoldMcpTool(McpToolEffect):
    """Hold a tool back because its definition has changed: `held` is the digest to be accepted.

    No effect if the tool is not recorded, has this digest, or is already held back with it.
    """

    held: str
    definition: JSONObject


class AcceptMcpTool(McpToolEffect):
    """Accept the held definition of a tool. Conflict: `mcp_tool`, if it is not `held`."""

    held: str


class UnholdMcpTool(McpToolEffect):
    """Release a held-back tool whose old definition is in use again. No effect if it is not held back."""


class AddNestedCall(Value):
    """Create a waiting call from outside any run, as a child of another call of its thread.

    The other call is its `parent_id`. The thread's subscribers receive the `events`. Conflict: `call`, if a call with
    this id exists, or if the parent does not exist, belongs to another thread or has ended; `thread`, if the thread
    does not exist.
    """

    call: Call
    events: tuple[EventDraft, ...] = ()


Guard: TypeAlias = Literal[
    "duplicate",  # a row with this id or external id exists
    "thread",  # the thread does not exist
    "terminated",  # the thread accepts no more messages
    "lease",  # another node of the cluster has the thread now
    "fence",  # another worker has claimed the thread, or it has advanced
    "call",  # a call is not in the status that the unit saw
    "run",  # the status of the run does not allow this unit
    "inbox",  # an inbox event is not in the status that the unit saw
    "unread",  # a message that joined the run has not been read
    "file",  # a file exists at this path
    "entity",  # the entity does not exist, or has changed since it was read
    "space",  # the space does not exist, or it or its membership has changed since it was read
    "member",  # the entity is not in the space
    "agent",  # the configured agent does not exist, or has changed since it was read
    "front_end",  # the client registration does not exist
    "mind",  # the agent's goals, memories, plans or blocks have changed since they were read, or are too many
    "plan",  # the plan does not exist, or has changed since it was read
    "block",  # the memory block does not exist
    "passage",  # the passage does not exist
    "compaction",  # the conversation was shortened in the meantime, or its summary was edited
    "mcp_tool",  # the definition of the tool is not held back any more
    "message",  # the message does not exist in the space or thread, or too many are pinned
    "busy",  # a thread that was idle has an open run now
    "request",  # the request is no longer open
    "child_limit",  # the maximum number of children is reached
    "cancel",  # cancellation was requested, and this unit would end the run in another way
]


MindKind: TypeAlias = Literal["goals", "memories", "plans", "blocks", "links"]
"""Kinds of rows in an agent's mind; `links` are its links to blocks of other agents."""


def link_key(agent_id: str, label: str) -> str:
    """Return the key of a link, unique per reader."""
    return f"{agent_id}/{label}"


class Put(Value):
    """Insert or update a record."""

    record: Record


class Add(Value):
    """Insert a record. Conflict: `duplicate`, if its key exists."""

    record: Record


class Delete(Value):
    """Delete the record with that key, if it exists. Conflict: the `guard`, if one is given and it does not exist."""

    kind: type[Record]
    key: tuple[str, ...]
    guard: Guard | None = None


RecordEffect: TypeAlias = Put | Add | Delete
"""Effects on records. Effects with a rule of their own have names."""


class CheckMind(Value):
    """Check the rows of one kind in an agent's mind that this unit changes. Conflict: `mind`, if the check fails.

    `keys` are the rows that the unit writes; including them there must be at most `most` rows. If `seen` is given,
    these rows must still be stored under their keys. The check is executed before the effects that write the rows.
    """

    agent_id: str
    kind: MindKind
    keys: tuple[str, ...]
    most: int | None = None
    seen: Mapping[str, object] | None = None

    def holds(self, stored: Mapping[str, object]) -> bool:
        """Return whether the stored rows pass the check."""
        if self.seen is not None and any(stored.get(key) != self.seen.get(key) for key in self.keys):
            return False
        return self.most is None or len(stored.keys() | set(self.keys)) <= self.most


class SetPlan(Value):
    """Insert or update a plan and set its timer."""

    plan: Plan


class DropPlan(Value):
    """Delete a plan and its timer, if it exists."""

    agent_id: str
    id: str


class FirePlan(Value):
    """Fire a due plan: deliver its event and replace it with `then`, or delete it if `then` is None.

    Conflict: `plan`, if the plan has changed.
    """

    plan: Plan
    then: Plan | None
    delivery: Delivery


class MovePlans(Value):
    """Move the due times of all relative plans by `by`, which is negative for earlier: the clock was changed."""

    by: timedelta


class DropMind(Value):
    """Delete everything that is stored under one id: goals, memories, plans with their timers, blocks and passages."""

    agent_id: str


class SetBlock(Value):
    """Insert or update a memory block. Its links are kept."""

    block: Block


class DropBlock(Value):
    """Delete a memory block and its links. Conflict: `block`, if it does not exist."""

    agent_id: str
    label: str


class LinkBlock(Value):
    """Link an agent, the `reader_id`, to a block. Conflict: `block`, if it does not exist."""

    agent_id: str
    label: str
    reader_id: str


class UnlinkBlock(Value):
    """Remove an agent's link to a block, if it exists."""

    agent_id: str
    label: str
    reader_id: str


class AddPassage(Value):
    """Insert a passage as the newest of its agent. Conflict: `duplicate`, if the id exists.

    It has no `vector` without an embedder, or if embedding has failed.
    """

    passage: Passage
    vector: Vector | None = None


class DropPassage(Value):
    """Delete a passage. Conflict: `passage`, if it does not exist."""

    agent_id: str
    id: str


class SetVector(Value):
    """Set or replace the vector of a passage, if the passage exists."""

    agent_id: str
    id: str
    vector: Vector


class Compact(Value):
    """Shorten a conversation as sent to a model. Conflict: `compaction`, if that number exists.

    `cut` is the position in the thread up to which messages no longer need to be read, or None to leave it unchanged.
    With `told`, a worker that executes a run of the thread re-reads the compaction.
    """

    compaction: Compaction
    cut: int | None = None
    told: bool = False


class KeepTexts(Value):
    """Store texts that were sent to a model. Existing texts with the same thread and digest are kept."""

    texts: tuple[SentText, ...]


class Pin(Value):
    """Set whether a message of a thread's top-level conversation is included in every request.

    A worker that executes a run of the thread re-reads the pinned messages. Conflict: `message`, if the message does
    not exist, if its run was skipped, or if `most` others are pinned already.
    """

    thread_id: str
    seq: int
    pinned: bool
    most: int


class Hide(Value):
    """Leave messages of a thread's top-level conversation out of all requests, or send them again if `by` is None.

    Conflict: `message`, if one of them does not exist, if its run was skipped, or if it is hidden, or shown, already.
    """

    thread_id: str
    seqs: tuple[int, ...]
    by: str | None = None


ContextEffect: TypeAlias = Compact | Hide | KeepTexts | Pin
"""Effects on the requests sent to the models of a thread."""


AgentEffect: TypeAlias = (
    CheckMind
    | SetPlan
    | DropPlan
    | FirePlan
    | MovePlans
    | DropMind
    | SetBlock
    | DropBlock
    | LinkBlock
    | UnlinkBlock
    | AddPassage
    | DropPassage
    | SetVector
    | PinMcpTool
    | HoldMcpTool
    | AcceptMcpTool
    | UnholdMcpTool
)
"""Effects on the data of an agent, each with a rule of its own."""


class Source(Value):
    """The run that causes an event of a space; empty for actions of people and services."""

    thread_id: str | None = None
    run_id: str | None = None
    agent: str | None = None


NO_SOURCE = Source()


class SpaceEffect(Value):
    """Base of effects on a space: its id, the source, and the events for its followers."""

    space_id: str
    source: Source = NO_SOURCE
    events: tuple[EventDraft, ...] = ()


class Announce(SpaceEffect):
    """Publish events to the space's followers without any other change."""


class Post(SpaceEffect):
    """Post a message at the next position of the space; its events get that `seq`.

    `revision` is the membership revision for which `deliveries` were built, or None if it does not matter. With
    `joining` the author becomes a member, unless already one.
    """

    message: SpaceMessage
    revision: int | None = None
    deliveries: tuple[Delivery, ...] = ()
    joining: Member | None = None


class Edit(SpaceEffect):
    """Update a message's content and metadata. Conflict: `message`, if it does not exist.

    With `if_there` a missing message is ignored: the message of a call can be deleted while the call runs.
    """

    message: SpaceMessage
    if_there: bool = False


class Erase(SpaceEffect):
    """Delete a message with its reactions. Conflict: `message`, if it does not exist."""

    message_id: str


class React(SpaceEffect):
    """Add a reaction of an entity to a message, once for each emoji."""

    reaction: Reaction


class Unreact(SpaceEffect):
    """Remove an entity's reaction, if it exists."""

    message_id: str
    entity_id: str
    emoji: str


class SaveSpace(SpaceEffect):
    """Insert or update a space. In an update, `was` must be the stored row."""

    space: Space
    was: Space | None = None


class DropSpace(SpaceEffect):
    """Delete a space with its members, messages and reactions."""


class SaveMember(SpaceEffect):
    """Add an entity to a space, or change its role. `revision` is the expected revision of the membership."""

    member: Member
    revision: int


class DropMember(SpaceEffect):
    """Remove an entity from a space."""

    entity_id: str


class MarkRead(SpaceEffect):
    """Set the position up to which a member has read. It never moves back."""

    entity_id: str
    seq: int


class Enter(Value):
    """Set the thread's active space; None clears it. Conflict: `thread`, if the thread does not exist."""

    thread_id: str
    space_id: str | None


class SetTimer(Value):
    """Set the timer of that name to `due`."""

    name: str
    due: datetime


class DropTimer(Value):
    """Delete a timer. No effect if it has fired already."""

    name: str


class Deliver(Value):
    """Deliver an event to an agent's inbox."""

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
    | RecordEffect
    | AgentEffect
    | ContextEffect
    | AddNestedCall
    | child_effects.Spawn
    | child_effects.Speak
    | child_effects.Report
    | child_effects.Notify
    | child_effects.Close
    | child_effects.CancelChildren
    | child_effects.Stop
    | child_effects.Terminate
    | child_effects.HandOff
    | child_effects.Activated
    | child_effects.BackOff
    | child_effects.SetValue
    | child_effects.OpenRequest
    | child_effects.CloseRequest
    | child_effects.ChildLimit
    | child_effects.CheckRequest
    | child_effects.FulfillRequest
)

MAY_FIND_NOTHING = frozenset[type](
    {
        # The row to delete may be gone already, which is the intended result.
        *(
            Unreact,
            Delete,
            DropTimer,
            DropPlan,
            DropMind,
            UnlinkBlock,
            child_effects.CloseRequest,
        ),
        # They follow the state of other rows, which can have changed in the meantime.
        *(SetVector, HoldMcpTool, UnholdMcpTool),
        # They affect any number of rows, including none: followers, children in progress, and plans.
        *(Announce, child_effects.CancelChildren, MovePlans),
    }
)
"""Effects that do nothing if their row does not exist. All other effects that need a row fail with a conflict."""


def deliveries_of(effects: Sequence[Effect]) -> list[Delivery]:
    """Return all deliveries, by thread."""
    deliveries = [each.delivery for each in effects if isinstance(each, Deliver | FirePlan)]
    deliveries += [each for post in effects if isinstance(post, Post) for each in post.deliveries]
    return sorted(deliveries, key=lambda each: each.thread.id)


def traced(effects: Sequence[Effect], traceparent: str | None) -> Sequence[Effect]:
    """Return the effects with their new runs assigned to that W3C trace context."""
    return effects if traceparent is None else [_traced(each, traceparent) for each in effects]


def _traced(effect: Effect, traceparent: str) -> Effect:
    match effect:
        case child_effects.Spawn() | child_effects.Speak():
            return changed(effect, run=changed(effect.run, traceparent=traceparent))
        case Deliver():
            return changed(effect, delivery=_delivery(effect.delivery, traceparent))
        case Post() if effect.deliveries:
            return changed(
                effect, deliveries=tuple([_delivery(each, traceparent) for each in effect.deliveries])
            )
        case child_effects.Notify():
            return changed(effect, notice=_delivery(effect.notice, traceparent))
        case child_effects.Report() if effect.notice is not None:
            return changed(effect, notice=_delivery(effect.notice, traceparent))
        case _:
            return effect


def _delivery(delivery: Delivery, traceparent: str) -> Delivery:
    return changed(delivery, run=changed(delivery.run, traceparent=traceparent))
