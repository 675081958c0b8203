"""What is seen of spaces from outside: values with exactly the fields that the wire shows (see `seen`)."""

from datetime import datetime

from toolwright.core.spaces.space import SpaceKind
from toolwright.core.value import value
from toolwright.wire.models.reading import CAMEL, JsonObject
from toolwright.wire.models.threads import Entity


@value
class Space:
    """A space; `seq` is the place of its last message."""

    __pydantic_config__ = CAMEL
    id: str
    name: str | None = None
    kind: SpaceKind
    description: str | None = None
    metadata: JsonObject
    seq: int
    created_at: datetime
    updated_at: datetime


@value
class Member:
    """An entity in a space, which has read up to `read_seq`; `entity` is None once it is deleted."""

    __pydantic_config__ = CAMEL
    space_id: str
    entity_id: str
    role: str
    read_seq: int
    joined_at: datetime
    entity: Entity | None = None


@value
class Reaction:
    """An entity's emoji under a message."""

    __pydantic_config__ = CAMEL
    emoji: str
    entity_id: str


@value
class SpaceMessage:
    """What was said in a space, or a call that is shown there; `seq` is its place (1, 2, 3 …)."""

    __pydantic_config__ = CAMEL
    id: str
    seq: int
    space_id: str
    entity_id: str
    role: str
    content: str
    metadata: JsonObject
    parent_message_id: str | None = None
    reactions: tuple[Reaction, ...] = ()
    created_at: datetime
    edited_at: datetime | None = None
    entity: Entity | None = None


@value
class WokenRun:
    """A run that reads a message."""

    __pydantic_config__ = CAMEL
    run_id: str
    agent_entity_id: str


@value
class Spoken:
    """A message that was said, and the runs that read it."""

    __pydantic_config__ = CAMEL
    message: SpaceMessage
    runs: tuple[WokenRun, ...] = ()
