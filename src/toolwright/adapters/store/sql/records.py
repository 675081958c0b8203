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
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    number,
    read_rows,
    row_params,
    string,
)
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.limits import ALL_ROWS
from toolwright.core.mcp.servers import McpTask
from toolwright.core.spaces import FrontEnd
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


def owned_by(owner: str) -> list[type[Record]]:
    """Return the classes of records with that field as their owner."""
    return [kind for kind in RECORDS if kind.STORED.owner == owner]


class RecordStatements:
    """Statements and queries about the records of one class, compiled for one dialect."""

    def __init__(self, kind: type[Record], name: DialectName) -> None:
        compiled, stored, records = Compiler(name), kind.STORED, RECORDS[kind]
        table, key = records.table, records.table.primary_key.columns
        is_this = [table.c[each] == string(each) for each in stored.key]
        is_owned = table.c[stored.owner] == string(stored.owner)
        insert = sqlite.insert if name == "sqlite" else postgresql.insert
        inserted = insert(table).values(row_params(table))
        rest = [each.name for each in table.columns if each.name not in (*stored.key, *stored.kept)]
        new = {each: inserted.excluded[each] for each in rest}
        self.put = compiled(inserted.on_conflict_do_update(index_elements=list(stored.key), set_=new))
        self.add = compiled(inserted.on_conflict_do_nothing().returning(*key))
        self.drop = compiled(delete(table).where(*is_this))
        self.drop_existing = compiled(delete(table).where(*is_this).returning(*key))
        self.drop_owned = compiled(delete(table).where(is_owned))
        self.one = compiled(records.query.where(*is_this))
        in_order = records.query.order_by(*[table.c[each] for each in stored.order])
        page = in_order.limit(number("limit")).offset(number("offset"))
        self.page = compiled(page)
        self.page_of_owner = compiled(page.where(is_owned))


@cache
def record_statements(name: DialectName, kind: type[Record]) -> RecordStatements:
    """Return the statements for a dialect and a class, compiled when they are first needed."""
    return RecordStatements(kind, name)


class SqlRecords:
    """The `RecordReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def one(self, kind: type[R], *key: str) -> R | None:
        sql = record_statements(self._driver.dialect, kind)
        return await read_rows(self._driver, RECORDS[kind].first, sql.one, key_params(kind, key))

    async def list(
        self, kind: type[R], owner: str | None = None, *, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[R]:
        sql, page = record_statements(self._driver.dialect, kind), Params(limit=limit, offset=offset)
        if owner is None:
            return await read_rows(self._driver, RECORDS[kind].each, sql.page, page)
        page[kind.STORED.owner] = owner
        return await read_rows(self._driver, RECORDS[kind].each, sql.page_of_owner, page)


def key_params(kind: type[Record], key: Sequence[str]) -> Params:
    """Return the parameters of a statement that finds a record by its key."""
    return dict(zip(kind.STORED.key, key, strict=True))
