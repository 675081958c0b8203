"""Loggers that tell no secrets: what is logged while a thread is served is redacted like its records (D6)."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from toolwright.core.env.redact import Redactor


class _Secrets:
    """The secrets of a block: what they are now, and from its end on those that they were at last.

    Whatever was started within has a copy of the context, a cancelled timer until its time: it keeps no more than that.
    """

    __slots__ = ("redactor",)

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self.redactor = redactor

    def close(self) -> None:
        last = self.redactor()
        self.redactor = lambda: last


_SECRETS: ContextVar[_Secrets | None] = ContextVar("toolwright_secrets", default=None)
_FORMATTER = logging.Formatter()


class WithoutSecrets(logging.Filter):
    """Takes the secrets of the thread that is being served out of a record, its traceback included.

    Set on a handler it does so for all that is logged through it, a tool's own lines too.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true: the record is kept, without secrets."""
        secrets = _SECRETS.get()
        redactor = None if secrets is None else secrets.redactor()
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
    block = _Secrets(secrets)
    token = _SECRETS.set(block)
    try:
        yield
    finally:
        _SECRETS.reset(token)
        block.close()
