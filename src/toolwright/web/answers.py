"""HTTP answers: shapes, statuses, pages, event frames, and limits on unread data."""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, get_args

import anyio.lowlevel
import anyio.to_thread
from anyio import CancelScope, CapacityLimiter
from anyio.lowlevel import RunVar
from fastapi import Response
from starlette.types import Receive, Scope, Send

from toolwright.core import errors
from toolwright.core.agents.agent import entity_id_of
from toolwright.core.env.env import EnvType
from toolwright.core.json_value import JSON, JSONObject, characters, dumps_unescaped, is_large
from toolwright.core.limits import PAGE_BYTES, Page, ended_early
from toolwright.core.threads.call import ForbiddenMove
from toolwright.core.threads.event import Event
from toolwright.web.shares import caller_of
from toolwright.wire.event import Event as EventShape
from toolwright.wire.event import frame
from toolwright.wire.rendering import GIVEN, Absent, Itself, WrittenBy, writer
from toolwright.wire.shape import Shape
from toolwright.wire.space import channel_event_json

MAX_UNREAD = 64 * PAGE_BYTES  # bytes of all callers together
CUT = "toolwright.cut"
"""ASGI extension with which a server offers to abort a connection immediately."""
_DESCRIPTIONS: dict[int | str, str] = {
    400: "Invalid body or query.",
    401: "No key or token, or a wrong or expired one.",
    403: "Not allowed.",
    404: "Not found.",
    409: "Conflict: already finished, or already exists.",
    410: "Expired.",
    413: "The body is too large.",
    416: "The file has no bytes in that range.",
    503: "The database or the token keys are unavailable (try again), or a required row is corrupt.",
    "default": "Any other error.",
}
T = TypeVar("T")
U = TypeVar("U")
log = logging.getLogger("toolwright.web")
_MEASURED = 10_000  # parts of an unrendered answer that take 5 ms
INTERNAL = 500
MAX_FRAMES = 128  # cached frames: readers of the same events are rarely far apart
_READ_SIZE = 256 * 1024  # bytes sent at once


class Holder(Protocol):
    """Occupies bytes until it ends. `cancel` ends it early."""

    def cancel(self) -> object: ...


class UnreadAnswers:
    """Limits the total bytes of large answers that are not read yet, or of bodies that have not arrived completely.

    If a new answer would exceed the limit, the oldest answers of the caller that occupies the most bytes are aborted
    until there is room. An answer that is larger than the limit is held alone.
    """

    def __init__(self, most: int = MAX_UNREAD) -> None:
        self._most = most
        self._bytes: dict[str, int] = {}
        self._held: dict[str, dict[Holder, int]] = {}

    @contextmanager
    def hold(self, scope: Scope, size: int) -> Generator["HeldAnswer"]:
        """Count an answer of `size` bytes in this block, which ends early if the answer must make room."""
        caller = caller_of(scope)
        block = CancelScope()
        self.add(caller, block, size)
        try:
            with block:
                yield HeldAnswer(self, caller, block)
        finally:
            self.remove(caller, block)

    def resize(self, caller: str, block: Holder, size: int) -> None:
        """Change the size of a held answer."""
        if self.remove(caller, block):
            self.add(caller, block, size)

    def add(self, caller: str, block: Holder, size: int) -> None:
        """Count bytes of the caller, making room by aborting other answers."""
        self._make_room(caller, size)
        self._held.setdefault(caller, {})[block] = size
        self._bytes[caller] = self._bytes.get(caller, 0) + size

    def _make_room(self, caller: str, size: int) -> None:
        """Abort answers until the caller's new answer fits or none is left."""
        while self._held and sum(self._bytes.values()) + size > self._most:
            most = max(self._held, key=lambda each: self._bytes[each] + (size if each == caller else 0))
            oldest = next(iter(self._held[most]))
            oldest.cancel()
            self.remove(most, oldest)

    def remove(self, caller: str, block: Holder) -> bool:
        """Stop counting the answer. Return False if it was aborted before."""
        held = self._held.get(caller, {})
        if block not in held:
            return False
        self._bytes[caller] -= held.pop(block)
        if not held:
            del self._held[caller], self._bytes[caller]
        return True


class HeldAnswer:
    """One held answer."""

    def __init__(self, answers: UnreadAnswers, caller: str, block: CancelScope) -> None:
        self._answers = answers
        self._block = block
        self.caller = caller

    @property
    def was_aborted(self) -> bool:
        """Return whether the answer was aborted."""
        return self._block.cancelled_caught

    def resize(self, size: int) -> None:
        """Change the counted size of the answer."""
        self._answers.resize(self.caller, self._block, size)


UNREAD = RunVar[UnreadAnswers]("toolwright_unread_answers")
"""The unread answers of an event loop."""


def unread_answers() -> UnreadAnswers:
    """Return the unread answers of the event loop."""
    try:
        return UNREAD.get()
    except LookupError:
        answers = UnreadAnswers()
        UNREAD.set(answers)
        return answers


BODIES = RunVar[UnreadAnswers]("toolwright_unfinished_bodies")
"""The unfinished bodies of an event loop."""


def unfinished_bodies() -> UnreadAnswers:
    """Return the incomplete request bodies of the event loop."""
    try:
        return BODIES.get()
    except LookupError:
        bodies = UnreadAnswers()
        BODIES.set(bodies)
        return bodies


def cut_off(scope: Scope) -> None:
    """Abort the connection if the server supports it, because a graceful end would wait for the reader."""
    cut = scope.get("extensions", {}).get(CUT)
    if cut is not None:
        cut()


class Detail(Shape):
    """The error at one path of a body or query."""

    path: str
    message: str


class ErrorShape(Shape):
    """An error: a message and a stable code, with `details` for an invalid body or query."""

    error: str
    code: str
    details: Absent[list[Detail]] = None


def _types(names: Mapping[str, EnvType]) -> JSON:
    return {name: {"type": type_} for name, type_ in names.items()}


class EnvNames(Shape):
    """The names that were set, and whether each is a secret. Values are never included."""

    env: Annotated[Itself[dict[str, dict[Literal["type"], Literal["text", "secret"]]]], WrittenBy(_types)]


class Deleted(Shape):
    """Confirmation of a deletion."""

    success: Annotated[Literal[True], GIVEN] = True


Responses = dict[int | str, dict[str, Any]]  # FastAPI's type


def failures(*errors: int) -> Responses:
    """Return the error answers of a route with authentication."""
    statuses: list[int | str] = [*sorted({400, 401, 403, 503, *errors}), "default"]
    return {status: {"model": ErrorShape, "description": _DESCRIPTIONS[status]} for status in statuses}


# larger than a page of rows, because rows are rendered with authors, positions and so on
MAX_SHOWN = 2 * PAGE_BYTES


_LIMITER = RunVar[CapacityLimiter]("toolwright_answers")


def _one_at_a_time() -> CapacityLimiter:
    """Return the limiter that serializes the event loop's large answers."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = CapacityLimiter(1)
        _LIMITER.set(limiter)
        return limiter


class ApiResponse(Response):
    """A JSON answer. A large answer is serialized in a thread and sent in pieces as fast as they are read."""

    media_type = "application/json"

    def __init__(self, content: JSONObject, status: int, headers: Mapping[str, str] | None) -> None:
        self._large = content if is_large(content) else None
        super().__init__(None if self._large else content, status, headers)

    def render(self, content: Any) -> bytes:  # Starlette's type: JSON from the callers of `answer`
        return b"" if content is None else dumps_unescaped(content).encode()

    def _render_large(self) -> bytes:
        """Render the body. Its source is released immediately, even if the body is read slowly."""
        content, self._large = self._large, None
        return self.render(content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._large is None:
            await super().__call__(scope, receive, send)
            return
        is_started = False
        with unread_answers().hold(scope, characters(self._large, _MEASURED)) as held:
            body = await anyio.to_thread.run_sync(self._render_large, limiter=_one_at_a_time())
            held.resize(len(body))
            await anyio.lowlevel.checkpoint()
            is_started = True
            await self._send_body(body, send)
        if not held.was_aborted:
            return
        if not is_started:
            raise errors.Overloaded
        log.info("A response to %s is not read and is aborted to make room for others.", held.caller)
        cut_off(scope)
        await anyio.lowlevel.checkpoint()  # until the server notices the lost connection

    async def _send_body(self, body: bytes, send: Send) -> None:
        self.headers["content-length"] = str(len(body))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(body), _READ_SIZE):
            end = start + _READ_SIZE
            await send({"type": "http.response.body", "body": body[start:end], "more_body": end < len(body)})


def answer(body: JSONObject, status: int = 200, headers: dict[str, str] | None = None) -> ApiResponse:
    """Return the HTTP answer whose body is `body`."""
    return ApiResponse(body, status, headers)


def page_json(
    rows: Sequence[T], show: Callable[[T], JSONObject], *, newest: bool = False
) -> tuple[list[JSON], JSONObject]:
    """Return the items of a page up to `MAX_SHOWN` characters, and `more: true` if it was truncated.

    Pages of the journal are already truncated, see `PageLimit`. This is for lists from other sources.
    """
    items: list[JSON] = []
    size, ended = 0, ended_early(rows)
    for row in reversed(rows) if newest else rows:
        if size >= MAX_SHOWN:
            ended = True
            break
        item = show(row)
        size += characters(item)
        items.append(item)
    return items[::-1] if newest else items, {"more": True} if ended else {}


class ListShape(Shape):
    """A list. `more` is present if a page was truncated."""

    more: Absent[Literal[True]] = None

    @classmethod
    def of(cls, row: Sequence[Any], **given: Any) -> JSONObject:
        """Render a page of rows, whose items get `given`."""
        return cls.page(row, **given)

    @classmethod
    def page(cls, rows: Sequence[Any], *, newest: bool = False, **given: Any) -> JSONObject:
        """Render a page of rows. A page read from its end (`newest`) keeps its last items."""
        plural, field = next(
            each for each in cls.model_fields.items() if each[0] not in ListShape.model_fields
        )
        show = writer(get_args(field.annotation)[0])
        if given:
            show = partial(show, **given)
        items, ended = page_json(rows, show, newest=newest)
        return {plural: items, **ended}


def shown(rows: Sequence[T], show: Callable[[T], U]) -> Page[U]:
    """Return a page with each row replaced by the result of `show`."""
    return Page(map(show, rows), more=ended_early(rows))


STATUSES: Mapping[type[errors.ToolwrightError], int] = {
    errors.DefinitionError: 400,
    errors.InvalidJSON: 400,
    errors.InvalidRequest: 400,
    errors.VariablesRequired: 422,
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
    errors.HookFailed: INTERNAL,
    errors.FunctionFailed: INTERNAL,
    errors.BadAnswer: 502,
    errors.Unreachable: 503,
    errors.CallClaimed: 409,
    errors.DefinitionChanged: 409,
    errors.NotFailed: 409,
    errors.ThreadBusy: 409,
    errors.OtherDeps: 409,
    errors.AlreadyExists: 409,
    errors.NoRoom: 409,
    errors.CallExpired: 410,
    errors.TooLarge: 413,
    errors.TooManyRequests: 429,
    errors.CannotServe: INTERNAL,
    errors.MissingExtra: INTERNAL,
    errors.Unwritable: INTERNAL,
    ForbiddenMove: INTERNAL,
    errors.ModelError: 502,
    errors.SolutionError: 502,
    errors.RunFailed: 502,
    errors.ModelUnavailable: 503,
    errors.Overloaded: 503,
    errors.KeysUnavailable: 503,
    errors.StoreError: 503,
    errors.RowBroken: 503,  # without a Retry-After, because it must be repaired
}
"""HTTP statuses of error classes. Other classes have the status of their nearest base class."""


def status_of(error: type[errors.ToolwrightError]) -> int:
    """Return the status of an error's class."""
    for each in error.__mro__:
        if each in STATUSES:
            return STATUSES[each]
    return INTERNAL


Names: TypeAlias = Literal["s3", "s4"]
"""The specification whose event names are used."""


class Frames:
    """Cache of the frames of the newest events, for one set of names."""

    def __init__(self, names: Names = "s3") -> None:
        self._render = EventShape.of if names == "s3" else channel_event_json
        self._frames: dict[tuple[str | None, int] | int, tuple[Event, bytes]] = {}

    def frame(self, event: Event) -> bytes:
        """Return the event's frame. Recorded events are identified by number, live events by object identity."""
        whose = event.thread_id if event.space_id is None else None  # all spaces share one numbering
        key = id(event) if event.n is None else (whose, event.n)
        entry = self._frames.get(key)
        if entry is not None and (event.n is not None or entry[0] is event):
            return entry[1]
        encoded = self.encode_event(event)
        if len(self._frames) >= MAX_FRAMES:
            del self._frames[next(iter(self._frames))]
        self._frames[key] = (event, encoded)
        return encoded

    def encode_event(self, event: Event) -> bytes:
        """Encode the event without caching the frame."""
        agent_entity_id = None if event.agent is None else entity_id_of(event.agent)
        return frame(self._render(event, agent_entity_id=agent_entity_id))
