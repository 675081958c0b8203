"""Short facts about runs and calls in the console."""

from datetime import UTC, datetime, timedelta

import pytest

from toolwright.core.json_value import JSON
from toolwright.core.threads.compaction import Compaction, SentPrompt, left_out
from toolwright.core.threads.message import Sent
from toolwright.core.threads.run import Usage
from toolwright.core.value import changed
from toolwright.web.console.pages.runs import counted
from toolwright.web.console.runs.calls import gist, shown_json
from toolwright.web.console.runs.facts import (
    MAX_PAGES,
    address,
    joined,
    page_of,
    price,
    reason,
    span,
    tokens,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0 ms"), (0.25, "250 ms"), (1.5, "1.5 s"), (61, "1 min 1 s"), (7_260, "2 h 1 min"), (-3, "0 ms")],
)
def test_a_time_is_as_exact_as_it_is_short(seconds: float, shown: str) -> None:
    assert span(AT, AT + timedelta(seconds=seconds)) == shown


def test_what_is_not_known_is_nothing() -> None:
    assert [span(AT, None), span(None, AT), price(None), price(float("nan")), tokens(Usage())] == [""] * 5
    assert joined("", "a", "", "b") == "a · b"


def test_the_tokens_of_a_request_are_shown_with_those_of_its_parts() -> None:
    sent = Sent(tokens=1_200, counted=1_100, budget=8_000)
    prompt = SentPrompt(
        step=1, message_id="msg_1", created_at=AT, sent=sent, parts={"system": 200, "tools": 0}
    )
    assert counted(prompt) == "1,200 estimated · 1,100 counted · 8,000 at most · system 200"
    assert counted(changed(prompt, sent=Sent(), parts={})) == ""
    assert counted(changed(prompt, sent=None)) == ""


def test_what_is_left_out_is_reported_in_sentences() -> None:
    row = Compaction(thread_id="thr_1", number=3, cut=9, cleared=12, kept=(2, 4), created_at=AT)
    assert left_out(row) == [
        "Left out: messages up to 9, but for 2, 4 (compaction 3, budget).",
        "References in place of results: up to message 12.",
    ]
    written = changed(row, kept=(), cleared=0, summary="Tea.", covers=9, model="test:a")
    assert left_out(written)[-1] == "Summary of messages up to 9, by test:a."
    assert left_out(changed(written, model=None, edited_by="person:ent_1"))[-1] == (
        "Summary of messages up to 9, edited by person:ent_1."
    )
    assert left_out(changed(row, cut=0, cleared=0)) == left_out(None) == ["Nothing was left out."]


def test_prices_show_the_digits_that_tell_something() -> None:
    assert [price(0.0), price(0.000123), price(1.5), price(1234.567)] == [
        "$0.00",
        "$0.000123",
        "$1.50",
        "$1,234.57",
    ]


def test_tokens_tell_how_many_were_cached() -> None:
    assert tokens(Usage(input_tokens=1_200, output_tokens=80)) == "1,200 in · 80 out"
    usage = Usage(input_tokens=1_200, output_tokens=80, cache_read_tokens=1_000)
    assert tokens(usage) == "1,200 in (1,000 cached) · 80 out"


@pytest.mark.parametrize("asked", ["0", "-1", "x", "", "1.5", "٣", "99999999999"])
def test_an_invalid_page_is_the_first(asked: str) -> None:
    assert page_of({"page": asked}) == 1


def test_pages_end_somewhere() -> None:
    assert page_of({"page": "7"}) == 7
    assert page_of({"page": "999999999"}) == MAX_PAGES


def test_an_address_names_the_filters_that_are_set() -> None:
    assert address("/runs", status="", agent="a&b=c") == "/runs?agent=a%26b%3Dc"
    assert address("/runs", status="") == "/runs"


def test_arguments_in_a_line_are_short_whatever_they_are() -> None:
    assert gist({"city": "Tokyo", "days": 3, "tags": ["a", "b"], "more": {"x": 1}}) == (
        "city: Tokyo, days: 3, tags: [2], more: {1}"
    )
    assert gist(None) == ""
    large: list[JSON] = [{"x" * 10_000: "y" * 10_000}, [*"z" * 10_000], "s" * 100_000, {"a": 10**300}]
    for each in large:
        assert len(gist(each)) < 150


@pytest.mark.anyio
async def test_json_that_is_long_is_cut_and_says_so() -> None:
    rows: list[JSON] = ["x" * 100 for _ in range(50_000)]
    shown = await shown_json({"rows": rows})
    assert len(shown) < 21_000
    assert shown.endswith("characters)")


def test_what_a_run_waits_for_is_said_in_words() -> None:
    assert reason({"reason": "calls", "callIds": ["a"]}) == "the result of 1 call"
    assert reason({"reason": "calls", "callIds": "a"}) == "results"
    assert [reason(None), reason({}), reason({"reason": 3})] == ["", "", ""]
