"""Missing variables, and the suspension of runs that need them (D4)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvTypes, NamedVariable, Variable, VariablesRequest, merged
from toolwright.core.errors import CannotUnseal
from toolwright.core.journal.child_effects import OpenRequest
from toolwright.core.journal.units import Leaving, Park
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.event import EventDraft
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Answered, Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env import ThreadEnv
from toolwright.wire.event import run_event

EnvFor: TypeAlias = Callable[[ActiveAgent], ThreadEnv]
"""Env of a thread for an active agent."""


def without_value(
    env: ThreadEnv, variables: Iterable[Variable], tool: str | None = None
) -> tuple[Variable, ...]:
    """Return the required variables without a value. An empty text is a value; an undecryptable one is not."""
    return tuple([each for each in variables if each.required and not _resolves(env, each.name, tool)])


def missing_for(context: RunContext, tool: Tool) -> tuple[Variable, ...]:
    """Return the missing variables of a call of the tool, according to the env that the run has read."""
    nested = context.active.nested.get(tool.name)
    if nested is not None:
        return missing_of(context.env_for, nested)
    return without_value(context.env, tool.variables, tool.name) if tool.variables else ()


def variables_of(context: RunContext, tool: Tool) -> Sequence[Variable]:
    """Return the variables of a call of the tool."""
    nested = context.active.nested.get(tool.name)
    return tool.variables if nested is None else nested.variables


def changed_for(context: RunContext, tool: Tool, changes: Changes) -> bool:
    """Return whether the changes set variables of the tool: their values are not known until the commit."""
    names = {change.name for change in changes.env if change.owner == context.thread.id}
    return bool(names) and any(each.name in names for each in variables_of(context, tool))


async def missing_variables(context: RunContext) -> tuple[Variable, ...]:
    """Re-read the env and return the variables that are missing before a model is called."""
    await context.retry_until_available(context.reload_env)
    active = context.active
    return missing_of(context.env_for, active) if active.variables else ()


def still_missing(env_for: EnvFor, active: ActiveAgent, requested: Collection[JSON]) -> tuple[Variable, ...]:
    """Return the variables that are still missing for a suspended run, among the `requested` names."""
    return tuple([each for each in missing_of(env_for, active) if each.name in requested])


async def park_for(context: RunContext, missing: tuple[Variable, ...]) -> Answered:
    """Suspend the run for missing variables. It is checked again at once, for values set in the meantime."""
    request = VariablesRequest(
        id=context.new_id("req"),
        thread_id=context.thread.id,
        kind="run",
        agent=context.active.agent.name,
        required=with_effective_types(context.active.types, missing, context.env.names()),
        created_at=context.clock.now(),
    )
    waiting = waiting_json(request)
    run = changed(context.run, status="waiting", waiting={"reason": "variables", **waiting})
    changes = Changes(events=[run_event(run), EventDraft("variables.required", waiting)])
    changes.effects += (OpenRequest(thread_id=context.thread.id, request=request),)
    changes.leaving = Leaving(gen=context.gen, due=context.clock.now())
    return await context.write(Park, changes, run)


def with_effective_types(
    types: EnvTypes, missing: Sequence[Variable], needed: Collection[str] = ()
) -> tuple[Variable, ...]:
    """Return the variables as requested: a variable that is shown to models is text, not a secret (D6)."""
    among = {*needed, *[each.name for each in missing]}
    return tuple([changed(each, type=types.type_of(each.name, among)) for each in missing])


def waiting_json(request: VariablesRequest) -> JSONObject:
    """The JSON of the suspended run: `{requestId, missing, variablesEndpoint}`."""
    names: list[JSON] = [each.name for each in request.required]
    return {
        "requestId": request.id,
        "missing": names,
        "variablesEndpoint": f"/threads/{request.thread_id}/variables/{request.id}",
    }


def missing_of(env_for: EnvFor, active: ActiveAgent) -> tuple[Variable, ...]:
    """Return the missing variables of an active agent. A tool's variables can be set for that tool alone."""
    env = env_for(active)
    own = without_value(env, active.prompt.variables)
    tools = [each for tool in active.tools for each in without_value(env, tool.variables, tool.name)]
    below = [each for nested in active.nested.values() for each in missing_of(env_for, nested)]
    if not active.mcp:
        return merged([*own, *tools, *below])
    servers = [NamedVariable(name, "secret") for server in active.mcp for name in server.variables]
    return merged([*own, *tools, *below, *without_value(env, servers)])


def _resolves(env: ThreadEnv, name: str, tool: str | None) -> bool:
    try:
        return env.get(name, tool=tool) is not None
    except CannotUnseal:
        return False
