"""SQL of agents: their configurations, data and MCP tool definitions; and of signed-out sessions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Subquery,
    Table,
    Text,
    UniqueConstraint,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    text,
    union,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, instant
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    RowQuery,
    Statement,
    number,
    read_rows,
    row_params,
    statements,
    string,
)
from toolwright.adapters.store.sql.memory import (
    OWN_BLOCKS,
    PASSAGES,
    VECTORS,
    MemoryQueries,
    block_links,
    blocks,
    passage_keepers,
    passages,
    visible_blocks,
)
from toolwright.adapters.store.sql.messages import IS_PENDING, calls
from toolwright.adapters.store.sql.records import GOALS, MEMORIES, PLANS, RECORDS, owned_by, plans
from toolwright.adapters.store.sql.threads import sign_outs, threads, wakes
from toolwright.core.agents.agent import keeper_of
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, PlacedVector, Query
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.mcp.servers import McpDefinition

mcp_definitions = Table(
    "mcp_definitions",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("server", Json(a_text), nullable=False),
    Column("tool", Json(a_text), nullable=False),
    Column("digest", Text, nullable=False),
    Column("held", Text),
    Column("definition", Json(an_object, dumps_unescaped)),
    Column("updated_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "server", "tool"),
)


MCP_DEFINITIONS = Mapping(mcp_definitions, McpDefinition)
_MIND = 0x6D696E64  # distinguishes these Postgres advisory locks from others


class McpStatements:
    """Statements about definitions, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._definition_statements(Compiler(name))

    def _definition_statements(self, compiled: Compiler) -> None:
        """Compile the statements. All return rows, so that they are executed in order."""
        row = mcp_definitions.c
        once = self._insert(mcp_definitions).values(row_params(mcp_definitions)).on_conflict_do_nothing()
        self.pin = compiled(once.returning(row.tool))
        mine = row.agent_id == string("agent_id")
        this = (mine, row.server == string("server"), row.tool == string("tool"))
        changed = update(mcp_definitions).where(*this).returning(row.tool)
        offered, at = string("offered"), number("at")
        new = (row.digest != offered, or_(row.held.is_(None), row.held != offered))
        waits = {"held": offered, "definition": string("said"), "updated_at": at}
        self.hold = compiled(changed.where(*new).values(waits))
        none_waits = {"held": null(), "definition": null(), "updated_at": at}
        self.accept = compiled(changed.where(row.held == offered).values(digest=offered, **none_waits))
        self.unhold = compiled(changed.where(row.held.is_not(None)).values(none_waits))
        self.drop_definitions = compiled(delete(mcp_definitions).where(mine))


class McpQueries:
    """Queries about definitions; each attribute is a query."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        mine = mcp_definitions.c.agent_id == string("agent_id")
        self.definitions = compiled(MCP_DEFINITIONS.query.where(mine))


class SqlMcp:
    """The `McpReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(McpQueries, driver.dialect)

    async def definitions(self, agent_id: str) -> Sequence[McpDefinition]:
        return await read_rows(self._driver, _in_order, self._sql.definitions, {"agent_id": agent_id})


def _in_order(rows: Sequence[Row]) -> list[McpDefinition]:
    """Sort definitions by server and tool. Names are stored as JSON, which the databases would sort differently."""
    definitions = MCP_DEFINITIONS.readable(rows)
    definitions.sort(key=lambda each: (each.server, each.tool))
    return definitions


agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    UniqueConstraint("name", name="agents_by_name"),
    Index("agents_by_time", "created_at"),
)

agent_revisions = Table(
    "agent_revisions",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Json(a_text), nullable=False),
    Column("config", Json(an_object), nullable=False),
    Column("created_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "revision"),
)

_of = agent_revisions.c
AGENTS = Mapping(
    agent_revisions,
    ConfiguredAgent,
    columns=(
        *(_of.agent_id, _of.name, _of.revision, _of.description, _of.config, _of.created_at),
        _of.created_at.label("updated_at"),
    ),
    names={"agent_id": "id"},
)
"""Current agents, from both tables: the revision has the name, description, configuration and update time."""


class AgentStatements:
    """Statements about agents, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._compiled = compiled = Compiler(name)
        once = self._insert(agents).values(row_params(agents)).on_conflict_do_nothing()
        self.insert_agent = compiled(once.returning(agents.c.id))
        self.insert_revision = compiled(insert(agent_revisions).values(row_params(agent_revisions)))
        gone = delete(agents).where(agents.c.id == string("agent_id"))
        self.drop_agent = compiled(gone.returning(agents.c.id))
        self.drop_agent_seen = compiled(gone.where(agents.c.revision == number("was")).returning(agents.c.id))

        self._end_statements(compiled)
        mine = string("agent_id")
        self.drop_timers = compiled(
            delete(wakes).where(wakes.c.thread_id >= string("first"), wakes.c.thread_id < string("last"))
        )

        self.locks_minds = name == "postgresql"  # SQLite has one writer
        self.lock_mind = compiled(select(func.pg_advisory_xact_lock(func.hashtextextended(mine, _MIND))))
        linked = select(block_links.c.agent_id, block_links.c.label).where(block_links.c.reader_id == mine)
        tables = {"goals": GOALS, "memories": MEMORIES, "plans": PLANS, "blocks": OWN_BLOCKS}
        self.mind = {
            kind: compiled(rows.query.where(rows.table.c.agent_id == mine)) for kind, rows in tables.items()
        }
        self.mind["links"] = compiled(linked)

        this = (plans.c.agent_id == string("agent_id"), plans.c.id == string("id"))
        is_unchanged = plans.c.next_run_at == number("seen")
        self.drop_plan_seen = compiled(delete(plans).where(*this, is_unchanged).returning(plans.c.id))
        self.move_plan = compiled(
            update(plans)
            .where(*this, is_unchanged)
            .values(next_run_at=number("next_run_at"))
            .returning(plans.c.id)
        )

        relative = plans.c.relative.is_(True)
        names = select(literal("plan:") + plans.c.agent_id + literal(":") + plans.c.id).where(relative)
        by = number("by")
        self.move_plans = (
            compiled(
                update(wakes)
                .where(wakes.c.thread_id.in_(names))
                .values(due=wakes.c.due + by, gen=wakes.c.gen + 1)
            ),
            compiled(update(plans).where(relative).values(next_run_at=plans.c.next_run_at + by)),
        )

    def _end_statements(self, compiled: Compiler) -> None:
        """Compile the locks shared by deletion and use of an agent: on its first revision, which is never rewritten."""
        mine = string("agent_id")
        rows = select(agent_revisions.c.agent_id).order_by(agent_revisions.c.revision).limit(1)
        first = rows.where(agent_revisions.c.agent_id == mine)
        self.lock_agent = compiled(first.with_for_update())
        self.hold_agent = compiled(first.with_for_update(read=True))
        self.find_agent = compiled(select(agents.c.id).where(agents.c.id == mine))
        answering = func.coalesce(threads.c.active_agent, threads.c.agent)
        self._late_result_statements(answering, compiled)

    def _late_result_statements(self, answering: ColumnElement[str], compiled: Compiler) -> None:
        """Compile statements that find threads with pending calls, and cancel calls whose results are not needed."""
        pending, mine = text(IS_PENDING), string("agent_id")
        pending_threads = (
            select(calls.c.thread_id).distinct().join(threads, threads.c.id == calls.c.thread_id)
        )
        self.pending_threads = compiled(pending_threads.where(pending, answering == mine))
        gone: dict[str, Any] = {
            "status": "cancelled",
            "result": string("result"),
            "completed_at": number("at"),
        }
        cancelled = update(calls).where(pending).values(gone).returning(*calls.c)
        its = exists().where(threads.c.id == calls.c.thread_id, answering == mine)
        self.cancel_calls = compiled(cancelled.where(its))
        self.cancel_calls_in_thread = compiled(cancelled.where(calls.c.thread_id == string("thread_id")))
        self.find_call = compiled(select(calls).where(calls.c.id == string("call_id")))
        its_agent = select(answering).where(threads.c.id == string("thread_id")).scalar_subquery()
        held = select(agents.c.id).where(agents.c.id == its_agent).with_for_update(read=True).cte("held")
        agent_exists = exists().where(agent_revisions.c.agent_id == its_agent)
        self.answered = compiled(
            select(literal(1, BigInteger)).where(or_(exists().where(held.c.id.is_not(None)), ~agent_exists))
        )
        self.answering = compiled(select(its_agent, select(held.c.id).scalar_subquery(), agent_exists))


_LENGTH = bindparam("length", type_=Integer)  # Postgres requires an integer as the position in a text
_STORED = [*[RECORDS[each].table for each in owned_by("agent_id")], blocks]
_ROWS = [select(each.c.agent_id) for each in _STORED]
_WITH_PASSAGES = exists().where(passages.c.agent_id == passage_keepers.c.agent_id)
_ALL_KEEPERS = union(*_ROWS, select(passage_keepers.c.agent_id)).subquery("kept")
_IN_USE = union(*_ROWS, select(passage_keepers.c.agent_id).where(_WITH_PASSAGES)).subquery("in_use")


def _of_agent(keepers: Subquery) -> RowQuery:
    return _keepers(keepers, func.substr(keepers.c.agent_id, 1, _LENGTH))


def _keepers(keepers: Subquery, part: ColumnElement[str]) -> RowQuery:
    """Return the ids of owners for which `part` equals the parameter `part`."""
    query = select(keepers.c.agent_id).where(part == string("part"))
    return query.order_by(keepers.c.agent_id).limit(number("limit"))


class AgentQueries:
    """Queries about agents; each attribute is a query."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        of = agent_revisions.c
        columns = (of.agent_id, of.name, of.revision, of.description, of.config)
        newest = and_(of.agent_id == agents.c.id, of.revision == agents.c.revision)
        head = (agents.c.id, *columns[1:], agents.c.created_at, of.created_at)
        # a missing revision makes its agent a broken row
        now = select(*head).select_from(agents.outerjoin(agent_revisions, newest))
        self.agent = compiled(now.where(agents.c.id == string("agent_id")))
        self.named = compiled(now.where(agents.c.name == string("name")))
        in_order = now.order_by(agents.c.created_at, agents.c.id)
        self.agents = compiled(in_order.limit(number("limit")).offset(number("offset")))
        then = select(*columns, of.created_at, of.created_at.label("updated_at"))
        self.revision = compiled(
            then.where(of.agent_id == string("agent_id"), of.revision == number("revision"))
        )
        answering = func.coalesce(threads.c.active_agent, threads.c.agent)
        pending_threads = (
            select(calls.c.thread_id).distinct().join(threads, threads.c.id == calls.c.thread_id)
        )
        gone = and_(exists().where(of.agent_id == answering), ~exists().where(agents.c.id == answering))
        self.orphans = compiled(pending_threads.where(text(IS_PENDING), gone).limit(number("limit")))
        self.keepers_of_agent = compiled(_of_agent(_ALL_KEEPERS))
        self.keepers_in_use = compiled(_of_agent(_IN_USE))
        ending = func.length(_ALL_KEEPERS.c.agent_id) - _LENGTH + 1
        self.keepers_of_user = compiled(_keepers(_ALL_KEEPERS, func.substr(_ALL_KEEPERS.c.agent_id, ending)))


class SqlAgents:
    """The `AgentReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(AgentQueries, driver.dialect)
        self._memory = statements(MemoryQueries, driver.dialect)

    async def agent(self, agent_id: str, revision: int | None = None) -> ConfiguredAgent | None:
        if revision is None:
            return await read_rows(self._driver, AGENTS.first, self._sql.agent, {"agent_id": agent_id})
        this: Params = {"agent_id": agent_id, "revision": revision}
        return await read_rows(self._driver, AGENTS.first, self._sql.revision, this)

    async def named(self, name: str) -> ConfiguredAgent | None:
        return await read_rows(self._driver, AGENTS.first, self._sql.named, {"name": name})

    async def agents(self, *, limit: int = 50, offset: int = 0) -> Sequence[ConfiguredAgent]:
        return await read_rows(
            self._driver, AGENTS.page, self._sql.agents, {"limit": limit, "offset": offset}
        )

    async def orphans(self, *, limit: int = 100) -> Sequence[str]:
        return await read_rows(self._driver, _ids, self._sql.orphans, {"limit": limit})

    async def keepers_of_agent(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return await self._keepers(self._sql.keepers_of_agent, keeper_of(agent_id, ""), limit)

    async def keepers_in_use(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return await self._keepers(self._sql.keepers_in_use, keeper_of(agent_id, ""), limit)

    async def keepers_of_user(self, user_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return await self._keepers(self._sql.keepers_of_user, keeper_of("", user_id), limit)

    async def _keepers(self, statement: Statement, part: str, limit: int) -> Sequence[str]:
        params: Params = {"part": part, "length": len(part), "limit": limit}
        return sorted(await read_rows(self._driver, _ids, statement, params))

    async def blocks(self, agent_id: str) -> Sequence[Block]:
        return await self._driver.snapshot(lambda: visible_blocks(agent_id, self._memory))

    async def passage(self, agent_id: str, passage_id: str) -> Passage | None:
        this: Params = {"agent_id": agent_id, "id": passage_id}
        return await read_rows(self._driver, PASSAGES.first, self._memory.passage, this)

    async def passages(self, agent_id: str, *, limit: int = 50, offset: int = 0) -> Sequence[Passage]:
        page: Params = {"agent_id": agent_id, "limit": limit, "offset": offset}
        return await read_rows(self._driver, PASSAGES.page, self._memory.passages, page)

    async def matches(self, agent_id: str, query: Query, *, limit: int) -> Sequence[Passage]:
        statement, params = self._memory.search(agent_id, query)
        this: Params = {**params, "agent_id": agent_id, "limit": limit}
        return await read_rows(self._driver, PASSAGES.page, statement, this)

    async def passages_of(self, agent_id: str, ids: Sequence[str]) -> Sequence[Passage]:
        if not ids:
            return []
        this: Params = {"agent_id": agent_id, **{f"id_{n}": each for n, each in enumerate(ids)}}
        return await read_rows(self._driver, PASSAGES.page, self._memory.passages_of(len(ids)), this)

    async def vectors(
        self, agent_id: str, *, before: int | None = None, limit: int
    ) -> Sequence[PlacedVector]:
        this: Params = {"agent_id": agent_id, "limit": limit}
        if before is None:
            return await read_rows(self._driver, VECTORS.page, self._memory.newest_vectors, this)
        return await read_rows(
            self._driver, VECTORS.page, self._memory.vectors_before, {**this, "before": before}
        )

    async def unembedded(self, embedder: str, *, after: int, limit: int) -> Sequence[tuple[int, Passage]]:
        this: Params = {"embedder": embedder, "after": after, "limit": limit}
        return await read_rows(self._driver, _placed, self._memory.unembedded, this)


def _placed(rows: Sequence[Row]) -> list[tuple[int, Passage]]:
    """Return passages with their place, which is the first column. Broken rows are skipped."""
    return [(int(row[0]), passage) for row in rows for passage in PASSAGES.readable([row])]


def _ids(rows: Sequence[Row]) -> list[str]:
    return [str(row[0]) for row in rows]


class SessionStatements:
    """Statements about signed-out sessions, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        insert = sqlite.insert if name == "sqlite" else postgresql.insert
        signed_out = insert(sign_outs).values(key=string("key"), at=number("at"), until=number("until"))
        latest = {"at": signed_out.excluded["at"], "until": signed_out.excluded["until"]}
        self.sign_out = compiled(signed_out.on_conflict_do_update(index_elements=["key"], set_=latest))
        unused = signed_out.on_conflict_do_nothing(index_elements=["key"])
        self.use_once = compiled(unused.returning(sign_outs.c.key))
        self.drop_expired = compiled(delete(sign_outs).where(sign_outs.c.until < number("at")))
        keys = or_(sign_outs.c.key == string("session"), sign_outs.c.key == string("caller"))
        self.signed_out = compiled(select(sign_outs.c.key, sign_outs.c.at).where(keys))


class SqlSessions:
    """The `SessionReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(SessionStatements, driver.dialect)

    async def signed_out(self, session: str, caller: str) -> dict[str, datetime]:
        params: Params = {"session": session, "caller": caller}
        rows = await read_rows(self._driver, list, self._sql.signed_out, params)
        return {str(key): instant(at) for key, at in rows}
