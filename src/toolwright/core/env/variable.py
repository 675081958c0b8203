"""Variables: what a tool or a prompt declares that it needs of its thread's env (S0 §3), and the request for them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from toolwright.core.checks import brief_value, check_kind, check_list
from toolwright.core.env.env import EnvType, faulty_name
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.value import value


@dataclass(frozen=True, slots=True)
class Variable:
    """A named value that is read from the env when it is needed (S0 §3, D5).

    A run waits while a `required` variable is missing. A variable of the type `secret` is stored encrypted and
    never shown. A `scoped` one is not inherited from parents of the thread whose agent declares it; that thread's
    children inherit it. Raises `DefinitionError` if it is invalid.
    """

    name: str
    type: EnvType = "text"
    required: bool = True
    scoped: bool = False
    description: str = ""

    def __post_init__(self) -> None:
        fault = faulty_name(self.name)
        if fault is not None:
            raise DefinitionError(f"A variable has the name {fault}.")
        what = f"The variable {self.name!r}"
        if self.type not in get_args(EnvType):
            raise DefinitionError(f"{what} is of the type 'text' or 'secret', not {brief_value(self.type)}.")
        check_kind(f"{what}: required", self.required, bool, "true or false")
        check_kind(f"{what}: scoped", self.scoped, bool, "true or false")
        check_kind(f"{what}: description", self.description, str, "text")


@dataclass(frozen=True, slots=True)
class NamedVariable(Variable):
    """One that a URL or a header of an HTTP tool names, and nobody has declared: a secret unless a value says text."""


def declared_variables(whose: str, variables: Sequence[Variable]) -> None:
    """Raise `DefinitionError` unless these are variables, each of another name."""
    check_list(f"{whose}: variables", variables, Variable, "variables")
    names = [each.name for each in variables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DefinitionError(f"{whose} declares the variable {twice!r} twice.")


def merged(variables: Iterable[Variable]) -> tuple[Variable, ...]:
    """One of each name, the strictest: a secret if one is, required if one is, scoped if one is."""
    by_name: dict[str, Variable] = {}
    for each in variables:
        previous = by_name.get(each.name, each)
        types = {one.type for one in (previous, each) if not isinstance(one, NamedVariable)}
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


@value
class VariablesRequest:
    """Variables that somebody is asked for, in the thread `thread_id`.

    One of the kind `run` is that of the thread's own parked run. One of the kind `child` belongs to the parent:
    `child` says which thread is to begin once the values are there, and `expires_at` until when.
    """

    id: str
    thread_id: str
    kind: RequestKind
    agent: str
    required: tuple[Variable, ...]
    child: JSONObject | None = None
    expires_at: datetime | None = None
    created_at: datetime
