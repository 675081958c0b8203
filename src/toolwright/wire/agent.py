"""Agents as JSON on the wire (API §3)."""

from toolwright.core.agent import Agent
from toolwright.core.json_value import JSONObject


def agent_json(agent: Agent) -> JSONObject:
    """`{id, agentId, entityId, name, description, type}`."""
    return {
        "id": agent.id,
        "agentId": agent.id,
        "entityId": agent.entity_id,
        "name": agent.name,
        "description": agent.description,
        "type": agent.type,
    }
