"""Loggers that redact secrets and add the current run and call.

Records logged while a thread is processed are redacted like its stored data (D6).
"""

import json
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar, cast

from toolwright.core.env.redact import Redactor
from toolwright.core.errors import ServerFailed, ToolwrightError
from toolwright.core.text import brief, error_text, escaped, sentence, spelled_out

MAX_LOGGED = 20_000
"""Maximum characters of a line, and of a traceback, which ends with the exception's message."""
MAX_TOLD = 10_000  # distinct messages that are logged once per process
_told: set[tuple[object, ...]] = set()
T = TypeVar("T")


class _Secrets:
    """The secrets of a block: the current secrets, and after its end those known at its end.

    Work that the block has started, such as a timer, has a copy of the context and can log later.
    """

    __slots__ = ("redactor",)

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self.redactor = redactor

    def close(self) -> None:
        last = self.redactor()
        self.redactor = lambda: last


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """The run in which a record is logged, and its trace."""

    run_id: str
    thread_id: str
    trace_id: str | None = None


CALL_ID: ContextVar[str | None] = ContextVar("toolwright_call_id", default=None)
"""Id of the call whose handler is in progress."""
_PLACE: ContextVar[LogContext | None] = ContextVar("toolwright_log_place", default=None)
_SECRETS: ContextVar[_Secrets | None] = ContextVar("toolwright_secrets", default=None)
_FORMATTER = logging.Formatter()


def is_first(*what: object) -> bool:
    """Return whether this is the process's first call with these values, for warnings that are logged once."""
    if what in _told or len(_told) >= MAX_TOLD:
        return False
    _told.add(what)
    return True


def without_secrets(written: T) -> T:
    """Return JSON-like values without the secrets of the current thread."""
    secrets = _SECRETS.get()
    redactor = None if secrets is None else secrets.redactor()
    return cast("T", _clean(written, redactor)) if redactor else written


def _clean(written: object, redactor: Redactor) -> object:
    match written:
        case str():
            return redactor.text(written)
        case dict():
            items = cast("dict[object, object]", written).items()
            return {_clean(name, redactor): _clean(each, redactor) for name, each in items}
        case list() | tuple():
            return [_clean(each, redactor) for each in cast("Sequence[object]", written)]
        case _:
            return written


class WithoutSecrets(logging.Filter):
    """Log filter that removes the current thread's secrets from a record and its traceback, and cuts long tracebacks.

    Set on a handler, it also covers records of tools and libraries.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove secrets from the record, then cut its traceback. Always returns True."""
        secrets = _SECRETS.get()
        redactor = None if secrets is None else secrets.redactor()
        if redactor:
            record.msg, record.args = redactor.text(record.getMessage()), ()
            if record.stack_info:
                record.stack_info = redactor.text(record.stack_info)
        if record.exc_info:
            text = _FORMATTER.formatException(record.exc_info)
            if redactor:
                text, record.exc_info = redactor.text(text), None
            if redactor or len(text) > MAX_LOGGED:  # otherwise left to the handler's own format
                record.exc_text = brief(text, MAX_LOGGED)
        return True


_FILTER = WithoutSecrets()


def logger(name: str) -> logging.Logger:
    """Return a logger that redacts the secrets of the current thread."""
    named_logger = logging.getLogger(name)
    named_logger.addFilter(_FILTER)  # idempotent: the same filter is not added again
    return named_logger


_log = logger("toolwright.internal")


def internal_error(doing: str, error: BaseException) -> ServerFailed:
    """Log an internal error with its traceback and return the error that reports it. `doing` is the failed activity."""
    _log.error("Internal error while %s.", doing, exc_info=error)
    return ServerFailed(sentence(f"Internal error while {doing}: {error_text(error)}"))


@contextmanager
def internal_errors(doing: str, *expected: type[Exception]) -> Generator[None]:
    """Raise `ServerFailed` for an exception in the block that is neither ours nor one of `expected`."""
    try:
        yield
    except (ToolwrightError, *expected):
        raise
    except Exception as error:  # any other exception is a bug of ours
        raise internal_error(doing, error) from error


def log_ids() -> dict[str, str]:
    """Return the ids of the current run, thread, call and trace that are set."""
    run, call_id = _PLACE.get(), CALL_ID.get()
    if run is None:
        return {}
    ids = {"runId": run.run_id, "threadId": run.thread_id, "callId": call_id, "traceId": run.trace_id}
    return {name: text for name, text in ids.items() if text is not None}


class TextFormatter(logging.Formatter):
    """Formats records as text, with their run and call.

    One line per record; the lines of a traceback are indented, so that no line of an exception looks like a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of the record, followed by its traceback."""
        line, _, traceback = super().format(record).partition("\n")
        return "\n".join([line, *[f"  {spelled_out(each)}" for each in traceback.splitlines()]])

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - named by the standard library
        """Return the line, without a traceback."""
        record.message = spelled_out(brief(record.message, MAX_LOGGED))
        ids = log_ids()
        values = [ids[name] for name in ("runId", "callId") if name in ids]
        context = ", ".join([each for each in values if each not in record.message])
        line = super().formatMessage(record)
        return f"{line} ({context})" if context else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time` (ISO 8601), `level`, `logger`, `message`, the ids of `log_ids`, `exception`.

    Characters that end lines, control terminals or change the text direction are written as JSON escapes.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object on one line."""
        written = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": brief(record.getMessage(), MAX_LOGGED),
            **log_ids(),
        }
        exception = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else None)
        if exception is not None:
            written["exception"] = exception
        return escaped(json.dumps(written, ensure_ascii=False))


@contextmanager
def logging_without(secrets: Callable[[], Redactor], run: LogContext | None = None) -> Generator[None]:
    """Redact these secrets from log records of the block and its tasks, and add `run` to them."""
    block = _Secrets(secrets)
    token, placed = _SECRETS.set(block), _PLACE.set(run)
    try:
        yield
    finally:
        _SECRETS.reset(token)
        _PLACE.reset(placed)
        block.close()
