"""Routes: a body is read by the type of its parameter, an answer is rendered by the return annotation."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.responses import Response

from toolwright.core.json_value import JSONObject
from toolwright.web.answers import Responses, answer, failures
from toolwright.web.requests import DEFINITIONS, RequestBody, body_of
from toolwright.wire.shape import Shape

Endpoint: TypeAlias = Callable[..., Awaitable[Any]]  # any parameters and result


class Route(APIRoute):
    """Route that reads the parameter whose type is a `RequestBody` from the body.

    The endpoint returns a row, its annotation is `Annotated[Row, Shape]`, and the answer is `Shape.of(row)`. With
    `Annotated[JSONObject, Shape]` it returns the answer. If it returns a response, the shape is its `response_model`.
    """

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:  # FastAPI's
        signature = inspect.signature(endpoint)
        parameters = dict(signature.parameters)
        for name, parameter in parameters.items():
            form = parameter.annotation
            if isinstance(form, type) and issubclass(form, RequestBody):
                parameters[name] = parameter.replace(annotation=Annotated[form, Depends(body_of(form))])
                options["openapi_extra"] = _described(form)
        row, shape = _returned(signature.return_annotation)
        status: int = options["status_code"] or 200
        documented = shape or _shape(options["response_model"])
        if documented is not None:
            success: Responses = {
                status: {"model": documented, "description": options["response_description"]}
            }
            options |= {"response_model": None, "responses": success | (options["responses"] or failures())}

        @wraps(endpoint)
        async def serve(**values: Any) -> Response:  # of the parameters
            result = await endpoint(**values)
            if shape is None:
                return result
            return answer(result if row is JSONObject else shape.of(result), status)

        read = signature.replace(parameters=[*parameters.values()], return_annotation=Response)
        serve.__signature__ = read  # type: ignore[attr-defined]  # what `inspect.signature` returns
        super().__init__(path, serve, **options)


def noun(prefix: str, tag: str) -> APIRouter:
    """Return a router with the path prefix. Operation ids in the OpenAPI document are the function names."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=Route, generate_unique_id_function=_operation_id)


def _operation_id(route: APIRoute) -> str:
    return route.name


def _returned(annotation: Any) -> tuple[Any, type[Shape] | None]:  # any annotation
    """Return the row and the shape of `Annotated[Row, Shape]`."""
    if get_origin(annotation) is not Annotated:
        return annotation, None
    row, *markers = get_args(annotation)
    return row, _shape(markers[0])


def _shape(kind: object) -> type[Shape] | None:
    return kind if isinstance(kind, type) and issubclass(kind, Shape) else None


def _described(form: type[RequestBody]) -> dict[str, Any]:  # part of an OpenAPI document
    """Return the OpenAPI description of a body. `correct_document` moves its schemas to the components."""
    schema = form.model_json_schema(ref_template=DEFINITIONS)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
