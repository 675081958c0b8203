"""Tables of configured agents, and of what agents keep in mind."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    micros,
    read,
    read_instant,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.metadata import metadata
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.json_value import dumps

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("name", name="agents_by_name"),
    Index("agents_by_time", "created_at"),
)

agent_revisions = Table(
    "agent_revisions",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "revision"),
)

goals = Table(
    "goals",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("priority", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)

memories = Table(
    "memories",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "key"),
)

plans = Table(
    "plans",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("instruction", Text, nullable=False),
    Column("next_run_at", BigInteger, nullable=False),
    Column("cron", Text),
    Column("timezone", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)


def agent_params(agent: ConfiguredAgent) -> Params:
    """The parameters of both its rows: what it is now, and this revision."""
    return {
        "id": agent.id,
        "agent_id": agent.id,
        "name": agent.name,
        "revision": agent.revision,
        "description": dumps(agent.description),
        "config": dumps(agent.config),
        "created_at": micros(agent.created_at),
        "updated_at": micros(agent.updated_at),
    }


def agent(row: Row) -> ConfiguredAgent:
    """Of a row of both tables: id, name, revision, description, config, created_at, updated_at."""
    return ConfiguredAgent(
        id=row[0],
        name=row[1],
        revision=row[2],
        description=read(row, 3, a_text),
        config=read(row, 4, an_object),
        created_at=read_instant(row, 5),
        updated_at=read_instant(row, 6),
    )


def goal_params(goal: Goal) -> Params:
    return {
        "agent_id": goal.agent_id,
        "id": goal.id,
        "description": dumps(goal.description),
        "status": dumps(goal.status),
        "priority": dumps(goal.priority),
        "created_at": micros(goal.created_at),
    }


def goal(row: Row) -> Goal:
    return Goal(
        agent_id=row[0],
        id=row[1],
        description=read(row, 2, a_text),
        status=read(row, 3, a_text),
        priority=read(row, 4, a_text),
        created_at=read_instant(row, 5),
    )


def memory_params(memory: Memory) -> Params:
    return {
        "agent_id": memory.agent_id,
        "key": memory.key,
        "value": dumps(memory.value),
        "updated_at": micros(memory.updated_at),
    }


def memory(row: Row) -> Memory:
    return Memory(agent_id=row[0], key=row[1], value=read(row, 2, a_text), updated_at=read_instant(row, 3))


def plan_params(plan: Plan) -> Params:
    return {
        "agent_id": plan.agent_id,
        "id": plan.id,
        "name": dumps(plan.name),
        "instruction": dumps(plan.instruction),
        "next_run_at": micros(plan.next_run_at),
        "cron": text_or_none(plan.cron),
        "timezone": text_or_none(plan.timezone),
        "created_at": micros(plan.created_at),
    }


def plan(row: Row) -> Plan:
    return Plan(
        agent_id=row[0],
        id=row[1],
        name=read(row, 2, a_text),
        instruction=read(row, 3, a_text),
        next_run_at=read_instant(row, 4),
        cron=read_or_none(row, 5, a_text),
        timezone=read_or_none(row, 6, a_text),
        created_at=read_instant(row, 7),
    )
