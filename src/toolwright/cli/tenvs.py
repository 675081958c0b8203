"""Tenvs on the command line: those that a tool declares, and those that are given for one call."""

import json
from collections.abc import Mapping
from typing import cast

from toolwright.cli.output import Refusal
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.tools.tenvs_needed import Lacking, Needs
from toolwright.core.tools.tool import Tool


def described(tool: Tool) -> list[JSON]:
    """The tenvs that the tool declares, as `tools show` prints them."""
    if tool.needs is None:
        return []
    fields = cast("JSONObject", tool.needs.schema.get("properties", {}))
    required = cast("list[JSON]", tool.needs.schema.get("required", []))
    return [
        {"name": name, "required": name in required, "secret": name in tool.needs.secrets, "schema": schema}
        for name, schema in fields.items()
    ]


def given_tenvs(tool: Tool, texts: Mapping[str, str], promised: JSONObject) -> JSONObject:
    """The values that are given for one call, over those that the tool's agent has promised.

    A value is text where the tool's model takes text, else JSON. Raises `Refusal` for what the tool lacks then.
    """
    values = {**promised, **{name: _value(name, text, tool.needs) for name, text in texts.items()}}
    lacking = None if tool.needs is None else tool.needs.read(values)
    if isinstance(lacking, Lacking):
        raise Refusal(
            f"The tool {tool.name!r} needs other tenvs than these: {lacking}. Give each as --tenv NAME=VALUE, or as "
            "--tenv NAME if it is in the environment."
        )
    return values


def _value(name: str, text: str, needs: Needs | None) -> JSON:
    """Text if that will do for this name, else what it is as JSON, if it is that."""
    if needs is None or not _refused(name, text, needs):
        return text
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _refused(name: str, value: JSON, needs: Needs) -> bool:
    read = needs.read({name: value})
    return isinstance(read, Lacking) and name in dict(read.invalid)
