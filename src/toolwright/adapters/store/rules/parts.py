"""Parts shared by rules: locks, deliveries, and operations for files, values and events."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from toolwright.adapters.store.engine.outcome import EffectResult, numbered
from toolwright.core.env.env import Asked, EnvChange, EnvRow
from toolwright.core.files import File, FileChange
from toolwright.core.journal import child_effects
from toolwright.core.journal.agent_effects import wake
from toolwright.core.journal.effects import AddNestedCall, Effect, deliveries_of
from toolwright.core.journal.rows import (
    Add,
    Clear,
    Delete,
    Descendants,
    Find,
    Guard,
    GuardFailed,
    If,
    More,
    Move,
    NoneOf,
    Not,
    Once,
    OneOf,
    Operation,
    Put,
    Rule,
    Tell,
)
from toolwright.core.journal.units import Leaving, Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.child import ENDED
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread, Wake
from toolwright.core.value import changed

T = TypeVar("T")
TOGETHER = 50  # rows found by one statement
LIVING = NoneOf(values=ENDED)
"""Condition of the states of threads that accept messages."""
_STOPPING = (
    child_effects.CancelChildren,
    child_effects.Close,
    child_effects.Stop,
    child_effects.Terminate,
)


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """Return the values in groups for which there are statements."""
    every = list(values)
    for first in range(0, len(every), TOGETHER):
        yield every[first : first + TOGETHER]


def lock(effects: Sequence[Effect], own_thread: str) -> Rule[None]:
    """Lock all threads that a unit writes, unless it writes only its own."""
    thread_ids = {own_thread, *spoken_to(effects)}
    for effect in effects:
        if not isinstance(effect, child_effects.ChildEffect):
            continue
        thread_ids |= _written(effect)
        if isinstance(effect, _STOPPING):
            thread_ids |= {*(yield Descendants(thread_id=effect.thread_id))}
    if len(thread_ids) > 1:
        yield from lock_threads(thread_ids)


def spoken_to(effects: Sequence[Effect]) -> set[str]:
    """Return the threads that receive deliveries, and the threads in which nested calls are created."""
    asking = [each.call.thread_id for each in effects if isinstance(each, AddNestedCall)]
    return {*asking, *[each.thread.id for each in deliveries_of(effects)]}


def lock_threads(thread_ids: Iterable[str]) -> Rule[None]:
    """Lock these threads in the order of their ids, which prevents deadlocks between units."""
    for ids in chunks(sorted(thread_ids)):
        where = {"id": OneOf(values=ids)}
        yield Find(kind=Thread, where=where, columns=("id",), order=("id",), lock="update")


def _written(effect: child_effects.ChildEffect) -> set[str]:
    """Return the existing threads that the effect names."""
    match effect:
        case child_effects.Spawn(thread=thread):
            return set() if thread.parent_id is None else {thread.parent_id}
        case child_effects.Report(parent=parent):
            return {effect.thread_id, parent.id}
        case child_effects.Notify(notice=notice):
            return {effect.thread_id, notice.thread.id}
        case _:
            return {effect.thread_id}


def leave(thread_id: str, leaving: Leaving) -> Operation:
    """Return the operation that releases a thread, if the wake-up is unchanged since the worker has read it."""
    where = {"thread_id": thread_id, "gen": leaving.gen}
    if leaving.due is None:
        return Clear(kind=Wake, where=where, returns=("gen",))
    return Move(kind=Wake, where=where, fields={"due": leaving.due}, returns=("gen",))


def new_files(changes: Sequence[FileChange]) -> list[Operation]:
    """Return the operations that insert files at unused paths."""
    new = [change.file for change in changes if change.new and change.file is not None]
    return [Add(record=file, guard="file") for file in new]


def write_files(thread_id: str, changes: Sequence[FileChange]) -> list[Operation]:
    """Return operations that write or delete existing files."""
    operations: list[Operation] = []
    for change in changes:
        if change.file is None:
            operations.append(Delete(kind=File, key=(thread_id, change.folded)))
        elif not change.new:
            operations.append(Put(record=change.file))
    return operations


def write_env(changes: Sequence[EnvChange]) -> list[Operation]:
    """Return operations that set or delete values."""
    return [
        Delete(kind=EnvRow, key=(change.owner, change.kind, change.name))
        if change.row is None
        else Put(record=change.row)
        for change in changes
    ]


def wake_askers(env: Iterable[EnvChange], unit: Unit) -> Rule[None]:
    """Wake the threads that wait for one of these variables."""
    names = sorted({change.name for change in env if change.kind == "env"})
    for some in chunks(names):
        rows = yield Find(kind=Asked, where={"name": OneOf(values=some)}, columns=("thread_id",))
        yield [wake(thread_id, unit.at) for thread_id in sorted({row.thread_id for row in rows})]


def touch(thread_id: str, events: int = 1) -> Move:
    """Return the operation that reserves the numbers of events, and returns the last one and the thread's agent."""
    fields, returns = {"ev": More(by=events)}, ("ev", "agent")
    return Move(kind=Thread, where={"id": thread_id}, fields=fields, returns=returns, guard="thread")


def count_posted(thread_id: str) -> Move:
    """Return the operation that reserves the next position in the inbox, and returns it."""
    fields, returns = {"posted": More(by=1)}, ("posted",)
    return Move(kind=Thread, where={"id": thread_id}, fields=fields, returns=returns, guard="thread")


def refused(thread_id: str, otherwise: Guard) -> Rule[None]:
    """Raise the failed precondition of an operation that sends to a thread."""
    [row] = yield Find(kind=Thread, where={"id": thread_id}, columns=("state",), guard="thread")
    raise GuardFailed("terminated" if row.state in ENDED else otherwise)


def check_deps(run_id: str, deps: JSONObject, otherwise: Guard = "deps") -> Rule[None]:
    """Raise the failed precondition of a message for a run that has other deps."""
    [run] = yield Find(kind=Run, where={"id": run_id}, columns=("deps",), guard="run")
    if run.deps != deps:
        raise GuardFailed(otherwise)


def deliver(delivery: Delivery, unit: Unit, done: EffectResult) -> Rule[str | None]:
    """Insert the event for the queued run, or for a new run if none is queued, and wake the thread.

    Returns the id of that run. Returns None and inserts nothing if the thread is terminated or deleted.
    """
    thread, run = delivery.thread, delivery.run
    if not delivery.existing:
        yield Add(record=thread, guard=None)
    at_work = {"run_id": Not(value=None), "begun": True}
    is_allocated = ({"run_id": None}, {"begun": True, "next_run_id": None})
    rows = yield Move(
        kind=Thread,
        where={"id": thread.id, "state": LIVING},
        fields={
            "posted": More(by=1),
            "ev": If(when=is_allocated, then=More(by=1)),
            "run_id": Once(value=run.id),
            "next_run_id": If(when=at_work, then=Once(value=run.id)),
        },
        returns=("begun", "run_id", "next_run_id", "posted", "ev"),
    )
    if not rows and delivery.required:
        raise GuardFailed("terminated")
    if not rows:
        return None
    [row] = rows
    run_id = str(row.next_run_id if row.begun else row.run_id)
    event = Add(record=changed(delivery.event, promised=run_id, n=row.posted))
    if run_id == run.id:
        yield [event, Add(record=run)]
        yield tell((delivery.queued,), row.ev, thread.id, run_id, thread.agent, unit, done)
    else:
        yield event
    yield wake(thread.id, unit.at)
    done.runs.append((thread.id, run_id))
    return run_id


def tell(
    drafts: tuple[EventDraft, ...],
    last: int,
    thread_id: str,
    run_id: str | None,
    agent: str,
    unit: Unit,
    done: EffectResult,
) -> Tell:
    """Return the operation that inserts numbered events; the last one gets the number `last`."""
    events = numbered(drafts, last, unit, thread_id, run_id, agent)
    done.events += events
    return Tell(events=events)


def notify(
    thread_id: str, drafts: tuple[EventDraft, ...], run_id: str | None, unit: Unit, done: EffectResult
) -> Rule[None]:
    """Send events to the subscribers of a thread."""
    if drafts:
        [row] = yield touch(thread_id, len(drafts))
        yield tell(drafts, row.ev, thread_id, run_id, row.agent, unit, done)
