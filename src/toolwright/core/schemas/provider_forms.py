"""Provider forms: an equivalent of a tool that a model's provider accepts. The tool's own schema validates arguments.

A form is lossless: constraints for which a provider has no keyword are stated in the description.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from toolwright.core.arguments.schema import Subschemas, with_parts
from toolwright.core.json_value import (
    JSON,
    JSONObject,
    Path,
    dumps_unescaped,
    has_half_characters,
    without_surrogates,
)
from toolwright.core.model import ToolDefinition
from toolwright.core.schemas.provider_rules import (
    DIALECTS,
    PROPERTY_NAME,
    ROOT_KEYWORDS,
    TOOL_NAME,
    PropertyNames,
    Provider,
    broken_rule,
    compiles,
    described,
    is_array,
)
from toolwright.core.text import brief
from toolwright.core.value import Value, changed

_ALTERNATIVES: Mapping[str, str] = {"anyOf": "at least one", "oneOf": "exactly one"}
_MAX_RULE = 1_500  # maximum characters of a description that state one keyword
_MAX_REFERENCES = 20  # maximum length of a chain of references at the root
_AT_ROOT = frozenset(ROOT_KEYWORDS)
_OLDER = re.compile(r"draft-0[1-7]|draft/2019-09")


_LOOKS_LIKE_ALIAS = re.compile(r".*-[0-9a-f]{16}")
_FOREIGN_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_TOLD: Mapping[str, str] = {"not": "no such object", "enum": "one of these", "const": "this"}


def alias_of(name: str) -> str:
    """Return the name for a provider: `name` itself if it is allowed, or readable text and a digest of the name.

    A real name that looks like an alias also gets an alias, so that no alias equals a real name.
    """
    if TOOL_NAME.fullmatch(name) and not _LOOKS_LIKE_ALIAS.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{_FOREIGN_IN_NAME.sub('_', name)[:47]}-{digest}"


class ToolError(Value):
    """The reason why a tool cannot be offered to a model; `tool` is None for an error of all tools together."""

    tool: str | None
    message: str


class ProviderForm(Value):
    """A tool as sent to a provider. `names` are aliases of property names, or None without aliases."""

    definition: ToolDefinition
    names: PropertyNames | None = None


class NoObject(Exception):
    """The schema accepts no object."""


def provider_form(tool: ToolDefinition, provider: Provider) -> ProviderForm | ToolError:
    """Return the tool in a form that the provider accepts, unchanged if possible; or the rule that it breaks.

    The adapter handles the tool's name: it has aliases for names that a provider rejects.
    """
    if _accepted(tool, provider):
        return ProviderForm(definition=tool)
    schema, notes = tool.parameters, list[str]()
    try:
        schema = _readable(schema)
        schema = _without_old_forms(schema) if isinstance(schema, dict) else {}
        schema = as_object(schema, notes)
    except NoObject:
        return ToolError(tool=tool.name, message="Its arguments cannot be an object.")
    names = PropertyNames.for_schema(schema) if provider == "anthropic" else None
    if provider == "openai":
        schema = {"properties": {}, **_for_openai(schema)}
    if names is not None:
        schema = names.renamed(schema)
    description = "\n\n".join([without_surrogates(tool.description), *notes])
    sent = ToolDefinition(name=tool.name, description=description, parameters=schema)
    broken = broken_rule(changed(sent, name="named"), provider)
    if broken is None:
        return ProviderForm(definition=sent, names=names)
    rule, place = broken
    where = f" (at {place})" if place else ""
    return ToolError(tool=tool.name, message=f"The provider refuses it: {rule.text}{where}.")


def can_be_object(schema: JSON) -> bool:
    """Return whether an object can match the schema. A reference to another document is assumed to allow one."""
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object" and _AT_ROOT.isdisjoint(schema):
        return True
    if isinstance(schema.get("$ref"), str) and not str(schema["$ref"]).startswith("#/"):
        return True
    try:
        as_object(schema, [])
    except NoObject:
        return False
    return True


def _accepted(tool: ToolDefinition, provider: Provider) -> bool:
    """Return whether the provider accepts the tool unchanged.

    Checks all rules in one pass, for lists of thousands of tools. A tool's schema is known to be valid in the dialect
    that it names, so only the dialect is checked.
    """
    schema = tool.parameters
    if (
        schema.get("type") != "object"
        or not _AT_ROOT.isdisjoint(schema)
        or has_half_characters(tool.description)
    ):
        return False
    if provider == "openai" and "properties" not in schema:
        return False
    waiting: list[JSON] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if has_half_characters(part):
                return False
        elif isinstance(part, dict):
            if not _usual(part, provider):
                return False
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, float) and not math.isfinite(part):
            return False
    return True


_OLD = frozenset({"definitions", "dependencies", "additionalItems"})


def _usual(part: JSONObject, provider: Provider) -> bool:
    """Return whether the schema breaks no rule. A value that only looks like a schema can be reported as well."""
    if not _OLD.isdisjoint(part) or isinstance(part.get("id"), str):
        return False
    if "$schema" in part and part["$schema"] not in DIALECTS:
        return False
    if provider == "openai":
        if is_array(part) and "items" not in part:
            return False
        if isinstance(part.get("pattern"), str) and not compiles(part["pattern"]):
            return False
        by_pattern = part.get("patternProperties")
        if isinstance(by_pattern, dict) and not all(map(compiles, by_pattern)):
            return False
    elif provider == "anthropic":
        names = part.get("properties")
        if isinstance(names, dict) and not all(map(PROPERTY_NAME.fullmatch, names)):
            return False
    return all(map(str.isascii, part)) or not any(map(has_half_characters, part))


def _readable(part: JSON) -> JSON:
    """Return the schema as JSON that every parser can read, without NaN, infinity and unpaired surrogates."""
    match part:
        case str():
            return without_surrogates(part)
        case dict():
            readable = {
                without_surrogates(name): each for name, each in part.items() if not _is_no_number(each)
            }
            return {name: _readable(each) for name, each in readable.items()}
        case list():
            return [_readable(each) for each in part if not _is_no_number(each)]
        case _:
            return part


def _is_no_number(part: JSON) -> bool:
    return isinstance(part, float) and not math.isfinite(part)


# --- drafts before 2020-12 ---


def _without_old_forms(schema: JSONObject) -> JSONObject:
    """Return the schema in draft 2020-12: older forms are converted, with the references to them."""
    dialect = schema.get("$schema")
    older = isinstance(dialect, str) and _OLDER.search(dialect) is not None
    moved: dict[str, str] = {}
    upgraded = _upgraded(schema, "#", "#", moved, refers_alone=older and "2019" not in str(dialect))
    return _pointed(upgraded, moved) if moved else upgraded


def _upgraded(
    schema: JSONObject, old: str, new: str, moved: dict[str, str], *, refers_alone: bool
) -> JSONObject:
    """Convert one schema of an older draft and its subschemas; `moved` collects the pointers that change."""
    if old != new:
        moved[old] = new
    if refers_alone and "$ref" in schema:  # older drafts ignore keywords next to a reference
        schema = {key: each for key, each in schema.items() if key in ("$ref", "definitions", "$defs")}
    copy: JSONObject = {}
    for key, each in schema.items():
        for name, part in _upgraded_keyword(key, each, schema):
            copy[name] = (
                {**_parts_of(copy.get(name)), **part} if name in copy and isinstance(part, dict) else part
            )
    steps = {name: _old_name(name, schema) for name in copy}

    def below(part: JSON, path: Path) -> JSON:
        if not isinstance(part, dict):
            return part
        own, *rest = map(_step, path)
        before = "/".join([f"{old}/{_step(_origin(steps[str(path[0])], path[1:], schema))}", *rest])
        return _upgraded(part, before, "/".join([f"{new}/{own}", *rest]), moved, refers_alone=refers_alone)

    return with_parts(copy, (), below)


def _parts_of(part: JSON) -> JSONObject:
    return part if isinstance(part, dict) else {}


def _origin(names: Sequence[str], path: Path, schema: JSONObject) -> str:
    """Return the keyword that held a part in the older draft."""
    for name in names[1:]:
        parts = schema.get(name)
        if isinstance(parts, dict) and path and path[0] in parts:
            return name
    return names[0]


def _old_name(name: str, schema: JSONObject) -> Sequence[str]:
    match name:
        case "$defs" if "definitions" in schema:
            return ("$defs", "definitions") if "$defs" in schema else ("definitions",)
        case "prefixItems" if isinstance(schema.get("items"), list):
            return ("items",)
        case "items" if isinstance(schema.get("items"), list):
            return ("additionalItems",)
        case "dependentSchemas" if "dependencies" in schema:
            return ("dependentSchemas", "dependencies")
        case _:
            return (name,)


def _upgraded_keyword(key: str, part: JSON, schema: JSONObject) -> Iterable[tuple[str, JSON]]:
    match key, part:
        case "$schema", _:
            return []
        case "definitions", dict():
            return [("$defs", part)]
        case "items", list():
            additional = schema.get("additionalItems")
            return [("prefixItems", part), *([] if additional is None else [("items", additional)])]
        case "additionalItems", _:
            return []  # handled with the list of items it belongs to; elsewhere it has no meaning
        case ("id", str()) | ("$id", str()):
            if key == "id" and "$schema" not in schema and not part.startswith("#"):
                return [(key, part)]  # not a subschema but a value
            return [("$anchor", part[1:])] if len(part) > 1 and part.startswith("#") else [("$id", part)]
        case ("exclusiveMinimum", bool()) | ("exclusiveMaximum", bool()):
            bound = schema.get(key.replace("exclusiveM", "m"))
            return [(key, bound)] if part and isinstance(bound, int | float) else []
        case (("minimum" | "maximum"), _) if schema.get(f"exclusiveM{key[1:]}") is True:
            return []
        case "dependencies", dict():
            lists: JSONObject = {name: each for name, each in part.items() if isinstance(each, list)}
            schemas: JSONObject = {name: each for name, each in part.items() if not isinstance(each, list)}
            keywords: list[tuple[str, JSON]] = [("dependentRequired", lists), ("dependentSchemas", schemas)]
            return [(name, each) for name, each in keywords if each]
        case _:
            return [(key, part)]


def _pointed(part: JSON, moved: Mapping[str, str]) -> JSONObject:
    """Return the schema with its references adjusted to moved parts."""

    def pointed(part: JSON) -> JSON:
        if isinstance(part, list):
            return [pointed(each) for each in part]
        if not isinstance(part, dict):
            return part
        copy = {key: pointed(each) for key, each in part.items()}
        reference = copy.get("$ref")
        if isinstance(reference, str):
            copy["$ref"] = moved.get(reference, reference)
        return copy

    adjusted = pointed(part)
    assert isinstance(adjusted, dict), "an object stays one"
    return adjusted


def _step(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


# --- the root ---


def as_object(schema: JSONObject, notes: list[str]) -> JSONObject:
    """Return the schema as an object schema without alternatives at its root. Omissions are stated in `notes`.

    Raises `NoObject` if it accepts no object.
    """
    return _Root(schema).as_object(schema, notes)


class _Root:
    """The schemas that together define a schema's root."""

    def __init__(self, schema: JSONObject) -> None:
        self._places = Subschemas(schema)
        self._definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}

    def as_object(self, schema: JSONObject, notes: list[str]) -> JSONObject:
        merged = {**self._definitions, **self._merged(schema, notes, _MAX_REFERENCES)}
        return {"type": "object", **{key: each for key, each in merged.items() if key != "type"}}

    def _merged(self, schema: JSONObject, notes: list[str], depth: int) -> JSONObject:
        """Return the schema's own keywords merged with those of its reference and its branches."""
        kind = schema.get("type", "object")
        if kind != "object" and not (isinstance(kind, list) and "object" in kind):
            raise NoObject
        self._check_values(schema)
        merged = {key: each for key, each in schema.items() if key not in _AT_ROOT}
        for part in self._joined(schema, depth):
            merged = _both(merged, self._merged(part, notes, depth - 1))
        for keyword in _ALTERNATIVES:
            branches = schema.get(keyword)
            if isinstance(branches, list):
                merged = self._with_branches(merged, keyword, branches, notes, depth)
        notes += [
            f"The arguments must be {_TOLD[key]}: {brief(dumps_unescaped(schema[key]), _MAX_RULE)}"
            for key in _TOLD
            if key in schema
        ]
        return merged

    def _check_values(self, schema: JSONObject) -> None:
        options = schema.get("enum", [{}])
        if isinstance(options, list) and not any(isinstance(each, dict) for each in options):
            raise NoObject
        if not isinstance(schema.get("const", {}), dict):
            raise NoObject

    def _joined(self, schema: JSONObject, depth: int) -> list[JSONObject]:
        """Return the schemas that also apply: the reference's target and the members of `allOf`."""
        parts = schema.get("allOf")
        joined: list[JSON] = [*parts] if isinstance(parts, list) else []
        if "$ref" in schema:
            place = self._places.resolve(schema["$ref"]) if depth else None
            if place is None or place[0] is schema:
                raise NoObject  # unresolvable or circular
            joined.append(place[0])
        if False in joined or not depth:
            raise NoObject
        return [each for each in joined if isinstance(each, dict)]

    def _with_branches(
        self, schema: JSONObject, keyword: str, branches: list[JSON], notes: list[str], depth: int
    ) -> JSONObject:
        """Return the schema with the properties of its branches.

        Only properties that all branches require are required.
        """
        if not depth:
            raise NoObject
        usable: list[JSONObject] = []
        for branch in branches:
            try:
                branch_schema: JSON = {} if branch is True else branch
                usable.append(
                    self._merged(branch_schema, [], depth - 1)
                    if isinstance(branch_schema, dict)
                    else _never()
                )
            except NoObject:
                continue
        if not usable:
            raise NoObject
        described_branches = brief(dumps_unescaped(branches), _MAX_RULE)
        notes.append(
            f"The arguments must fit {_ALTERNATIVES[keyword]} of these JSON Schemas: {described_branches}"
        )
        own = _object(schema.get("properties"))
        merged: JSONObject = {}
        for name in dict.fromkeys(name for each in usable for name in _object(each.get("properties"))):
            forms = [_object(each.get("properties")).get(name) for each in usable]
            merged[name] = _any_of([each for each in forms if each is not None])
        first, *others = [_names(each.get("required")) for each in usable]
        required = [name for name in first if all(name in each for each in others)]
        if schema.get("additionalProperties") is False:
            merged = {}  # it rejects all properties that only a branch describes
        copy: JSONObject = {**schema, "properties": {**merged, **own}}
        if required or "required" in schema:
            copy["required"] = [*dict.fromkeys([*_names(schema.get("required")), *required])]
        if "additionalProperties" not in schema and all(
            each.get("additionalProperties") is False for each in usable
        ):
            copy["additionalProperties"] = False
        return copy


def _any_of(forms: Sequence[JSON]) -> JSON:
    """Return a schema of alternatives, without duplicates."""
    different: list[JSON] = [each for at, each in enumerate(forms) if each not in forms[:at]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def _never() -> JSONObject:
    raise NoObject


def _both(first: JSONObject, second: JSONObject) -> JSONObject:
    """Join two schemas that both apply. If a keyword cannot be joined, the first schema's is kept."""
    copy = {**second, **first}
    properties, more = _object(first.get("properties")), _object(second.get("properties"))
    if properties or more:
        both: JSONObject = {}
        for name in (*properties, *more):
            forms = [each[name] for each in (properties, more) if name in each]
            both[name] = forms[0] if len(forms) == 1 or forms[0] == forms[1] else {"allOf": forms}
        copy["properties"] = both
    required = [*_names(first.get("required")), *_names(second.get("required"))]
    if required:
        copy["required"] = [*dict.fromkeys(required)]
    if copy.get("additionalProperties") is False and properties.keys() != more.keys():
        del copy["additionalProperties"]  # each schema only considers its own properties
    return copy


def _object(part: JSON) -> JSONObject:
    return part if isinstance(part, dict) else {}


def _names(part: JSON) -> list[JSON]:
    return part if isinstance(part, list) else []


# --- places within ---


def _for_openai(schema: JSONObject) -> JSONObject:
    """Return the schema with items for every array, and without patterns that OpenAI does not compile."""
    copy = with_parts(schema, (), lambda part, _: _for_openai(part) if isinstance(part, dict) else part)
    if is_array(copy) and "items" not in copy:
        copy["items"] = {}
    if "pattern" in copy and not compiles(copy["pattern"]):
        copy = described(copy, f"It matches the pattern {copy.pop('pattern')}")
    by_pattern = copy.get("patternProperties")
    if isinstance(by_pattern, dict) and not all(map(compiles, by_pattern)):
        description = brief(dumps_unescaped(copy.pop("patternProperties")), _MAX_RULE)
        copy.pop("additionalProperties", None)
        copy = described(copy, f"Its properties by pattern: {description}")
    return copy
