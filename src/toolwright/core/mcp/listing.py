"""Listed tools of MCP servers, converted to our tools; and the merged tools of several servers."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Literal, TypeAlias

from toolwright.core.arguments.patterns import warn_of_patterns
from toolwright.core.arguments.schema import InvalidSchema, compile_promise
from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.json_value import (
    JSON,
    JSONObject,
    dumps,
    dumps_unescaped,
    has_more_values,
    one_line,
    plain,
    surely_longer,
)
from toolwright.core.limits import MAX_ID, MAX_NESTING, MAX_SCHEMA, MAX_SCHEMA_VALUES
from toolwright.core.text import brief, clean_text, sentence
from toolwright.core.tools.mcp import McpCall, McpServer
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Value, changed

MAX_LISTED = 1_000
"""Maximum number of a server's tools for an agent; if there are more, tools named in `allowedTools` are selected."""
MAX_DESCRIPTION = 10_000
"""Maximum number of characters of a tool's description, which a model reads at every step; the rest is left out."""
MAX_LISTED_TEXT = 2 * 1024 * 1024
"""Maximum number of characters of the descriptions and schemas of a server's tools; further tools are left out."""
_TOO_MUCH_TEXT = (
    f"The server's tools have more than {MAX_LISTED_TEXT} characters: name those to use in allowedTools."
)
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
SHARE = 4
"""One in so many tokens of a request to a model is the most that the definitions of all servers' tools take."""
MIN_DESCRIPTION = 200
"""Characters to which the descriptions are shortened before tools are left out."""
_CHARACTERS = 4  # of a token
MAX_ERRORS = 20  # reported for one list
MAX_ARGUMENTS = 100  # of a prompt
MAX_URI = 4_000  # characters of a resource's URI
MAX_INSTRUCTIONS = 2_000  # characters of one server's instructions

Status: TypeAlias = Literal["connecting", "ready", "down"]


class ListingError(Value):
    """An error of a server, or of one of its tools."""

    message: str
    tool: str | None = None


class McpListing(Value, gc=True):
    """The last list of a server's tools, under their own names.

    `number` identifies the list in this process: equal lists have the same number. `status` is the server's current
    status. `faults` are the errors of its tools, and the reason why it is unavailable. `instructions` are the server's
    instructions for the model, shortened, or None if it has none or the agent does not show them.
    """

    server: McpServer
    status: Status
    number: int = 0
    tools: tuple[Tool, ...] = ()
    faults: tuple[ListingError, ...] = ()
    protocol: str | None = None
    instructions: str | None = None


class McpPromptArgument(Value):
    """An argument of a prompt, which is text."""

    name: str
    description: str | None = None
    required: bool = False


class McpPrompt(Value):
    """A prompt that a server offers to people, with its arguments. Models do not see it."""

    name: str
    description: str | None = None
    arguments: tuple[McpPromptArgument, ...] = ()


class McpPrompts(Value):
    """The prompts of a server, and the errors in their list."""

    prompts: tuple[McpPrompt, ...] = ()
    faults: tuple[ListingError, ...] = ()


def read_prompts(listed: Sequence[JSON]) -> McpPrompts:
    """Return the listed prompts, at most `MAX_LISTED`."""
    prompts: dict[str, McpPrompt] = {}
    errors: list[ListingError] = []
    for entry in listed:
        prompt = _prompt(entry)
        if prompt is None or prompt.name in prompts:
            errors = [ListingError(message="A prompt has no name on one line, or one that is listed before.")]
        elif len(prompts) == MAX_LISTED:
            errors = [ListingError(message=f"The server lists more than {MAX_LISTED} prompts.")]
            break
        else:
            prompts[prompt.name] = prompt
    return McpPrompts(prompts=tuple(prompts.values()), faults=tuple(errors))


def _prompt(entry: JSON) -> McpPrompt | None:
    name = _name(entry)
    if not isinstance(entry, dict) or name is None:
        return None
    listed = entry.get("arguments")
    arguments = [
        McpPromptArgument(name=argument, description=_described(each), required=each.get("required") is True)
        for each in (listed if isinstance(listed, list) else [])[:MAX_ARGUMENTS]
        if isinstance(each, dict) and (argument := _name(each)) is not None
    ]
    return McpPrompt(name=name, description=_described(entry), arguments=tuple(arguments))


def _name(entry: JSON) -> str | None:
    """Return the name of an entry, or None if the name is invalid."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and _is_name(name) else None


def _is_name(name: str) -> bool:
    """Return whether a name can be shown: without characters that are invisible or change the direction of text."""
    fits = bool(name.strip()) and one_line(name) and len(name) <= MAX_ID
    return fits and (name.isascii() or _INVISIBLE.search(name) is None)


def _described(entry: Mapping[str, JSON]) -> str | None:
    for text in (entry.get("description"), entry.get("title")):
        if isinstance(text, str) and text.strip():
            return text[:MAX_DESCRIPTION]
    return None


def read_listed(
    server: McpServer, listed: Sequence[JSON]
) -> tuple[tuple[Tool, ...], tuple[ListingError, ...]]:
    """Return the listed tools that the agent is allowed to use, and the reasons why others are omitted."""
    with warn_of_patterns(f"The MCP server {server.name!r}"):
        return _read_listed(server, listed)


def _read_listed(
    server: McpServer, listed: Sequence[JSON]
) -> tuple[tuple[Tool, ...], tuple[ListingError, ...]]:
    tools: dict[str, Tool] = {}
    errors: list[ListingError] = []
    count, room = 0, MAX_LISTED_TEXT
    for entry in listed:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(name, str):
            errors.append(ListingError(message="A tool has no name."))
            continue
        if not server.allows(name):
            continue
        count += 1
        if len(tools) >= MAX_LISTED:
            continue  # but counted, for the error about omitted tools
        shown = brief(name, 60)
        if name in tools:
            errors.append(ListingError(message="The tool is listed twice; the first one counts.", tool=shown))
            continue
        try:
            output, ignored = _output(entry)
            tool = read_tool(server, name, entry, output)
            room -= len(tool.description) + len(dumps(tool.parameters))
            if room < 0:
                raise DefinitionError(_TOO_MUCH_TEXT)
            tools[name] = tool
        except (DefinitionError, InvalidJSON) as error:
            errors.append(ListingError(message=error.message, tool=shown))
            continue
        if ignored is not None:
            message = sentence(f"Its outputSchema is ignored: {ignored}")
            errors.append(ListingError(message=message, tool=shown))
        if isinstance(said := entry.get("description"), str) and len(said) > MAX_DESCRIPTION:
            message = f"Of its description of {len(said)} characters the first {MAX_DESCRIPTION} are used."
            errors.append(ListingError(message=message, tool=shown))
    if count > MAX_LISTED:
        many = f"The server lists {count} tools; an agent has the first {MAX_LISTED}: name others in allowedTools."
        errors.insert(0, ListingError(message=many))
    missing = sorted(server.named_tools - {*_names(listed)})
    errors += [ListingError(message="The server does not list this tool.", tool=each) for each in missing]
    return tuple(tools.values()), tuple(_first(errors))


def _first(errors: Sequence[ListingError]) -> Sequence[ListingError]:
    """Return the errors to report: `MAX_ERRORS`, and the number of the others."""
    if len(errors) <= MAX_ERRORS:
        return errors
    return [*errors[:MAX_ERRORS], ListingError(message=f"{len(errors) - MAX_ERRORS} more faults.")]


def _names(listed: Sequence[JSON]) -> Iterable[str]:
    for entry in listed:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str):
            yield name


def _output(entry: Mapping[str, JSON]) -> tuple[JSONObject | None, str | None]:
    """Return the schema of the tool's structured results, or None; and why the listed one is ignored.

    A tool with an invalid output schema is kept without the schema: results are read after the call has taken effect.
    """
    schema = entry.get("outputSchema")
    if schema is None:
        return None, None
    if not isinstance(schema, dict):
        return None, "it must be an object"
    if has_more_values(schema, MAX_SCHEMA_VALUES):
        return None, f"it holds more than {MAX_SCHEMA_VALUES} JSON values"
    try:
        copy = _clean_copy(schema)
        compile_promise(copy)
    except InvalidJSON as error:
        return None, error.message
    except InvalidSchema as fault:
        return None, str(fault)
    return copy, None


def read_tool(
    server: McpServer, name: str, entry: Mapping[str, JSON], output: JSONObject | None = None
) -> Tool:
    """Return the tool of one list entry, whose results are described by `output`.

    Raises `DefinitionError` or `InvalidJSON` if the tool could not be called.
    """
    if not _is_name(name):
        raise DefinitionError(
            f"The name of a tool is 1 to {MAX_ID} characters on one line, none of them invisible or a text direction."
        )
    schema = entry.get("inputSchema")
    if not isinstance(schema, dict):
        raise DefinitionError("Its inputSchema must be an object.")
    if schema.get("type", "object") != "object":
        raise DefinitionError("Its inputSchema must be an object schema.")
    if has_more_values(schema, MAX_SCHEMA_VALUES):
        raise DefinitionError(f"Its inputSchema holds more than {MAX_SCHEMA_VALUES} JSON values.")
    if surely_longer(schema, MAX_SCHEMA):
        raise DefinitionError(f"Its inputSchema has more than {MAX_SCHEMA} characters.")
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
            output=output,
            digest=digest_of(entry),
            as_task=_takes_tasks(entry),
        ),
    )


def resource_tool(server: McpServer) -> Tool:
    """Return the tool with which a model reads the server's resources, such as those that results link to."""
    return Tool(
        name=f"{server.name}__read_resource",
        description=(
            f"Read a resource of the MCP server {server.name!r} by its URI, such as one that a result links to."
        ),
        kind="mcp",
        parameters={
            "type": "object",
            "properties": {"uri": {"type": "string", "minLength": 1, "maxLength": MAX_URI}},
            "required": ["uri"],
            "additionalProperties": False,
        },
        timeout=server.timeout,
        visible=server.visible,
        read_only=True,
        requires_approval=server.requires_approval,
        relation=McpCall(server=server, tool="resources/read", reads=True),
    )


def _takes_tasks(entry: Mapping[str, JSON]) -> bool:
    execution = entry.get("execution")
    return isinstance(execution, dict) and execution.get("taskSupport") in ("required", "optional")


def digest_of(entry: Mapping[str, JSON]) -> str:
    """Return a digest of a tool's definition as sent to a model, and of its output schema."""
    told: list[JSON] = [
        entry.get(part) for part in ("title", "description", "inputSchema", "outputSchema", "annotations")
    ]
    return hashlib.sha256(dumps(told).encode()).hexdigest()[:32]


def _copied(schema: JSONObject) -> JSONObject:
    """Return a copy of a listed object schema, with the type set at its root.

    Raises `InvalidJSON` like `_clean_copy`.
    """
    copy = _clean_copy(schema)
    return copy if "type" in copy else {"type": "object", **copy}


def _clean_copy(schema: JSONObject) -> JSONObject:
    """Return the listed schema with cleaned titles and descriptions. Raises `InvalidJSON` if nested too deeply."""
    copy = plain(schema, MAX_NESTING)
    assert isinstance(copy, dict), "a copy of an object"
    _clean_notes(copy)
    return copy


def _clean_notes(schema: JSON) -> None:
    """Clean the titles and descriptions in a schema. Values are unchanged, because they are sent back to the server."""
    left: list[JSON] = [schema]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            for note in ("title", "description"):
                if isinstance(text := each.get(note), str):
                    each[note] = clean_text(text)
        if isinstance(each, dict | list):
            left += each.values() if isinstance(each, dict) else each


def _description(server: McpServer, name: str, entry: Mapping[str, JSON], hints: Mapping[str, JSON]) -> str:
    for text in (entry.get("description"), entry.get("title"), hints.get("title")):
        if isinstance(text, str) and text.strip():
            return clean_text(text[:MAX_DESCRIPTION])
    return f"The tool {name!r} of the MCP server {server.name!r}."


def side_by_side(
    listings: Sequence[McpListing], own: Set[str], built_in: Set[str]
) -> tuple[list[Tool], list[tuple[str, ListingError]]]:
    """Return the tools of several servers merged with an agent's own, and the name conflicts by server.

    A name that several servers or the agent's own tools have becomes `server__tool`. Names of built-in tools are
    reserved (D11).
    """
    counted = Counter(tool.name for listing in listings for tool in listing.tools)
    tools: list[Tool] = []
    errors: list[tuple[str, ListingError]] = []
    taken = {*own, *built_in}
    for listing in listings:
        for tool in listing.tools:
            name = tool.name
            if name in built_in:
                clash = ListingError(
                    message="Its name is that of a built-in tool, which goes before it.", tool=name
                )
                errors.append((listing.server.name, clash))
                continue
            if counted[name] > 1 or name in own:
                name = f"{listing.server.name}__{name}"
            if name in taken:
                clash = ListingError(message=f"Its name {name!r} is taken.", tool=tool.name)
                errors.append((listing.server.name, clash))
                continue
            taken.add(name)
            tools.append(tool if name == tool.name else changed(tool, name=name))
    return tools, errors


def within_share(
    tools: Sequence[Tool], tokens: int
) -> tuple[Sequence[Tool], Sequence[tuple[str, ListingError]]]:
    """Return the tools of servers that fit into their share of a request of so many tokens, and the errors by server.

    The longest descriptions are shortened first, but not below `MIN_DESCRIPTION`. If the definitions are still too
    long, each tool that does not fit beside those before it is left out.
    """
    room = tokens * _CHARACTERS // SHARE
    sizes = [*map(_size, tools)]
    if sum(sizes) <= room:
        return tools, ()
    described = [_weight(each.description) for each in tools]
    most = _longest(described, room - sum(sizes) + sum(described))
    why = f"the tools of all servers have a quarter of the {tokens} tokens of a request to the model."
    fitting: list[Tool] = []
    errors: dict[str, list[ListingError]] = {}
    for tool, weight in zip(tools, described, strict=True):
        length = len(tool.description)
        first = length if weight <= most else max(length * most // weight, MIN_DESCRIPTION)
        is_cut = first < length
        offered = changed(tool, description=tool.description[:first]) if is_cut else tool
        size = _size(offered)
        if size <= room:
            room -= size
            fitting.append(offered)
            if not is_cut:
                continue
            message = f"Of its description of {length} characters the first {first} are used: {why}"
        else:
            message = f"It is left out: {why}"
        errors.setdefault(_server_name(tool), []).append(ListingError(message=message, tool=tool.name))
    return fitting, [(server, each) for server, found in errors.items() for each in _first(found)]


def _size(tool: Tool) -> int:
    return _weight(dumps_unescaped([tool.name, tool.description, tool.offered]))


def _weight(text: str) -> int:
    """Return about four times the tokens of a text: characters, of which those of three bytes count four times."""
    return len(text) + 3 * (len(text.encode("utf-8", "surrogatepass")) - len(text)) // 2


def _server_name(tool: Tool) -> str:
    assert isinstance(tool.relation, McpCall), "a tool of a server"
    return tool.relation.server.name


def _longest(lengths: Sequence[int], room: int) -> int:
    """Return the length to which the longest texts are cut, so that all of them fit into the room."""
    longest = 0
    for count, longest in zip(range(len(lengths), 0, -1), sorted(lengths), strict=True):
        if longest * count > room:
            return room // count
        room -= longest
    return longest
