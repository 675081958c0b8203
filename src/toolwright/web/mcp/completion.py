"""`completion/complete`: values for the arguments of prompts, and for the variables of resource templates."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import mcp_types as types

from toolwright.core.json_value import JSON
from toolwright.web.mcp.content import Prompts, Resources
from toolwright.web.mcp.tools import Context

MOST_VALUES = 100
"""Maximum number of values in one answer, according to the protocol."""


class Completion:
    """The method of completion. Values are those that schemas declare, and paths of the caller's own files."""

    def __init__(self, prompts: Prompts, resources: Resources) -> None:
        self._prompts = prompts
        self._resources = resources

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Handle `completion/complete`. Raises the protocol's error for an unknown prompt, template or argument."""
        name = params.argument.name
        if isinstance(params.ref, types.PromptReference):
            values = declared_values(self._prompts.parameters(context, params.ref.name, name), name)
        else:
            chosen = {} if params.context is None else params.context.arguments or {}
            values = await self._resources.values(context, params.ref.uri, name, chosen)
        matching = _matching(values, params.argument.value)
        return types.CompleteResult(
            completion=types.Completion(
                values=matching[:MOST_VALUES], total=len(matching), has_more=len(matching) > MOST_VALUES
            )
        )


def _matching(values: Iterable[str], typed: str) -> list[str]:
    """Return the values that contain the text, those that begin with it first."""
    wanted = typed.casefold()
    found = [value for value in dict.fromkeys(values) if wanted in value.casefold()]
    return sorted(found, key=lambda value: not value.casefold().startswith(wanted))


def declared_values(schema: Mapping[str, JSON], name: str) -> list[str]:
    """Return the values that the schema of an object declares for a property: its enum, or its examples."""
    properties = cast("Mapping[str, JSON]", schema.get("properties", {}))
    definitions = cast("Mapping[str, JSON]", schema.get("$defs", {}))
    return [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in _values(properties.get(name), definitions, set())
        if value is not None
    ]


def _values(schema: JSON, definitions: Mapping[str, JSON], followed: set[str]) -> Iterator[JSON]:
    if not isinstance(schema, dict):
        return
    match schema:
        case {"const": value}:
            yield value
        case {"enum": list(values)} | {"examples": list(values)}:
            yield from values
        case {"type": "boolean"}:
            yield from (True, False)
        case {"$ref": str(ref)} if ref not in followed:
            followed.add(ref)
            yield from _values(definitions.get(ref.removeprefix("#/$defs/")), definitions, followed)
        case {"anyOf": list(branches)} | {"oneOf": list(branches)}:
            for branch in branches:
                yield from _values(branch, definitions, followed)
        case _:
            return
