"""Functions as tools: the decorator `tool`, and the conversion of plain functions."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast, overload

from pydantic import BaseModel

from toolwright.core.arguments.signature import Handler, first_paragraph, read_signature
from toolwright.core.env.env import Variable
from toolwright.core.errors import DefinitionError
from toolwright.core.tools.approval import Requirement
from toolwright.core.tools.tool import FUNCTION_TIMEOUT, Tool, check_foreign


@overload
def tool(function: Handler, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    args: type[BaseModel] | None = None,
    tenvs: type[BaseModel] | None = None,
    variables: Sequence[Variable] = (),
    timeout: float | None = FUNCTION_TIMEOUT,
    grace: float | None = None,
    visible: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    requires_approval: Requirement = None,
) -> Callable[[Handler], Tool]: ...
def tool(
    function: Handler | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    args: type[BaseModel] | None = None,
    tenvs: type[BaseModel] | None = None,
    variables: Sequence[Variable] = (),
    timeout: float | None = FUNCTION_TIMEOUT,
    grace: float | None = None,
    visible: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    requires_approval: Requirement = None,
) -> Tool | Callable[[Handler], Tool]:
    """Make a tool from a function (S2 §2): `@tool`, or `@tool(description=…, timeout=…)`.

    The schema comes from the signature, or from `args=Model`; a parameter annotated `ThreadState` is injected.
    Descriptions come from `description=` and `Field(description=…)`, or from a Google docstring. With
    `requires_approval` a call waits for a person's approval before it starts: True for all calls, a function of the
    arguments that selects calls, or an `Approval` with terms. `tenvs=Model` declares values that the thread requires,
    read as `state.tenvs` (S2 §9); `variables` declares values of the env, read as `await state.env(name)` (S0 §3).
    `timeout` is in seconds, None for no limit. `grace` is the number of seconds that the function may continue after
    its run was cancelled. By default it is cancelled immediately, or after 5 seconds if it has read
    `state.execution.abort_signal`. Raises `DefinitionError` naming the tool and the invalid path.
    """
    frame = inspect.currentframe()
    scope: Mapping[str, object] = frame.f_back.f_locals if frame and frame.f_back else {}

    def make(handler: Handler) -> Tool:
        called = _name(handler, name)
        signature = read_signature(handler, name=called, args=args, scope=scope)
        return Tool(
            name=called,
            description=first_paragraph(_doc(handler)) if description is None else description,
            parameters=signature.parameters,
            handler=handler,
            timeout=timeout,
            grace=grace,
            visible=visible,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive,
            tenvs=tenvs,
            variables=variables,
            requires_approval=requires_approval,
            signature=signature,
        )

    return make if function is None else make(function)


def as_tool(callee: object) -> object:
    """Convert a plain function to a tool, as `tool` does. Other values are returned unchanged.

    Raises `DefinitionError` for a tool of another framework.
    """
    if not isinstance(callee, Tool | str):
        check_foreign(callee)
    is_function = inspect.isroutine(callee) or type(callee) is functools.partial
    return tool(cast("Handler", callee)) if is_function else cast("object", callee)


def as_tools(callees: object) -> object:
    """Convert the plain functions in a list to tools. A value that is not a list is returned unchanged."""
    if isinstance(callees, str | bytes | Mapping) or not isinstance(callees, Iterable):
        return cast("object", callees)
    return [as_tool(each) for each in cast("Iterable[object]", callees)]


def _name(handler: Handler, name: str | None) -> str:
    if not callable(handler) or isinstance(handler, type | Tool):
        raise DefinitionError(f"A tool must be made from a function, not from {handler!r}.")
    if name is not None:
        return name
    inner = handler.func if isinstance(handler, functools.partial) else handler
    own = getattr(inner, "__name__", "")
    if not own or own == "<lambda>":
        raise DefinitionError(f"{handler!r} has no name. Give it one with name=.")
    return str(own)


def _doc(handler: Handler) -> str | None:
    inner = handler.func if isinstance(handler, functools.partial) else handler
    return inner.__doc__
