"""Reading a body: JSON into a checked form, with words for what is wrong at which path."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from toolwright.core.brief import brief
from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.form_faults import form_fault
from toolwright.core.json_value import JSON
from toolwright.core.plain import plain, spell


class Form(BaseModel):
    """A body as it is sent: camelCase, no unknown fields, no types converted."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)


F = TypeVar("F", bound=Form)
DEFINITIONS = "#/components/schemas/{model}"
"""Where the schemas of an OpenAPI document lie."""


def reads(form: type[F]) -> Callable[[Request], Awaitable[F]]:
    """A dependency that reads the body as `form`; it comes after the one that lets the caller in."""

    async def read(request: Request) -> F:
        nesting = request.app.state.serving.options.max_nesting
        value = _json(await request.body(), request.headers.get("content-type"), nesting)
        if not isinstance(value, dict):
            raise InvalidRequest(
                "The body must be a JSON object.", [{"path": "", "message": "must be an object"}]
            )
        try:
            return form.model_validate(value)
        except ValidationError as error:
            raise faulty("body", error.errors(include_url=False)) from None

    return read


def parse(path: str, text: str, request: Request) -> JSON:
    """The JSON of a text within a body, which is read as strictly as the body itself."""
    nesting = request.app.state.serving.options.max_nesting
    try:
        return _value(text, nesting)
    except _NotJson as error:
        raise InvalidRequest(
            f"{path} is not valid JSON: {error}.", [{"path": path, "message": f"is not valid JSON: {error}"}]
        ) from None


def described(form: type[Form]) -> dict[str, Any]:  # a part of an OpenAPI document
    """What `reads` takes, for the route's OpenAPI description; `correct_document` moves its parts where they belong."""
    schema = form.model_json_schema(ref_template=DEFINITIONS)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def faulty(what: str, faults: Sequence[Mapping[str, Any]], skip: int = 0) -> InvalidRequest:
    """pydantic's faults as one error; `skip` parts of each path say only where the value came from."""
    details = [{"path": spell(fault["loc"][skip:]), "message": form_fault(fault)} for fault in faults]
    said = "; ".join(f"{detail['path'] or f'The {what}'} {detail['message']}" for detail in details)
    return InvalidRequest(said, details)


def _json(body: bytes, content_type: str | None, nesting: int) -> JSON:
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        shown = brief(repr(kind), 100)
        raise InvalidRequest(f"The body must be JSON, with the content type application/json, not {shown}.")
    if not body.strip():
        raise _not_json("it is empty")
    try:
        return _value(body.decode("utf-8"), nesting)
    except UnicodeDecodeError:
        raise _not_json("it is not UTF-8") from None
    except _NotJson as error:
        raise _not_json(str(error)) from None


class _NotJson(Exception):
    """Why a text is not JSON."""


def _value(text: str, nesting: int) -> JSON:
    try:
        return plain(json.loads(text, parse_constant=_refuse, object_pairs_hook=_once), nesting)
    except RecursionError:
        raise _NotJson("it is nested too deep") from None
    except (ValueError, InvalidJSON) as error:
        raise _NotJson(str(error).rstrip(".")) from None


def _once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """An object; which of two values under one name is meant, nobody knows."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"{brief(repr(twice), 100)} is given twice in one object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _not_json(why: str) -> InvalidRequest:
    return InvalidRequest(f"The body is not valid JSON: {why}.", [{"path": "", "message": why}])
