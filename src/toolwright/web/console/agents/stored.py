"""Stored configuration of an agent as JSON, to be edited: validated by the server, every fault by its path."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, cast

from nicegui import ui

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.config import check_script
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import EnvVar
from toolwright.core.errors import InvalidConfiguration, InvalidRequest
from toolwright.core.json_text import NotJson, read_json
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import CONFIG_VALUES
from toolwright.core.plain import plain
from toolwright.core.text import brief
from toolwright.runtime.agents.agents import AgentView
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, json_text, words

LONGEST_EDITED: Final = 200_000  # characters: a page sends all of them with each key that is pressed


class StoredConfiguration:
    """The configuration in an editor. Its values are not in it, and stay unless it brings others."""

    def __init__(self, visit: Visit, shown: AgentView) -> None:
        self._visit = visit
        self._agent = shown.agent
        self._config = shown.config

    async def draw(self) -> None:
        """Draw it."""
        written = await in_thread_if_large(self._config, json_text, self._config)
        with box("section", "section stack"):
            words("Stored configuration", "h2")
            words(
                "Values of env and tenvs are not shown. They stay as they are, but where you write env or tenvs "
                "here: what you write takes the place of all that there was.",
                "p",
                "quiet small",
            )
            if len(written) > LONGEST_EDITED:
                words(
                    f"It has {len(written):,} characters, too many to edit here: use PATCH /api/agents.",
                    "p",
                    "note",
                )
                return
            self._editor = ui.textarea(value=written).props('outlined autogrow input-class="mono editor"')
            self._editor.props["aria-label"] = "Configuration as JSON"
            self._faults = box("div", "error")
            self._faults.props["role"] = "alert"
            self._faults.set_visibility(False)
            with box("div", "row"):
                action("Save configuration", self._save, kind="primary")

    async def _save(self) -> None:
        self._faults.set_visibility(False)
        await self._visit.act(self._take(str(self._editor.value or "")), "Saved: the next run has it.")

    async def _take(self, text: str) -> None:
        try:
            config = await self._read(text)
            await self._visit.runtime.agents.update(self._agent.id, config=config)
        except (InvalidConfiguration, InvalidRequest) as error:
            self._show(error.details or [{"path": "config", "message": error.message}])
            raise InvalidRequest("Not saved: look at the faults below the configuration.") from error

    async def _read(self, text: str) -> JSON:
        """The configuration with the values that it leaves as they are, as the route reads it."""
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

    def _show(self, faults: Sequence[Mapping[str, str]]) -> None:
        self._faults.clear()
        with self._faults:
            for fault in faults[:50]:
                words(brief(f"{fault['path']} {fault['message']}", 400), "p")
        self._faults.set_visibility(True)


def check_allowed(visit: Visit, config: JSON) -> None:
    """Raise `InvalidConfiguration` for a script of the server that may not be named from outside."""
    scripts = visit.site.serving.options.scripts
    if scripts is not None:
        check_script(config, scripts)


def with_values(config: JSONObject, agent: Agent) -> JSONObject:
    """The configuration with the agent's values wherever it says nothing of them."""
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
    """An entry whose `env` is shown empty, since values are not shown, with its values."""
    if not isinstance(entry, dict) or entry.get("env") != {}:
        return entry
    return {**entry, "env": _env(agent.tool_env.get(str(entry.get("name")), {}))}


def _env(values: Mapping[str, object]) -> JSONObject:
    env: JSONObject = {}
    for name, each in values.items():
        written = {"value": each.value, "type": each.type} if isinstance(each, EnvVar) else each
        env[name] = cast("JSON", written)  # as the agent was read from JSON
    return env
