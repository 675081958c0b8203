"""Executors of an app: HTTP tools, MCP servers and sandboxes, whose libraries are loaded when first used."""

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from toolwright.adapters.system import check_certificates
from toolwright.core.errors import DefinitionError, MissingExtra, missing_extra
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import ListingError, McpListing, McpPrompts
from toolwright.core.mcp.servers import McpPromptText, McpServers, McpTaskState, McpUnavailable
from toolwright.core.results import Outcome, ToolResult
from toolwright.core.state.sandbox import CodeHandle, CodeLimits, CodeOptions, Sandbox, read_options
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.tools.openapi import Api, ApiEntry, ReadApi, read_entry
from toolwright.core.tools.pipeline import Executor, PreparedCall
from toolwright.wiring.settings import Settings

if TYPE_CHECKING:
    from toolwright.adapters.executors.http import HttpExecutor

_DENO = ("toolwright.adapters.sandbox.deno", "DenoSandbox")
_MONTY = ("toolwright.adapters.sandbox.monty", "MontySandbox")


def api_reader(settings: Settings) -> ReadApi:
    """Return the reader of OpenAPI documents of configured agents, with the same allowed addresses as HTTP tools."""

    async def read(entry: ApiEntry, trusted: bool) -> Api:
        return await read_entry(entry, trusted=trusted, allow=settings.http_allow)

    return read


class HttpTools:
    """The executor of all calls over HTTP, configured by the settings."""

    def __init__(self, settings: Settings, telemetry: Telemetry | None = None) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._executor: HttpExecutor | None = None

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> ToolResult:
        """Return the result of the call's request."""
        if self._executor is None:
            try:
                check_certificates()
            except DefinitionError as error:
                return ToolResult.fail(error.message, error_code="http_unreachable")
            # lazily: an app may have no such tool
            module = import_module("toolwright.adapters.executors.http")
            executor: HttpExecutor = module.HttpExecutor(
                allow=self._settings.http_allow,
                max_answer=self._settings.max_http_answer,
                max_values=self._settings.max_json_values,
                telemetry=self._telemetry,
            )
            self._executor = executor
        return await self._executor(prepared, state)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._executor is not None:
            await self._executor.aclose()
            self._executor = None


class LazyMcp:
    """The MCP servers of the runtime, and the executor of their tools, configured by the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections: Any = None  # created when the extra is loaded
        self._executor: Executor | None = None

    async def _load(self) -> McpServers:
        if self._connections is not None:
            return self._connections
        try:  # in a thread: importing the SDK takes some tenths of a second
            servers = await asyncio.to_thread(import_module, "toolwright.adapters.mcp.servers")
            executor = await asyncio.to_thread(import_module, "toolwright.adapters.mcp.executor")
        except ModuleNotFoundError as error:
            raise missing_extra("An MCP server", "mcp", error) from error
        if self._connections is None:  # not created in the meantime
            resolve = import_module("toolwright.adapters.executors.request").resolve
            self._connections = servers.McpConnections(resolve=resolve, allow=self._settings.http_allow)
            self._executor = executor.McpExecutor(self._connections)
        return self._connections

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        """Return the result of a call."""
        try:
            await self._load()
        except MissingExtra as error:
            return ToolResult.fail(error.message, error_code=error.code)
        assert self._executor is not None, "it was loaded"
        return await self._executor(prepared, state)

    async def listing(self, target: McpTarget, seconds: float) -> McpListing:
        """Return the last list of the server's tools."""
        try:
            servers = await self._load()
        except MissingExtra as error:
            return McpListing(
                server=target.server, status="down", faults=(ListingError(message=error.message),)
            )
        return await servers.listing(target, seconds)

    async def prompts(self, target: McpTarget, seconds: float) -> McpPrompts:
        """Return the prompts that the server offers."""
        try:
            servers = await self._load()
        except MissingExtra as error:
            return McpPrompts(faults=(ListingError(message=error.message),))
        return await servers.prompts(target, seconds)

    async def prompt(self, target: McpTarget, name: str, arguments: Mapping[str, str]) -> McpPromptText:
        """Return a prompt with these arguments."""
        return await (await self._loaded()).prompt(target, name, arguments)

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        """Return the state of a task."""
        return await (await self._loaded()).task(target, task_id, output, session)

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        """Submit answers to the questions of a task."""
        await (await self._loaded()).answer_task(target, task_id, answers, session)

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        """Request the cancellation of a task."""
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


_PLACES = {"typescript": _DENO, "javascript": _DENO, "python": _MONTY}


class CodeSandbox:
    """The `Sandbox` port for all languages. `load` imports modules by name."""

    def __init__(
        self, limits: CodeLimits | None = None, load: Callable[[str], ModuleType] = import_module
    ) -> None:
        self._limits = limits
        self._load = load
        self._loaded: dict[str, Sandbox] = {}

    def start(self, source: str, options: CodeOptions) -> CodeHandle:
        """Run the code. Raises `InvalidRequest`, or `MissingExtra` if the language's library is not installed."""
        options = read_options(options)
        module, name = _PLACES[options.language]
        if module not in self._loaded:
            self._loaded[module] = self._sandbox(module, name)
        return self._loaded[module].start(source, options)

    async def close(self) -> None:
        """End all running code."""
        for sandbox in self._loaded.values():
            await sandbox.close()

    def _sandbox(self, module: str, name: str) -> Sandbox:
        try:
            sandbox: Sandbox = getattr(self._load(module), name)(self._limits)
        except (ImportError, FileNotFoundError) as error:
            raise missing_extra("Running code", "sandbox", error) from error
        return sandbox
