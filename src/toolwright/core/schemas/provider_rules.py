"""Provider rules: restrictions of model providers on tools, with their sources; and aliases of rejected names.

`provider_forms.provider_form` returns the equivalent that a provider accepts; the fake providers in the tests reject
tools by this table. No rule is enforced on a tool itself: its own schema validates its arguments.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import jsonschema_rs

from toolwright.core.arguments.schema import Subschemas, with_parts
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, Path, dumps_unescaped, has_half_characters, spell
from toolwright.core.model import ToolDefinition
from toolwright.core.value import Value

Provider: TypeAlias = Literal["openai", "anthropic", "other"]
"""The dialect of JSON Schema that a model's provider accepts; `other` is any provider without known rules."""

PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ROOT_KEYWORDS = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref")
MAX_TOOLS: dict[Provider, int] = {"openai": 128}
"""Documented maximum number of tools in one request (zed#42393). Other servers with the same dialect can accept more.
"""

MAX_DESCRIPTION = 1_024
"""Most characters of a tool's description over OpenAI's Chat Completions (sentry-mcp#106, wcgw#51)."""

_LOOKAROUND = re.compile(r"\(\?<?[=!]")
DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#")
_EVERY = frozenset[Provider]({"openai", "anthropic", "other"})
_KNOWN = frozenset[Provider]({"openai", "anthropic"})
_OPENAI = frozenset[Provider]({"openai"})
_ANTHROPIC = frozenset[Provider]({"anthropic"})

Broken: TypeAlias = Callable[[ToolDefinition], str | None]
"""Returns the path in the schema that breaks a rule, such as `properties.a`, or None."""
_MARK = "."
"""Appended to a key that looks like an alias but is not one."""


class ProviderRule(Value):
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


_FOREIGN = re.compile(r"[^a-zA-Z0-9_.-]+")
Renamed: TypeAlias = Callable[[str, Mapping[str, JSON]], str]


class PropertyNames:
    """Aliases for property names of one schema that a provider rejects, in both directions.

    An alias applies only at positions where the schema has that property. Another key at such a position that looks
    like the alias is sent with a trailing dot, so that it is not mistaken for the property when it is returned.
    """

    def __init__(self, schema: JSONObject, aliases: Mapping[str, str]) -> None:
        self._schema = schema
        self._places = Subschemas(schema)
        self._alias = dict(aliases)
        self._real = {alias: name for name, alias in aliases.items()}

    @classmethod
    def for_schema(cls, schema: JSONObject) -> "PropertyNames | None":
        """Return the aliases for that schema, or None if it needs none."""
        names: dict[str, None] = {}
        _collect(schema, names)
        odd = [name for name in names if not PROPERTY_NAME.fullmatch(name)]
        if not odd:
            return None
        aliases: dict[str, str] = {}
        used = {*names, *(name.rstrip(_MARK) for name in names)}
        for name in odd:
            stem = _FOREIGN.sub("_", name)[:60].strip(f"_{_MARK}") or "property"
            alias = next(each for each in _numbered(stem) if each not in used)
            used.add(alias)
            aliases[name] = alias
        return cls(schema, aliases)

    def renamed(self, schema: JSONObject) -> JSONObject:
        """Return the schema with the aliases. Each description states the original name."""
        copy = with_parts(schema, (), lambda part, _: self.renamed(part) if isinstance(part, dict) else part)
        for keyword in ("properties", "dependentRequired", "dependentSchemas"):
            parts = copy.get(keyword)
            if isinstance(parts, dict):
                has_aliases = keyword == "properties"
                copy[keyword] = {
                    self._alias.get(name, name): self._model_name(name, each)
                    if has_aliases
                    else self._required(each)
                    for name, each in parts.items()
                }
        if "required" in copy:
            copy["required"] = self._required(copy["required"])
        return copy

    def real(self, arguments: str) -> str:
        """Return the arguments, as JSON text, with the names of the schema."""
        return self._rewritten(arguments, self._to_real)

    def wire(self, arguments: str) -> str:
        """Return the arguments, as JSON text, with the names sent to the provider."""
        return self._rewritten(arguments, self._to_alias)

    def with_model_names(self, text: str) -> str:
        """Return a text about arguments with the property names that the model knows."""
        for name in sorted(self._alias, key=len, reverse=True):
            written = json.dumps(name, ensure_ascii=False)[1:-1]
            text = text.replace(name, self._alias[name]).replace(written, self._alias[name])
        return text

    def _model_name(self, name: str, schema: JSON) -> JSON:
        if name not in self._alias or schema is False:
            return schema
        return described(schema if isinstance(schema, dict) else {}, f"The name of this property is {name!r}")

    def _required(self, names: JSON) -> JSON:
        if not isinstance(names, list):
            return names
        return [self._alias.get(each, each) if isinstance(each, str) else each for each in names]

    def _to_real(self, key: str, properties: Mapping[str, JSON]) -> str:
        if key in properties or not self._is_alias(key.rstrip(_MARK), properties):
            return key
        return key.removesuffix(_MARK) if key.endswith(_MARK) else self._real[key]

    def _to_alias(self, key: str, properties: Mapping[str, JSON]) -> str:
        if key in properties:
            return self._alias.get(key, key)
        return f"{key}{_MARK}" if self._is_alias(key.rstrip(_MARK), properties) else key

    def _is_alias(self, key: str, properties: Mapping[str, JSON]) -> bool:
        return key in self._real and self._real[key] in properties

    def _rewritten(self, arguments: str, rename: Renamed) -> str:
        try:
            written = parse_json(arguments)
        except NotJson:
            return arguments
        rewritten = self._at(written, [self._schema], rename)
        return (
            arguments
            if rewritten == written and [*_keys(rewritten)] == [*_keys(written)]
            else dumps_unescaped(rewritten)
        )

    def _at(self, part: JSON, schemas: Sequence[JSON], rename: Renamed) -> JSON:
        """Return the value with the keys renamed that one of these schemas declares."""
        if not isinstance(part, dict | list) or not schemas:
            return part
        all_schemas = self._all(schemas)
        if isinstance(part, list):
            return [self._at(each, _of_item(all_schemas, at), rename) for at, each in enumerate(part)]
        properties: dict[str, list[JSON]] = {}
        for schema in all_schemas:
            for name, each in _as_object(schema.get("properties")).items():
                properties.setdefault(name, []).append(each)
        others = [each for schema in all_schemas for each in _of_others(schema)]
        declared: Mapping[str, JSON] = dict.fromkeys(properties)
        copy: JSONObject = {}
        for key, each in part.items():
            name = rename(key, declared)
            own = properties.get(key) or properties.get(name)
            copy[name] = self._at(each, own or others, rename)
        return copy

    def _all(self, schemas: Sequence[JSON]) -> list[JSONObject]:
        """Return the schemas together with all their branches and all schemas to which they refer."""
        all_schemas: list[JSONObject] = []
        waiting = [*schemas]
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, dict) or any(schema is each for each in all_schemas):
                continue
            all_schemas.append(schema)
            place = self._places.resolve(schema.get("$ref"))
            if place is not None:
                waiting.append(place[0])
            for keyword in ("anyOf", "oneOf", "allOf"):
                waiting += _as_list(schema.get(keyword))
            waiting += [schema[each] for each in ("if", "then", "else") if each in schema]
            waiting += _as_object(schema.get("dependentSchemas")).values()
        return all_schemas


def _collect(schema: JSONObject, names: dict[str, None]) -> None:
    names.update(dict.fromkeys(_as_object(schema.get("properties"))))
    with_parts(schema, (), lambda part, _: _collect(part, names) if isinstance(part, dict) else None)


def _numbered(stem: str) -> Iterable[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}_{number}"
        number += 1


def _keys(part: JSON) -> Iterable[str]:
    if isinstance(part, dict):
        for key, each in part.items():
            yield key
            yield from _keys(each)
    elif isinstance(part, list):
        for each in part:
            yield from _keys(each)


def _of_item(schemas: Sequence[JSONObject], at: int) -> list[JSON]:
    schemas_of_item: list[JSON] = []
    for schema in schemas:
        first = _as_list(schema.get("prefixItems"))
        schemas_of_item.append(first[at] if at < len(first) else schema.get("items"))
    return schemas_of_item


def _of_others(schema: JSONObject) -> list[JSON]:
    """Return the schemas of properties that are not listed by name."""
    return [schema.get("additionalProperties"), *_as_object(schema.get("patternProperties")).values()]


def described(schema: JSONObject, note: str) -> JSONObject:
    """Return the schema with a note appended to its description."""
    text = schema.get("description")
    return {**schema, "description": f"{text} ({note})" if isinstance(text, str) and text else note}


def _as_object(part: JSON) -> JSONObject:
    return part if isinstance(part, dict) else {}


def _as_list(part: JSON) -> list[JSON]:
    return part if isinstance(part, list) else []
