"""Instants as the journal keeps them: microseconds since 1970, in UTC."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """The aware instant, in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def instant_or_none(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)
