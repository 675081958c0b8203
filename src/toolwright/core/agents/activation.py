"""Activation of agents: resolve names, and build tools from the prompts and agents that a prompt calls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from toolwright.core.agents.active import ActiveAgent, passed_secrets
from toolwright.core.agents.agent import LIFECYCLE, WRITE_PROMPT, Agent, Side, reserved
from toolwright.core.agents.prompt import Callee, Env, Prompt
from toolwright.core.env.env import SECRETS, EnvTypes, NamedVariable, ShownNames, merged
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.hooks import Hooks, points_of
from toolwright.core.json_value import JSON, JSONObject, plain
from toolwright.core.mcp.config import chosen_servers
from toolwright.core.model import ModelSettings
from toolwright.core.schemas.output import Output, OutputForm
from toolwright.core.text import hint
from toolwright.core.threads.compaction import READ_RESULT
from toolwright.core.threads.run import Side as SideName
from toolwright.core.tools.mcp import McpServer
from toolwright.core.tools.relations import (
    AgentCall,
    AgentTool,
    Handoff,
    Immediate,
    PromptCall,
    SubagentToolConfig,
    SubpromptConfig,
)
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.core.value import changed


def check_prompt_tool(prompt: Prompt, callees: Sequence[Tool | AgentCall]) -> None:
    """Raise `DefinitionError` for a resumable, immediate or optional agent in a prompt that is a tool."""
    for each in callees:
        relation = each.relation if isinstance(each, Tool) else each
        config = relation.config if isinstance(relation, AgentCall) else None
        if config is not None and (config.resumable or config.immediate or config.optional is not None):
            raise DefinitionError(
                f"Prompt {prompt.name!r} is called as a tool: the agent {config.name!r} cannot be resumable, "
                "immediate or optional there."
            )


def check_once(prompt: Prompt, children: Sequence[AgentCall]) -> None:
    """Raise `DefinitionError` if a prompt calls the same agent in two ways."""
    names = [each.config.name for each in children]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DefinitionError(f"Prompt {prompt.name!r} calls the agent {twice!r} in two ways: keep one.")


def check_properties(name: str, parameters: JSONObject, *properties: str | None) -> JSONObject:
    """Return the parameters if they can contain the designated arguments. Raises `DefinitionError` otherwise."""
    for each in properties:
        if each is not None and not takes(parameters, each):
            raise DefinitionError(
                f"{name!r} is called with the property {each!r}, which its schema does not have."
            )
    return parameters


def takes(parameters: JSONObject, name: str) -> bool:
    """Return whether the schema allows a property of that name."""
    properties = parameters.get("properties")
    declared = not isinstance(properties, dict) or name in properties
    return declared or parameters.get("additionalProperties") is not False


class Declared(Protocol):
    """The declarations of the app, by name."""

    @property
    def prompts(self) -> Mapping[str, Prompt]: ...

    @property
    def servers(self) -> Mapping[str, McpServer]: ...

    @property
    def agents_by_name(self) -> Mapping[str, Agent]: ...

    @property
    def callees(self) -> Mapping[str, Tool | Prompt | Agent]: ...

    @property
    def parallel(self) -> int | None: ...

    @property
    def hooks(self) -> Sequence[Hooks]: ...


def activated(agent: Agent, app: Declared, env: Env, model: object) -> ActiveAgent:
    """Return the agent with all its sides, ready to run. `model` replaces the model of its prompts.

    Raises `DefinitionError` for an unknown name and for a prompt that calls itself.
    """
    activation = _Activation(agent, app, model)
    bare: dict[SideName, ActiveAgent] = {
        name: activation.side(name, side) for name, side in agent.sides.items()
    }
    types = _types(bare.values())
    active_sides: dict[SideName, ActiveAgent] = {
        name: _valued(each, types, env) for name, each in bare.items()
    }
    secret_tenvs = frozenset[str]().union(
        *(need.secrets for each in _all(active_sides.values()) for need in each.needs),
        *(passed_secrets(each.relations, app.callees, app.prompts) for each in _all(active_sides.values())),
    )
    secrets = frozenset[tuple[str, str]]().union(
        *(_secrets(each, secret_tenvs) for each in _all(active_sides.values()))
    )
    scoped = frozenset([v.name for each in active_sides.values() for v in each.variables if v.scoped])
    hidden = frozenset([name for each in _all(active_sides.values()) for name in _hidden(each)])
    has_relations = any(each.relations for each in _all(active_sides.values()))
    has_schema_tools = any(
        tool.meta is not None for each in _all(active_sides.values()) for tool in each.tools
    )
    sides: dict[SideName, ActiveAgent] = {}

    def whole(active: ActiveAgent) -> ActiveAgent:
        nested = {name: whole(each) for name, each in active.nested.items()}
        return changed(
            active,
            sides=sides,
            nested=nested,
            secrets=secrets,
            secret_tenvs=secret_tenvs,
            scoped=scoped,
            hidden=hidden,
            has_relations=has_relations,
            has_schema_tools=has_schema_tools,
        )

    sides.update({name: whole(each) for name, each in active_sides.items()})
    return sides["side_a"]


class _Activation:
    """Resolves the prompts and callees of one agent."""

    def __init__(self, agent: Agent, app: Declared, model: object) -> None:
        self._agent = agent
        self._app = app
        self._model = model

    def side(self, name: SideName, side: Side) -> ActiveAgent:
        """Return the agent with the prompt of one side."""
        prompt = self._prompt_of(self._agent, name)
        active = self._with_form(self._through(prompt, name, side, ()), prompt)
        names = {*active.by_name, *reserved(self._agent.toolkits)} - {READ_RESULT}
        for ending in side.ending:
            if ending not in names:
                raise DefinitionError(
                    f"Agent {self._agent.name!r}: {name} ends with the tool {ending!r}, which its prompt does not have."
                    f"{hint(ending, names)}"
                )
            tool = active.by_name.get(ending) if ending == side.stop_tool else None
            property_ = side.stop_tool_response_property
            if tool is not None and property_ is not None and not takes(tool.parameters, property_):
                raise DefinitionError(
                    f"Agent {self._agent.name!r}: {name} answers with the property {property_!r}, "
                    f"which its tool {ending!r} does not take."
                )
        return active

    def _with_form(self, active: ActiveAgent, prompt: Prompt) -> ActiveAgent:
        """Return the agent with the required form of its answers if its prompt declares an output."""
        if not isinstance(prompt.output, Output):
            return active
        if self._agent.type == "dual_ai":
            raise DefinitionError(
                f"Agent {self._agent.name!r} talks with itself, so its prompt {prompt.name!r} can have no output."
            )
        return changed(active, form=OutputForm(prompt.output))

    def _through(self, prompt: Prompt, side: SideName, stops: Side, callers: tuple[str, ...]) -> ActiveAgent:
        if prompt.name in callers:
            raise DefinitionError(
                f"The prompt {prompt.name!r} calls itself: {' → '.join([*callers, prompt.name])}."
            )
        callees = [self._callee(each, prompt) for each in prompt.tools]
        if callers:
            check_prompt_tool(prompt, callees)
        tools = Toolset([each for each in callees if isinstance(each, Tool)])
        relations = [each.relation if isinstance(each, Tool) else each for each in callees]
        children = tuple([each for each in relations if isinstance(each, AgentCall)])
        check_once(prompt, children)
        self._check_names(prompt, tools, children)
        nested = {
            each.config.name: self._through(
                self._app.prompts[each.config.name], side, Side(prompt), (*callers, prompt.name)
            )
            for each in relations
            if isinstance(each, PromptCall)
        }
        tenvs = cast("JSONObject", plain({**prompt.tenvs, **self._agent.tenvs}))  # a dict stays an object
        servers = () if callers else chosen_servers(self._agent.servers, self._app.servers, self._agent.name)
        return ActiveAgent(
            agent=self._agent,
            settings=cast("ModelSettings | None", prompt.model_settings),  # as it was declared
            agent_id=self._agent.id,
            parallel=prompt.parallel or self._agent.parallel or self._app.parallel or 1,
            hooks=points_of([*self._app.hooks, *self._agent.hooks, *prompt.hooks]),
            side=side,
            stops=stops,
            prompt=prompt,
            model=prompt.model if self._model is None else self._model,
            tools=tools,
            by_name={tool.name: tool for tool in tools},
            who=(self._agent.name, prompt.name) if not callers else (prompt.name,),
            tenvs=tenvs,
            needs=tuple([tool.needs for tool in tools if tool.needs is not None]),
            variables=merged(
                [
                    *prompt.variables,
                    *[each for tool in tools for each in tool.variables],
                    *[each for below in nested.values() for each in below.variables],
                    *[NamedVariable(name, "secret") for each in servers for name in each.variables],
                ]
            ),
            mcp=servers,
            env=(),
            tool_env={},
            relations=children,
            nested=nested,
            sides={},
            secret_tenvs=frozenset(),
            secrets=frozenset(),
            types=SECRETS,
            scoped=frozenset(),
            hidden=frozenset(),
            has_relations=False,
            has_schema_tools=False,
            is_dynamic=prompt.dynamic is not None or any(tool.available is not None for tool in tools),
        )

    def _callee(self, callee: Callee, prompt: Prompt) -> Tool | AgentCall:
        """Return the callee if it is a tool, otherwise a tool that calls the named agent or prompt.

        For a resumable agent, only its configuration as a call is read here.
        """
        if isinstance(callee, Tool):
            return cast("Tool", callee)  # not one with unknown parameters
        name = callee if isinstance(callee, str) else _name_in(callee, prompt)
        declared = self._app.callees.get(name)
        if declared is None:
            raise DefinitionError(self._unknown(name, prompt))
        if isinstance(declared, Tool):
            if not isinstance(callee, str):
                raise DefinitionError(f"Prompt {prompt.name!r}: {name!r} is a tool and is called directly.")
            return declared
        if isinstance(declared, Prompt):
            return _prompt_tool(declared, _config(SubpromptConfig, callee, name))
        if isinstance(callee, str) and declared.type == "ai_human":
            return self._handoff(declared)
        if isinstance(callee, AgentTool):
            return self._child(declared, callee.config, callee.description)
        return self._child(declared, _config(SubagentToolConfig, callee, name), declared.tool_description)

    def _unknown(self, name: str, prompt: Prompt) -> str:
        if name in self._app.prompts:
            return f"Prompt {prompt.name!r} calls the prompt {name!r}, which is not exposed as a tool."
        if name in self._app.agents_by_name:
            return (
                f"Prompt {prompt.name!r} names the agent {name!r}, which is not exposed as a tool. To have it answer a "
                "call, put agent.as_tool('…') in tools=; to let it take the conversation over, give it "
                "expose_as_tool=True and a tool_description."
            )
        return (
            f"Prompt {prompt.name!r} names the tool {name!r}, which the app does not have."
            f"{hint(name, self._app.callees) or ' Put the function itself there, or into App(tools=…).'}"
        )

    def _handoff(self, agent: Agent) -> Tool:
        parameters = self._prompt_of(agent).parameters()
        if self._prompt_of(agent).required_schema is None:
            parameters = {name: part for name, part in parameters.items() if name != "required"}
        return Tool(
            name=agent.name,
            description=agent.tool_description,
            kind="agent",
            parameters=parameters,
            validator=self._prompt_of(agent).argument_validator(parameters),
            relation=Handoff(agent_id=agent.id),
        )

    def _child(self, agent: Agent, config: SubagentToolConfig, description: str) -> Tool | AgentCall:
        spoken_to = self._prompt_of(agent)
        own = spoken_to.argument_validator(spoken_to.parameters())
        relation = AgentCall(config=config, agent_id=agent.id, about=description, validator=own)
        immediate = config.immediate
        has_name_env = isinstance(immediate, Immediate) and immediate.name_env is not None
        if config.resumable and config.resumable.receives_messages not in agent.sides:
            raise DefinitionError(
                f"The agent {agent.name!r} has no {config.resumable.receives_messages}: "
                "its side_a receives its messages."
            )
        if config.deps is not None and agent.deps is None:
            raise DefinitionError(
                f"The agent {agent.name!r} declares no deps, so its callers cannot give it any."
            )
        properties = (config.init_user_message_property, config.init_attachments_property)
        if config.resumable:
            if own is not None:
                check_properties(agent.name, own.schema, *properties)
            return relation
        parameters = check_properties(
            agent.name,
            spoken_to.parameters(
                *properties, config.init_agent_name_property or ("name" if has_name_env else None)
            ),
            *properties,
            config.init_agent_name_property,
        )
        return Tool(
            name=agent.name,
            description=description,
            kind="agent",
            parameters=parameters,
            validator=spoken_to.argument_validator(parameters),
            relation=relation,
            requires_approval=config.requires_approval,
        )

    def _prompt_of(self, agent: Agent, name: SideName = "side_a") -> Prompt:
        side = agent.sides[name]
        if isinstance(side.prompt, Prompt):
            return side.prompt
        prompt = self._app.prompts.get(side.prompt)
        if prompt is None:
            raise DefinitionError(
                f"Agent {agent.name!r} names the prompt {side.prompt!r}, which the app does not have."
                f"{hint(side.prompt, self._app.prompts)}{WRITE_PROMPT}"
            )
        return prompt

    def _check_names(self, prompt: Prompt, tools: Toolset, children: tuple[AgentCall, ...]) -> None:
        """Raise `DefinitionError` if a tool has the name of a built-in tool (D11)."""
        lifecycle = LIFECYCLE if any(each.config.resumable for each in children) else ()
        reserved_names = {*reserved(self._agent.toolkits), *lifecycle}
        for tool in tools:
            if tool.name in reserved_names:
                raise DefinitionError(
                    f"Agent {self._agent.name!r}: {tool.name!r} is the name of a built-in tool of its toolkits; "
                    "rename the tool."
                )


def _prompt_tool(prompt: Prompt, config: SubpromptConfig) -> Tool:
    properties = (config.init_user_message_property, config.init_attachments_property)
    parameters = check_properties(prompt.name, prompt.parameters(*properties), *properties)
    return Tool(
        name=prompt.name,
        description=prompt.tool_description,
        kind="prompt",
        parameters=parameters,
        validator=prompt.argument_validator(parameters),
        relation=PromptCall(config=config),
        requires_approval=config.requires_approval,
    )


def _config(config_type: type[Any], callee: object, name: str) -> Any:  # one of two types
    if isinstance(callee, str):
        return config_type(name=name)
    if isinstance(callee, config_type):
        return callee
    if isinstance(callee, Mapping):
        return config_type.model_validate(callee)
    raise DefinitionError(
        f"{name!r} is called with a {config_type.__name__}, not with a {type(callee).__name__}."
    )


def _name_in(callee: Callee, prompt: Prompt) -> str:
    declared_name = cast("Mapping[str, JSON]", callee).get("name") if isinstance(callee, Mapping) else None
    name = getattr(cast("object", callee), "name", declared_name)
    if not isinstance(name, str):
        raise DefinitionError(f"Prompt {prompt.name!r}: a called agent or prompt needs a name.")
    return name


def _all(voices: Iterable[ActiveAgent]) -> Iterable[ActiveAgent]:
    for each in voices:
        yield each
        yield from each.below


def _types(voices: Iterable[ActiveAgent]) -> EnvTypes:
    """Return the declared types of variables that are set as plain text, for the whole agent."""
    through = list(_all(voices))
    relations = [relation.config for each in through for relation in each.relations]
    immediates = [config.immediate for config in relations if isinstance(config.immediate, Immediate)]
    variables = merged(v for active in through for v in active.variables)
    return EnvTypes(
        declared={each.name: each.type for each in variables if not isinstance(each, NamedVariable)},
        flags=frozenset([config.optional for config in relations if config.optional is not None]),
        shown=tuple(
            [
                ShownNames(names=each.designated, related=each.related)
                for each in immediates
                if each.designated
            ]
        ),
    )


def _valued(active: ActiveAgent, types: EnvTypes, env: Env) -> ActiveAgent:
    """Return the active agent and its callees with their default values, which a thread's values override."""
    agent, prompt = active.agent, active.prompt
    try:
        layers = (types.stored(env), types.stored(agent.env), types.stored(prompt.env))
        tool_env = {name: types.stored(own) for name, own in agent.tool_env.items()}
    except InvalidRequest as error:
        raise DefinitionError(f"Agent {agent.name!r}: {error.message}") from error
    nested = {name: _valued(each, types, env) for name, each in active.nested.items()}
    return changed(active, env=layers, tool_env=tool_env, types=types, nested=nested)


def _hidden(active: ActiveAgent) -> Iterable[str]:
    """Yield the names scoped to immediate children, except those used for a child's name or first message."""
    for relation in active.relations:
        immediate = relation.config.immediate
        if isinstance(immediate, Immediate):
            yield from (
                name
                for name in immediate.scoped_env
                if name not in (immediate.name_env, immediate.description_env)
            )


def _secrets(active: ActiveAgent, secret_tenvs: frozenset[str]) -> frozenset[tuple[str, str]]:
    layers = (*active.env, *active.tool_env.values())
    values = {(n, value) for n, value in active.tenvs.items() if n in secret_tenvs and isinstance(value, str)}
    values.update((n, var.value) for layer in layers for n, var in layer.items() if var.type == "secret")
    return frozenset(values)
