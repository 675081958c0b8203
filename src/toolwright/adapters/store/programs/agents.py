"""Whether an agent was deleted, as programs: it is not deleted then before their commit either."""

from collections.abc import Generator
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Row
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.statements.threads import Statements

Verdict: TypeAlias = Generator[Ops, list[Row], bool]


def is_deleted(agent_id: str, sql: Statements) -> Verdict:
    """Whether the agent was configured once, and is so no longer."""
    configured = yield Op(sql.agents.hold_agent, {"agent_id": agent_id})
    if not configured:
        return False  # if there is such an agent, the app declares it
    found = yield Op(sql.agents.find_agent, {"agent_id": agent_id})
    return not found


def is_orphan(thread_id: str, sql: Statements) -> Verdict:
    """Whether the agent that answers in the thread was deleted."""
    [(agent_id,)] = yield Op(sql.agents.answering, {"thread_id": thread_id}, "fence")
    return (yield from is_deleted(str(agent_id), sql))
