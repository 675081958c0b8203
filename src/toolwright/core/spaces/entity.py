"""An entity: somebody who takes part, a human of the table or an agent of the app; and its front-ends."""

from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

from toolwright.core.agents.agent import Agent
from toolwright.core.json_value import JSONObject
from toolwright.core.value import value

EntityType: TypeAlias = Literal["human", "agent"]

OWN_PREFIX = "ent_"
"""Prefix of ids of entities; no external id has it, so that the two are never mistaken for each other."""


@value
class Entity:
    """A person or agent who takes part. `external_id` is what their tokens call them, unique among all.

    The instants are None for agents, which are declared and not made.
    """

    id: str
    type: EntityType
    external_id: str | None = None
    display_name: str | None = None
    metadata: JSONObject
    created_at: datetime | None = None
    updated_at: datetime | None = None


class EntityFields(TypedDict, total=False):
    """The fields of a human; what is left out stays as it is."""

    external_id: str | None
    display_name: str | None
    metadata: JSONObject


def entity_of(agent: Agent) -> Entity:
    """The agent as an entity."""
    return Entity(id=agent.entity_id, type="agent", display_name=agent.name, metadata={})


@value
class FrontEnd:
    """A registered front-end of an entity, which the wire calls a client."""

    id: str
    entity_id: str
    name: str | None = None
    metadata: JSONObject
    created_at: datetime
