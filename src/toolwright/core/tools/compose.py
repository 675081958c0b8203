"""Composed schemas (S1 "Composing Schemas for the LLM"): calls of several tools and an output in one answer."""

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from typing import cast

from toolwright.core.arguments.schema import Subschema, Subschemas, members_of, property_of, with_parts
from toolwright.core.checks import brief_value, check_callee, misfit
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, Path, spell
from toolwright.core.schemas.meta import REASONING, offered
from toolwright.core.schemas.schema_tool import free_name, read_schema
from toolwright.core.text import sentence
from toolwright.core.tools.tool import Tool, as_tool

_REASON: JSONObject = {"type": "string", "description": "Why this tool is called, in a sentence."}
_NULL: JSONObject = {"type": "null"}
_JOINT = ("enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if")
"""Keywords that null would also have to satisfy, in addition to `type`."""
_UNSAID = (
    "allOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "patternProperties",
    "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems",
)  # fmt: skip
_TYPED = ("type", "enum", "const", "$ref", "anyOf")


def compose(
    output_schema: JSONObject,
    tools: Mapping[str, JSONObject] | Iterable[Tool],
    *,
    explicit: Collection[str] = (),
    reasoning: bool = False,
) -> JSONObject:
    """Return the schema of an answer with calls and an output (S1, D16): `{output, calls}`.

    `tools` are schemas by name, or tools. The model provides the `_output` of latent tools. Latent tools named in
    `explicit` are executed by code, like tools of any other kind. With `reasoning` a call can have a reason. The
    arguments are not changed. Raises `InvalidConfiguration` with the path of every error of a schema, `DefinitionError`
    for tools that conflict.
    """
    listed = _listed(tools)
    names = {tool.name for tool in listed}
    wrong = misfit(explicit, str) or next((repr(name) for name in explicit if name not in names), None)
    if wrong is not None:
        raise DefinitionError(f"explicit= must be a list of names of these tools, not {wrong}.")
    shared = _Definitions()
    output = shared.add("output", _output(read_schema("The output schema", output_schema)))
    items: list[JSON] = [
        shared.add(tool.name, _item(tool, tool.latent and tool.name not in explicit, reasoning))
        for tool in listed
    ]
    calls: JSONObject = {"type": "array", "maxItems": 0}
    if items:
        calls = {"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items}}
    composed: JSONObject = {
        "type": "object",
        "properties": {"output": output, "calls": calls},
        "required": ["calls", "output"],
    }
    return deepcopy({**composed, "$defs": shared.schemas} if shared.schemas else composed)


def with_call(composed: JSONObject, tool: Tool, *, reasoning: bool = False) -> JSONObject:
    """Return a composed schema whose answers can also call this tool, whose schema has no `$defs`."""
    calls = cast("JSONObject", _fields(composed)["calls"])
    items = calls["items"]
    listed = items["anyOf"] if isinstance(items, dict) and "_tool" not in _fields(items) else [items]
    all_items: list[JSON] = [*cast("list[JSON]", listed), _item(tool, False, reasoning)]
    properties: JSONObject = {**_fields(composed), "calls": {**calls, "items": {"anyOf": all_items}}}
    return {**composed, "properties": properties}


def _fields(schema: JSONObject) -> JSONObject:
    """Return the properties of an object schema."""
    return cast("JSONObject", schema.get("properties", {}))


def _listed(tools: object) -> list[Tool]:
    if isinstance(tools, Mapping):
        schemas = cast("Mapping[str, object]", tools)  # names are validated with the tools
        return [Tool.from_schema(name, schema) for name, schema in schemas.items()]
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes):
        raise DefinitionError(f"compose needs schemas by name or a list of them, not {brief_value(tools)}.")
    listed: dict[str, Tool] = {}
    for each in cast("Iterable[object]", tools):  # isinstance does not check the items
        tool = as_tool(each)
        if not isinstance(tool, Tool):
            check_callee("A composed schema", tool)
            raise DefinitionError(f"The tools of a composed schema must be tools, not {brief_value(tool)}.")
        if tool.name in listed:
            raise DefinitionError(f"Two tools are called {tool.name!r}; rename one.")
        listed[tool.name] = tool
    return [*listed.values()]


class _Definitions:
    """The definitions of all parts of a composed schema. Different definitions of one name are renamed."""

    def __init__(self) -> None:
        self.schemas: JSONObject = {}

    def add(self, owner: str, schema: JSONObject) -> JSONObject:
        """Move a schema's definitions here and return it with its references adjusted."""
        definitions = schema.get("$defs")
        names: dict[str, str] = {}
        for name, each in definitions.items() if isinstance(definitions, dict) else ():
            preferred = f"{owner}.{name}" if name in self.schemas else name
            names[name] = free_name(preferred, self.schemas)
            self.schemas[names[name]] = each
        for name in names.values():
            self.schemas[name] = _renamed(self.schemas[name], names)
        return _renamed_object({key: each for key, each in schema.items() if key != "$defs"}, names)


def _renamed(schema: JSON, names: Mapping[str, str]) -> JSON:
    return _renamed_object(schema, names) if isinstance(schema, dict) else schema


def _renamed_object(schema: JSONObject, names: Mapping[str, str]) -> JSONObject:
    copy = with_parts(schema, (), lambda part, _: _renamed(part, names))
    if "$ref" in copy:
        copy["$ref"] = f"#/$defs/{names[str(copy['$ref']).removeprefix('#/$defs/')]}"
    return copy


def _item(tool: Tool, latent: bool, reasoning: bool) -> JSONObject:
    """Return the schema of a call of the tool, texts first."""
    read = tool
    if tool.meta is None:
        read = Tool.from_schema(tool.name, {**tool.parameters, "description": tool.description})
    assert read.meta is not None, "a schema tool has them"
    schema = offered(read.parameters, read.meta, latent)
    texts = {"title": read.meta.title, "description": read.description}
    item: JSONObject = {"type": "object", **{key: text for key, text in texts.items() if text}, **schema}
    properties, required = schema["properties"], schema.get("required", [])
    first: JSONObject = {"_tool": {"const": tool.name}, **({REASONING: {**_REASON}} if reasoning else {})}
    item["properties"] = {**first, **(properties if isinstance(properties, dict) else {})}
    item["required"] = ["_tool", *(required if isinstance(required, list) else [])]
    return item


def _output(schema: JSONObject) -> JSONObject:
    """Return the schema of the output, which can be null."""
    return _nullable(closed_output(schema))


def closed_output(schema: JSONObject) -> JSONObject:
    """Return the schema of an output that is not null. A plain object accepts no other fields unless declared."""
    if schema.get("type") != "object" or not _is_nullable(schema):
        return schema
    return {**schema, "additionalProperties": schema.get("additionalProperties", False)}


def _nullable(schema: JSONObject) -> JSONObject:
    """Return the schema that also accepts null."""
    kind = schema.get("type")
    if _is_nullable(schema):
        return {**schema, "type": kind if kind == "null" else [kind, "null"]}
    alternatives: JSONObject = {
        "anyOf": [{key: each for key, each in schema.items() if key != "$defs"}, {**_NULL}]
    }
    return {**alternatives, "$defs": schema["$defs"]} if "$defs" in schema else alternatives


def _is_nullable(schema: JSONObject) -> bool:
    """Return whether the schema is a plain `type` to which null can be added."""
    return isinstance(schema.get("type"), str) and not any(key in schema for key in _JOINT)


def closed_form(schema: JSONObject) -> JSONObject:
    """Return the schema in a form for providers that require `additionalProperties: false` in every object.

    The form accepts the same values. Raises `DefinitionError` with the path of a part that has no such form, such as an
    object with arbitrary field names.
    """
    return _closed_object(schema, ())


def strict_form(schema: JSONObject) -> JSONObject:
    """Return the schema in a form for providers that require every property too. Optional ones become nullable.

    `without_nulls` converts an answer back. Raises `DefinitionError` like `closed_form`.
    """
    return _strict_object(closed_form(schema))


def without_nulls(answer: JSON, schema: JSONObject) -> JSON:
    """Convert an answer in strict form back to the schema: remove the nulls of optional properties."""
    return _StrictAnswer(schema).at(answer, (schema, "#"))


def _closed(part: JSON, path: Path) -> JSON:
    if not isinstance(part, dict):
        raise _unsaid(path, "takes anything" if part else "takes nothing")
    return _closed_object(part, path)


def _closed_object(schema: JSONObject, path: Path) -> JSONObject:
    for key in [key for key in _UNSAID if key in schema]:
        raise _unsaid((*path, key), "has no place there")
    kinds = schema.get("type", [])
    types = kinds if isinstance(kinds, list) else [kinds]
    if not any(key in schema for key in _TYPED):
        raise _unsaid(path, "says no type")
    if "anyOf" in schema and "properties" in schema:
        raise _unsaid((*path, "anyOf"), "has no place beside properties")
    if "array" in types and "items" not in schema:
        if schema.get("maxItems") != 0:
            raise _unsaid(path, "takes items of any form")
        schema = {**schema, "items": {**_NULL}}  # providers require a schema even for empty lists
    additional = schema.get("additionalProperties")
    properties, required = schema.get("properties"), schema.get("required", [])
    takes_nothing_else = additional is False or (
        additional is None and bool(properties)
    )  # as most schemas mean it
    if ("object" in types or properties is not None) and not takes_nothing_else:
        raise _unsaid(path, "takes fields of any name")
    if isinstance(properties, dict) and isinstance(required, list) and not {*required} <= properties.keys():  # type: ignore[misc]  # names
        raise _unsaid(path, "requires fields that it does not describe")
    open_schema = {key: each for key, each in schema.items() if key != "additionalProperties"}
    copy = with_parts(open_schema, path, _closed)
    return {**copy, "additionalProperties": False} if "properties" in schema else copy


def _unsaid(path: Path, why: str) -> DefinitionError:
    where = spell(path) or "The schema"
    return DefinitionError(sentence(f"This schema has no strict form: {where} {why}"))


def _strict(part: JSON, path: Path) -> JSON:
    return _strict_object(part) if isinstance(part, dict) else part


def _strict_object(schema: JSONObject) -> JSONObject:
    copy = with_parts(schema, (), _strict)
    properties = copy.get("properties")
    if isinstance(properties, dict):
        required = copy.get("required", [])
        copy["properties"] = {
            name: each if name in (required if isinstance(required, list) else []) else _or_null(each)
            for name, each in properties.items()
        }
        copy["required"] = [*properties]
    return copy


def _or_null(schema: JSON) -> JSON:
    if not isinstance(schema, dict):
        return schema
    kinds = schema.get("type")
    takes_null = isinstance(kinds, list) and "null" in kinds and not any(key in schema for key in _JOINT)
    return schema if takes_null else _nullable(schema)


class _StrictAnswer:
    """Converter of an answer in strict form."""

    def __init__(self, schema: JSONObject) -> None:
        self._places = Subschemas(schema)
        self._done: dict[tuple[int, str], JSON] = {}  # cache for one answer

    def at(self, value: JSON, place: Subschema) -> JSON:
        """Return the value without the nulls that this position of the schema does not allow.

        The result is cached for each position.
        """
        schema, pointer = place
        if not isinstance(schema, dict) or not isinstance(value, dict | list):
            return value
        key = (id(value), pointer)
        if key not in self._done:
            self._done[key] = value  # ends the recursion of a self-reference
            self._done[key] = self._read(value, schema, pointer)
        return self._done[key]

    def _read(self, value: JSONObject | list[JSON], schema: JSONObject, pointer: str) -> JSON:
        reference = self._places.resolve(schema.get("$ref"))
        if reference is not None:
            return self.at(value, reference)
        if isinstance(schema.get("anyOf"), list):
            return self._of_branch(value, members_of(schema, pointer, "anyOf"))
        if isinstance(value, list):
            return [self.at(each, (schema.get("items"), f"{pointer}/items")) for each in value]
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict):
            return value
        needed = required if isinstance(required, list) else []
        places = {name: property_of(schema, pointer, name) for name in value if name in properties}
        return {
            name: self.at(each, places[name]) if name in places else each
            for name, each in value.items()
            if each is not None
            or name in needed
            or name not in places  # a field that only another branch can validate
            or self._places.accepts(places[name][1], None)
        }

    def _of_branch(self, value: JSON, places: list[Subschema]) -> JSON:
        """Return the value as read by the first branch that accepts it, or the value itself if none does.

        Branches that declare all fields of the value come first: in strict form every object is closed.
        """
        for place in sorted(places, key=lambda place: not self._declares(place, value)):
            converted = self.at(value, place)
            if self._places.accepts(place[1], converted):
                return converted
        return value

    def _declares(self, place: Subschema | None, value: JSON) -> bool:
        """Return whether the schema at this position, if it lists properties, lists all fields of the value."""
        passed: set[str] = set()
        while place is not None and isinstance(place[0], dict) and place[1] not in passed:
            passed.add(place[1])
            properties = place[0].get("properties")
            if isinstance(properties, dict) and isinstance(value, dict):
                return value.keys() <= properties.keys()
            place = self._places.resolve(place[0].get("$ref"))
        return True
