"""Effects on the data of agents: plans, blocks, passages, definitions of MCP tools; and timers.

Each is a rule: the row operations that it consists of, and its preconditions.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from toolwright.core.agents.memory import Block, BlockLink, Passage, PassageRow, Vector
from toolwright.core.agents.mind import Goal, Memory, Plan, plan_timer
from toolwright.core.journal.rows import (
    Add,
    Archive,
    Clear,
    Delete,
    Find,
    GuardFailed,
    Least,
    Lock,
    More,
    Move,
    Not,
    Put,
    RowEffect,
    Rule,
    Sweep,
)
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.servers import McpDefinition
from toolwright.core.threads.inbox import Delivery
from toolwright.core.threads.thread import Wake
from toolwright.core.value import Record, changed, owned_by

AGENT = "agent:"
"""Prefix of the note of a deleted agent (`Sweep`)."""
_NEXT = More(by=1)


def wake(thread_id: str, at: datetime) -> Put:
    """Return the operation that schedules a thread: the earlier due time, and the next generation."""
    row = Wake(thread_id=thread_id, due=at, gen=_generation(at))
    return Put(record=row, merged={"due": Least(value=at), "gen": _NEXT})


def timer(name: str, due: datetime, at: datetime) -> Put:
    """Return the operation that sets a timer."""
    row = Wake(thread_id=name, due=due, gen=_generation(at))
    return Put(record=row, merged={"gen": _NEXT})


def drop_timer(name: str) -> Delete:
    """Return the operation that deletes a timer."""
    return Delete(kind=Wake, key=(name,))


def _generation(at: datetime) -> int:
    """Return the first generation of a wake-up: it differs from the generations of earlier ones of that thread."""
    return round(at.timestamp() * 1_000_000)


class PinMcpTool(RowEffect):
    """Record the definition of a tool at its first use by an agent. No effect at later uses."""

    definition: McpDefinition

    def rule(self, at: datetime) -> Rule[None]:
        yield Add(record=self.definition, guard=None)


class McpToolEffect(RowEffect):
    """Base of effects on the recorded definition of a tool."""

    agent_id: str
    server: str
    tool: str
    at: datetime

    @property
    def _key(self) -> Mapping[str, object]:
        return {"agent_id": self.agent_id, "server": self.server, "tool": self.tool}

    @property
    def _released(self) -> Mapping[str, object]:
        return {"held": None, "definition": None, "updated_at": self.at}


class HoldMcpTool(McpToolEffect):
    """Hold a tool back because its definition has changed: `held` is the digest to be accepted.

    No effect if the tool is not recorded, has this digest, or is already held back with it.
    """

    held: str
    definition: JSONObject

    def rule(self, at: datetime) -> Rule[None]:
        other = Not(value=self.held)
        held = {"held": self.held, "definition": self.definition, "updated_at": self.at}
        yield Move(kind=McpDefinition, where={**self._key, "digest": other, "held": other}, fields=held)


class AcceptMcpTool(McpToolEffect):
    """Accept the held definition of a tool. Conflict: `mcp_tool`, if it is not `held`."""

    held: str

    def rule(self, at: datetime) -> Rule[None]:
        accepted = {**self._released, "digest": self.held}
        where = {**self._key, "held": self.held}
        yield Move(kind=McpDefinition, where=where, fields=accepted, guard="mcp_tool")


class UnholdMcpTool(McpToolEffect):
    """Release a held-back tool whose old definition is in use again. No effect if it is not held back."""

    def rule(self, at: datetime) -> Rule[None]:
        where = {**self._key, "held": Not(value=None)}
        yield Move(kind=McpDefinition, where=where, fields=self._released)


MindKind: TypeAlias = Literal["goals", "memories", "plans", "blocks", "links"]
"""Kinds of rows in an agent's mind; `links` are its links to blocks of other agents."""
MIND_ROWS: Mapping[MindKind, tuple[type[Record], str]] = {
    "goals": (Goal, "id"),
    "memories": (Memory, "key"),
    "plans": (Plan, "id"),
    "blocks": (Block, "label"),
}
"""Classes of these rows, and the fields that identify them within an agent."""


def link_key(agent_id: str, label: str) -> str:
    """Return the key of a link, unique per reader."""
    return f"{agent_id}/{label}"


class CheckMind(RowEffect):
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

    def rule(self, at: datetime) -> Rule[None]:
        yield Lock(name=self.agent_id)
        if self.kind == "links":
            links = yield Find(kind=BlockLink, where={"reader_id": self.agent_id})
            stored = {link_key(link.agent_id, link.label): None for link in links}
        else:
            kind, name = MIND_ROWS[self.kind]
            rows = yield Find(kind=kind, where={"agent_id": self.agent_id})
            stored = {getattr(row, name): row for row in rows}
        if not self.holds(stored):
            raise GuardFailed("mind")


class SetPlan(RowEffect):
    """Insert or update a plan and set its timer."""

    plan: Plan

    def rule(self, at: datetime) -> Rule[None]:
        yield [Put(record=self.plan), timer(self.plan.timer, self.plan.next_run_at, at)]


class DropPlan(RowEffect):
    """Delete a plan and its timer, if it exists."""

    agent_id: str
    id: str

    def rule(self, at: datetime) -> Rule[None]:
        key = (self.agent_id, self.id)
        yield [Delete(kind=Plan, key=key), drop_timer(plan_timer(*key))]


class FirePlan(RowEffect):
    """Fire a due plan: deliver its event and replace it with `then`, or delete it if `then` is None.

    Conflict: `plan`, if the plan has changed.
    """

    plan: Plan
    then: Plan | None
    delivery: Delivery

    def rule(self, at: datetime) -> Rule[None]:
        plan, then = self.plan, self.then
        where = {"agent_id": plan.agent_id, "id": plan.id, "next_run_at": plan.next_run_at}
        if then is None:
            yield Clear(kind=Plan, where=where, guard="plan")
            yield drop_timer(plan.timer)
        else:
            due = {"next_run_at": then.next_run_at}
            yield Move(kind=Plan, where=where, fields=due, guard="plan")
            yield timer(plan.timer, then.next_run_at, at)


def drop_mind(agent_id: str) -> Rule[None]:
    """Delete the agent state stored under an id (the agent's own or per person) and the timers of its plans.

    Passages are not deleted, because there can be very many.
    """
    mine = {"agent_id": agent_id}
    plans = yield Clear(kind=Plan, where=mine, returns=("id",))
    yield [drop_timer(plan_timer(agent_id, plan.id)) for plan in plans]
    yield [Clear(kind=kind, where=mine) for kind in (*owned_by("agent_id"), Block)]
    yield Clear(kind=BlockLink, where=(mine, {"reader_id": agent_id}))


class DropMind(RowEffect):
    """Delete everything that is stored under one id: goals, memories, plans with their timers, blocks and passages."""

    agent_id: str

    def rule(self, at: datetime) -> Rule[None]:
        yield from drop_mind(self.agent_id)
        yield Sweep(note=AGENT + self.agent_id, at=at, now=True)


class SetBlock(RowEffect):
    """Insert or update a memory block. Its links are kept."""

    block: Block

    def rule(self, at: datetime) -> Rule[None]:
        yield Put(record=changed(self.block, is_shared=False))  # computed from its links when it is read


class DropBlock(RowEffect):
    """Delete a memory block and its links. Conflict: `block`, if it does not exist."""

    agent_id: str
    label: str

    def rule(self, at: datetime) -> Rule[None]:
        key = {"agent_id": self.agent_id, "label": self.label}
        yield Clear(kind=Block, where=key, guard="block")
        yield Clear(kind=BlockLink, where=key)


class LinkBlock(RowEffect):
    """Link an agent, the `reader_id`, to a block. Conflict: `block`, if it does not exist."""

    agent_id: str
    label: str
    reader_id: str

    def rule(self, at: datetime) -> Rule[None]:
        key = {"agent_id": self.agent_id, "label": self.label}
        yield Find(kind=Block, where=key, columns=("label",), lock="update", guard="block")
        link = BlockLink(agent_id=self.agent_id, label=self.label, reader_id=self.reader_id)
        yield Add(record=link, guard=None)


class UnlinkBlock(RowEffect):
    """Remove an agent's link to a block, if it exists."""

    agent_id: str
    label: str
    reader_id: str

    def rule(self, at: datetime) -> Rule[None]:
        yield Delete(kind=BlockLink, key=(self.agent_id, self.label, self.reader_id))


class AddPassage(RowEffect):
    """Insert a passage as the newest of its agent. Conflict: `duplicate`, if the id exists.

    It has no `vector` without an embedder, or if embedding has failed.
    """

    passage: Passage
    vector: Vector | None = None

    def rule(self, at: datetime) -> Rule[None]:
        yield Archive(passage=self.passage, vector=self.vector)


class DropPassage(RowEffect):
    """Delete a passage. Conflict: `passage`, if it does not exist."""

    agent_id: str
    id: str

    def rule(self, at: datetime) -> Rule[None]:
        yield Clear(kind=PassageRow, where={"agent_id": self.agent_id, "id": self.id}, guard="passage")


class SetVector(RowEffect):
    """Set or replace the vector of a passage, if the passage exists."""

    agent_id: str
    id: str
    vector: Vector

    def rule(self, at: datetime) -> Rule[None]:
        vector = {"embedder": self.vector.embedder, "floats": self.vector.floats}
        yield Move(kind=PassageRow, where={"agent_id": self.agent_id, "id": self.id}, fields=vector)


class SetTimer(RowEffect):
    """Set the timer of that name to `due`."""

    name: str
    due: datetime

    def rule(self, at: datetime) -> Rule[None]:
        yield timer(self.name, self.due, at)


class DropTimer(RowEffect):
    """Delete a timer. No effect if it has fired already."""

    name: str

    def rule(self, at: datetime) -> Rule[None]:
        yield drop_timer(self.name)
