"""Rules as programs: row operations become statements, and their rows become objects; what only a database needs.

A program is a generator: it yields an `Op`, receives the rows, and returns the result of the unit. It does not depend
on whether its driver is SQLite's writer thread or a Postgres connection. `engine/program.py` defines what a program
may yield.
"""

from collections.abc import Generator, Sequence
from hashlib import shake_256
from typing import Any, TypeVar

from toolwright.adapters.store.engine.codecs import Params, Row, micros
from toolwright.adapters.store.engine.outcome import UnitResult
from toolwright.adapters.store.engine.program import Op, Ops, Program, StatementBatch
from toolwright.adapters.store.rules.units import rule_of
from toolwright.adapters.store.sql.memory import PASSAGES, PASSAGES_EACH, coded
from toolwright.adapters.store.sql.messages import CALLS, MESSAGES
from toolwright.adapters.store.sql.rows import Described, read
from toolwright.adapters.store.sql.spaces import SPACE_EVENTS
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import EVENTS
from toolwright.core.agents.memory import folded_passage
from toolwright.core.journal import units
from toolwright.core.journal.agent_effects import AGENT
from toolwright.core.journal.retention import DroppedBytes, Prune, SweepThreads
from toolwright.core.journal.rows import (
    Append,
    Archive,
    Batch,
    Descendants,
    LateCalls,
    Lock,
    Operation,
    Publish,
    Put,
    Rule,
    Sweep,
    Swept,
    Tell,
)
from toolwright.core.journal.space_effects import SPACE
from toolwright.core.threads.event import Event
from toolwright.core.value import changed

T = TypeVar("T")
PROBES = ("probe a", "probe b")  # tokens of the rows that probes write, alternating
ROOM = 32 * 1024  # characters that a probe writes: about the size of a message with its run and events


def other_program(unit: units.Unit, sql: Statements) -> Program:
    """Return a unit, except an `Advance`, as a program."""
    match unit:
        case Prune():
            return _prune(unit, sql)
        case units.Probe():
            return _probe(unit, sql)
        case SweepThreads():
            return _sweep_threads(unit, sql)
        case _:
            return translated(rule_of(unit), sql)


def translated(rule: Rule[T], sql: Statements) -> Generator[Ops, list[Row], T]:
    """Execute a rule with the statements of a dialect, and return its result."""
    try:
        operations = next(rule)
        while True:
            if isinstance(operations, Described):
                rows = yield sql.rows.op(operations)
                operations = rule.send([*read(operations, rows)])
            elif isinstance(operations, Operation):
                operations = rule.send((yield from _special(operations, sql)))
            elif isinstance(operations, Batch):
                every = operations.operations
                rows = yield StatementBatch(ops=[as_op(each, sql) for each in every])
                operations = rule.send(_firsts(every, rows))
            else:
                rows = yield [as_op(each, sql) for each in operations]
                operations = rule.send(_firsts(operations, rows))
    except StopIteration as stop:
        return stop.value


def as_op(operation: Operation, sql: Statements) -> Op:
    """Return an operation of one statement."""
    match operation:
        case Tell(events=events):
            row = EVENTS.values(sql.insert_event, "base")
            values = [row(event, 0) for event in events]
            return Op(sql.insert_event, values[0], None, values[1:])
        case Append(thread_id=thread_id, first=first, messages=messages):
            row = MESSAGES.values(sql.insert_message, "thread_id", "seq")
            values = [row(message, thread_id, seq) for seq, message in enumerate(messages, first)]
            return Op(sql.insert_message, values[0], None, values[1:])
        case Sweep(note=note, at=at):
            return Op(sql.retention.note, {"thread_id": note, "at": micros(at)})
        case _ if isinstance(operation, Described):
            return sql.rows.op(operation)
        case _:
            raise TypeError(f"{type(operation).__name__} takes several statements.")


def _firsts(operations: Sequence[Operation], rows: Sequence[Row]) -> list[Any]:  # rows of any class
    """Return one row for each operation, or None."""
    firsts: list[Any] = []  # as above
    for operation, row in zip(operations, rows, strict=True):
        found = read(operation, [row]) if row and isinstance(operation, Described) else ()
        firsts.append(next(iter(found), None))
    return firsts


def _special(operation: Operation, sql: Statements) -> Generator[Ops, list[Row], list[Any]]:  # as above
    match operation:
        case Archive():
            yield from _archive(operation, sql)
        case Lock(name=name):
            if sql.agents.locks_minds:
                yield Op(sql.agents.lock_mind, {"agent_id": name})
        case Sweep(note=note, now=True):
            yield [Op(each, {"agent_id": note.removeprefix(AGENT)}) for each in sql.memory.drop_passages]
        case Swept(note=note):
            return (yield Op(sql.retention.find_note, {"thread_id": note}))
        case Descendants(thread_id=thread_id):
            return [str(each) for (each,) in (yield Op(sql.children.below, {"thread_id": thread_id}))]
        case LateCalls(agent_id=None, thread_id=thread_id, family=family):
            found = sql.children.pending_in_family if family else sql.children.pending_in
            return CALLS.readable((yield Op(found, {"thread_id": thread_id})))
        case LateCalls(agent_id=agent_id):
            return CALLS.readable((yield Op(sql.agents.pending_calls, {"agent_id": agent_id})))
        case Publish(events=events, token=token):
            return (yield from _publish(events, token, sql))
        case _:
            yield as_op(operation, sql)
    return []


def _publish(events: Sequence[Event], token: str, sql: Statements) -> Generator[Ops, list[Row], list[Event]]:
    """Insert events of spaces. With `numbers_later` the driver numbers them later."""
    if sql.spaces.numbers_later:
        params = [SPACE_EVENTS.params(event, unit=token, i=i) for i, event in enumerate(events)]
        yield Op(sql.spaces.insert_unnumbered, params[0], more=params[1:])
        return [*events]
    [(last,)] = yield Op(sql.spaces.count_events, {"more": len(events)})
    first = last - len(events) + 1
    numbered = [changed(event, n=n) for n, event in enumerate(events, first)]
    params = [SPACE_EVENTS.params(event) for event in numbered]
    yield Op(sql.spaces.insert_event, params[0], more=params[1:])
    return numbered


def _archive(operation: Archive, sql: Statements) -> Generator[Ops, list[Row], None]:
    passage, vector = operation.passage, operation.vector
    [(keeper, stored)] = yield Op(sql.memory.count_passage, {"agent_id": passage.agent_id, "one": 1})
    place, folded = int(keeper) * PASSAGES_EACH + int(stored), folded_passage(passage)
    described: Params = {"embedder": None, "floats": None}
    if vector is not None:
        described = {"embedder": vector.embedder, "floats": vector.floats}
    row = PASSAGES.params(passage, place=place, folded=folded, **described)
    yield Op(sql.memory.insert_passage, row, "duplicate")
    if sql.memory.is_indexed_apart:
        yield Op(sql.memory.index_passage, {"place": place, "coded": coded(folded, passage.agent_id)})


def _sweep_threads(unit: SweepThreads, sql: Statements) -> Program:
    """Delete remaining rows, starting with the oldest deletion. Deletes its note after the last row."""
    rows = yield Op(sql.retention.next_dropped, {})
    if not rows:
        return UnitResult(units.Committed())
    note, remaining = str(rows[0][0]), unit.limit
    id = note.removeprefix(SPACE).removeprefix(AGENT)
    if note.startswith(SPACE):
        sweeps, forget = sql.retention.sweeps_of_space, sql.retention.forget_space
    elif id != note:
        sweeps, forget = sql.retention.sweeps_of_agent, sql.retention.forget_agent
    else:
        sweeps, forget = sql.retention.sweeps, sql.retention.forget_thread
        digests = yield Op(sql.retention.sweep_bytes, {"thread_id": id, "limit": remaining})
        yield [sql.rows.op(Put(record=DroppedBytes(digest=digest, at=unit.at))) for (digest,) in digests]
        remaining -= len(digests)
    for sweep in sweeps:
        if not remaining:
            break
        swept = yield Op(sweep, {"thread_id": id, "limit": remaining})
        remaining -= len(swept)
    if remaining:
        yield Op(forget, {"thread_id": id, "note": note})
    return UnitResult(units.Committed(count=max(unit.limit - remaining, 1)))


def _prune(unit: Prune, sql: Statements) -> Program:
    remaining = unit.limit
    yield []  # a program must yield at least once
    for prune, before in (
        (sql.prune_events, unit.before),
        (sql.prune_space_events, unit.before),
        (sql.prune_commits, unit.tokens_before),
    ):
        if before is not None and remaining:
            remaining -= len((yield Op(prune, {"before": micros(before), "limit": remaining})))
    return UnitResult(units.Committed(count=unit.limit - remaining))


def _probe(unit: units.Probe, sql: Statements) -> Program:
    """Insert a new row, then delete the row of the last probe. Replacing that row would succeed even on a full disk.

    The text is incompressible.
    """
    first, second = PROBES
    rows = yield Op(sql.probes, {"first": first, "second": second})
    new, old = (second, first) if [row[0] for row in rows] == [first] else (first, second)
    text = shake_256(unit.token.encode()).hexdigest(ROOM // 2)
    yield Op(sql.probe, {"token": new, "answer": text, "at": micros(unit.at)})
    yield Op(sql.drop_commit, {"token": old})
    return UnitResult(units.Committed())
