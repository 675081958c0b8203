"""Schedules of plans: parse times and durations, and compute the next time of a cron schedule (S3 `set_plans`).

All results depend only on a given timestamp and the time zone database.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from math import inf
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from toolwright.core.errors import InvalidRequest
from toolwright.core.text import brief, sentence
from toolwright.core.value import value

FURTHEST = timedelta(days=3_660)
"""Ten years: a later time is considered a mistake."""

LONGEST_SCHEDULE = 100
"""Maximum number of characters of a time, a duration or a cron expression."""
_SECONDS = {
    **dict.fromkeys(("milliseconds", "millisecond", "ms"), 0.001),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "mins", "min", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h"), 3_600.0),
    **dict.fromkeys(("days", "day", "d"), 86_400.0),
    **dict.fromkeys(("weeks", "week", "w"), 604_800.0),
}
_UNIT = "|".join(sorted(_SECONDS, key=len, reverse=True))
_PART = rf"(?:[0-9]+(?:\.[0-9]+)?\s*|an?\s+)(?:{_UNIT})(?![a-z])"
_DURATION = re.compile(rf"(?:in\s+)?{_PART}(?:[\s,]*(?:and\s+)?{_PART})*")
_COUNTED = re.compile(rf"([0-9]+(?:\.[0-9]+)?|an?(?=\s))\s*({_UNIT})(?![a-z])")
_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@value
class Schedule:
    """The next run of a plan, in UTC. With `cron` it repeats, in `timezone` (UTC if None).

    A `relative` schedule was set by `run_after`.
    """

    next_run_at: datetime
    cron: str | None = None
    timezone: str | None = None
    relative: bool = False


def read_schedule(
    now: datetime,
    *,
    run_after: float | str | None = None,
    scheduled_at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Schedule:
    """Parse a schedule, given by exactly one of `run_after`, `scheduled_at` and `cron`.

    `run_after` is a number of milliseconds, or text such as "5 hours" or "1h30m". `scheduled_at` is ISO 8601. Without
    an offset it is a local time in `timezone`: a time skipped by a clock change is moved by the gap, and for a time
    that occurs twice the first is used. `cron` has five fields, evaluated in `timezone`, or is a name such as `@daily`.
    Raises `InvalidRequest`.
    """
    if timezone is not None:
        _zone(timezone)
    match run_after, scheduled_at, cron:
        case (_, None, None) if run_after is not None:
            return Schedule(next_run_at=now.astimezone(UTC) + read_duration(run_after), relative=True)
        case None, str(), None:
            return Schedule(next_run_at=_instant(scheduled_at, timezone, now))
        case None, None, str():
            normalized = " ".join(cron.split())
            return Schedule(
                next_run_at=next_run(normalized, timezone, now), cron=normalized, timezone=timezone
            )
        case _:
            raise InvalidRequest("Give exactly one of runAfter, scheduledAt and cron.")


def read_duration(value: float | str) -> timedelta:
    """Parse a duration: milliseconds, or text with units, from a microsecond to ten years. Raises `InvalidRequest`."""
    try:
        seconds = _seconds_of(value) if isinstance(value, str) else value / 1_000
    except OverflowError:  # an integer too large for a float
        seconds = inf
    if not 0 < seconds <= FURTHEST.total_seconds() or not (duration := timedelta(seconds=seconds)):
        raise _invalid(
            "runAfter", f"runAfter must be positive and at most ten years, not {_brief_repr(value)}."
        )
    return duration


def next_run(cron: str, timezone: str | None, after: datetime) -> datetime:
    """Return the first time of a cron schedule after a timestamp, in UTC.

    Raises `InvalidRequest`, also if there is none. A time skipped by a clock change is replaced by the first one after
    the gap. If an hour occurs twice, a schedule that names its hour uses the first.
    """
    fields = _fields(cron)
    try:
        times = CronSim(fields, after.astimezone(_zone(timezone)))
        # A time that occurs twice is found by its first occurrence, which can be in the past.
        upcoming = next((at for at in (each.astimezone(UTC) for each in times) if at > after), None)
    except CronSimError as error:
        raise _invalid(
            "cron", sentence(f"The cron {_brief_repr(cron)} is not valid: {str(error).lower()}")
        ) from error
    if upcoming is None:
        raise _invalid("cron", f"The cron {_brief_repr(cron)} never matches a date.")
    return upcoming


def _fields(cron: str) -> str:
    fields = _NICKNAMES.get(cron.strip().lower(), cron)
    count = len(fields.split())
    if count != 5 or len(fields) > LONGEST_SCHEDULE:
        raise _invalid(
            "cron",
            "A cron expression must have five fields (minute, hour, day of month, month, day of week), or be one of "
            f"{', '.join(_NICKNAMES)}, not {_brief_repr(cron)}.",
        )
    return fields


def _seconds_of(text: str) -> float:
    lowered = text.strip().lower()
    if len(lowered) > LONGEST_SCHEDULE or _DURATION.fullmatch(lowered) is None:
        raise _invalid(
            "runAfter",
            "runAfter must be a number of milliseconds, or text such as '5 hours' or '1h30m', "
            f"not {_brief_repr(text)}.",
        )
    counted: list[tuple[str, str]] = _COUNTED.findall(lowered)
    return sum((1.0 if number in ("a", "an") else float(number)) * _SECONDS[unit] for number, unit in counted)


def _instant(text: str, timezone: str | None, now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
        if at.tzinfo is None:
            at = at.replace(tzinfo=_check_timezone(text, timezone))
        at = at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _invalid(
            "scheduledAt",
            f"scheduledAt must be a timestamp such as '2030-05-01T09:00:00+02:00', not {_brief_repr(text)}.",
        ) from error
    if at <= now:
        raise _invalid(
            "scheduledAt",
            f"scheduledAt {_brief_repr(text)} is in the past: it is {now.isoformat(timespec='seconds')}.",
        )
    if at - now > FURTHEST:
        raise _invalid("scheduledAt", f"scheduledAt {_brief_repr(text)} is more than ten years away.")
    return at


def _check_timezone(text: str, timezone: str | None) -> tzinfo:
    if timezone is None:
        raise _invalid(
            "scheduledAt",
            f"scheduledAt {_brief_repr(text)} has no offset: add one such as 'Z' or '+02:00', or give a timezone.",
        )
    return _zone(timezone)


def _zone(timezone: str | None) -> tzinfo:
    if timezone is None or timezone == "UTC":
        return UTC
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError) as error:
        raise _invalid(
            "timezone", f"There is no timezone {_brief_repr(timezone)}: name one such as 'Europe/Berlin'."
        ) from error


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, [{"path": field, "message": message.rstrip(".")}])


def _brief_repr(value: object) -> str:
    return brief(repr(value), 200)
