"""Spaces (rooms), their members and messages; and entities, the people and agents that participate."""

from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

from toolwright.core.agents.agent import Agent
from toolwright.core.json_value import JSONObject
from toolwright.core.value import Record, Stored

EntityType: TypeAlias = Literal["human", "agent"]

OWN_PREFIX = "ent_"
"""Prefix of entity ids. External ids cannot have it, so the two cannot be confused."""
DM_MEMBERS = 2


class Entity(Record):
    """A participant: a person or an agent. `external_id` is the unique user id in access tokens.

    Timestamps are None for agents, which are declared in code.
    """

    STORED = Stored(key=("id",), unique=("external_id",))

    id: str
    type: EntityType
    external_id: str | None = None
    display_name: str | None = None
    metadata: JSONObject
    created_at: datetime | None = None
    updated_at: datetime | None = None


class EntityFields(TypedDict, total=False):
    """The fields of a person. Missing fields are left unchanged."""

    external_id: str | None
    display_name: str | None
    metadata: JSONObject


def entity_of(agent: Agent) -> Entity:
    """Return the agent as an entity."""
    return Entity(id=agent.entity_id, type="agent", display_name=agent.name, metadata={})


class FrontEnd(Record):
    """A client registration: a front-end of an entity."""

    STORED = Stored(key=("id",), owner="entity_id", order=("created_at", "id"))

    id: str
    entity_id: str
    name: str | None = None
    metadata: JSONObject
    created_at: datetime


SpaceKind: TypeAlias = Literal["public", "private", "dm"]
SpaceRole: TypeAlias = Literal["user", "assistant"]
DeliveryOrder: TypeAlias = Literal["all", "sequential"]
"""Delivery of a person's message: to all agents at once, or to one after another as each finishes."""
CallShown: TypeAlias = Literal["running", "requires_action", "complete", "error"]
"""The status of the message that shows a visible call."""


class Space(Record):
    """A room of entities. `seq` counts its messages, `revision` the changes of its membership.

    In a `public` space everyone may read and write, and writing joins the space; in other spaces only members may (D7).
    """

    STORED = Stored(key=("id",))

    id: str
    kind: SpaceKind
    name: str | None = None
    description: str | None = None
    metadata: JSONObject
    delivery: DeliveryOrder = "all"
    seq: int = 0
    revision: int = 0
    created_at: datetime
    updated_at: datetime


class SpaceFields(TypedDict, total=False):
    """The fields of a space that can be changed. Missing fields are left unchanged."""

    name: str | None
    description: str | None
    metadata: JSONObject
    delivery: DeliveryOrder


class Member(Record):
    """A member of a space, who has read messages up to the position `read_seq`."""

    STORED = Stored(key=("space_id", "entity_id"), owner="space_id", kept=("type", "read_seq", "joined_at"))

    space_id: str
    entity_id: str
    type: Literal["human", "agent"] = "human"
    role: str = "member"
    read_seq: int = 0
    joined_at: datetime


class SpaceMessage(Record):
    """A message in a space; `seq` is its position (1, 2, 3 …), None until it is stored.

    The message of a visible call has `metadata {type: "tool_call", …}` and is display-only (D10).
    """

    STORED = Stored(key=("id",), owner="space_id")

    id: str
    space_id: str
    entity_id: str
    role: SpaceRole
    content: str
    metadata: JSONObject
    parent_id: str | None = None
    seq: int | None = None
    created_at: datetime
    edited_at: datetime | None = None

    @property
    def shows_call(self) -> bool:
        """Return whether it displays a tool call. Such a message cannot be replied to."""
        return self.metadata.get("type") == "tool_call"


class Reaction(Record):
    """An emoji that an entity has added to a message."""

    STORED = Stored(key=("message_id", "entity_id", "emoji"), owner="message_id")

    message_id: str
    entity_id: str
    emoji: str
    created_at: datetime


def open_to(space: Space, *, is_member: bool) -> bool:
    """Return whether an entity may read and post: any entity in a public space, only members in others (D7)."""
    return is_member or space.kind == "public"
