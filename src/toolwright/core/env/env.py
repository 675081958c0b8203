"""Environment values: plain texts and secrets by name, variables that tools declare, and tenvs (D5, D6).

Also the keys that are derived from those that encrypt secrets.
"""

import hmac
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast, get_args

from toolwright.core.checks import brief_value, check_kind, check_list
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.json_value import JSON, NOT_WRITABLE, JSONObject, unwritable
from toolwright.core.limits import MAX_NAME, MAX_NAMES
from toolwright.core.text import brief, sentence
from toolwright.core.value import Record, Stored, Value

EnvType: TypeAlias = Literal["text", "secret"]
EnvKind: TypeAlias = Literal["env", "tenv"]
EnvInput: TypeAlias = "Mapping[str, EnvVar | str | Mapping[str, JSON] | None]"
"""Env as written by users: text, or `{"value": …, "type": "text"}`; None deletes the variable.

Text without a type has the declared type, or is a secret.
"""

MAX_VALUE = 64 * 1024  # characters


class EnvVar(Value):
    """A value, and whether it is a secret."""

    value: str
    type: EnvType = "secret"

    def __repr__(self) -> str:
        return f"EnvVar(type={self.type!r})"  # a value is never echoed


class EnvRow(Record):
    """A stored value. `owner` is the id of a thread or a person.

    An `env` value is text, a `tenv` value is JSON. The value is encrypted if `key` names the key that has encrypted it.
    """

    STORED = Stored(key=("owner", "kind", "name"), owner="owner")

    owner: str
    kind: EnvKind
    name: str
    type: EnvType
    value: str
    key: str | None = None
    updated_at: datetime


class EnvChange(Value):
    """A change of a variable: `row` is the new row, None deletes it."""

    owner: str
    kind: EnvKind
    name: str
    row: EnvRow | None = None


class SigningKey(Record):
    """A random key that signs the tokens of a server without encryption keys. Its owner is empty: the server."""

    STORED = Stored(key=("entity_id", "name"), owner="entity_id", order=("name",))

    entity_id: str = ""
    name: str = "tokens"
    key: str
    created_at: datetime

    def __repr__(self) -> str:
        return f"SigningKey(name={self.name!r})"  # a key is never echoed


def derived_key(secret: bytes, purpose: str) -> bytes:
    """Return a key of 32 bytes for that purpose, which reveals nothing about the secret (HKDF-SHA256, RFC 5869)."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, f"toolwright {purpose}".encode() + b"\x01", "sha256")


def always_secret(_: str) -> EnvType:
    """Return the type `secret`, for a value without a type or a declaration."""
    return "secret"


def read_env(
    env: object, path: str = "env", type_of: Callable[[str], EnvType] = always_secret
) -> dict[str, EnvVar | None]:
    """Validate a caller's env; `type_of` returns the type of a value without one.

    Raises `InvalidRequest`; its message contains no values.
    """
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise _invalid_value(path, "must be an object of names and values")
    if len(env) > MAX_NAMES:  # pyright: ignore[reportUnknownArgumentType]  # user input
        raise _invalid_value(path, f"must have at most {MAX_NAMES} names")
    return {
        checked_name(name, path): _read(each, f"{path}.{name}", lambda name=name: type_of(name))
        for name, each in cast("EnvInput", env).items()
    }


def stored_only(variables: Mapping[str, EnvVar | None], path: str = "env") -> dict[str, EnvVar]:
    """Return the variables to store, where deletion is not allowed."""
    for name, each in variables.items():
        if each is None:
            raise _invalid_value(f"{path}.{name}", "must be text, or an object with value and type")
    return {name: each for name, each in variables.items() if each is not None}


def name_error(name: object) -> str | None:
    """Return the reason why a name is invalid, as text to follow "the name", or None if it is valid."""
    if isinstance(name, str) and name.strip() and len(name) <= MAX_NAME and name.isprintable():
        return None
    return f"{brief(repr(name), 60)}: a name is printable, of 1 to {MAX_NAME} characters"


def checked_name(name: str, path: str = "env") -> str:
    """Return a valid variable name. Raises `InvalidRequest` if it is invalid."""
    error = name_error(name)
    if error is not None:
        raise _invalid_value(path, f"has the name {error}")
    return name


def _read(raw: object, path: str, type_of: Callable[[], EnvType]) -> EnvVar | None:
    if raw is None or isinstance(raw, EnvVar):
        return raw
    if isinstance(raw, str):
        return EnvVar(value=_value(raw, path), type=type_of())
    if not isinstance(raw, Mapping):
        raise _invalid_value(path, "must be text, or an object with value and type")
    parts = cast("Mapping[str, object]", raw)  # other keys are reported as unknown
    if "value" not in parts or not set(parts) <= {"value", "type"}:
        raise _invalid_value(path, "must have a value, and may have a type")
    kind = parts["type"] if "type" in parts else type_of()
    if kind not in ("text", "secret"):
        raise _invalid_value(path, "has a type that is neither text nor secret")
    return EnvVar(value=_value(parts["value"], path), type=kind)


def _value(text: object, path: str) -> str:
    if not isinstance(text, str):
        raise _invalid_value(path, "must be text")
    if len(text) > MAX_VALUE:
        raise _invalid_value(path, f"must have at most {MAX_VALUE} characters")
    if not _writes(text):
        raise _invalid_value(path, NOT_WRITABLE)
    return text


def _writes(text: str) -> bool:
    return not unwritable(text)


def _invalid_value(path: str, error: str) -> InvalidRequest:
    return InvalidRequest(f"{path} {error}.", [{"path": path, "message": error}])


class ShownNames(Value):
    """Names whose values become the names or first messages of children; `related` names share the same suffixes."""

    names: tuple[str, ...]
    related: tuple[str, ...]

    def has(self, name: str, among: Collection[str]) -> bool:
        """Return whether it is one of the names, or one with a suffix that all related names also have."""
        ends = [name[len(each) :] for each in self.names if name.startswith(each)]
        return any(
            not end
            or (end.startswith("_") and len(end) > 1 and all(each + end in among for each in self.related))
            for end in ends
        )


class EnvTypes(Value):
    """The types of variables for an active agent.

    These are the types that its variables declare, `text` for flags and for names shown to models, otherwise `secret`.
    """

    declared: Mapping[str, EnvType]
    flags: frozenset[str] = frozenset()
    shown: tuple[ShownNames, ...] = ()

    def type_of(self, name: str, among: Collection[str] = ()) -> EnvType:
        """Return the type of a value without a type, set together with values of the names `among`."""
        if name in self.flags or any(each.has(name, among) for each in self.shown):
            return "text"
        return self.declared.get(name, "secret")

    def hides(self, name: str, among: Collection[str] = ()) -> bool:
        """Return whether the name is declared as a secret although its value is shown to models."""
        return self.declared.get(name) == "secret" and self.type_of(name, among) == "secret"

    def read(self, env: object, path: str = "env") -> dict[str, EnvVar | None]:
        """Validate a caller's env and return it.

        Raises `InvalidRequest`, also for a secret that is shown to models or used as a flag, and for text that is
        declared as a secret.
        """
        names = cast("Mapping[str, object]", env) if isinstance(env, Mapping) else ()
        variables = read_env(cast("object", env), path, lambda name: self.type_of(name, names))
        for name, var in variables.items():
            self.check(name, var, names, path)
        return variables

    def stored(self, env: object, path: str = "env") -> dict[str, EnvVar]:
        """Return the variables to store, where deletion is not allowed."""
        return stored_only(self.read(env, path), path)

    def check(self, name: str, var: EnvVar | None, among: Collection[str] = (), path: str = "env") -> None:
        """Raise `InvalidRequest` for a secret that is a flag or shown to models, and for text declared as a secret."""
        if var is None:
            return
        if var.type == "secret" and any(name in each.names for each in self.shown):
            raise _invalid_value(f"{path}.{name}", "is shown to models: store it as text, not as a secret")
        if var.type == "secret" and name in self.flags:
            raise _invalid_value(f"{path}.{name}", "is a flag: store it as text, not as a secret")
        if var.type == "text" and self.hides(name, among):
            raise _invalid_value(f"{path}.{name}", "is declared as a secret")


SECRETS = EnvTypes(declared={})
"""Types if no agent is known: values without a type are secrets."""


class Secret:
    """Marks a tenv as a secret: `Annotated[str, tw.Secret]`. It is stored encrypted and never shown (D4, D6)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A named value that is read from the env when it is needed (S0 §3, D5).

    A run waits while a `required` variable is missing. A variable of the type `secret` is stored encrypted and never
    shown. A `scoped` variable is not inherited from parents of the thread whose agent declares it; that thread's
    children inherit it. Raises `DefinitionError` if it is invalid.
    """

    name: str
    type: EnvType = "text"
    required: bool = True
    scoped: bool = False
    description: str = ""

    def __post_init__(self) -> None:
        error = name_error(self.name)
        if error is not None:
            raise DefinitionError(f"A variable has the invalid name {error}.")
        what = f"The variable {self.name!r}"
        if self.type not in get_args(EnvType):
            raise DefinitionError(
                f"{what} must be of the type 'text' or 'secret', not {brief_value(self.type)}."
            )
        check_kind(f"{what}: required", self.required, bool, "true or false")
        check_kind(f"{what}: scoped", self.scoped, bool, "true or false")
        check_kind(f"{what}: description", self.description, str, "text")


@dataclass(frozen=True, slots=True)
class NamedVariable(Variable):
    """An undeclared variable named in the URL or a header of an HTTP tool: a secret unless its value has type text."""


def declared_variables(subject: str, variables: Sequence[Variable]) -> None:
    """Raise `DefinitionError` unless all items are variables with different names."""
    check_list(f"{subject}: variables", variables, Variable, "variables")
    names = [each.name for each in variables]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise DefinitionError(f"{subject} declares the variable {duplicate!r} twice.")


def merged(variables: Iterable[Variable]) -> tuple[Variable, ...]:
    """Return one variable per name with the strictest options: secret, required or scoped if any of them is."""
    by_name: dict[str, Variable] = {}
    for each in variables:
        previous = by_name.get(each.name, each)
        types = {variable.type for variable in (previous, each) if not isinstance(variable, NamedVariable)}
        make = Variable if types else NamedVariable
        by_name[each.name] = make(
            each.name,
            "text" if types == {"text"} else "secret",
            required=previous.required or each.required,
            scoped=previous.scoped or each.scoped,
            description=previous.description or each.description,
        )
    return tuple(by_name.values())


RequestKind: TypeAlias = Literal["run", "child"]


class VariablesRequest(Record):
    """A request for missing variables, in the thread `thread_id`.

    A request of the kind `run` belongs to the thread's own suspended run. A request of the kind `child` belongs to the
    parent: `child` is the thread that starts once the values are set, and `expires_at` is its deadline.
    """

    STORED = Stored(key=("id",), owner="thread_id")

    id: str
    thread_id: str
    kind: RequestKind
    agent: str
    required: tuple[Variable, ...]
    child: JSONObject | None = None
    expires_at: datetime | None = None
    created_at: datetime


class Asked(Record):
    """The name of a variable for which a suspended run waits."""

    STORED = Stored(key=("name", "request_id"), owner="request_id")

    name: str
    request_id: str
    thread_id: str


class Tenvs:
    """A thread's tenvs as attributes: `state.tenvs.vector_store_id`.

    Tenvs that the calling tool's model declares are built by that model; a missing optional tenv is None or its
    default. They form an instance of the model, with its properties and methods. All other tenvs are the original JSON.
    """

    __slots__ = ("_built", "_model", "_values")

    def __init__(self, values: Mapping[str, JSON] | None = None) -> None:
        self._values = values or {}
        self._built: dict[str, object] = {}
        self._model: object = None

    def __getattr__(self, name: str) -> Any:  # of the type in the tool's model
        if name in self._built:
            return self._built[name]
        try:
            return self._values[name]
        except KeyError:
            if hasattr(self._model, name):
                return getattr(self._model, name)
            listed = ", ".join(sorted({*self._values, *self._built})) or "none"
            raise AttributeError(sentence(f"This thread has no tenv {name!r}; it has: {listed}")) from None

    def __getitem__(self, name: str) -> JSON:
        return self._values[name]

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]  # it is never set
        """The declared model of the calling tool, so that `isinstance` accepts the tenvs as an instance of it."""
        return Tenvs if self._model is None else type(self._model)

    def adopt(self, model: object, built: Mapping[str, object]) -> None:
        """Use these values, built for a tool, and the other attributes of its model."""
        self._model = model
        self._built.update(built)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Tenvs({', '.join(self._values)})"  # names only
