"""Operations of programs: statements to run one at a time, several at once, or as a single batch.

A driver may save round trips in three ways. A program may yield several ops at once, on different rows, and receives
one row of each: the driver may run them as one statement. A statement that returns nothing may be run at any time
before COMMIT and before a later statement that names its table. Rows of the logs (`statement.LOGS`) may even wait for
other units. A program without decisions yields a `StatementBatch`, which may be run together with its COMMIT as one
statement; an `Attempt` is a batch whose program has a fallback. The author of a batch follows these rules:

- every check is a precondition (`guard`): nothing that the program does with the rows afterwards may reject the unit;
- no row is written twice, except by an op marked `again`, which prevents the batch from being one statement;
- statements that return rows precede those that return nothing, and are in the order of locks;
- an op reads what another op wrote only by `given`, from the row that the other op returned;
- a precondition that needs a row to be absent compares a `given` value with its own snapshot, so that it fails if its
  snapshot is older than that of the op that holds the lock (`all_read`).
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from toolwright.adapters.store.engine.codecs import Params, Row, Values
from toolwright.adapters.store.engine.outcome import UnitResult
from toolwright.adapters.store.engine.statement import Statement
from toolwright.core.journal.effects import Guard
from toolwright.core.limits import PageLimit
from toolwright.core.value import value

T = TypeVar("T")
Y = TypeVar("Y")


class Op(NamedTuple):  # a tuple, because a step creates a dozen of them
    """One statement to run. With a `guard` it must return exactly one row. `more` are parameters of further executions.

    `given` are parameters taken from the result of an earlier op of the same batch: the op's index and the column.
    `again` marks an op that needs its own snapshot: an earlier op has written the same row, or this op must see what
    was committed while the first op waited for its lock.
    """

    statement: Statement
    params: Params | Values
    guard: Guard | None = None
    more: Sequence[Params | Values] | None = None
    given: Mapping[str, tuple[int, int]] | None = None
    again: bool = False


@value
class StatementBatch:
    """All ops of a program at once. The program receives the first row of each op, or an empty row."""

    ops: Sequence[Op]


@value
class Attempt(StatementBatch):
    """A batch whose program has a fallback: it receives no rows unless the driver runs the batch as one statement."""


Ops: TypeAlias = Op | Sequence[Op] | StatementBatch
Program: TypeAlias = Generator[Ops, list[Row], UnitResult]
Reading: TypeAlias = Generator[Op, list[Row], T]


def is_page(op: Op) -> bool:
    """Return whether the op reads a page, which is cut short if its rows are large."""
    return isinstance(op.params, dict) and isinstance(op.params.get("limit"), PageLimit)


def behind(first: Op, ops: Sequence[Op]) -> list[Op]:
    """Return the ops shifted to follow another one, so that references to results still match."""
    moved = [
        {name: (number + 1, column) for name, (number, column) in (op.given or {}).items()} for op in ops
    ]
    return [first, *[op._replace(given=given) if given else op for op, given in zip(ops, moved, strict=True)]]


def drive(steps: Generator[Y, list[Row], T], run: Callable[[Y], list[Row]]) -> T:
    """Run the ops of a program or a read with `run`, and return its result."""
    rows: list[Row] | None = None
    while True:
        try:
            ops = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            return stop.value
        rows = run(ops)


async def drive_async(steps: Generator[Y, list[Row], T], run: Callable[[Y], Awaitable[list[Row]]]) -> T:
    """Run the ops of a program or a read with the async `run`, and return its result."""
    rows: list[Row] | None = None
    while True:
        try:
            ops = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            return stop.value
        rows = await run(ops)


def filled(op: Op, rows: Sequence[Row]) -> Op:
    """Return the op with the parameters taken from earlier results."""
    if op.given is None:
        return op
    given: Params = {name: rows[number][column] for name, (number, column) in op.given.items()}
    first, *more = op.statement.bind_with((op.params, *(op.more or ())), given)
    return Op(op.statement, first, op.guard, more, None, op.again)
