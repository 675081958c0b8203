"""The console as an ASGI application under `/console`: pages for signed-in users, or otherwise the sign-in."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import anyio
from anyio import CancelScope
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from toolwright.core.errors import Forbidden, NotFound, ToolwrightError, Unauthorized
from toolwright.core.text import brief, quantity
from toolwright.core.tools.tool_ui import ToolUI
from toolwright.web.answers import answer
from toolwright.web.auth.access import person
from toolwright.web.console import pages
from toolwright.web.console.live import ENGINE
from toolwright.web.console.sign_in import (
    COOKIE,
    LINK_LIFE,
    OPEN,
    Session,
    Sessions,
    SignInForm,
    form_of,
    sign_in_page,
)
from toolwright.web.console.visit import SCOPE, ConsoleApp, Presence
from toolwright.web.dependencies import Serving, address_of, person_of
from toolwright.web.routes.threads import get_file
from toolwright.web.shares import CALLER, network_of

log = logging.getLogger("toolwright.web")

PATH: Final = "/console"
HEADERS: Final = {
    # Vue compiles templates in the browser, and NiceGUI's page starts with an inline script
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
GONE: Final = "No response returned."  # raised by Starlette below NiceGUI's middleware
REFUSED: Final = 1008  # WebSocket close code for a policy violation
UNCHANGING: Final = "public, max-age=31536000, immutable"
_STATIC = StaticFiles(directory=Path(__file__).parent / "static")
pages.register()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A browser's connection. uvicorn fails to shut down if the browser is closing it at that moment."""

    def shutdown(self) -> None:
        """Close the connection, because the server stops."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.close()


class Console:
    """ASGI application: authenticates visitors like every route. NiceGUI, started on demand, serves the pages."""

    def __init__(self, serving: Serving, tool_uis: Sequence[ToolUI] = ()) -> None:
        sessions = Sessions(serving.options.clock, serving.signed_callers)
        self.site = ConsoleApp(
            serving=serving,
            sessions=sessions,
            presence=Presence(lambda: serving.runtime.events.bus),
            tool_uis={each.name: each for each in tool_uis},
        )
        self._serving = serving
        self._sessions = sessions
        self._pages: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._connect(scope, receive, send)
            return
        await self._answer(scope, receive, _with_headers(scope, send))

    async def aclose(self) -> None:
        """Close the open pages."""
        self.site.close()
        if self._pages is not None:
            self._pages = None
            await ENGINE.stop(self)

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a page's WebSocket if the visitor is signed in and the page is from this console."""
        try:
            self._check_origin(scope)
            session = await self._session(scope)
        except ToolwrightError:
            session = None
        if session is None or not await self.site.knows(session):
            await receive()
            await send({"type": "websocket.close", "code": REFUSED})
            return
        await (await self._open_pages())({**scope, SCOPE: (self.site, session)}, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check_origin(scope)
        request = Request(scope, receive)
        path = _path_of(scope)
        if path == "/sign-in":
            response = await self._sign_in(request)
        elif path == "/links" and request.method == "POST":
            response = await self._link(request)
        elif path == "/sign-out" and request.method == "POST":
            response = await self._sign_out(request)
        elif path.startswith("/static/"):
            await _STATIC({**scope, "path": path.removeprefix("/static"), "root_path": ""}, receive, send)
            return
        elif (session := await self._visitor(scope, path)) is None:
            response = _ask_to_sign_in(request, path)
        elif path.startswith("/files/"):
            response = await self._file(request, path, session)
        else:
            served = {
                **scope,
                SCOPE: (self.site, session),
                "fastapi.telemetry": None,
            }  # no spans for NiceGUI's FastAPI application
            await self._until_closing(await self._open_pages(), served, receive, send)
            return
        await response(scope, receive, send)

    async def _until_closing(self, pages: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a long-polling request. It ends when the server stops."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_after, self._serving.options.closing, tasks.cancel_scope)
            try:
                await pages(scope, receive, send)
            except RuntimeError as error:
                if str(error) != GONE:
                    raise
                log.debug("%s: the browser has disconnected.", brief(scope["path"], 200))
            tasks.cancel_scope.cancel()

    async def _open_pages(self) -> ASGIApp:
        if self._pages is None:
            self._serving.runtime  # noqa: B018 - `StoreError` before it is open, and once it closes
            self._pages = await ENGINE.start(self)
        return self._pages

    def _check_origin(self, scope: Scope) -> None:
        """Reject requests from pages of other sites and, if there are no keys, from other machines."""
        connection = HTTPConnection(scope)
        self._serving.access.check_local(connection.headers, address_of(connection))
        origin, host = connection.headers.get("origin"), connection.headers.get("host", "")
        if origin is not None and origin.partition("://")[2] != host:
            raise Forbidden(f"The origin {origin!r} is not the console's own.")

    async def _session(self, scope: Scope) -> Session | None:
        if not self._serving.access.keyed:
            return OPEN
        return await self._sessions.read(HTTPConnection(scope).cookies.get(COOKIE))

    async def _visitor(self, scope: Scope, path: str) -> Session | None:
        """Return the session of a request for a page or a file. A person's session ends when they are deleted."""
        session = await self._session(scope)
        if session is None or path.startswith("/_nicegui") or await self.site.knows(session):
            if session is not None:
                scope[CALLER] = session.caller.label
            return session
        self._sessions.end(session)
        return None

    async def _sign_in(self, request: Request) -> Response:
        then = _local(request.query_params.get("next"))
        if not self._serving.access.keyed:
            return RedirectResponse(then, 303)
        takes_people = self._serving.access.takes_people
        code = request.query_params.get("link")
        if request.method == "POST":
            form = await form_of(request)
            failed, address = self._serving.failed_sign_ins, network_of(address_of(request))
            seconds = failed.seconds_until_free(address)
            if seconds:
                error = f"Too many sign-ins have failed. Try again in {quantity(seconds, 'second')}."
                page = sign_in_page(then, takes_people=takes_people, error=error, status=429)
                page.headers["Retry-After"] = str(seconds)
                return page
            try:
                session = await self._session_of(request, form)
            except (Unauthorized, Forbidden) as error:
                failed.use(address)
                return sign_in_page(then, takes_people=takes_people, error=error.message, status=401)
        elif code is not None:
            caller = await self._sessions.links.redeem(code, self._serving.runtime.clients.use_once)
            session = None
            if caller is not None and caller.scope == "all":
                session = await self.site.renewed(self._sessions.begin(caller))
            if session is None or not await self.site.knows(session):
                error = "This link was already used or has expired. Sign in with a key."
                return sign_in_page(then, takes_people=takes_people, error=error, status=401)
        else:
            return sign_in_page(then, takes_people=takes_people)
        session = await self.site.renewed(session)
        response = RedirectResponse(then, 303)
        response.set_cookie(
            COOKIE,
            await self._sessions.seal(session),
            path=PATH,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
        return response

    async def _session_of(self, request: Request, form: SignInForm) -> Session:
        access = self._serving.access
        if form.secret_key:
            service = access.service(form.secret_key, request.headers, None)
            service.check_scope("all")
            return self._sessions.begin(service)
        if not access.takes_people:
            raise Unauthorized("Enter a secret key.")
        identity = await access.identify(form.public_key, f"Bearer {form.token}")
        return self._sessions.begin(await person_of(self._serving, identity))

    async def _link(self, request: Request) -> Response:
        """Issue a sign-in path to a service, for itself or for the person whose entity it names."""
        caller = self._serving.access.service(
            request.headers.get("x-secret-key"), request.headers, address_of(request)
        )
        caller.check_scope("all")
        entity_id = request.query_params.get("entityId")
        if entity_id is not None:
            entity = await self._serving.runtime.entities.get_human(entity_id)
            if entity is None:
                raise NotFound(f"There is no person {entity_id!r}.")
            caller = person(entity)
        path = f"{PATH}/sign-in?link={(await self._sessions.links.issue(caller))[0]}"
        return answer({"path": path, "expiresIn": round(LINK_LIFE.total_seconds() * 1_000)}, 201)

    async def _sign_out(self, request: Request) -> Response:
        session = await self._session(request.scope)
        if session is not None:
            await self.site.sign_out(session, everywhere="everywhere" in request.query_params)
        response = RedirectResponse(f"{PATH}/sign-in", 303)
        response.delete_cookie(COOKIE, path=PATH)
        return response

    async def _file(self, request: Request, path: str, session: Session) -> Response:
        """Return the bytes of a thread's file, like the API's route. `call` is its `callId`."""
        thread_id, _, file = path.removeprefix("/files/").partition("/")
        headers = request.headers
        return await get_file(
            session.caller,
            self._serving,
            unquote(thread_id),
            file,
            request.query_params.get("call"),
            headers.get("if-none-match"),
            headers.get("range"),
            headers.get("if-range"),
        )


async def _cancel_after(event: asyncio.Event, scope: CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _path_of(scope: Scope) -> str:
    """Return the path relative to the console's path."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def _local(path: str | None) -> str:
    """Return the path if it belongs to the console, or otherwise its first page."""
    return path if path is not None and path.startswith(f"{PATH}/") and "\\" not in path else f"{PATH}/"


def _ask_to_sign_in(request: Request, path: str) -> Response:
    """Redirect a page request to the sign-in, which leads back to the page. Reject any other request."""
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        raise Unauthorized("Sign in first.")
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{PATH}/sign-in?next={quote(f'{PATH}{path}{query}', safe='')}", 303)


def _with_headers(scope: Scope, send: Send) -> Send:
    """Return a `send` that adds the console's headers, unless the answer sets them itself."""
    unchanging = "/_nicegui/" in scope["path"] and "/dynamic_resources/" not in scope["path"]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if unchanging and message["status"] == 200:
                headers["Cache-Control"] = UNCHANGING
        await send(message)

    return sent
