"""Configuration of MCP servers: location, permitted callers, tools and their options."""

import hashlib
from collections.abc import Mapping, Set
from typing import Literal, TypeAlias

from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.limits import OUTSIDE_TIMEOUT
from toolwright.core.tools.approval import Approval
from toolwright.core.tools.http.url_template import Piece, Slot, Unfillable, percent, read_header, read_url
from toolwright.core.value import Value

Transport: TypeAlias = Literal["http", "sse", "stdio"]
Revision: TypeAlias = Literal["2025-11-25", "2026-07-28"]
"""A revision of the protocol."""


class McpToolOptions(Value):
    """Options of one tool of a server. `timeout` is in seconds; None uses the server's timeout."""

    visible: bool | None = None
    timeout: float | None = None
    requires_approval: Approval | Literal[False] | None = None


class McpServer(Value):
    """A server whose tools agents call. A `stdio` server is a process: `command` with `args` and `env`.

    `${env.NAME}` in `url`, `headers` and `env` stands for a variable of the thread; a run waits until it is set.
    `revision` is the only protocol revision to use; None means the newest that the server supports. `allowed_tools`
    None means all tools. `timeout` is the timeout of its tools in seconds. With `sampling` the server may send requests
    to the agent's model. With `hold_changes` a tool that changes its definition after its first call is held back until
    the change is accepted. With `instructions` the model is shown the server's instructions, with `resources` it has a
    tool that reads the server's resources. Calls wait for an approval if it `requires_approval`, unless a tool's
    options override that. A server that is not `trusted` was configured over HTTP: its URL can reach only public
    addresses and addresses allowed by the operator.
    """

    name: str
    transport: Transport = "http"
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    revision: Revision | None = None
    allowed_tools: frozenset[str] | None = None
    visible: bool = False
    timeout: float = OUTSIDE_TIMEOUT
    tools: tuple[tuple[str, McpToolOptions], ...] = ()
    sampling: bool = False
    hold_changes: bool = False
    instructions: bool = True
    resources: bool = False
    trusted: bool = True
    requires_approval: Approval | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the server requires."""
        pieces: list[Piece] = [piece for _, text in (*self.headers, *self.env) for piece in read_header(text)]
        slots = [piece for piece in pieces if isinstance(piece, Slot)]
        if self.url is not None:
            slots += read_url(self.url).slots
        return tuple(dict.fromkeys([slot.name for slot in slots]))

    @property
    def named_tools(self) -> frozenset[str]:
        """The names of tools in its configuration: allowed tools, and tools with options."""
        return (self.allowed_tools or frozenset()) | {name for name, _ in self.tools}

    def options(self, tool: str) -> McpToolOptions:
        """Return the options of that tool."""
        return dict(self.tools).get(tool, McpToolOptions())

    def allows(self, tool: str) -> bool:
        """Return whether the agent is allowed to list and call that tool."""
        return self.allowed_tools is None or tool in self.allowed_tools


class McpTarget(Value):
    """A server with the values of one thread: the target of a connection.

    Threads with the same values and the same secret names share it. `key` identifies the target and contains no value.
    `place` is the digest of its location only: the URL or the command, without secrets. `secrets` are the names and
    values of the secret variables.
    """

    server: McpServer
    url: str | None
    headers: tuple[tuple[str, str], ...]
    env: tuple[tuple[str, str], ...]
    key: str
    place: str
    secrets: frozenset[tuple[str, str]] = frozenset()

    def __repr__(self) -> str:
        """Return the parts without values of variables."""
        return f"McpTarget(server={self.server!r}, key={self.key!r}, place={self.place!r})"


class McpCall(Value):
    """Relation of a tool of the kind `mcp` to the tool of the server that it calls, by the server's name for it.

    `output` is the schema of its structured results; `digest` identifies its definition. With `as_task` a server of the
    revision 2025-11-25 executes the call as a task. With `reads` the call reads the resource in its argument `uri`.
    """

    server: McpServer
    tool: str
    output: JSONObject | None = None
    digest: str = ""
    as_task: bool = False
    reads: bool = False


def target_of(server: McpServer, values: Mapping[str, str], secret: Set[str] = frozenset()) -> McpTarget:
    """Return the target with these values of all its variables; `secret` are the names of secrets.

    Raises `Unfillable`; its message contains no values.
    """
    url = _url(server, values)
    headers = tuple([(name, _text(name, text, values)) for name, text in server.headers])
    env = tuple([(name, _text(name, text, values)) for name, text in server.env])
    shared: list[JSON] = [server.name, server.transport, url, server.command, server.trusted, server.sampling]
    parts: list[JSON] = [
        *shared,
        server.revision,
        [*server.args],
        [[*pair] for pair in headers],
        [[*pair] for pair in env],
        [*sorted(secret & values.keys())],  # redacted in the server's messages
    ]
    secrets = frozenset([(name, text) for name, text in values.items() if name in secret])
    place = _digest([_url(server, {**values, **dict.fromkeys(secret, "*")}), server.command, [*server.args]])
    return McpTarget(
        server=server, url=url, headers=headers, env=env, key=_digest(parts), place=place, secrets=secrets
    )


def _url(server: McpServer, values: Mapping[str, str]) -> str | None:
    def filled(slot: Slot) -> str | None:
        text = values.get(slot.name)
        return None if text is None else percent(text)

    return None if server.url is None else read_url(server.url).fill(filled)


def _digest(parts: list[JSON]) -> str:
    return hashlib.sha256(dumps(parts).encode()).hexdigest()[:32]


def _text(name: str, template: str, values: Mapping[str, str]) -> str:
    filled = "".join(
        [piece if isinstance(piece, str) else values[piece.name] for piece in read_header(template)]
    )
    if any(ord(letter) < 32 and letter != "\t" for letter in filled):
        raise Unfillable(f"{name!r} would hold a line break or another control character.")
    return filled.strip()
