"""Built-in tools: ordinary function tools whose effects are committed with their result (JOURNAL, D11)."""

from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from types import FunctionType, MethodType
from typing import Protocol, TypeVar, runtime_checkable

from toolwright.core.agents.agent import Reach
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.space_effects import Source
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.core.results import ToolResult
from toolwright.core.spaces import Entity
from toolwright.core.state.state import ThreadState
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.core.tools.tool import Tool, tool
from toolwright.core.value import changed

T = TypeVar("T")


@runtime_checkable
class BuiltinState(Protocol):
    """The state of a run for a built-in tool, in addition to the state of every handler."""

    @property
    def thread(self) -> Thread:
        """The calling thread, as of the last commit."""
        ...

    async def reach(self) -> Reach:
        """Return the spaces and memory that the calling agent may reach in this thread."""
        ...

    @property
    def call_id(self) -> str:
        """The id of this call: the same when it is executed again, so that other ids can be derived from it."""
        ...

    @property
    def deps_run_id(self) -> str | None:
        """The id of the run if it has deps, which later runs take from it."""
        ...

    @property
    def missing_home_tenvs(self) -> MissingTenvs:
        """The tenvs that the agent's tools require and its home thread cannot provide."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock."""
        ...

    @property
    def author(self) -> Entity | None:
        """The agent as an entity."""
        ...

    @property
    def space_id(self) -> str | None:
        """The space that the agent is in."""
        ...

    @property
    def trigger(self) -> JSONObject | None:
        """The space message that the run reads, or None."""
        ...

    @property
    def chain_depth(self) -> int:
        """Depth of the run in a chain of agents that wake each other (D15)."""
        ...

    @property
    def source(self) -> Source:
        """The source of the call's effects in spaces."""
        ...

    is_builtin: bool
    """Is true for a built-in tool, whose result callers, people and models have written (decision 8)."""

    def speak(self, make: Callable[[], Awaitable[Effect]]) -> None:
        """Commit the effect that `make` builds, rebuilt if the space has changed. `make` can raise `NotFound`."""
        ...

    def skip(self, reason: str | None) -> None:
        """End the run as skipped with the call's result."""
        ...

    async def retry_until_available(self, work: Callable[[], Awaitable[T]]) -> T:
        """Read the journal, repeatedly while it is unavailable."""
        ...

    def effect(self, effect: Effect) -> None:
        """Add an effect on spaces, timers, minds or memory, committed with the call's result."""
        ...


def builtin(method: MethodType) -> Tool:
    """Return a toolkit method as a tool that rejects unknown arguments (D3) and can be repeated after a crash (D14)."""
    return changed(_described(method.__func__), handler=method)


@cache
def _described(function: FunctionType) -> Tool:
    """Return the tool, cached for all runtimes, because reading a signature takes time."""
    described = tool(idempotent=True)(MethodType(function, _ANY_TOOLKIT))
    parameters = {**described.parameters, "additionalProperties": False}
    return changed(described, parameters=parameters, validator=ArgumentValidator(parameters, described.name))


_ANY_TOOLKIT = object()


def call_item_id(prefix: str, call_id: str, n: int = 0) -> str:
    """Return the id of the `n`th item that a call creates: the same id when the call is executed again."""
    return f"{prefix}_{sha256(f'{call_id}.{n}'.encode()).hexdigest()[:20]}"


async def within_run(state: ThreadState, work: Callable[[BuiltinState], Awaitable[JSON]]) -> ToolResult:
    """Return the result of a built-in tool: the value of `work`, or an error if it is rejected or there is no run.

    `work` must raise `InvalidRequest` before its first effect, so that a failed call has no effects.
    """
    if not isinstance(state, BuiltinState):
        return ToolResult.fail("Built-in tools can only be called within a run.", error_code="outside_run")
    state.is_builtin = True
    try:
        return ToolResult.ok(await work(state))
    except InvalidRequest as error:
        return ToolResult.fail(error.message, error_code=error.code)
