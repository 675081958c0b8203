"""The `Sandbox` port in memory: executes nothing, and returns predefined results."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolwright.adapters.sandbox.handle import CodeExecutions, Handle, Log
from toolwright.core.state.sandbox import CodeLimits, CodeOptions, CodeResult, admit

CodeAnswer: TypeAlias = Callable[[str, CodeOptions], Awaitable[CodeResult]]


async def _nothing(source: str, options: CodeOptions) -> CodeResult:
    return CodeResult(status="success")


class MemorySandbox:
    """A sandbox for tests. `answer` receives the source and its options; `asked` are the requested executions."""

    def __init__(self, answer: CodeAnswer = _nothing, limits: CodeLimits | None = None) -> None:
        self.asked: list[tuple[str, CodeOptions]] = []
        self._answer = answer
        self._limits = limits or CodeLimits()
        self._runs = CodeExecutions()

    def start(self, source: str, options: CodeOptions) -> Handle:
        """Return the predefined result instead of running the code. Raises `InvalidRequest` as other sandboxes do."""
        source, options = admit(source, options, self._limits)
        self.asked.append((source, options))

        async def work(log: Log) -> CodeResult:
            await asyncio.sleep(0)
            return await self._answer(source, options)

        assert options.timeout is not None
        return self._runs.start(work, Log(self._limits.logs, str), options.timeout)

    async def close(self) -> None:
        """End all executions that wait for their answer."""
        await self._runs.close()
