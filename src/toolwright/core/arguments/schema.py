"""JSON Schemas: compiled once without fetching references, their weight, rewritten, and their parts.

The weight is the number of subschemas that validate a value, counted through references. A validator visits each branch
of a union separately, so a schema of one kilobyte can have billions of visits. They are counted before it validates,
because neither a thread nor a time limit can interrupt a validator: it holds the GIL.
"""

import re
from collections.abc import Callable, Iterator
from math import inf
from typing import TypeAlias
from urllib.parse import quote, unquote, urldefrag, urljoin

import jsonschema_rs

from toolwright.core.arguments.patterns import MAPS, warn_of_patterns, with_usable_patterns
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, Path, has_more_values, spell
from toolwright.core.limits import MAX_NESTING
from toolwright.core.text import brief, sentence

_MAX_WHY = 500  # maximum characters of a reason
_MAX_PLACE = 200  # maximum characters of a path, or of a name
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "$schema"})
MAX_AT_ONCE = 10_000
"""Maximum number of subschemas that validate one and the same value."""
MAX_VISITS = 1_000_000
"""Maximum number of visits of one validation: less than a tenth of a second."""
MAX_ERROR_VISITS = 10_000
"""Maximum number of visits for which all errors are collected, which costs a hundred times more than a validation."""
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("not", "if", "then", "else")
_DEPENDENT = ("dependentSchemas", "dependencies")
_LINKS = ("$ref", "$dynamicRef", "$recursiveRef")
_OF_PROPERTIES = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_OF_ITEMS = ("additionalItems", "contains", "unevaluatedItems")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_NAMES = ("$id", "id", "$anchor", "$dynamicAnchor")
_NOWHERE = "json://toolwright.invalid/"
_DEFINITIONS = "#/$defs/"
_ROOT = "json://toolwright.invalid/schema"
"""Base URI of the schema's own references. Its host and path allow resolving a relative `$id`."""


class InvalidSchema(Exception):
    """An invalid schema: the `path` of the error, empty if unknown, and a short reason."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = brief(why, _MAX_WHY).rstrip(".")
        place = brief(spell(path), _MAX_PLACE)
        super().__init__(f"{place}: {self.why}" if place else self.why)


class CompiledSchema:
    """A compiled JSON Schema. `is_valid` and `iter_errors` are for values that its `weight` allows.

    `schema` is the schema itself, or a copy without patterns that the validator cannot read.
    """

    __slots__ = ("_weight", "is_valid", "iter_errors", "schema")

    def __init__(self, schema: JSONObject, validator: jsonschema_rs.Validator) -> None:
        self.schema = schema
        self._weight: Weight | None = None
        self.is_valid = validator.is_valid
        self.iter_errors = validator.iter_errors

    @property
    def weight(self) -> "Weight":
        """The weight of the schema, counted when it is first needed."""
        if self._weight is None:
            self._weight = Weight(self.schema)
        return self._weight


def compile_schema(schema: JSONObject, name: str) -> CompiledSchema:
    """Return a validator that never fetches references. Raises `DefinitionError` for an invalid schema.

    `name` is the tool's name for the error message, which contains the path. Formats are validated too.
    """
    quoted = brief(repr(name), _MAX_PLACE)
    try:
        return _compiled(schema, f"Tool {quoted}", formats=True)
    except InvalidSchema as error:
        raise DefinitionError(
            sentence(f"Tool {quoted}: its parameters are not a valid JSON Schema: {error}")
        ) from error


def compile_promise(schema: JSONObject) -> CompiledSchema:
    """Return a validator of results for a third-party schema, such as an MCP server's. Raises `InvalidSchema`.

    Its `format` keywords are annotations only.
    """
    return _compiled(schema, "A schema of results", formats=False)


def _compiled(schema: JSONObject, source: str, *, formats: bool) -> CompiledSchema:
    try:
        compiled = _compiled_patterns(schema, source, formats=formats)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        why = getattr(error, "message", None) or str(error).split("\n")[0]
        path: Path = tuple(getattr(error, "instance_path", ())) or _referring(schema, why)
        raise InvalidSchema(path, why) from error
    if _has_references(schema):  # without them it is no heavier than it is long
        _check_weight(compiled)
    return compiled


def _compiled_patterns(schema: JSONObject, source: str, *, formats: bool) -> CompiledSchema:
    """Compile the schema, without patterns that are valid but that the validator cannot read."""
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True, validate_formats=formats)
    except jsonschema_rs.ValidationError:
        with warn_of_patterns(source):
            usable = with_usable_patterns(schema)
        if usable == schema:
            raise
        validator = jsonschema_rs.validator_for(usable, offline=True, validate_formats=formats)
        return CompiledSchema(usable, validator)
    return CompiledSchema(schema, validator)


def _has_references(schema: JSON) -> bool:
    waiting: list[JSON] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if any(key in part for key in _LINKS):
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False


def _check_weight(compiled: CompiledSchema) -> None:
    """Raise `InvalidSchema` if one value is validated by too many subschemas."""
    try:
        most = compiled.weight.most_at_once
    except UnknownReference as error:
        raise InvalidSchema((), str(error)) from error
    if most > MAX_AT_ONCE:
        why = (
            f"more than {MAX_AT_ONCE} of its subschemas, counted through references, validate the same value"
        )
        raise InvalidSchema((), f"{why}: remove alternatives")


def _referring(schema: JSON, why: str) -> Path:
    """Return the path of the first reference or dialect that an error names, or an empty path."""
    waiting: list[tuple[JSON, Path]] = [(schema, ())]
    while waiting:
        part, path = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, (*path, index)) for index, each in enumerate(part)]
        elif isinstance(part, dict):
            for key in _REFERENCES & part.keys():
                reference = part[key]
                if isinstance(reference, str) and (target := reference.strip("#")) and target in why:
                    return (*path, key)
            waiting += [(each, (*path, key)) for key, each in part.items()]
    return ()


_ANCHORS = frozenset({"$anchor", "$dynamicAnchor"})
_OF_JSON_SCHEMA = re.compile(r"https?://json-schema\.org/")


class Weight:
    """Counts the visits of one schema. Raises `UnknownReference`."""

    def __init__(self, root: JSONObject) -> None:
        self._root = root
        self._references = _References(root)
        anywhere, visited = self._count([root], with_parts=True, recursive=inf)
        self.visits_per_value = anywhere[id(root)]
        at_once, _ = self._count(visited, with_parts=False, recursive=0.0)
        self.most_at_once = max(at_once.values())

    def exceeds(self, value: JSON, most: int) -> bool:
        """Return whether the validation of the value has more than `most` visits."""
        if self.visits_per_value <= most and not has_more_values(value, int(most // self.visits_per_value)):
            return False
        try:
            _Visits(self._references, most).count(self._root, value)
        except (_TooMany, RecursionError):
            return True
        return False

    def _count(
        self, schemas: list[JSONObject], *, with_parts: bool, recursive: float
    ) -> tuple[dict[int, float], list[JSONObject]]:
        """Return the numbers of subschemas below each schema, including itself, and all visited schemas.

        Counts those that validate the same value and, `with_parts`, those that validate its parts. A schema that leads
        to itself counts as `recursive` there.
        """
        counts: dict[int, float] = {}
        visited: list[JSONObject] = []
        waiting = [(each, False) for each in schemas]
        while waiting:  # iterative: chains of references can be of any length
            schema, is_counted = waiting.pop()
            same = self._references.of_same_value(schema)
            parts = [*_of_parts(schema)] if with_parts else []
            if is_counted:
                total = _repeated(schema) * sum(counts[id(each)] for each in same)
                counts[id(schema)] = 1.0 + total + sum(counts[id(each)] for each in parts)
            elif id(schema) not in counts:
                counts[id(schema)] = recursive
                visited.append(schema)
                waiting.append((schema, True))
                waiting += [(each, False) for each in (*same, *parts)]
        return counts, visited


class _TooMany(Exception):
    """There are more visits than allowed."""


class _Visits:
    """Counts the visits of one validation. Each pair of a subschema and a part of the value is counted once."""

    def __init__(self, references: "_References", most: int) -> None:
        self._references = references
        self._most = most
        self._counts: dict[tuple[int, int], int] = {}

    def count(self, schema: JSONObject, value: JSON) -> int:
        """Return the number of visits. Raises `_TooMany`."""
        key = (id(schema), id(value))
        known = self._counts.get(key)
        if known is not None:
            return known
        self._counts[key] = 0  # ends a reference to itself
        total = 0
        for each in self._references.of_same_value(schema):
            total += self.count(each, value)
            self._check(total)
        total = 1 + total * _repeated(schema)
        for part, item in _applied(schema, value):
            total += self.count(part, item)
            self._check(total)
        self._check(max(total, len(self._counts)))
        self._counts[key] = total
        return total

    def _check(self, total: int) -> None:
        if total > self._most:
            raise _TooMany


def _repeated(schema: JSONObject) -> int:
    """Return how often the subschemas of the same value are visited: again to find what they leave unevaluated."""
    return 2 if any(key in schema for key in _UNEVALUATED) else 1


def _schemas(value: JSON) -> Iterator[JSONObject]:
    """Yield the schemas in the value of a keyword: itself, or those in its list."""
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, dict):
            yield each


def _mapped(schema: JSONObject, keyword: str) -> JSONObject:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def _of_parts(schema: JSONObject) -> Iterator[JSONObject]:
    """Yield the subschemas that validate the parts of a value."""
    for keyword in ("properties", "patternProperties"):
        for each in _mapped(schema, keyword).values():
            yield from _schemas(each)
    for keyword in (*_OF_PROPERTIES, *_OF_ITEMS, "prefixItems", "items"):
        yield from _schemas(schema.get(keyword))


def _applied(schema: JSONObject, value: JSON) -> Iterator[tuple[JSONObject, JSON]]:
    """Yield the subschemas that validate the parts of this value, each with its part."""
    if isinstance(value, dict):
        own = _mapped(schema, "properties")
        others = [each for key in _OF_PROPERTIES for each in _schemas(schema.get(key))]
        others += [part for each in _mapped(schema, "patternProperties").values() for part in _schemas(each)]
        for name, item in value.items():
            yield from ((each, item) for each in (*_schemas(own.get(name)), *others))
    elif isinstance(value, list):
        others = [each for key in (*_OF_ITEMS, "items") for each in _schemas(schema.get(key))]
        first = [*_schemas(schema.get("prefixItems"))]
        for index, item in enumerate(value):
            yield from ((each, item) for each in (*first[index : index + 1], *others))


class UnknownReference(Exception):
    """A reference whose target cannot be counted."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"its reference {brief(reference)!r} cannot be followed: write '#/$defs/NAME'")


class _References:
    """The targets of a schema's references: pointers, anchors and ids.

    Where an id or an anchor could have several targets all of them are counted, so that none is missed.
    """

    def __init__(self, root: JSONObject) -> None:
        self._resources: dict[
            int, tuple[tuple[JSONObject, str], ...]
        ] = {}  # around each part, with base URIs
        self._ids: dict[str, list[JSONObject]] = {}
        self._anchors: dict[str, list[JSONObject]] = {}
        self._same: dict[int, list[JSONObject]] = {}
        self._index(root)

    def of_same_value(self, schema: JSONObject) -> list[JSONObject]:
        """Return the direct subschemas that validate the same value as this one. Raises `UnknownReference`."""
        known = self._same.get(id(schema))
        if known is None:
            known = [each for key in (*_ALTERNATIVES, *_CONDITIONS) for each in _schemas(schema.get(key))]
            known += [
                each
                for key in _DEPENDENT
                for part in _mapped(schema, key).values()
                for each in _schemas(part)
            ]
            references = [each for key in _LINKS if isinstance(each := schema.get(key), str)]
            known += [target for each in references for target in self._targets(schema, each)]
            self._same[id(schema)] = known
        return known

    def _index(self, root: JSONObject) -> None:
        waiting: list[tuple[JSON, tuple[tuple[JSONObject, str], ...]]] = [(root, ((root, _NOWHERE),))]
        while waiting:
            part, around = waiting.pop()
            if isinstance(part, dict):
                for key in _NAMES:
                    if isinstance(name := part.get(key), str):
                        around = self._named(part, name, key, around)
                self._resources[id(part)] = around
            if isinstance(part, dict | list):
                waiting += [(each, around) for each in (part.values() if isinstance(part, dict) else part)]

    def _named(
        self, part: JSONObject, name: str, key: str, around: tuple[tuple[JSONObject, str], ...]
    ) -> tuple[tuple[JSONObject, str], ...]:
        """Add a part by its name. Returns the resources around its own parts."""
        if key in _ANCHORS or name.startswith("#"):
            self._anchors.setdefault(name.removeprefix("#"), []).append(part)
            return around
        base = _joined(around[-1][1], name)
        self._ids.setdefault(base, []).append(part)
        return (*around, (part, base))

    def _targets(self, schema: JSONObject, reference: str) -> list[JSONObject]:
        """Return the schemas to which a reference can lead; none for the schemas of JSON Schema itself."""
        around = self._resources[id(schema)]
        uri, _, fragment = reference.partition("#")
        if uri:
            places = [each for _, base in around for each in self._ids.get(_joined(base, uri), ())]
        else:
            places = [resource for resource, _ in around]
        if fragment and not fragment.startswith("/"):
            places = self._anchors.get(unquote(fragment), [])
        elif fragment:
            places = [part for each in places if isinstance(part := part_at(each, fragment), dict)]
        if not places and not _OF_JSON_SCHEMA.match(uri):
            if any(part_at(resource, fragment) in (True, False) for resource, _ in around):
                return []
            raise UnknownReference(reference)
        return [*{id(each): each for each in places}.values()]


def _joined(base: str, uri: str) -> str:
    """Return an absolute URI without its fragment."""
    try:
        return urldefrag(urljoin(base, uri))[0]
    except ValueError:  # not a URI: the validator has its own error
        return uri


def part_at(place: JSON, pointer: str) -> JSON:
    """Return the part of a document at a JSON pointer, or None."""
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(name)
        elif isinstance(place, list):
            place = place[int(name)] if name.isdecimal() and int(name) < len(place) else None
        else:
            return None
    return place


def closed(schema: JSON) -> JSON:
    """Return a pydantic schema without titles, whose objects allow no unknown properties.

    Only subschemas are changed: a property called `title` is kept.
    """
    if not isinstance(schema, dict):
        return schema
    copy = with_parts(
        {key: value for key, value in schema.items() if key not in _NOISE}, (), lambda part, _: closed(part)
    )
    if copy.get("type") == "object" and "additionalProperties" not in copy:
        copy["additionalProperties"] = False
    return copy


def with_definitions(schema: JSONObject, definitions: JSON) -> JSONObject:
    """Return the schema with only those definitions that it refers to, directly or indirectly."""
    if not isinstance(definitions, dict):
        return schema
    used: set[str] = set()
    pending: list[JSON] = [schema]
    while pending:
        names = set(_referred(pending.pop())) & definitions.keys() - used
        used |= names
        pending += [definitions[name] for name in names]
    if not used:
        return schema
    return {**schema, "$defs": {name: each for name, each in definitions.items() if name in used}}


def _referred(schema: JSON) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to directly."""
    parts: list[JSON] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
            reference = part.get("$ref")
            if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
                yield reference[len(_DEFINITIONS) :]


_NOISE = frozenset({"title", "discriminator"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset(
    {
        "items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else",
        "propertyNames", "contains", "contentSchema",
    }
)  # fmt: skip


def with_parts(schema: JSONObject, path: Path, change: Callable[[JSON, Path], JSON]) -> JSONObject:
    """Return a copy in which each direct subschema is replaced by `change(subschema, path)`."""
    return {key: _inside(key, value, (*path, key), change) for key, value in schema.items()}


def _inside(key: str, value: JSON, path: Path, change: Callable[[JSON, Path], JSON]) -> JSON:
    if key in MAPS and isinstance(value, dict):
        return {name: change(schema, (*path, name)) for name, schema in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [change(schema, (*path, number)) for number, schema in enumerate(value)]
    return change(value, path) if key in _SINGLE else value


Subschema: TypeAlias = tuple[JSON, str]
"""A subschema, and the pointer to it (`#/properties/a`)."""


class Subschemas:
    """The parts of a schema: the targets of its references, and validators of its parts, compiled when needed."""

    def __init__(self, root: JSONObject) -> None:
        self.root = root
        self._registry: jsonschema_rs.Registry | None = None
        self._validators: dict[str, jsonschema_rs.Validator] = {}
        self._compiled: CompiledSchema | None = None

    def compile(self, name: str) -> CompiledSchema:
        """Return the whole schema of the tool `name`, compiled at the first call. Raises `DefinitionError`."""
        if self._compiled is None:
            self._compiled = compile_schema(self.root, name)
        return self._compiled

    def resolve(self, reference: JSON) -> Subschema | None:
        """Return the target of a local reference, or None."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return None
        place = part_at(self.root, reference[1:])
        return (place, reference) if isinstance(place, dict) else None

    def followed(self, place: Subschema) -> Subschema:
        """Return the subschema to which a place refers, directly or indirectly; itself if it is no reference."""
        for _ in range(MAX_NESTING):
            schema = place[0]
            target = self.resolve(schema.get("$ref")) if isinstance(schema, dict) else None
            if target is None:
                break
            place = target
        return place

    def accepts(self, pointer: str, value: JSON) -> bool:
        """Return whether the schema at that position accepts the value."""
        validator = self._validators.get(pointer)
        if validator is None:
            if self._registry is None:
                self._registry = jsonschema_rs.Registry([(_ROOT, with_usable_patterns(self.root))])
            schema: JSONObject = {"$ref": _ROOT + pointer}
            if "$schema" in self.root:
                schema["$schema"] = self.root["$schema"]
            validator = jsonschema_rs.validator_for(
                schema, registry=self._registry, offline=True, validate_formats=True
            )
            self._validators[pointer] = validator
        return validator.is_valid(value)


def members_of(schema: JSONObject, pointer: str, keyword: str) -> list[Subschema]:
    """Return the schemas in the list of a keyword such as `anyOf`."""
    listed = schema.get(keyword)
    if not isinstance(listed, list):
        return []
    return [(each, f"{pointer}/{keyword}/{index}") for index, each in enumerate(listed)]


def property_of(schema: JSONObject, pointer: str, name: str) -> Subschema:
    """Return the schema of an object's property, by its name or that of all others."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        step = quote(name.replace("~", "~0").replace("/", "~1"), safe="~")
        return properties[name], f"{pointer}/properties/{step}"
    return schema.get("additionalProperties"), f"{pointer}/additionalProperties"


def item_of(schema: JSONObject, pointer: str, index: int) -> Subschema:
    """Return the schema of a list's item."""
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list) and index < len(prefix):
        return prefix[index], f"{pointer}/prefixItems/{index}"
    return schema.get("items"), f"{pointer}/items"
