"""Services of the runtime: checks of parameters before they reach a store, and commits of effects outside runs."""

import logging
from collections.abc import Sequence
from inspect import isawaitable

from toolwright.core.checks import Kinds, brief_value, invalid_value
from toolwright.core.concurrency import Callers
from toolwright.core.errors import NotFound, StoreError
from toolwright.core.journal.effects import Effect, traced
from toolwright.core.journal.retention import SweepThreads
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.journal.units import Apply, Committed, Conflict
from toolwright.core.json_value import NOT_WRITABLE, unwritable
from toolwright.core.ports import Bus, Clock, Motor, NewId
from toolwright.core.text import brief
from toolwright.core.threads.decision import Decider
from toolwright.core.value import Value, field

MAX_DECIDER = 200  # characters of the id that an app gives for who decides
_MAX_INTEGER = 2**63 - 1  # the largest number that every store can hold
log = logging.getLogger("toolwright.runtime")


def by_id(what: str, value: str) -> str:
    """Return the id. Raises `NotFound` for an impossible id, `InvalidRequest` for an object that has an id."""
    if type(value) is not str:
        refuse_object(what, value)
    if not can_be_id(value):
        raise NotFound(f"There is no {what} {brief(repr(value), 200)}.")
    return value


def refuse_object(what: str, value: object) -> None:
    """Raise `InvalidRequest` for an object, such as a thread or a run, in place of its id."""
    if isawaitable(value):
        raise invalid_value(f"{what}_id", f"must be an id, not {brief_value(value)}")
    name = next((name for name in (f"{what}_id", "id") if isinstance(getattr(value, name, None), str)), None)
    if name is not None:
        raise invalid_value(f"{what}_id", f"must be an id, not a {type(value).__name__}: pass its .{name}")


def can_be_id(value: object) -> bool:
    """Return whether the value is an id that every store can hold."""
    return isinstance(value, str) and not unwritable(value)


def by_kind(name: str, value: object, kinds: Kinds, expected: str) -> None:
    """Raise `InvalidRequest` unless the value is of one of these types."""
    if not isinstance(value, kinds):
        raise invalid_value(name, f"must be {expected}, not {brief_value(value)}")


def by_text(name: str, value: str | None) -> str | None:
    """Return the text of a filter. Raises `InvalidRequest` unless it is text that every store can hold."""
    if value is not None and (not isinstance(value, str) or unwritable(value)):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        refuse_object(name.removesuffix("_id"), value)
        raise invalid_value(name, NOT_WRITABLE)
    return value


def read_decider(by: Decider | str | None) -> Decider:
    """Return who decides. A text is what an app says. Raises `InvalidRequest` if it cannot be stored."""
    if isinstance(by, Decider):
        return by
    by_text("by", by)
    if by is not None and (not by.strip() or len(by) > MAX_DECIDER):
        raise invalid_value("by", f"must be an id of 1 to {MAX_DECIDER} characters")
    return Decider(kind="app", door="app", id=by)


def by_choice(name: str, value: str | Sequence[str] | None, choices: Sequence[str]) -> None:
    """Raise `InvalidRequest` unless the value, or each value of a list, is one of the choices."""
    for each in (value,) if value is None or isinstance(value, str) else value:
        if each is not None and each not in choices:
            *first, last = map(repr, choices)
            raise invalid_value(name, f"must be {', '.join(first)} or {last}, not {brief_value(each)}")


def page(limit: int, offset: int = 0) -> None:
    """Raise `InvalidRequest` unless these are non-negative integers that every store can hold."""
    for name, number in (("limit", limit), ("offset", offset)):
        whole_number(name, number)


def whole_number(name: str, number: int) -> None:
    """Raise `InvalidRequest` unless the value is a non-negative integer that every store can hold."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MAX_INTEGER:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise invalid_value(name, "must be a non-negative integer")


class Services(Value, gc=True):
    """The services that most classes of the runtime share: the journal, the motor that executes runs, clock and ids.

    `callers` has the callers in this process that wait for their run.
    """

    store: Store
    motor: Motor
    bus: Bus
    clock: Clock
    new_id: NewId
    telemetry: Telemetry | None = None
    callers: Callers = field(default_factory=Callers)


class EffectCommits:
    """Commits effects from outside any run, and wakes the threads that they address."""

    def __init__(self, services: Services) -> None:
        self._telemetry = services.telemetry
        self._store = services.store
        self._motor = services.motor
        self._clock = services.clock
        self._new_id = services.new_id

    async def commit(self, *effects: Effect) -> Committed | Conflict:
        """Commit all of the effects or none."""
        if self._telemetry is not None:
            effects = tuple(traced(effects, self._telemetry.current()))
        unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=effects)
        answer = await self._store.commit(unit)
        if isinstance(answer, Committed):
            for thread_id, _ in answer.runs:
                self._motor.wake(thread_id)
        return answer


async def sweep_rows(store: Store, clock: Clock, new_id: NewId) -> int:
    """Delete the remaining rows of deleted threads, spaces and agents, in batches. Return their number."""
    total = 0
    while await store.retention.has_rows_left():
        answer = await store.commit(SweepThreads(token=new_id("unit"), at=clock.now()))
        if not isinstance(answer, Committed) or not answer.count:
            break
        total += answer.count
    return total


async def sweep_after(deleted: str, store: Store, clock: Clock, new_id: NewId) -> None:
    """Delete the remaining rows of a deleted object. If that fails, housekeeping deletes them."""
    try:
        await sweep_rows(store, clock, new_id)
    except StoreError as error:
        log.warning("%s is deleted, but some of its rows are not: %s", deleted, error)
