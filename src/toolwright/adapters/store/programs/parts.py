"""Parts shared by programs: locks, and the ops for files, values, events and wake-ups."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Params, Row, Values, micros
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.engine.statement import Statement
from toolwright.adapters.store.sql.events import EVENTS
from toolwright.adapters.store.sql.kept import ENV, FILES
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.env.env import EnvChange
from toolwright.core.files.file import FileChange
from toolwright.core.journal.child_effects import (
    CancelChildren,
    ChildEffect,
    Close,
    Notify,
    Report,
    Spawn,
    Stop,
    Terminate,
)
from toolwright.core.journal.effects import Effect, deliveries_of
from toolwright.core.journal.mcp_effects import AddNestedCall
from toolwright.core.journal.units import Leaving, Unit
from toolwright.core.threads.event import Event

Steps: TypeAlias = Generator[Ops, list[Row], None]
TOGETHER = 50  # threads locked by one statement


def lock(effects: Sequence[Effect], own_thread: str, sql: Statements) -> Steps:
    """Lock all threads that a unit writes, unless it writes only its own."""
    thread_ids = {own_thread, *spoken_to(effects)}
    for effect in effects:
        if not isinstance(effect, ChildEffect):
            continue
        thread_ids |= _written(effect)
        if isinstance(effect, CancelChildren | Close | Stop | Terminate):
            below = yield Op(sql.children.below, {"thread_id": effect.thread_id})
            thread_ids |= {str(thread_id) for (thread_id,) in below}
    if len(thread_ids) > 1:
        yield from lock_threads(thread_ids, sql)


def spoken_to(effects: Sequence[Effect]) -> set[str]:
    """Return the threads that receive deliveries, and the threads in which nested calls are created."""
    asking = [each.call.thread_id for each in effects if isinstance(each, AddNestedCall)]
    return {*asking, *[each.thread.id for each in deliveries_of(effects)]}


def lock_threads(thread_ids: Iterable[str], sql: Statements) -> Steps:
    """Lock these threads in the order of their ids, which prevents deadlocks between units."""
    ids = sorted(thread_ids)
    for first in range(0, len(ids), TOGETHER):
        some = ids[first : first + TOGETHER]
        yield Op(sql.spaces.lock_threads(len(some)), {f"id_{i}": one for i, one in enumerate(some)})


def _written(effect: ChildEffect) -> set[str]:
    """Return the existing threads that the effect names."""
    match effect:
        case Spawn(thread=thread):
            return set() if thread.parent_id is None else {thread.parent_id}
        case Report(parent=parent):
            return {effect.thread_id, parent.id}
        case Notify(notice=notice):
            return {effect.thread_id, notice.thread.id}
        case _:
            return {effect.thread_id}


def leaving(thread_id: str, leaving: Leaving, sql: Statements) -> Op:
    """Return the op with which a worker releases its thread, if the wake-up is unchanged since it was read."""
    params: Params = {"thread_id": thread_id, "gen": leaving.gen}
    if leaving.due is None:
        return Op(sql.drop_wake, params)
    return Op(sql.delay_wake, {**params, "due": micros(leaving.due)})


def wake(unit: Unit, thread_id: str, sql: Statements) -> Op:
    """Schedule the thread."""
    at = micros(unit.at)
    return Op(sql.wake, {"thread_id": thread_id, "due": at, "gen": at})


def new_files(changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Return the ops that insert files at unused paths."""
    new = [change.file for change in changes if change.new and change.file is not None]
    return [Op(sql.insert_file, FILES.params(file), "file") for file in new]


def write_files(thread_id: str, changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Return ops that write or delete files."""
    ops: list[Op] = []
    for change in changes:
        if change.file is None:
            ops.append(Op(sql.drop_file, {"thread_id": thread_id, "folded": change.folded}, again=True))
        elif not change.new:
            ops.append(Op(sql.put_file, FILES.params(change.file)))
    return ops


def write_env(changes: Sequence[EnvChange], sql: Statements) -> list[Op]:
    """Return ops that set or delete values."""
    ops: list[Op] = []
    for change in changes:
        if change.row is None:
            key: Params = {"owner": change.owner, "kind": change.kind, "name": change.name}
            ops.append(Op(sql.drop_env, key, again=True))
        else:
            ops.append(Op(sql.put_env, ENV.params(change.row)))
    return ops


def insert_events(events: Sequence[Event], sql: Statements) -> list[Op]:
    """Return the op that inserts events with known numbers, or no op if there are no events."""
    if not events:
        return []
    row = EVENTS.values(sql.insert_event, "base")
    return [insert(sql.insert_event, [row(event, 0) for event in events])]


def insert(
    statement: Statement,
    params: Sequence[Params | Values],
    given: Mapping[str, tuple[int, int]] | None = None,
) -> Op:
    """Return one op that inserts all of these rows. There must be at least one."""
    return Op(statement, params[0], None, params[1:], given)
