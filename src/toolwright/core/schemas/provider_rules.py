"""Provider rules: restrictions of model providers on tools, in one table with the source of each rule.

`provider_forms.provider_form` returns the equivalent that a provider accepts; the fake providers in the tests reject
tools by this table. No rule is enforced on a tool itself: its own schema validates its arguments.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import jsonschema_rs

from toolwright.core.arguments.schema import with_parts
from toolwright.core.json_value import JSON, JSONObject, has_half_characters
from toolwright.core.model import ToolDefinition
from toolwright.core.plain import Path, spell
from toolwright.core.value import value

Provider: TypeAlias = Literal["openai", "anthropic", "other"]
"""The dialect of JSON Schema that a model's provider accepts; `other` is any provider without known rules."""

PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ROOT_KEYWORDS = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref")
MOST_TOOLS: dict[Provider, int] = {"openai": 128}
"""Documented maximum number of tools in one request (zed#42393). Other servers with the same dialect can accept more.
"""

_LOOKAROUND = re.compile(r"\(\?<?[=!]")
DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#")
_EVERY = frozenset[Provider]({"openai", "anthropic", "other"})
_KNOWN = frozenset[Provider]({"openai", "anthropic"})
_OPENAI = frozenset[Provider]({"openai"})
_ANTHROPIC = frozenset[Provider]({"anthropic"})

Broken: TypeAlias = Callable[[ToolDefinition], str | None]
"""Returns the path in the schema that breaks a rule, such as `properties.a`, or None."""


@value
class ProviderRule:
    """A rule about tools: its providers, its text, its source, and the function that finds violations."""

    name: str
    providers: frozenset[Provider]
    text: str
    source: str
    broken: Broken


def broken_rule(tool: ToolDefinition, provider: Provider) -> tuple[ProviderRule, str] | None:
    """Return the first rule of the provider that the tool breaks, with the path, or None."""
    for rule in PROVIDER_RULES:
        if provider in rule.providers and (place := rule.broken(tool)) is not None:
            return rule, place
    return None


def compiles(pattern: object) -> bool:
    """Return whether OpenAI accepts the pattern: a Python regular expression without lookaround."""
    if not isinstance(pattern, str) or _LOOKAROUND.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):  # the last two for deep nesting and large repetitions
        return False
    return True


def is_array(schema: JSONObject) -> bool:
    """Return whether the schema's type includes arrays."""
    kind = schema.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _subschemas(schema: JSONObject) -> Iterator[tuple[JSONObject, Path]]:
    """Yield the schema and all its subschemas, each with its path."""
    waiting: list[tuple[JSON, Path]] = [(schema, ())]
    while waiting:
        part, path = waiting.pop()
        if isinstance(part, dict):
            yield part, path
            below: list[tuple[JSON, Path]] = []
            with_parts(part, path, lambda each, its_path, below=below: below.append((each, its_path)))
            waiting += below


def _first(broken: Callable[[JSONObject], bool]) -> Broken:
    """Return a rule that applies to every position of a schema."""

    def place(tool: ToolDefinition) -> str | None:
        return next((spell(path) for part, path in _subschemas(tool.parameters) if broken(part)), None)

    return place


def _bad_name(tool: ToolDefinition) -> str | None:
    return None if TOOL_NAME.fullmatch(tool.name) else ""


def _no_object(tool: ToolDefinition) -> str | None:
    return None if tool.parameters.get("type") == "object" else "type"


def _without_properties(tool: ToolDefinition) -> str | None:
    return None if isinstance(tool.parameters.get("properties"), dict) else "properties"


def _alternatives(tool: ToolDefinition) -> str | None:
    return next((each for each in ROOT_KEYWORDS if each in tool.parameters), None)


def _odd_names(schema: JSONObject) -> bool:
    names = schema.get("properties")
    return isinstance(names, dict) and not all(map(PROPERTY_NAME.fullmatch, names))


def _odd_patterns(schema: JSONObject) -> bool:
    by_pattern = schema.get("patternProperties")
    patterns = [*by_pattern] if isinstance(by_pattern, dict) else []
    return not all(map(compiles, [*patterns, schema["pattern"]] if "pattern" in schema else patterns))


def _invalid(tool: ToolDefinition) -> str | None:
    """Return the path at which the schema is not valid by draft 2020-12, or None."""
    for part, path in _subschemas(tool.parameters):
        if (
            part.get("$schema", DIALECTS[0]) not in DIALECTS
            or "definitions" in part
            or "dependencies" in part
        ):
            return spell(path)
    try:
        jsonschema_rs.Draft202012Validator(tool.parameters, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        return ""
    return None


def _unreadable(tool: ToolDefinition) -> str | None:
    if has_half_characters(tool.description):
        return "description"
    return next(_unreadable_paths(tool.parameters), None)


def _unreadable_paths(schema: JSON) -> Iterator[str]:
    waiting: list[tuple[JSON, Path]] = [(schema, ())]
    while waiting:
        part, path = waiting.pop()
        match part:
            case str() if has_half_characters(part):
                yield spell(path)
            case float() if not math.isfinite(part):
                yield spell(path)
            case dict():
                waiting += [(each, (*path, name)) for name, each in part.items()]
                if any(map(has_half_characters, part)):
                    yield spell(path)
            case list():
                waiting += [(each, (*path, index)) for index, each in enumerate(part)]
            case _:
                pass


PROVIDER_RULES: Sequence[ProviderRule] = (
    ProviderRule(
        name="tool name",
        providers=_KNOWN,
        text="the name of a tool is 1 to 64 letters, digits, underscores and hyphens",
        source="OpenAI and Anthropic, API reference of tools; adapters send an alias",
        broken=_bad_name,
    ),
    ProviderRule(
        name="readable JSON",
        providers=_EVERY,
        text="no NaN, no infinity, no half characters",
        source="RFC 8259, sections 6 and 8.2",
        broken=_unreadable,
    ),
    ProviderRule(
        name="object at the root",
        providers=_EVERY,
        text='the root has the type "object"',
        source='OpenAI: "schema must be a JSON Schema of type object"; Anthropic: input_schema.type is required',
        broken=_no_object,
    ),
    ProviderRule(
        name="no alternatives at the root",
        providers=_EVERY,
        text="no anyOf, oneOf, allOf, not, enum, const or $ref at the root",
        source="langchainjs#9804, huly-mcp#66 (OpenAI), claude-code#40075 (Anthropic)",
        broken=_alternatives,
    ),
    ProviderRule(
        name="properties at the root",
        providers=_OPENAI,
        text="the root has properties",
        source='OpenAI: "object schema missing properties"',
        broken=_without_properties,
    ),
    ProviderRule(
        name="items of arrays",
        providers=_OPENAI,
        text="an array has items",
        source="dify#32894, meilisearch-mcp#27",
        broken=_first(lambda schema: is_array(schema) and "items" not in schema),
    ),
    ProviderRule(
        name="patterns",
        providers=_OPENAI,
        text="a pattern is a Python regular expression without lookaround",
        source="litellm#40485",
        broken=_first(_odd_patterns),
    ),
    ProviderRule(
        name="property names",
        providers=_ANTHROPIC,
        text="the name of a property is 1 to 64 letters, digits, underscores, dots and hyphens",
        source="composio#3500, claude-code#79418",
        broken=_first(_odd_names),
    ),
    ProviderRule(
        name="draft 2020-12",
        providers=_EVERY,
        text="a valid schema of draft 2020-12 that refers to nothing outside it",
        source="claude-code#86665, home-assistant#181282",
        broken=_invalid,
    ),
)
"""In the order in which providers have been observed to check."""
