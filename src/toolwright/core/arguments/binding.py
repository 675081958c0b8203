"""Binding: converts validated JSON arguments into a function's keyword arguments, with defaults."""

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json, to_jsonable_python

from toolwright.core.arguments.errors import FieldError, InvalidArguments, built_errors, place_in, within
from toolwright.core.checks import brief_value
from toolwright.core.dependencies.depends import Dependency
from toolwright.core.forms import exception_text, form_error
from toolwright.core.json_value import JSON, JSONObject, Path, plain, spell
from toolwright.core.text import error_text

_UNCHANGING = (str, int, float, bool, Enum, type(None))
_SCALARS: dict[object, Callable[[object], bool]] = {
    str: lambda value: type(value) is str,
    int: lambda value: type(value) is int,
    float: lambda value: type(value) is float,
    bool: lambda value: type(value) is bool,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builder of a type's values from their JSON.

    With `copies` the values share no objects, even if pydantic considers a default immutable. Without `extra` types
    reject unknown fields, as their schema does; otherwise a union would lose the fields. Without `classes` the only
    conversion is from integers to floats, which needs no strict validation once the schema has accepted the value.
    With `converts` a validator of the type runs first, which can accept values that the schema rejects.
    """

    adapter: TypeAdapter[object]
    copies: bool = False
    extra: bool = False
    classes: bool = True
    converts: bool = False

    def build(self, value: JSON) -> object:
        """Return the value, validated strictly from JSON. Raises pydantic's `ValidationError`.

        In JSON mode pydantic accepts a string for an enum, and only a string for a string.
        """
        if not self.classes:
            return self.adapter.validator.validate_python(value)
        built = self.adapter.validator.validate_json(
            to_json(value), strict=True, extra=None if self.extra else "forbid"
        )
        return copy.deepcopy(built) if self.copies else built


def is_plain_scalar(annotation: Any, value: object) -> bool:  # any annotation
    """Return whether the type is a simple scalar and the value an instance of it."""
    fits = _SCALARS.get(annotation)
    return fits is not None and fits(value)


def is_shared(value: object) -> bool:
    """Return whether pydantic would pass the same mutable object to every call. It copies only unhashable values."""
    if isinstance(value, _UNCHANGING):
        return False
    try:
        hash(value)
    except TypeError:  # unhashable: pydantic copies it for each call
        return False
    return True


def fresh(adapter: TypeAdapter[object], value: object) -> Callable[[], object] | None:
    """Return a factory for the default, or None if all calls can share the value.

    A value of another Python type, such as a string for an enum or a tuple for a list, is built from its JSON. Raises
    pydantic's `ValidationError` if the type rejects both.
    """
    build = functools.partial(_from_python, adapter, value)
    try:
        built = build()
    except ValidationError:  # a value of another Python type: try its JSON
        build = functools.partial(adapter.validate_json, to_json(plain(value)), strict=True)
        built = build()
    if type(built) is not type(value) or built != value:
        return build
    return None if isinstance(value, _UNCHANGING) else functools.partial(copy.deepcopy, value)


def _from_python(adapter: TypeAdapter[object], value: object) -> object:
    return adapter.validate_python(copy.deepcopy(value), strict=True)


def misfit_default(value: object, error: ValidationError) -> str:
    """Return the end of an error message, after the parameter, about a default that its type rejects."""
    first = error.errors(include_url=False)[0]
    place = spell(place_in(plain(value), first["loc"]).path)
    if place:
        return f"has a default whose part {place} {form_error(first)}"
    mended = "; if it may be None, annotate it so (`int | None`)" if value is None else ""
    return f"has the default {brief_value(value)}, but it {form_error(first)}{mended}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One parameter: its name in JSON and in Python.

    `builder` builds a value that differs from its JSON (models, enums, dataclasses), `number` converts it to a float,
    and `default` creates a default that the function's own signature cannot provide.
    """

    key: str
    parameter: str
    number: bool = False
    builder: Builder | None = None
    default: Callable[[], object] | None = None

    @property
    def as_is(self) -> bool:
        """Return whether the function gets the JSON value unchanged."""
        return (
            self.key == self.parameter and not self.number and self.builder is None and self.default is None
        )


class Binding:
    """Converts validated arguments into keyword arguments, without coercion.

    `state` is the parameter for the `ThreadState`, `dependencies` are the parameters for values of dependencies.
    `model` is the parameter and builder of `args=Model`. `converted` are the arguments whose own validators run before
    pydantic validates them; `converts_model` is true if the model has such validators.
    """

    __slots__ = (
        "_as_is",
        "_changed",
        "_model",
        "converted",
        "converts_model",
        "dependencies",
        "injects",
        "state",
    )

    def __init__(
        self,
        *,
        arguments: tuple[Argument, ...],
        state: str | None,
        model: tuple[str, Builder] | None,
        dependencies: Mapping[str, Dependency] | None = None,
    ) -> None:
        self.state = state
        self.dependencies: Mapping[str, Dependency] = dependencies or {}
        self.injects = state is not None or bool(dependencies)
        self._model = model
        self._changed = tuple(argument for argument in arguments if not argument.as_is)
        self.converted = [
            each.key for each in arguments if each.builder is not None and each.builder.converts
        ]
        self.converts_model = model is not None and model[1].converts
        self._as_is = not self._changed and model is None and not self.injects

    def bind(self, arguments: JSONObject) -> dict[str, object]:
        """Return the keyword arguments. Raises `InvalidArguments` if a user-defined validator rejects a value."""
        if self._as_is:
            return arguments  # type: ignore[return-value]  # the values of JSON are objects
        if self._model is not None:
            parameter, builder = self._model
            return {parameter: build_model(builder, arguments)}
        keywords: dict[str, object] = {**arguments}
        for argument in self._changed:
            if argument.key in keywords:
                value: object = arguments[argument.key]
                del keywords[argument.key]
                if argument.builder is not None:
                    value = build_model(argument.builder, value, (argument.key,))
                elif argument.number and type(value) is int:
                    value = float(value)
                keywords[argument.parameter] = value
            elif argument.default is not None:
                keywords[argument.parameter] = _build_default(argument.key, argument.default)
        return keywords


def _build_default(key: str, default: Callable[[], object]) -> object:
    try:
        return default()
    except (Exception, SystemExit) as error:  # a user-defined default factory can raise anything
        raise InvalidArguments(
            [FieldError((key,), f"has no default: {error_text(error, exception_text)}")]
        ) from error


def build_model(builder: Builder, value: JSON, path: Path = ()) -> object:
    """Return an instance of a user-defined type. Raises `InvalidArguments` for values that the type rejects."""
    try:
        return builder.build(value)
    except ValidationError as error:
        raise InvalidArguments(within(built_errors(error, value), *path)) from error
    except (Exception, SystemExit) as error:  # a validator of the user's model can raise anything
        raise InvalidArguments([FieldError(path, error_text(error))]) from error


def complete(builder: Builder, fields: Mapping[str, str], arguments: JSONObject) -> JSONObject:
    """Return the arguments as validated by the model, with its defaults. Fields that are None are omitted.

    `fields` are the names of the model's fields by their names in JSON. Raises `InvalidArguments`.
    """
    built = build_model(builder, arguments)
    values = {key: getattr(built, name) for key, name in fields.items()}
    completed = {key: each for key, each in values.items() if key in arguments or each is not None}
    return {**arguments, **to_jsonable_python(completed, by_alias=True)}
