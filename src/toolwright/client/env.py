"""Values of threads and people, as a client writes them and what it reads of them."""

from collections.abc import Mapping
from typing import TypeAlias

from toolwright.core.env.env import EnvType, EnvVar
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import plain
from toolwright.wire.seen.reading import read_field

Values: TypeAlias = Mapping[str, EnvVar | str | Mapping[str, JSON] | None]
"""Texts by name, or `{"value": …, "type": "text"}`; None takes a name away."""


def values_json(env: Values) -> JSONObject:
    """The values as a body carries them."""
    return {
        name: {"value": each.value, "type": each.type} if isinstance(each, EnvVar) else plain(each)
        for name, each in env.items()
    }


def read_names(shown: JSON) -> dict[str, EnvType]:
    """The names that are set, and whether each is a secret."""
    names = read_field(dict[str, dict[str, EnvType]], shown, "env")
    return {name: each["type"] for name, each in names.items() if "type" in each}
