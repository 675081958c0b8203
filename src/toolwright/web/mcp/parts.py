"""The parts that the handlers of one MCP server share: the runtime, the callers, what is left to do behind them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp_types import ClientCapabilities, LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolwright.core.mcp.offered import McpPermissions
from toolwright.core.tools.tool import Tool
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import Caller
from toolwright.web.auth.permits import Permits
from toolwright.web.mcp.tools import ToolPages

Context: TypeAlias = ServerRequestContext[Any, Any]  # the SDK's parameters are of no use here
BEAT = 10.0
"""Seconds between two words of progress about a call that waits."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension by which hosts of the revision 2026-07-28 know tasks."""


@dataclass(slots=True, kw_only=True)
class McpParts:
    """Parts of one server. `caller` says who sends a request; `levels` are the log levels that sessions asked for.
    `permissions` decide which tools are there for a caller."""

    opened: Callable[[], Runtime]
    caller: Callable[[Context], Caller]
    patience: float = 0.5  # seconds within which a call is answered, although the host knows tasks
    beat: float = BEAT
    permissions: McpPermissions = field(default_factory=McpPermissions)
    levels: dict[str | None, LoggingLevel] = field(default_factory=dict[str | None, LoggingLevel])
    _pages: ToolPages | None = None
    _behind: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def runtime(self) -> Runtime:
        """The runtime, else `StoreError`."""
        return self.opened()

    @property
    def pages(self) -> ToolPages:
        """The tools as hosts are told of them."""
        tools = self.runtime.app_calls.tools
        if self._pages is None or self._pages.tools is not tools:
            self._pages = ToolPages(tools)
        return self._pages

    async def allows(self, context: Context, tool: Tool, delegate: object = None) -> bool:
        """Return whether the tool is there for the caller of that request, with the delegate that a call chooses."""
        if not self.permits(context, tool.name):
            return False
        return await Permits(self.runtime).tool(self.caller(context), tool, delegate)

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Do something that the end of a request does not end."""
        task = asyncio.create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return task

    async def aclose(self) -> None:
        """Wait for what was begun so."""
        while self._behind:
            await asyncio.wait(self._behind)

    def permits(self, context: Context, name: str) -> bool:
        """Return whether the caller of that request has permission to use the tool of that name."""
        tool = self.pages.named(name)
        read_only = tool is not None and tool.read_only
        return self.permissions.allow(self.caller(context).kind, name, read_only=read_only)

    def offers(self, context: Context, name: str) -> bool:
        """Return whether the caller of that request has permission to use the prompt or resource of that name."""
        return self.permissions.allow(self.caller(context).kind, name, read_only=True)


def is_modern(context: Context) -> bool:
    """Whether the host speaks the revision 2026-07-28, and not one with a handshake."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def capabilities_of(context: Context) -> ClientCapabilities:
    """The abilities that the host has named, for this request or for its session."""
    return context.session.client_capabilities or ClientCapabilities()


def knows_tasks(context: Context) -> bool:
    """Whether the host takes a task for an answer to a call."""
    return is_modern(context) and TASKS in (capabilities_of(context).extensions or {})
