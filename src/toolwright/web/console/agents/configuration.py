"""Configuration of an agent: its prompts, tools and MCP servers, and the stored JSON, which can be edited."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, cast

from nicegui import ui
from nicegui.element import Element

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Agent, HomeTools
from toolwright.core.agents.config import check_script
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import EnvVar
from toolwright.core.errors import (
    DefinitionError,
    InvalidConfiguration,
    InvalidRequest,
    NotFound,
    ToolwrightError,
)
from toolwright.core.json_text import NotJson, read_json
from toolwright.core.json_value import JSON, JSONObject, plain
from toolwright.core.limits import CONFIG_VALUES
from toolwright.core.mcp.servers import McpDefinition, McpServerState
from toolwright.core.text import brief, quantity
from toolwright.runtime.agents.agents import AgentView
from toolwright.web.console.browsing import folded
from toolwright.web.console.tools import tool_list, tools_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, code, json_text, nothing, plain_text

MAX_SPACES: Final = 200  # options offered
_HOME: Final = ""  # no space selected: the agent's active space
_KINDS: Final = {"ready": "good", "connecting": "busy", "down": "bad"}
MAX_SHOWN: Final = 100  # tools shown per server
MAX_TOOLS: Final = 200  # items listed
MAX_NAMES: Final = 200  # names of values, per kind
HOME_TOOLS: Mapping[HomeTools, str] = {
    "own": "the user's own data",
    "all": "everything the agent can access",
    "none": "none",
}
MAX_EDITED: Final = 200_000  # characters: a page sends the whole text with each key press


class PreviewPanel:
    """Preview of an agent's prompt, in its active space or in a selected one."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id

    async def draw(self) -> None:
        """Render the prompt and a selection of spaces."""
        with box("section", "section"):
            plain_text("Prompt", "h2")
            plain_text(
                "The prompt as the model would receive it now. Parts that change with each step are sent after the "
                "messages.",
                "p",
                "quiet small",
            )
            spaces = await self._spaces() if self._user_id is None else {}
            if spaces:
                choice = {_HOME: "Its active space", **spaces}
                select = ui.select(choice, value=_HOME, label="Preview in", on_change=self._chosen)
                select.props("outlined dense").classes("search")
            self._place = box("div", "section")
            await self._show(None)

    async def _spaces(self) -> dict[str, str]:
        members = await self._visit.runtime.spaces.memberships(self._agent.entity_id)
        names: dict[str, str] = {}
        for member in members[:MAX_SPACES]:
            try:
                space = await self._visit.runtime.spaces.get(member.space_id)
            except NotFound:
                continue
            names[space.id] = brief(space.name or space.id, 80)
        return names

    async def _chosen(self, event: object) -> None:
        await self._visit.act(self._show(getattr(event, "value", _HOME) or None))

    async def _show(self, space_id: str | None) -> None:
        preview = await self._visit.runtime.prompts.of(self._agent.id, space_id, self._user_id)
        self._place.clear()
        with self._place:
            plain_text(f"{len(preview.prompt)} characters", "p", "quiet small")
            if not preview.prompt:
                nothing("The prompt is empty")
            for part in preview.sections:
                with box("div", "section"):
                    plain_text(f"{part.name}, after the messages" if part.changes else part.name, "h3")
                    code(part.text)


class Servers:
    """Status of the agent's MCP servers, read after the rest of the page because unavailable servers are slow."""

    def __init__(self, visit: Visit, agent: Agent) -> None:
        self._visit = visit
        self._agent = agent

    def draw(self) -> None:
        """Render the section, and fill it when the servers have answered."""
        with box("section", "section"):
            plain_text("MCP servers", "h2")
            self._place = box("div", "stack section")
            with self._place:
                plain_text("Loading …", "p", "quiet")
        self._visit.view.run(self._show())

    async def _show(self) -> None:
        states = await self._visit.runtime.mcp.of(self._agent.id)
        withheld = await self._visit.runtime.mcp.withheld(self._agent.id)
        self._place.clear()
        with self._place:
            for error in withheld[:MAX_SHOWN]:
                about = "The tools" if error.tool is None else f"The tool {error.tool}"
                plain_text(brief(f"{about}: {error.message}", 600), "p", "error")
            if not states:
                plain_text("None.", "p", "quiet")
            for state in states:
                self._server(state)

    def _server(self, state: McpServerState) -> None:
        with box("div", "card stack"):
            with box("div", "row"):
                plain_text(state.name, "span", "title")
                badge(state.status, _KINDS[state.status])
                plain_text(f"{state.transport} {state.protocol or ''}", "span", "quiet small")
            for error in state.faults[:MAX_SHOWN]:
                about = f"{error.tool}: " if error.tool else ""
                plain_text(brief(f"{about}{error.message}", 600), "p", "error")
            for held in state.held[:MAX_SHOWN]:
                self._held(state, held)
            plain_text(quantity(len(state.tools), "tool"), "p", "quiet small")
            with box("div", "row"):
                for tool in state.tools[:MAX_SHOWN]:
                    plain_text(tool.name, "span", "mono")
            if state.prompts:
                plain_text(quantity(len(state.prompts), "prompt"), "p", "quiet small")
                with box("div", "row"):
                    for prompt in state.prompts[:MAX_SHOWN]:
                        arguments = ", ".join([each.name for each in prompt.arguments])
                        plain_text(brief(f"{prompt.name}({arguments})", 600), "span", "mono")

    def _held(self, state: McpServerState, held: McpDefinition) -> None:
        with box("div", "note stack"):
            plain_text(
                f"{held.tool} has changed since it was first called, and is withheld from the model.", "p"
            )
            folded(self._visit, "Current definition", held.definition)
            with box("div", "row"):
                action("Accept", partial(self._accept, state.name, held.tool))

    async def _accept(self, server: str, tool: str) -> None:
        async def go() -> None:
            await self._visit.runtime.mcp.accept(self._agent.id, server, tool)
            await self._show()

        await self._visit.act(go(), "Accepted.")


class ConfigurationView:
    """View of an agent's configuration."""

    def __init__(self, visit: Visit, agent: Agent) -> None:
        self._visit = visit
        self._agent = agent

    async def draw(self) -> None:
        """Render the configuration, or the reason why it is no longer valid for the app."""
        agent = self._agent
        self._facts(agent)
        try:
            active = await self._visit.runtime.agents.active(agent.id)
        except (DefinitionError, InvalidRequest, NotFound, ToolwrightError) as error:
            plain_text(f"This agent cannot run: {error.message}", "p", "error section")
            return
        for name, side in active.sides.items():
            self._side(name, side)
        with box("section", "section stack"):
            plain_text("Tools", "h2")
            place = box("div")
            with place:
                plain_text("Loading …", "p", "quiet")
        self._visit.view.run(self._all_tools(place))
        self._values(active)

    def _facts(self, agent: Agent) -> None:
        with box("section", "card"), box("dl", "facts"):
            fact("Id", agent.id)
            fact("Entity", agent.entity_id)
            fact(
                "Type",
                "conversation with people" if agent.type == "ai_human" else "conversation between two sides",
            )
            fact("Description", agent.description)
            fact("Toolkits", ", ".join(agent.toolkits))
            fact("Open to", open_to_name(agent.open_to))
            if agent.toolkits:
                fact("Home tools for people", HOME_TOOLS[agent.home_tools])
                fact("Memory", "shared by all users" if agent.shared_memory else "")
            fact("Max. turns per session", agent.max_session_turns)
            fact("As a tool", agent.tool_description if agent.expose_as_tool else "")
            fact("Inbox preview", "on" if agent.inbox_preview else "")

    def _side(self, name: str, side: ActiveAgent) -> None:
        stops, prompt = side.stops, side.prompt
        with box("section", "card section stack"):
            with box("div", "row"):
                plain_text(stops.label or name.replace("_", " "), "h2")
                plain_text(prompt.name, "span", "quiet")
            with box("dl", "facts"):
                fact("Model", model_name(side.model))
                fact("Max. steps per run", side.max_steps)
                fact("Parallel read-only calls", side.parallel if side.parallel > 1 else "")
                fact("Thinking", prompt.reasoning)
                fact("Tool choice", prompt.tool_choice if prompt.tool_choice != "auto" else "")
                fact("Stop tool", stops.stop_tool)
                fact("Session stop tool", stops.session_stop)
                fact("Session failure tool", stops.session_fail)
                fact("Prompt tools", ", ".join(side.nested))
                fact("Subagents", ", ".join([each.config.name for each in side.relations]))
            if prompt.text:
                plain_text("System prompt", "h3")
                code(prompt.text)

    async def _all_tools(self, place: Element) -> None:
        """Render the tools after the rest of the page, because MCP servers can be slow."""
        try:
            tools = [*await tools_of(self._visit, self._agent.id)]
        except ToolwrightError as error:
            place.clear()
            with place:
                plain_text(error.message, "p", "error")
            return
        place.clear()
        with place:
            if tools:
                tool_list(tools[:MAX_TOOLS], self._agent.id)
            else:
                plain_text("None.", "p", "quiet")
            if len(tools) > MAX_TOOLS:
                plain_text(f"… and {len(tools) - MAX_TOOLS} more", "p", "quiet")

    def _values(self, active: ActiveAgent) -> None:
        with box("section", "section stack"):
            plain_text("Values", "h2")
            plain_text(
                "Variables set by the app, the agent and its prompts. Their values are never shown.",
                "p",
                "quiet small",
            )
            layers = [each.env for each in active.voices]
            types = {name: var.type for env in layers for layer in env for name, var in layer.items()}
            _names("Env", types)
            for tool, values in active.tool_env.items():
                _names(f"Env of {tool}", {name: var.type for name, var in values.items()})
            _names(
                "Tenvs", {name: "secret" if name in active.secret_tenvs else "text" for name in active.tenvs}
            )
            _names("Variables", {each.name: each.type for each in active.variables})
            _names("Set by users in their threads", dict.fromkeys(self._agent.user_env, ""))


def fact(name: str, value: object) -> None:
    """Render a term and its value in a list of facts, or nothing if there is no value."""
    if value is None or value == "":
        return
    plain_text(name, "dt")
    plain_text(str(value), "dd")


def open_to_name(open_to: str | Sequence[str] | None) -> str:
    """Describe who may open threads with an agent."""
    if open_to is None or isinstance(open_to, str):
        return {"members": "members of a space with the agent"}.get(open_to or "nobody", open_to or "nobody")
    return f"people with {' or '.join(open_to)}"


def model_name(model: object) -> str:
    """Return the display name of a model."""
    if model is None:
        return "default (TOOLWRIGHT_MODEL)"
    return model if isinstance(model, str) else type(model).__name__


def _names(title: str, types: Mapping[str, str]) -> None:
    """Render names of values, and mark the secrets."""
    if not types:
        return
    plain_text(title, "h3")
    with box("div", "row"):
        for name, kind in [*types.items()][:MAX_NAMES]:
            badge(f"{brief(name, 100)} · secret" if kind == "secret" else brief(name, 100))


class StoredConfiguration:
    """Editor of a configuration. Values are not shown and are unchanged unless new ones are entered."""

    def __init__(self, visit: Visit, view: AgentView) -> None:
        self._visit = visit
        self._agent = view.agent
        self._config = view.config

    async def draw(self) -> None:
        """Render the editor."""
        written = await in_thread_if_large(self._config, json_text, self._config)
        with box("section", "section stack"):
            plain_text("Stored configuration", "h2")
            plain_text(
                "Values of env and tenvs are not shown. They are kept, unless you write env or tenvs here, which "
                "replaces all of them.",
                "p",
                "quiet small",
            )
            if len(written) > MAX_EDITED:
                plain_text(
                    f"It has {len(written):,} characters, too many to edit here: use PATCH /api/agents.",
                    "p",
                    "note",
                )
                return
            self._editor = ui.textarea(value=written).props('outlined autogrow input-class="mono editor"')
            self._editor.props["aria-label"] = "Configuration as JSON"
            self._error_list = box("div", "error")
            self._error_list.props["role"] = "alert"
            self._error_list.set_visibility(False)
            with box("div", "row"):
                action("Save configuration", self._save, kind="primary")

    async def _save(self) -> None:
        self._error_list.set_visibility(False)
        await self._visit.act(self._take(str(self._editor.value or "")), "Saved. The next run uses it.")

    async def _take(self, text: str) -> None:
        try:
            config = await self._read(text)
            await self._visit.runtime.agents.update(self._agent.id, config=config)
        except (InvalidConfiguration, InvalidRequest) as error:
            self._show(error.details or [{"path": "config", "message": error.message}])
            raise InvalidRequest("Not saved. See the errors below the configuration.") from error

    async def _read(self, text: str) -> JSON:
        """Return the entered configuration with the unchanged values, validated like an API request."""
        options = self._visit.site.serving.options
        try:
            most = CONFIG_VALUES * options.max_json_values
            read = partial(read_json, text, values=most, nesting=options.max_nesting)
            config = await in_thread_if_large(text, read)
        except NotJson as error:
            message = f"is not JSON: {error}"
            raise InvalidRequest(message, [{"path": "config", "message": message}]) from None
        check_allowed(self._visit, config)
        if not isinstance(config, dict):
            return config
        active = await self._visit.runtime.agents.usable(self._agent.id)
        return config if active is None else with_values(config, active.agent)

    def _show(self, errors: Sequence[Mapping[str, str]]) -> None:
        self._error_list.clear()
        with self._error_list:
            for error in errors[:50]:
                plain_text(brief(f"{error['path']} {error['message']}", 400), "p")
        self._error_list.set_visibility(True)


def check_allowed(visit: Visit, config: JSON) -> None:
    """Raise `InvalidConfiguration` for a server-side script that may not be used in external configurations."""
    scripts = visit.site.serving.options.scripts
    if scripts is not None:
        check_script(config, scripts)


def with_values(config: JSONObject, agent: Agent) -> JSONObject:
    """Return the configuration with the agent's values where it does not change them."""
    whole = dict(config)
    if "env" not in whole:
        whole["env"] = _env(agent.env)
    if "tenvs" not in whole:
        whole["tenvs"] = plain(agent.tenvs)
    tools = whole.get("tools")
    if isinstance(tools, list):
        whole["tools"] = [_tool(each, agent) for each in tools]
    return whole


def _tool(entry: JSON, agent: Agent) -> JSON:
    """Return an entry with its `env` values restored, which are shown empty."""
    if not isinstance(entry, dict) or entry.get("env") != {}:
        return entry
    return {**entry, "env": _env(agent.tool_env.get(str(entry.get("name")), {}))}


def _env(values: Mapping[str, object]) -> JSONObject:
    env: JSONObject = {}
    for name, each in values.items():
        written = {"value": each.value, "type": each.type} if isinstance(each, EnvVar) else each
        env[name] = cast("JSON", written)  # the agent was read from JSON
    return env
