"""HTTP tools in progress: what they need is loaded when the first of them is called."""

from importlib import import_module
from typing import TYPE_CHECKING

from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.results.result import ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.openapi import Api, ApiEntry, ReadApi, read_entry
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.wiring.settings import Settings

if TYPE_CHECKING:
    from toolwright.adapters.executors.http import HttpExecutor


def api_reader(settings: Settings) -> ReadApi:
    """The reader of OpenAPI documents of configured agents, which reaches what HTTP tools reach."""

    async def read(entry: ApiEntry, trusted: bool) -> Api:
        return await read_entry(entry, trusted=trusted, allow=settings.http_allow)

    return read


class HttpTools:
    """The executor of everything that goes over HTTP, as the settings have it."""

    def __init__(self, settings: Settings, telemetry: Telemetry | None = None) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._executor: HttpExecutor | None = None

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> ToolResult:
        """The result of the call's request."""
        if self._executor is None:
            module = import_module(
                "toolwright.adapters.executors.http"
            )  # by name: an app may have no such tool
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
