"""Tools of a step: the prompt's own tools, optional tools, and the tools for resumable agents (S0 §5, §6)."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import SUBAGENT_CREATE, SUBAGENT_MESSAGE
from toolwright.core.env.env import EnvVar
from toolwright.core.errors import CannotUnseal, InvalidRequest
from toolwright.core.journal.agent_effects import HoldMcpTool
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Result
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.threads.compaction import READ_RESULT, refers
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import QueuedCall
from toolwright.core.tools.relations import AgentCall, Immediate, Lifecycle, SubagentToolConfig, is_on
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env import ThreadEnv
from toolwright.runtime.mcp import McpOffers
from toolwright.wire.event import mcp_held_event
from toolwright.wire.text import readable

MAX_CACHED_AGENTS = 1_000  # active agents with their computed tools

LifecycleTools = Callable[[Sequence[AgentCall], Sequence[AgentCall]], Sequence[Tool]]
"""The tools for resumable agents: given the existing agents, and those of which a child can be created."""
_PATHS: JSONObject = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Paths of files of this thread to copy to it.",
}
MAX_GROUPS = 100  # maximum children of one relation


@dataclass(frozen=True, slots=True)
class ImmediateCall:
    """A call that a prompt makes, and the variables of its child."""

    call: QueuedCall
    values: Mapping[str, EnvVar]


class StepTools:
    """Computes the tools offered to an agent from the flags, children and MCP servers of its thread."""

    def __init__(
        self,
        store: Store,
        lifecycle: LifecycleTools,
        mcp: McpOffers,
        with_reader: Callable[[ActiveAgent, bool], ActiveAgent],
    ) -> None:
        self.with_reader = with_reader
        self._store = store
        self._lifecycle = lifecycle
        self._mcp = mcp
        self._ready: OrderedDict[object, tuple[ActiveAgent, ActiveAgent]] = OrderedDict()

    async def offered(self, context: RunContext, base: ActiveAgent) -> ActiveAgent:
        """Return the active agent with the tools of this step. The object is the same while nothing changes."""
        offered = await self._offered(context, base)
        rows = context.root.compactions
        reads = rows or any(call.name == READ_RESULT for call in context.root.unanswered())
        return self.with_reader(offered, refers(rows.values())) if reads else offered

    async def _offered(self, context: RunContext, base: ActiveAgent) -> ActiveAgent:
        if not base.relations and not base.mcp:
            return base
        await context.retry_until_available(context.reload_env)
        mcp = await context.retry_until_available(lambda: self._mcp.tools_for(base, context.env_for(base)))
        if mcp.news:
            held = [each for each in mcp.news if isinstance(each, HoldMcpTool)]
            events = [mcp_held_event(each.server, each.tool) for each in held]
            await context.write(Result, Changes(events=events, effects=mcp.news), context.run)
        on = [each for each in base.relations if _enabled(context.env_for(base), each)]
        resumable = [each for each in on if each.config.resumable]
        free = await self._free(context, resumable)
        key = (
            id(base),
            frozenset([each.config.name for each in on]),
            frozenset([each.config.name for each in free]),
            mcp.key,
        )
        ready = self._ready.get(key)
        if ready is not None and ready[0] is base:
            return ready[1]
        off = {each.config.name for each in base.relations if each not in on}
        tools = [
            tool for tool in base.tools if not (isinstance(tool.relation, AgentCall) and tool.name in off)
        ]
        variant = base if len(tools) == len(base.tools) and not resumable and not mcp.tools else None
        if variant is None:
            offered = self._lifecycle(resumable, free) if resumable else ()
            all_tools = self._lifecycle(resumable, resumable) if resumable else ()
            variant = base.offering([*tools, *offered, *mcp.tools], [*tools, *all_tools, *mcp.tools])
        if mcp.instructions:
            variant = changed(variant, instructions=mcp.instructions)
        self._ready[key] = base, variant
        if len(self._ready) > MAX_CACHED_AGENTS:
            self._ready.popitem(last=False)
        return variant

    async def _free(self, context: RunContext, resumable: Sequence[AgentCall]) -> list[AgentCall]:
        """Return the agents of which another child can be created."""
        if not any(each.config.resumable and each.config.resumable.max_instances for each in resumable):
            return [*resumable]
        alive = await context.retry_until_available(lambda: self._store.children.living(context.thread.id))
        return [each for each in resumable if has_room(each, alive.get(each.agent_id, 0))]

    async def immediate(self, context: RunContext) -> list[ImmediateCall]:
        """Return the calls that a prompt makes when it becomes active. Raises `InvalidRequest`."""
        active = context.active
        calls: list[ImmediateCall] = []
        for each in active.relations:
            if not each.config.immediate or not _enabled(context.env, each):
                continue
            for group in groups(each.config, context.env):
                arguments = immediate_arguments(each, group, context.root.messages, context.thread.arguments)
                if each.config.resumable:
                    name = SUBAGENT_CREATE
                    arguments = {"agent": each.config.name, **arguments}
                else:
                    name = each.config.name
                queued = QueuedCall(name=name, arguments=dumps_unescaped(arguments))
                calls.append(ImmediateCall(queued, group.values or {}))
        return calls


def has_room(relation: AgentCall, alive: int) -> bool:
    """Return whether another child of this agent can be created, given the number of live children."""
    resumable = relation.config.resumable
    most = resumable.max_instances if resumable else None
    return most is None or alive < most


def _enabled(env: ThreadEnv, relation: AgentCall) -> bool:
    flag = relation.config.optional
    if flag is None:
        return True
    try:
        var = env.get(flag)
    except CannotUnseal:
        return False
    return is_on(None if var is None else var.value)


def callable_tools(active: ActiveAgent) -> Toolset:
    """Return all tools that the agent can call at any step, including optional and lifecycle tools."""
    resumable = [each for each in active.relations if each.config.resumable]
    return Toolset([*active.tools, *lifecycle_tools(resumable, resumable)]) if resumable else active.tools


def lifecycle_tools(relations: Sequence[AgentCall], free: Sequence[AgentCall]) -> Sequence[Tool]:
    """Return the lifecycle tools for `relations`. `free` are those of which another child can be created."""
    message = Tool(
        name=SUBAGENT_MESSAGE,
        description="Send a message to an agent that you have created, by its reference. An idle agent resumes.",
        kind="agent",
        parameters=_object(
            {
                "reference": _text("The reference that subagent_create returned."),
                "message": _text(),
                "attachments": _PATHS,
            },
            ["reference", "message"],
        ),
        relation=Lifecycle(verb="message", relations=tuple(relations)),
    )
    if not free:
        return [message]
    listed = "".join(_agent_line(each) for each in free)
    names: list[JSON] = [each.config.name for each in free]
    create = Tool(
        name=SUBAGENT_CREATE,
        description=f"Create an agent that stays available for further messages. The agents are:{listed}",
        kind="agent",
        parameters=_object(
            {
                "agent": {"type": "string", "enum": names},
                "name": {"type": "string", "pattern": "\\S", "description": "A name of your choice for it."},
                "message": _text("Its first message."),
                "attachments": _PATHS,
                "arguments": {"type": "object"},
            },
            ["agent", "name"],
        ),
        relation=Lifecycle(verb="create", relations=tuple(free)),
    )
    return [create, message]


def _agent_line(each: AgentCall) -> str:
    """Return a line that describes an agent and the schema of its arguments."""
    schema_text = "" if each.schema is None else f" Its arguments, by JSON Schema: {readable(each.schema)}"
    return f"\n- {each.config.name}: {each.about}{schema_text}"


def _text(description: str | None = None) -> JSONObject:
    return {"type": "string"} if description is None else {"type": "string", "description": description}


def _object(properties: JSONObject, required: list[JSON]) -> JSONObject:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Group:
    """A child to be created: its name and first message, if variables define them, and its variables."""

    name: str | None = None
    message: str | None = None
    values: Mapping[str, EnvVar] | None = None


def groups(config: SubagentToolConfig, env: ThreadEnv) -> list[Group]:
    """Return one group for each suffix that all names share, or a single group if no variables are related.

    Raises `InvalidRequest` if a value that models are shown is a secret.
    """
    immediate = config.immediate
    if not isinstance(immediate, Immediate):
        return [Group()]
    related = immediate.scoped_env or tuple(
        [n for n in (immediate.name_env, immediate.description_env) if n is not None]
    )
    if not related:
        return [Group()]
    children = [_group(immediate, suffix, env) for suffix in sorted(_suffixes(related, env))]
    if len(children) > MAX_GROUPS:
        raise InvalidRequest(f"At most {MAX_GROUPS} children run at once, not {len(children)}.")
    return children


def immediate_arguments(
    relation: AgentCall, group: Group, messages: Sequence[Message], arguments: Mapping[str, JSON] | None
) -> JSONObject:
    """Return the arguments of the call. The first message is the group's, the thread's, or the last one.

    An agent with its own schema gets the thread's arguments that the schema defines.
    """
    config, own = relation.config, _own_arguments(relation.schema, arguments)
    property_ = config.init_user_message_property
    message: JSON = group.message
    if message is None and property_ is not None and arguments is not None:
        message = arguments.get(property_)
    if message in (None, ""):
        message = next((m.content for m in reversed(messages) if m.role == "user" and m.content), config.name)
    name = group.name or (config.name if config.resumable else None)
    if config.resumable:
        inner = own if own is None or property_ is None else {**own, property_: message}
        return {"message": message, "name": name, **({} if inner is None else {"arguments": inner})}
    spoken = property_ or ("message" if own is None else None)
    child_arguments: JSONObject = {**(own or {}), **({} if spoken is None else {spoken: message})}
    name_property = config.init_agent_name_property or ("name" if own is None else None)
    return (
        child_arguments if name is None or name_property is None else {**child_arguments, name_property: name}
    )


def _own_arguments(schema: JSONObject | None, arguments: Mapping[str, JSON] | None) -> JSONObject | None:
    """Return the thread's arguments that the agent's schema defines, or None for an agent without a schema."""
    if schema is None:
        return None
    properties = schema.get("properties")
    names = properties if isinstance(properties, dict) else {}
    return {name: value for name, value in (arguments or {}).items() if name in names}


def _suffixes(names: Sequence[str], env: ThreadEnv) -> set[str]:
    """Return the suffixes (empty, or `_…`) for which all these names have a value."""
    set_names = env.names()
    suffixes = [
        {n[len(name) :] for n in set_names if n == name or n.startswith(f"{name}_")} for name in names
    ]
    return set[str].intersection(*suffixes) - {"_"}


def _group(immediate: Immediate, suffix: str, env: ThreadEnv) -> Group:
    name, description = (
        _text_value(immediate.name_env, suffix, env),
        _text_value(immediate.description_env, suffix, env),
    )
    values = {each: env.get(each + suffix) for each in immediate.scoped_env}
    return Group(name, description, {each: value for each, value in values.items() if value is not None})


def _text_value(name: str | None, suffix: str, env: ThreadEnv) -> str | None:
    value = None if name is None else env.get(name + suffix)
    if value is not None and value.type == "secret":
        raise InvalidRequest(f"{name}{suffix} is shown to models: store it as text, not as a secret.")
    return value.value if value is not None and value.value.strip() else None
