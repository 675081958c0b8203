"""A provider's errors as ours: worth another try, when, or not at all."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import httpx
import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.messages import ModelResponse

from toolwright.core.errors import ModelError, ModelRefused, ModelUnavailable
from toolwright.core.text import brief

PROVIDER_FAULTS: Final = (
    AgentRunError,
    UserError,
    OSError,
    httpx.TransportError,
    httpx2.TransportError,
)
_PASSING_STATUS: Final = frozenset({408, 409, 425, 429})
_LONGEST = 500


class BrokenAnswerError(AgentRunError):
    """The stream ended before the answer did."""


def check_whole(response: ModelResponse) -> None:
    """Raise `BrokenAnswerError` for an answer that its stream did not bring to an end."""
    unfinished = response.finish_reason is None and response.provider_name == "anthropic"
    if response.state == "incomplete" or unfinished or response.finish_reason == "error":
        raise BrokenAnswerError("the stream ended before the answer did")


def translate(model: str, error: Exception) -> ModelError:
    """The error of ours, a sentence that names the model and says what the provider said."""
    said = _sentence(_provider_message(error))
    status = f" ({error.status_code})" if isinstance(error, ModelHTTPError) else ""
    if _refuses(error):
        return ModelRefused(f"{model} refused the request{status}: {said}")
    retry_after = error.retry_after if isinstance(error, ModelAPIError) else None
    host = None if status else _host(error)
    where = f" at {host}" if host else ""
    return ModelUnavailable(f"{model} is unavailable{status}{where}: {said}", retry_after)


def _host(error: BaseException) -> str | None:
    """Return the host and port of the request that has failed without an answer, or None if they are not known."""
    cause: BaseException | None = error
    while cause is not None:
        with suppress(RuntimeError):  # an error of httpx that has no request
            url = getattr(getattr(cause, "request", None), "url", None)
            if url is not None:
                return f"{url.host}:{url.port}" if url.port else str(url.host)
        cause = cause.__cause__
    return None


def _refuses(error: Exception) -> bool:
    match error:
        case UserError() | ContentFilterError() | ModelQuotaExceededError() | ModelRequestRejectedError():
            return True
        case ModelHTTPError(status_code=status):
            return 400 <= status < 500 and status not in _PASSING_STATUS
        case _:
            return False


def _provider_message(error: Exception) -> str:
    found = _message_in(error.body) if isinstance(error, ModelAPIError) else None
    if found is None and isinstance(error, ModelHTTPError):
        return f"HTTP {error.status_code}"
    return found or str(error) or type(error).__name__


def _message_in(body: object) -> str | None:
    """The message of an error body: `{"error": {"message": …}}`, `{"message": …}`, or plain text."""
    if isinstance(body, str):
        return body.strip() or None
    if not isinstance(body, Mapping):
        return None
    # a provider's JSON: what it holds is looked at here
    fields = dict[object, object](body)  # pyright: ignore[reportUnknownArgumentType]
    return _message_in(fields.get("error")) or _message_in(fields.get("message"))


def _sentence(text: str) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    line = brief(line, _LONGEST)
    return line if line.endswith((".", "!", "?", "…")) else line + "."


FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
LONGEST_RETRY_AFTER = 60.0


def pause_before(attempt: int, retry_after: float | None, chance: float) -> float:
    """Seconds before attempt 2, 3, …; `chance` is a random number from 0 to 1.

    The provider's `Retry-After` counts, up to a minute; else 0.5 s, 1 s, 2 s …, half of it by chance.
    """
    if retry_after is not None:
        return min(max(retry_after, 0.0), LONGEST_RETRY_AFTER)
    whole = min(FIRST_PAUSE * 2 ** (attempt - 2), LONGEST_PAUSE)
    return whole * (0.5 + chance / 2)
