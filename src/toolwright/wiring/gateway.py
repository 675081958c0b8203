"""HTTP server of an app."""

import asyncio
import ctypes
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from errno import EADDRINUSE, EMFILE, ENFILE
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from toolwright.adapters.system import SystemClock, check_certificates
from toolwright.core.errors import CannotServe
from toolwright.core.ports import Clock
from toolwright.core.text import sentence
from toolwright.core.tools.http.addresses import is_loopback
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import TokenVerifier
from toolwright.web.gateway import create_gateway, end_parts, open_gateway
from toolwright.web.options import GatewayOptions, OpenPart
from toolwright.wiring.app import App
from toolwright.wiring.connection import HEAD_GRACE, WRITE_GRACE, Connections, HttpConnection
from toolwright.wiring.lazy import NamedModels, open_console, open_mcp
from toolwright.wiring.parts import clock_of, wait_for_database, warn_about_agents
from toolwright.wiring.settings import Settings

if sys.platform == "win32":
    resource = None
else:
    import resource

log = logging.getLogger("toolwright.serve")

WEB_SOCKETS = "toolwright.web.console.console:WebSocketConnection"
"""The class by name, because it needs the extra `console`."""
_MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD
_LARGE = 1024 * 1024  # bytes
MAX_FILES = 65_536  # requested limit of open files and sockets
MAX_CONNECTIONS = 10_000
RESERVED_FILES = 256  # for the journal, files, models, tools and connections being accepted
ACCEPTED_AT_ONCE = 100  # connections accepted per loop iteration
KEEP_ALIVE_TIMEOUT = (
    75  # seconds that an idle connection stays open: longer than the usual timeout of clients and proxies
)
BACKLOG = 2048  # connections waiting to be accepted
REFUSALS_PAUSE = 60.0  # seconds between two reports of connections without a file descriptor
DATABASE_PATIENCE = 60.0  # seconds that a starting server waits for its database
REQUEST_GRACE = 5  # seconds that requests in progress have to end when the server stops


def settle_memory() -> None:
    """Exclude objects loaded at start-up from garbage collection, and collect less often.

    A step of a run creates many short-lived values; with the default thresholds a third of its time was spent
    traversing modules that never become garbage. For our own processes (`serve`, `chat`), not for a program that embeds
    a runtime, which decides for itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    _give_back()


def _give_back() -> None:
    """Configure glibc to return freed large blocks to the system.

    By default it would keep blocks of up to 32 MB after the first large body: the process would stay as large as the
    largest bodies it ever held at once.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and returns memory by itself
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _LARGE)


def raise_file_limit() -> None:
    """Raise the soft limit of open files as far as the hard limit allows: each connection is a file."""
    if resource is None:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def connections() -> Connections:
    """Return the connection limits of a server: as many as the open-file limit allows, half of them per address."""
    files = MAX_FILES
    if resource is not None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = MAX_FILES if soft == resource.RLIM_INFINITY else soft
    most = max(min(MAX_CONNECTIONS, files - RESERVED_FILES), files // 4)
    return Connections(most, max(most // 2, 1))


def gateway(app: App, settings: Settings) -> FastAPI:
    """Return the HTTP API of `toolwright serve` as an ASGI application, for a server of your choice.

    Its lifespan opens the runtime of the app. Routes that you add can use it as `request.state.runtime`. Open streams
    end on SIGINT and SIGTERM, even if the server waits for its connections before stopping.
    """
    return open_gateway(lambda: app.runtime(settings), _options(app, settings))


class _Refusals:
    """Exception handler of a server's event loop: logs connections without a file descriptor once a minute.

    asyncio reports each of them with a traceback, hundreds a second.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in (EMFILE, ENFILE) and "socket" in context):
            loop.default_exception_handler(context)
        elif loop.time() >= self._next:
            self._next = loop.time() + REFUSALS_PAUSE
            log.error(
                "New connections wait: %s. Raise the limit of open files (ulimit -n, LimitNOFILE).", error
            )


async def serve(
    app: App,
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    listener: socket.socket | None = None,
    ready: Callable[[str], None] | None = None,
    grace: float = 10.0,
    insecure: bool = False,
) -> None:
    """Serve the app until SIGINT or SIGTERM, on `listener` or on a socket of `host` and `port` (0: any).

    `ready` is called with the server's URL when it listens. On shutdown, streams are closed immediately, requests
    have a few seconds to end, and tool calls `grace` seconds. With `insecure` a server without keys gives all rights
    to every caller on any machine. The server assumes that it owns the process: it tunes the garbage collector (see
    `settle_memory`). Raises `CannotServe` before the journal is opened.
    """
    bound = listener or listen(host, port)
    with bound:
        raise_file_limit()
        asyncio.get_running_loop().set_exception_handler(_Refusals())
        if not insecure:
            _check_reach(bound, settings)
        await wait_for_database(settings, DATABASE_PATIENCE)
        async with app.runtime(settings, grace=grace) as runtime:
            options = replace(_options(app, settings), insecure=insecure)
            settle_memory()
            application = create_gateway(runtime, options)
            server = Server(
                application,
                options,
                bound,
                ready,
                stopping=runtime.health.stop,
                drain_seconds=settings.drain_seconds,
            )
            async with _watching_agents(runtime, settings):
                try:
                    await server.serve(sockets=[bound])
                finally:
                    await end_parts(application.state.serving)


@asynccontextmanager
async def _watching_agents(runtime: Runtime, settings: Settings) -> AsyncGenerator[None]:
    """Log the agents that cannot run, in the background."""
    models = NamedModels()
    task = asyncio.create_task(warn_about_agents(runtime, models, settings.model))
    try:
        yield
    finally:
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, Exception):
            log.warning("Some agents could not be checked: %s", ended)
        await models.aclose()


class Server(uvicorn.Server):
    """A uvicorn server that ends open streams when it stops, and exits normally after a signal.

    A subclass, because uvicorn has no hooks for this.
    """

    def __init__(
        self,
        application: ASGIApp,
        options: GatewayOptions,
        listener: socket.socket,
        ready: Callable[[str], None] | None = None,
        bounds: Connections | None = None,
        write_grace: float = WRITE_GRACE,
        head_grace: float = HEAD_GRACE,
        *,
        stopping: Callable[[], None] = lambda: None,
        drain_seconds: float = 0.0,
    ) -> None:
        config = uvicorn.Config(
            application,
            http=partial(
                HttpConnection,  # type: ignore[arg-type]  # it is called as the class is
                bounds=bounds or connections(),
                write_grace=write_grace,
                head_grace=head_grace,
            ),
            backlog=ACCEPTED_AT_ONCE,
            ws="none" if options.console is None else WEB_SOCKETS,
            lifespan="off",
            workers=1,  # otherwise uvicorn reads WEB_CONCURRENCY, which has no effect here
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_TIMEOUT,
            timeout_graceful_shutdown=REQUEST_GRACE,
        )
        super().__init__(config)
        self._closing = options.closing
        self._listener = listener
        self._ready = ready
        self._report_stopping = stopping
        self._drain_seconds = drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then report the URL."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._listener.listen(BACKLOG)  # uvicorn sets it to the number of connections accepted at once
        if self._ready is not None:
            self._ready(url_of(self._listener))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams first, because the shutdown would wait for them."""
        self._closing.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop the server on signals without raising them again, so that the runtime stops too."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self._stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        """Stop the server, after a SIGTERM with a delay. A second signal ends the delay.

        A second Ctrl-C does not wait for requests.
        """
        self._report_stopping()
        if number == signal.SIGTERM and self._drain_seconds > 0 and self._loop is not None:
            delay, self._drain_seconds = self._drain_seconds, 0.0
            self._loop.call_soon_threadsafe(self._end_later, self._loop, delay)
            return
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True

    def _end_later(self, loop: asyncio.AbstractEventLoop, delay: float) -> None:
        log.warning("The server stops. It accepts requests for %g s more, while /ready answers 503.", delay)
        loop.call_later(delay, setattr, self, "should_exit", True)


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket on this machine."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = str(listener.getsockname()[0]), int(listener.getsockname()[1])
    shown_host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read here, not bound
    return f"http://[{shown_host}]:{port}" if ":" in shown_host else f"http://{shown_host}:{port}"


def _options(app: App, settings: Settings) -> GatewayOptions:
    return GatewayOptions(
        clock=clock_of(settings),
        secret_keys=settings.secret_keys,
        public_keys=settings.public_keys,
        verify_token=_verifier(settings, SystemClock()),
        cors_origins=settings.cors_origins,
        max_body=settings.max_body,
        max_nesting=settings.max_nesting,
        max_json_values=settings.max_json_values,
        scripts=_scripts(settings),
        docs=settings.docs,
        mcp=_mcp(app) if settings.mcp_server else None,
        console=open_console(app.tool_uis) if settings.console else None,
        node_url=settings.node_url,
    )


def _mcp(app: App) -> OpenPart:
    return partial(open_mcp().McpEndpoint, permissions=app.mcp_server)


def _scripts(settings: Settings) -> frozenset[str] | None:
    """Return the model script that agents configured over HTTP may use, or None for any if the server has no keys."""
    return frozenset({settings.model or ""}) if settings.keyed else None


def _verifier(settings: Settings, clock: Clock) -> TokenVerifier | None:
    """Return the verifier of tokens signed with a shared secret, or by an identity provider.

    Raises `DefinitionError` if the certificates for the provider's URL cannot be read.
    """
    if settings.jwt_secret is None and settings.jwt_jwks_url is None:
        return None
    tokens = import_module("toolwright.web.auth.person_tokens")  # lazily: its libraries take 7 MB
    expected = tokens.ExpectedClaims(
        claim=settings.jwt_entity_claim,
        roles=settings.jwt_roles_claim,
        audience=settings.jwt_audience,
        issuer=settings.jwt_issuer,
    )
    verifier: TokenVerifier
    if settings.jwt_secret is not None:
        verifier = tokens.SharedSecret(settings.jwt_secret, expected, clock)
        return verifier
    check_certificates()
    keys = tokens.ProviderKeys(tokens.over_http(settings.jwt_jwks_url), clock)
    verifier = tokens.SignedByProvider(keys, expected, clock)
    return verifier


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address (port 0: any port), as `serve` creates it. Raises `CannotServe`."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == EADDRINUSE:
            raise CannotServe(
                f"Port {port} of {host!r} is in use. Choose another port, or stop the process that listens there."
            ) from error
        raise CannotServe(sentence(f"The server cannot listen on {host!r}, port {port}: {error}")) from error
    listener.setblocking(False)
    return listener


def _check_reach(listener: socket.socket, settings: Settings) -> None:
    """Refuse to listen beyond this machine without keys, because every caller would have all rights."""
    if settings.keyed:
        return
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX or not is_loopback(name[0]):
        where = name if isinstance(name, str) else name[0]
        raise CannotServe(
            f"Without keys the server listens on this machine only, not on {where!r}: "
            "set TOOLWRIGHT_SECRET_KEYS, or listen on 127.0.0.1. To give all rights to every caller, add --insecure."
        )
