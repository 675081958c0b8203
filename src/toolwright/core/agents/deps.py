"""Deps: the type of the value that the caller of a run passes to its tools, its validation and its JSON."""

import re
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from pydantic import BaseModel, PydanticUserError, RootModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import is_typeddict

from toolwright.core.arguments.errors import FieldError, built_errors, details_of, join_errors, within
from toolwright.core.arguments.types import adapter_of
from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError, InvalidJSON, InvalidRequest
from toolwright.core.forms import FIELDS
from toolwright.core.json_value import JSON, JSONObject, dumps, plain, surely_longer, utf8_size
from toolwright.core.limits import MAX_DEPS
from toolwright.core.text import error_text, sentence

NO_CONNECTIONS = (
    "Deps are stored as JSON. Take connections, clients and functions from tw.Depends(…) instead."
)
_NO_TYPE = f"deps must be a pydantic model, a dataclass or a TypedDict, not {{}}. {NO_CONNECTIONS}"
_UNLIKE = re.compile(r"UnexpectedValue\(.*field_name='([^']+)'")  # of a warning of pydantic
_SECRET: JSONObject = {"type": "string", "format": "password"}  # how pydantic describes `SecretStr`


class DepsType:
    """The declared type of an agent's deps: a pydantic model, a dataclass or a TypedDict.

    Raises `DefinitionError` for a type whose values cannot be stored as a JSON object.
    """

    def __init__(self, declared: type[Any]) -> None:
        self.declared = declared
        self.name = declared.__name__
        self._is_dict = is_typeddict(declared)
        try:
            self._adapter: TypeAdapter[Any] = adapter_of(declared, f"deps={self.name}")
            schemas = [self._adapter.json_schema(mode=mode) for mode in ("validation", "serialization")]
        except (DefinitionError, PydanticUserError) as error:
            cause = error if isinstance(error, PydanticUserError) else error.__cause__ or error
            reason = sentence(str(cause).partition("For further information")[0].partition(". ")[0])
            if getattr(cause, "code", None) != "typed-dict-version":
                reason = f"{reason} {NO_CONNECTIONS}"
            raise DefinitionError(f"deps={self.name} cannot be stored: {reason}") from error
        self._extra: Literal["forbid"] | None = None if _takes_others(declared, schemas[0]) else "forbid"
        if any(_has(_is_secret, each) for each in schemas):
            raise DefinitionError(
                f"deps={self.name} has a secret field. Deps are stored in plain text and shown to services. Keep "
                "secrets in variables, and read them with state.env."
            )

    def dump(self, value: object) -> JSONObject:
        """Return a value of the type, or a mapping with its fields, as the JSON object to store.

        Raises `InvalidRequest` if it does not fit the type, cannot be read back or is too large. Unknown fields are
        refused, unless the type's pydantic configuration says `extra`.
        """
        if type(value) is self.declared:
            given = self._json(value)
        elif isinstance(value, Mapping):
            given = self._mapping(cast("Mapping[object, object]", value))
        else:
            expected = "a dict of the type" if self._is_dict else "a"
            raise _invalid(f"must be {expected} {self.name}, not {brief_value(value)}")
        if utf8_size(given) > MAX_DEPS:
            raise _too_large()
        try:
            stored = self._json(self._read(given, self._extra))
        except ValidationError as error:
            faults = within(built_errors(error, given, FIELDS), "deps")
            raise InvalidRequest(
                sentence(f"The deps are not a valid {self.name}: {join_errors(faults)}"), details_of(faults)
            ) from error
        if utf8_size(stored) > MAX_DEPS:
            raise _too_large()
        return stored

    def load(self, stored: JSONObject) -> Any:  # an instance of the declared type
        """Return stored deps as a new instance of the type.

        Raises `InvalidRequest` if they do not fit the type any more.
        """
        try:
            return self._read(stored)
        except ValidationError as error:
            faults = join_errors(built_errors(error, stored))
            raise InvalidRequest(
                sentence(f"The run's deps do not fit {self.name} any more: {faults}")
            ) from error

    def _read(self, stored: JSON, extra: Literal["forbid"] | None = None) -> Any:
        try:
            return self._adapter.validate_json(dumps(stored), by_alias=True, by_name=True, extra=extra)
        except ValidationError:
            raise
        except (Exception, SystemExit) as error:  # a validator of the user's type can raise anything
            raise _invalid(f"cannot be read as {self.name}: {error_text(error)}") from error

    def _json(self, value: object) -> JSONObject:
        """Return an instance of the type as JSON."""
        try:
            copy = plain(
                self._adapter.dump_python(
                    value, mode="json", by_alias=True, round_trip=True, warnings="error"
                )
            )
        except (Exception, SystemExit) as error:  # a serializer of the user's type can raise anything
            text = error_text(error)
            unlike = _UNLIKE.search(text) if isinstance(error, PydanticSerializationError) else None
            if unlike is not None:
                text = f"the field {unlike[1]!r} has a value of another type than {self.name} declares"
            raise _invalid(f"cannot be stored: {text}") from error
        if not isinstance(copy, dict):
            raise _invalid(f"must be an object in JSON, not {brief_value(copy)}")
        return copy

    def _mapping(self, value: Mapping[object, object]) -> JSONObject:
        if surely_longer(value, MAX_DEPS):
            raise _too_large()
        try:
            copy = plain(dict(value))
        except InvalidJSON as error:
            raise _invalid(f"cannot be stored: {error.message}") from error
        assert isinstance(copy, dict), "the copy of a dict"
        return copy


@lru_cache(maxsize=1_000)
def deps_type(declared: type[Any]) -> DepsType:
    """Return the declared type, read once. Raises `DefinitionError`."""
    if not isinstance(declared, type) or not (  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        is_typeddict(declared) or is_dataclass(declared) or issubclass(declared, BaseModel)
    ):
        raise DefinitionError(_NO_TYPE.format(brief_value(declared)))
    if issubclass(declared, RootModel):
        raise DefinitionError(f"deps={declared.__name__} must be a model with fields, not a RootModel.")
    return DepsType(declared)


def _has(is_searched: Callable[[dict[str, object]], bool], schema: object) -> bool:
    """Return whether the schema or a part of it is one that is searched."""
    if isinstance(schema, list):
        return any(_has(is_searched, each) for each in cast("list[object]", schema))
    if not isinstance(schema, dict):
        return False
    part = cast("dict[str, object]", schema)
    return is_searched(part) or any(_has(is_searched, each) for each in part.values())


def _is_secret(part: dict[str, object]) -> bool:
    return _SECRET.items() <= part.items()


def _is_open(part: dict[str, object]) -> bool:
    return "properties" in part and part.get("additionalProperties") is True


def _takes_others(declared: type[Any], schema: JSONObject) -> bool:
    """Return whether the type itself says what becomes of unknown fields."""
    config = getattr(
        declared, "model_config" if issubclass(declared, BaseModel) else "__pydantic_config__", {}
    )
    return "extra" in config or _has(_is_open, schema)


def _invalid(error: str) -> InvalidRequest:
    return InvalidRequest(sentence(f"The deps {error}"), details_of([FieldError(("deps",), error)]))


def _too_large() -> InvalidRequest:
    return _invalid(
        f"have more than {MAX_DEPS} bytes as JSON. Store large values in your own database, and pass their ids"
    )


def check_deps(subject: str, declared: type[Any]) -> None:
    """Raise `DefinitionError`, whose message begins with `subject`, for a type that cannot be an agent's deps."""
    try:
        deps_type(declared)
    except DefinitionError as error:
        raise DefinitionError(f"{subject}: {error.message}") from error.__cause__
    except TypeError as error:  # a value without a hash
        raise DefinitionError(f"{subject}: {_NO_TYPE.format(brief_value(declared))}") from error
