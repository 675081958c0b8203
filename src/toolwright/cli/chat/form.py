"""A form at the terminal: the fields of a JSON Schema, a line each."""

import json
from collections.abc import Mapping
from typing import cast

from toolwright.cli.chat.terminal import Terminal
from toolwright.core.json_value import JSON, JSONObject

DECLINE = "/no"


async def filled(terminal: Terminal, schema: JSON, given: Mapping[str, JSON]) -> JSONObject | str | None:
    """The fields that are typed, beside those that are `given`, which an empty line keeps.

    `DECLINE` if that is typed, None at the end of the lines.
    """
    content: JSONObject = {**given}
    for name, each in fields_of(schema).items():
        default = {**each, "default": given[name]} if name in given else each
        line = await terminal.read(f"{name} ({_kind(default)})")
        if line is None or line == DECLINE:
            return line
        if line:
            content[name] = _value(line, each)
    return content


def fields_of(schema: JSON) -> Mapping[str, JSONObject]:
    """The fields of an object's schema, with their own."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: each if isinstance(each, dict) else {} for name, each in properties.items()}


def _kind(schema: JSONObject) -> str:
    """What may be entered, in a few words."""
    choices = schema.get("enum")
    kind = " or ".join(map(str, choices)) if isinstance(choices, list) else str(schema.get("type", "text"))
    kind = {"string": "text", "boolean": "true or false"}.get(kind, kind)
    return f"{kind}; {schema['default']!r} unless given" if "default" in schema else kind


def _value(line: str, schema: JSONObject) -> JSON:
    if schema.get("type") in ("boolean", "integer", "number", "array", "object"):
        try:
            return cast("JSON", json.loads(line))
        except ValueError:
            return line  # is refused, in words
    return line
