"""`toolwright tools list`, `tools show` and `call`, with the tenvs and env of a call."""

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
from toolwright.cli.output import Refusal, check_folder, read_arguments, show_files, silence_tools
from toolwright.cli.settings import declared, read_settings, the_app
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvTypes, EnvVar
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.state.memory import MemoryState
from toolwright.core.text import clean_text, sentence
from toolwright.core.tools.tenvs_needed import MissingTenvs, Needs
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.wire.result import error_object, model_text
from toolwright.wire.text import clean_json
from toolwright.wiring.app import App
from toolwright.wiring.executors import HttpTools

_OPTIONS = ("--tenv", "--env")


def declared_tenvs(tool: Tool) -> list[JSON]:
    """Return the tenvs that the tool declares, as `tools show` prints them."""
    if tool.needs is None:
        return []
    fields = cast("JSONObject", tool.needs.schema.get("properties", {}))
    required = cast("list[JSON]", tool.needs.schema.get("required", []))
    return [
        {"name": name, "required": name in required, "secret": name in tool.needs.secrets, "schema": schema}
        for name, schema in fields.items()
    ]


def tenvs_for_call(tool: Tool, texts: Mapping[str, str], promised: JSONObject) -> JSONObject:
    """Return the tenvs of one call: the given values, merged over the values that the tool's agent provides.

    A value is text if the tool's model accepts text, otherwise JSON. Raises `Refusal` for missing or invalid tenvs.
    """
    values = {**promised, **{name: _value(name, text, tool.needs) for name, text in texts.items()}}
    missing = None if tool.needs is None else tool.needs.read(values)
    if isinstance(missing, MissingTenvs):
        raise Refusal(
            f"The tool {tool.name!r} needs valid tenvs: {missing}. Add --tenv NAME=VALUE for each, "
            "or --tenv NAME if it is in the environment."
        )
    return values


def _value(name: str, text: str, needs: Needs | None) -> JSON:
    """Return the text if it is valid for this name, otherwise its value as JSON, or the text if it is not JSON."""
    if needs is None or not _is_invalid(name, text, needs):
        return text
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _is_invalid(name: str, value: JSON, needs: Needs) -> bool:
    read = needs.read({name: value})
    return isinstance(read, MissingTenvs) and name in dict(read.invalid)


def declared_variables(tool: Tool) -> list[JSON]:
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


def agent_with_tool(app: App, tool: str, agent: str | None) -> ActiveAgent | None:
    """Return the agent of that name, or the first agent that has the tool, with the prompt that calls it.

    Returns None for a tool of the app unless an agent is named. Raises `Refusal` if the named agent has no such tool.
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
    raise Refusal(f"The agent {agent!r} has no tool {tool!r}. Leave out --agent, or name another agent.")


def env_for_call(
    app: App, tool: Tool, active: ActiveAgent | None, texts: Mapping[str, str]
) -> dict[str, EnvVar]:
    """Return the values of `state.env`: the given values, then the values of app, agent, tool and prompt (D5)."""
    types = EnvTypes(declared={each.name: each.type for each in tool.variables})
    try:
        given_values = types.stored(texts, "--env")
        if active is None:
            return {**types.stored(app.catalog.env), **given_values}
    except InvalidRequest as error:
        raise Refusal(error.message) from error
    *upper, prompt = active.env
    layers = [prompt, active.tool_env.get(tool.name, {}), *reversed(upper), given_values]
    return {name: var for layer in layers for name, var in layer.items()}


def pairs(option: str, options: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of `NAME=VALUE`, or of `NAME` from the environment."""
    return dict([_pair(option, each, environment) for each in options])


def _pair(option: str, text_given: str, environment: Mapping[str, str]) -> tuple[str, str]:
    name, equals, text = text_given.partition("=")
    if equals and name:
        return name, text
    if name not in environment:
        raise Refusal(f"{option} {text_given!r} is not NAME=VALUE, and the environment has no such NAME.")
    return name, environment[name]


def list_tools(target: str | None) -> None:
    """Print a table of the app's tools; on a pipe, a line of tab-separated values for each."""
    app, console = declared(the_app(target)), Console()
    users = _users(app)
    if not console.is_terminal:
        for tool in _tools(app):
            print(tool.name, tool.kind, clean_text(tool.description.split("\n")[0]), sep="\t")
        return
    table = Table("tool", "kind", "agents", "what it does", box=box.SIMPLE_HEAD)
    for tool in _tools(app):
        summary = clean_text(tool.description.split("\n")[0])
        table.add_row(tool.name, tool.kind, ", ".join(users.get(tool.name, [])), summary)
    console.print(table, markup=False)


def show_tool(name: str, target: str | None) -> None:
    """Print the tool's definition for models and its other properties, as JSON."""
    app = declared(the_app(target))
    tools = _tools(app)
    tool = _find_tool(name, tools, app)
    description = {
        "name": tool.name,
        "description": tool.description,
        "kind": tool.kind,
        "parameters": tool.offered,
        "timeout": tool.timeout,
        "visible": tool.visible,
        "readOnly": tool.read_only,
        "idempotent": tool.idempotent,
        "destructive": tool.destructive,
        "lenient": tool.lenient,
        "requiresApproval": tool.approval is not None,
        "variables": declared_variables(tool),
        "tenvs": declared_tenvs(tool),
        "agents": _users(app).get(tool.name, []),
    }
    _print_json(description)


def call(
    name: str,
    arguments: str,
    values: tuple[Sequence[str], Sequence[str]],
    agent: str | None,
    target: str | None,
    folder: Path | None = None,
) -> int:
    """Call the tool and print its result as a model reads it. Return the exit code: 1 if the result is an error.

    `values` are the options of tenvs and of env. The result's files are saved in `folder`, if given.
    """
    silence_tools()
    app = declared(the_app(target))
    active = agent_with_tool(app, name, agent)
    tools = _tools(app) if active is None else active.tools
    tool = _find_tool(name, tools, app)
    tenvs, env = (pairs(option, given, os.environ) for option, given in zip(_OPTIONS, values, strict=True))
    state = MemoryState(
        tenvs=tenvs_for_call(tool, tenvs, {} if active is None else active.tenvs),
        env=env_for_call(app, tool, active, env),
        invoke=lambda called, given: tools.call(called, given, state),
    )
    text = sys.stdin.read() if arguments == "-" else arguments
    read_arguments(text)
    check_folder(folder)
    try:
        result_awaitable = (
            _over_http(tool, text, state) if tool.carrier == "gateway" else tools.call(name, text, state)
        )
        result = run(_call_in_lifespan(app, state, result_awaitable))
    finally:
        tools.close()
    _print_result(result)
    show_files(result, state, folder)
    return 0 if result.status == "success" else 1


async def _call_in_lifespan(
    app: App, state: MemoryState, result_awaitable: Coroutine[None, None, ToolResult]
) -> ToolResult:
    """Await the call within the app's lifespan and return its result."""
    try:
        async with app.living() as state.lifespan:
            return await result_awaitable
    finally:
        result_awaitable.close()  # not started if the lifespan failed; Python would warn


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
    """Return the app's tools, then the tools of its agents' prompts; of tools with the same name, the first."""
    by_name = {tool.name: tool for tool in app.catalog.tools}
    for agent in app.catalog.agents:
        for tool in app.catalog.active(agent.id).tools:
            by_name.setdefault(tool.name, tool)
    return Toolset(by_name.values())


def _users(app: App) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {}
    for agent in app.catalog.agents:
        for tool in app.catalog.active(agent.id).tools:
            users.setdefault(tool.name, []).append(agent.name)
    return users


def _find_tool(name: str, tools: Toolset, app: App) -> Tool:
    if name in tools:
        return tools[name]
    names = [tool.name for tool in tools]
    close = get_close_matches(name, names, n=1)
    if close:
        raise Refusal(f"There is no tool {name!r}. Did you mean {close[0]!r}?")
    message = sentence(
        f"There is no tool {name!r}. {'It has: ' + ', '.join(names) if names else 'It has none'}"
    )
    if any(app.catalog.active(agent.id).mcp for agent in app.catalog.agents):
        message += (
            " Only agents can call tools of MCP servers. To list those: toolwright tools list --mcp URL."
        )
    raise Refusal(message)
