"""Reads of configured agents and minds on SQL: the queries of one dialect, and the port over a driver."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Integer, Subquery, and_, bindparam, exists, func, select, text, union

from toolwright.adapters.store.engine.codecs import Params, Row
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Rows,
    Statement,
    number,
    statements,
    string,
)
from toolwright.adapters.store.reads.memory import MemoryQueries, seen_blocks
from toolwright.adapters.store.tables.agents import (
    AGENTS,
    GOALS,
    MEMORIES,
    PLANS,
    agent_revisions,
    agents,
    goals,
    memories,
    plans,
)
from toolwright.adapters.store.tables.calls import IS_PENDING, calls
from toolwright.adapters.store.tables.memory import PASSAGES, VECTORS, blocks, passage_keepers, passages
from toolwright.adapters.store.tables.threads import threads
from toolwright.core.agents.agent import keeper_of
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, PlacedVector, Query
from toolwright.core.agents.mind import Goal, Memory, Plan

_LENGTH = bindparam("length", type_=Integer)  # an integer is what Postgres takes for a place in a text
_ROWS = [select(each.c.agent_id) for each in (goals, memories, plans, blocks)]
_WITH_PASSAGES = exists().where(passages.c.agent_id == passage_keepers.c.agent_id)
_KEPT = union(*_ROWS, select(passage_keepers.c.agent_id)).subquery("kept")
_IN_USE = union(*_ROWS, select(passage_keepers.c.agent_id).where(_WITH_PASSAGES)).subquery("in_use")


def _of_agent(kept: Subquery) -> Rows:
    return _keepers(kept, func.substr(kept.c.agent_id, 1, _LENGTH))


def _keepers(kept: Subquery, part: ColumnElement[str]) -> Rows:
    """Return the ids under which something is kept of which a part is the given text."""
    found = select(kept.c.agent_id).where(part == string("part"))
    return found.order_by(kept.c.agent_id).limit(number("limit"))


class AgentQueries:
    """The queries about agents; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        of = agent_revisions.c
        columns = (of.agent_id, of.name, of.revision, of.description, of.config)
        newest = and_(of.agent_id == agents.c.id, of.revision == agents.c.revision)
        head = (agents.c.id, *columns[1:], agents.c.created_at, of.created_at)
        now = select(*head).select_from(
            agents.outerjoin(agent_revisions, newest)
        )  # a lost revision breaks its agent
        self.agent = compiled(now.where(agents.c.id == string("agent_id")))
        self.named = compiled(now.where(agents.c.name == string("name")))
        in_order = now.order_by(agents.c.created_at, agents.c.id)
        self.agents = compiled(in_order.limit(number("limit")).offset(number("offset")))
        then = select(*columns, of.created_at, of.created_at.label("updated_at"))
        self.revision = compiled(
            then.where(of.agent_id == string("agent_id"), of.revision == number("revision"))
        )
        answering = func.coalesce(threads.c.active_agent, threads.c.agent)
        hoping = select(calls.c.thread_id).distinct().join(threads, threads.c.id == calls.c.thread_id)
        gone = and_(exists().where(of.agent_id == answering), ~exists().where(agents.c.id == answering))
        self.orphans = compiled(hoping.where(text(IS_PENDING), gone).limit(number("limit")))
        self.keepers_of_agent = compiled(_of_agent(_KEPT))
        self.keepers_in_use = compiled(_of_agent(_IN_USE))
        ending = func.length(_KEPT.c.agent_id) - _LENGTH + 1
        self.keepers_of_user = compiled(_keepers(_KEPT, func.substr(_KEPT.c.agent_id, ending)))
        mine = string("agent_id")
        self.goals = compiled(
            select(goals).where(goals.c.agent_id == mine).order_by(goals.c.created_at, goals.c.id)
        )
        self.memories = compiled(select(memories).where(memories.c.agent_id == mine).order_by(memories.c.key))
        of_agent = select(plans).where(plans.c.agent_id == mine)
        self.plans = compiled(of_agent.order_by(plans.c.next_run_at, plans.c.id))
        self.plan = compiled(of_agent.where(plans.c.id == string("id")))


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
            self._driver, AGENTS.each, self._sql.agents, {"limit": limit, "offset": offset}
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
        asked: Params = {"part": part, "length": len(part), "limit": limit}
        return sorted(await read_rows(self._driver, _ids, statement, asked))

    async def goals(self, agent_id: str) -> Sequence[Goal]:
        return await read_rows(self._driver, GOALS.each, self._sql.goals, {"agent_id": agent_id})

    async def memories(self, agent_id: str) -> Sequence[Memory]:
        return await read_rows(self._driver, MEMORIES.each, self._sql.memories, {"agent_id": agent_id})

    async def plans(self, agent_id: str) -> Sequence[Plan]:
        return await read_rows(self._driver, PLANS.each, self._sql.plans, {"agent_id": agent_id})

    async def plan(self, agent_id: str, plan_id: str) -> Plan | None:
        this: Params = {"agent_id": agent_id, "id": plan_id}
        return await read_rows(self._driver, PLANS.first, self._sql.plan, this)

    async def blocks(self, agent_id: str) -> Sequence[Block]:
        return await self._driver.snapshot(lambda: seen_blocks(agent_id, self._memory))

    async def passage(self, agent_id: str, passage_id: str) -> Passage | None:
        this: Params = {"agent_id": agent_id, "id": passage_id}
        return await read_rows(self._driver, PASSAGES.first, self._memory.passage, this)

    async def passages(self, agent_id: str, *, limit: int = 50, offset: int = 0) -> Sequence[Passage]:
        page: Params = {"agent_id": agent_id, "limit": limit, "offset": offset}
        return await read_rows(self._driver, PASSAGES.each, self._memory.passages, page)

    async def matches(self, agent_id: str, query: Query, *, limit: int) -> Sequence[Passage]:
        found, params = self._memory.search(agent_id, query)
        this: Params = {**params, "agent_id": agent_id, "limit": limit}
        return await read_rows(self._driver, PASSAGES.each, found, this)

    async def passages_of(self, agent_id: str, ids: Sequence[str]) -> Sequence[Passage]:
        if not ids:
            return []
        this: Params = {"agent_id": agent_id, **{f"id_{n}": each for n, each in enumerate(ids)}}
        return await read_rows(self._driver, PASSAGES.each, self._memory.passages_of(len(ids)), this)

    async def vectors(
        self, agent_id: str, *, before: int | None = None, limit: int
    ) -> Sequence[PlacedVector]:
        this: Params = {"agent_id": agent_id, "limit": limit}
        if before is None:
            return await read_rows(self._driver, VECTORS.each, self._memory.newest_vectors, this)
        return await read_rows(
            self._driver, VECTORS.each, self._memory.vectors_before, {**this, "before": before}
        )

    async def unembedded(self, embedder: str, *, after: int, limit: int) -> Sequence[tuple[int, Passage]]:
        this: Params = {"embedder": embedder, "after": after, "limit": limit}
        return await read_rows(self._driver, _placed, self._memory.unembedded, this)


def _placed(rows: Sequence[Row]) -> list[tuple[int, Passage]]:
    """Passages with their places, which stand first; broken ones are left out."""
    return [(int(row[0]), passage) for row in rows for passage in PASSAGES.each([row])]


def _ids(rows: Sequence[Row]) -> list[str]:
    return [str(row[0]) for row in rows]
