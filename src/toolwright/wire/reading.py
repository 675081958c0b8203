"""Reading answers: JSON from the wire as shapes, the way back of the renderers."""

from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from toolwright.core.errors import BadAnswer
from toolwright.core.json_value import JSON
from toolwright.core.text import sentence
from toolwright.wire.shape import Shape

T = TypeVar("T")
Path = tuple[int | str, ...]


def read(kind: type[T], answer: JSON) -> T:
    """`answer` as a value of that kind; fields that are not known are passed over. Raises `BadAnswer`."""
    try:
        return _adapter(kind).validate_python(answer)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise _unreadable(kind, fault["loc"], fault["msg"]) from None


def read_field(kind: type[T], answer: JSON, name: str) -> T:
    """One field of an answer as a value of that kind: `{"thread": {…}}`."""
    return read(kind, _field(answer, name))


class BrokenItem(Shape, title="BrokenShape"):
    """A row of the journal that belongs into this list and cannot be read: which column, and why."""

    id: str
    column: str
    error: str


class Items(list[T]):
    """The items of a list; `broken` is what it could not show, empty if that is nothing.

    `more` says that the page has ended early, since its items are large: others may follow behind the last one.
    """

    def __init__(
        self, items: Iterable[T] = (), broken: Iterable[BrokenItem] = (), *, more: bool = False
    ) -> None:
        super().__init__(items)
        self.broken = tuple(broken)
        self.more = more


def read_list(kind: type[T], answer: JSON, name: str) -> Items[T]:
    """A list of an answer, with what of it is broken: `{"threads": […], "broken"?: […]}`."""
    more = isinstance(answer, dict) and answer.get("more") is True
    return Items(_each(kind, _field(answer, name), name), read_broken(answer), more=more)


def read_broken(answer: JSON) -> tuple[BrokenItem, ...]:
    """The broken items of an answer; nothing if it names none."""
    broken = answer.get("broken") if isinstance(answer, dict) else None
    return tuple(_each(BrokenItem, broken or [], "broken"))


def _each(kind: type[T], items: JSON, name: str) -> list[T]:
    if not isinstance(items, list):
        raise BadAnswer(f"The server's answer has no list {name!r}.")
    return [read(kind, item) for item in items]


def _field(answer: JSON, name: str) -> JSON:
    if not isinstance(answer, dict) or name not in answer:
        raise BadAnswer(f"The server's answer has no {name!r}.")
    return answer[name]


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def _unreadable(kind: type[object], path: Path, why: str) -> BadAnswer:
    where = f" at {'.'.join(map(str, path))}" if path else ""
    return BadAnswer(
        sentence(f"The server's answer is not a {kind.__name__} that this client knows{where}: {why}")
    )
