"""JSON answers, compact and never broken by half a character, and their status codes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fastapi import Response
from starlette.types import Receive, Scope, Send

from toolwright.core import errors
from toolwright.core.broken_rows import broken_of
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.plain import is_large
from toolwright.core.threads.call import ForbiddenMove

T = TypeVar("T")


_PIECE = 256 * 1024  # bytes that are sent at once


class Answer(Response):
    """A JSON answer. A large one is written in a thread, and sent in pieces as fast as they are read."""

    media_type = "application/json"

    def __init__(self, content: JSONObject, status: int, headers: Mapping[str, str] | None) -> None:
        self._large = content if is_large(content) else None
        super().__init__(None if self._large else content, status, headers)

    def render(self, content: Any) -> bytes:  # as Starlette spells it: JSON by the callers of `answer`
        return b"" if content is None else dumps_unescaped(content).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._large is None:
            await super().__call__(scope, receive, send)
            return
        content, self._large = self._large, None
        body = await asyncio.to_thread(self.render, content)
        self.headers["content-length"] = str(len(body))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(body), _PIECE):
            end = start + _PIECE
            await send({"type": "http.response.body", "body": body[start:end], "more_body": end < len(body)})


def answer(body: JSONObject, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """The HTTP answer whose body is `body`."""
    return Answer(body, status, headers)


def listed(plural: str, rows: Sequence[T], show: Callable[[T], JSONObject]) -> Answer:
    """A list as `{<plural>: […]}`, with what of it is broken beside."""
    items: list[JSON] = [show(row) for row in rows]
    return answer({plural: items, **broken_json(rows)})


def broken_json(rows: Sequence[object]) -> JSONObject:
    """`{broken: [{id, column, error}]}`, or nothing if all rows could be read."""
    items: list[JSON] = [
        {"id": each.id, "column": each.column, "error": each.sentence} for each in broken_of(rows)
    ]
    return {"broken": items} if items else {}


INTERNAL = 500

STATUSES: Mapping[type[errors.ToolwrightError], int] = {
    errors.DefinitionError: 400,
    errors.InvalidJSON: 400,
    errors.InvalidRequest: 400,
    errors.VariablesLacking: 422,
    errors.CannotSeal: 400,
    errors.CannotUnseal: INTERNAL,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.TooSlow: 408,
    errors.AlreadyOver: 409,
    errors.Reset: 410,
    errors.ServerFailed: INTERNAL,
    errors.BadAnswer: 502,
    errors.Unreachable: 503,
    errors.CallClaimed: 409,
    errors.NotFailed: 409,
    errors.ThreadBusy: 409,
    errors.AlreadyThere: 409,
    errors.NoRoom: 409,
    errors.CallExpired: 410,
    errors.TooLarge: 413,
    errors.CannotServe: INTERNAL,
    errors.MissingExtra: INTERNAL,
    errors.Unwritable: INTERNAL,
    ForbiddenMove: INTERNAL,
    errors.ModelError: 502,
    errors.SolutionError: 502,
    errors.RunFailed: 502,
    errors.ModelUnavailable: 503,
    errors.KeysUnavailable: 503,
    errors.StoreError: 503,
    errors.RowBroken: 503,  # without a Retry-After: somebody must mend it
}
"""A class that is not listed has the status of the nearest class above it."""


def status_of(error: type[errors.ToolwrightError]) -> int:
    """The status of an error's class."""
    for each in error.__mro__:
        if each in STATUSES:
            return STATUSES[each]
    return INTERNAL
