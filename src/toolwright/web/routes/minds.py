"""What agents keep in mind."""

from toolwright.web.answers.answer import Answer, listed
from toolwright.web.answers.shapes import answers
from toolwright.web.callers import Service
from toolwright.web.requests.fields import Id, Limit, Offset
from toolwright.web.routes.router import noun
from toolwright.web.serving import AtWork
from toolwright.web.shapes.minds import GoalList, MemoryList, PlanList
from toolwright.wire.mind import goal_json, memory_json, plan_json

router = noun("/api/agents/{agent_id}", "agents")


@router.get("/goals", responses=answers(GoalList, "The goals.", errors=(404,)))
async def list_goals(
    _: Service, runtime: AtWork, agent_id: Id, limit: Limit = 1_000, offset: Offset = 0
) -> Answer:
    """What the agent wants, the oldest first."""
    found = await runtime.minds.goals(agent_id, limit, offset)
    return listed("goals", found, goal_json)


@router.get("/memories", responses=answers(MemoryList, "The memories.", errors=(404,)))
async def list_memories(
    _: Service, runtime: AtWork, agent_id: Id, limit: Limit = 1_000, offset: Offset = 0
) -> Answer:
    """What the agent remembers, by key."""
    found = await runtime.minds.memories(agent_id, limit, offset)
    return listed("memories", found, memory_json)


@router.get("/plans", responses=answers(PlanList, "The plans.", errors=(404,)))
async def list_plans(
    _: Service, runtime: AtWork, agent_id: Id, limit: Limit = 1_000, offset: Offset = 0
) -> Answer:
    """What the agent has planned, the next one first."""
    found = await runtime.minds.plans(agent_id, limit, offset)
    return listed("plans", found, plan_json)
