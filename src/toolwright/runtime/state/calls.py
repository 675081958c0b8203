"""The calls that a call makes: from within it, one after another, and those that it queues behind its step."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from toolwright.core.env.redact import Redactor
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSONObject
from toolwright.core.results.result import ToolResult
from toolwright.core.state.checks import tool_call
from toolwright.core.threads.run import QueuedCall
from toolwright.runtime.env.redaction import clean_arguments
from toolwright.runtime.hold.execution import RunExecution

MOST_QUEUED = 100


class CallsWithin:
    """`invoke` makes a call of the tool of that name, with the JSON text of its arguments."""

    def __init__(self, invoke: Callable[[str, str], Awaitable[ToolResult]], execution: RunExecution) -> None:
        self._invoke = invoke
        self._execution = execution
        self._one = asyncio.Lock()
        self._inside: asyncio.Task[Any] | None = None  # whatever the task returns

    async def make(self, name: str, arguments: JSONObject | str | None) -> ToolResult:
        """Make one of them; its failure is an error result. Raises `InvalidRequest` once the call is over."""
        name, given = tool_call(name, arguments)
        async with self._one:
            self._execution.check()
            self._inside = asyncio.current_task()
            try:
                return await self._invoke(name, given)
            finally:
                self._inside = None

    async def close(self) -> None:
        """The handler has returned: what it has left at work within its call ends with it."""
        self._execution.over = True
        if self._inside is not None:
            self._inside.cancel()
            async with self._one:
                pass

    def queue(self, name: str, arguments: JSONObject | str | None, redactor: Redactor) -> None:
        """Have a tool called once the step is over. Raises `InvalidRequest` for more than 100 of them."""
        name, given = tool_call(name, arguments)
        if len(self._execution.queued) >= MOST_QUEUED:
            raise InvalidRequest(f"A call queues at most {MOST_QUEUED} tools.")
        queued = QueuedCall(name=name, arguments=clean_arguments(given, redactor))
        self._execution.queued = (*self._execution.queued, queued)
