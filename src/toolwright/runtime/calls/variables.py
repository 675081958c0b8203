"""Variables that do not resolve: what is missing, and the run that waits for it (D4)."""

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
from toolwright.runtime.context.changes import Changes
from toolwright.runtime.context.commit import Answered
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env.env import ThreadEnv
from toolwright.wire.event import run_event

EnvFor: TypeAlias = Callable[[ActiveAgent], ThreadEnv]
"""Env of a thread for an active agent."""


def lacking(env: ThreadEnv, variables: Iterable[Variable], tool: str | None = None) -> tuple[Variable, ...]:
    """The required ones that have no value. An empty text is one; one that cannot be read is none."""
    return tuple([each for each in variables if each.required and not _resolves(env, each.name, tool)])


def missing_for(context: RunContext, tool: Tool) -> tuple[Variable, ...]:
    """The variables that a call of the tool is missing, by what is known of the env."""
    below = context.active.nested.get(tool.name)
    if below is not None:
        return missing_of(context.env_for, below)
    return lacking(context.env, tool.variables, tool.name) if tool.variables else ()


def needed_by(context: RunContext, tool: Tool) -> Sequence[Variable]:
    """The variables that a call of the tool asks for."""
    below = context.active.nested.get(tool.name)
    return tool.variables if below is None else below.variables


def changed_for(context: RunContext, tool: Tool, changes: Changes) -> bool:
    """Return whether the changes are of values that a call of the tool asks for: then they are not known yet."""
    names = {change.name for change in changes.env if change.owner == context.thread.id}
    return bool(names) and any(each.name in names for each in needed_by(context, tool))


async def missing_variables(context: RunContext) -> tuple[Variable, ...]:
    """The variables that are missing before a model is asked, the env read again."""
    await context.retry_until_available(context.look_at_env)
    active = context.active
    return missing_of(context.env_for, active) if active.variables else ()


def still_missing(env_for: EnvFor, active: ActiveAgent, asked: Collection[JSON]) -> tuple[Variable, ...]:
    """The variables that a parked run still lacks, of those that it waits for; only what is needed is missing."""
    return tuple([each for each in missing_of(env_for, active) if each.name in asked])


async def park_for(context: RunContext, missing: tuple[Variable, ...]) -> Answered:
    """The run waits for values. It comes round again, and so sees what was set while it parked."""
    request = VariablesRequest(
        id=context.new_id("req"),
        thread_id=context.thread.id,
        kind="run",
        agent=context.active.agent.name,
        required=typed(context.active.types, missing, context.env.names()),
        created_at=context.clock.now(),
    )
    waiting = waiting_json(request)
    run = changed(context.run, status="waiting", waiting={"reason": "variables", **waiting})
    changes = Changes(events=[run_event(run), EventDraft(type="variables.required", payload=waiting)])
    changes.effects += (OpenRequest(thread_id=context.thread.id, request=request),)
    changes.leaving = Leaving(gen=context.gen, due=context.clock.now())
    return await context.commit(Park, changes, run)


def typed(types: EnvTypes, missing: Sequence[Variable], needed: Collection[str] = ()) -> tuple[Variable, ...]:
    """The variables as they are asked for: one that models are shown, since it is designated, is text (D6)."""
    among = {*needed, *[each.name for each in missing]}
    return tuple([changed(each, type=types.of(each.name, among)) for each in missing])


def waiting_json(request: VariablesRequest) -> JSONObject:
    """`{requestId, missing, variablesEndpoint}`."""
    names: list[JSON] = [each.name for each in request.required]
    return {
        "requestId": request.id,
        "missing": names,
        "variablesEndpoint": f"/threads/{request.thread_id}/variables/{request.id}",
    }


def missing_of(env_for: EnvFor, active: ActiveAgent) -> tuple[Variable, ...]:
    """Return the missing variables of an active agent. Those of a tool can be configured for that tool alone."""
    env = env_for(active)
    own = lacking(env, active.prompt.variables)
    tools = [each for tool in active.tools for each in lacking(env, tool.variables, tool.name)]
    below = [each for nested in active.nested.values() for each in missing_of(env_for, nested)]
    if not active.mcp:
        return merged([*own, *tools, *below])
    servers = [NamedVariable(name, "secret") for server in active.mcp for name in server.variables]
    return merged([*own, *tools, *below, *lacking(env, servers)])


def _resolves(env: ThreadEnv, name: str, tool: str | None) -> bool:
    try:
        return env.get(name, tool=tool) is not None
    except CannotUnseal:
        return False
