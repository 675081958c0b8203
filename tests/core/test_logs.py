"""Loggers that tell no secrets: what is logged within a block and in all that it has started, after its end too."""

import contextvars
import gc
import weakref

import pytest

from toolwright.core.env.logs import logger, logging_without
from toolwright.core.env.redact import Redactor

log = logger("tests.logs")


class Run:
    """What knows the secrets of a block, and much more."""

    def __init__(self) -> None:
        self.redactor = Redactor([("KEY", "sesame-1234")])


def finished() -> tuple[weakref.ref[Run], contextvars.Context]:
    """A run that is over, and what each task and timer of it has, a cancelled timer too."""
    run = Run()
    with logging_without(lambda: run.redactor):
        context = contextvars.copy_context()
        run.redactor = Redactor([("KEY", "sesame-5678")])
    return weakref.ref(run), context


def test_nothing_keeps_what_a_block_was_about_once_it_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    run, left_behind = finished()
    gc.collect()
    assert run() is None
    left_behind.run(log.warning, "It is %s.", "sesame-5678")
    assert caplog.messages == ["It is [redacted:KEY]."]


def test_a_block_within_another_has_its_own_secrets(caplog: pytest.LogCaptureFixture) -> None:
    outer, inner = Redactor([("A", "outer-secret")]), Redactor([("B", "inner-secret")])
    with logging_without(lambda: outer):
        with logging_without(lambda: inner):
            log.warning("inner-secret")
        log.warning("outer-secret")
    log.warning("outer-secret")
    assert caplog.messages == ["[redacted:B]", "[redacted:A]", "outer-secret"]
