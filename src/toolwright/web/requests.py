"""Requests: bodies parsed into validated forms, with an error per path; queries and headers without unknown names."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeVar

import fastapi
import pydantic
from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel

from toolwright.core.checks import invalid_value
from toolwright.core.errors import InvalidRequest, TooLarge
from toolwright.core.forms import form_error, limit_unknown_fields
from toolwright.core.json_text import HALF, HalfCharacter, NotJson, TooManyValues, ValueCount, read_json
from toolwright.core.json_value import JSON, LONG_KEY, NOT_WRITABLE, Path, has_long_key, spell
from toolwright.core.limits import MAX_DESCRIPTION, MAX_ERRORS, MAX_ID, MAX_MESSAGE, MAX_NAME, PageLimit
from toolwright.core.text import brief, sentence
from toolwright.web.options import GatewayOptions
from toolwright.web.shares import Turns, caller_of

_QUICK = 64 * 1024
"""Bytes up to which a body is parsed on the event loop, in about a millisecond."""

_SLASHES = 32
"""Bytes of a large body for which one of slow text is allowed in addition: some programs escape slashes of base64."""
_QUICK_BYTES = bytes(byte for byte in range(128) if byte != ord("\\"))

_COST = 20
"""Number of bytes that take as long to parse as one JSON value."""
DEFINITIONS = "#/components/schemas/{model}"
"""Location of schemas in an OpenAPI document."""
_UNKNOWN = "is not a known query parameter"
_MAX_NAMED = 5  # parameters named in the message; the details name all
_MAX_DIGITS = 18  # digits: numbers that every journal can store
F = TypeVar("F", bound="RequestBody")


@dataclass(frozen=True, slots=True)
class SlowText:
    """Maximum bytes of a large body's text that takes long to parse, and the name of that text for the error.

    These are characters beyond ASCII, and escapes, which count twice.
    """

    most: int
    name: str


FILES = SlowText(MAX_MESSAGE, "text in addition to its files. Attach a longer text as a file")
TOOLS = SlowText(6 * 1024 * 1024, "escapes and characters beyond ASCII, which take long to parse")


class RequestBody(pydantic.BaseModel):
    """Base of request bodies: camelCase, no unknown fields, no type conversion.

    A body can have `times` as many values as other bodies. Of a body that can be large, for example because of the
    base64 of its files, the text that takes long to parse is limited to `slow_text`.
    """

    times: ClassVar[int] = 1
    slow_text: ClassVar[SlowText | None] = None

    model_config = pydantic.ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _few_unknown(
        cls, value: Any, validator: pydantic.ModelWrapValidatorHandler[Self]
    ) -> Self:  # any sent value
        """Drop unknown fields beyond the number of errors that are reported."""
        return validator(limit_unknown_fields(value, cls))


def body_of(form: type[F]) -> Callable[[Request], Awaitable[F]]:
    """Return a dependency that reads the body as `form`. It runs after authentication.

    The values of a body are counted while it arrives. A large body is parsed and validated in a thread, one at a time
    in the turn of its caller, so that it does not delay other requests.
    """

    async def read(request: Request) -> F:
        options: GatewayOptions = request.app.state.serving.options
        parsing: Turns = request.app.state.serving.parsing
        _refuse_other_kinds(request.headers.get("content-type"))
        body, count = await _body(request, form.times * options.max_json_values, form.slow_text)
        if len(body) + _COST * count.values <= _QUICK:
            return _form(form, body, count, options.max_nesting)
        async with parsing.take(caller_of(request.scope)):
            return await asyncio.to_thread(_form, form, body, count, options.max_nesting)

    return read


def parse(path: str, text: str, request: Request, times: int = 1) -> JSON:
    """Parse a JSON text within a body as strictly as the body itself."""
    options: GatewayOptions = request.app.state.serving.options
    try:
        return read_json(text, values=times * options.max_json_values, nesting=options.max_nesting)
    except HalfCharacter as error:
        raise _half((path, *error.path)) from None
    except NotJson as error:
        raise InvalidRequest(
            _refused(path, error), [{"path": path, "message": _refused("", error)[1:-1]}]
        ) from None


def invalid_fields(what: str, errors: Sequence[Mapping[str, Any]], skip: int = 0) -> InvalidRequest:
    """Combine pydantic's errors into one. The first `skip` parts of each path, which name the source, are removed."""
    details = [
        {"path": spell(error["loc"][skip:]), "message": form_error(error)} for error in errors[:MAX_ERRORS]
    ]
    text = "; ".join(f"{detail['path'] or f'The {what}'} {detail['message']}" for detail in details)
    return InvalidRequest(text, details)


@contextmanager
def errors_at(place: str, sent: str) -> Generator[None]:
    """Report errors of the runtime at `place` under `sent`, the path of the value in the request."""
    try:
        yield
    except InvalidRequest as error:
        details = [{**each, "path": _moved(each["path"], place, sent)} for each in error.details]
        raise InvalidRequest(_moved(error.message, place, sent), details) from error


def _moved(text: str, place: str, sent: str) -> str:
    return (sent + text.removeprefix(place)).lstrip(".: ") if text.startswith(place) else text


def _refuse_other_kinds(content_type: str | None) -> None:
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        quoted = brief(repr(kind), 100)
        raise InvalidRequest(f"The body must be JSON, with the content type application/json, not {quoted}.")


async def _body(request: Request, most: int, large: SlowText | None) -> tuple[bytearray, ValueCount]:
    """Return the whole body. Its values are counted on arrival, and too many are rejected before it is complete.

    Escapes and characters beyond ASCII are counted too, if the body can be `large`: one parser call would hold the
    interpreter for too long.
    """
    body, count, slow = bytearray(), ValueCount(most), 0
    async for piece in request.stream():
        try:
            count.add(piece)
        except TooManyValues as error:
            raise _not_json(error) from None
        body += piece
        if large is not None:
            slow += len(piece.translate(None, _QUICK_BYTES)) + piece.count(b"\\")
            if slow > large.most + len(body) // _SLASHES:
                raise TooLarge(f"The body has more than {large.most} bytes of {large.name}.")
    return body, count


def _form(form: type[F], body: bytearray, count: ValueCount, nesting: int) -> F:
    text = bytes(body)
    body.clear()  # avoids a third copy of a large body: the parser copies mutable buffers
    try:
        value = read_json(text, nesting=nesting, count=count) if not text.isspace() and text else _nothing()
    except HalfCharacter as error:
        raise _half(error.path) from None
    except NotJson as error:
        raise _not_json(error) from None
    del text
    if not isinstance(value, dict):
        raise InvalidRequest(
            "The body must be a JSON object.", [{"path": "", "message": "must be an object"}]
        )
    try:
        return form.model_validate(value)
    except pydantic.ValidationError as error:
        raise invalid_fields("body", error.errors(include_url=False)) from None


def _half(path: Path) -> InvalidRequest:
    spelled = spell(path)
    return InvalidRequest(f"{spelled or 'The body'} {HALF}.", [{"path": spelled, "message": HALF}])


def _nothing() -> NoReturn:
    raise NotJson("it is empty")


def _not_json(why: NotJson) -> InvalidRequest:
    return InvalidRequest(_refused("The body", why), [{"path": "", "message": str(why)}])


def _refused(what: str, why: NotJson) -> str:
    error = "is too large" if isinstance(why, TooManyValues) else "is not valid JSON"
    return sentence(f"{what} {error}: {why}")


Values = dict[str, pydantic.JsonValue]
"""Values by name, in the form that `core.env` reads."""


class NewEnv(RequestBody):
    """Values to set. Null deletes a name."""

    env: Values


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
            f"{'; '.join(f'{name!r} {_UNKNOWN}' for name in unknown[:_MAX_NAMED])}{_choice(names)}.",
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


def _storable(text: str) -> str:
    if "\x00" in text if text.isascii() else _UNSTORABLE.search(text):
        raise ValueError(NOT_WRITABLE)
    return text


def _event_id(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise ValueError("must be the id of an event, or 0 for the beginning")
    digits = text.lstrip("0") or "0"
    return digits if len(digits) <= _MAX_DIGITS else str(10**_MAX_DIGITS)


def _short_keys(value: dict[str, pydantic.JsonValue]) -> dict[str, pydantic.JsonValue]:
    if has_long_key(value):
        raise ValueError(LONG_KEY)
    return value


StorableText = Annotated[str, pydantic.AfterValidator(_storable)]
"""Text that every journal can store."""

MessageText = Annotated[str, pydantic.Field(max_length=MAX_MESSAGE), pydantic.AfterValidator(_storable)]
"""The text of a message. Its length is validated before its characters."""

Name = Annotated[StorableText, pydantic.Field(max_length=MAX_NAME)]
"""A name, label or other short text."""

Reference = Annotated[StorableText, pydantic.Field(max_length=MAX_ID)]
"""Reference to another object: its id or name."""

Description = Annotated[StorableText, pydantic.Field(max_length=MAX_DESCRIPTION)]
"""A description."""

Metadata = Annotated[
    dict[str, pydantic.JsonValue],
    pydantic.AfterValidator(_short_keys),
    pydantic.Field(json_schema_extra={"propertyNames": {"maxLength": MAX_NAME}}),
]
"""Data of the application, by short keys."""

Id = Annotated[StorableText, fastapi.Path(description="The id.")]


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
    pydantic.AfterValidator(PageLimit),
    Query(ge=1, le=1_000, description="Maximum number of items. Fewer are returned if they are large."),
]
Offset = Annotated[int, Query(ge=0, le=10**9, description="Number of items to skip.")]

EventId = Annotated[str, pydantic.AfterValidator(_event_id)]
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
