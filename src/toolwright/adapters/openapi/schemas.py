"""Conversion of OpenAPI schemas to JSON Schema: references, nullable, inheritance, discriminators."""

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, cast

from jsonref import JsonRef

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.core.tools.http.execution import ANY

Node: TypeAlias = Any  # a part of the document, whose references are proxies of jsonref
Direction: TypeAlias = Literal["request", "response"]
FILE: JSONObject = {
    "type": "string",
    "format": "binary",
    "description": "The path of a file of this thread.",
}
MAX_DEPTH = 60
"""Maximum nesting of schemas. A document has at most 64 levels itself, but references can nest without end."""

_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "prefixItems"})
_ONE = frozenset(
    {
        "items", "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contains",
        "not", "if", "then", "else",
    }
)  # fmt: skip
_KEPT_KEYWORDS = frozenset(
    {
        "type", "enum", "const", "required", "dependentRequired", "format", "pattern", "default", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
        "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties", "contentEncoding",
        "contentMediaType",
    }
)  # fmt: skip
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_FIELD_DEPTH = (
    6  # maximum length of the paths by which an answer is trimmed; deeper values are kept as a whole
)
_MAX_FIELDS = 2_000


class OperationRefused(Exception):
    """An operation cannot become a tool. The message has the reason."""


def resolved(node: Node) -> Node:
    """Return the part of the document with its references resolved."""
    return cast("Node", node.__subject__) if type(node) is JsonRef else node  # pyright: ignore[reportUnknownMemberType]  # untyped


def part(node: Node, *path: str | int) -> Node:
    """Return the part of an object at the path, or None."""
    for name in path:
        node = resolved(node)
        if not isinstance(node, Mapping):
            return None
        node = cast("Mapping[Any, Node]", node).get(name)
    return resolved(node)


def last_name(node: Node) -> str:
    """Return the name of the schema that a reference targets."""
    return str(node.__reference__["$ref"]).rpartition("/")[2]


def members(node: Node, *path: str | int) -> list[Node]:
    """Return the items of the list at the path. Empty if there is no list."""
    value = part(node, *path)
    return cast("list[Node]", value) if isinstance(value, list) else []


def entries(node: Node, *path: str | int) -> dict[str, Node]:
    """Return the names and values of the object at the path. Empty if there is no object."""
    value = part(node, *path)
    return (
        {str(name): each for name, each in cast("Mapping[Any, Node]", value).items()}
        if isinstance(value, Mapping)
        else {}
    )


class Inheritance:
    """The schemas of a document that other schemas extend with `allOf`."""

    def __init__(self, document: Node) -> None:
        self._schemas = entries(document, "components", "schemas")
        self._children: dict[int, list[str]] = {}
        for name, schema in self._schemas.items():
            for member in [] if type(schema) is JsonRef else members(schema, "allOf"):
                if type(member) is JsonRef:
                    parent: object = self._schemas.get(last_name(member))
                    self._children.setdefault(id(parent), []).append(name)

    def below(self, schema: Node) -> list[str]:
        """Return the names of the schemas that extend this one, directly or indirectly."""
        names: list[str] = []
        remaining = [*self._children.get(id(schema), ())]
        while remaining:
            name = remaining.pop(0)
            if name not in names:
                names.append(name)
                remaining += self._children.get(id(self._schemas[name]), ())
        return names

    def __getitem__(self, name: str) -> Node:
        return resolved(self._schemas[name])

    def __contains__(self, name: str) -> bool:
        return name in self._schemas


class SchemaReader:
    """Reads the schemas of one operation. `definitions` are the schemas that are referenced by others.

    `old` means OpenAPI 3.0, whose schemas are a separate dialect. `readOnly` properties are left out of requests, and
    `writeOnly` properties out of responses.
    """

    def __init__(
        self, inheritance: Inheritance, *, old: bool, longest: int, direction: Direction = "request"
    ) -> None:
        self.definitions: JSONObject = {}
        self._inheritance = inheritance
        self._old = old
        self.longest = longest
        self._hidden = "readOnly" if direction == "request" else "writeOnly"
        self._names: dict[tuple[int, bool], str] = {}
        self._anchors: list[tuple[str, Node]] = []
        self._depth = 0

    def read(self, node: Node, *, extended: bool = False) -> JSON:
        """Convert the schema to JSON Schema. An `extended` schema is a parent, without its children as alternatives."""
        if type(node) is JsonRef:
            return self._reference(node, extended)
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping):
            raise OperationRefused("a schema is neither an object nor true or false")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise OperationRefused(f"its schemas are nested deeper than {MAX_DEPTH} levels")
        try:
            return self._object(cast("Mapping[str, Node]", node), extended)
        finally:
            self._depth -= 1

    def _reference(self, node: Node, extended: bool) -> JSON:
        reference: Mapping[str, Node] = node.__reference__
        hint = last_name(node)
        pointer: JSONObject = {"$ref": f"#/$defs/{self._define(node.__subject__, hint, extended)}"}
        beside = {name: each for name, each in reference.items() if name != "$ref"}
        if self._old or not beside:  # 3.0 ignores keywords next to a reference
            return pointer
        others = self.read(beside)
        return {**others, **pointer} if isinstance(others, dict) else pointer

    def _define(self, schema: Node, hint: str, extended: bool) -> str:
        key = (id(cast("object", schema)), extended)
        if key not in self._names:
            base = _NO_NAME.sub("_", hint)[:60] or "schema"
            name, number = base, 2
            while name in self.definitions:
                name, number = f"{base}_{number}", number + 1
            self._names[key] = name
            self.definitions[name] = {}  # reserved for schemas that refer to themselves
            self.definitions[name] = self.read(schema, extended=extended)
        return self._names[key]

    def _object(self, node: Mapping[str, Node], extended: bool) -> JSON:
        anchor_name = node.get("$dynamicAnchor", "" if node.get("$recursiveAnchor") is True else None)
        if isinstance(anchor_name, str):
            with self._within(anchor_name, node):
                return self._described_object(node, extended)
        dynamic_reference = node.get("$dynamicRef", node.get("$recursiveRef"))
        if dynamic_reference is not None:
            return self._enclosing(str(dynamic_reference))
        return self._described_object(node, extended)

    @contextmanager
    def _within(self, anchor: str, node: Node) -> Generator[None]:
        """Register the anchor within the block, in which its schema is read."""
        self._anchors.append((anchor, node))
        try:
            yield
        finally:
            self._anchors.pop()

    def _enclosing(self, reference: str) -> JSON:
        """Return a reference to the outermost enclosing schema with that anchor."""
        for anchor, node in self._anchors:
            if reference == f"#{anchor}":
                return {"$ref": f"#/$defs/{self._define(node, anchor or 'itself', False)}"}
        raise OperationRefused(
            f"the dynamic reference {brief(repr(reference), 60)} is not inside a schema with that anchor"
        )

    def _described_object(self, node: Mapping[str, Node], extended: bool) -> JSON:
        discriminator = part(node, "discriminator")
        if isinstance(discriminator, Mapping):
            if extended:  # its alternatives are its extensions, which would contain themselves
                node = {name: each for name, each in node.items() if name not in ("oneOf", "anyOf")}
            else:
                chosen = self._discriminated(node, cast("Mapping[str, Node]", discriminator))
                if chosen is not None:
                    return chosen
        converted = self._plain(node)
        return self._nullable(converted) if self._old and node.get("nullable") is True else converted

    def _plain(self, node: Mapping[str, Node]) -> JSONObject:
        converted: JSONObject = {}
        for keyword, each in node.items():
            if keyword in _KEPT_KEYWORDS:
                converted[keyword] = _json(each)
            elif keyword == "description" and isinstance(each, str):
                converted[keyword] = brief(" ".join(each.split()), self.longest)
            elif keyword in _ONE:
                converted[keyword] = self.read(each)
            elif keyword in _LISTS and isinstance(resolved(each), list):
                converted[keyword] = [self.read(item) for item in members(each)]
            elif keyword == "allOf" and isinstance(resolved(each), list):
                converted[keyword] = [self.read(item, extended=True) for item in members(each)]
            elif keyword in _MAPS and isinstance(resolved(each), Mapping):
                converted[keyword] = {
                    name: self.read(item) for name, item in entries(each).items() if not self._is_hidden(item)
                }
        self._without_hidden(node, converted)
        _old_limits(converted)
        return converted

    def _is_hidden(self, schema: Node) -> bool:
        return part(schema, self._hidden) is True

    def _without_hidden(self, node: Mapping[str, Node], converted: JSONObject) -> None:
        required, properties = converted.get("required"), entries(node, "properties")
        if isinstance(required, list):
            once = {str(each): each for each in required}  # a repeated name makes a schema invalid
            visible: list[JSON] = [
                each for name, each in once.items() if not self._is_hidden(properties.get(name))
            ]
            converted["required"] = visible
            if required and not visible:
                del converted["required"]

    def _nullable(self, converted: JSONObject) -> JSONObject:
        kind, choices = converted.get("type"), converted.get("enum")
        if isinstance(kind, str) and not converted.keys() & {"allOf", "anyOf", "oneOf", "not"}:
            converted["type"] = [kind, "null"]
            if isinstance(choices, list) and None not in choices:
                converted["enum"] = [*choices, None]
            return converted
        described = {"description": converted.pop("description")} if "description" in converted else {}
        return {"anyOf": [converted, {"type": "null"}], **described} if converted else described

    def _discriminated(self, node: Mapping[str, Node], discriminator: Mapping[str, Node]) -> JSON:
        """Return the alternatives of a schema with their discriminator values, or None if there are none."""
        name = discriminator.get("propertyName")
        if not isinstance(name, str):
            return None
        values = _mapped(discriminator.get("mapping"))
        for keyword in ("oneOf", "anyOf"):
            branches = members(node, keyword)
            if branches:
                converted = self._plain({key: each for key, each in node.items() if key != keyword})
                converted[keyword] = [self._branch(each, name, values) for each in branches]
                return self._nullable(converted) if self._old and node.get("nullable") is True else converted
        children = self._inheritance.below(node)
        if not children:
            return None
        alternatives: list[JSON] = [
            self._chosen(self._ref(child), self._inheritance[child], child, name, values)
            for child in children
        ]
        itself = _own_name(values, self._inheritance, node)
        for value in values.get(itself, []):
            chosen: JSONObject = {"properties": {name: {"const": value}}, "required": [name]}
            alternatives.append({"allOf": [self.read(node, extended=True), chosen]})
        text = node.get("description")
        described: JSONObject = {"description": brief(text, self.longest)} if isinstance(text, str) else {}
        return {"anyOf": alternatives, **described}

    def _ref(self, name: str) -> JSONObject:
        return {"$ref": f"#/$defs/{self._define(self._inheritance[name], name, True)}"}

    def _branch(self, member: Node, name: str, values: Mapping[str, list[str]]) -> JSON:
        if type(member) is not JsonRef:
            return self.read(member)
        target = last_name(member)
        return self._chosen(self.read(member), resolved(member), target, name, values)

    def _chosen(
        self, converted: JSON, schema: Node, target: str, name: str, values: Mapping[str, list[str]]
    ) -> JSON:
        """Return the schema with its discriminator values, unless it defines them itself."""
        names: list[JSON] = [*values.get(target, [target])]
        for choices in _choices(schema, name):
            if not all(each in choices for each in names):
                return converted
        chosen: JSONObject = {"const": names[0]} if len(names) == 1 else {"enum": names}
        return {"allOf": [converted, {"properties": {name: chosen}, "required": [name]}]}


def field_paths(schema: Node) -> list[tuple[str, ...]]:
    """Return the paths of the fields that a schema declares. Empty if it declares no properties at the top level."""
    paths: dict[tuple[str, ...], None] = {}
    if not _collect(schema, (), (), paths) or len(paths) > _MAX_FIELDS:
        return []
    return [*paths]


def _collect(
    schema: Node, at: tuple[str, ...], above: tuple[int, ...], paths: dict[tuple[str, ...], None]
) -> bool:
    """Add the paths below a schema to `paths`. Returns False if it declares none, so that it is kept as a whole."""
    schema = resolved(schema)
    identity = id(cast("object", schema))
    if not isinstance(schema, Mapping) or identity in above or len(at) >= _FIELD_DEPTH:
        return False
    above = (*above, identity)
    declares = False
    for keyword in ("allOf", "anyOf", "oneOf"):
        for member in members(schema, keyword):
            declares |= _collect(member, at, above, paths)
    declares |= _collect(part(schema, "items"), at, above, paths)
    for name, each in entries(schema, "properties").items():
        declares = True
        if part(each, "writeOnly") is not True and not _collect(each, (*at, name), above, paths):
            paths[(*at, name)] = None
    others = part(schema, "additionalProperties")
    if isinstance(others, Mapping) or (declares and others is True):
        declares = True
        if not _collect(others, (*at, ANY), above, paths):
            paths[(*at, ANY)] = None
    return declares


def _mapped(mapping: Node) -> dict[str, list[str]]:
    """Return the values of a discriminator by the name of the schema that they select."""
    values: dict[str, list[str]] = {}
    for each, target in entries(mapping).items():
        values.setdefault(str(target).rpartition("/")[2], []).append(each)
    return values


def _own_name(values: Mapping[str, list[str]], inheritance: Inheritance, node: Node) -> str:
    return next((name for name in values if name in inheritance and inheritance[name] is node), "")


def _choices(schema: Node, name: str, depth: int = 0) -> Iterator[list[JSON]]:
    """Yield the values that a schema allows for the property, from each place that restricts it."""
    if depth > 20:
        return
    declared = entries(schema, "properties", name)
    if isinstance(declared.get("enum"), list):
        yield declared["enum"]
    if "const" in declared:
        yield [declared["const"]]
    for member in members(schema, "allOf"):
        yield from _choices(member, name, depth + 1)


def _old_limits(converted: JSONObject) -> None:
    """Convert exclusive limits of OpenAPI 3.0, where `exclusiveMinimum` and `exclusiveMaximum` are booleans."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if (
            isinstance(converted.get(exclusive), bool)
            and converted.pop(exclusive) is True
            and limit in converted
        ):
            converted[exclusive] = converted.pop(limit)


def _json(node: Node) -> JSON:
    """Return the part of the document as written, with unresolved references."""
    if type(node) is JsonRef:
        return _json(cast("Node", node.__reference__))  # untyped
    if isinstance(node, Mapping):
        return {str(name): _json(each) for name, each in cast("Mapping[str, Node]", node).items()}
    return [_json(each) for each in cast("list[Node]", node)] if isinstance(node, list) else node
