"""`toolwright mcp`: the app's tools on stdio for an MCP host. Also lists and checks the MCP servers of agents."""

import logging
import os
import shlex
import sys
from collections.abc import Sequence
from typing import BinaryIO

from rich import box
from rich.console import Console
from rich.table import Table

from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, log_briefly, log_fully, one_line
from toolwright.cli.settings import read_settings, the_app, warn_unknown_variables
from toolwright.core.errors import InvalidConfiguration
from toolwright.core.mcp.config import read_servers
from toolwright.core.mcp.listing import ListingError, McpListing, McpPrompt, McpPrompts
from toolwright.core.text import clean_text, quantity, sentence
from toolwright.core.tools.mcp import McpServer, target_of
from toolwright.runtime.mcp import env_of_agent, target_in
from toolwright.wiring.app import App
from toolwright.wiring.executors import LazyMcp
from toolwright.wiring.lazy import open_mcp
from toolwright.wiring.settings import Settings

PATIENCE = 20.0  # seconds that a server has for its first answer
_SERVERS_LOG = logging.getLogger("toolwright.mcp")


def serve_tools(target: str | None) -> int:
    """Serve until stdin closes; return the exit code. Logs and all other output go to stderr."""
    host = _take_stdio()
    settings = read_settings()
    log_fully(settings.log_format, settings.log)
    warn_unknown_variables(os.environ)
    run(_serve(the_app(target), settings, *host))
    return 0


async def _serve(app: App, settings: Settings, stdin: BinaryIO, stdout: BinaryIO) -> None:
    server = open_mcp()
    async with app.runtime(settings, grace=1.0) as runtime:
        await server.serve_stdio(runtime, stdin, stdout, app.mcp_server)


def _take_stdio() -> tuple[BinaryIO, BinaryIO]:
    """Return stdin and stdout for the protocol, and replace both: an app that prints or reads must not disturb it.

    Afterwards the app reads nothing, and prints to stderr. Raises `Refusal` if stdin or stdout is closed.
    """
    for name, stream in (("stdin", sys.__stdin__), ("stdout", sys.__stdout__)):
        if stream is None:  # Python's value for a closed stream
            raise Refusal(f"An MCP host uses this command's stdin and stdout, but {name} is closed.")
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return stdin, stdout


async def list_mcp_tools(
    place: str, headers: Sequence[str], settings: Settings, patience: float = PATIENCE
) -> int:
    """Print the tools and prompts of the server at a URL, or started by a command; return the exit code.

    The code is 1 if the server does not answer within `patience` seconds. The standard error of a started process is
    shown.
    """
    server = _server(place, headers)
    log_briefly()
    _SERVERS_LOG.setLevel(logging.ERROR)  # errors are printed below
    logging.getLogger("toolwright.mcp.stdio").setLevel(logging.DEBUG)
    mcp = LazyMcp(settings)
    try:
        target = target_of(server, {})
        listing = await mcp.listing(target, patience)
        offered = await mcp.prompts(target, patience) if listing.status == "ready" else McpPrompts()
    finally:
        await mcp.aclose()
    _print(listing, offered)
    if listing.status == "connecting":
        print(f"toolwright: {place!r} did not answer within {patience:g} s.", file=sys.stderr)
    return 0 if listing.status == "ready" else 1


def _server(place: str, headers: Sequence[str]) -> McpServer:
    """Return the configuration of the server at a URL, or started by a command."""
    entry: dict[str, object] = {"name": "server"}
    if "://" in place:
        entry |= {"url": place, "headers": _headers(headers)}
    else:
        if headers:
            raise Refusal(f"Headers are only sent to a server at a URL, but {place!r} is a command.")
        command, *args = _command(place)
        entry |= {"command": command, "args": args}
    try:
        [server] = read_servers([entry], "mcp", trusted=True)
    except InvalidConfiguration as error:
        raise Refusal(sentence(f"{place!r}: {error.message.removeprefix('mcp.0.')}")) from error
    assert isinstance(server, McpServer), "the entry is an object, not a name"
    if server.variables:
        raise Refusal(
            f"The variable {server.variables[0]!r} has no value on the command line. Write the value itself."
        )
    return server


def _command(text: str) -> list[str]:
    try:
        arguments = shlex.split(text)
    except ValueError as error:
        raise Refusal(f"{text!r} is not a command: {error}.") from error
    if not arguments:
        raise Refusal("--mcp needs the URL of a server, or the command that starts one.")
    return arguments


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name or not value:
            raise Refusal(f"A header must be written as 'Name: value', not {text!r}.")
        if name.lower() in {each.lower() for each in headers}:
            raise Refusal(f"The header {name!r} is given twice. Keep one.")
        headers[name] = value
    return headers


def _print(listing: McpListing, offered: McpPrompts) -> None:
    console = Console()
    tools = [(clean_text(tool.name), _first_line(tool.description)) for tool in listing.tools]
    prompts = [
        (_prompt_signature(prompt), _first_line(prompt.description or "")) for prompt in offered.prompts
    ]
    if console.is_terminal:
        for title, rows in (("tool", tools), ("prompt", prompts)):
            if rows or title == "tool":
                table = Table(title, "what it does", box=box.SIMPLE_HEAD)
                for row in rows:
                    table.add_row(*row)
                console.print(table, markup=False)
    else:
        for kind, rows in (("mcp", tools), ("prompt", prompts)):
            for name, description in rows:
                print(name, kind, description, sep="\t")
    for error in (*listing.faults, *offered.faults):
        print(f"toolwright: {one_line(_error_text(error))}", file=sys.stderr)


def _prompt_signature(prompt: McpPrompt) -> str:
    """Return a prompt with its arguments: `review(diff, tone?)`."""
    arguments = [each.name if each.required else f"{each.name}?" for each in prompt.arguments]
    return clean_text(f"{prompt.name}({', '.join(arguments)})")


def _first_line(text: str) -> str:
    return clean_text(text.strip().split("\n")[0])


def _error_text(error: ListingError) -> str:
    return error.message if error.tool is None else f"{error.tool}: {error.message}"


async def check_servers(app: App, settings: Settings) -> list[tuple[str, bool, str]]:
    """Connect to each server of the app's agents. Return its name, whether it is reachable, and a message."""
    _SERVERS_LOG.setLevel(logging.ERROR)  # the messages contain the errors
    mcp = LazyMcp(settings)
    summaries: dict[str, tuple[str, bool, str]] = {}
    try:
        for agent in app.catalog.agents:
            active = app.catalog.active(agent.id)
            for server in active.mcp:
                target = target_in(server, env_of_agent(active))
                if isinstance(target, ListingError):
                    summaries.setdefault(server.name, (server.name, True, f"not tried: {target.message}"))
                elif target.key not in summaries:
                    listing = await mcp.listing(target, PATIENCE)
                    is_ready = listing.status == "ready"
                    offered = await mcp.prompts(target, PATIENCE) if is_ready else McpPrompts()
                    summaries[target.key] = _summarize(listing, offered)
    finally:
        await mcp.aclose()
    return [*summaries.values()]


def _summarize(listing: McpListing, offered: McpPrompts) -> tuple[str, bool, str]:
    name, errors = listing.server.name, "; ".join(map(_error_text, (*listing.faults, *offered.faults)))
    if listing.status == "connecting":
        return name, False, f"it did not answer within {PATIENCE:g} s"
    if listing.status == "down":
        return name, False, errors
    tools = f"{quantity(len(listing.tools), 'tool')}, revision {listing.protocol}"
    if offered.prompts:
        tools = f"{tools}, {quantity(len(offered.prompts), 'prompt')}"
    if listing.instructions:
        tools = f"{tools}, instructions of {quantity(len(listing.instructions), 'character')}"
    return name, True, f"{tools}; {errors}" if errors else tools
