"""The lists of MCP servers as tools of ours, and the tools of several servers side by side."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Literal, TypeAlias

from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.limits import MAX_DESCRIPTION, MAX_ID, MAX_NESTING, MAX_SCHEMA_VALUES
from toolwright.core.plain import has_more_values, one_line, plain
from toolwright.core.text import brief
from toolwright.core.tools.mcp import McpCall, McpServer
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed, value

MOST_LISTED = 1_000
"""Tools of one server that an agent has; of more, those that `allowedTools` names."""
MOST_FAULTS = 20  # that are told of one list

Status: TypeAlias = Literal["connecting", "ready", "down"]


@value
class McpFault:
    """Something that is wrong with a server, or with one of its tools."""

    message: str
    tool: str | None = None


@value
class McpListing:
    """The tools of a server as it listed them last, under their own names.

    `number` counts the lists in this process, so that equal ones have the same; `status` tells whether the server is
    there now. `faults` are those of its tools, and why it is not there.
    """

    server: McpServer
    status: Status
    number: int = 0
    tools: tuple[Tool, ...] = ()
    faults: tuple[McpFault, ...] = ()
    protocol: str | None = None


def read_listed(server: McpServer, listed: Sequence[JSON]) -> tuple[tuple[Tool, ...], tuple[McpFault, ...]]:
    """The tools that the agent may have of those that are listed, and why it has not others."""
    tools: dict[str, Tool] = {}
    faults: list[McpFault] = []
    count = 0
    for entry in listed:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(name, str):
            faults.append(McpFault(message="A tool has no name."))
            continue
        if not server.allows(name):
            continue
        count += 1
        if len(tools) >= MOST_LISTED:
            continue
        shown = brief(name, 60)
        if name in tools:
            faults.append(McpFault(message="The tool is listed twice; the first one counts.", tool=shown))
            continue
        try:
            tools[name] = read_tool(server, name, entry)
        except (DefinitionError, InvalidJSON) as error:
            faults.append(McpFault(message=error.message, tool=shown))
    if count > MOST_LISTED:
        many = f"The server lists {count} tools; an agent has the first {MOST_LISTED}: name others in allowedTools."
        faults.insert(0, McpFault(message=many))
    missing = sorted(server.named_tools - {*_names(listed)})
    faults += [McpFault(message="The server does not list this tool.", tool=each) for each in missing]
    if len(faults) > MOST_FAULTS:
        rest = McpFault(message=f"{len(faults) - MOST_FAULTS} more faults.")
        faults = [*faults[:MOST_FAULTS], rest]
    return tuple(tools.values()), tuple(faults)


def _names(listed: Sequence[JSON]) -> Iterable[str]:
    for entry in listed:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str):
            yield name


def read_tool(server: McpServer, name: str, entry: Mapping[str, JSON]) -> Tool:
    """The tool of one entry of a list. Raises `DefinitionError` or `InvalidJSON` for one that nobody could call."""
    if not name.strip() or not one_line(name) or len(name) > MAX_ID:
        raise DefinitionError(f"The name of a tool is 1 to {MAX_ID} characters on one line.")
    schema, output = entry.get("inputSchema"), entry.get("outputSchema")
    if not isinstance(schema, dict):
        raise DefinitionError("Its inputSchema must be an object.")
    if schema.get("type", "object") != "object":
        raise DefinitionError("Its inputSchema must be that of an object.")
    for what, each in (("inputSchema", schema), ("outputSchema", output)):
        if has_more_values(each, MAX_SCHEMA_VALUES):
            raise DefinitionError(f"Its {what} holds more than {MAX_SCHEMA_VALUES} JSON values.")
    options = server.options(name)
    hints = entry.get("annotations")
    hinted = hints if isinstance(hints, dict) else {}
    read_only = hinted.get("readOnlyHint") is True
    timeout = server.timeout if options.timeout is None else options.timeout
    return Tool(
        name=name,
        description=_description(server, name, entry, hinted),
        kind="mcp",
        parameters=_copied(schema),
        timeout=timeout,
        visible=server.visible if options.visible is None else options.visible,
        read_only=read_only,
        idempotent=hinted.get("idempotentHint") is True,
        destructive=hinted.get("destructiveHint") is True and not read_only,
        requires_approval=server.requires_approval
        if options.requires_approval is None
        else options.requires_approval,
        relation=McpCall(
            server=server,
            tool=name,
            output=_copied(output) if isinstance(output, dict) else None,
            digest=digest_of(entry),
            as_task=_takes_tasks(entry),
        ),
    )


def _takes_tasks(entry: Mapping[str, JSON]) -> bool:
    execution = entry.get("execution")
    return isinstance(execution, dict) and execution.get("taskSupport") in ("required", "optional")


def digest_of(entry: Mapping[str, JSON]) -> str:
    """The digest of what a model is told of a tool, and of what it promises: it changes when one of these does."""
    told: list[JSON] = [
        entry.get(part) for part in ("title", "description", "inputSchema", "outputSchema", "annotations")
    ]
    return hashlib.sha256(dumps(told).encode()).hexdigest()[:32]


def _copied(schema: JSONObject) -> JSONObject:
    """The schema as it was listed; an object's root always says so. Raises `InvalidJSON` for one that is too deep."""
    copy = plain(schema, MAX_NESTING)
    assert isinstance(copy, dict), "a copy of an object"
    return copy if "type" in copy else {"type": "object", **copy}


def _description(server: McpServer, name: str, entry: Mapping[str, JSON], hints: Mapping[str, JSON]) -> str:
    for text in (entry.get("description"), entry.get("title"), hints.get("title")):
        if isinstance(text, str) and text.strip():
            return text[:MAX_DESCRIPTION]
    return f"The tool {name!r} of the MCP server {server.name!r}."


def side_by_side(
    listings: Sequence[McpListing], own: Set[str], built_in: Set[str]
) -> tuple[list[Tool], list[tuple[str, McpFault]]]:
    """The tools of several servers beside an agent's own, and the faults of names, by server.

    A name that several have, or that is one of the agent's own, is `server__tool`; that of a built-in tool is nobody
    else's (D11).
    """
    counted = Counter(tool.name for listing in listings for tool in listing.tools)
    tools: list[Tool] = []
    faults: list[tuple[str, McpFault]] = []
    taken = {*own, *built_in}
    for listing in listings:
        for tool in listing.tools:
            name = tool.name
            if name in built_in:
                clash = McpFault(
                    message="Its name is that of a built-in tool, which goes before it.", tool=name
                )
                faults.append((listing.server.name, clash))
                continue
            if counted[name] > 1 or name in own:
                name = f"{listing.server.name}__{name}"
            if name in taken:
                clash = McpFault(message=f"Its name {name!r} is taken.", tool=tool.name)
                faults.append((listing.server.name, clash))
                continue
            taken.add(name)
            tools.append(tool if name == tool.name else changed(tool, name=name))
    return tools, faults
