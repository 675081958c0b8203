"""The shapes of agents and their inboxes, for the OpenAPI document; `wire` renders them."""

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from toolwright.core.threads.inbox import InboxStatus, InboxType
from toolwright.web.answers.shapes import ListShape, Shape


class AgentShape(Shape):
    """An agent."""

    id: str
    agent_id: str
    entity_id: str
    name: str
    description: str
    type: str
    config: dict[str, JsonValue] | None = Field(
        None, description="Of an agent that was configured as JSON, without any values."
    )


class AgentAnswer(Shape):
    """One agent."""

    agent: AgentShape
    agent_id: str
    entity_id: str


class AgentSaved(AgentAnswer):
    """An agent, and whether it is a new one."""

    created: bool


class AgentList(ListShape):
    """The agents that the app declares, in their order, then the configured ones, the oldest first."""

    agents: list[AgentShape]


class Triggered(Shape):
    """An agent that was woken."""

    success: Literal[True]
    agent_entity_id: str


class PromptSection(Shape):
    """A part of a prompt."""

    name: str
    text: str


class PromptShape(Shape):
    """What an agent is told, whole and in its parts."""

    prompt: str
    sections: list[PromptSection]


class InboxEventShape(Shape):
    """An event of an inbox; `processing` while the run that reads it is open, `failed` once it is parked."""

    event_id: str
    type: InboxType
    status: InboxStatus
    attempts: int
    data: dict[str, JsonValue] = Field(description="What came; its form depends on the type.")
    timestamp: datetime


class InboxEventList(ListShape):
    """Events of an inbox, the oldest first."""

    events: list[InboxEventShape]


class InboxEventAnswer(Shape):
    """One event of an inbox."""

    event: InboxEventShape
