"""When plans run: durations, timestamps and crons, in every time zone with daylight saving."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwright.core.agents.mind import Schedule, next_run, read_duration, read_schedule
from toolwright.core.errors import InvalidRequest

NOW = datetime(2030, 6, 15, 12, 0, 0, 250_000, tzinfo=UTC)
ZONES = ["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo"]
instants = st.timedeltas(timedelta(), timedelta(days=20 * 365)).map(
    lambda since: datetime(2024, 1, 1, tzinfo=UTC) + since
)
zones = st.sampled_from(ZONES)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (1, 0.001),
        (90_000, 90),
        (1.5, 0.0015),
        ("5 hours", 18_000),
        ("90 minutes", 5_400),
        ("2 days 3 hours", 183_600),
        ("1h30m", 5_400),
        ("in 5 minutes", 300),
        ("In 1 Day, 2 hours and 30 seconds", 93_630),
        ("1.5h", 5_400),
        ("an hour", 3_600),
        ("in a week", 604_800),
        (" 10 s ", 10),
        ("250ms", 0.25),
    ],
)
def test_a_duration_is_milliseconds_or_words(said: float | str, seconds: float) -> None:
    assert read_duration(said) == timedelta(seconds=seconds)
    assert read_schedule(NOW, run_after=said) == Schedule(next_run_at=NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "said",
    [
        *(0, -1, 0.0001, 1e15, 1e300, "0 hours", "11 years", "4000 days", "9999 weeks", "5", "", "soon", "a"),
        *(
            "5 fortnights",
            "-5 hours",
            "1h30",
            "5 hours ago",
            "5 hoursx",
            "٣ hours",
            "9" * 5_000 + " s",
            "1 month",
        ),
    ],
)
def test_what_is_no_duration_is_refused(said: float | str) -> None:
    with pytest.raises(InvalidRequest, match=r"^runAfter ") as caught:
        read_schedule(NOW, run_after=said)
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("said", "timezone", "at"),
    [
        ("2030-06-16T09:00:00Z", None, datetime(2030, 6, 16, 9, tzinfo=UTC)),
        ("2030-06-16T09:00:00+02:00", None, datetime(2030, 6, 16, 7, tzinfo=UTC)),
        ("2030-06-16T09:00:00+02:00", "Asia/Kathmandu", datetime(2030, 6, 16, 7, tzinfo=UTC)),
        ("2030-06-16T09:00", "Europe/Vienna", datetime(2030, 6, 16, 7, tzinfo=UTC)),
        ("2030-06-16", "Europe/Vienna", datetime(2030, 6, 15, 22, tzinfo=UTC)),
        # skipped by the clock: 3:30
        ("2031-03-30T02:30", "Europe/Vienna", datetime(2031, 3, 30, 1, 30, tzinfo=UTC)),
        ("2030-10-27T02:30", "Europe/Vienna", datetime(2030, 10, 27, 0, 30, tzinfo=UTC)),  # the first of two
    ],
)
def test_an_instant_has_an_offset_or_a_timezone(said: str, timezone: str | None, at: datetime) -> None:
    assert read_schedule(NOW, scheduled_at=said, timezone=timezone) == Schedule(next_run_at=at)


@pytest.mark.parametrize(
    ("fault", "fields"),
    [
        ("is in the past: it is 2030-06-15T12:00:00", {"scheduled_at": "2030-06-15T12:00:00Z"}),
        ("has no offset", {"scheduled_at": "2030-06-16T09:00:00"}),
        ("more than ten years away", {"scheduled_at": "2055-01-01T00:00:00Z"}),
        ("must be a timestamp", {"scheduled_at": "tomorrow"}),
        ("must be a timestamp", {"scheduled_at": "9999-12-31T23:59:59-05:00"}),
        ("no timezone 'Mars/Base'", {"scheduled_at": "2030-06-16T09:00:00", "timezone": "Mars/Base"}),
        ("no timezone ''", {"run_after": "5 hours", "timezone": ""}),
        ("no timezone '../etc", {"cron": "0 9 * * *", "timezone": "../etc/passwd"}),
        ("no timezone 'America'", {"cron": "0 9 * * *", "timezone": "America"}),
        ("exactly one", {}),
        ("exactly one", {"timezone": "UTC"}),
        ("exactly one", {"run_after": 5, "cron": "0 9 * * *"}),
        ("exactly one", {"scheduled_at": "2030-06-16T09:00:00Z", "cron": "0 9 * * *"}),
        ("five fields", {"cron": "0 0 9 * * *"}),
        ("five fields", {"cron": ""}),
        ("or be one of @yearly, @annually, .*@hourly, not '@reboot'", {"cron": "@reboot"}),
        ("five fields", {"cron": "0 9 * * " + "1," * 100 + "1"}),
        ("bad minute", {"cron": "61 * * * *"}),
        ("bad day-of-week", {"cron": "0 9 * * MOO"}),
        ("is not valid", {"cron": "0 9 30 2 *"}),
        ("is not valid", {"cron": "0 9 31 APR,JUN *"}),
        ("never matches", {"cron": "0 9 LW * */6", "timezone": "Europe/Vienna"}),  # a weekday on a weekend
    ],
)
def test_a_schedule_that_cannot_be_is_refused(fault: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        read_schedule(NOW, **fields)


@pytest.mark.parametrize(
    ("cron", "timezone", "at"),
    [
        ("*/5 * * * *", None, datetime(2030, 6, 15, 12, 5, tzinfo=UTC)),
        ("0 9 * * MON-FRI", "Europe/Vienna", datetime(2030, 6, 17, 7, tzinfo=UTC)),
        ("0 9 1 jan *", None, datetime(2031, 1, 1, 9, tzinfo=UTC)),
        ("30 8-18/2 * * 6", None, datetime(2030, 6, 15, 12, 30, tzinfo=UTC)),
        ("  0   9 * *  * ", None, datetime(2030, 6, 16, 9, tzinfo=UTC)),
        ("@daily", "Asia/Kathmandu", datetime(2030, 6, 15, 18, 15, tzinfo=UTC)),
        ("@Hourly", None, datetime(2030, 6, 15, 13, tzinfo=UTC)),
        ("0 0 29 2 *", None, datetime(2032, 2, 29, tzinfo=UTC)),
        ("0 12 L * *", None, datetime(2030, 6, 30, 12, tzinfo=UTC)),
    ],
)
def test_a_cron_comes_in_its_zone(cron: str, timezone: str | None, at: datetime) -> None:
    kept = " ".join(cron.split())
    assert read_schedule(NOW, cron=cron, timezone=timezone) == Schedule(
        next_run_at=at, cron=kept, timezone=timezone
    )


def test_a_cron_keeps_its_hour_over_both_changes_of_the_clocks() -> None:
    at = datetime(2031, 3, 28, 12, tzinfo=UTC)
    hours: list[int] = []
    for _ in range(4):
        at = next_run("0 9 * * *", "Europe/Vienna", at)
        hours.append(at.hour)
    assert hours == [8, 7, 7, 7]  # 2031-03-30 is the day of the change
    skipped = next_run("30 2 * * *", "Europe/Vienna", datetime(2031, 3, 29, 12, tzinfo=UTC))
    assert skipped == datetime(2031, 3, 30, 1, 0, tzinfo=UTC)  # 2:30 does not exist: 3:00 does
    twice = datetime(2030, 10, 27, 0, 30, tzinfo=UTC)
    assert next_run("30 2 * * *", "Europe/Vienna", datetime(2030, 10, 26, 12, tzinfo=UTC)) == twice
    for later in (timedelta(), timedelta(minutes=45), timedelta(hours=1), timedelta(hours=1, seconds=5)):
        assert next_run("30 2 * * *", "Europe/Vienna", twice + later) == twice + timedelta(hours=25)


@given(zones, instants, st.integers(0, 23), st.integers(0, 59))
def test_a_daily_plan_runs_once_on_each_day_of_its_zone(
    zone: str, now: datetime, hour: int, minute: int
) -> None:
    at, days = now, list[date]()
    for _ in range(5):
        before, at = at, next_run(f"{minute} {hour} * * *", zone, at)
        assert at > before
        local = at.astimezone(ZoneInfo(zone))
        days.append(local.date())
        wanted = datetime.combine(local.date(), time(hour, minute), ZoneInfo(zone))
        there = wanted.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        if there == wanted.replace(tzinfo=None):
            assert at == wanted.astimezone(UTC)
        else:  # the clock skips it
            assert timedelta() < at - wanted.astimezone(UTC) + timedelta(hours=2) < timedelta(hours=4)
    assert days == [days[0] + timedelta(days=n) for n in range(5)]


@given(zones, instants, st.sampled_from(["* * * * *", "*/7 * * * *", "*/20 1-3 * * *", "5 * * * *"]))
def test_a_frequent_plan_misses_no_time_and_makes_none_up(zone: str, now: datetime, cron: str) -> None:
    at = next_run(cron, zone, now)
    minutes, hours = _matching(cron)
    minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(26 * 60):
        local = minute.astimezone(ZoneInfo(zone))
        if local.minute in minutes and local.hour in hours:
            break
        minute += timedelta(minutes=1)
    assert at == minute


def _matching(cron: str) -> tuple[set[int], set[int]]:
    minute, hour, *_ = cron.split()
    step = int(minute.partition("/")[2] or 1)
    minutes = set(range(0, 60, step)) if minute.startswith("*") else {int(minute)}
    return minutes, set(range(1, 4)) if hour == "1-3" else set(range(24))


@given(zones, instants, st.text(alphabet="0123456789*/,-#LWMONFRIJAN? @²ß", max_size=24))
def test_any_text_is_a_cron_or_refused(zone: str, now: datetime, text: str) -> None:
    for cron in (text, f"{text} * * * *", f"0 0 {text} * *", f"0 0 * * {text}"):
        try:
            assert next_run(cron, zone, now) > now
        except InvalidRequest:
            continue


@given(st.text(max_size=30) | st.floats(allow_nan=False))
def test_any_duration_is_read_or_refused(said: str | float) -> None:
    try:
        assert timedelta() < read_duration(said) <= timedelta(days=3_660)
    except InvalidRequest as error:
        assert error.message.startswith("runAfter ")


@given(st.text(max_size=30))
def test_any_text_is_an_instant_or_refused(said: str) -> None:
    try:
        assert read_schedule(NOW, scheduled_at=said, timezone="Europe/Vienna").next_run_at > NOW
    except InvalidRequest as error:
        assert error.message.startswith("scheduledAt ")
