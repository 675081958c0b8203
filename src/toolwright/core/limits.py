"""Limits: of JSON input and output (D20), and of the delays before retries (D21)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

MAX_NESTING = 64
"""Maximum depth of nested objects and lists; a plain `{}` is one level."""

MAX_JSON_VALUES = 100_000
"""Maximum number of values (objects, lists, texts, numbers …) in one JSON text from outside."""

MAX_RESULT_VALUES = 500_000
"""Maximum number of values in a long result that is read whole from its file."""

CONFIG_VALUES = 10
"""Multiple of `MAX_JSON_VALUES` for an agent's configuration: 10,000 tools have some 50 to 100 values each."""

MAX_SCHEMA_VALUES = 10_000
"""Maximum number of values in the schema of one configured tool, which is sent to the model at every step."""

MAX_DOCUMENT = 16 * 1024 * 1024
"""Maximum size in bytes of one OpenAPI document."""

MAX_DOCUMENT_VALUES = 1_000_000
"""Maximum number of values in one OpenAPI document."""

CALLS_PER_UNIT = 100
"""Maximum number of calls of one answer that one unit settles: about ten milliseconds of the event loop."""
MAX_CALLS = 5_000
"""Maximum number of calls in one answer of a model."""

MAX_SCHEMA = 256 * 1024
"""Maximum size in bytes, as JSON, of one schema tool or one output schema."""

MAX_STATE = 1024 * 1024
"""Maximum size in bytes, as JSON, of a value in the state of a request."""

MAX_ERRORS = 50
"""Maximum number of reported errors of one input."""

MAX_NAMES = 1_000
"""Maximum number of names of variables or tenvs in one request."""

OUTSIDE_TIMEOUT = 30.0
"""Default number of seconds that a call waits for a service, a person or an MCP server (D8)."""

MAX_NAME = 200
"""Maximum number of characters of a name, a label or a key."""

MAX_ID = 1_000
"""Maximum number of characters of an id, ours or another program's."""

MAX_DESCRIPTION = 100_000
"""Maximum number of characters of a description."""

MAX_TEXT_DOCUMENT = 256 * 1024  # bytes of a text document in a person's message that a model is sent
MAX_MESSAGE = 4 * 1024 * 1024
"""Maximum size in bytes of the text of a message: more than models read. Longer texts are sent as files."""

MAX_SYSTEM = 64 * 1024
"""Maximum number of characters of a configured agent's instructions."""

MAX_DEPS = 64 * 1024
"""Maximum size in bytes, as JSON, of the deps of a run."""

MAX_SUMMARY = 24_000
"""Maximum number of characters of a summary written by the owner of a thread; a model's summary is not longer."""

MAX_PINNED = 50
"""Maximum number of pinned messages of a thread: they are included in every request."""

MAX_ATTACHMENT = 25 * 1024 * 1024
"""Maximum size in bytes of one file (D20)."""

MAX_RESULT_TEXT = 256 * 1024
"""Maximum size in bytes of a result sent to a model. A longer result is stored completely in a file (D20)."""

MAX_HTTP_ANSWER = 1024 * 1024
"""Maximum size in bytes of the response to an HTTP tool (D13)."""

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of rows at which a page of a list ends. The row that reaches the limit is included; no page is empty."""


ALL_ROWS = 2**31 - 1
"""More rows than any list of a run contains."""
MAX_INTEGER_BITS = 14_280
"""Maximum bits of an integer that Python converts to and from text (4,300 digits)."""
FIRST_DELAY, MAX_DELAY = 1.0, 300.0
"""Delays before retries, in seconds: each is twice the one before it (D21)."""


class PageLimit(int):
    """Maximum number of rows of a page. The page ends early once its rows have `PAGE_BYTES`.

    A plain number limits rows only. `Page.more` is true if the page ended early.
    """

    @classmethod
    # pydantic's type
    def __get_pydantic_core_schema__(cls, _: object, schema_of: Callable[[type], Any]) -> Any:
        """Return the schema of an integer, for OpenAPI documents."""
        return schema_of(int)


class Page(list[T]):
    """A page of a list. `more` is true if it ended early (see `PageLimit`): more rows can follow."""

    def __init__(self, rows: Iterable[T] = (), *, more: bool = False) -> None:
        super().__init__(rows)
        self.more = more


def ended_early(rows: Sequence[object]) -> bool:
    """Return whether the page ended early, so that more rows can follow."""
    return isinstance(rows, Page) and rows.more


def longer_delay(before: float | None) -> float:
    """Return the delay after the given one, or the first delay."""
    return FIRST_DELAY if before is None else min(before * 2, MAX_DELAY)


def nth_delay(n: int) -> float:
    """Return the delay before the n-th retry, counted from 0."""
    return min(FIRST_DELAY * 2.0 ** min(n, 30), MAX_DELAY)
