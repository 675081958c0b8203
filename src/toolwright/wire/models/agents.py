"""What is seen of agents from outside, and of what they keep in mind: see `seen`."""

from datetime import datetime

from toolwright.core.value import value
from toolwright.wire.models.reading import CAMEL, JsonObject


@value
class Agent:
    """An agent; `config` is that of one which was configured as JSON, without its values."""

    __pydantic_config__ = CAMEL
    id: str
    entity_id: str
    name: str
    description: str = ""
    type: str
    config: JsonObject | None = None


@value
class Goal:
    """Something that an agent wants; `status` and `priority` are the agent's own words."""

    __pydantic_config__ = CAMEL
    id: str
    description: str
    status: str
    priority: str


@value
class Memory:
    """Something that an agent remembers."""

    __pydantic_config__ = CAMEL
    key: str
    value: str


@value
class Plan:
    """Something that an agent will be told at `next_run_at`; with `cron`, read in `timezone`, again and again."""

    __pydantic_config__ = CAMEL
    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: str | None = None
    timezone: str | None = None


@value
class Section:
    """A part of a prompt."""

    __pydantic_config__ = CAMEL
    name: str
    text: str


@value
class Told:
    """What an agent is told, whole and in its parts."""

    __pydantic_config__ = CAMEL
    prompt: str
    sections: tuple[Section, ...]
