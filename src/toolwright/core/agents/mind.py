"""State of an agent between its runs: goals, memories and plans, and their rules (S3 built-in tools)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from toolwright.core.agents.schedule import Schedule, read_schedule
from toolwright.core.checks import brief_value, invalid_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.plain import NOT_WRITABLE, unwritable
from toolwright.core.text import brief, quantity
from toolwright.core.value import Record, Stored, changed, value

MOST_GOALS, MOST_MEMORIES, MOST_PLANS = 100, 1_000, 100
"""Maximum numbers of goals, memories and plans of an agent."""
LONGEST_TEXT, LONGEST_NAME = 4_000, 200
"""Maximum numbers of characters of a description, value or instruction, and of a name, key, status or priority."""
LONGEST_ID = 64

_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_ID}}}")


@value
class Goal(Record):
    """A goal of an agent; `status` and `priority` are free text set by the agent."""

    STORED = Stored(
        key=("agent_id", "id"),
        owner="agent_id",
        order=("created_at", "id"),
        kept=("created_at",),
        texts=("id", "description", "status", "priority"),
    )

    agent_id: str
    id: str
    description: str
    status: str
    priority: str
    created_at: datetime


@value
class Memory(Record):
    """A memory of the agent: a value under a key."""

    STORED = Stored(key=("agent_id", "key"), owner="agent_id", order=("key",), texts=("key", "value"))

    agent_id: str
    key: str
    value: str
    updated_at: datetime


@value
class Plan(Record):
    """A scheduled instruction to the agent, due at `next_run_at`, repeatedly with `cron`.

    `timezone` is the IANA time zone of the fields of `cron`. A person's plan wakes the thread `thread_id`, in which it
    was set. The agent's own plan has no `thread_id` and wakes its home thread. A `relative` plan was set by `runAfter`:
    it is due after that duration, even if the clock is changed in the meantime.
    """

    STORED = Stored(
        key=("agent_id", "id"),
        owner="agent_id",
        order=("next_run_at", "id"),
        kept=("created_at",),
        texts=("id", "name", "instruction"),
    )

    agent_id: str
    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: str | None = None
    timezone: str | None = None
    thread_id: str | None = None
    relative: bool = False
    created_at: datetime

    @property
    def timer(self) -> str:
        """The name of the plan's timer."""
        return plan_timer(self.agent_id, self.id)


def plan_timer(agent_id: str, plan_id: str) -> str:
    """Return the name of the timer of that plan."""
    return f"plan:{agent_id}:{plan_id}"


@value
class GoalChange:
    """A new goal, or a change of the goal with that `id`.

    A new goal requires a description. In a change, None leaves a field unchanged.
    """

    id: str | None = None
    description: str | None = None
    status: str | None = None
    priority: str | None = None


@value
class MemoryChange:
    """A new memory, or a replacement of the memory with that key."""

    key: str
    value: str


@value
class PlanChange:
    """A new plan, or a change of the plan with that `id`. None leaves a field unchanged.

    A new plan requires name, instruction and one of `run_after` (milliseconds, or text such as "5 hours"),
    `scheduled_at` (ISO 8601) and `cron`.
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
    _check_count("goals", MOST_GOALS, {**stored, **new})
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
        text = _short(f"memories.{n}.value", change.value, LONGEST_TEXT)
        new[key] = Memory(agent_id=agent_id, key=key, value=text, updated_at=now)
    _check_count("memories", MOST_MEMORIES, {**stored, **new})
    return new


def changed_plans(
    stored: Mapping[str, Plan],
    changes: Sequence[PlanChange],
    agent_id: str,
    new_id: Callable[[int], str],
    now: datetime,
    thread_id: str | None = None,
) -> dict[str, Plan]:
    """Return new and changed plans, by id. `stored` are the stored plans, `new_id` returns the id of the nth change.

    They wake the thread `thread_id`, or the agent's home thread.
    Raises `InvalidRequest` with all invalid paths.
    """
    ids = _ids("plan", [each.id for each in changes], new_id)
    new: dict[str, Plan] = {}
    for n, (plan_id, change) in enumerate(zip(ids, changes, strict=True)):
        where, was = f"plans.{n}", stored.get(plan_id)
        schedule = _schedule(where, change, was, now)
        new[plan_id] = Plan(
            agent_id=agent_id,
            id=plan_id,
            name=_text(f"{where}.name", change.name, was and was.name, LONGEST_NAME),
            instruction=_text(f"{where}.instruction", change.instruction, was and was.instruction),
            next_run_at=schedule.next_run_at,
            cron=schedule.cron,
            timezone=schedule.timezone,
            thread_id=thread_id,
            relative=schedule.relative,
            created_at=now if was is None else was.created_at,
        )
    _check_count("plans", MOST_PLANS, {**stored, **new})
    return new


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
        return Schedule(
            next_run_at=was.next_run_at, cron=was.cron, timezone=was.timezone, relative=was.relative
        )
    cron = change.cron if was is None or change.has_time else was.cron
    try:
        return read_schedule(
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


def _ids(noun: str, requested: Sequence[str | None], new_id: Callable[[int], str]) -> list[str]:
    """Return the id of each change, with a new id for each change without one."""
    paths = [f"{noun}s.{n}.id" for n in range(len(requested))]
    ids = [new_id(n) if id_ is None else _id(paths[n], id_) for n, id_ in enumerate(requested)]
    _check_once(noun, paths, ids)
    return ids


def _id(where: str, requested: str) -> str:
    if not isinstance(requested, str) or _ID.fullmatch(requested) is None:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        error = f"must be up to {LONGEST_ID} letters, digits, '-' and '_'"
        raise InvalidRequest(
            f"An id must be at most {LONGEST_ID} letters, digits, '-' and '_', not {brief(repr(requested), 200)}. "
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


def _text(where: str, new: str | None, stored: str | None, most: int = LONGEST_TEXT) -> str:
    """Return the given text, or the stored one if none is given.

    Raises `InvalidRequest` if both are missing, or the text is blank or too long.
    """
    if new is None and stored is not None:
        return stored
    if new is None or not _short(where, new, most).strip():
        raise invalid_value(where, "is needed")
    return new


def _short(where: str, text: str, most: int = LONGEST_NAME) -> str:
    """Return the text, which can be empty. Raises `InvalidRequest` if it is too long."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise invalid_value(where, f"must be text, not {brief_value(text)}")
    if len(text) > most:
        raise invalid_value(where, f"has {quantity(len(text), 'character')}; {most} are allowed")
    return text


def _key(where: str, text: str) -> str:
    """Return a memory's key. Raises `InvalidRequest` if a journal could not store it."""
    key = _text(where, text, None, LONGEST_NAME)
    if unwritable(key):
        raise invalid_value(where, NOT_WRITABLE)
    return key
