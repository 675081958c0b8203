"""The router of one noun's routes."""

from fastapi import APIRouter
from fastapi.routing import APIRoute


def noun(prefix: str, tag: str) -> APIRouter:
    """A router below that path; in the OpenAPI document its operations are called as their functions are."""
    return APIRouter(prefix=prefix, tags=[tag], generate_unique_id_function=_operation_id)


def _operation_id(route: APIRoute) -> str:
    return route.name
