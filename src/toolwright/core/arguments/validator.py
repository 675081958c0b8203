"""Validator of arguments: parses a model's text, of any size, and validates it by the tool's schema (D3)."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, TypeAlias

import jsonschema_rs
from pydantic_core import from_json

from toolwright.core.arguments.errors import (
    OUT_OF_RANGE,
    FieldError,
    InvalidArguments,
    Kind,
    field_errors,
    type_name,
)
from toolwright.core.arguments.lenient import convert
from toolwright.core.arguments.schema import (
    MAX_ERROR_VISITS,
    MAX_VISITS,
    CompiledSchema,
    Subschema,
    Subschemas,
    compile_schema,
    item_of,
    members_of,
    property_of,
)
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_text import NotJson, TooManyValues, ValueCount, parse_json
from toolwright.core.json_value import JSON, JSONObject, Path, dumps, has_more_values, plain
from toolwright.core.limits import MAX_ERRORS, MAX_JSON_VALUES, MAX_NESTING

_LEVELS = 6
"""Levels of a value that are checked where the schema does not constrain it; deeper values are checked in Python."""
_MAX_DEPTH = 32
"""Levels of a schema that are followed; together with `_LEVELS` far less than `MAX_NESTING`."""
_MAX_PARTS = 2_000
"""Maximum number of schema parts examined, counting a referenced part each time; a larger schema has no check."""
_ELSEWHERE = ("$ref", "anyOf", "oneOf")
_ANYTHING: JSONObject = {}
_OTHERS: list[JSON] = ["null", "string", "boolean", "array", "object"]
_ANY_FLOAT, _NO_FLOAT = "any-float", "no-float"
EXACT = 1_000
"""Maximum number of JSON values for which all errors of arguments are reported."""
_MAX_FLOAT = 10**308
"""Largest integer that fits into a float."""


def normalize(subschemas: Subschemas, value: JSONObject) -> JSONObject:
    """Return a validated value with its numbers in the form that the schema requires.

    The schema has accepted the value, so a position of type `integer` holds a whole number. If there are several
    alternatives, the first one that accepts the value unchanged applies, or the first that accepts it if none does.
    Raises `InvalidArguments` for a number that no float can hold.
    """
    normal = _Normalization(subschemas).at(value, (subschemas.root, "#"), ())
    assert isinstance(normal, dict), "an object stays one"
    return normal


class _Normalization:
    """Normalization of one value. Each part of the value is visited once for each position of the schema."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._done: dict[
            tuple[int, str], tuple[JSON, JSON]
        ] = {}  # the parts are kept, so that their ids are not reused

    def at(self, value: JSON, place: Subschema, path: Path) -> JSON:
        """Return the value as the schema at this position requires it; the same object if nothing changes."""
        schema, pointer = place
        if not isinstance(schema, dict) or not isinstance(value, int | float | dict | list) or value is True:
            return value
        key = (id(value), pointer)
        if key in self._done:
            return self._done[key][1]
        self._done[key] = (value, value)  # ends the recursion of a self-reference
        normal = self._by_own_keywords(self._elsewhere(value, schema, pointer, path), schema, pointer, path)
        self._done[key] = (value, normal)
        return normal

    def _elsewhere(self, value: JSON, schema: JSONObject, pointer: str, path: Path) -> JSON:
        """Normalize by the schemas to which this one refers."""
        target = self._subschemas.resolve(schema.get("$ref"))
        if target is not None:
            value = self.at(value, target, path)
        for member in members_of(schema, pointer, "allOf"):
            value = self.at(value, member, path)
        for alternatives in ("anyOf", "oneOf"):
            value = self._chosen(value, members_of(schema, pointer, alternatives), path)
        return value

    def _chosen(self, value: JSON, members: list[Subschema], path: Path) -> JSON:
        first: list[JSON] = []
        last_error: InvalidArguments | None = None
        for member in members:
            if not self._subschemas.accepts(member[1], value):
                continue
            try:
                normal = self.at(value, member, path)
            except InvalidArguments as error:
                last_error = last_error or error
                continue
            if normal is value:
                return value
            first.append(normal)
        if last_error is not None and not first:
            raise last_error
        return first[0] if first else value

    def _by_own_keywords(self, value: JSON, schema: JSONObject, pointer: str, path: Path) -> JSON:
        """Normalize by the schema's own keywords."""
        match value:
            case bool():
                return value
            case int() | float():
                return _number(value, schema, path)
            case dict():
                items = {
                    name: self.at(item, property_of(schema, pointer, name), (*path, name))
                    for name, item in value.items()
                }
                return items if any(items[name] is not item for name, item in value.items()) else value
            case list():
                listed = [
                    self.at(item, item_of(schema, pointer, index), (*path, index))
                    for index, item in enumerate(value)
                ]
                return (
                    listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value
                )
            case _:
                return value


def _number(value: float, schema: JSONObject, path: Path) -> JSON:
    types = types_of(schema)
    if "integer" in types and "number" not in types:
        return int(value) if isinstance(value, float) and is_whole_number(value) else value
    if "number" in types and "integer" not in types and isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise InvalidArguments([FieldError(path, OUT_OF_RANGE)]) from None
    return value


def is_whole_number(value: float) -> bool:
    """Return whether a number has no fraction."""
    return isinstance(value, int) or (math.isfinite(value) and value.is_integer())


def types_of(schema: JSONObject) -> list[str]:
    """Return the types that a schema allows. Whole constants (`const`, `enum`) count as integers."""
    declared = schema.get("type")
    names = (
        [declared]
        if isinstance(declared, str)
        else [n for n in declared if isinstance(n, str)]
        if isinstance(declared, list)
        else []
    )
    options = schema.get("enum")
    constants = [*(options if isinstance(options, list) else []), schema.get("const")]
    if any(type(constant) is int for constant in constants) and "number" not in names:
        names = [*names, "integer"]
    return names


NumberCheck: TypeAlias = Callable[[JSON], bool]


_OWN = frozenset(
    {"type", "enum", "const", "properties", "additionalProperties", "items", "prefixItems", "allOf"}
)
_ENTANGLED = frozenset({"allOf", "patternProperties", "prefixItems"})
_FINITE: JSONObject = {"type": ["number", *_OTHERS], "minimum": -(2**63), "maximum": 2**63 - 1}
"""Numbers compared with 64-bit integers, ten times faster than with others; infinity has no type."""
_WHOLE: JSONObject = {"type": ["integer", *_OTHERS]}
_SCALARS: dict[JSON, JSONObject] = {
    "string": _ANYTHING,  # not a number, because the schema has accepted the value
    "boolean": _ANYTHING,
    "null": _ANYTHING,
    "integer": _WHOLE,
    "number": _FINITE,
}


def compile_number_check(subschemas: Subschemas) -> NumberCheck:
    """Return a check of valid values: whether `normalize` would leave them unchanged.

    It can return a false negative, never a false positive. It returns false for numbers out of range, for values
    nested too deep, and always for a very large schema.
    """
    compiler = _Compiler(subschemas)
    try:
        place = compiler.at(subschemas.root, 0)
    except _TooLarge:
        return _never
    levels = {**_levels(_ANY_FLOAT, _FINITE), **_levels(_NO_FLOAT, {**_FINITE, **_WHOLE})}
    check: JSONObject = {"allOf": [place], "definitions": levels}
    # The only draft in which `3.0` is not an integer.
    return jsonschema_rs.Draft4Validator(check).is_valid


def _levels(name: str, numbers: JSONObject) -> JSONObject:
    """Return definitions of JSON by depth, with such numbers as scalars: `name-0` to `name-6`."""
    levels: JSONObject = {f"{name}-0": {**numbers, "maxItems": 0, "maxProperties": 0}}
    for level in range(1, _LEVELS + 1):
        below: JSON = {"$ref": f"#/definitions/{name}-{level - 1}"}
        levels[f"{name}-{level}"] = {**numbers, "items": below, "additionalProperties": below}
    return levels


class _TooLarge(Exception):
    """The schema has more parts than the check supports."""


def _never(_: JSON) -> bool:
    return False


class _Compiler:
    """Compiles the checks of a schema's positions, as schemas of their own."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._parts = _MAX_PARTS

    def at(self, schema: JSON, level: int) -> JSONObject:
        """Return the check of one position, at that depth."""
        self._count()
        if schema is False:
            return _ANYTHING  # no value is accepted here
        if not isinstance(schema, dict) or level >= _MAX_DEPTH:
            return self._any(schema)
        kind = schema.get("type")
        if any(name in schema for name in _ELSEWHERE):
            return self._referred(schema, level)
        if not isinstance(kind, str) or not _ENTANGLED.isdisjoint(schema):
            return self._any(schema)
        if kind == "object":
            return self._object(schema, level + 1)
        if kind == "array":
            items = self.at(schema.get("items"), level + 1)
            return {"items": items} if items else _ANYTHING
        scalar = _SCALARS.get(kind)
        return self._any(schema) if scalar is None else scalar

    def _referred(self, schema: JSONObject, level: int) -> JSONObject:
        """Return the check of a position with only a reference, possibly with null; otherwise a check of any JSON."""
        names = [name for name in _ELSEWHERE if name in schema]
        if len(names) > 1 or not _OWN.isdisjoint(schema):
            return self._any(schema)
        if names == ["$ref"]:
            target = self._subschemas.resolve(schema["$ref"])
            return self._any(schema) if target is None else self.at(target[0], level + 1)
        members = schema[names[0]]
        others = [each for each in members if each != {"type": "null"}] if isinstance(members, list) else []
        return self.at(others[0], level + 1) if len(others) == 1 else self._any(schema)

    def _object(self, schema: JSONObject, level: int) -> JSONObject:
        properties = schema.get("properties")
        members = properties.items() if isinstance(properties, dict) else ()
        checks: JSONObject = {name: self.at(each, level) for name, each in members}
        others = self.at(schema.get("additionalProperties"), level)
        if others:
            return {"properties": checks, "additionalProperties": others}
        checks = {name: check for name, check in checks.items() if check}
        return {"properties": checks} if checks else _ANYTHING

    def _any(self, schema: JSON) -> JSONObject:
        """Return a check of any JSON: it finds no float where the schema could require an integer."""
        name = _NO_FLOAT if self._has_integers(schema) else _ANY_FLOAT
        return {"$ref": f"#/definitions/{name}-{_LEVELS}"}

    def _has_integers(self, schema: JSON) -> bool:
        """Return whether an integer is required anywhere in the schema, or in a schema to which it refers."""
        visited: set[int] = set()
        parts = [schema]
        while parts:
            part = parts.pop()
            if isinstance(part, list):
                parts += part
            elif isinstance(part, dict) and id(part) not in visited:
                self._count()
                visited.add(id(part))
                if "integer" in types_of(part):
                    return True
                parts += part.values()
                target = self._subschemas.resolve(part.get("$ref"))
                if target is not None:
                    parts.append(target[0])
        return False

    def _count(self) -> None:
        self._parts -= 1
        if self._parts < 0:
            raise _TooLarge


_TOO_FEW = (Kind.Required, Kind.MinItems, Kind.MinProperties, Kind.Contains)


def validation_errors(compiled: CompiledSchema, value: JSON) -> list[FieldError]:
    """Return the validation errors of arguments or of a result. Empty if it is valid.

    For large values only errors in the first items are returned, and for a heavy schema only those that are not within
    alternatives.
    """
    if compiled.weight.exceeds(value, MAX_VISITS):
        return [_TOO_HEAVY]
    if compiled.is_valid(value):
        return []
    if not has_more_values(value, EXACT) and not compiled.weight.exceeds(value, MAX_ERROR_VISITS):
        return field_errors(compiled.iter_errors(value))
    cut = _first_items(value)
    if compiled.weight.exceeds(cut, MAX_ERROR_VISITS):
        return _outer_errors(Subschemas(compiled.schema), value)[:MAX_ERRORS]
    errors = [error for error in compiled.iter_errors(cut) if not _is_missing_by_cut(error, value, cut)]
    return field_errors(errors)[:MAX_ERRORS] or [_AFTER_CUT]


_TOO_HEAVY = FieldError(
    (),
    f"take more than {MAX_VISITS} steps to validate, because the schema has alternatives within alternatives: "
    "send fewer or less nested values",
)
_AFTER_CUT = FieldError(
    (), f"fits the schema in the first {MAX_ERRORS} items of its lists and objects, but not in what follows"
)


def _outer_errors(subschemas: Subschemas, value: JSON) -> list[FieldError]:
    """Return the deepest invalid positions that are reached without choosing among alternatives."""
    errors: list[FieldError] = []
    waiting: list[tuple[JSON, Subschema, Path]] = [(value, (subschemas.root, "#"), ())]
    while waiting and len(errors) < MAX_ERRORS:
        part, place, path = waiting.pop()
        place = subschemas.followed(place)
        invalid = [
            (item, inner, (*path, step))
            for step, item, inner in _parts(part, place)
            if isinstance(inner[0], dict) and not subschemas.accepts(inner[1], item)
        ]
        waiting += invalid
        if not invalid:
            errors.append(
                FieldError(path, "does not fit the schema, which has too many alternatives to name the error")
            )
    return errors


def _parts(value: JSON, place: Subschema) -> Iterator[tuple[str | int, JSON, Subschema]]:
    """Yield the first parts of a value, each with the schema of its position."""
    schema, pointer = place
    if isinstance(schema, dict) and isinstance(value, dict):
        for name, item in islice(value.items(), MAX_ERRORS):
            yield name, item, property_of(schema, pointer, name)
    elif isinstance(schema, dict) and isinstance(value, list):
        for index, item in enumerate(value[:MAX_ERRORS]):
            yield index, item, item_of(schema, pointer, index)


def _first_items(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _first_items(part) for name, part in islice(value.items(), MAX_ERRORS)}
    if isinstance(value, list):
        return [_first_items(part) for part in value[:MAX_ERRORS]]
    return value


def _is_missing_by_cut(error: jsonschema_rs.ValidationError, original: JSON, cut: JSON) -> bool:
    """Return whether a missing field is an artifact of cutting the value."""
    return isinstance(error.kind, _TOO_FEW) and _size(original, error.instance_path) > _size(
        cut, error.instance_path
    )


def _size(value: Any, path: Iterable[str | int]) -> int:  # JSON, traversed by a path of its own
    for step in path:
        value = value[step]
    return len(value)


RawArguments = str | bytes | Mapping[str, object]
"""Arguments as received: JSON text, or an object parsed from it."""

Complete = Callable[[JSONObject], JSONObject]
"""Returns arguments that the schema accepts, with the defaults of the declared model. Raises `InvalidArguments`."""

Resolve = Callable[[JSONObject], JSONObject]
"""Replaces references in arguments by their values. Raises `InvalidArguments` for a reference without a value."""


class ArgumentValidator:
    """Validates the arguments of one tool by its schema, which is compiled at the first call.

    Nothing is coerced: `"10"` is not an integer, `1` is not a boolean or a string. `3.0` is the integer 3. With
    `takes_nothing` any object is accepted and counts as empty. Arguments that the schema accepts are passed to
    `complete`.

    With `lenient`, arguments are converted before they are validated (`core/arguments/lenient.py`). `opened` is the
    schema without the parameters whose own validators convert a value first: they can accept what `schema` rejects.
    """

    __slots__ = (
        "_accepts",
        "_complete",
        "_has_usual_numbers",
        "_lenient",
        "_light",
        "_name",
        "_opened",
        "_subschemas",
        "_takes_nothing",
        "_validator",
        "schema",
    )

    def __init__(
        self,
        schema: JSONObject,
        name: str,
        takes_nothing: bool = False,
        complete: Complete | None = None,
        *,
        lenient: bool = False,
        opened: JSONObject | None = None,
    ) -> None:
        self.schema = schema
        self._lenient = lenient
        self._opened = None if opened is None else Subschemas(opened)
        self._complete = complete
        self._name = name
        self._takes_nothing = takes_nothing
        self._subschemas = Subschemas(schema)
        self._validator: CompiledSchema | None = None
        self._accepts: Callable[[JSONObject], bool] = self._compile_and_validate
        self._light = -1  # longest text whose values the schema certainly allows; set at the first call
        self._has_usual_numbers: NumberCheck | None = None  # set at the second call

    def is_of(self, schema: JSONObject, lenient: bool) -> bool:
        """Return whether this validator was made for that schema."""
        return self.schema is schema and self._lenient == lenient

    def compile(self) -> CompiledSchema:
        """Return the compiled schema. Raises `DefinitionError` if it is invalid."""
        if self._validator is None:
            self._validator = compile_schema(self.schema, self._name)
            self._accepts = self._validator.is_valid
        return self._validator

    def read(self, raw: RawArguments, resolve: Resolve | None = None) -> JSONObject:
        """Return arguments ready for the handler, after `resolve` if they can contain references.

        Raises `InvalidArguments`, whose text names every invalid path.
        """
        text = raw if type(raw) is str or isinstance(raw, bytes) else _written(raw)
        if len(text) > MAX_JSON_VALUES:  # shorter text cannot contain more
            _count(text)
        try:
            arguments: JSON = from_json(text, allow_inf_nan=False)
        except (ValueError, TypeError) as error:
            if text.strip():
                raise _malformed(error) from error
            arguments = {}  # models send an empty text for a tool without arguments
        if self._lenient:
            arguments = self._converted(arguments)
        if type(arguments) is not dict:
            raise InvalidArguments([FieldError((), f"must be a JSON object, not {type_name(arguments)}")])
        if resolve is not None:
            arguments = resolve(arguments)
        if resolve is not None or self._lenient or len(text) > self._light:
            self._check_weight(arguments)
        usual = self._has_usual_numbers
        if usual is not None and usual(arguments) and self._accepts(arguments):
            return arguments if self._complete is None else self._complete(arguments)
        exact = self._read_exactly(arguments)
        return exact if self._complete is None else self._complete(exact)

    def _read_exactly(self, arguments: JSONObject) -> JSONObject:
        """Validate with the slow parser, which knows the path of every number; for unusual or invalid arguments."""
        special = _inspect(arguments, (), 0)
        if self._takes_nothing:
            return {}
        if not self._accepts(arguments):
            return self._read_opened(arguments, special)
        if self._has_usual_numbers is None:
            self._has_usual_numbers = compile_number_check(self._subschemas)
        return normalize(self._subschemas, arguments) if special else arguments

    def _read_opened(self, arguments: JSONObject, special: bool) -> JSONObject:
        if self._opened is None:
            raise InvalidArguments(validation_errors(self.compile(), arguments))
        errors = validation_errors(self._opened.compile(self._name), arguments)
        if errors:
            raise InvalidArguments(errors)
        return normalize(self._opened, arguments) if special else arguments

    def _converted(self, arguments: JSON) -> JSON:
        if isinstance(arguments, str):
            with suppress(NotJson):  # the whole object as text
                arguments = parse_json(arguments)
        if isinstance(arguments, dict):
            self._check_weight(arguments)
            arguments = convert(self._subschemas, arguments, max(self._light, EXACT))
        if has_more_values(arguments, MAX_JSON_VALUES):
            raise InvalidArguments([_too_many_values()])
        return arguments

    def _check_weight(self, arguments: JSONObject) -> None:
        """Reject arguments whose validation would take too long. A text has at least as many characters as values."""
        if self._takes_nothing:
            return
        weight = self.compile().weight
        self._light = int(MAX_VISITS // weight.visits_per_value)
        if weight.exceeds(arguments, MAX_VISITS):
            raise InvalidArguments([_TOO_HEAVY])

    def _compile_and_validate(self, arguments: JSONObject) -> bool:
        return self.compile().is_valid(arguments)


def _count(text: str | bytes) -> None:
    try:
        ValueCount(MAX_JSON_VALUES).add(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
    except TooManyValues:
        raise InvalidArguments([_too_many_values()]) from None


def _too_many_values() -> FieldError:
    return FieldError((), f"hold more than {MAX_JSON_VALUES} JSON values")


def _inspect(value: JSON, path: Path, depth: int) -> bool:
    """Reject values that are too deep or out of range. Returns whether there are numbers to normalize."""
    if isinstance(value, float):
        if value - value != 0.0:
            raise InvalidArguments([FieldError(path, OUT_OF_RANGE)])
        return value.is_integer()
    if isinstance(value, int):
        return not -_MAX_FLOAT <= value <= _MAX_FLOAT
    if value is None or isinstance(value, str):
        return False
    if depth >= MAX_NESTING:
        raise _too_deep()
    special = False
    for step, item in value.items() if isinstance(value, dict) else enumerate(value):
        if type(item) is not str:
            special |= _inspect(item, (*path, step), depth + 1)
    return special


def _written(raw: object) -> str:
    """Serialize an object given by Python code, without changing it. Raises if a value is not JSON."""
    if not isinstance(raw, Mapping):
        raise InvalidArguments([FieldError((), f"must be JSON text or an object, not {type(raw).__name__}")])
    try:
        return dumps(plain(dict(raw)))  # type: ignore[arg-type]  # a mapping of unknown content
    except InvalidJSON as error:
        raise InvalidArguments([FieldError((), error.message.rstrip("."))]) from error


def _malformed(error: Exception) -> InvalidArguments:
    why = str(error)
    if "recursion limit" in why:
        return _too_deep()
    if isinstance(error, TypeError):
        why = "the text holds half a character (a lone surrogate)"
    return InvalidArguments([FieldError((), f"the text is not valid JSON, {why}")])


def _too_deep() -> InvalidArguments:
    return InvalidArguments([FieldError((), f"nested deeper than {MAX_NESTING} levels")])


class ResultValidator:
    """Validates the results of one tool by its output schema, which is compiled for the first result."""

    __slots__ = ("_name", "_schema", "_validator")

    def __init__(self, schema: JSONObject, name: str) -> None:
        self._schema = schema
        self._name = name
        self._validator: CompiledSchema | None = None

    def errors(self, result: JSON) -> list[FieldError]:
        """Return the validation errors of the result."""
        if self._validator is None:
            self._validator = compile_schema(self._schema, self._name)
        return validation_errors(self._validator, result)
