"""What all answers have in common, for the OpenAPI document: their shapes lie beside it by noun."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Shape(BaseModel):
    """A part of an answer: camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


class Detail(Shape):
    """What is wrong at one path of a body or query."""

    path: str
    message: str


class ErrorShape(Shape):
    """Every error: a sentence, and a code that stays the same; `details` for a faulty body or query."""

    error: str
    code: str
    details: list[Detail] | None = None


class HealthShape(Shape):
    """Whether the server can work."""

    status: Literal["ok", "unavailable"]
    version: str
    error: str | None = None


class BrokenShape(Shape):
    """A row of the journal that belongs into this list and cannot be read: which column, and why."""

    id: str
    column: str
    error: str


class ListShape(Shape):
    """A list; `broken` only where rows of it cannot be read."""

    broken: list[BrokenShape] | None = None


class Deleted(Shape):
    """It is gone."""

    success: Literal[True]


class StreamTokenShape(Shape):
    """A token that opens one stream."""

    token: str
    expires_at: datetime


Responses = dict[int | str, dict[str, Any]]  # as FastAPI spells them

_WORDS: dict[int | str, str] = {
    400: "A faulty body or query.",
    401: "No key or token, or a wrong or expired one.",
    403: "Not allowed.",
    404: "Not there.",
    409: "Already over, or taken.",
    410: "Expired.",
    413: "The body is too large.",
    416: "None of the bytes is in that range.",
    503: "The journal, or the keys of tokens, are unavailable: try again; or a row that this needs is broken.",
    "default": "Any other error.",
}


def answers(
    shape: type[Shape], description: str, status: int = 200, errors: tuple[int, ...] = ()
) -> Responses:
    """A route's answers: the good one, and the errors that it shares with others."""
    good: Responses = {status: {"model": shape, "description": description}}
    return good | failures(*errors)


def failures(*errors: int) -> Responses:
    """The error answers of a route behind authentication."""
    statuses: list[int | str] = [*sorted({400, 401, 403, 503, *errors}), "default"]
    return {status: {"model": ErrorShape, "description": _WORDS[status]} for status in statuses}
