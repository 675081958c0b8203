"""A worker: executes calls of tools that run on another machine than the server (S3 `external`, D25)."""

import asyncio
import contextvars
import inspect
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from math import inf
from typing import Any, TypeAlias, TypeVar, cast, get_origin, get_type_hints, overload

from toolwright.client.client import Client
from toolwright.client.http import RETRIABLE, Pause, delay
from toolwright.core import errors
from toolwright.core.checks import brief_value, check_kind, check_line, check_name
from toolwright.core.concurrency import DaemonThreads, Supervision, is_cancelled
from toolwright.core.json_value import JSON
from toolwright.core.results import ToolResult, as_failure, as_result
from toolwright.wire.call import Call, Offer

log = logging.getLogger("toolwright.worker")
T = TypeVar("T")

Function: TypeAlias = Callable[..., object]  # sync or async, with any arguments
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
F = TypeVar("F", bound=Function)
LEASES = (1.0, 3600.0)  # seconds, the shortest and the longest lease that a server accepts
MAX_NAME = 150  # characters of the given part of a worker's name
GRACE = 10.0  # seconds that running calls have to end after `stop`


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A function that executes calls.

    `takes_object` is true if its only parameter receives all arguments as one dict. `on_loop` is true if it is async.
    """

    function: Function
    takes_object: bool
    on_loop: bool

    async def __call__(self, arguments: JSON, threads: DaemonThreads) -> ToolResult:
        """Execute one call and return its result.

        An exception of the function becomes an error result. Only the worker's own cancellation is raised.
        """
        if not isinstance(arguments, dict):
            return ToolResult.fail(f"The arguments must be a JSON object, not {brief_value(arguments)}.")
        call: Callable[[], object] = (
            (lambda: self.function(arguments)) if self.takes_object else (lambda: self.function(**arguments))
        )
        try:
            value = call() if self.on_loop else await _in_thread(call, threads)
            if isinstance(value, Awaitable):
                value = await cast("Awaitable[object]", value)  # as_result validates the value
            return as_result(value)
        except BaseException as error:
            if _must_propagate(error):
                raise
            return as_failure(error)


def tool_function(name: str, function: Function) -> ToolFunction:
    """Wrap a function that executes calls.

    It receives the arguments as keywords, or as one dict if its only parameter is annotated as a dict.
    """
    if not callable(function) or isinstance(function, type):
        raise errors.DefinitionError(
            f"The tool {name!r} must be executed by a function, not {brief_value(function)}."
        )
    on_loop = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
    )
    return ToolFunction(function, _takes_object(function), on_loop)


def _takes_object(function: Function) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL:
        return False
    annotated = _hints(function).get(parameters[0].name, parameters[0].annotation)
    kind: Any = get_origin(annotated) or annotated  # an annotation can be anything
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _hints(function: Function) -> dict[str, Any]:  # annotations can be anything
    try:
        return get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
    except (NameError, TypeError, AttributeError):  # annotations that cannot be resolved at run time
        return {}


async def _in_thread(call: Callable[[], object], threads: DaemonThreads) -> object:
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    value, error = await loop.run_in_executor(threads, lambda: context.run(_outcome, call))
    if error is not None:
        raise error
    return value


def _outcome(call: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Return the value or the exception of a call, because a future cannot hold every exception."""
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - raised again by the awaiting task
        return None, error


def _must_propagate(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return True
    return isinstance(error, asyncio.CancelledError) and is_cancelled()


REJECTED = (errors.AlreadyOver, errors.CallExpired, errors.NotFound, errors.Forbidden, errors.CallClaimed)
"""Errors after which a call is dropped: it has ended, or another worker has claimed it."""
TEMPORARY = (*RETRIABLE, errors.ServerFailed)
"""Errors after which a request is retried without a limit, so that no computed result is lost."""


class Worker:
    """Executes open calls of its tools: claims each call, renews the claim and submits the result.

    At most `concurrency` calls (default 10) are claimed and executed at the same time. `lease` is the number of seconds
    (1 to 3600, default 30) after which other workers can claim a call of a dead worker, if its tool is read-only or
    idempotent. `name` is the prefix of the worker's unique name in claims, by default the host name. `grace` is the
    number of seconds that running calls have to end after `stop` (default 10). `pause` is awaited with the seconds
    between two attempts (default `asyncio.sleep`).
    """

    def __init__(
        self,
        client: Client,
        *,
        concurrency: int = 10,
        lease: float = 30.0,
        name: str | None = None,
        grace: float = GRACE,
        pause: Pause = asyncio.sleep,
    ) -> None:
        check_kind("A worker's client", client, Client, "a Client")
        if not isinstance(grace, int | float) or not 0 <= grace < inf:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise errors.DefinitionError(
                f"grace must be a number of seconds from 0, not {brief_value(grace)}."
            )
        if type(concurrency) is not int or concurrency < 1:
            raise errors.DefinitionError(
                f"concurrency must be a whole number from 1, not {brief_value(concurrency)}."
            )
        if not isinstance(lease, int | float) or not LEASES[0] <= lease <= LEASES[1]:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise errors.DefinitionError(f"lease must be from 1 to 3600 seconds, not {brief_value(lease)}.")
        if name is not None:
            check_name("A worker", name)
        self._client = client
        self._lease = lease
        self._grace = grace
        self._pause = pause
        self.name = f"{(name or socket.gethostname())[:MAX_NAME]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._tools: dict[str, ToolFunction] = {}
        self._concurrency = concurrency
        self._threads: DaemonThreads | None = None
        self._slots = asyncio.Semaphore(concurrency)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @overload
    def tool(self, name: str, function: F) -> F: ...
    @overload
    def tool(self, name: str) -> Callable[[F], F]: ...
    def tool(self, name: str, function: F | None = None) -> F | Callable[[F], F]:
        """Register a function as the tool of that name: `worker.tool("lookup")(function)`, also as a decorator.

        A sync function runs in a thread, an async one on the event loop. It receives the arguments as keywords, or as
        one dict if its only parameter is annotated as a dict. It returns any value that a tool may return. The agent
        reads an exception as an error.
        """
        check_line("A tool", name)
        if "," in name:
            raise errors.DefinitionError(f"The name {name!r} of a worker's tool must not contain a comma.")
        if name in self._tools:
            raise errors.DefinitionError(f"This worker already has a tool {name!r}. Choose another name.")

        def register(decorated: F) -> F:
            self._tools[name] = tool_function(name, decorated)
            return decorated

        return register if function is None else register(function)

    async def run(self) -> None:
        """Execute calls until `stop` or cancellation. Raises errors that a retry cannot fix, such as `Unauthorized`."""
        if not self._tools:
            raise errors.DefinitionError(
                "This worker has no tools. Register one with worker.tool(name)(function)."
            )
        if not self._idle.is_set():
            raise errors.DefinitionError(
                "This worker is already running. Call stop first, or create another worker."
            )
        self._idle.clear()
        self._stopping.clear()
        self._threads = DaemonThreads(self._concurrency, "toolwright-worker")
        reader = asyncio.create_task(self._read(), name=f"{self.name} reads")
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([reader, stopped], return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                reader.result()
            await _cancel_and_wait([reader])
            if self._running:
                await asyncio.wait(self._running.values(), timeout=self._grace)
        finally:
            await _cancel_and_wait([reader, stopped, *self._running.values()])
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._idle.set()

    async def stop(self) -> None:
        """Stop claiming calls, wait for running ones up to the grace period, and return after `run` has finished.

        Calls that have not ended by then are dropped. Their leases expire, and other workers can claim them if their
        tools are read-only or idempotent.
        """
        self._stopping.set()
        await self._idle.wait()

    async def _read(self) -> None:
        """Read offers and claim them. While all slots are busy, nothing is read from the stream."""
        failures = 0
        while True:
            try:
                async with aclosing(self._client.calls.offers(list(self._tools))) as offers:
                    async for offer in offers:
                        failures = 0
                        await self._claim(offer)
            except TEMPORARY as error:
                failures += 1
                log.warning("The offered calls cannot be read: %s", error)
                await self._pause(delay(error, failures))

    async def _claim(self, offer: Offer) -> None:
        if offer.call_id in self._running or offer.name not in self._tools:
            return
        await self._slots.acquire()  # before the claim: a claimed call must not wait for a slot
        task = asyncio.create_task(self._process(offer), name=f"call {offer.call_id}")
        self._running[offer.call_id] = task
        task.add_done_callback(lambda _: self._release(offer.call_id))

    def _release(self, call_id: str) -> None:
        del self._running[call_id]
        self._slots.release()

    async def _process(self, offer: Offer) -> None:
        """Claim a call, execute it and submit its result. Errors are logged and do not stop the worker."""
        assert self._threads is not None, "the worker runs"
        try:
            call = await self._retry(lambda: self._renew_claim(offer.call_id))
            renewing = asyncio.create_task(self._renew(call.id))
            try:
                with trace_context(offer.traceparent):
                    work = Supervision(self._tools[call.name](call.args, self._threads), call.name)
                await work.end()
                work.check_cancelled()
                await self._submit(call, work.result())
            finally:
                await _cancel_and_wait([renewing])
        except REJECTED as error:  # usual: the call was cancelled, has expired, or another worker has it
            log.info("The result of the call %s was rejected: %s", offer.call_id, error)
        except errors.ToolwrightError as error:
            log.error("The call %s failed in this worker: %s", offer.call_id, error)  # noqa: TRY400 - the message is complete without a traceback

    async def _renew_claim(self, call_id: str) -> Call:
        return await self._client.calls.claim(call_id, self.name, self._lease)

    async def _renew(self, call_id: str) -> None:
        """Renew the claim of the call before its lease expires, repeatedly."""
        while True:
            await asyncio.sleep(self._lease / 3)  # so that there is time to repeat a failed renewal
            try:
                await self._renew_claim(call_id)
            except REJECTED as error:
                log.warning("The claim of the call %s cannot be renewed: %s", call_id, error)
                return
            except errors.ToolwrightError as error:
                log.warning("The claim of the call %s could not be renewed: %s", call_id, error)

    async def _submit(self, call: Call, result: ToolResult) -> None:
        """Submit the result. Only the message of an error is sent: the HTTP route accepts no other field."""
        if result.status == "error":
            result = ToolResult.fail(result.error or "The tool failed.")
        try:
            await self._retry(lambda: self._client.calls.submit(call.run_id, call.id, result))
        except (
            errors.InvalidRequest,
            errors.InvalidJSON,
            errors.TooLarge,
        ) as error:  # no retry can succeed: the agent reads the error
            error_text = f"The result cannot be submitted: {error.message}"
            await self._retry(lambda: self._client.calls.submit(call.run_id, call.id, error=error_text))

    async def _retry(self, work: Callable[[], Awaitable[T]]) -> T:
        """Send the request, with retries without a limit while the server is unavailable."""
        failures = 0
        while True:
            try:
                return await work()
            except TEMPORARY as error:
                failures += 1
                log.warning("The server is unavailable. This is retried: %s", error)
                await self._pause(delay(error, failures))


async def _cancel_and_wait(tasks: Sequence[asyncio.Task[object]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def trace_context(traceparent: str | None) -> Generator[None]:
    """Set that W3C trace context as the current one within the block, also for tasks started in it."""
    if traceparent is None:
        yield
        return
    try:
        context = import_module("opentelemetry.context")  # by name: OpenTelemetry is optional
        w3c = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
    except ModuleNotFoundError:
        yield
        return
    token = context.attach(w3c.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
