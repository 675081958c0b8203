"""Loggers that tell no secrets: what is logged while a thread is served is redacted like its records (D6)."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from toolwright.core.env.redact import Redactor

_KNOWN: ContextVar[Callable[[], Redactor] | None] = ContextVar("toolwright_secrets", default=None)
_FORMATTER = logging.Formatter()


class WithoutSecrets(logging.Filter):
    """Takes the secrets of the thread that is being served out of a record, its traceback included.

    Set on a handler it does so for all that is logged through it, a tool's own lines too.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true: the record is kept, without secrets."""
        known = _KNOWN.get()
        redactor = None if known is None else known()
        if redactor:
            record.msg, record.args = redactor.text(record.getMessage()), ()
            if record.exc_info:
                record.exc_text = redactor.text(_FORMATTER.formatException(record.exc_info))
                record.exc_info = None
            if record.stack_info:
                record.stack_info = redactor.text(record.stack_info)
        return True


_FILTER = WithoutSecrets()


def logger(name: str) -> logging.Logger:
    """The logger of that name, which tells no secrets of the thread that is being served."""
    made = logging.getLogger(name)
    made.addFilter(_FILTER)  # once: the same filter is not added again
    return made


@contextmanager
def logging_without(secrets: Callable[[], Redactor]) -> Generator[None]:
    """Within the block, and in the tasks that it starts, nothing of these secrets is logged."""
    token = _KNOWN.set(secrets)
    try:
        yield
    finally:
        _KNOWN.reset(token)
