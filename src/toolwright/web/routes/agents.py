"""The agents of the app."""

from fastapi import APIRouter

from toolwright.web.answer import Answer, answer, listed
from toolwright.web.callers import Service
from toolwright.web.fields import Id, Limit, Offset
from toolwright.web.serving import AtWork
from toolwright.web.shapes import AgentAnswer, AgentList, answers
from toolwright.wire.agent import agent_json

router = APIRouter(prefix="/api/agents", tags=["agents"])


@router.get("", responses=answers(AgentList, "The agents."))
async def list_agents(_: Service, runtime: AtWork, limit: Limit = 1_000, offset: Offset = 0) -> Answer:
    """All agents, in the order of their declaration."""
    return listed("agents", [agent_json(agent) for agent in await runtime.agents.list(limit, offset)])


@router.get("/{agent_id}", responses=answers(AgentAnswer, "The agent.", errors=(404,)))
async def get_agent(_: Service, runtime: AtWork, agent_id: Id) -> Answer:
    """One agent, by its name or id."""
    agent = await runtime.agents.get(agent_id)
    return answer({"agent": agent_json(agent), "agentId": agent.id, "entityId": agent.entity_id})
