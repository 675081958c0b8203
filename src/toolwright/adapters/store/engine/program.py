"""Operations of programs: statements to run, singly, several at once, or as a whole.

Three things a driver may do to spare round trips. A program may yield several ops at once, on different rows, and
is sent one row of each: they may be run as one statement. What returns nothing may be run any time before COMMIT,
and before a later statement that names its table. Rows of the logs (`statement.LOGS`) may even wait for other
units. And a program that has nothing to decide yields a `StatementBatch`, which may be run with its COMMIT as one
statement; an `Attempt` is one that has another way. Its author obeys:

- every check is a guard: nothing that the program does with the rows afterwards may refuse the unit;
- no row is written twice, except by an op marked `again`, which keeps the whole from being one statement;
- what returns something comes first, in the order of locks, then what returns nothing;
- an op reads what another wrote only by `given`, from what that one returned;
- a guard that needs a row to be absent compares something `given` with what it sees itself, so that it fails
  where it sees an older state than the op that holds the lock (`all_read`).
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from toolwright.adapters.store.engine.codecs import Params, Row, Values
from toolwright.adapters.store.engine.outcome import UnitResult
from toolwright.adapters.store.engine.statement import Statement
from toolwright.core.journal.units import Guard
from toolwright.core.limits import PageLimit
from toolwright.core.value import value

T = TypeVar("T")
Y = TypeVar("Y")


class Op(NamedTuple):  # a step makes a dozen of them, and a tuple is the cheapest of values
    """One statement to run. With a `guard` it must give exactly one row; `more` are further executions.

    `given` are parameters that come from an earlier op of the same whole: its number there, and the column of
    what it returned. `again` says that an earlier op has written the same row, or that this one must see what was
    committed while the first waited for its lock: it needs a snapshot of its own.
    """

    statement: Statement
    params: Params | Values
    guard: Guard | None = None
    more: Sequence[Params | Values] | None = None
    given: Mapping[str, tuple[int, int]] | None = None
    again: bool = False


@value
class StatementBatch:
    """All ops of a program at once. It receives the first row of each, or an empty one."""

    ops: Sequence[Op]


@value
class Attempt(StatementBatch):
    """All ops of a program that goes another way if a guard fails: sent nothing, unless it runs as one statement."""


Ops: TypeAlias = Op | Sequence[Op] | StatementBatch
Program: TypeAlias = Generator[Ops, list[Row], UnitResult]
Reading: TypeAlias = Generator[Op, list[Row], T]


def is_page(op: Op) -> bool:
    """Return whether the op reads a page, which ends early when its rows are large."""
    return isinstance(op.params, dict) and isinstance(op.params.get("limit"), PageLimit)


def behind(first: Op, ops: Sequence[Op]) -> list[Op]:
    """Return the ops shifted to follow another one, so that references to results still match."""
    moved = [
        {name: (number + 1, column) for name, (number, column) in (op.given or {}).items()} for op in ops
    ]
    return [first, *[op._replace(given=given) if given else op for op, given in zip(ops, moved, strict=True)]]


def drive(steps: Generator[Y, list[Row], T], run: Callable[[Y], list[Row]]) -> T:
    """Run the ops of a program or a reading by `run`, and return its result."""
    rows: list[Row] | None = None
    while True:
        try:
            ops = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            return stop.value
        rows = run(ops)


async def drive_async(steps: Generator[Y, list[Row], T], run: Callable[[Y], Awaitable[list[Row]]]) -> T:
    """Run the ops of a program or a reading by the async `run`, and return its result."""
    rows: list[Row] | None = None
    while True:
        try:
            ops = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            return stop.value
        rows = await run(ops)


def filled(op: Op, rows: Sequence[Row]) -> Op:
    """Return the op with the parameters that come from earlier results."""
    if op.given is None:
        return op
    given: Params = {name: rows[number][column] for name, (number, column) in op.given.items()}
    first, *more = op.statement.bind_with((op.params, *(op.more or ())), given)
    return Op(op.statement, first, op.guard, more, None, op.again)
