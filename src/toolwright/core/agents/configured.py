"""An agent that was configured as JSON: its row, one revision of it."""

from datetime import datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.value import value


@value
class ConfiguredAgent:
    """One revision of an agent's configuration; `revision` counts 1, 2, 3 …

    A run keeps the revision that it began with, so that an update takes effect at the next one. Values of `env` and
    `tenvs` are not in `config` but in rows of their own, sealed where they are secrets; `owner` is whose these are.
    """

    id: str
    name: str
    description: str
    config: JSONObject
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def owner(self) -> str:
        """The owner of this revision's env rows."""
        return f"{self.id}.{self.revision}"
