"""Validator of arguments: parses a model's text, of any size, and validates it by the tool's schema (D3)."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

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
from toolwright.core.arguments.numbers import NumberCheck, compile_number_check, normalize
from toolwright.core.arguments.schema import Subschemas, compile_schema
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_text import TooManyValues, ValueCount
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.limits import MAX_JSON_VALUES, MAX_NESTING, MOST_ERRORS
from toolwright.core.plain import Path, has_more_values, plain

EXACT = 1_000
"""Maximum number of JSON values for which all errors of arguments are reported."""

_TOO_FEW = (Kind.Required, Kind.MinItems, Kind.MinProperties, Kind.Contains)


def validation_errors(validator: jsonschema_rs.Validator, arguments: JSON) -> list[FieldError]:
    """Return the validation errors of arguments or of a result.

    For large values only errors in the first items are returned.
    """
    if not has_more_values(arguments, EXACT):
        return field_errors(validator.iter_errors(arguments))
    cut = _first_items(arguments)
    errors = [error for error in validator.iter_errors(cut) if not _is_missing_by_cut(error, arguments, cut)]
    errors = field_errors(errors)[:MOST_ERRORS]
    if errors:
        return errors
    text = (
        f"fits the schema in the first {MOST_ERRORS} items of its lists and objects, but not in what follows"
    )
    return [FieldError((), text)]


def _first_items(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _first_items(part) for name, part in islice(value.items(), MOST_ERRORS)}
    if isinstance(value, list):
        return [_first_items(part) for part in value[:MOST_ERRORS]]
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


_LARGEST = 10**308
"""Largest integer that fits into a float."""

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
    """

    __slots__ = (
        "_accepts",
        "_complete",
        "_has_usual_numbers",
        "_name",
        "_subschemas",
        "_takes_nothing",
        "_validator",
        "schema",
    )

    def __init__(
        self, schema: JSONObject, name: str, takes_nothing: bool = False, complete: Complete | None = None
    ) -> None:
        self.schema = schema
        self._complete = complete
        self._name = name
        self._takes_nothing = takes_nothing
        self._subschemas = Subschemas(schema)
        self._validator: jsonschema_rs.Validator | None = None
        self._accepts: Callable[[JSONObject], bool] = self._compile_and_validate
        self._has_usual_numbers: NumberCheck | None = None  # set at the second call

    def compile(self) -> jsonschema_rs.Validator:
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
        if type(arguments) is not dict:
            raise InvalidArguments([FieldError((), f"must be a JSON object, not {type_name(arguments)}")])
        if resolve is not None:
            arguments = resolve(arguments)
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
            raise InvalidArguments(validation_errors(self.compile(), arguments))
        if self._has_usual_numbers is None:
            self._has_usual_numbers = compile_number_check(self._subschemas)
        return normalize(self._subschemas, arguments) if special else arguments

    def _compile_and_validate(self, arguments: JSONObject) -> bool:
        return self.compile().is_valid(arguments)


def _count(text: str | bytes) -> None:
    try:
        ValueCount(MAX_JSON_VALUES).add(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
    except TooManyValues:
        raise InvalidArguments([FieldError((), f"hold more than {MAX_JSON_VALUES} JSON values")]) from None


def _inspect(value: JSON, path: Path, depth: int) -> bool:
    """Reject values that are too deep or out of range. Returns whether there are numbers to normalize."""
    if isinstance(value, float):
        if value - value != 0.0:
            raise InvalidArguments([FieldError(path, OUT_OF_RANGE)])
        return value.is_integer()
    if isinstance(value, int):
        return not -_LARGEST <= value <= _LARGEST
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
        self._validator: jsonschema_rs.Validator | None = None

    def errors(self, result: JSON) -> list[FieldError]:
        """Return the validation errors of the result."""
        if self._validator is None:
            self._validator = compile_schema(self._schema, self._name)
        return [] if self._validator.is_valid(result) else validation_errors(self._validator, result)
