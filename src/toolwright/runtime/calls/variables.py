"""Variables that do not resolve: what is missing, and the run that waits for it (D4)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.types import EnvTypes
from toolwright.core.env.variable import Variable, VariablesRequest, merged
from toolwright.core.errors import CannotUnseal
from toolwright.core.journal.child_effects import OpenRequest
from toolwright.core.journal.units import Leaving, Park
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.event import EventDraft
from toolwright.core.tools.tool import Tool
from toolwright.runtime.env.env import ThreadEnv
from toolwright.runtime.hold.hold import Answered, Hold
from toolwright.runtime.hold.move import Move
from toolwright.wire.event import run_event

EnvFor: TypeAlias = Callable[[ActiveAgent], ThreadEnv]
"""What holds in a thread for a voice."""


def lacking(env: ThreadEnv, variables: Iterable[Variable], tool: str | None = None) -> tuple[Variable, ...]:
    """The required ones that have no value. An empty text is one; one that cannot be read is none."""
    return tuple([each for each in variables if each.required and not _resolves(env, each.name, tool)])


def lacking_for(hold: Hold, tool: Tool) -> tuple[Variable, ...]:
    """What is missing for a call of the tool, by what is known of the env."""
    below = hold.voice.nested.get(tool.name)
    if below is not None:
        return lacking_of(hold.env_for, below)
    return lacking(hold.env, tool.variables, tool.name) if tool.variables else ()


def needed_by(hold: Hold, tool: Tool) -> Sequence[Variable]:
    """What a call of the tool asks for."""
    below = hold.voice.nested.get(tool.name)
    return tool.variables if below is None else below.variables


def changed_for(hold: Hold, tool: Tool, move: Move) -> bool:
    """Whether the move changes values that a call of the tool asks for: then they are not known yet."""
    names = {change.name for change in move.env if change.owner == hold.thread.id}
    return bool(names) and any(each.name in names for each in needed_by(hold, tool))


async def lacking_now(hold: Hold) -> tuple[Variable, ...]:
    """What is missing before a model is asked, the env read anew."""
    voice = hold.voice
    if voice.variables or hold.thread.parent_id is not None:
        await hold.insist(hold.look_at_env)
    return lacking_of(hold.env_for, voice) if voice.variables else ()


def still_lacking(env_for: EnvFor, voice: ActiveAgent, asked: Collection[JSON]) -> tuple[Variable, ...]:
    """What a parked run still misses of the names that it waits for; only what is needed is missing."""
    return tuple([each for each in lacking_of(env_for, voice) if each.name in asked])


async def park_for(hold: Hold, missing: tuple[Variable, ...]) -> Answered:
    """The run waits for values. It comes round once more, and so sees what was set while it parked."""
    request = VariablesRequest(
        id=hold.new_id("req"),
        thread_id=hold.thread.id,
        kind="run",
        agent=hold.voice.agent.name,
        required=typed(hold.voice.types, missing, hold.env.names()),
        created_at=hold.clock.now(),
    )
    waiting = waiting_json(request)
    run = replace(hold.run, status="waiting", waiting={"reason": "variables", **waiting})
    move = Move(events=[run_event(run), EventDraft(type="variables.required", payload=waiting)])
    move.effects.append(OpenRequest(thread_id=hold.thread.id, request=request))
    move.leaving = Leaving(gen=hold.gen, due=hold.clock.now())
    return await hold.commit(Park, move, run)


def typed(types: EnvTypes, missing: Sequence[Variable], known: Collection[str] = ()) -> tuple[Variable, ...]:
    """The variables as they are asked for: one that models are shown, since it is designated, is text (D6)."""
    among = {*known, *[each.name for each in missing]}
    return tuple([replace(each, type=types.of(each.name, among)) for each in missing])


def waiting_json(request: VariablesRequest) -> JSONObject:
    """`{requestId, missing, variablesEndpoint}`."""
    names: list[JSON] = [each.name for each in request.required]
    return {
        "requestId": request.id,
        "missing": names,
        "variablesEndpoint": f"/threads/{request.thread_id}/variables/{request.id}",
    }


def lacking_of(env_for: EnvFor, voice: ActiveAgent) -> tuple[Variable, ...]:
    """What a voice lacks. A tool's own variables may come from what is configured for that tool alone."""
    env = env_for(voice)
    own = lacking(env, voice.prompt.variables)
    tools = [each for tool in voice.tools for each in lacking(env, tool.variables, tool.name)]
    below = [each for nested in voice.nested.values() for each in lacking_of(env_for, nested)]
    return merged([*own, *tools, *below])


def _resolves(env: ThreadEnv, name: str, tool: str | None) -> bool:
    try:
        return env.get(name, tool=tool) is not None
    except CannotUnseal:
        return False
