"""Request bodies: parse JSON into a validated form, with an error message per path."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Self, TypeVar

from fastapi import Request
from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from toolwright.core.env.env import EnvType
from toolwright.core.errors import InvalidRequest
from toolwright.core.forms import form_error, limit_unknown_fields
from toolwright.core.json_text import HALF, HalfCharacter, NotJson, TooManyValues, ValueCount, read_json
from toolwright.core.json_value import JSON, JSONObject, Path, spell
from toolwright.core.limits import MOST_ERRORS
from toolwright.core.text import brief, sentence
from toolwright.web.options import GatewayOptions

_QUICK = 64 * 1024
"""Bytes up to which a body is parsed on the event loop, in about a millisecond."""

_COST = 20
"""Number of bytes that take as long to parse as one JSON value."""


class RequestForm(BaseModel):
    """Base of request bodies: camelCase, no unknown fields, no type conversion."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _few_unknown(cls, value: Any, validator: ModelWrapValidatorHandler[Self]) -> Self:  # any sent value
        """Drop unknown fields beyond the number of errors that are reported."""
        return validator(limit_unknown_fields(value, cls))


F = TypeVar("F", bound=RequestForm)
DEFINITIONS = "#/components/schemas/{model}"
"""Location of schemas in an OpenAPI document."""


def reads(form: type[F], times: int = 1) -> Callable[[Request], Awaitable[F]]:
    """Return a dependency that reads the body as `form`. It runs after authentication.

    The body can have `times` as many values as other bodies.

    The values of a body are counted while it arrives. A large body is parsed and validated in a thread, so that it does
    not delay other requests.
    """

    async def read(request: Request) -> F:
        options: GatewayOptions = request.app.state.serving.options
        _refuse_other_kinds(request.headers.get("content-type"))
        body, count = await _body(request, times * options.max_json_values)
        if len(body) + _COST * count.values <= _QUICK:
            return _form(form, body, count, options.max_nesting)
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


def described(form: type[RequestForm]) -> dict[str, Any]:  # part of an OpenAPI document
    """Return the OpenAPI description of a body for `reads`. `correct_document` moves its schemas to the components."""
    schema = form.model_json_schema(ref_template=DEFINITIONS)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def invalid_value(what: str, errors: Sequence[Mapping[str, Any]], skip: int = 0) -> InvalidRequest:
    """Combine pydantic's errors into one. The first `skip` parts of each path, which name the source, are removed."""
    details = [
        {"path": spell(error["loc"][skip:]), "message": form_error(error)} for error in errors[:MOST_ERRORS]
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


async def _body(request: Request, most: int) -> tuple[bytearray, ValueCount]:
    """Return the whole body. Its values are counted on arrival, and too many are rejected before it is complete."""
    body, count = bytearray(), ValueCount(most)
    async for piece in request.stream():
        try:
            count.add(piece)
        except TooManyValues as error:
            raise _not_json(error) from None
        body += piece
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
    except ValidationError as error:
        raise invalid_value("body", error.errors(include_url=False)) from None


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


Values = dict[str, JsonValue]
"""Values by name, in the form that `core.env` reads."""


class NewEnv(RequestForm):
    """Values to set. Null deletes a name."""

    env: Values


def env_names(names: Mapping[str, EnvType]) -> JSONObject:
    """Return `{env: {NAME: {type}}}`."""
    return {"env": {name: {"type": type_} for name, type_ in names.items()}}
