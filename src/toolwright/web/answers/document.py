"""The OpenAPI document, where FastAPI does not say it right."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute

from toolwright.web.dependencies import SCHEMES, WAYS
from toolwright.web.requests.body import DEFINITIONS

Part = dict[str, Any]  # of an OpenAPI document


def correct_document(gateway: FastAPI) -> None:
    """Let the gateway's document name its bodies as it names its answers, and say how a person shows who they are."""
    generated = gateway.openapi
    lock = threading.Lock()  # several may ask for it first, each in a thread

    def openapi() -> Part:  # as FastAPI has it
        with lock:
            made_before = gateway.openapi_schema is not None
            document = generated()
            if not made_before:
                _correct(document)
                _name_ways(document, gateway.routes)
        return document

    gateway.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change the document


def _correct(document: Part) -> None:
    _call_by_title(document)
    for operations in document["paths"].values():
        for operation in operations.values():
            _name_body(operation, document["components"]["schemas"])


def _call_by_title(document: Part) -> None:
    """A schema has the title of its shape as its name, not that of the class."""
    schemas: Part = document["components"]["schemas"]
    titles: dict[str, str] = {name: schema.get("title", name) for name, schema in schemas.items()}
    named = {titles[name]: schema for name, schema in schemas.items()}
    if len(named) < len(schemas):
        raise ValueError("Two schemas of the OpenAPI document have one title: give one another.")
    document["components"]["schemas"] = dict(sorted(named.items()))
    place = DEFINITIONS.format
    _refer(document, {place(model=name): place(model=title) for name, title in titles.items()})


def _refer(part: Any, names: Mapping[str, str]) -> None:  # any part of an OpenAPI document
    """Let each reference in that part that is among those names lead where they say."""
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
    """Say for each operation what its caller must present."""
    document["components"]["securitySchemes"] = {name: {**scheme} for name, scheme in SCHEMES.items()}
    for route in routes:
        if not isinstance(route, APIRoute) or not route.include_in_schema:
            continue
        ways = [way for each in route.dependant.dependencies for way in WAYS.get(each.call, ())]
        for method in (route.methods or ()) if ways else ():
            document["paths"][route.path_format][method.lower()]["security"] = [{**way} for way in ways]


def _name_body(operation: Part, schemas: Part) -> None:
    """The schema of the body, and those within it, become schemas of the whole document; references lead there."""
    content: Part = operation.get("requestBody", {}).get("content", {})
    for media in content.values():
        form: Part = dict(media["schema"])
        within: Part = form.pop("$defs", {})
        for name, schema in {**within, form["title"]: form}.items():
            if schemas.setdefault(name, schema) != schema:
                raise ValueError(
                    f"Two different schemas of the OpenAPI document are named {name!r}: rename one."
                )
        media["schema"] = {"$ref": DEFINITIONS.format(model=form["title"])}
