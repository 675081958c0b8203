"""Errors that a server answers, as the errors of the tree: by their code, else by their status."""

import json
import math
from collections.abc import Mapping
from typing import cast

from toolwright.core import errors
from toolwright.core.errors import InvalidRequest, TenvsLacking, ToolwrightError, VariablesLacking
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.core.threads.call import ForbiddenMove

Kind = type[ToolwrightError]

CODES: Mapping[str, Kind] = {
    each.code: each
    for each in (*vars(errors).values(), ForbiddenMove)
    if isinstance(each, type) and issubclass(each, ToolwrightError)
}
RETRIABLE = (errors.Unreachable, errors.StoreError, errors.ModelUnavailable)
"""What may be over soon."""

OK = 200
NOT_FOUND = 404
TOO_MANY_REQUESTS = 429
_STATUSES: Mapping[int, Kind] = {
    400: errors.InvalidRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    408: errors.TooSlow,
    409: errors.AlreadyOver,
    410: errors.CallExpired,
    413: errors.TooLarge,
    422: errors.InvalidRequest,
    TOO_MANY_REQUESTS: errors.Unreachable,
    500: errors.ServerFailed,
    502: errors.AnswerLost,
    503: errors.Unreachable,
    504: errors.AnswerLost,
}
"""What an answer without a known code means: those of proxies, which know nothing of ours."""

LONGEST_TEXT = 300  # characters of an answer that is repeated in an error


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> ToolwrightError:
    """The error that an answer of that status tells."""
    shown = shown_in(body)
    said = shown.get("error")
    message = said if isinstance(said, str) and said else _without_words(status, body)
    code = shown.get("code")
    kind = CODES.get(code) if isinstance(code, str) else None
    return _made(kind or _by_status(status), message, shown, retry_after(headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a `Retry-After` names; a date there is not read."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _made(kind: Kind, message: str, shown: JSONObject, later: float | None) -> ToolwrightError:
    missing = [name for name in _listed(shown.get("missing")) if isinstance(name, str)]
    if issubclass(kind, VariablesLacking):
        return kind(message, missing)
    if issubclass(kind, TenvsLacking):
        return kind(message, missing, _pairs(shown.get("invalid")))
    if issubclass(kind, InvalidRequest | errors.InvalidConfiguration):
        return kind(message, _pairs(shown.get("details")))
    made = kind(message)
    if isinstance(made, RETRIABLE):
        made.retry_after = later
    return made


def _by_status(status: int) -> Kind:
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return errors.ServerFailed
    return errors.InvalidRequest if status >= 400 else errors.BadAnswer


def _without_words(status: int, body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())
    return f"The server answered with the status {status}: {brief(text, LONGEST_TEXT) or 'nothing more'}"


def shown_in(body: bytes) -> JSONObject:
    """The JSON object that a body is; an empty one if it is none."""
    try:
        shown = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("JSONObject", shown) if isinstance(shown, dict) else {}


def _pairs(given: JSON) -> list[dict[str, str]]:
    pairs = [each for each in _listed(given) if isinstance(each, dict)]
    return [{name: text for name, text in pair.items() if isinstance(text, str)} for pair in pairs]


def _listed(given: JSON) -> list[JSON]:
    return given if isinstance(given, list) else []
