"""Queries: a parameter that a route does not know is refused, as an unknown field of a body is."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from toolwright.core.errors import InvalidRequest
from toolwright.core.text import brief

_UNKNOWN = "is not a known query parameter"
_MOST = 5  # that the sentence names; the details name all


def refuse_unknown(request: Request, *also: str) -> None:
    """Raise `InvalidRequest` that names every parameter which neither the route declares nor `also` names."""
    if not request.query_params:
        return
    route = request.scope.get("route")
    assert isinstance(route, APIRoute), "the caller is one of its dependencies"
    known = {*_declared(route.dependant), *also}
    unknown = [brief(name, 60) for name in request.query_params if name not in known]
    if unknown:
        raise InvalidRequest(
            f"{'; '.join(f'{name!r} {_UNKNOWN}' for name in unknown[:_MOST])}{_choice(known)}.",
            [{"path": name, "message": _UNKNOWN} for name in unknown],
        )


def _declared(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for below in dependant.dependencies:
        yield from _declared(below)


def _choice(known: set[str]) -> str:
    return f": there are {', '.join(sorted(known))}" if known else ": this route has none"
