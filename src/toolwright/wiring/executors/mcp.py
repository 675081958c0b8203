"""MCP servers: what they need is loaded when the first of them is asked for its tools."""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from toolwright.core.errors import MissingExtra, missing_extra
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import McpFault, McpListing, McpPrompts
from toolwright.core.mcp.servers import McpPromptText, McpServers, McpTaskState, McpUnavailable
from toolwright.core.results.result import Outcome, ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.tools.pipeline import Executor, PreparedCall
from toolwright.wiring.settings import Settings


class LazyMcp:
    """The MCP servers of the runtime, and the executor of their tools, as the settings have them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections: Any = None  # made when the extra is loaded
        self._executor: Executor | None = None

    async def _load(self) -> McpServers:
        if self._connections is not None:
            return self._connections
        try:  # in a thread: the SDK takes some tenths of a second
            servers = await asyncio.to_thread(import_module, "toolwright.adapters.mcp.servers")
            executor = await asyncio.to_thread(import_module, "toolwright.adapters.mcp.executor")
        except ModuleNotFoundError as error:
            raise missing_extra("An MCP server", "mcp", error) from error
        if self._connections is None:  # nobody else has made them meanwhile
            resolve = import_module("toolwright.adapters.executors.connection").resolve
            self._connections = servers.McpConnections(resolve=resolve, allow=self._settings.http_allow)
            self._executor = executor.McpExecutor(self._connections)
        return self._connections

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        """The result of a call."""
        try:
            await self._load()
        except MissingExtra as error:
            return ToolResult.fail(error.message, error_code=error.code)
        assert self._executor is not None, "it was loaded"
        return await self._executor(prepared, state)

    async def listing(self, target: McpTarget, seconds: float) -> McpListing:
        """The tools that the server listed last."""
        try:
            servers = await self._load()
        except MissingExtra as error:
            return McpListing(server=target.server, status="down", faults=(McpFault(message=error.message),))
        return await servers.listing(target, seconds)

    async def prompts(self, target: McpTarget, seconds: float) -> McpPrompts:
        """The prompts that the server offers."""
        try:
            servers = await self._load()
        except MissingExtra as error:
            return McpPrompts(faults=(McpFault(message=error.message),))
        return await servers.prompts(target, seconds)

    async def prompt(self, target: McpTarget, name: str, arguments: Mapping[str, str]) -> McpPromptText:
        """A prompt with these arguments."""
        return await (await self._loaded()).prompt(target, name, arguments)

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        """The state of a task."""
        return await (await self._loaded()).task(target, task_id, output, session)

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        """Hand in answers to the questions of a task."""
        await (await self._loaded()).answer_task(target, task_id, answers, session)

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        """Ask the server to stop a task."""
        await (await self._loaded()).cancel_task(target, task_id, session)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._connections is not None:
            await self._connections.aclose()

    async def _loaded(self) -> McpServers:
        try:
            return await self._load()
        except MissingExtra as error:
            raise McpUnavailable(error.message) from error
