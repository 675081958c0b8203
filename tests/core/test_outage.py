"""The log of an unavailable journal: its beginning, its end, and rarely a line in between."""

import pytest

from toolwright.core.errors import StoreError
from toolwright.core.journal.store import FLAPPING, SELDOM, Outage
from toolwright.core.limits import MAX_DELAY
from toolwright.testing import ManualClock

AWAY = StoreError("The database is gone.")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def outage(clock: ManualClock) -> Outage:
    return Outage(clock)


def test_an_outage_is_one_line_when_it_begins_and_one_when_it_ends(
    outage: Outage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1_000):
        outage.failed(AWAY)
    clock.advance(42.0)
    outage.failed(AWAY)
    for _ in range(1_000):
        outage.over()
    assert caplog.messages == [
        "The journal is unavailable. Work that needs it waits: The database is gone.",
        "The journal is available again after 42 seconds.",
    ]


def test_a_long_outage_is_logged_rarely(
    outage: Outage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(int(3 * SELDOM) + 1):
        outage.failed(AWAY)
        clock.advance(1.0)
    assert list(caplog.messages[1:]) == [
        f"The journal did not answer for {SELDOM * n:.0f} seconds: The database is gone." for n in (1, 2, 3)
    ]


def test_a_journal_that_comes_and_goes_does_not_fill_the_log(
    outage: Outage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(int(FLAPPING)):
        outage.failed(AWAY)
        clock.advance(0.5)
        outage.over()
        clock.advance(0.5)
    assert len(caplog.messages) == 2
    clock.advance(FLAPPING)
    outage.failed(AWAY)
    assert len(caplog.messages) == 3


def test_an_outage_that_begins_soon_after_another_is_logged_once_it_lasts(
    outage: Outage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage.failed(AWAY)
    outage.over()
    clock.advance(1.0)
    outage.failed(AWAY)
    assert len(caplog.messages) == 2
    clock.advance(FLAPPING)
    outage.failed(AWAY)
    clock.advance(1.0)
    outage.over()
    assert caplog.messages[-1] == f"The journal is available again after {FLAPPING + 1:.0f} seconds."
    assert len(caplog.messages) == 4


def test_an_outage_whose_end_was_not_seen_is_not_continued(
    outage: Outage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage.failed(AWAY)
    clock.advance(3 * MAX_DELAY)  # longer than the longest pause between two attempts
    outage.failed(AWAY)
    assert caplog.messages[0] == caplog.messages[1]


def test_what_never_failed_does_not_come_back(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    outage.over()
    assert caplog.messages == []
