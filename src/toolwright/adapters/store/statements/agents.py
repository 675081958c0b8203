"""The statements that write configured agents, and what agents keep in mind."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Table,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Statement,
    number,
    row_params,
    string,
)
from toolwright.adapters.store.tables.agents import (
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
from toolwright.adapters.store.tables.events import wakes
from toolwright.adapters.store.tables.memory import OWN_BLOCKS, block_links
from toolwright.adapters.store.tables.threads import threads

_MIND = 0x6D696E64  # tells these locks of Postgres from others


class AgentStatements:
    """Statements about agents, compiled for one dialect; each attribute is one of them."""

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
        self.drop_minds = [
            compiled(delete(table).where(table.c.agent_id == mine)) for table in (goals, memories, plans)
        ]
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

        self.put_goal = self._put(goals, "agent_id", "id")
        self.put_memory = self._put(memories, "agent_id", "key")
        self.put_plan = self._put(plans, "agent_id", "id")
        self.drop_goal = self._drop(goals, "id")
        self.drop_memory = self._drop(memories, "key")
        self.drop_plan = self._drop(plans, "id")
        this = (plans.c.agent_id == string("agent_id"), plans.c.id == string("id"))
        seen = plans.c.next_run_at == number("seen")
        self.drop_plan_seen = compiled(delete(plans).where(*this, seen).returning(plans.c.id))
        self.move_plan = compiled(
            update(plans).where(*this, seen).values(next_run_at=number("next_run_at")).returning(plans.c.id)
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
        """Locks that deletion and users of an agent share: on its first revision, which is never rewritten."""
        mine = string("agent_id")
        rows = select(agent_revisions.c.agent_id).order_by(agent_revisions.c.revision).limit(1)
        first = rows.where(agent_revisions.c.agent_id == mine)
        self.lock_agent = compiled(first.with_for_update())
        self.hold_agent = compiled(first.with_for_update(read=True))
        self.find_agent = compiled(select(agents.c.id).where(agents.c.id == mine))
        answering = func.coalesce(threads.c.active_agent, threads.c.agent)
        self._late_result_statements(answering, compiled)

    def _late_result_statements(self, answering: ColumnElement[str], compiled: Compiler) -> None:
        """Statements for threads with pending calls, and to cancel calls that nobody hopes for."""
        pending, mine = text(IS_PENDING), string("agent_id")
        hoping = select(calls.c.thread_id).distinct().join(threads, threads.c.id == calls.c.thread_id)
        self.hoping = compiled(hoping.where(pending, answering == mine))
        gone: dict[str, Any] = {
            "status": "cancelled",
            "result": string("result"),
            "completed_at": number("at"),
        }
        cancelled = update(calls).where(pending).values(gone).returning(*calls.c)
        its = exists().where(threads.c.id == calls.c.thread_id, answering == mine)
        self.give_up = compiled(cancelled.where(its))
        self.give_up_in = compiled(cancelled.where(calls.c.thread_id == string("thread_id")))
        self.find_call = compiled(select(calls).where(calls.c.id == string("call_id")))
        its_agent = select(answering).where(threads.c.id == string("thread_id")).scalar_subquery()
        held = select(agents.c.id).where(agents.c.id == its_agent).with_for_update(read=True).cte("held")
        known = exists().where(agent_revisions.c.agent_id == its_agent)
        self.answered = compiled(
            select(literal(1, BigInteger)).where(or_(exists().where(held.c.id.is_not(None)), ~known))
        )
        self.answering = compiled(select(its_agent, select(held.c.id).scalar_subquery(), known))

    def _put(self, table: Table, *key: str) -> Statement:
        """Insert a row, or write it again; it keeps the time at which it was made."""
        inserted = self._insert(table).values(row_params(table))
        rest = [c.name for c in table.columns if c.name not in (*key, "created_at")]
        return self._compiled(
            inserted.on_conflict_do_update(
                index_elements=list(key), set_={name: inserted.excluded[name] for name in rest}
            )
        )

    def _drop(self, table: Table, key: str) -> Statement:
        here = (table.c.agent_id == string("agent_id"), table.c[key] == string(key))
        return self._compiled(delete(table).where(*here))
