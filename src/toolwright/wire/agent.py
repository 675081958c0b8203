"""Agents as JSON on the wire (API §3)."""

from toolwright.core.agents.agent import Agent
from toolwright.core.json_value import JSONObject


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
