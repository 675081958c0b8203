"""Values on the command line: the tenvs and env that a tool declares, and those that are given for one call."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from toolwright.cli.output import Refusal
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvVar
from toolwright.core.env.types import EnvTypes
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.tools.tenvs_needed import MissingTenvs, Needs
from toolwright.core.tools.tool import Tool
from toolwright.wiring.app import App


def described(tool: Tool) -> list[JSON]:
    """The tenvs that the tool declares, as `tools show` prints them."""
    if tool.needs is None:
        return []
    fields = cast("JSONObject", tool.needs.schema.get("properties", {}))
    required = cast("list[JSON]", tool.needs.schema.get("required", []))
    return [
        {"name": name, "required": name in required, "secret": name in tool.needs.secrets, "schema": schema}
        for name, schema in fields.items()
    ]


def given_tenvs(tool: Tool, texts: Mapping[str, str], promised: JSONObject) -> JSONObject:
    """The values that are given for one call, over those that the tool's agent has promised.

    A value is text where the tool's model takes text, else JSON. Raises `Refusal` for missing arguments.
    """
    values = {**promised, **{name: _value(name, text, tool.needs) for name, text in texts.items()}}
    lacking = None if tool.needs is None else tool.needs.read(values)
    if isinstance(lacking, MissingTenvs):
        raise Refusal(
            f"The tool {tool.name!r} needs other tenvs than these: {lacking}. Give each as --tenv NAME=VALUE, or as "
            "--tenv NAME if it is in the environment."
        )
    return values


def _value(name: str, text: str, needs: Needs | None) -> JSON:
    """Text if that will do for this name, else what it is as JSON, if it is that."""
    if needs is None or not _refused(name, text, needs):
        return text
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _refused(name: str, value: JSON, needs: Needs) -> bool:
    read = needs.read({name: value})
    return isinstance(read, MissingTenvs) and name in dict(read.invalid)


def variables_of(tool: Tool) -> list[JSON]:
    """The variables that the tool declares, as `tools show` prints them."""
    return [
        {
            "name": each.name,
            "type": each.type,
            "required": each.required,
            "scoped": each.scoped,
            "description": each.description,
        }
        for each in tool.variables
    ]


def voice_with(app: App, tool: str, agent: str | None) -> ActiveAgent | None:
    """The agent of that name, or without one the first that has the tool, through the prompt that calls it.

    A tool of the app's own is nobody's unless an agent is named. Raises `Refusal` where that one has no such tool.
    """
    if agent is None and tool in app.catalog.tools:
        return None
    try:
        agents = app.catalog.agents if agent is None else [app.catalog.agent(agent)]
    except (NotFound, DefinitionError) as error:
        raise Refusal(error.message) from error
    for each in agents:
        for active in app.catalog.active(each.id).voices:
            if tool in active.by_name:
                return active
    if agent is None:
        return None
    raise Refusal(f"The agent {agent!r} has no tool {tool!r}.")


def known_env(
    app: App, tool: Tool, active: ActiveAgent | None, given: Mapping[str, str]
) -> dict[str, EnvVar]:
    """Values that `state.env` finds: those given, then those of app, agent, tool and prompt (D5)."""
    types = EnvTypes(declared={each.name: each.type for each in tool.variables})
    try:
        own = types.stored(given, "--env")
        if active is None:
            return {**types.stored(app.catalog.env), **own}
    except InvalidRequest as error:
        raise Refusal(error.message) from error
    *upper, prompt = active.env
    layers = [prompt, active.tool_env.get(tool.name, {}), *reversed(upper), own]
    return {name: var for layer in layers for name, var in layer.items()}


def pairs(option: str, given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The values of `NAME=VALUE`, or of `NAME` from the environment."""
    return dict([_pair(option, each, environment) for each in given])


def _pair(option: str, given: str, environment: Mapping[str, str]) -> tuple[str, str]:
    name, equals, text = given.partition("=")
    if equals and name:
        return name, text
    if name not in environment:
        raise Refusal(f"{option} {given!r}: give NAME=VALUE, or a NAME that is in the environment.")
    return name, environment[name]
