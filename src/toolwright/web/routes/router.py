"""The router of one noun's routes."""

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor


class AnyText(StringConvertor):
    """The rest of a path, whatever is in it: a slash that was sent as `%2F`, and a line break too."""

    regex = r"[\s\S]*"

    def to_string(self, value: str) -> str:
        """As it is."""
        return value


register_url_convertor("text", AnyText())


def noun(prefix: str, tag: str) -> APIRouter:
    """Return a router below that path; in the OpenAPI document its operations are called as their functions are."""
    return APIRouter(prefix=prefix, tags=[tag], generate_unique_id_function=_operation_id)


def _operation_id(route: APIRoute) -> str:
    return route.name
