"""What many programs are made of: the ops for files, values, events and wakes."""

from collections.abc import Mapping, Sequence

from toolwright.adapters.store.engine.codecs import Params, micros
from toolwright.adapters.store.engine.program import Op
from toolwright.adapters.store.engine.statement import Statement
from toolwright.adapters.store.statements.threads import Statements
from toolwright.adapters.store.tables.events import EVENTS
from toolwright.adapters.store.tables.kept import ENV, FILES
from toolwright.core.env.env import EnvChange
from toolwright.core.files.file import FileChange
from toolwright.core.journal.units import Leaving, Unit
from toolwright.core.threads.event import Event


def leaving(thread_id: str, leaving: Leaving, sql: Statements) -> Op:
    """How a drain leaves its thread, if the wake is the one that it saw."""
    seen: Params = {"thread_id": thread_id, "gen": leaving.gen}
    if leaving.due is None:
        return Op(sql.drop_wake, seen)
    return Op(sql.delay_wake, {**seen, "due": micros(leaving.due)})


def wake(unit: Unit, thread_id: str, sql: Statements) -> Op:
    """Word that the thread has work to do."""
    at = micros(unit.at)
    return Op(sql.wake, {"thread_id": thread_id, "due": at, "gen": at})


def new_files(changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Files that must be the first at their paths."""
    new = [change.file for change in changes if change.new and change.file is not None]
    return [Op(sql.insert_file, FILES.params(file), "file") for file in new]


def write_files(thread_id: str, changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Files that are written over what is there, or taken away."""
    ops: list[Op] = []
    for change in changes:
        if change.file is None:
            ops.append(Op(sql.drop_file, {"thread_id": thread_id, "folded": change.folded}, again=True))
        elif not change.new:
            ops.append(Op(sql.put_file, FILES.params(change.file)))
    return ops


def write_env(changes: Sequence[EnvChange], sql: Statements) -> list[Op]:
    """Values set, or taken away."""
    ops: list[Op] = []
    for change in changes:
        if change.row is None:
            key: Params = {"owner": change.owner, "kind": change.kind, "name": change.name}
            ops.append(Op(sql.drop_env, key, again=True))
        else:
            ops.append(Op(sql.put_env, ENV.params(change.row)))
    return ops


def insert_events(events: tuple[Event, ...], sql: Statements) -> list[Op]:
    """Events whose numbers are known."""
    return insert(sql.insert_event, [EVENTS.params(event, base=0) for event in events])


def insert(
    statement: Statement, params: list[Params], given: Mapping[str, tuple[int, int]] | None = None
) -> list[Op]:
    """One statement for all of these rows; nothing for none."""
    return [Op(statement, params[0], more=params[1:], given=given)] if params else []
