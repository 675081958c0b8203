"""Routes of the goals, memories, plans and memory blocks of agents, and of archival passages."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Literal, Self, TypeVar

from fastapi import Path, Query
from pydantic import Field, model_validator

from toolwright.core.agents.memory import (
    MAX_BLOCK,
    MAX_LINKED,
    MAX_PASSAGE,
    MAX_QUERY,
    MAX_TAG,
    MAX_TAGS,
)
from toolwright.core.agents.memory import Block as BlockRow
from toolwright.core.agents.memory import Passage as PassageRow
from toolwright.core.agents.mind import (
    MAX_GOALS,
    MAX_ID,
    MAX_MEMORIES,
    MAX_PLANS,
    MAX_SCHEDULE,
    MAX_TEXT,
    GoalChange,
    MemoryChange,
    PlanChange,
)
from toolwright.core.agents.mind import Goal as GoalRow
from toolwright.core.agents.mind import Memory as MemoryRow
from toolwright.core.agents.mind import Plan as PlanRow
from toolwright.core.limits import MAX_NAME, PageLimit
from toolwright.web.answers import Deleted, ListShape, failures
from toolwright.web.dependencies import AtWork, Service
from toolwright.web.requests import (
    Id,
    Limit,
    Offset,
    Person,
    Reference,
    RequestBody,
    StorableText,
    errors_at,
)
from toolwright.web.route import noun
from toolwright.wire.agent import (
    Block,
    Goal,
    Memory,
    Passage,
    Plan,
)
from toolwright.wire.rendering import GIVEN, Itself
from toolwright.wire.shape import Shape

router = noun("/api/agents/{agent_id}", "agents")
F = TypeVar("F", bound=RequestBody)

ItemId = Annotated[StorableText, Field(max_length=MAX_ID)]
Text = Annotated[StorableText, Field(max_length=MAX_TEXT)]
ShortText = Annotated[StorableText, Field(max_length=MAX_NAME)]
Time = Annotated[StorableText, Field(max_length=MAX_SCHEDULE)]
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


class NewGoal(RequestBody):
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

    goals: Annotated[list[NewGoal], Field(max_length=MAX_GOALS)] | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        return _list_or_one(self, "goals")

    def changes(self) -> list[GoalChange]:
        """Return the requested changes."""
        return [each.change() for each in ([self] if self.goals is None else self.goals)]


class NewMemory(RequestBody):
    """A memory to store. It replaces a memory with the same key."""

    key: ShortText
    value: Text

    def change(self) -> MemoryChange:
        """Return the requested change."""
        return MemoryChange(key=self.key, value=self.value)


class NewMemories(RequestBody):
    """Several memories, or the key and value of a single memory."""

    memories: Annotated[list[NewMemory], Field(max_length=MAX_MEMORIES)] | None = None
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


class NewPlan(RequestBody):
    """A plan to create or update. Omitted fields are unchanged.

    A new plan needs a name, an instruction, and one of runAfter, scheduledAt and cron.
    """

    id: ItemId | None = Field(
        None, description="The plan to update; without it, the plan with that name, or a new one."
    )
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

    plans: Annotated[list[NewPlan], Field(max_length=MAX_PLANS)] | None = None

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


def _errors_of_one(plural: str, items: Sequence[RequestBody] | None) -> AbstractContextManager[None]:
    """Report errors of a body that is a single item at its fields, without an item index."""
    return errors_at(f"{plural}.0", "") if items is None else nullcontext()


@router.get("/goals", response_description="The goals.", responses=failures(404))
async def list_goals(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> Annotated[Sequence[GoalRow], GoalList]:
    """List the agent's goals, oldest first."""
    return await runtime.minds.goals(agent_id, limit, offset, user_id=user_id)


@router.post("/goals", response_description="All goals after the change.", responses=failures(404, 413))
async def set_goals(
    _: Service, runtime: AtWork, agent_id: Id, new: NewGoals, user_id: Person = None
) -> Annotated[Sequence[GoalRow], GoalList]:
    """Create and update goals: all of them, or none if one is invalid."""
    with _errors_of_one("goals", new.goals):
        return await runtime.minds.set_goals(agent_id, new.changes(), user_id=user_id)


@router.delete("/goals/{goal_id}", response_description="Deleted.", responses=failures(404))
async def delete_goal(
    _: Service, runtime: AtWork, agent_id: Id, goal_id: Id, user_id: Person = None
) -> Annotated[None, Deleted]:
    """Delete a goal."""
    await runtime.minds.drop_goal(agent_id, goal_id, user_id=user_id)


@router.get("/memories", response_description="The memories.", responses=failures(404))
async def list_memories(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> Annotated[Sequence[MemoryRow], MemoryList]:
    """List the agent's memories by key."""
    return await runtime.minds.memories(agent_id, limit, offset, user_id=user_id)


@router.post("/memories", response_description="All memories after the change.", responses=failures(404, 413))
async def set_memories(
    _: Service, runtime: AtWork, agent_id: Id, new: NewMemories, user_id: Person = None
) -> Annotated[Sequence[MemoryRow], MemoryList]:
    """Store memories of the agent by key: all of them, or none if one is invalid."""
    with _errors_of_one("memories", new.memories):
        return await runtime.minds.set_memories(agent_id, new.changes(), user_id=user_id)


@router.delete("/memories/{key:text}", response_description="Deleted.", responses=failures(404))
async def delete_memory(
    _: Service, runtime: AtWork, agent_id: Id, key: Key, user_id: Person = None
) -> Annotated[None, Deleted]:
    """Delete a memory."""
    await runtime.minds.drop_memory(agent_id, key, user_id=user_id)


@router.get("/plans", response_description="The plans.", responses=failures(404))
async def list_plans(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> Annotated[Sequence[PlanRow], PlanList]:
    """List the agent's plans, soonest first."""
    return await runtime.minds.plans(agent_id, limit, offset, user_id=user_id)


@router.post("/plans", response_description="All plans after the change.", responses=failures(404, 413))
async def set_plans(
    _: Service, runtime: AtWork, agent_id: Id, new: NewPlans
) -> Annotated[Sequence[PlanRow], PlanList]:
    """Create and update plans: all of them, or none if one is invalid."""
    with _errors_of_one("plans", new.plans):
        return await runtime.minds.set_plans(agent_id, new.changes())


@router.delete("/plans/{plan_id}", response_description="Deleted.", responses=failures(404))
async def delete_plan(
    _: Service, runtime: AtWork, agent_id: Id, plan_id: Id, user_id: Person = None
) -> Annotated[None, Deleted]:
    """Delete a plan."""
    await runtime.minds.drop_plan(agent_id, plan_id, user_id=user_id)


Tag = Annotated[StorableText, Field(max_length=MAX_TAG)]
Label = Annotated[StorableText, Path(description="The label of the block, percent-encoded.")]


class BlockList(ListShape):
    """Blocks, by label."""

    blocks: list[Block]


class BlockAnswer(Shape):
    """One block."""

    block: Itself[Block]


class PassageList(ListShape):
    """Passages, newest first, or by rank if they were searched for."""

    passages: list[Passage]


class PassageAnswer(Shape):
    """One passage."""

    passage: Itself[Passage]


class Linked(Shape):
    """Confirmation that the reader can or can no longer read the block."""

    success: Annotated[Literal[True], GIVEN] = True


class NewBlock(RequestBody):
    """The content of a block."""

    content: Annotated[StorableText, Field(max_length=MAX_BLOCK, description="Up to 16 KiB in UTF-8.")]
    readers: Annotated[list[Reference], Field(max_length=MAX_LINKED)] = Field(
        [],
        description="Agents to share the block with, by name or id, in addition to those that already read it.",
    )


class NewPassage(RequestBody):
    """A passage to store."""

    content: Annotated[StorableText, Field(max_length=MAX_PASSAGE, description="Up to 64 KiB in UTF-8.")]
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = Field([])


@router.get("/memory", response_description="The blocks.", responses=failures(404))
async def list_blocks(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> Annotated[Sequence[BlockRow], BlockList]:
    """List the blocks that the agent reads, its own and those shared with it, by label."""
    return await runtime.blocks.list(agent_id, limit, offset, user_id=user_id)


@router.get("/memory/{label:text}", response_description="The block.", responses=failures(404))
async def get_block(
    _: Service, runtime: AtWork, agent_id: Id, label: Label, user_id: Person = None
) -> Annotated[BlockRow, BlockAnswer]:
    """Get the agent's own block with that label, or the block shared with it."""
    return await runtime.blocks.get(agent_id, label, user_id=user_id)


@router.put("/memory/{label:text}", response_description="The updated block.", responses=failures(404, 413))
async def write_block(
    _: Service, runtime: AtWork, agent_id: Id, label: Label, new: NewBlock, user_id: Person = None
) -> Annotated[BlockRow, BlockAnswer]:
    """Create the agent's block with that label, or replace its content."""
    return await runtime.blocks.write(agent_id, label, new.content, new.readers, user_id=user_id)


@router.delete("/memory/{label:text}", response_description="Deleted.", responses=failures(404))
async def delete_block(
    _: Service, runtime: AtWork, agent_id: Id, label: Label, user_id: Person = None
) -> Annotated[None, Deleted]:
    """Delete a block of the agent, including for the agents it is shared with."""
    await runtime.blocks.drop(agent_id, label, user_id=user_id)


@router.put(
    "/readers/{reader_id}/memory/{label:text}",
    response_description="The agent can read the block.",
    responses=failures(404),
)
async def link_block(
    _: Service, runtime: AtWork, agent_id: Id, reader_id: Id, label: Label
) -> Annotated[None, Linked]:
    """Share a block of this agent with another agent."""
    await runtime.blocks.link(agent_id, label, reader_id)


@router.delete(
    "/readers/{reader_id}/memory/{label:text}",
    response_description="The agent can no longer read the block.",
    responses=failures(404),
)
async def unlink_block(
    _: Service, runtime: AtWork, agent_id: Id, reader_id: Id, label: Label
) -> Annotated[None, Deleted]:
    """Stop sharing a block of this agent with another agent."""
    await runtime.blocks.unlink(agent_id, label, reader_id)


@router.get("/passages", response_description="The passages.", responses=failures(404))
async def list_passages(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    q: Annotated[
        StorableText | None,
        Query(max_length=MAX_QUERY, description="Words that the passages must contain."),
    ] = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
    user_id: Person = None,
) -> Annotated[Sequence[PassageRow], PassageList]:
    """List the agent's passages, newest first, or search them, best match first."""
    if q is None:
        return await runtime.passages.list(agent_id, limit, offset, user_id=user_id)
    with errors_at("query", "q"):
        return await runtime.passages.search(agent_id, q, limit, offset, user_id=user_id)


@router.post(
    "/passages", status_code=201, response_description="The new passage.", responses=failures(404, 413)
)
async def store_passage(
    _: Service, runtime: AtWork, agent_id: Id, new: NewPassage, user_id: Person = None
) -> Annotated[PassageRow, PassageAnswer]:
    """Store a passage in the agent's archive."""
    return await runtime.passages.add(agent_id, new.content, new.tags, user_id=user_id)


@router.get("/passages/{passage_id}", response_description="The passage.", responses=failures(404))
async def get_passage(
    _: Service, runtime: AtWork, agent_id: Id, passage_id: Id, user_id: Person = None
) -> Annotated[PassageRow, PassageAnswer]:
    """Get a passage of the agent."""
    return await runtime.passages.get(agent_id, passage_id, user_id=user_id)


@router.delete("/passages/{passage_id}", response_description="Deleted.", responses=failures(404))
async def delete_passage(
    _: Service, runtime: AtWork, agent_id: Id, passage_id: Id, user_id: Person = None
) -> Annotated[None, Deleted]:
    """Delete a passage."""
    await runtime.passages.drop(agent_id, passage_id, user_id=user_id)
