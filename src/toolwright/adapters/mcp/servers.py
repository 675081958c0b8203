"""All MCP servers that the runtime is connected to."""

import asyncio
import itertools
import ssl
import time
from collections.abc import Callable, Iterable, Mapping

import httpx2

from toolwright.adapters.mcp.connection import Connection
from toolwright.adapters.mcp.http import JudgedNetwork, Lost, client
from toolwright.adapters.mcp.peer import NoPeer, within
from toolwright.adapters.mcp.resources import listed_prompts, written_prompt
from toolwright.adapters.mcp.tasks import answer_task, cancel_task, task_state
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import McpListing, McpPrompts
from toolwright.core.mcp.servers import McpPromptText, McpTaskState
from toolwright.core.tools.http.addresses import Allowed, Resolve, anywhere, public_or
from toolwright.core.tools.mcp import McpTarget

MOST_CONNECTIONS = 200
"""Connections above which the one that was used least lately is closed, of those on which no call is in progress."""
IDLE = 600.0
"""Seconds without a call or a question for its tools, after which a connection is closed."""
SWEEP = 60.0


class McpConnections:
    """Connections by their targets. `resolve` finds the addresses of a name, `allow` admits addresses not public."""

    def __init__(
        self,
        *,
        resolve: Resolve,
        allow: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST_CONNECTIONS,
    ) -> None:
        self._clock = clock
        self._most = most
        self._as_written = JudgedNetwork(resolve, anywhere)
        self._guarded = JudgedNetwork(resolve, public_or(Allowed.read(allow)))
        self._tls: ssl.SSLContext | None = None
        self._numbers = itertools.count(1)
        self._by_key: dict[str, Connection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None

    def of(self, target: McpTarget) -> Connection:
        """The connection to that target, which is begun if there is none."""
        connection = self._by_key.get(target.key)
        if connection is None:
            if len(self._by_key) >= self._most:
                self._make_room()
            connection = self._by_key[target.key] = Connection(
                target, self._client, self._clock, self._numbers
            )
            if self._sweeping is None:
                self._sweeping = asyncio.create_task(self._sweep(), name="mcp-idle-connections")
        return connection

    async def listing(self, target: McpTarget, seconds: float) -> McpListing:
        """The tools that the server listed last; one that never did is waited for so long, in seconds."""
        return await self.of(target).listed(target.server, seconds)

    async def prompts(self, target: McpTarget, seconds: float) -> McpPrompts:
        """The prompts that the server offers, asked for so long, in seconds."""
        connection = self.of(target)
        with connection.logging():
            return await listed_prompts(connection, seconds)

    async def prompt(self, target: McpTarget, name: str, arguments: Mapping[str, str]) -> McpPromptText:
        """A prompt with these arguments. Raises `McpUnavailable` and `McpRefused`."""
        connection = self.of(target)
        with connection.logging():
            return await written_prompt(connection, name, arguments)

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        """The state of a task. Raises `McpUnavailable`, and `McpTaskGone` where the server knows of none."""
        connection = self.of(target)
        with connection.logging(), within(session):
            nobody = connection.calling(NoPeer())
            return await task_state(await connection.session(), task_id, output, nobody)

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        """Hand in the answers to its questions, by their keys. Raises what `task` does."""
        connection = self.of(target)
        with connection.logging(), within(session):
            await answer_task(await connection.session(), task_id, answers)

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        """Ask the server to stop. Raises what `task` does."""
        connection = self.of(target)
        with connection.logging(), within(session):
            await cancel_task(await connection.session(), task_id)

    async def aclose(self) -> None:
        """Close all connections, and end the processes of servers on stdio."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        connections, self._by_key = [*self._by_key.values()], {}
        await asyncio.gather(*[each.close() for each in connections], *self._closing)

    def _client(self, target: McpTarget, lost: Lost) -> httpx2.AsyncClient:
        if self._tls is None:
            self._tls = httpx2.create_ssl_context()
        network = self._as_written if target.server.trusted else self._guarded
        return client(network, self._tls, target.headers, lost)

    def _make_room(self) -> None:
        free = [each for each in self._by_key.values() if not each.is_busy]
        free.sort(key=lambda each: each.used_at)
        for each in free[: len(self._by_key) - self._most + 1]:
            self._drop(each)

    def _drop(self, connection: Connection) -> None:
        self._by_key.pop(connection.target.key, None)
        closing = asyncio.create_task(connection.close(), name="mcp-connection-close")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            for each in [*self._by_key.values()]:
                if each.is_idle(IDLE):
                    self._drop(each)
