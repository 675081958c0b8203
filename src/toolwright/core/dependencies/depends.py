"""Dependencies: their declaration `Annotated[T, Depends(fn)]`, and the annotations of a function."""

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.state.state import ThreadState
from toolwright.core.text import sentence

Function: TypeAlias = Callable[..., object]
"""A sync or async function, a generator function, or a callable object."""


def read_hints(function: Function, what: str, scope: Mapping[str, object]) -> dict[str, Any]:
    """Return the annotations of a function's parameters, with string annotations evaluated.

    `scope` holds the names at the definition. Raises `DefinitionError`, whose message begins with `what`.
    """
    own = inspect.unwrap(innermost(function))
    names: dict[str, object] = {"ThreadState": ThreadState, **getattr(own, "__globals__", {}), **scope}
    try:
        hinted = getattr(own, "__annotations__", {})
        annotations = {name: each for name, each in hinted.items() if name != "return"}
        parameters = types.SimpleNamespace(__annotations__=annotations)
        return typing.get_type_hints(parameters, names, include_extras=True)  # type: ignore[arg-type]  # it has them
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise DefinitionError(sentence(f"{what}: its annotations cannot be read: {error}")) from error


def innermost(function: Function) -> Function:
    """Return the function whose annotations apply: the function behind a partial, method, class or callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return function.__init__ if isinstance(function, type) else type(function).__call__


def bound_names(function: Function) -> frozenset[str]:
    """Return the names of the arguments that a partial has bound."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def runs_on_loop(function: Function) -> bool:
    """Return whether a call returns a coroutine, which runs on the event loop. All others run in a thread."""
    own = innermost(function)
    return inspect.iscoroutinefunction(own) or inspect.iscoroutinefunction(inspect.unwrap(own))


def is_state(hint: object) -> bool:
    """Return whether a parameter with that annotation receives the `ThreadState`."""
    if get_origin(hint) is Annotated or get_origin(hint) in (typing.Union, types.UnionType):
        return any(is_state(part) for part in get_args(hint))
    return hint is ThreadState or get_origin(hint) is ThreadState


Form: TypeAlias = Literal["plain", "async", "generator", "async generator"]


def _missing() -> None:
    """Placeholder for the function of a `Depends()` without one."""


@dataclass(frozen=True, slots=True)
class Depends:
    """Marks a parameter as a dependency: `Annotated[T, Depends(fn)]` passes the value of `fn` to a tool's function.

    The parameter is not part of the tool's schema. `fn` can be sync (it runs in a thread), async, or a generator of
    either kind that yields one value and cleans up after its `yield`. It can take a `ThreadState` and further
    dependencies. The value is shared by the calls of a run in this process, and cleaned up when the run ends or waits.
    With `cached=False` each call has its own value. Raises `DefinitionError` without a function.
    """

    fn: Function = _missing
    cached: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if self.fn is _missing:
            raise DefinitionError(
                "Depends needs the function that gives the value, as in Depends(open_pool)."
            )
        if not callable(self.fn) or getattr(self.fn, "__hash__", None) is None:
            raise DefinitionError(
                f"Depends takes a function that gives the value, not {brief_value(self.fn)}."
            )
        if self.cached not in (True, False):
            raise DefinitionError(f"Depends: cached must be True or False, not {brief_value(self.cached)}.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dependency:
    """A dependency function.

    `state` names its parameters for a `ThreadState`, `below` maps its other parameters to dependencies.
    """

    fn: Function
    name: str
    form: Form
    cached: bool
    state: tuple[str, ...]
    below: Mapping[str, "Dependency"]

    @property
    def cleans_up(self) -> bool:
        """Return whether the function is a generator, which cleans up after its `yield`."""
        return self.form in ("generator", "async generator")


def mark_of(hint: object, default: object, what: str) -> Depends | None:
    """Return the dependency mark of a parameter, or None.

    Raises `DefinitionError`, whose message begins with `what`, if it is misplaced.
    """
    if isinstance(default, Depends) or default is Depends:
        raise _misplaced(what, default, "has Depends as its default")
    if isinstance(hint, Depends) or hint is Depends:
        raise _misplaced(what, hint, "is annotated with Depends alone")
    if get_origin(hint) is not Annotated:
        if any(_mentions(part) for part in get_args(hint)):
            raise _misplaced(what, hint, "has Depends in a part of its type")
        return None
    typed, *extras = get_args(hint)
    if any(each is Depends for each in extras):
        raise DefinitionError(f"{what}: Depends needs the function that gives the value: Depends(open_pool).")
    marks = [each for each in extras if isinstance(each, Depends)]
    if len(marks) > 1:
        raise DefinitionError(f"{what} has two Depends. Keep one.")
    if not marks and _mentions(typed):
        raise _misplaced(what, hint, "has Depends in a part of its type")
    return marks[0] if marks else None


def _mentions(hint: object) -> bool:
    return isinstance(hint, Depends) or hint is Depends or any(_mentions(part) for part in get_args(hint))


def _misplaced(what: str, mark: object, why: str) -> DefinitionError:
    name = name_of(mark.fn) if isinstance(mark, Depends) else "fn"
    return DefinitionError(f"{what} {why}; write it around the whole type: Annotated[…, Depends({name})].")


class DependencyReader:
    """Reads dependency functions recursively, each once.

    Raises `DefinitionError`, whose message begins with `what`. `scope` holds the names at the definition. A parameter
    that has neither an annotation nor a default is read as one with the annotation `unannotated`, if it is the first.
    """

    def __init__(self, what: str, scope: Mapping[str, object], unannotated: object = None) -> None:
        self._what = what
        self._scope = scope
        self._unannotated = unannotated
        self._read: dict[Depends, Dependency] = {}
        self._path: list[Function] = []

    def read(self, mark: Depends) -> Dependency:
        """Return the function of a dependency mark, with its own dependencies."""
        if mark.fn in self._path:
            names = [name_of(each) for each in [*self._path[self._path.index(mark.fn) :], mark.fn]]
            raise DefinitionError(f"{self._what}: its dependencies are a cycle: {' → '.join(names)}.")
        if mark not in self._read:
            self._path.append(mark.fn)
            self._read[mark] = self._dependency(mark)
            self._path.pop()
        return self._read[mark]

    def _dependency(self, mark: Depends) -> Dependency:
        name = name_of(mark.fn)
        subject = f"{self._what}: the dependency {name!r}"
        hints = read_hints(mark.fn, subject, self._scope)
        state: list[str] = []
        below: dict[str, Dependency] = {}
        for parameter in _parameters(mark.fn, subject):
            where = f"{subject}, parameter {parameter.name!r}"
            hint = hints.get(parameter.name)
            if hint is None and parameter.default is parameter.empty and not state:
                hint = self._unannotated
            inner = mark_of(hint, parameter.default, where)
            if inner is None and not is_state(hint):
                if parameter.default is parameter.empty:
                    raise DefinitionError(
                        f"{where}: it has no source for its value. Annotate it as ThreadState or "
                        "Annotated[…, Depends(…)], or give it a default."
                    )
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                raise DefinitionError(
                    f"{where} is positional-only, but values are passed by name. Remove the '/'."
                )
            elif inner is None:
                state.append(parameter.name)
            else:
                below[parameter.name] = self.read(inner)
        return Dependency(
            fn=mark.fn, name=name, form=_form(mark.fn), cached=mark.cached, state=tuple(state), below=below
        )


def _parameters(fn: Function, subject: str) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (ValueError, TypeError) as error:
        raise DefinitionError(f"{subject} has no readable signature; write a function around it.") from error
    bound = bound_names(fn)
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in parameters if each.name not in bound and each.kind not in many]


def _form(fn: Function) -> Form:
    own = inspect.unwrap(innermost(fn))
    if inspect.isasyncgenfunction(own):
        return "async generator"
    if inspect.isgeneratorfunction(own):
        return "generator"
    return "async" if runs_on_loop(fn) else "plain"


def generator_function(fn: Function) -> Function:
    """Return the generator function: the function under `@contextmanager`, or the function itself."""
    wrapped: Any = getattr(fn, "__wrapped__", None)  # set by a decorator
    by_contextlib = getattr(fn, "__globals__", None) is vars(contextlib)
    return wrapped if by_contextlib and callable(wrapped) else fn


def name_of(fn: Function) -> str:
    """Return the name of a function for messages."""
    inner = fn.func if isinstance(fn, partial) else fn
    return str(getattr(inner, "__name__", type(inner).__name__))
