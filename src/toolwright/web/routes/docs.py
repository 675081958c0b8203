"""API documentation: corrections of FastAPI's OpenAPI document, and the documentation page."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles

from toolwright.core.errors import NotFound
from toolwright.core.json_value import JSONObject
from toolwright.web.answers import ApiResponse, answer
from toolwright.web.dependencies import SCHEMES, WAYS, Serving, ServingDep, identified
from toolwright.web.requests import DEFINITIONS
from toolwright.web.route import noun

Part = dict[str, Any]  # part of an OpenAPI document
PAGE = "index.html"
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


def correct_document(gateway: FastAPI) -> None:
    """Correct the gateway's OpenAPI document: name bodies like answers, and describe how people authenticate.

    Routes that are added to the gateway later are described as FastAPI describes them.
    """
    ours = [*gateway.routes]
    lock = threading.Lock()  # the first requests can be concurrent, each in a thread

    def openapi() -> Part:  # FastAPI's type
        with lock:
            if gateway.openapi_schema is None:
                document = _document(gateway, ours)
                _correct(document)
                _name_ways(document, ours)
                known = {id(route) for route in ours}
                if added := [route for route in gateway.routes if id(route) not in known]:
                    _add(document, _document(gateway, added))
                gateway.openapi_schema = document
        return gateway.openapi_schema

    gateway.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change the document


def _document(gateway: FastAPI, routes: Sequence[BaseRoute]) -> Part:
    """Return FastAPI's document of these routes, with the parts that can be missing."""
    document: Part = get_openapi(
        title=gateway.title,
        version=gateway.version,
        openapi_version=gateway.openapi_version,
        description=gateway.description,
        routes=routes,
        separate_input_output_schemas=gateway.separate_input_output_schemas,
    )
    document.setdefault("components", {}).setdefault("schemas", {})
    return document


def _add(document: Part, more: Part) -> None:
    """Add the operations of another document. Its schemas get other names if these are taken."""
    schemas, place = document["components"]["schemas"], DEFINITIONS.format
    names: dict[str, str] = {}
    for name, schema in more["components"]["schemas"].items():
        names[name] = name
        while schemas.get(names[name], schema) != schema:
            names[name] += "_"
        schemas[names[name]] = schema
    _refer(more, {place(model=name): place(model=new) for name, new in names.items()})
    for kind, parts in more["components"].items():
        if kind != "schemas":
            document["components"][kind] = {**parts, **document["components"].get(kind, {})}
    for path, operations in more["paths"].items():
        document["paths"][path] = {**operations, **document["paths"].get(path, {})}


def _correct(document: Part) -> None:
    _call_by_title(document)
    for operations in document["paths"].values():
        for operation in operations.values():
            _name_body(operation, document["components"]["schemas"])


def _call_by_title(document: Part) -> None:
    """Name each schema by its title instead of its class name."""
    schemas: Part = document["components"]["schemas"]
    titles: dict[str, str] = {name: schema.get("title", name) for name, schema in schemas.items()}
    by_title = {titles[name]: schema for name, schema in schemas.items()}
    if len(by_title) < len(schemas):
        raise ValueError("Two schemas of the OpenAPI document have the same title. Rename one.")
    document["components"]["schemas"] = dict(sorted(by_title.items()))
    place = DEFINITIONS.format
    _refer(document, {place(model=name): place(model=title) for name, title in titles.items()})


def _refer(part: Any, names: Mapping[str, str]) -> None:  # any part of an OpenAPI document
    """Rename the references in the part by `names`."""
    if isinstance(part, list):
        for item in cast("list[Any]", part):
            _refer(item, names)
    if isinstance(part, dict):
        fields = cast("Part", part)
        if "$ref" in fields:
            fields["$ref"] = names.get(fields["$ref"], fields["$ref"])
        for field in fields.values():
            _refer(field, names)


def _name_ways(document: Part, routes: Iterable[object]) -> None:
    """Set the required credentials of each operation."""
    document["components"]["securitySchemes"] = {name: {**scheme} for name, scheme in SCHEMES.items()}
    for route in routes:
        if not isinstance(route, APIRoute) or not route.include_in_schema:
            continue
        ways = [way for each in route.dependant.dependencies for way in WAYS.get(each.call, ())]
        for method in (route.methods or ()) if ways else ():
            document["paths"][route.path_format][method.lower()]["security"] = [{**way} for way in ways]


def _name_body(operation: Part, schemas: Part) -> None:
    """Move the schema of the body and its nested schemas to the document's schemas, and reference them."""
    content: Part = operation.get("requestBody", {}).get("content", {})
    for media in content.values():
        form: Part = dict(media["schema"])
        within: Part = form.pop("$defs", {})
        for name, schema in {**within, form["title"]: form}.items():
            if schemas.setdefault(name, schema) != schema:
                raise ValueError(
                    f"Two different schemas of the OpenAPI document are named {name!r}. Rename one."
                )
        media["schema"] = {"$ref": DEFINITIONS.format(model=form["title"])}


router = noun("", "docs")

PARTS = frozenset({"start.js", "swagger-ui-bundle.js", "swagger-ui.css"})
_FILES = StaticFiles(directory=Path(__file__).parents[1] / "swagger_ui")


async def _local(request: Request, serving: ServingDep) -> Serving:
    """Validate the caller as on all routes if no keys are configured. With keys, allow everyone."""
    serving.access.check_local(request.headers, None if request.client is None else request.client.host)
    return serving


async def _reader(request: Request, serving: Annotated[Serving, Depends(_local)]) -> Serving:
    """Allow authenticated callers, or everyone if the docs are open: a browser sends no key with a page request."""
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
    """Redirect to the page, or describe this server if the page is off."""
    if serving.options.docs == "open" or (serving.options.docs and not serving.access.keyed):
        return RedirectResponse("docs")
    body: JSONObject = {"name": "Toolwright", "version": serving.options.version, "health": "/health"}
    return answer(body)


@router.get("/openapi.json", include_in_schema=False, response_model=None)
async def describe(_: Reader, request: Request) -> ApiResponse:
    """Get the OpenAPI document. Behind a proxy it includes the path prefix of the routes."""
    make: Callable[[], dict[str, Any]] = request.app.openapi  # an OpenAPI document
    document = await asyncio.to_thread(make)  # the first call takes a fifth of a second
    below = request.scope.get("root_path", "").rstrip("/")
    return answer({**document, "servers": [{"url": below}]} if below else document)


@router.get("/docs", include_in_schema=False, response_model=None)
async def show(_: Reader, request: Request) -> Response:
    """Get the documentation page."""
    return await _file(PAGE, request)


@router.get("/docs/{part}", include_in_schema=False, response_model=None)
async def show_part(_: Reader, request: Request, part: str) -> Response:
    """Get a script or a style sheet of the page."""
    if part not in PARTS:
        raise NotFound("Not found")
    return await _file(part, request)


async def _file(name: str, request: Request) -> Response:
    response = await _FILES.get_response(name, request.scope)
    response.headers.update(HEADERS)
    return response
