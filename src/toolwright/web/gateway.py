"""HTTP gateway: builds the FastAPI application over a runtime."""

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from types import FrameType
from typing import TypeAlias

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route
from starlette.types import Lifespan

from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import Access
from toolwright.web.dependencies import Serving
from toolwright.web.middleware import (
    HEADERS,
    MCP_HEADERS,
    METHODS,
    AccessLog,
    BodyLimit,
    CallerTrace,
    Cors,
    Guard,
    OtherPaths,
    add_error_handlers,
)
from toolwright.web.options import NO_TELEMETRY, GatewayOptions
from toolwright.web.routes import agents, calls, docs, entities, minds, operations, runs, spaces, threads
from toolwright.web.routes.docs import correct_document

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Runtime]]

DESCRIPTION = """Agents' threads, runs and tool calls: create them, follow them live, submit results.

JSON is camelCase; timestamps are ISO 8601. Lists accept `limit` and `offset`. Every error is `{error, code}`, an
invalid body or query also names its `details`. Streams are server-sent events."""


def create_gateway(runtime: Runtime, options: GatewayOptions) -> FastAPI:
    """Return the gateway application of a running runtime."""
    serving = _serving(options)
    serving.opened = runtime
    return _application(serving, None)


def open_gateway(opening: Opening, options: GatewayOptions) -> FastAPI:
    """Return a gateway application that opens its runtime on startup and closes it on shutdown.

    The state of its lifespan has the runtime for other routes of the application: `request.state.runtime`.
    """
    serving = _serving(options)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, Runtime]]:
        async with opening() as runtime:
            serving.opened = runtime
            try:
                with _closing_on_signal(serving.options.closing, runtime.health.stop):
                    yield {"runtime": runtime}
            finally:
                await end_parts(serving)
                serving.opened = None

    return _application(serving, lifespan)


@contextmanager
def _closing_on_signal(closing: asyncio.Event, stopping: Callable[[], None]) -> Generator[None]:
    """Call `stopping` and set `closing` on SIGINT or SIGTERM, then call the process's own handler."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are delivered to the main thread; a server in another thread is stopped in other ways
        return
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def close(number: int, frame: FrameType | None) -> None:
        stopping()
        loop.call_soon_threadsafe(closing.set)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    replaced = [
        each for each, handler in before.items() if callable(handler)
    ]  # other handlers end the process or do nothing
    for each in replaced:
        signal.signal(each, close)
    try:
        yield
    finally:
        for each in replaced:
            if signal.getsignal(each) is close:
                signal.signal(each, before[each])


async def end_parts(serving: Serving) -> None:
    """End the sessions of MCP hosts and the pages of the console, while the runtime is still running."""
    if serving.mcp is not None:
        await serving.mcp.aclose()
    if serving.console is not None:
        await serving.console.aclose()


def _serving(options: GatewayOptions) -> Serving:
    access = Access(
        options.secret_keys,
        options.cors_origins,
        options.public_keys,
        options.verify_token,
        insecure=options.insecure,
    )
    return Serving(options=options, access=access)


def _warm_up() -> None:
    """Do the work of FastAPI's first request in advance, because it would block the event loop for 0.2 s.

    For its messages, FastAPI looks up the source of each route's function. The first lookup compiles the patterns of
    Python's tokenizer.
    """
    with suppress(OSError):  # fails if no sources are installed
        inspect.getsourcelines(_warm_up)


async def _to_console(_: Request) -> RedirectResponse:
    return RedirectResponse("/console/")


_ROUTERS = (  # most frequently called first: routes are tried in this order
    threads.router,
    runs.router,
    runs.streams_router,
    calls.router,
    operations.health_router,
    operations.metrics_router,
    spaces.messages_router,
    spaces.router,
    agents.router,
    agents.inboxes_router,
    entities.router,
    minds.router,
    calls.variables_router,
    threads.files_router,
    entities.clients_router,
    runs.tokens_router,
    docs.router,
)


def _application(serving: Serving, lifespan: Lifespan[FastAPI] | None) -> FastAPI:
    _warm_up()
    gateway = FastAPI(
        title="Toolwright",
        version=serving.options.version,
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,  # see `routes.docs`
        telemetry=NO_TELEMETRY,
    )
    gateway.state.serving = serving
    _add_routes(gateway, serving)
    correct_document(gateway)
    add_error_handlers(gateway)
    _add_middleware(gateway, serving)
    return gateway


def _add_routes(gateway: FastAPI, serving: Serving) -> None:
    """Add the routes of the API, of the MCP server and of the console."""
    options, routes = serving.options, gateway.router.routes
    for router in _ROUTERS:
        # Added directly: `include_router` would create each route again at the first request.
        routes.extend(router.routes)
    if options.mcp is not None:
        serving.mcp = options.mcp(serving)
        routes += [Route(path, serving.mcp, include_in_schema=False) for path in ("/mcp", "/mcp/")]
    if options.console is not None:
        serving.console = options.console(serving)
        routes.append(Route("/console", _to_console, include_in_schema=False))
        routes.append(Mount("/console", serving.console))


def _add_middleware(gateway: FastAPI, serving: Serving) -> None:
    """Add the middleware, the innermost first."""
    options = serving.options
    gateway.add_middleware(BodyLimit, options=options)
    gateway.add_middleware(Guard)
    gateway.add_middleware(
        CallerTrace, telemetry=lambda: None if serving.opened is None else serving.opened.telemetry
    )
    gateway.add_middleware(OtherPaths)
    if options.cors_origins:
        more = () if options.mcp is None else MCP_HEADERS
        gateway.add_middleware(
            Cors,
            allow_origins=options.cors_origins,
            allow_methods=METHODS,
            allow_headers=(*HEADERS, *more),
            expose_headers=more[:1],
        )
    gateway.add_middleware(AccessLog)  # outermost: also logs requests that other middleware rejects
