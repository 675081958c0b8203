"""Executor of function tools: async functions run on the event loop, all others in threads."""

import asyncio
import logging
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor as Pool
from contextvars import copy_context
from time import monotonic
from types import CoroutineType
from typing import Any, cast

from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.arguments.signature import Handler, Signature
from toolwright.core.arguments.validator import RawArguments
from toolwright.core.concurrency import DaemonThreads, is_cancelled
from toolwright.core.dependencies.depends import Dependency
from toolwright.core.dependencies.scope import Opener, Overrides
from toolwright.core.env.logs import is_first, logger
from toolwright.core.errors import DefinitionError
from toolwright.core.results import ToolResult, as_failure, as_result, has_large_file
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.pipeline import PreparedCall, refusal
from toolwright.core.tools.tool import Tool

THREADS = 256
MAX_HELD = 0.5  # seconds without an await after which a handler is logged
_log = logger("toolwright.tools")


class FunctionExecutor:
    """Executor of handlers. All their exceptions become error results (D3).

    Only the caller's own cancellation and Ctrl-C are raised. Without a `pool` it creates a pool of 256 threads for the
    first plain function, and `close` shuts it down. A function that hangs in its thread does not keep the process
    alive. Dependencies are opened for the handlers that declare them; `overrides` are functions that replace some of
    them.
    """

    def __init__(self, pool: Pool | None = None, overrides: Overrides | None = None) -> None:
        self._pool = pool
        self._own_pool: DaemonThreads | None = None
        self._overrides: Overrides = {} if overrides is None else overrides

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> ToolResult:
        """Run the call's handler to completion."""
        tool, keywords = prepared.tool, prepared.keywords
        signature, handler = tool.signature, tool.handler
        try:
            if handler is None:
                return ToolResult.fail(f"Tool {tool.name!r} has no handler.", error_code="no_handler")
            if signature is None or keywords is None:
                value = handler(state, prepared.arguments)
            else:
                binding = signature.binding
                if binding.state is not None:
                    keywords[binding.state] = state
                if binding.injects and binding.dependencies:
                    value = await self._call_with_dependencies(handler, signature, keywords, state)
                elif signature.on_loop:
                    value = handler(**keywords)
                else:
                    value, error = await self._in_thread(handler, keywords)
                    if error is not None:
                        return _failed(tool.name, error)
            if type(value) is CoroutineType:  # the common case, without the slow check below
                if signature is None or signature.waits:
                    value = await _watched(tool.name, cast("Coroutine[Any, Any, object]", value))
                else:
                    value = _returned(tool.name, cast("Coroutine[object, None, object]", value))
            elif isinstance(value, Awaitable):
                value = await cast("Awaitable[object]", value)  # as_result validates the value
            kind = type(value)
            if kind is not str and kind is not dict and has_large_file(value):
                result = await asyncio.to_thread(as_result, value)
            else:
                result = as_result(value)
            if result.status == "error":
                _warn_invalid_result(tool.name, value, result)
            return result
        except BaseException as error:
            if _must_propagate(error):
                raise
            return _failed(tool.name, error)

    async def value(self, dependency: Dependency, state: ThreadState) -> object:
        """Return the value of a function of the state, which is not a handler. Its exceptions are raised."""
        async with Opener(self._in_thread, self._overrides).values({"value": dependency}, state) as values:
            return values["value"]

    async def _call_with_dependencies(
        self, handler: Handler, signature: Signature, keywords: dict[str, object], state: ThreadState
    ) -> object:
        """Open the dependencies, call the handler and return its value. Exceptions of both are raised."""
        opener = Opener(self._in_thread, self._overrides)
        async with opener.values(signature.binding.dependencies, state) as values:
            all_keywords = {**keywords, **values}
            if signature.on_loop:
                value = handler(**all_keywords)
            else:
                value, error = await self._in_thread(handler, all_keywords)
                if error is not None:
                    raise error
            # as_result validates the value
            return cast("object", await value) if isinstance(value, Awaitable) else value

    async def _in_thread(
        self, handler: Callable[..., object], keywords: dict[str, object]
    ) -> tuple[object, BaseException | None]:
        """Call the handler in a thread, with the caller's context variables. Return its value or its exception."""
        context = copy_context()
        loop = asyncio.get_running_loop()
        value, error = await loop.run_in_executor(
            self._threads(), lambda: context.run(_caught, handler, keywords)
        )
        if isinstance(error, KeyboardInterrupt):
            raise error  # Ctrl-C ends the process, not the call
        return value, error

    def _threads(self) -> Pool:
        if self._pool is not None:
            return self._pool
        if self._own_pool is None:
            self._own_pool = DaemonThreads(THREADS, "toolwright-tool")
        return self._own_pool

    def close(self) -> None:
        """End the executor's own threads, without waiting for handlers that still run."""
        if self._own_pool is not None:
            self._own_pool.shutdown(wait=False, cancel_futures=True)
            self._own_pool = None


def call_at_once(tool: Tool, arguments: RawArguments) -> ToolResult | Awaitable[ToolResult]:
    """Execute a call of a tool that never waits, without an executor.

    Returns the result, or an awaitable if the result has files that take milliseconds to validate.
    """
    signature, validator, handler = tool.signature, tool.validator, tool.handler
    assert signature is not None and validator is not None and handler is not None, "the tool is standalone"
    try:
        keywords = signature.binding.bind(validator.read(arguments))
    except (InvalidArguments, DefinitionError) as error:
        return refusal(error)
    try:
        value = _returned(tool.name, handler(**keywords))  # type: ignore[arg-type]  # a coroutine, because the tool is standalone
        kind = type(value)
        if kind is not str and kind is not dict and has_large_file(value):
            return _result_from_thread(tool, value)
        result = as_result(value)
        if result.status == "error":
            _warn_invalid_result(tool.name, value, result)
        return result
    except BaseException as error:
        if _must_propagate(error):
            raise
        return _failed(tool.name, error)


async def _result_from_thread(tool: Tool, value: object) -> ToolResult:
    try:
        result = await asyncio.to_thread(as_result, value)
        if result.status == "error":
            _warn_invalid_result(tool.name, value, result)
        return result
    except BaseException as error:
        if _must_propagate(error):
            raise
        return _failed(tool.name, error)


def _failed(tool: str, error: BaseException) -> ToolResult:
    """Return the error result of a handler that raised, and log it: as a warning the first time at that line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = () if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    level = logging.WARNING if is_first(tool, *place) else logging.INFO
    _log.log(level, "The tool %r raised %s.", tool, type(error).__name__, exc_info=error)
    return as_failure(error)


def _warn_invalid_result(tool: str, value: object, result: ToolResult) -> None:
    """Log once per tool that its return value is not a valid result.

    Errors that the tool returns itself are not logged.
    """
    if not (isinstance(value, ToolResult) and value.status == "error") and is_first(tool, "returns"):
        _log.warning("The tool %r: %s", tool, result.error)


def _warn_blocked_loop(tool: str, seconds: float) -> None:
    if is_first(tool, "holds the loop"):
        _log.warning(
            "The tool %r held the event loop for %.1f s. Make it a plain def, which runs in a thread, "
            "or await asyncio.to_thread(…) for what blocks.",
            tool,
            seconds,
        )


@types.coroutine
def _watched(tool: str, work: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
    """Run a handler's coroutine, and log a warning if it blocks the event loop between two awaits."""
    step: Callable[[Any], Any] = work.send
    sent: Any = None
    while True:
        began = monotonic()
        try:
            yielded = step(sent)
        except StopIteration as end:
            return end.value
        finally:
            if monotonic() - began > MAX_HELD:
                _warn_blocked_loop(tool, monotonic() - began)
        try:
            step, sent = work.send, (yield yielded)
        except BaseException as error:  # noqa: BLE001 - thrown into the handler, which decides what to do with it
            step, sent = work.throw, error


def ends_at_once(executor: object, tool: Tool) -> bool:
    """Return whether the tool runs synchronously, so that neither timeout nor cancellation applies."""
    return (
        type(executor) is FunctionExecutor
        and tool.carrier == "function"
        and tool.signature is not None
        and not tool.signature.waits
        and tool.result_validator is None  # a large result is validated in a thread
    )


def _returned(tool: str, call: Coroutine[object, None, object]) -> object:
    """Return the value of a coroutine that never waits. It has its own context variables, as in a task."""
    began = monotonic()
    try:
        copy_context().run(call.send, None)
    except StopIteration as end:
        return end.value
    finally:
        if monotonic() - began > MAX_HELD:
            _warn_blocked_loop(tool, monotonic() - began)
    raise AssertionError("a coroutine without an await never suspends")


def _caught(
    handler: Callable[..., object], keywords: dict[str, object]
) -> tuple[object, BaseException | None]:
    """Return the value or the exception of a call. A future cannot hold a `StopIteration`: it would never complete."""
    try:
        return handler(**keywords), None
    except BaseException as error:  # noqa: BLE001 - it becomes the call's result on the event loop
        return None, error


def _must_propagate(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return True
    return isinstance(error, asyncio.CancelledError) and is_cancelled()
