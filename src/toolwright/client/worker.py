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
from toolwright.client.transport.http import RETRIABLE, Pause, delay
from toolwright.core.checks import brief_value, check_kind, check_line, check_name
from toolwright.core.concurrency import DaemonThreads, is_cancelled
from toolwright.core.errors import (
    AlreadyOver,
    CallClaimed,
    CallExpired,
    DefinitionError,
    Forbidden,
    InvalidJSON,
    InvalidRequest,
    NotFound,
    ServerFailed,
    TooLarge,
    ToolwrightError,
)
from toolwright.core.json_value import JSON
from toolwright.core.results.result import ToolResult
from toolwright.core.results.returned import as_failure, as_result
from toolwright.core.supervision import Supervision
from toolwright.wire.call import Call, Offer

log = logging.getLogger("toolwright.worker")
T = TypeVar("T")

Function: TypeAlias = Callable[..., object]  # sync or async, of any arguments
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Work:
    """A function that executes calls; `whole` if its one parameter takes the arguments as they are."""

    function: Function
    whole: bool
    on_loop: bool

    async def __call__(self, arguments: JSON, threads: DaemonThreads) -> ToolResult:
        """Return the result of one call.

        An exception of the function is an error result; only the worker's own cancellation passes.
        """
        if not isinstance(arguments, dict):
            return ToolResult.fail(f"The arguments must be a JSON object: {brief_value(arguments)}.")
        call: Callable[[], object] = (
            (lambda: self.function(arguments)) if self.whole else (lambda: self.function(**arguments))
        )
        try:
            value = call() if self.on_loop else await _in_thread(call, threads)
            if isinstance(value, Awaitable):
                value = await cast("Awaitable[object]", value)  # whatever it yields
            return as_result(value)
        except BaseException as error:
            if _passes(error):
                raise
            return as_failure(error)


def work_of(name: str, function: Function) -> Work:
    """Return the function as work.

    It gets the arguments as keywords; a single one annotated as a dict gets them whole.
    """
    if not callable(function) or isinstance(function, type):
        raise DefinitionError(
            f"The tool {name!r} needs a function that executes it, not {brief_value(function)}."
        )
    on_loop = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
    )
    return Work(function, _takes_whole(function), on_loop)


def _takes_whole(function: Function) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL:
        return False
    annotated = _hints(function).get(parameters[0].name, parameters[0].annotation)
    kind: Any = get_origin(annotated) or annotated  # an annotation may be anything
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _hints(function: Function) -> dict[str, Any]:  # annotations may be anything
    try:
        return get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
    except (NameError, TypeError, AttributeError):  # names that are not there at run time
        return {}


async def _in_thread(call: Callable[[], object], threads: DaemonThreads) -> object:
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    value, error = await loop.run_in_executor(threads, lambda: context.run(_caught, call))
    if error is not None:
        raise error
    return value


def _caught(call: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Return the value or the exception of a call, since a future cannot hold every exception."""
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - it is raised on the other side
        return None, error


def _passes(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return True
    return isinstance(error, asyncio.CancelledError) and is_cancelled()


F = TypeVar("F", bound=Function)

LEASES = (1.0, 3600.0)  # seconds, as a server takes them
LONGEST_NAME = 150  # characters of the part that is given
GRACE = 10.0  # seconds
OVER = (AlreadyOver, CallExpired, NotFound, Forbidden, CallClaimed)
"""The call is over, or somebody else's: nothing to be done about it."""
PASSING = (*RETRIABLE, ServerFailed)
"""Errors after which a call is tried again until it is over: a result in hand is not given up."""


class Worker:
    """Executes open calls of its tools: claims each call, renews the claim and submits the result.

    At most `concurrency` calls are claimed and executed at once. `lease` is the number of seconds after which a call of
    a dead worker can be claimed by others, if its tool is read-only or idempotent. `name` is the prefix of its name in
    claims, which is unique for each worker. `pause` waits between two attempts.
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
            raise DefinitionError(f"grace must be a number of seconds from 0, not {brief_value(grace)}.")
        if type(concurrency) is not int or concurrency < 1:
            raise DefinitionError(
                f"concurrency must be a whole number from 1, not {brief_value(concurrency)}."
            )
        if not isinstance(lease, int | float) or not LEASES[0] <= lease <= LEASES[1]:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(f"lease must be from 1 to 3600 seconds, not {brief_value(lease)}.")
        if name is not None:
            check_name("A worker", name)
        self._client = client
        self._lease = lease
        self._grace = grace
        self._pause = pause
        self.name = f"{(name or socket.gethostname())[:LONGEST_NAME]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._tools: dict[str, Work] = {}
        self._concurrency = concurrency
        self._threads: DaemonThreads | None = None
        self._slots = asyncio.Semaphore(concurrency)
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @overload
    def tool(self, name: str, function: F) -> F: ...
    @overload
    def tool(self, name: str) -> Callable[[F], F]: ...
    def tool(self, name: str, function: F | None = None) -> F | Callable[[F], F]:
        """Register a function as the tool of that name: `worker.tool("lookup")(function)`, also as a decorator.

        It is sync (then it runs in a thread) or async. It gets the arguments as keywords; if it has one parameter,
        which is annotated as a dict, it gets them all as that. It returns what a tool returns; what it raises is an
        error that the agent reads.
        """
        check_line("A tool", name)
        if "," in name:
            raise DefinitionError(
                f"A worker's tool cannot have a comma in its name, as {name!r}: no server offers it."
            )
        if name in self._tools:
            raise DefinitionError(f"This worker already executes the tool {name!r}.")

        def take(decorated: F) -> F:
            self._tools[name] = work_of(name, decorated)
            return decorated

        return take if function is None else take(function)

    async def run(self) -> None:
        """Execute calls until `stop` or cancellation. Raises errors that a retry cannot fix, such as `Unauthorized`."""
        if not self._tools:
            raise DefinitionError("This worker has no tools: give it one with worker.tool(name)(function).")
        if not self._idle.is_set():
            raise DefinitionError("This worker is already running.")
        self._idle.clear()
        self._stopping.clear()
        self._threads = DaemonThreads(self._concurrency, "toolwright-worker")
        reader = asyncio.create_task(self._read(), name=f"{self.name} reads")
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([reader, stopped], return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                reader.result()
            await _end([reader])
            if self._at_work:
                await asyncio.wait(self._at_work.values(), timeout=self._grace)
        finally:
            await _end([reader, stopped, *self._at_work.values()])
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._idle.set()

    async def stop(self) -> None:
        """Stop claiming calls, let running ones end within the grace period, and return once `run` has finished.

        Calls that have not ended by then are dropped: their leases expire, and they become available again if their
        tools allow that.
        """
        self._stopping.set()
        await self._idle.wait()

    async def _read(self) -> None:
        """Take offers as long as there is a slot for them; while there is none, nothing is read."""
        failed = 0
        while True:
            try:
                async with aclosing(self._client.calls.offers(list(self._tools))) as offers:
                    async for offer in offers:
                        failed = 0
                        await self._claim(offer)
            except PASSING as error:
                failed += 1
                log.warning("The offered calls cannot be read: %s", error)
                await self._pause(delay(error, failed))

    async def _claim(self, offer: Offer) -> None:
        if offer.call_id in self._at_work or offer.name not in self._tools:
            return
        await self._slots.acquire()
        task = asyncio.create_task(self._serve(offer), name=f"call {offer.call_id}")
        self._at_work[offer.call_id] = task
        task.add_done_callback(lambda _: self._let_go(offer.call_id))

    def _let_go(self, call_id: str) -> None:
        del self._at_work[call_id]
        self._slots.release()

    async def _serve(self, offer: Offer) -> None:
        """Process one call from its claim to its submission. Its errors do not stop the worker."""
        assert self._threads is not None, "the worker runs"
        try:
            call = await self._insist(lambda: self._claimed(offer.call_id))
            renewing = asyncio.create_task(self._renew(call.id))
            try:
                with trace_context(offer.traceparent):
                    work = Supervision(self._tools[call.name](call.args, self._threads), call.name)
                await work.end()
                work.check_cancelled()
                await self._submit(call, work.result())
            finally:
                await _end([renewing])
        except OVER as error:
            log.info("The result of the call %s was rejected: %s", offer.call_id, error)
        except ToolwrightError as error:
            log.error("The call %s failed in this worker: %s", offer.call_id, error)  # noqa: TRY400 - the sentence says it all

    async def _claimed(self, call_id: str) -> Call:
        return await self._client.calls.claim(call_id, self.name, self._lease)

    async def _renew(self, call_id: str) -> None:
        """Renew the claim of the call before its lease expires, repeatedly."""
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._claimed(call_id)
            except OVER as error:
                log.warning("The claim of the call %s cannot be renewed: %s", call_id, error)
                return
            except ToolwrightError as error:
                log.warning("The claim of the call %s could not be renewed: %s", call_id, error)

    async def _submit(self, call: Call, result: ToolResult) -> None:
        """Submit the result. Of an error only the message is sent, since HTTP accepts no more."""
        if result.status == "error":
            result = ToolResult.fail(result.error or "The tool failed.")
        try:
            await self._insist(lambda: self._client.calls.submit(call.run_id, call.id, result))
        except (InvalidRequest, InvalidJSON, TooLarge) as error:  # what HTTP or the server cannot take
            error_text = f"The result cannot be submitted: {error.message}"
            await self._insist(lambda: self._client.calls.submit(call.run_id, call.id, error=error_text))

    async def _insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Retry the request while the server is unavailable."""
        failed = 0
        while True:
            try:
                return await work()
            except PASSING as error:
                failed += 1
                log.warning("The server is unavailable. This is retried: %s", error)
                await self._pause(delay(error, failed))


async def _end(tasks: Sequence[asyncio.Task[object]]) -> None:
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
        context = import_module("opentelemetry.context")  # by name: a worker needs none of it
        w3c = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
    except ModuleNotFoundError:
        yield
        return
    token = context.attach(w3c.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
