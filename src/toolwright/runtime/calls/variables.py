"""Missing variables, and the suspension of runs that need them (D4)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import EnvTypes, NamedVariable, Variable, VariablesRequest, merged
from toolwright.core.errors import CannotUnseal
from toolwright.core.journal.child_effects import OpenRequest
from toolwright.core.journal.effects import SetTimer
from toolwright.core.journal.units import Leaving, Park
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.state.state import ELICIT_TIMEOUT
from toolwright.core.threads.approval import Terms
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.threads.event import EventDraft
from toolwright.core.tools.approval import is_needed
from toolwright.core.tools.pipeline import PreparedCall, prepare
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.calls.request_state import resolver
from toolwright.runtime.context.commit import Answered, Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env import ThreadEnv
from toolwright.wire.event import run_event, tool_event

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
    changes = Changes(events=[run_event(run), EventDraft(type="variables.required", payload=waiting)])
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


def needs_approval(context: RunContext, call: Call, tool: Tool) -> bool | None:
    """Return whether the call must wait for an approval, or None until its tool's predicate is evaluated."""
    if tool.approval is None or call.approval is not None:
        return False
    return True if tool.approval.when is None else context.decided.get(call.id)


async def decide(context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
    """Evaluate the tool's approval predicate for these arguments, if it has one."""
    tool = tools.get(call.name)
    if tool is None or tool.approval is None or needs_approval(context, call, tool) is not None:
        return
    resolve = resolver(context, Changes(), call)
    prepared = await in_thread_if_large(
        call.arguments, prepare, tools, call.name, call.arguments, call.id, resolve
    )
    if not isinstance(prepared, PreparedCall):  # invalid arguments need no approval
        return
    context.decided[call.id] = True  # also if the run is cancelled before the predicate returns
    scope = asyncio.timeout(None)
    with suppress(TimeoutError):
        async with scope:
            context.abort.within(scope)
            context.decided[call.id] = await is_needed(tool.approval, call.name, prepared.arguments)
    context.abort.left(scope)


def approval_terms(context: RunContext, changes: Changes, call: Call, tool: Tool) -> Terms:
    """Return the terms of the call's approval. Adds its timer and its event to the changes.

    A call that is waited for in memory expires after at most an hour.
    """
    approval, validator = tool.approval, tool.validator
    assert approval is not None and validator is not None, "the call needs an approval"
    in_memory = context.holder is not None or call.id in context.nested
    seconds = approval.expires_in
    if in_memory:
        seconds = ELICIT_TIMEOUT if seconds is None else min(seconds, ELICIT_TIMEOUT)
    if seconds is not None:
        due = context.clock.now() + timedelta(seconds=seconds)
        changes.effects += (SetTimer(name=timer_of(call.id), due=due),)
    changes.events.append(tool_event("tool.waiting", call.id, call.name, {"reason": "approval"}))
    return Terms(
        by=approval.by if isinstance(approval.by, str) else tuple(approval.by),
        seconds=seconds,
        edit=approval.edit,
        reason=approval.reason,
        schema=validator.schema
        if approval.edit and tool.meta is None
        else None,  # references are replaced first
    )
