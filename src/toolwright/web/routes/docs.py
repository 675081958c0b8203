"""The OpenAPI document, and a page that shows it: all of it from here, nothing from the internet."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from toolwright.core.errors import NotFound
from toolwright.core.json_value import JSONObject
from toolwright.web.answers.answer import Answer, answer
from toolwright.web.dependencies import identified
from toolwright.web.routes.router import noun
from toolwright.web.serving import Here, Serving

router = noun("", "docs")

PAGE = "index.html"
PARTS = frozenset({"start.js", "swagger-ui-bundle.js", "swagger-ui.css"})
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FILES = StaticFiles(directory=Path(__file__).parents[1] / "swagger_ui")


async def _local(request: Request, serving: Here) -> Serving:
    """Without keys who calls is judged as everywhere; with keys everybody may."""
    serving.access.check_local(request.headers, None if request.client is None else request.client.host)
    return serving


async def _reader(request: Request, serving: Annotated[Serving, Depends(_local)]) -> Serving:
    """Whoever may call anything, and everybody if the docs are open: a browser sends no key with a page's address."""
    if not serving.options.docs:
        raise NotFound("Not found")
    if serving.options.docs != "open":
        sent = request.headers
        await identified(request, serving, sent.get("x-secret-key"), sent.get("x-public-key"))
    return serving


Local = Annotated[Serving, Depends(_local)]
Reader = Annotated[Serving, Depends(_reader)]


@router.get("/", include_in_schema=False, response_model=None)
async def begin(serving: Local) -> Response:
    """The way to the page; without it what this server is."""
    if serving.options.docs == "open" or (serving.options.docs and not serving.access.keyed):
        return RedirectResponse("docs")
    body: JSONObject = {"name": "Toolwright", "version": serving.options.version, "health": "/health"}
    return answer(body)


@router.get("/openapi.json", include_in_schema=False, response_model=None)
async def describe(_: Reader, request: Request) -> Answer:
    """The document; behind a proxy it says below which path the routes are."""
    make: Callable[[], dict[str, Any]] = request.app.openapi  # an OpenAPI document
    document = await asyncio.to_thread(make)  # the first time it takes a fifth of a second
    below = request.scope.get("root_path", "").rstrip("/")
    return answer({**document, "servers": [{"url": below}]} if below else document)


@router.get("/docs", include_in_schema=False, response_model=None)
async def show(_: Reader, request: Request) -> Response:
    """The page."""
    return await _file(PAGE, request)


@router.get("/docs/{part}", include_in_schema=False, response_model=None)
async def show_part(_: Reader, request: Request, part: str) -> Response:
    """A script or a style of the page."""
    if part not in PARTS:
        raise NotFound("Not found")
    return await _file(part, request)


async def _file(name: str, request: Request) -> Response:
    response = await _FILES.get_response(name, request.scope)
    response.headers.update(HEADERS)
    return response
