"""SQL of records: their tables, and the statements and reads derived from them.

A new kind of record is a table and a mapping here, in `RECORDS`. The names in its class (`core.value.Stored`) are
columns of the table.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    delete,
    false,
)
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Rows,
    Statement,
    number,
    row_params,
    statements,
    string,
)
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.limits import ALL_ROWS
from toolwright.core.mcp.records import McpTask
from toolwright.core.spaces.space import FrontEnd
from toolwright.core.value import Record

R = TypeVar("R", bound=Record)

goals = Table(
    "goals",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("description", Json(a_text), nullable=False),
    Column("status", Json(a_text), nullable=False),
    Column("priority", Json(a_text), nullable=False),
    Column("created_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)

memories = Table(
    "memories",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Json(a_text), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "key"),
)

plans = Table(
    "plans",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Json(a_text), nullable=False),
    Column("instruction", Json(a_text), nullable=False),
    Column("next_run_at", Instant(), nullable=False),
    Column("cron", Json(a_text)),
    Column("timezone", Json(a_text)),
    Column("created_at", Instant(), nullable=False),
    Column("thread_id", Text),
    Column("relative", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("agent_id", "id"),
)

clients = Table(
    "clients",
    metadata,
    Column("id", Text, primary_key=True),
    Column("entity_id", Text, nullable=False),
    Column("name", Json(a_text)),
    Column("metadata", Json(an_object), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Index("clients_by_entity", "entity_id", "created_at"),
)

mcp_tasks = Table(
    "mcp_tasks",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("server", Json(a_text), nullable=False),
    Column("task_id", Json(a_text), nullable=False),
    Column("questions", Json(an_object, dumps_unescaped), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("output", Json(an_object, dumps_unescaped)),
    Column("place", Text),
    Column("space_id", Text),
    Column("session", Text),
    Index("mcp_tasks_by_thread", "thread_id"),
)

GOALS = Mapping(goals, Goal)
MEMORIES = Mapping(memories, Memory, "key")
PLANS = Mapping(plans, Plan)
FRONT_ENDS = Mapping(clients, FrontEnd)
MCP_TASKS = Mapping(mcp_tasks, McpTask, "call_id")

RECORDS: dict[type[Record], Mapping[Any]] = {  # of each class
    each.kind: each for each in (GOALS, MEMORIES, PLANS, FRONT_ENDS, MCP_TASKS)
}


def tables_of(owner: str) -> list[Table]:
    """Return the tables of records with that field as their owner."""
    return [each.table for kind, each in RECORDS.items() if kind.STORED.owner == owner]


class RecordStatements:
    """Statements about records by class, each compiled when it is first used."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._compiled = Compiler(name)
        self.put = cache(self._put)
        self.add = cache(self._add)
        self.drop = cache(self._drop)
        self.drop_existing = cache(self._drop_existing)
        self.drop_of_agent = self._drop_owned("agent_id")
        self.drop_of_entity = self._drop_owned("entity_id")

    def _put(self, kind: type[Record]) -> Statement:
        table, stored = RECORDS[kind].table, kind.STORED
        inserted = self._insert(table).values(row_params(table))
        rest = [each.name for each in table.columns if each.name not in (*stored.key, *stored.kept)]
        return self._compiled(
            inserted.on_conflict_do_update(
                index_elements=list(stored.key), set_={name: inserted.excluded[name] for name in rest}
            )
        )

    def _add(self, kind: type[Record]) -> Statement:
        table = RECORDS[kind].table
        once = self._insert(table).values(row_params(table)).on_conflict_do_nothing()
        return self._compiled(once.returning(*table.primary_key.columns))

    def _drop(self, kind: type[Record]) -> Statement:
        return self._compiled(delete(RECORDS[kind].table).where(*_by_key(kind)))

    def _drop_existing(self, kind: type[Record]) -> Statement:
        table = RECORDS[kind].table
        return self._compiled(delete(table).where(*_by_key(kind)).returning(*table.primary_key.columns))

    def _drop_owned(self, owner: str) -> list[Statement]:
        return [
            self._compiled(delete(each).where(each.c[owner] == string(owner))) for each in tables_of(owner)
        ]


def _by_key(kind: type[Record]) -> list[ColumnElement[bool]]:
    return [RECORDS[kind].table.c[name] == string(name) for name in kind.STORED.key]


class RecordQueries:
    """Queries about records by class, each compiled when it is first used."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = Compiler(name)
        self.one = cache(self._one)
        self.page = cache(self._page)
        self.page_of_owner = cache(self._page_of_owner)

    def _one(self, kind: type[Record]) -> Statement:
        return self._compiled(RECORDS[kind].query.where(*_by_key(kind)))

    def _page(self, kind: type[Record]) -> Statement:
        return self._compiled(_page(kind))

    def _page_of_owner(self, kind: type[Record]) -> Statement:
        owner = kind.STORED.owner
        return self._compiled(_page(kind).where(RECORDS[kind].table.c[owner] == string(owner)))


def _page(kind: type[Record]) -> Rows:
    records = RECORDS[kind]
    in_order = records.query.order_by(*[records.table.c[name] for name in kind.STORED.order])
    return in_order.limit(number("limit")).offset(number("offset"))


class SqlRecords:
    """The `RecordReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(RecordQueries, driver.dialect)

    async def one(self, kind: type[R], *key: str) -> R | None:
        return await read_rows(self._driver, RECORDS[kind].first, self._sql.one(kind), key_params(kind, key))

    async def list(
        self, kind: type[R], owner: str | None = None, *, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[R]:
        page: Params = {"limit": limit, "offset": offset}
        if owner is None:
            return await read_rows(self._driver, RECORDS[kind].each, self._sql.page(kind), page)
        page[kind.STORED.owner] = owner
        return await read_rows(self._driver, RECORDS[kind].each, self._sql.page_of_owner(kind), page)


def key_params(kind: type[Record], key: Sequence[str]) -> Params:
    """Return the parameters of a statement that finds a record by its key."""
    return dict(zip(kind.STORED.key, key, strict=True))
