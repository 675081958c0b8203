"""The OpenAPI document, where FastAPI does not say it right."""

from typing import Any

from fastapi import FastAPI

_PERSON: dict[str, list[str]] = {"publicKey": [], "personToken": []}


def describe_people(gateway: FastAPI) -> None:
    """A person needs a public key and a token; FastAPI would list either as enough."""
    generated = gateway.openapi

    def openapi() -> dict[str, Any]:  # as FastAPI has it
        made_before = gateway.openapi_schema is not None
        document = generated()
        if not made_before:
            for operations in document["paths"].values():
                for operation in operations.values():
                    _join(operation)
        return document

    gateway.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change the document


def _join(operation: dict[str, Any]) -> None:  # a part of the document
    ways: list[dict[str, list[str]]] = operation.get("security", [])
    others = [way for way in ways if not set(way) <= set(_PERSON)]
    if len(others) < len(ways):
        operation["security"] = [*others, dict(_PERSON)]
