"""SQL of thread trees: links to parents, values of a thread, requests and their variables."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    read_rows,
    statements,
    string,
)
from toolwright.adapters.store.sql.messages import calls
from toolwright.adapters.store.sql.threads import NOT_OVER, THREADS, family_of, runs, threads
from toolwright.core.env.env import Asked, RequestKind, Variable, VariablesRequest
from toolwright.core.journal.reads import ChildReads, RowReads
from toolwright.core.json_value import dumps
from toolwright.core.threads.call import MOVES
from toolwright.core.threads.thread import Thread, ThreadValue


def _variables(parsed: Sequence[Any]) -> tuple[Variable, ...]:  # as written by _variables_text
    return tuple([Variable(*each) for each in parsed])


def _variables_text(variables: Sequence[Variable]) -> str:
    return dumps([[v.name, v.type, v.required, v.scoped, v.description] for v in variables])


thread_values = sa.Table(
    "thread_values",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("key", Json(a_text), nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("thread_id", "key"),
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False, info=one_of(RequestKind)),
    sa.Column("agent", Json(a_text), nullable=False),
    sa.Column("required", Json(_variables, _variables_text), nullable=False),
    sa.Column("child", Json(an_object)),
    sa.Column("expires_at", Instant()),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Index("requests_by_thread", "thread_id"),
)

asked = sa.Table(
    "asked",
    metadata,
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("name", "request_id"),
    sa.Index("asked_by_request", "request_id"),
)


REQUESTS = Mapping(requests, VariablesRequest)
ASKED = Mapping(asked, Asked)
THREAD_VALUES = Mapping(thread_values, ThreadValue)


# Phrased so that no database scans all pending calls of the journal, which can be many.
PENDING = sa.and_(*(calls.c.status != status for status in MOVES if status != "pending"))


class ChildStatements:
    """Statements about child threads, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        compiled, thread_id = Compiler(name), string("thread_id")
        children = sa.select(threads.c.id).where(threads.c.parent_id == thread_id)
        self.below = compiled(sa.select(family_of(children).c.id))
        of_thread = sa.select(runs.c.id).where(runs.c.thread_id == thread_id)
        self.pending_in = compiled(sa.select(calls).where(calls.c.run_id.in_(of_thread), PENDING))
        family = sa.select(family_of(sa.select(threads.c.id).where(threads.c.id == thread_id)).c.id)
        of_family = sa.select(runs.c.id).where(runs.c.thread_id.in_(family))
        self.pending_in_family = compiled(sa.select(calls).where(calls.c.run_id.in_(of_family), PENDING))
        above = sa.select(threads.c.parent_id.label("id"), sa.literal(1, sa.BigInteger).label("far"))
        above = above.where(threads.c.id == string("thread_id")).cte("above", recursive=True)
        farther = sa.select(threads.c.parent_id, above.c.far + 1).join(above, threads.c.id == above.c.id)
        above = above.union_all(farther)
        self.lineage = compiled(
            sa.select(threads).join(above, threads.c.id == above.c.id).order_by(above.c.far)
        )
        is_child = threads.c.parent_id == string("thread_id")
        alive = sa.select(threads.c.agent, sa.func.count()).where(is_child, NOT_OVER)
        self.living = compiled(alive.group_by(threads.c.agent))


class SqlChildren(ChildReads):
    """The `ChildReads` port over a driver."""

    def __init__(self, rows: RowReads, driver: Driver) -> None:
        super().__init__(rows)
        self._driver = driver
        self._sql = statements(ChildStatements, driver.dialect)

    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        params: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, THREADS.all, self._sql.lineage, params)

    async def living(self, thread_id: str) -> dict[str, int]:
        params: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, _counts, self._sql.living, params)


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    return {str(name): int(count) for name, count in rows}
