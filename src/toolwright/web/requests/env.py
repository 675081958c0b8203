"""Values of threads and people in bodies, and their names in answers: no value is ever answered."""

from collections.abc import Mapping

from pydantic import JsonValue

from toolwright.core.env.env import EnvType
from toolwright.core.json_value import JSONObject
from toolwright.web.requests.body import Form

Values = dict[str, JsonValue]
"""Values by name, as `core.env` reads them."""


class NewEnv(Form):
    """Values to set; null takes a name away."""

    env: Values


def env_names(names: Mapping[str, EnvType]) -> JSONObject:
    """`{env: {NAME: {type}}}`."""
    return {"env": {name: {"type": type_} for name, type_ in names.items()}}
