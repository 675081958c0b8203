"""Router for the routes of one noun."""

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor


class AnyText(StringConvertor):
    """Path converter for the rest of a path, including slashes sent as `%2F` and line breaks."""

    regex = r"[\s\S]*"

    def to_string(self, value: str) -> str:
        """Return the value unchanged."""
        return value


register_url_convertor("text", AnyText())


def noun(prefix: str, tag: str) -> APIRouter:
    """Return a router with the path prefix. Operation ids in the OpenAPI document are the function names."""
    return APIRouter(prefix=prefix, tags=[tag], generate_unique_id_function=_operation_id)


def _operation_id(route: APIRoute) -> str:
    return route.name
