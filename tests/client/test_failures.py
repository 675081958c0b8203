"""Errors cross the wire: the client raises the same error as the runtime."""

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.web.test_statuses import below
from toolwright.client import Client
from toolwright.client.http import CODES, error_from, retry_after, segment
from toolwright.core import errors
from toolwright.core.errors import InvalidRequest, TenvsRequired, ToolwrightError, VariablesRequired
from toolwright.web.answers import INTERNAL, status_of
from toolwright.web.middleware import answer_error

TREE = below(ToolwrightError)


def crossed(error: ToolwrightError) -> ToolwrightError:
    """Return the error after it has been sent over the wire."""
    answer = answer_error(error)
    return error_from(answer.status_code, answer.headers, bytes(answer.body))


def an_error(kind: type[ToolwrightError]) -> ToolwrightError:
    if issubclass(kind, TenvsRequired):
        return kind("Something is missing.", ["A"], [{"name": "B", "message": "must be text"}])
    if issubclass(kind, VariablesRequired):
        return kind("Something is missing.", ["A"])
    return kind("Something is wrong with 'ü'.")


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_every_error_that_is_answered_comes_back_as_itself(kind: type[ToolwrightError]) -> None:
    error = an_error(kind)
    found = crossed(error)
    if status_of(kind) == INTERNAL:  # its message stays on the server
        assert (type(found), found.message) == (errors.ServerFailed, "Internal server error")
    else:
        assert (type(found), found.message) == (kind, error.message)


def test_no_two_errors_have_one_code() -> None:
    codes = [kind.code for kind in TREE]
    assert len(set(codes)) == len(codes)
    assert set(CODES.values()) == {ToolwrightError, *TREE}


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_without_a_code_the_status_decides(kind: type[ToolwrightError]) -> None:
    status = status_of(kind)
    for body in (b'{"error": "No.", "code": "of_the_future"}', b'{"error": "No."}'):
        found = error_from(status, {}, body)
        assert found.message == "No."
        alike = {422: {400}, 502: {502, 503}, 503: {502, 503}}.get(status, {status})
        assert status_of(type(found)) in alike
        assert status in (422, 502) or status_of(type(found)) == status


def test_details_come_with_an_error() -> None:
    error = InvalidRequest("a is required", [{"path": "a", "message": "is required"}])
    found = crossed(error)
    assert isinstance(found, InvalidRequest)
    assert found.details == error.details
    configured = crossed(errors.InvalidConfiguration("No.", error.details))
    assert isinstance(configured, errors.InvalidConfiguration)
    assert configured.details == error.details
    lacking = crossed(TenvsRequired("No.", ["A", "B"], [{"name": "C", "message": "must be text"}]))
    assert isinstance(lacking, TenvsRequired)
    assert (lacking.missing, lacking.invalid) == (["A", "B"], [{"name": "C", "message": "must be text"}])
    missing = crossed(VariablesRequired("No.", ["A", "B"]))
    assert isinstance(missing, VariablesRequired)
    assert missing.missing == ["A", "B"]


def test_a_journal_that_is_unavailable_says_when_to_come_again() -> None:
    found = crossed(errors.StoreError("Not now."))
    assert isinstance(found, errors.StoreError)
    assert found.retry_after == 1.0


@pytest.mark.parametrize(("said", "seconds"), [("2", 2.0), ("0.5", 0.5), ("-1", None), ("nan", None),
                                               ("inf", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)])  # fmt: skip
def test_a_retry_after_that_is_no_number_is_passed_over(said: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": said}) == seconds


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (502, errors.AnswerLost), (503, errors.Unreachable), (504, errors.AnswerLost), (429, errors.TooManyRequests),
        (404, errors.BadAnswer), (410, errors.BadAnswer), (302, errors.BadAnswer), (418, errors.InvalidRequest),
        (599, errors.ServerFailed),
    ],
)  # fmt: skip
def test_a_page_of_a_proxy_is_an_error_with_its_first_words(status: int, kind: type[ToolwrightError]) -> None:
    page = b"<html>\n  <h1>Bad Gateway \xff</h1>" + b"x" * 10_000
    found = error_from(status, {"retry-after": "7"}, page)
    assert type(found) is kind
    assert found.message.startswith(f"The server answered with the status {status}: <html> <h1>Bad Gateway")
    assert len(found.message) < 500


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b'{"error": 3}', b'{"error": "", "code": []}', b"[" * 99_999]
)
def test_a_strange_body_is_no_stumbling_block(body: bytes) -> None:
    assert type(error_from(404, {}, body)) is errors.BadAnswer
    assert type(error_from(400, {}, body)) is errors.InvalidRequest


def test_a_404_without_a_code_is_of_an_item_if_its_body_has_an_error() -> None:
    assert type(error_from(404, {}, b'{"error": "Not found."}')) is errors.NotFound


def test_strange_details_are_left_out() -> None:
    body = b'{"error": "No.", "code": "invalid_request", "details": [1, {"path": 3, "message": "x"}, null]}'
    found = error_from(400, {}, body)
    assert isinstance(found, InvalidRequest)
    assert found.details == [{"message": "x"}]
    assert isinstance(
        error_from(400, {}, b'{"code": "tenvs_required", "missing": 3, "invalid": {}}'), TenvsRequired
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (5, "An id must be text, not 5."),
        (None, "An id must be text, not None."),
        (
            SimpleNamespace(id="run_1"),
            "An id must be text, not a value of the type SimpleNamespace: pass its .id.",
        ),
    ],
)
def test_an_object_instead_of_its_id_is_reported(wrong: Any, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        segment(wrong)
    assert refused.value.message == sentence


WRONG: Any = [{"name": "weekly"}]
SECRET: Any = "sk-1234567890"


@pytest.mark.anyio
async def test_values_that_are_no_list_or_object_are_reported_before_a_request() -> None:
    names = "must be an object of names and values"
    async with Client("http://127.0.0.1:1") as client:
        threads, agents = client.threads, client.agents
        doors: list[tuple[Awaitable[object], str]] = [
            (agents.set_plans("a", WRONG), "changes must be a list of PlanChange values, not one with"),
            (agents.set_goals("a", WRONG), "changes must be a list of GoalChange values, not one with"),
            (agents.set_memories("a", WRONG), "changes must be a list of MemoryChange values, not one with"),
            (threads.set_env("thr_1", SECRET), f"env {names}."),
            (client.entities.set_env("ent_1", SECRET), f"env {names}."),
            (threads.create("a", env=SECRET), f"env {names}."),
            (threads.create("a", tenvs=SECRET), f"tenvs {names}."),
            (threads.create("a", arguments=WRONG), f"arguments {names}."),
            (threads.send("thr_1", "Hi", WRONG), "attachments must be a list of attachments, not one with"),
            (client.calls.list(status=WRONG), "status must be a list of statuses, not one with"),
        ]
        for door, words in doors:
            with pytest.raises(InvalidRequest) as refused:
                await door
            assert refused.value.message.startswith(words)
            assert SECRET not in refused.value.message
