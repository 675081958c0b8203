"""JSON answers: compact, ASCII, and never broken by half a character."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastapi import Response

from toolwright.core.broken_rows import broken_of
from toolwright.core.json_value import JSON, JSONObject, dumps

T = TypeVar("T")


class Answer(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:  # as Starlette spells it: JSON by the callers of `answer`
        return dumps(content).encode("ascii")


def answer(shown: JSONObject, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """`shown` as an answer."""
    return Answer(shown, status, headers)


def listed(plural: str, rows: Sequence[T], show: Callable[[T], JSONObject]) -> Answer:
    """A list as `{<plural>: […]}`, with what of it is broken beside."""
    items: list[JSON] = [show(row) for row in rows]
    return answer({plural: items, **broken_json(rows)})


def broken_json(rows: Sequence[object]) -> JSONObject:
    """`{broken: [{id, column, error}]}`, or nothing if all rows could be read."""
    shown: list[JSON] = [
        {"id": each.id, "column": each.column, "error": each.sentence} for each in broken_of(rows)
    ]
    return {"broken": shown} if shown else {}
