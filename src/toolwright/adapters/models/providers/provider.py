"""Providers: creates a pydantic-ai model by name, and converts its errors: whether, and when, to retry."""

import difflib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    FallbackExceptionGroup,
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.wrapper import WrapperModel

from toolwright.adapters.system import check_certificates
from toolwright.core.errors import (
    ContextTooLong,
    DefinitionError,
    MissingExtra,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    install,
)
from toolwright.core.model import EXAMPLE_MODEL
from toolwright.core.schemas.provider_forms import alias_of
from toolwright.core.text import brief

PROVIDERS = (
    "anthropic", "azure", "azure-responses", "bedrock", "cerebras", "cohere", "deepseek", "fireworks", "google",
    "google-cloud", "groq", "huggingface", "litellm", "mistral", "moonshotai", "ollama", "openai", "openai-chat",
    "openrouter", "scripted", "together", "vercel", "xai",
)  # fmt: skip
"""Providers that an error message lists; pydantic-ai supports more."""
_OUR_EXTRAS = ("openai", "anthropic", "google", "bedrock", "groq", "mistral", "cohere")
_CLIENTS = ("client", "_api_client", "_client_wrapper")
_KEYS = ("api_key", "auth_token", "token", "_token")
_MAX_MESSAGE = 500
# Not the beginning of "128k", "200 000" or "131.072".
_LIMIT: Final = r"(?P<limit>\d[\d,]*)(?![\d.,]*\s?(?:[kKmM]\b|\d))"
_REQUESTED: Final = r"(?P<asked>[\d,]+)"
_ANSWER: Final = r"(?P<answer>[\d,]+)"
_TOO_LARGE: Final = 413
_INTERNAL: Final = 500
_MAX_DIGITS: Final = 12
_MAX_BODY: Final = 10_000
_WITHIN: Final = ("error", "Error", "metadata")
"""Fields of an error's body that contain the error itself, or the message of OpenRouter's upstream provider."""
FIRST_PAUSE = 0.5
MAX_PAUSE = 8.0
MAX_RETRY_AFTER = 60.0
"""Seconds that an attempt waits here at most; a provider that asks for more is left to the run."""


def provider_model(name: str) -> Model:
    """Return the model `provider:model`. The first model of a provider imports its SDK, which takes a second or more.

    Raises:
        DefinitionError: there is no such provider, or the trusted certificates cannot be read.
        MissingExtra: the provider's SDK is not installed.
        ModelRefused: the provider's API key is not set.
    """
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise DefinitionError(f"The model {name!r} needs a provider, as in {EXAMPLE_MODEL!r}.")
    try:
        check_certificates()
        return infer_model(name)
    except DefinitionError as error:
        raise DefinitionError(f"The model {name!r} cannot be used: {error.message}") from error
    except ImportError as error:
        raise missing_sdk(name, error) from error
    except UserError as error:
        raise _unusable(name, error.message) from error
    except Exception as error:
        raise _unusable(name, str(error)) from error


def keys_of(model: Model) -> Iterator[str]:
    """Yield the keys that the clients of the providers' SDKs hold. A key that a function returns is not known yet."""
    owner: object = model.wrapped if isinstance(model, WrapperModel) else model
    for name in _CLIENTS:
        owner = getattr(owner, name, owner)
        yield from (key for each in _KEYS if isinstance(key := getattr(owner, each, None), str))


def missing_sdk(name: str, error: ImportError) -> MissingExtra:
    """Return the error with the package to install for the model `name`."""
    match = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
    group = match.group(1) if match else name.partition(":")[0]
    package = f"pydantic-ai-slim[{group}]"
    command = install(group) if group in _OUR_EXTRAS else f"pip install '{package}'"
    return MissingExtra(f"The model {name!r} needs {package}, which is not installed: {command}.")


def _unusable(name: str, message: str) -> DefinitionError | ModelRefused:
    variables = re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", message)
    if variables:
        missing = (
            "has no key" if any("KEY" in each or "TOKEN" in each for each in variables) else "is not set up"
        )
        return ModelRefused(
            f"The model {name!r} {missing}: set the environment variable {' or '.join(variables)}."
        )
    if message.startswith("Unknown model"):
        provider = name.partition(":")[0]
        close = difflib.get_close_matches(provider, PROVIDERS, n=1, cutoff=0.7)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        return DefinitionError(
            f"The model {name!r} has an unknown provider: {provider!r}.{meant} Providers: {', '.join(PROVIDERS)}."
        )
    return DefinitionError(f"The model {name!r} cannot be used: {message}")


class Aliases:
    """Tool name aliases of one model. Names sent to the provider are stored to be mapped back."""

    def __init__(self) -> None:
        self._wire: dict[str, str] = {}
        self._real: dict[str, str] = {}

    def wire(self, name: str) -> str:
        """Return the name to send to the provider."""
        cached = self._wire.get(name)
        if cached is not None:
            return cached
        alias = alias_of(name)
        if alias != name:
            self._wire[name] = alias
            self._real[alias] = name
        return alias

    def real(self, name: str) -> str:
        """Return the tool's own name for a name from the provider. An unknown name is unchanged."""
        return self._real.get(name, name)


_PASSING_STATUS: Final = frozenset({408, 409, 425, 429})

TOO_LONG: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # OpenAI and compatible APIs: vLLM, SGLang, OpenRouter, DeepSeek, Together, Fireworks
        rf"maximum context length (?:is|of) {_LIMIT} tokens.*?requested(?: about)? {_REQUESTED} tokens"
        rf".{{0,80}}?{_ANSWER} (?:in|for) the (?:completion|output)",
        rf"maximum context length (?:is|of) {_LIMIT} tokens.*?(?:resulted in|requested|request has|contains)"
        rf"(?: about| at least)? {_REQUESTED}(?: input)? tokens",
        rf"maximum context length (?:is|of) {_LIMIT}",
        rf"input tokens exceed the configured limit of {_LIMIT} tokens.*?resulted in {_REQUESTED} tokens",
        rf"\(length {_REQUESTED}\) is longer than the maximum model length of {_LIMIT}",
        rf"input \({_REQUESTED} tokens\) is longer than the model'?s context length \({_LIMIT} tokens\)",
        # Anthropic
        rf"prompt is too long: {_REQUESTED} tokens > {_LIMIT} maximum",
        rf"exceed context limit: {_REQUESTED} \+ {_ANSWER} > {_LIMIT}",
        # Google
        rf"input token count \({_REQUESTED}\) exceeds the maximum number of tokens allowed \({_LIMIT}\)",
        # Mistral
        rf"prompt contains {_REQUESTED} tokens.*?too large for model with {_LIMIT} maximum context length",
        # xAI
        rf"maximum prompt length is {_LIMIT} but the request contains {_REQUESTED}",
        # Moonshot
        rf"exceeded model token limit: {_LIMIT} \(requested: {_REQUESTED}\)",
        # llama.cpp
        rf"request \({_REQUESTED} tokens\) exceeds the available context size \({_LIMIT} tokens\)",
        # llama.cpp and others, without numbers
        r"context[_ ]length[_ ]exceeded",
        r"exceeds the context window",
        r"maximum context length",
        r"maximum model length",
        r"reduce the length of the messages",  # Groq
        r"prompt is too long",
        r"exceed context limit",
        r"request_too_large",
        r"exceeds the maximum number of tokens allowed",
        r"input is too long",  # Bedrock
        r"too many total text bytes",
        r"input tokens exceeded",
        r"too many tokens: (?:total|size) ",  # Cohere
        r"exceeded model token limit",
        r"exceed_context_size_error",  # llama.cpp
        r"exceeds the available context size",
        r"prompt too long; exceeded (?:max )?context length",  # Ollama
        r"input length exceeds the context length",
        r"greater than the context length",  # LM Studio
    )
)
"""Patterns of errors for requests that are too long. The first match provides the numbers, in tokens.

`limit` is the model's maximum, `asked` the count of the provider, and `answer` the tokens reserved for the answer if
these are counted separately.
"""
OTHER_PHRASES: Final = re.compile(
    r"\b(?:context|conversation|input|messages?|prompt|request|tokens?)(?: \w+){0,4} "
    r"(?:exceed(?:s|ed)?|too (?:long|large|big|many)|longer than|larger than|more than)\b"
    r"|\b(?:exceed(?:s|ed)?|too (?:long|large|many)|longer than|larger than|more than)(?: \w+){0,4} "
    r"(?:context|conversation|input|messages?|prompt|tokens?)\b",
    re.IGNORECASE,
)
"""Phrases with which other providers reject a request for its length, if the message names no other subject."""
_OTHER_SUBJECTS: Final = re.compile(
    r"\b(?:image|picture|file|document|audio|video|pdf|pages?|tools?|functions?|schema|max_(?:completion_|output_)?tokens"
    r"|completion tokens|output tokens|temperature|stop|metadata|key|quota|credits?|balance)\b",
    re.IGNORECASE,
)
"""Other subjects that can be too large. In a message with one of them, `OTHER_PHRASES` do not refer to the request."""
_MORE_THAN_A_MINUTE: Final = re.compile(
    rf"request too large for .*?limit {_LIMIT}, requested {_REQUESTED}", re.IGNORECASE | re.DOTALL
)
"""OpenAI's and Groq's message for a request with more tokens than allowed per minute. Retrying does not help."""
_RATE_LIMIT: Final = re.compile(r"tokens per (?:min|day|hour)|rate[_ ]limit|\bTPM\b", re.IGNORECASE)
_SAYING: Final = frozenset({"message", "Message", "msg", "detail", "code", "Code", "type", "status", "raw"})


class BrokenAnswerError(AgentRunError):
    """The stream ended before the answer did."""


def provider_errors() -> tuple[type[Exception], ...]:
    """Return the classes of a provider's errors, with those of httpx if the provider's library has loaded it."""
    httpx = sys.modules.get("httpx")
    lost = () if httpx is None else (httpx.TransportError,)
    return (AgentRunError, UserError, OSError, httpx2.TransportError, *lost)


_TELL_THE_END: Final = frozenset({
    "anthropic", "azure", "bedrock", "cohere", "google", "google-cloud", "google-gla", "google-vertex", "groq",
    "huggingface", "mistral", "openai",
})  # fmt: skip
"""Providers whose answers have a reason for their end, without which they are unfinished."""


def check_complete(response: ModelResponse) -> None:
    """Raise `BrokenAnswerError` if the answer's stream ended early."""
    details = response.provider_details or {}
    unfinished = response.finish_reason is None and "finish_reason" not in details
    unfinished &= response.provider_name in _TELL_THE_END
    if response.state in ("incomplete", "suspended") or unfinished or response.finish_reason == "error":
        raise BrokenAnswerError("the stream ended before the answer did")


def translate(model: str, error: Exception, chain: Sequence[str] = ()) -> ModelError:
    """Convert a provider's error to one of this project. The message names the model and quotes the provider.

    `chain` are the names of the models of a `FallbackModel`: the message names the one that failed with this error.
    After all models of a `FallbackModel` have failed, a request that is too long for one of them counts first, because
    the next request can be shorter, then an error that is worth a retry, then the first one.
    """
    if isinstance(error, FallbackExceptionGroup):
        errors = chain_errors(model, error, chain)
        return next(
            (
                each
                for kind in (ContextTooLong, ModelUnavailable)
                for each in errors
                if isinstance(each, kind)
            ),
            errors[0],
        )
    model = _failed_model(model, error, chain)
    message = _sentence(_provider_message(error))
    status = f" ({error.status_code})" if isinstance(error, ModelHTTPError) else ""
    too_long = _too_long(model, error, status, message)
    if too_long is not None:
        return too_long
    if _refuses(error):
        of_content = isinstance(error, ModelHTTPError) and _refuses_content(error.status_code)
        return ModelRefused(f"{model} refused the request{status}: {message}", of_content=of_content)
    retry_after = error.retry_after if isinstance(error, ModelAPIError) else None
    host = None if status else _host(error)
    where = f" at {host}" if host else ""
    if retry_after is not None and retry_after > MAX_RETRY_AFTER:
        message = f"{message} It can be asked again in {retry_after:,.0f} seconds."
    return ModelUnavailable(f"{model} is unavailable{status}{where}: {message}", retry_after)


def chain_errors(model: str, error: FallbackExceptionGroup, chain: Sequence[str]) -> list[ModelError]:
    """Return the errors of all models of a `FallbackModel`, each with the name of its model."""
    if len(chain) == len(error.exceptions):  # in the order of the chain
        return [translate(name, each) for name, each in zip(chain, error.exceptions, strict=True)]
    return [translate(model, each, chain) for each in error.exceptions if isinstance(each, Exception)]


def _failed_model(model: str, error: Exception, chain: Sequence[str]) -> str:
    """Return the name in the chain of the model whose error this is, or `model` if that is not certain.

    The error has the model's name without its provider, of which a chain can have several.
    """
    failed = getattr(error, "model_name", None)
    names = [name for name in chain if name.partition(":")[2] == failed]
    return names[0] if len(names) == 1 else model


def _too_long(model: str, error: Exception, status: str, message: str) -> ContextTooLong | None:
    """Return the error as `ContextTooLong`, or None if it has another cause, such as a rate limit."""
    if not isinstance(error, ModelAPIError):
        return None
    text = " ".join(_texts(error))[:_MAX_BODY]
    match = _MORE_THAN_A_MINUTE.search(text)
    if match is None:
        if isinstance(error, ModelRateLimitError | ModelQuotaExceededError) or _RATE_LIMIT.search(text):
            return None
        match = _too_long_match(error, text)
        is_named = isinstance(error, ModelContextWindowExceededError)
        if match is None and not is_named and getattr(error, "status_code", None) != _TOO_LARGE:
            return None
    limit, requested, answer = _counts(error.body, match)
    return ContextTooLong(f"The request is too long for {model}{status}: {message}", limit, requested, answer)


def _too_long_match(error: ModelAPIError, text: str) -> re.Match[str] | None:
    """Return the match in the error's text for a request that is too long, or None."""
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    # older versions of llama.cpp
    if status is not None and not _refuses_content(status) and status != _INTERNAL:
        return None
    first_match = next((match for pattern in TOO_LONG if (match := pattern.search(text)) is not None), None)
    if (
        first_match is None
        and status is not None
        and _refuses_content(status)
        and not _OTHER_SUBJECTS.search(text)
    ):
        return OTHER_PHRASES.search(text)
    return first_match


def _refuses_content(status: int) -> bool:
    """Return whether an HTTP status rejects the request's content, as opposed to its key, model or rate."""
    return status in (400, _TOO_LARGE, 422)


def _texts(error: ModelAPIError) -> Iterator[str]:
    """Yield the provider's messages, codes and types. Parts of the request that an error can quote are left out."""
    yield from (each for each in (error.provider_error_code, error.provider_error_type) if each)
    if isinstance(error.body, str):
        yield error.body
    for fields in _objects(error.body):
        yield from (each for key, each in fields.items() if key in _SAYING and isinstance(each, str))
    if not isinstance(error, ModelHTTPError):
        yield str(error)


def _counts(body: object, match: re.Match[str] | None) -> tuple[int | None, int | None, int | None]:
    """Return the limit, the tokens that the provider counted, and the tokens reserved for the answer, included in both.

    Each is None if the provider does not report it.
    """
    groups = {} if match is None else match.groupdict()
    limit, requested, answer = [_tokens(groups.get(name)) for name in ("limit", "asked", "answer")]
    for fields in _objects(body):  # fields of llama.cpp
        limit = limit or _tokens(fields.get("n_ctx"))
        requested = requested or _tokens(fields.get("n_prompt_tokens"))
    # format of Anthropic
    if match is not None and requested is not None and answer is not None and " + " in match[0]:
        requested += answer
    return limit, requested, answer


def _tokens(number: object) -> int | None:
    digits = number.replace(",", "") if isinstance(number, str) else number
    if isinstance(digits, str):
        return int(digits) if digits.isdecimal() and len(digits) <= _MAX_DIGITS else None
    return digits if isinstance(digits, int) and not isinstance(digits, bool) and digits > 0 else None


def _objects(body: object) -> Iterator[dict[object, object]]:
    """Yield the object and its nested objects that describe the error; Google's can be in a list."""
    if isinstance(body, list) and body:
        yield from _objects(body[0])  # pyright: ignore[reportUnknownArgumentType]  # a provider's JSON
    if isinstance(body, Mapping):
        fields = dict[object, object](body)  # pyright: ignore[reportUnknownArgumentType]  # a provider's JSON
        yield fields
        for name in _WITHIN:
            yield from _objects(fields.get(name))


def _host(error: BaseException) -> str | None:
    """Return the host and port of the request that failed without an answer, or None if they are unknown."""
    cause: BaseException | None = error
    while cause is not None:
        with suppress(RuntimeError):  # the error of the HTTP library has no request
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
    message = _message_in(error.body) if isinstance(error, ModelAPIError) else None
    if message is None and isinstance(error, ModelHTTPError):
        return f"HTTP {error.status_code}"
    return message or str(error) or type(error).__name__


def _message_in(body: object) -> str | None:
    """Return the message of an error body: `{"error": {"message": …}}`, `{"message": …}`, or plain text."""
    if isinstance(body, str):
        return body.strip() or None
    if not isinstance(body, Mapping):
        return None
    # a provider's JSON, validated here
    fields = dict[object, object](body)  # pyright: ignore[reportUnknownArgumentType]
    names = ("error", "Error", "message", "Message")
    return next((message for name in names if (message := _message_in(fields.get(name)))), None)


def _sentence(text: str) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    line = brief(line, _MAX_MESSAGE)
    return line if line.endswith((".", "!", "?", "…")) else line + "."


def pause_before(attempt: int, retry_after: float | None, chance: float) -> float:
    """Return the seconds before attempt 2, 3, …; `chance` is a random number from 0 to 1.

    It is the provider's `Retry-After`, up to a minute, or otherwise 0.5 s, 1 s, 2 s …, with half of it random.
    """
    if retry_after is not None:
        return min(max(retry_after, 0.0), MAX_RETRY_AFTER)
    whole = min(FIRST_PAUSE * 2 ** (attempt - 2), MAX_PAUSE)
    return whole * (0.5 + chance / 2)
