"""The shapes of answers about spaces, for the OpenAPI document; `wire.space` renders them."""

from datetime import datetime

from pydantic import JsonValue

from toolwright.core.spaces.space import SpaceKind, SpaceRole
from toolwright.web.answers.shapes import ListShape, Shape
from toolwright.web.shapes.entities import EntityShape


class SpaceShape(Shape):
    """A space; `seq` is the place of its newest message."""

    id: str
    name: str | None
    kind: SpaceKind
    description: str | None
    metadata: dict[str, JsonValue]
    seq: int
    created_at: datetime
    updated_at: datetime


class SpaceAnswer(Shape):
    """One space, under both of its names."""

    space: SpaceShape
    smart_space: SpaceShape


class SpaceList(ListShape):
    """Spaces, the oldest first, under both of their names."""

    spaces: list[SpaceShape]
    smart_spaces: list[SpaceShape]


class MemberShape(Shape):
    """A member; `entity` is null once it was deleted."""

    space_id: str
    smart_space_id: str
    entity_id: str
    role: str
    read_seq: int
    joined_at: datetime
    entity: EntityShape | None


class MembershipAnswer(Shape):
    """One membership."""

    membership: MemberShape


class MemberList(ListShape):
    """Members, who came first first."""

    members: list[MemberShape]


class EmojiShape(Shape):
    """A reaction as its message carries it."""

    emoji: str
    entity_id: str


class SpaceMessageShape(Shape):
    """A message in a space; that of a visible call has `metadata.type` `tool_call`."""

    id: str
    seq: int
    space_id: str
    smart_space_id: str
    entity_id: str
    role: SpaceRole
    content: str
    metadata: dict[str, JsonValue]
    parent_message_id: str | None
    reactions: list[EmojiShape]
    created_at: datetime
    edited_at: datetime | None
    entity: EntityShape | None


class SpaceMessageAnswer(Shape):
    """One message."""

    message: SpaceMessageShape


class RunOfMessage(Shape):
    """The run that reads a message."""

    run_id: str
    agent_entity_id: str


class Spoken(Shape):
    """A message that was said, and the runs that read it."""

    message: SpaceMessageShape
    runs: list[RunOfMessage]


class SpaceMessageList(ListShape):
    """Messages, the oldest first."""

    messages: list[SpaceMessageShape]


class ReactionShape(Shape):
    """A reaction."""

    message_id: str
    entity_id: str
    emoji: str
    created_at: datetime


class ReactionAnswer(Shape):
    """One reaction."""

    reaction: ReactionShape
