"""Front-ends that people register: what speaks to the gateway in an entity's name."""

from datetime import datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.value import value


@value
class FrontEnd:
    """A registered front-end of an entity, which the wire calls a client."""

    id: str
    entity_id: str
    name: str | None = None
    metadata: JSONObject
    created_at: datetime
