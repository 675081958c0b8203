"""View of a run: the state of a thread for hooks and for functions that depend on the run, which only read it."""

from collections.abc import Sequence

from toolwright.core.results import ToolResult
from toolwright.core.threads.thread import Thread
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.state.state import HandlerServices, RunState
from toolwright.runtime.threads.thread_tree import children_of


async def view_of(context: RunContext, services: HandlerServices) -> RunState:
    """Return the state of the run's thread, without a call. Its writes raise `InvalidRequest`, and so do secrets."""
    children: Sequence[Thread] = ()
    if context.may_have_children:
        children = await context.retry_until_available(lambda: children_of(services.store, context.thread.id))
    return RunState(context, None, services, _make_no_call, children)


async def _make_no_call(
    context: RunContext, state: RunState, name: str, arguments: str, built_in: bool
) -> ToolResult:
    """Make no call: `NestedCalls` has refused it, because the state only reads."""
    raise AssertionError("a state without a call makes none")
