"""`toolwright tools list`, `tools show` and `call`."""

import json
import os
import sys
from collections.abc import Coroutine, Sequence
from difflib import get_close_matches
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, check_folder, leave_tools_out, show_files
from toolwright.cli.settings import read_settings, the_app
from toolwright.cli.tenvs import described, given_tenvs, known_env, pairs, variables_of, voice_with
from toolwright.core.results.result import ToolResult
from toolwright.core.state.memory import MemoryState
from toolwright.core.text import clean_text, sentence
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.wire.result import error_object, model_text
from toolwright.wire.text import clean_json
from toolwright.wiring.app import App
from toolwright.wiring.executors import HttpTools

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
    """Print what a model is told of the tool, and what is known of its effect, as JSON."""
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
    """Call the tool and print what a model would read, and where its files are; 1 if it is an error.

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
    """The result of the call, made within the app's lifespan."""
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
    """The app's own tools, then those that only its agents' prompts have; of one name, the first."""
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
