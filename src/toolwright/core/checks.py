"""Validation of the arguments of the Python API, before they are used."""

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import TypeAlias, TypeGuard, TypeVar, cast

from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.json_value import NOT_ONE_LINE, one_line
from toolwright.core.text import brief

T = TypeVar("T")
Kinds: TypeAlias = type | tuple[type, ...]

_MAX_QUOTED = 40  # maximum characters of a value that is quoted


def brief_value(value: object) -> str:
    """Return a short representation of a plain value, or the name of its type."""
    if isinstance(value, str | int | float | None) and len(text := repr(value)) <= _MAX_QUOTED:
        return text
    if inspect.isawaitable(value):
        return f"a {type(value).__name__}: an `await` is missing"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a value of the type {type(value).__name__}"


def invalid_value(path: str, error: str) -> InvalidRequest:
    """Return the error for an invalid field of a caller's input."""
    return InvalidRequest(f"{path} {error}.", [{"path": path, "message": error}])


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a number. Booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def takes_one(fn: Callable[..., object]) -> bool:
    """Return whether the callable accepts one argument, according to its signature."""
    try:
        inspect.signature(fn).bind(None)
    except TypeError:
        return False
    except ValueError:  # implemented in C, without a signature
        return True
    return True


def misfit(value: object, kinds: Kinds) -> str | None:
    """Describe the value if it is not a list, or its first item of another type. Returns None if all items match."""
    if isinstance(value, str | bytes | dict) or not isinstance(value, Collection):
        return brief_value(cast("object", value))
    items = cast("Collection[object]", value)  # isinstance does not check the items
    return next((f"one with {brief_value(each)}" for each in items if not isinstance(each, kinds)), None)


def check_kind(what: str, value: object, kinds: Kinds, expected: str) -> None:
    """Raise `DefinitionError` unless the value is an instance of the types. `expected` describes them."""
    if not isinstance(value, kinds):
        raise DefinitionError(f"{what} must be {expected}, not {brief_value(value)}.")


def check_list(what: str, value: object, kinds: Kinds, expected: str) -> None:
    """Raise `DefinitionError` unless the value is a list of such items. `expected` describes them."""
    wrong = misfit(value, kinds)
    if wrong is not None:
        raise DefinitionError(f"{what} must be a list of {expected}, not {wrong}.")


def by_list(name: str, value: object, kinds: Kinds, expected: str, *, required: bool = False) -> None:
    """Raise `InvalidRequest` unless the value is a list of these types, or None if it is not `required`."""
    wrong = None if value is None and not required else misfit(value, kinds)
    if wrong is not None:
        raise invalid_value(name, f"must be a list of {expected}, not {wrong}")


def by_names(name: str, value: object) -> None:
    """Raise `InvalidRequest` unless the value is a mapping. The message does not quote it: it can be a secret."""
    if not isinstance(value, Mapping):
        raise invalid_value(name, "must be an object of names and values")


def check_callee(what: str, value: object) -> None:
    """Raise `DefinitionError` for a value that is often mistaken for a tool, and name the correct alternative."""
    name = getattr(value, "name", None)
    if hasattr(value, "expose_as_tool"):
        if hasattr(value, "as_tool"):
            raise DefinitionError(
                f"{what}: the agent {name!r} is not a tool. Use agent.as_tool('What it does.') to call it. To hand the "
                f"conversation over to it, use its name and add the agent to the app with expose_as_tool=True."
            )
        raise DefinitionError(
            f"{what}: the prompt {name!r} is not a tool. Use its name or tw.SubpromptConfig(name={name!r}), and add "
            "the prompt to the app with expose_as_tool=True."
        )


def refuse_fields(hints: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Return a class decorator: the constructor rejects these names, with the hint where they belong."""

    def decorate(cls: type[T]) -> type[T]:
        original = cls.__init__

        @wraps(original)
        def init(self: T, *args: object, **named: object) -> None:
            wrong = next((name for name in named if name in hints), None)
            if wrong is not None:
                raise DefinitionError(hints[wrong])
            original(self, *args, **named)

        setattr(cls, "__init__", init)  # noqa: B010 - pyright rejects an assignment
        return cls

    return decorate


def check_name(what: str, name: object) -> None:
    """Raise `DefinitionError` unless the name is text and not blank."""
    if not isinstance(name, str):
        raise DefinitionError(f"{what} needs a name, not {brief_value(name)}.")
    if not name.strip():
        raise DefinitionError(f"{what} needs a name.")


def check_line(what: str, name: object) -> None:
    """Raise `DefinitionError` unless the name is a single line."""
    check_name(what, name)
    if not one_line(str(name)):
        raise DefinitionError(f"{what}'s name {NOT_ONE_LINE}: {brief(repr(name), _MAX_QUOTED)}.")
