"""`toolwright tools list`, `tools show` and `call`, and the values given to a tool."""

import json
import os
import sys
from collections.abc import Coroutine, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from rich import box
from rich.console import Console
from rich.table import Table

from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, check_folder, leave_tools_out, show_files
from toolwright.cli.settings import read_settings, the_app
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvTypes, EnvVar
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.result import ToolResult
from toolwright.core.state.memory import MemoryState
from toolwright.core.text import clean_text, sentence
from toolwright.core.tools.tenvs_needed import MissingTenvs, Needs
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.wire.result import error_object, model_text
from toolwright.wire.text import clean_json
from toolwright.wiring.app import App
from toolwright.wiring.executors import HttpTools


def described(tool: Tool) -> list[JSON]:
    """Return the tenvs that the tool declares, as `tools show` prints them."""
    if tool.needs is None:
        return []
    fields = cast("JSONObject", tool.needs.schema.get("properties", {}))
    required = cast("list[JSON]", tool.needs.schema.get("required", []))
    return [
        {"name": name, "required": name in required, "secret": name in tool.needs.secrets, "schema": schema}
        for name, schema in fields.items()
    ]


def given_tenvs(tool: Tool, texts: Mapping[str, str], promised: JSONObject) -> JSONObject:
    """Return the given values for one call, merged over those that the tool's agent promises.

    A value is text if the tool's model accepts text, otherwise JSON. Raises `Refusal` for missing arguments.
    """
    values = {**promised, **{name: _value(name, text, tool.needs) for name, text in texts.items()}}
    missing = None if tool.needs is None else tool.needs.read(values)
    if isinstance(missing, MissingTenvs):
        raise Refusal(
            f"The tool {tool.name!r} needs valid tenvs: {missing}. Give each as --tenv NAME=VALUE, "
            "or as --tenv NAME if it is in the environment."
        )
    return values


def _value(name: str, text: str, needs: Needs | None) -> JSON:
    """Return text if that is valid for this name, or otherwise its JSON value, if it is JSON."""
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
    """Return the variables that the tool declares, as `tools show` prints them."""
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
    """Return the agent of that name, or without one the first that has the tool, with the prompt that calls it.

    A tool of the app belongs to no agent unless one is named. Raises `Refusal` if that one has no such tool.
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
    """Return the values of `state.env`: the given ones, then those of app, agent, tool and prompt (D5)."""
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
    """Return the values of `NAME=VALUE`, or of `NAME` from the environment."""
    return dict([_pair(option, each, environment) for each in given])


def _pair(option: str, given: str, environment: Mapping[str, str]) -> tuple[str, str]:
    name, equals, text = given.partition("=")
    if equals and name:
        return name, text
    if name not in environment:
        raise Refusal(f"{option} {given!r}: give NAME=VALUE, or a NAME that is in the environment.")
    return name, environment[name]


_OPTIONS = ("--tenv", "--env")


def list_tools(target: str | None) -> None:
    """Print a table of the app's tools; on a pipe a line for each, with tabs."""
    app, console = the_app(target), Console()
    users = _users(app)
    if not console.is_terminal:
        for tool in _tools(app):
            print(tool.name, tool.kind, clean_text(tool.description.split("\n")[0]), sep="\t")
        return
    table = Table("tool", "kind", "agents", "what it does", box=box.SIMPLE_HEAD)
    for tool in _tools(app):
        what = clean_text(tool.description.split("\n")[0])
        table.add_row(tool.name, tool.kind, ", ".join(users.get(tool.name, [])), what)
    console.print(table, markup=False)


def show_tool(name: str, target: str | None) -> None:
    """Print the tool as sent to a model, and its known effects, as JSON."""
    app = the_app(target)
    tools = _tools(app)
    tool = _named(name, tools, app)
    shown = {
        "name": tool.name,
        "description": tool.description,
        "kind": tool.kind,
        "parameters": tool.offered,
        "timeout": tool.timeout,
        "visible": tool.visible,
        "readOnly": tool.read_only,
        "idempotent": tool.idempotent,
        "destructive": tool.destructive,
        "requiresApproval": tool.approval is not None,
        "variables": variables_of(tool),
        "tenvs": described(tool),
        "agents": _users(app).get(tool.name, []),
    }
    _print_json(shown)


def call(
    name: str,
    arguments: str,
    values: tuple[Sequence[str], Sequence[str]],
    agent: str | None,
    target: str | None,
    folder: Path | None = None,
) -> int:
    """Call the tool and print its result for a model, and the paths of its files; 1 if it is an error.

    `values` are tenvs and env.
    """
    leave_tools_out()
    app = the_app(target)
    active = voice_with(app, name, agent)
    tools = _tools(app) if active is None else active.tools
    tool = _named(name, tools, app)
    tenvs, env = (pairs(option, given, os.environ) for option, given in zip(_OPTIONS, values, strict=True))
    state = MemoryState(
        tenvs=given_tenvs(tool, tenvs, {} if active is None else active.tenvs),
        env=known_env(app, tool, active, env),
        invoke=lambda called, given: tools.call(called, given, state),
    )
    text = sys.stdin.read() if arguments == "-" else arguments
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(sentence(f"The arguments are not JSON: {error}")) from error
    if not isinstance(given, dict):
        raise Refusal(f"""The arguments must be a JSON object, as in '{{"name": "value"}}', not {text!r}.""")
    check_folder(folder)
    try:
        made = _over_http(tool, text, state) if tool.carrier == "gateway" else tools.call(name, text, state)
        result = run(_living(app, state, made))
    finally:
        tools.close()
    _print_result(result)
    show_files(result, state, folder)
    return 0 if result.status == "success" else 1


async def _living(app: App, state: MemoryState, made: Coroutine[None, None, ToolResult]) -> ToolResult:
    """Return the result of the call, made within the app's lifespan."""
    try:
        async with app.living() as state.lifespan:
            return await made
    finally:
        made.close()  # one that never began


async def _over_http(tool: Tool, arguments: str, state: MemoryState) -> ToolResult:
    http_tools = HttpTools(read_settings())
    try:
        return await Toolset([tool], executors={"gateway": http_tools}).call(tool.name, arguments, state)
    finally:
        await http_tools.aclose()


def _print_result(result: ToolResult) -> None:
    value = error_object(result) if result.status == "error" else result.result
    if sys.stdout.isatty() and not isinstance(value, str):
        _print_json(clean_json(value))
    else:
        print(model_text(result))


def _print_json(value: object) -> None:
    if sys.stdout.isatty():
        Console().print_json(data=value)
    else:
        print(json.dumps(value, indent=2, ensure_ascii=False))


def _tools(app: App) -> Toolset:
    """Return the app's own tools, then those of its agents' prompts only; of one name, the first."""
    found = {tool.name: tool for tool in app.catalog.tools}
    for agent in app.catalog.agents:
        for tool in app.catalog.active(agent.id).tools:
            found.setdefault(tool.name, tool)
    return Toolset(found.values())


def _users(app: App) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {}
    for agent in app.catalog.agents:
        for tool in app.catalog.active(agent.id).tools:
            users.setdefault(tool.name, []).append(agent.name)
    return users


def _named(name: str, tools: Toolset, app: App) -> Tool:
    if name in tools:
        return tools[name]
    names = [tool.name for tool in tools]
    close = get_close_matches(name, names, n=1)
    if close:
        raise Refusal(f"There is no tool {name!r}. Did you mean {close[0]!r}?")
    said = sentence(f"There is no tool {name!r}. {'It has: ' + ', '.join(names) if names else 'It has none'}")
    if any(app.catalog.active(agent.id).mcp for agent in app.catalog.agents):
        said += " Tools of MCP servers are called by agents alone: toolwright tools list --mcp shows them."
    raise Refusal(said)
