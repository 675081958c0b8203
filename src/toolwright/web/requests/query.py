"""Validation of queries and headers: unknown parameters are rejected, like unknown fields of a body."""

import re
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator, Field, JsonValue

from toolwright.core.checks import invalid_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import LONG_KEY, has_long_key
from toolwright.core.limits import MAX_DESCRIPTION, MAX_ID, MAX_NAME, PageLimit
from toolwright.core.text import brief

_UNKNOWN = "is not a known query parameter"
_MOST = 5  # parameters named in the message; the details name all


def refuse_unknown(request: Request, *also: str) -> None:
    """Raise `InvalidRequest` with every parameter that is neither declared by the route nor named in `also`."""
    if not request.query_params:
        return
    route = request.scope.get("route")
    assert isinstance(route, APIRoute), "the caller is one of its dependencies"
    names = {*_declared(route.dependant), *also}
    unknown = [brief(name, 60) for name in request.query_params if name not in names]
    if unknown:
        raise InvalidRequest(
            f"{'; '.join(f'{name!r} {_UNKNOWN}' for name in unknown[:_MOST])}{_choice(names)}.",
            [{"path": name, "message": _UNKNOWN} for name in unknown],
        )


def _declared(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for below in dependant.dependencies:
        yield from _declared(below)


def _choice(names: set[str]) -> str:
    return f": there are {', '.join(sorted(names))}" if names else ": this route has none"


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NUMBER = re.compile("[0-9]+")
_LONGEST = 18  # digits: numbers that every journal can store


def _storable(text: str) -> str:
    if _UNSTORABLE.search(text):
        raise ValueError("must not contain NUL characters or lone surrogates")
    return text


def _event_id(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise ValueError("must be the id of an event, or 0 for the beginning")
    digits = text.lstrip("0") or "0"
    return digits if len(digits) <= _LONGEST else str(10**_LONGEST)


def _short_keys(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if has_long_key(value):
        raise ValueError(LONG_KEY)
    return value


StorableText = Annotated[str, AfterValidator(_storable)]
"""Text that every journal can store."""

Name = Annotated[StorableText, Field(max_length=MAX_NAME)]
"""A name, label or other short text."""

Reference = Annotated[StorableText, Field(max_length=MAX_ID)]
"""Reference to another object: its id or name."""

Description = Annotated[StorableText, Field(max_length=MAX_DESCRIPTION)]
"""A description."""

Metadata = Annotated[
    dict[str, JsonValue],
    AfterValidator(_short_keys),
    Field(json_schema_extra={"propertyNames": {"maxLength": MAX_NAME}}),
]
"""Data of the application, by short keys."""

Id = Annotated[StorableText, Path(description="The id.")]


async def _space_id(
    space_id: Annotated[StorableText | None, Query(alias="spaceId", description="The space's id.")] = None,
    smart_space_id: Annotated[
        StorableText | None, Query(alias="smartSpaceId", description="Same as spaceId.")
    ] = None,
    channel_id: Annotated[
        StorableText | None, Query(alias="channelId", description="Same as spaceId.")
    ] = None,
) -> str | None:
    ids = {"spaceId": space_id, "smartSpaceId": smart_space_id, "channelId": channel_id}
    present = {name: each for name, each in ids.items() if each is not None}
    for name, each in present.items():
        if each != next(iter(present.values())):
            raise invalid_value(name, "does not match the space in the query")
    return next(iter(present.values()), None)


SpaceId = Annotated[str | None, Depends(_space_id)]
"""The space in a query, under any name of the parameter."""

Person = Annotated[
    StorableText | None,
    Query(
        alias="userId",
        min_length=1,
        max_length=MAX_ID,
        description="Read the agent's data for that person (an entity's id or external id) instead of its own.",
    ),
]

Limit = Annotated[
    int,
    AfterValidator(PageLimit),
    Query(ge=1, le=1_000, description="Maximum number of items. Fewer are returned if they are large."),
]
Offset = Annotated[int, Query(ge=0, le=10**9, description="Number of items to skip.")]

EventId = Annotated[str, AfterValidator(_event_id)]
"""An event's id in digits. An id that is too long counts as larger than all others."""


_ONE = re.compile(r"bytes=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


class Unsatisfiable(Exception):
    """The requested range starts after the end of the file."""


def part_of(size: int, path: str | None) -> slice | None:
    """Return the slice of a `Range`. Returns None (all bytes) also for an invalid range and for several parts.

    Raises `Unsatisfiable`.
    """
    match = None if path is None else _ONE.fullmatch(path)
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        start, stop = max(0, size - int(match[2])), size
    else:
        start, stop = int(match[1]), int(match[2]) + 1 if match[2] else size
        if stop <= start and match[2]:
            return None  # it ends before it starts
    if start >= size or stop <= start:
        raise Unsatisfiable
    return slice(start, min(stop, size))
