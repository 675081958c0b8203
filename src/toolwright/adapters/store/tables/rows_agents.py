"""Rows of configured agents, and of what agents keep in mind."""

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    read,
    read_instant,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.instants import micros
from toolwright.core.agents.configured import ConfiguredAgent
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.json_value import dumps


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
