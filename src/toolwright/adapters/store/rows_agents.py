"""Rows of configured agents, and of what agents keep in mind."""

import json

from toolwright.adapters.store.instants import instant, micros
from toolwright.adapters.store.rows import Params, Row, text_or_none
from toolwright.core.configured import ConfiguredAgent
from toolwright.core.json_value import dumps
from toolwright.core.mind import Goal, Memory, Plan


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
        description=json.loads(row[3]),
        config=json.loads(row[4]),
        created_at=instant(row[5]),
        updated_at=instant(row[6]),
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
        description=json.loads(row[2]),
        status=json.loads(row[3]),
        priority=json.loads(row[4]),
        created_at=instant(row[5]),
    )


def memory_params(memory: Memory) -> Params:
    return {
        "agent_id": memory.agent_id,
        "key": memory.key,
        "value": dumps(memory.value),
        "updated_at": micros(memory.updated_at),
    }


def memory(row: Row) -> Memory:
    return Memory(agent_id=row[0], key=row[1], value=json.loads(row[2]), updated_at=instant(row[3]))


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
        name=json.loads(row[2]),
        instruction=json.loads(row[3]),
        next_run_at=instant(row[4]),
        cron=None if row[5] is None else json.loads(row[5]),
        timezone=None if row[6] is None else json.loads(row[6]),
        created_at=instant(row[7]),
    )
