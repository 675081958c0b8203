"""Agents, what they keep in mind, and events of their inboxes on the wire: their shapes, and their JSON (API §3)."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from toolwright.core.agents.agent import Agent as AgentRow
from toolwright.core.agents.agent import agent_of_keeper
from toolwright.core.agents.memory import Block as BlockRow
from toolwright.core.agents.memory import Passage as PassageRow
from toolwright.core.agents.mind import Goal as GoalRow
from toolwright.core.agents.mind import Memory as MemoryRow
from toolwright.core.agents.mind import Plan as PlanRow
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.inbox import InboxEvent as InboxEventRow
from toolwright.core.threads.inbox import InboxStatus, InboxType
from toolwright.wire.shape import Absent, Also, JsonObject, Shape, spelt


class Agent(Shape, title="AgentShape"):
    """An agent."""

    id: Annotated[str, Also("agentId")]
    entity_id: str
    name: str
    description: str = ""
    type: str
    open_to: str | tuple[str, ...] = Field(
        description="Who may open threads with it: `everyone`, `members`, `nobody`, or people with one of these claims."
    )
    home_tools: str
    shared_memory: bool
    config: Absent[JsonObject] = Field(
        None, description="Of an agent that was configured as JSON, without any values."
    )


def agent_json(agent: AgentRow, config: JSONObject | None = None) -> JSONObject:
    """`{id, agentId, entityId, name, description, type, openTo, homeTools, sharedMemory, config?}`.

    `config` is there for an agent that was configured as JSON.
    """
    fields: JSONObject = {
        "id": agent.id,
        "agentId": agent.id,
        "entityId": agent.entity_id,
        "name": agent.name,
        "description": agent.description,
        "type": agent.type,
        "openTo": agent.open_to if isinstance(agent.open_to, str) else [*(agent.open_to or ())],
        "homeTools": agent.home_tools,
        "sharedMemory": agent.shared_memory,
    }
    return fields if config is None else {**fields, "config": config}


class Goal(Shape, title="GoalShape"):
    """Something that an agent wants; `status` and `priority` are its own words."""

    id: str
    description: str
    status: str
    priority: str


def goal_json(goal: GoalRow) -> JSONObject:
    """`{id, description, status, priority}`."""
    return {
        "id": goal.id,
        "description": goal.description,
        "status": goal.status,
        "priority": goal.priority,
    }


class Memory(Shape, title="MemoryShape"):
    """Something that an agent remembers."""

    key: str
    value: str


def memory_json(memory: MemoryRow) -> JSONObject:
    """`{key, value}`."""
    return {"key": memory.key, "value": memory.value}


class Plan(Shape, title="PlanShape"):
    """A plan; `cron`, read in `timezone`, is there if it runs repeatedly.

    The agent will be told the instruction at `next_run_at`.
    """

    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: Absent[str] = None
    timezone: Absent[str] = None


def plan_json(plan: PlanRow) -> JSONObject:
    """`{id, name, instruction, nextRunAt, cron?, timezone?}`."""
    fields: JSONObject = {
        "id": plan.id,
        "name": plan.name,
        "instruction": plan.instruction,
        "nextRunAt": plan.next_run_at.isoformat(),
    }
    optional: JSONObject = {"cron": plan.cron, "timezone": plan.timezone}
    return fields | {name: value for name, value in optional.items() if value is not None}


class Block(Shape, title="BlockShape"):
    """A core memory block that an agent reads: its own, or one that another agent, its owner, has linked it to.

    `owner_id` is the `id` of the agent whose it is, who alone changes it; `is_shared` says whether others read it too.
    """

    label: str
    content: str
    is_shared: bool
    owner_id: str
    updated_at: datetime


def block_json(block: BlockRow) -> JSONObject:
    """`{label, content, isShared, ownerId, updatedAt}`."""
    return {
        "label": block.label,
        "content": block.content,
        "isShared": block.is_shared,
        "ownerId": agent_of_keeper(block.agent_id),
        "updatedAt": block.updated_at.isoformat(),
    }


class Passage(Shape, title="PassageShape"):
    """An archival passage of an agent."""

    id: str
    content: str
    tags: tuple[str, ...]
    created_at: datetime


def passage_json(passage: PassageRow) -> JSONObject:
    """`{id, content, tags, createdAt}`."""
    return {
        "id": passage.id,
        "content": passage.content,
        "tags": [*passage.tags],
        "createdAt": passage.created_at.isoformat(),
    }


class PromptSection(Shape):
    """A part of a prompt."""

    name: str
    text: str


class SystemPrompt(Shape, title="PromptShape"):
    """What an agent is told, whole and in its parts."""

    prompt: str
    sections: tuple[PromptSection, ...]


class InboxEvent(Shape, title="InboxEventShape"):
    """An event of an inbox; `processing` while the run that reads it is open, `failed` once it is parked."""

    event_id: str
    type: InboxType
    status: InboxStatus
    attempts: int
    content: Annotated[
        JsonObject, spelt("data"), Field(description="What came; its form depends on the type.")
    ]
    created_at: Annotated[datetime, spelt("timestamp")]


def inbox_json(event: InboxEventRow) -> JSONObject:
    """`{eventId, type, status, attempts, data, timestamp}`."""
    return {
        "eventId": event.event_id,
        "type": event.type,
        "status": event.status,
        "attempts": event.attempts,
        "data": event.content,
        "timestamp": event.created_at.isoformat(),
    }
