"""Agents, what they keep in mind, and events of their inboxes as JSON on the wire (API §3)."""

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.inbox import InboxEvent


def agent_json(agent: Agent, config: JSONObject | None = None) -> JSONObject:
    """`{id, agentId, entityId, name, description, type, config?}`; `config` of one that was configured as JSON."""
    shown: JSONObject = {
        "id": agent.id,
        "agentId": agent.id,
        "entityId": agent.entity_id,
        "name": agent.name,
        "description": agent.description,
        "type": agent.type,
    }
    return shown if config is None else {**shown, "config": config}


def goal_json(goal: Goal) -> JSONObject:
    """`{id, description, status, priority}`."""
    return {
        "id": goal.id,
        "description": goal.description,
        "status": goal.status,
        "priority": goal.priority,
    }


def memory_json(memory: Memory) -> JSONObject:
    """`{key, value}`."""
    return {"key": memory.key, "value": memory.value}


def plan_json(plan: Plan) -> JSONObject:
    """`{id, name, instruction, nextRunAt, cron?, timezone?}`."""
    shown: JSONObject = {
        "id": plan.id,
        "name": plan.name,
        "instruction": plan.instruction,
        "nextRunAt": plan.next_run_at.isoformat(),
    }
    optional: JSONObject = {"cron": plan.cron, "timezone": plan.timezone}
    return shown | {name: value for name, value in optional.items() if value is not None}


def inbox_json(event: InboxEvent) -> JSONObject:
    """`{eventId, type, status, attempts, data, timestamp}`."""
    return {
        "eventId": event.event_id,
        "type": event.type,
        "status": event.status,
        "attempts": event.attempts,
        "data": event.content,
        "timestamp": event.created_at.isoformat(),
    }
