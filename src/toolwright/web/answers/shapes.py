"""Shapes that all answers of the OpenAPI document share; those of a noun lie beside its routes."""

from typing import Any, Literal

from toolwright.wire.reading import BrokenItem
from toolwright.wire.shape import Absent, Shape


class Detail(Shape):
    """What is wrong at one path of a body or query."""

    path: str
    message: str


class ErrorShape(Shape):
    """Every error: a sentence, and a code that stays the same; `details` for a faulty body or query."""

    error: str
    code: str
    details: Absent[list[Detail]] = None


class ListShape(Shape):
    """A list; `broken` only where rows of it cannot be read, `more` only where a page has ended early."""

    broken: Absent[list[BrokenItem]] = None
    more: Absent[Literal[True]] = None


class EnvNames(Shape):
    """The names that were set, and whether each is a secret; never a value."""

    env: dict[str, dict[Literal["type"], Literal["text", "secret"]]]


class Deleted(Shape):
    """It is gone."""

    success: Literal[True]


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
