"""State of an agent between its runs: goals, memories and plans with their schedules (S3 built-in tools).

The times of schedules depend only on a given timestamp and the time zone database.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from math import inf
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from toolwright.core.checks import brief_value, invalid_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import NOT_WRITABLE, unwritable
from toolwright.core.limits import MAX_NAME
from toolwright.core.text import brief, quantity, sentence
from toolwright.core.value import Record, Stored, Value, changed

FURTHEST = timedelta(days=3_660)
"""Ten years: a later time is considered a mistake."""

MAX_SCHEDULE = 100
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
MAX_GOALS, MAX_MEMORIES, MAX_PLANS = 100, 1_000, 100
"""Maximum numbers of goals, memories and plans of an agent."""
MAX_TEXT = 4_000
"""Maximum numbers of characters of a description, value or instruction, and of a name, key, status or priority."""
MAX_ID = 64


class Schedule(Value):
    """The next run of a plan, in UTC. With `cron` it repeats, in `timezone` (UTC if None)."""

    next_run_at: datetime
    cron: str | None = None
    timezone: str | None = None


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
            return Schedule(next_run_at=now.astimezone(UTC) + read_duration(run_after))
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
    if count != 5 or len(fields) > MAX_SCHEDULE:
        raise _invalid(
            "cron",
            "A cron expression must have five fields (minute, hour, day of month, month, day of week), or be one of "
            f"{', '.join(_NICKNAMES)}, not {_brief_repr(cron)}.",
        )
    return fields


def _seconds_of(text: str) -> float:
    lowered = text.strip().lower()
    if len(lowered) > MAX_SCHEDULE or _DURATION.fullmatch(lowered) is None:
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


_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ID}}}")


class Goal(Record):
    """A goal of an agent; `status` and `priority` are free text set by the agent."""

    STORED = Stored(
        key=("agent_id", "id"),
        owner="agent_id",
        order=("created_at", "id"),
        kept=("created_at",),
    )

    agent_id: str
    id: str
    description: str
    status: str
    priority: str
    created_at: datetime


class Memory(Record):
    """A memory of the agent: a value under a key."""

    STORED = Stored(key=("agent_id", "key"), owner="agent_id", order=("key",))

    agent_id: str
    key: str
    value: str
    updated_at: datetime


class Plan(Record):
    """A scheduled instruction to the agent, due at `next_run_at`, repeatedly with `cron`.

    `timezone` is the IANA time zone of the fields of `cron`. A person's plan wakes the thread `thread_id`, in which it
    was set. The agent's own plan has no `thread_id` and wakes its home thread. `run_id` is the run in which it was set,
    if that run has deps: its own runs have the same deps.
    """

    STORED = Stored(
        key=("agent_id", "id"),
        owner="agent_id",
        order=("next_run_at", "id"),
        kept=("created_at",),
    )

    agent_id: str
    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: str | None = None
    timezone: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    created_at: datetime

    @property
    def timer(self) -> str:
        """The name of the plan's timer."""
        return plan_timer(self.agent_id, self.id)


def plan_timer(agent_id: str, plan_id: str) -> str:
    """Return the name of the timer of that plan."""
    return f"plan:{agent_id}:{plan_id}"


class GoalChange(Value):
    """A new goal, or a change of the goal with that `id`.

    A new goal requires a description. In a change, None leaves a field unchanged.
    """

    id: str | None = None
    description: str | None = None
    status: str | None = None
    priority: str | None = None


class MemoryChange(Value):
    """A new memory, or a replacement of the memory with that key."""

    key: str
    value: str


class PlanChange(Value):
    """A new plan, or a change of the plan with that `id`, without an `id` of the one with that name.

    None leaves a field unchanged, and a plan whose `cron` stays as it was keeps its next time. A new plan requires
    name, instruction and one of `run_after` (milliseconds, or text such as "5 hours"), `scheduled_at` (ISO 8601) and
    `cron`.
    """

    id: str | None = None
    name: str | None = None
    instruction: str | None = None
    run_after: float | str | None = None
    scheduled_at: str | None = None
    cron: str | None = None
    timezone: str | None = None

    @property
    def has_time(self) -> bool:
        """Return whether the change has a new time."""
        return not (self.run_after is None and self.scheduled_at is None and self.cron is None)


def changed_goals(
    stored: Mapping[str, Goal],
    changes: Sequence[GoalChange],
    agent_id: str,
    new_id: Callable[[int], str],
    now: datetime,
) -> dict[str, Goal]:
    """Return new and changed goals, by id. `stored` are the stored goals, `new_id` returns the id of the nth change.

    Raises `InvalidRequest` with all invalid paths.
    """
    newest = max([now, *(goal.created_at for goal in stored.values())])
    ids = _ids("goal", [each.id for each in changes], new_id)
    new: dict[str, Goal] = {}
    for n, (goal_id, change) in enumerate(zip(ids, changes, strict=True)):
        was = stored.get(goal_id) or Goal(
            agent_id=agent_id,
            id=goal_id,
            description="",
            status="active",
            priority="medium",
            created_at=newest + timedelta(microseconds=n + 1),  # so that they stay in order
        )
        new[goal_id] = _goal(f"goals.{n}", change, was)
    _check_count("goals", MAX_GOALS, {**stored, **new})
    return new


def changed_memories(
    stored: Mapping[str, Memory], changes: Sequence[MemoryChange], agent_id: str, now: datetime
) -> dict[str, Memory]:
    """Return new and changed memories, by key.

    Raises `InvalidRequest` with all invalid paths.
    """
    paths = [f"memories.{n}.key" for n in range(len(changes))]
    keys = [_key(path, change.key) for path, change in zip(paths, changes, strict=True)]
    _check_once("key", paths, keys)
    new: dict[str, Memory] = {}
    for n, (key, change) in enumerate(zip(keys, changes, strict=True)):
        text = _short(f"memories.{n}.value", change.value, MAX_TEXT)
        new[key] = Memory(agent_id=agent_id, key=key, value=text, updated_at=now)
    _check_count("memories", MAX_MEMORIES, {**stored, **new})
    return new


def changed_plans(
    stored: Mapping[str, Plan],
    changes: Sequence[PlanChange],
    agent_id: str,
    new_id: Callable[[int], str],
    now: datetime,
    thread_id: str | None = None,
    run_id: str | None = None,
) -> dict[str, Plan]:
    """Return new and changed plans, by id. `stored` are the stored plans, `new_id` returns the id of the nth change.

    They wake the thread `thread_id`, or the agent's home thread, with the deps of the run `run_id`.
    Raises `InvalidRequest` with all invalid paths.
    """
    by_name = {each.name: each.id for each in stored.values() if each.thread_id == thread_id}
    unidentified = [(n, each.name) for n, each in enumerate(changes) if each.id is None]
    named = [(n, name) for n, name in unidentified if isinstance(name, str)]
    _check_once("plan", [f"plans.{n}.name" for n, _ in named], [name for _, name in named])
    own = {n: by_name.get(name) or _plan_id(name, thread_id, stored) for n, name in named}
    ids = _ids("plan", [own.get(n, each.id) for n, each in enumerate(changes)], new_id)
    new: dict[str, Plan] = {}
    for n, (plan_id, change) in enumerate(zip(ids, changes, strict=True)):
        where, was = f"plans.{n}", stored.get(plan_id)
        schedule = _schedule(where, change, was, now)
        new[plan_id] = Plan(
            agent_id=agent_id,
            id=plan_id,
            name=_text(f"{where}.name", change.name, was and was.name, MAX_NAME),
            instruction=_text(f"{where}.instruction", change.instruction, was and was.instruction),
            next_run_at=schedule.next_run_at,
            cron=schedule.cron,
            timezone=schedule.timezone,
            thread_id=thread_id,
            run_id=run_id or (was and was.run_id),
            created_at=now if was is None else was.created_at,
        )
    _check_count("plans", MAX_PLANS, {**stored, **new})
    return new


def _plan_id(name: str, thread_id: str | None, stored: Mapping[str, Plan]) -> str | None:
    """Return the id of a new plan, or None if another plan has it.

    It depends on the name: of two processes that create the plan at the same time, one changes the other's.
    """
    plan_id = f"plan_{sha256(json.dumps([thread_id, name]).encode()).hexdigest()[:27]}"
    return None if plan_id in stored else plan_id


def by_next_run(plans: Iterable[Plan]) -> list[Plan]:
    """Return the plans, soonest first."""
    return sorted(plans, key=lambda plan: (plan.next_run_at, plan.id))


def _goal(where: str, change: GoalChange, was: Goal) -> Goal:
    return changed(
        was,
        description=_text(f"{where}.description", change.description, was.description or None),
        status=was.status if change.status is None else _short(f"{where}.status", change.status),
        priority=was.priority if change.priority is None else _short(f"{where}.priority", change.priority),
    )


def _schedule(where: str, change: PlanChange, was: Plan | None, now: datetime) -> Schedule:
    """Return the plan's new schedule, or its old one if not changed. The time zone of a cron can be changed alone."""
    if was is not None and not change.has_time and change.timezone is None:
        return Schedule(next_run_at=was.next_run_at, cron=was.cron, timezone=was.timezone)
    cron = change.cron if was is None or change.has_time else was.cron
    try:
        new = read_schedule(
            now,
            run_after=change.run_after,
            scheduled_at=change.scheduled_at,
            cron=cron,
            timezone=change.timezone,
        )
    except InvalidRequest as error:
        paths = [f"{where}.{each['path']}" for each in error.details] or [where]
        details = [{"path": path, "message": error.message.rstrip(".")} for path in paths]
        raise InvalidRequest(f"{where}: {error.message}", details) from error
    if was is not None and new.cron is not None and (new.cron, new.timezone) == (was.cron, was.timezone):
        return changed(new, next_run_at=was.next_run_at)  # it can be due already
    return new


def _ids(noun: str, requested: Sequence[str | None], new_id: Callable[[int], str]) -> list[str]:
    """Return the id of each change, with a new id for each change without one."""
    paths = [f"{noun}s.{n}.id" for n in range(len(requested))]
    ids = [new_id(n) if id_ is None else _id(paths[n], id_) for n, id_ in enumerate(requested)]
    _check_once(noun, paths, ids)
    return ids


def _id(where: str, requested: str) -> str:
    if not isinstance(requested, str) or _ID.fullmatch(requested) is None:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        error = f"must be up to {MAX_ID} letters, digits, '-' and '_'"
        raise InvalidRequest(
            f"An id must be at most {MAX_ID} letters, digits, '-' and '_', not {brief(repr(requested), 200)}. "
            "Leave it out to create a new one.",
            [{"path": where, "message": error}],
        )
    return requested


def _check_once(noun: str, paths: Sequence[str], names: Sequence[str]) -> None:
    """Raise `InvalidRequest` if the same item is changed twice in one request."""
    names_so_far = set[str]()
    for path, name in zip(paths, names, strict=True):
        if name in names_so_far:
            raise InvalidRequest(
                f"The {noun} {brief(repr(name), 200)} is given twice.",
                [{"path": path, "message": "is given twice"}],
            )
        names_so_far.add(name)


def _check_count(plural: str, most: int, items: Mapping[str, object]) -> None:
    """Raise `InvalidRequest` if there are more items than allowed."""
    if len(items) > most:
        error = f"makes {len(items)} {plural}; {most} are allowed"
        raise InvalidRequest(
            f"That {error}. Delete some first.",
            [{"path": plural, "message": error}],
        )


def _text(where: str, new: str | None, stored: str | None, most: int = MAX_TEXT) -> str:
    """Return the given text, or the stored one if none is given.

    Raises `InvalidRequest` if both are missing, or the text is blank or too long.
    """
    if new is None and stored is not None:
        return stored
    if new is None or not _short(where, new, most).strip():
        raise invalid_value(where, "is needed")
    return new


def _short(where: str, text: str, most: int = MAX_NAME) -> str:
    """Return the text, which can be empty. Raises `InvalidRequest` if it is too long."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise invalid_value(where, f"must be text, not {brief_value(text)}")
    if len(text) > most:
        raise invalid_value(where, f"has {quantity(len(text), 'character')}; {most} are allowed")
    return text


def _key(where: str, text: str) -> str:
    """Return a memory's key. Raises `InvalidRequest` if a journal could not store it."""
    key = _text(where, text, None, MAX_NAME)
    if unwritable(key):
        raise invalid_value(where, NOT_WRITABLE)
    return key
