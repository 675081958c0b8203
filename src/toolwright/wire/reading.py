"""Reading answers: JSON from the wire as the values of `seen`, the way back of the renderers."""

from functools import cache
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from toolwright.core.brief import sentence
from toolwright.core.errors import BadAnswer
from toolwright.core.json_value import JSON

T = TypeVar("T")
Path = tuple[int | str, ...]


def read(kind: type[T], shown: JSON) -> T:
    """`shown` as a value of that kind; fields that are not known are passed over. Raises `BadAnswer`."""
    try:
        return _adapter(kind).validate_python(shown)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise _unreadable(kind, fault["loc"], fault["msg"]) from None


def read_field(kind: type[T], shown: JSON, name: str) -> T:
    """The same of one field of an answer: `{"thread": {…}}`."""
    return read(kind, _field(shown, name))


def read_list(kind: type[T], shown: JSON, name: str) -> list[T]:
    """The same of a list: `{"threads": […]}`."""
    items = _field(shown, name)
    if not isinstance(items, list):
        raise BadAnswer(f"The server's answer has no list {name!r}.")
    return [read(kind, item) for item in items]


def _field(shown: JSON, name: str) -> JSON:
    if not isinstance(shown, dict) or name not in shown:
        raise BadAnswer(f"The server's answer has no {name!r}.")
    return shown[name]


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def _unreadable(kind: type[object], path: Path, why: str) -> BadAnswer:
    where = f" at {'.'.join(map(str, path))}" if path else ""
    return BadAnswer(
        sentence(f"The server's answer is not a {kind.__name__} that this client knows{where}: {why}")
    )
