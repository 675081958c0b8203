"""SQL of agents: their configurations, data and MCP tool definitions; and of signed-out sessions."""

from collections.abc import Sequence

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
    exists,
    func,
    literal,
    or_,
    select,
    text,
    union,
)

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object
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
    statements,
    string,
)
from toolwright.adapters.store.sql.memory import (
    PASSAGES,
    VECTORS,
    MemoryStatements,
    blocks,
    passage_keepers,
    passages,
    visible_blocks,
)
from toolwright.adapters.store.sql.messages import IS_PENDING, calls
from toolwright.adapters.store.sql.records import RECORDS
from toolwright.adapters.store.sql.threads import threads
from toolwright.core.agents.agent import keeper_of
from toolwright.core.agents.config import AgentHead, AgentRevision, ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, PlacedVector, Query
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.mcp.servers import McpDefinition
from toolwright.core.value import owned_by

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

AGENT_HEADS = Mapping(agents, AgentHead)
AGENT_REVISIONS = Mapping(agent_revisions, AgentRevision)
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


class AgentStatements:
    """Statements about agents, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        compiled, mine = Compiler(name), string("agent_id")
        self.locks_minds = name == "postgresql"  # SQLite has one writer
        self.lock_mind = compiled(select(func.pg_advisory_xact_lock(func.hashtextextended(mine, _MIND))))
        answering = func.coalesce(threads.c.active_agent, threads.c.agent)
        its = exists().where(threads.c.id == calls.c.thread_id, answering == mine)
        self.pending_calls = compiled(select(calls).where(text(IS_PENDING), its))
        its_agent = select(answering).where(threads.c.id == string("thread_id")).scalar_subquery()
        held = select(agents.c.id).where(agents.c.id == its_agent).with_for_update(read=True).cte("held")
        agent_exists = exists().where(agent_revisions.c.agent_id == its_agent)
        self.answered = compiled(
            select(literal(1, BigInteger)).where(or_(exists().where(held.c.id.is_not(None)), ~agent_exists))
        )
        self._reads(compiled)

    def _reads(self, compiled: Compiler) -> None:
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
        self._sql = statements(AgentStatements, driver.dialect)
        self._memory = statements(MemoryStatements, driver.dialect)

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
