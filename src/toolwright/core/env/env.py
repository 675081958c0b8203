"""Environment values: texts by name that tools ask for, plain ones and secrets (D5)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias, cast

from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON
from toolwright.core.plain import unwritable
from toolwright.core.text import brief
from toolwright.core.value import value

EnvType: TypeAlias = Literal["text", "secret"]
EnvKind: TypeAlias = Literal["env", "tenv"]
Given: TypeAlias = "Mapping[str, EnvVar | str | Mapping[str, JSON] | None]"
"""Env as users write it: text, of the declared type or else a secret, or `{"value": …, "type": "text"}`; None takes the
name away.
"""

MOST_NAMES = 1_000  # at once
LONGEST_NAME = 200  # characters
LONGEST_VALUE = 64 * 1024  # characters


@value
class EnvVar:
    """One value and whether it is a secret."""

    value: str
    type: EnvType = "secret"

    def __repr__(self) -> str:
        return f"EnvVar(type={self.type!r})"  # a value is never echoed


@value
class EnvRow:
    """A value as the journal keeps it: `owner` is a thread's or a person's id.

    An `env` value is text, a `tenv` value is JSON. `value` is sealed where `key` names the key that sealed it.
    """

    owner: str
    kind: EnvKind
    name: str
    type: EnvType
    value: str
    key: str | None = None
    updated_at: datetime


@value
class EnvChange:
    """One name of one owner is set to `row`, or taken away."""

    owner: str
    kind: EnvKind
    name: str
    row: EnvRow | None = None


def always_secret(_: str) -> EnvType:
    """The type of a value that is given without one, where nobody has declared it."""
    return "secret"


def read_env(
    env: object, path: str = "env", type_of: Callable[[str], EnvType] = always_secret
) -> dict[str, EnvVar | None]:
    """Env of a caller, checked; `type_of` says which type plain text has.

    Raises `InvalidRequest`; no value is ever in its words.
    """
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise _invalid_value(path, "must be an object of names and values")
    if len(env) > MOST_NAMES:  # pyright: ignore[reportUnknownArgumentType]  # user input
        raise _invalid_value(path, f"must have at most {MOST_NAMES} names")
    return {
        checked_name(name, path): _read(each, f"{path}.{name}", lambda name=name: type_of(name))
        for name, each in cast("Given", env).items()
    }


def stored_only(variables: Mapping[str, EnvVar | None], path: str = "env") -> dict[str, EnvVar]:
    """The variables to be stored, where there is nothing to take away."""
    for name, each in variables.items():
        if each is None:
            raise _invalid_value(f"{path}.{name}", "must be text, or an object with value and type")
    return {name: each for name, each in variables.items() if each is not None}


def faulty_name(name: object) -> str | None:
    """Reason why this is no name of a value, in words that follow "the name"; None if it is one."""
    if isinstance(name, str) and name.strip() and len(name) <= LONGEST_NAME and name.isprintable():
        return None
    return f"{brief(repr(name), 60)}: a name is printable, of 1 to {LONGEST_NAME} characters"


def checked_name(name: str, path: str = "env") -> str:
    """The name of a value; `InvalidRequest` for what can be none."""
    fault = faulty_name(name)
    if fault is not None:
        raise _invalid_value(path, f"has the name {fault}")
    return name


def _read(raw: object, path: str, type_of: Callable[[], EnvType]) -> EnvVar | None:
    if raw is None or isinstance(raw, EnvVar):
        return raw
    if isinstance(raw, str):
        return EnvVar(value=_value(raw, path), type=type_of())
    if not isinstance(raw, Mapping):
        raise _invalid_value(path, "must be text, or an object with value and type")
    parts = cast("Mapping[str, object]", raw)  # keys of other types are found to be unknown
    if "value" not in parts or not set(parts) <= {"value", "type"}:
        raise _invalid_value(path, "must have a value, and may have a type")
    kind = parts["type"] if "type" in parts else type_of()
    if kind not in ("text", "secret"):
        raise _invalid_value(path, "has a type that is neither text nor secret")
    return EnvVar(value=_value(parts["value"], path), type=kind)


def _value(text: object, path: str) -> str:
    if not isinstance(text, str):
        raise _invalid_value(path, "must be text")
    if len(text) > LONGEST_VALUE:
        raise _invalid_value(path, f"must have at most {LONGEST_VALUE} characters")
    if not _writes(text):
        raise _invalid_value(path, "must not hold NUL characters or lone surrogates")
    return text


def _writes(text: str) -> bool:
    return not unwritable(text)


def _invalid_value(path: str, fault: str) -> InvalidRequest:
    return InvalidRequest(f"{path} {fault}.", [{"path": path, "message": fault}])
