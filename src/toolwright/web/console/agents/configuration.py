"""Configuration of an agent: its sides, prompts, models, tools and names of values, as they are in force."""

from collections.abc import Mapping, Sequence
from typing import Final

from nicegui.element import Element

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Agent, HomeTools
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound, ToolwrightError
from toolwright.core.text import brief
from toolwright.web.console.tools.finding import tool_list, tools_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, code, words

MOST_TOOLS: Final = 200  # that are listed
MOST_NAMES: Final = 200  # of values, of each kind


class Configuration:
    """What an agent is, to be read."""

    def __init__(self, visit: Visit, agent: Agent) -> None:
        self._visit = visit
        self._agent = agent

    async def draw(self) -> None:
        """Draw it; of one that no longer fits the app, why."""
        agent = self._agent
        self._facts(agent)
        try:
            active = await self._visit.runtime.agents.active(agent.id)
        except (DefinitionError, InvalidRequest, NotFound, ToolwrightError) as error:
            words(f"This agent cannot run: {error.message}", "p", "error section")
            return
        for name, side in active.sides.items():
            self._side(name, side)
        with box("section", "section stack"):
            words("Tools", "h2")
            place = box("div")
            with place:
                words("Asking …", "p", "quiet")
        self._visit.view.run(self._all_tools(place))
        self._values(active)

    def _facts(self, agent: Agent) -> None:
        with box("section", "card"), box("dl", "facts"):
            fact("Id", agent.id)
            fact("Entity", agent.entity_id)
            fact("Type", "talks with people" if agent.type == "ai_human" else "talks with itself")
            fact("Description", agent.description)
            fact("Toolkits", ", ".join(agent.toolkits))
            fact("Open to", open_to_name(agent.open_to))
            if agent.toolkits:
                fact("Home tools for people", HOME_TOOLS[agent.home_tools])
                fact("Memory", "shared by everybody" if agent.shared_memory else "")
            fact("Turns of a session", agent.max_session_turns)
            fact("As a tool", agent.tool_description if agent.expose_as_tool else "")
            fact("Inbox preview", "on" if agent.inbox_preview else "")

    def _side(self, name: str, side: ActiveAgent) -> None:
        stops, prompt = side.stops, side.prompt
        with box("section", "card section stack"):
            with box("div", "row"):
                words(stops.label or name.replace("_", " "), "h2")
                words(prompt.name, "span", "quiet")
            with box("dl", "facts"):
                fact("Model", model_name(side.model))
                fact("Most steps of a run", side.max_steps)
                fact("Read-only calls at once", side.parallel if side.parallel > 1 else "")
                fact("Thinking", prompt.reasoning)
                fact("Choice of tools", prompt.tool_choice if prompt.tool_choice != "auto" else "")
                fact("Ends its turn", stops.stop_tool)
                fact("Ends the session", stops.session_stop)
                fact("Fails the session", stops.session_fail)
                fact("Prompts within", ", ".join(side.nested))
                fact("Agents that it runs", ", ".join([each.config.name for each in side.relations]))
            if prompt.prompt:
                words("System prompt", "h3")
                code(prompt.prompt)

    async def _all_tools(self, place: Element) -> None:
        """Read once the rest is there: MCP servers among them may take their time."""
        try:
            tools = [*await tools_of(self._visit, self._agent.id)]
        except ToolwrightError as error:
            place.clear()
            with place:
                words(error.message, "p", "error")
            return
        place.clear()
        with place:
            if tools:
                tool_list(tools[:MOST_TOOLS], self._agent.id)
            else:
                words("None.", "p", "quiet")
            if len(tools) > MOST_TOOLS:
                words(f"… and {len(tools) - MOST_TOOLS} more", "p", "quiet")

    def _values(self, active: ActiveAgent) -> None:
        with box("section", "section stack"):
            words("Values", "h2")
            words(
                "Names that the app, the agent and its prompts bring. What they are is never shown.",
                "p",
                "quiet small",
            )
            layers = [each.env for each in active.voices]
            types = {name: var.type for env in layers for layer in env for name, var in layer.items()}
            _names("Env", types)
            for tool, own in active.tool_env.items():
                _names(f"Env of {tool}", {name: var.type for name, var in own.items()})
            _names(
                "Tenvs", {name: "secret" if name in active.secret_tenvs else "text" for name in active.tenvs}
            )
            _names("Variables", {each.name: each.type for each in active.variables})
            _names("Set by people in their threads", dict.fromkeys(self._agent.user_env, ""))


def fact(name: str, told: object) -> None:
    """A term and what it is, within a list of facts; nothing where there is nothing to tell."""
    if told is None or told == "":
        return
    words(name, "dt")
    words(str(told), "dd")


HOME_TOOLS: Mapping[HomeTools, str] = {
    "own": "what is theirs",
    "all": "everything that the agent reaches",
    "none": "none",
}


def open_to_name(open_to: str | Sequence[str] | None) -> str:
    """Return the words for who may open threads with an agent."""
    if open_to is None or isinstance(open_to, str):
        return {"members": "people in a space with it"}.get(open_to or "nobody", open_to or "nobody")
    return f"people with {' or '.join(open_to)}"


def model_name(model: object) -> str:
    """What a model is called."""
    if model is None:
        return "default (TOOLWRIGHT_MODEL)"
    return model if isinstance(model, str) else type(model).__name__


def _names(title: str, types: Mapping[str, str]) -> None:
    """Names of values, and which of them are secrets."""
    if not types:
        return
    words(title, "h3")
    with box("div", "row"):
        for name, kind in [*types.items()][:MOST_NAMES]:
            badge(f"{brief(name, 100)} · secret" if kind == "secret" else brief(name, 100))
