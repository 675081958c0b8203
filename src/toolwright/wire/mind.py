"""What agents keep in mind as JSON on the wire (API §3): what the routes and the built-in tools show."""

from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.json_value import JSONObject


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
