"""Loggers that redact secrets: log lines of a block and of all tasks that it has started, also after its end."""

import contextvars
import gc
import io
import json
import logging
import weakref
from datetime import datetime

import pytest

from toolwright.core.env.logs import (
    CALL_ID,
    MAX_LOGGED,
    JsonFormatter,
    LogContext,
    TextFormatter,
    WithoutSecrets,
    logger,
    logging_without,
)
from toolwright.core.env.redact import Redactor

log = logger("tests.logs")


class Run:
    """An object that knows the secrets of a block, and much more."""

    def __init__(self) -> None:
        self.redactor = Redactor([("KEY", "sesame-1234")])


def finished() -> tuple[weakref.ref[Run], contextvars.Context]:
    """Return a finished run, and the context that each of its tasks and timers has, including cancelled timers."""
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


def lines_of(formatter: logging.Formatter, name: str) -> tuple[logging.Logger, io.StringIO]:
    """Return a logger, and its output."""
    written, made = io.StringIO(), logging.getLogger(name)
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    handler.addFilter(WithoutSecrets())
    made.handlers, made.propagate = [handler], False
    return made, written


PLACE = LogContext(run_id="run_1", thread_id="thr_1", trace_id="4bf9")
RUN = {"runId": "run_1", "threadId": "thr_1", "traceId": "4bf9"}


def test_a_line_of_json_names_the_run_the_call_and_the_trace_in_which_it_was_logged() -> None:
    made, written = lines_of(JsonFormatter(), "tests.json")
    made.warning("Before %s.", "it")
    with logging_without(lambda: Redactor([("KEY", "sesame-1234")]), PLACE):
        made.error("Within %s.", "sesame-1234")
        token = CALL_ID.set("call_1")
        try:
            raise ValueError("no sesame-1234")
        except ValueError:
            made.exception("It failed.")
        CALL_ID.reset(token)
    before, within, failed = [json.loads(line) for line in written.getvalue().splitlines()]
    assert datetime.fromisoformat(before.pop("time")).tzinfo is not None
    assert before == {"level": "WARNING", "logger": "tests.json", "message": "Before it."}
    assert {name: within[name] for name in RUN} == RUN
    assert within["message"] == "Within [redacted:KEY]."
    assert (failed["callId"], failed["runId"]) == ("call_1", "run_1")
    assert failed["exception"].startswith("Traceback")
    assert failed["exception"].endswith("ValueError: no [redacted:KEY]")
    assert "sesame-1234" not in written.getvalue()


def test_a_line_of_text_names_the_run_and_the_call() -> None:
    made, written = lines_of(TextFormatter("%(levelname)s %(message)s"), "tests.text")
    made.warning("Before.")
    with logging_without(lambda: Redactor(), PLACE):
        made.warning("Within.")
        token = CALL_ID.set("call_1")
        made.warning("In a call.")
        CALL_ID.reset(token)
        made.warning("Run run_1 has failed.")
    assert written.getvalue().splitlines() == [
        "WARNING Before.",
        "WARNING Within. (run_1)",
        "WARNING In a call. (run_1, call_1)",
        "WARNING Run run_1 has failed.",
    ]


FORGED = "no\n2026-11-24 WARNING toolwright: all is well\r\x1b[2K\u2028\u202egnorw"


def test_a_line_of_json_holds_nothing_that_ends_a_line_or_steers_a_terminal() -> None:
    said = f"{FORGED}\x85\x9b2K\x7f\u2066 Grüße 🙂"
    made, written = lines_of(JsonFormatter(), "tests.forged.json")
    made.warning("It failed: %s", said)
    try:
        raise ValueError(said)
    except ValueError:
        made.exception("A tool raised.")
    text = written.getvalue()
    # every character that could end a line does
    failed, raised = [json.loads(line) for line in text.splitlines()]
    assert failed["message"] == f"It failed: {said}"
    assert raised["exception"].endswith(f"ValueError: {said}")
    assert not {*"\r\x1b\x85\x9b\x7f\u2028\u202e\u2066"} & {*text}
    assert "Grüße 🙂" in text


def test_what_an_exception_says_forges_no_line_of_text_and_steers_no_terminal() -> None:
    made, written = lines_of(TextFormatter("%(levelname)s %(message)s"), "tests.forged")
    made.warning("It failed: %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        made.exception("A tool raised.")
    lines = written.getvalue().split("\n")
    assert [line for line in lines if line and not line.startswith("  ")] == [
        "WARNING It failed: no\\n2026-11-24 WARNING toolwright: all is well\\r\\x1b[2K\\u2028\\u202egnorw",
        "ERROR A tool raised.",
    ]
    assert "  Traceback (most recent call last):" in lines
    assert not {"\r", "\x1b", "\u2028", "\u202e"} & set(written.getvalue())


def test_a_line_is_bounded_and_no_half_of_a_secret_remains_where_it_was_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "sesame-1234"
    said = "x" * (MAX_LOGGED - 400) + secret * 100 + "x" * 1_000_000
    text, text_lines = lines_of(TextFormatter("%(levelname)s %(message)s"), "tests.long.text")
    as_json, json_lines = lines_of(JsonFormatter(), "tests.long.json")
    with logging_without(lambda: Redactor([("KEY", secret)])):
        for made in (log, text, as_json):
            try:
                raise ValueError(said)
            except ValueError:
                made.exception("A tool raised.")
    for made in (text, as_json):
        made.warning("x" * 1_000_000)
    try:
        raise ValueError("x" * 1_000_000)
    except ValueError as error:
        log.exception("A tool raised.")
        assert caplog.records[-1].exc_info is not None  # for handlers that read the exception itself
        assert caplog.records[-1].exc_info[1] is error
    for lines in (caplog.text, text_lines.getvalue(), json_lines.getvalue()):
        assert len(lines) < 3 * MAX_LOGGED
        assert "sesame" not in lines.replace("[redacted:KEY]", "")
        assert "characters)" in lines
