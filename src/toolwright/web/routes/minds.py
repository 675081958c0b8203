"""Routes of the goals, memories and plans of agents."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Self, TypeVar

from fastapi import Depends, Path
from pydantic import Field, model_validator

from toolwright.core.agents.mind import (
    LONGEST_ID,
    LONGEST_NAME,
    LONGEST_SCHEDULE,
    LONGEST_TEXT,
    MOST_GOALS,
    MOST_MEMORIES,
    MOST_PLANS,
    GoalChange,
    MemoryChange,
    PlanChange,
)
from toolwright.core.limits import PageLimit
from toolwright.web.answers import ApiResponse, Deleted, ListShape, answer, answers, listed
from toolwright.web.dependencies import Service
from toolwright.web.requests.body import RequestForm, described, errors_at, reads
from toolwright.web.requests.query import Id, Limit, Offset, Person, StorableText
from toolwright.web.routes.router import noun
from toolwright.web.serving import AtWork
from toolwright.wire.agent import Goal, Memory, Plan, goal_json, memory_json, plan_json

router = noun("/api/agents/{agent_id}", "agents")
F = TypeVar("F", bound=RequestForm)

ItemId = Annotated[StorableText, Field(max_length=LONGEST_ID)]
Text = Annotated[StorableText, Field(max_length=LONGEST_TEXT)]
ShortText = Annotated[StorableText, Field(max_length=LONGEST_NAME)]
Time = Annotated[StorableText, Field(max_length=LONGEST_SCHEDULE)]
Key = Annotated[StorableText, Path(description="The key, percent-encoded.")]


class GoalList(ListShape):
    """Goals, oldest first."""

    goals: list[Goal]


class MemoryList(ListShape):
    """Memories, by key."""

    memories: list[Memory]


class PlanList(ListShape):
    """Plans, soonest first."""

    plans: list[Plan]


class NewGoal(RequestForm):
    """A goal to create or update. Omitted fields are unchanged. A new goal needs a description."""

    id: ItemId | None = Field(None, description="The goal to update; omit it to create a new goal.")
    description: Text | None = None
    status: ShortText | None = None
    priority: ShortText | None = None

    def change(self) -> GoalChange:
        """Return the requested change."""
        return GoalChange(**{name: getattr(self, name) for name in NewGoal.model_fields})


class NewGoals(NewGoal):
    """Several goals, or the fields of a single goal."""

    goals: Annotated[list[NewGoal], Field(max_length=MOST_GOALS)] | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        return _list_or_one(self, "goals")

    def changes(self) -> list[GoalChange]:
        """Return the requested changes."""
        return [each.change() for each in ([self] if self.goals is None else self.goals)]


class NewMemory(RequestForm):
    """A memory to store. It replaces a memory with the same key."""

    key: ShortText
    value: Text

    def change(self) -> MemoryChange:
        """Return the requested change."""
        return MemoryChange(key=self.key, value=self.value)


class NewMemories(RequestForm):
    """Several memories, or the key and value of a single memory."""

    memories: Annotated[list[NewMemory], Field(max_length=MOST_MEMORIES)] | None = None
    key: ShortText | None = None
    value: Text | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.memories is None and (self.key is None or self.value is None):
            raise ValueError("must have either memories or the key and the value of one")
        return _list_or_one(self, "memories")

    def changes(self) -> list[MemoryChange]:
        """Return the requested changes."""
        if self.memories is None:
            return [MemoryChange(key=self.key or "", value=self.value or "")]
        return [each.change() for each in self.memories]


class NewPlan(RequestForm):
    """A plan to create or update. Omitted fields are unchanged.

    A new plan needs a name, an instruction, and one of runAfter, scheduledAt and cron.
    """

    id: ItemId | None = Field(None, description="The plan to update; omit it to create a new plan.")
    name: ShortText | None = None
    instruction: Text | None = Field(
        None, description="The instruction that the agent receives when the plan is due."
    )
    run_after: int | float | Time | None = Field(
        None, description="Once, after milliseconds or a text such as '5 hours' or '1h30m'."
    )
    scheduled_at: Time | None = Field(
        None, description="Once, at this time: ISO 8601 with an offset, or with a timezone."
    )
    cron: Time | None = Field(
        None, description="Repeatedly: minute, hour, day of month, month, day of week, or '@daily'."
    )
    timezone: Time | None = Field(
        None,
        description="The IANA time zone of cron, or of scheduledAt without an offset. The default is UTC.",
    )

    def change(self) -> PlanChange:
        """Return the requested change."""
        return PlanChange(**{name: getattr(self, name) for name in NewPlan.model_fields})


class NewPlans(NewPlan):
    """Several plans, or the fields of a single plan."""

    plans: Annotated[list[NewPlan], Field(max_length=MOST_PLANS)] | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        return _list_or_one(self, "plans")

    def changes(self) -> list[PlanChange]:
        """Return the requested changes."""
        return [each.change() for each in ([self] if self.plans is None else self.plans)]


def _list_or_one(form: F, plural: str) -> F:
    others = form.model_fields_set - {plural}
    if (getattr(form, plural) is not None) == bool(others):
        raise ValueError(f"must have either {plural} or the fields of one")
    return form


def _errors_of_one(plural: str, items: Sequence[RequestForm] | None) -> AbstractContextManager[None]:
    """Report errors of a body that is a single item at its fields, without an item index."""
    return errors_at(f"{plural}.0", "") if items is None else nullcontext()


@router.get("/goals", responses=answers(GoalList, "The goals.", errors=(404,)))
async def list_goals(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> ApiResponse:
    """List the agent's goals, oldest first."""
    return listed("goals", await runtime.minds.goals(agent_id, limit, offset, user_id=user_id), goal_json)


@router.post(
    "/goals",
    responses=answers(GoalList, "All goals after the change.", errors=(404, 413)),
    openapi_extra=described(NewGoals),
)
async def set_goals(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    new: Annotated[NewGoals, Depends(reads(NewGoals))],
    user_id: Person = None,
) -> ApiResponse:
    """Create and update goals: all of them, or none if one is invalid."""
    with _errors_of_one("goals", new.goals):
        return listed(
            "goals", await runtime.minds.set_goals(agent_id, new.changes(), user_id=user_id), goal_json
        )


@router.delete("/goals/{goal_id}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_goal(
    _: Service, runtime: AtWork, agent_id: Id, goal_id: Id, user_id: Person = None
) -> ApiResponse:
    """Delete a goal."""
    await runtime.minds.drop_goal(agent_id, goal_id, user_id=user_id)
    return answer({"success": True})


@router.get("/memories", responses=answers(MemoryList, "The memories.", errors=(404,)))
async def list_memories(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> ApiResponse:
    """List the agent's memories by key."""
    return listed(
        "memories", await runtime.minds.memories(agent_id, limit, offset, user_id=user_id), memory_json
    )


@router.post(
    "/memories",
    responses=answers(MemoryList, "All memories after the change.", errors=(404, 413)),
    openapi_extra=described(NewMemories),
)
async def set_memories(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    new: Annotated[NewMemories, Depends(reads(NewMemories))],
    user_id: Person = None,
) -> ApiResponse:
    """Store memories of the agent by key: all of them, or none if one is invalid."""
    with _errors_of_one("memories", new.memories):
        return listed(
            "memories",
            await runtime.minds.set_memories(agent_id, new.changes(), user_id=user_id),
            memory_json,
        )


@router.delete("/memories/{key:text}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_memory(
    _: Service, runtime: AtWork, agent_id: Id, key: Key, user_id: Person = None
) -> ApiResponse:
    """Delete a memory."""
    await runtime.minds.drop_memory(agent_id, key, user_id=user_id)
    return answer({"success": True})


@router.get("/plans", responses=answers(PlanList, "The plans.", errors=(404,)))
async def list_plans(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> ApiResponse:
    """List the agent's plans, soonest first."""
    return listed("plans", await runtime.minds.plans(agent_id, limit, offset, user_id=user_id), plan_json)


@router.post(
    "/plans",
    responses=answers(PlanList, "All plans after the change.", errors=(404, 413)),
    openapi_extra=described(NewPlans),
)
async def set_plans(
    _: Service, runtime: AtWork, agent_id: Id, new: Annotated[NewPlans, Depends(reads(NewPlans))]
) -> ApiResponse:
    """Create and update plans: all of them, or none if one is invalid."""
    with _errors_of_one("plans", new.plans):
        return listed("plans", await runtime.minds.set_plans(agent_id, new.changes()), plan_json)


@router.delete("/plans/{plan_id}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_plan(
    _: Service, runtime: AtWork, agent_id: Id, plan_id: Id, user_id: Person = None
) -> ApiResponse:
    """Delete a plan."""
    await runtime.minds.drop_plan(agent_id, plan_id, user_id=user_id)
    return answer({"success": True})
