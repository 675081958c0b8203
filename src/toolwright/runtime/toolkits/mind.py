"""The toolkit `mind`: what an agent sets itself as goals, remembers and plans (S3 built-in tools).

Everything in one call is done or nothing is. What was changed by another run of the agent meanwhile is written over.
No more is kept than may be, however many write at once: that is checked in the commit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from toolwright.core.agents.mind import (
    MOST_GOALS,
    MOST_MEMORIES,
    MOST_PLANS,
    Goal,
    GoalChange,
    Memory,
    MemoryChange,
    Plan,
    PlanChange,
    changed_goals,
    changed_memories,
    changed_plans,
    in_order_of_time,
)
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.effects import (
    CheckMind,
    DropGoal,
    DropMemory,
    DropPlan,
    SetGoal,
    SetMemory,
    SetPlan,
)
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.results.result import ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief
from toolwright.core.tools.tool import Tool
from toolwright.runtime.agents.minds import check_mind, refuse_homeless
from toolwright.runtime.toolkits.builtins import BuiltinState, builtin, call_item_id, within_run
from toolwright.wire.agent import goal_json, memory_json, plan_json


class GivenGoal(BaseModel):
    """A goal."""

    id: str | None = Field(default=None, description="The goal to change; without one, a new goal is made.")
    description: str | None = Field(default=None, description="What is wanted. A new goal needs it.")
    status: str | None = Field(default=None, description="How far it is, such as 'active' or 'done'.")
    priority: str | None = Field(default=None, description="How much it matters, such as 'high'.")

    @property
    def change(self) -> GoalChange:
        """What it says."""
        return GoalChange(**self.model_dump())


class GivenMemory(BaseModel):
    """A memory."""

    key: str = Field(description="What it is about; an existing one is replaced.")
    value: str = Field(description="What is to be remembered.")

    @property
    def change(self) -> MemoryChange:
        """What it says."""
        return MemoryChange(key=self.key, value=self.value)


class GivenPlan(BaseModel):
    """A plan."""

    model_config = ConfigDict(alias_generator=to_camel)

    id: str | None = Field(default=None, description="The plan to change; without one, a new plan is made.")
    name: str | None = Field(default=None, description="A short name. A new plan needs it.")
    instruction: str | None = Field(
        default=None, description="What you will be told when it runs. A new plan needs it."
    )
    run_after: int | float | str | None = Field(
        default=None, description="Run once, after milliseconds or a text such as '5 hours' or '1h30m'."
    )
    scheduled_at: str | None = Field(
        default=None, description="Run once, at this instant: ISO 8601 with an offset, or with a timezone."
    )
    cron: str | None = Field(
        default=None,
        description="Run again and again: minute, hour, day of month, month, day of week, or '@daily'.",
    )
    timezone: str | None = Field(
        default=None,
        description="The IANA time zone of cron, or of scheduledAt without an offset; else it is UTC.",
    )

    @property
    def change(self) -> PlanChange:
        """What it says."""
        return PlanChange(**self.model_dump())


def there(what: str, ids: Sequence[str], items: Mapping[str, object]) -> None:
    """Refuse to delete what is not there."""
    missing = [each for each in ids if each not in items]
    if missing:
        names = brief(", ".join(map(repr, missing)), 200)
        raise InvalidRequest(f"There is no {what} {names}: nothing was deleted.")


class MindToolkit:
    """The seven tools, over the minds that are in a journal."""

    def __init__(self, store: Store) -> None:
        self._minds = store.agents
        self.tools: tuple[Tool, ...] = tuple(
            builtin(each)
            for each in (
                self.set_goals,
                self.delete_goals,
                self.set_memories,
                self.delete_memories,
                self.set_plans,
                self.delete_plans,
                self.get_plans,
            )
        )

    # ── the tools ───────────────────────────────────────────────────────────────────────────────────────────

    async def set_goals(self, state: ThreadState, goals: list[GivenGoal]) -> ToolResult:
        """Make new goals for yourself, or change some: what you leave out stays as it is. Answers with all goals."""
        return await within_run(state, lambda run: self._set_goals(run, goals))

    async def delete_goals(self, state: ThreadState, ids: list[str]) -> ToolResult:
        """Give up goals, by their ids. Answers with those that are left."""
        return await within_run(state, lambda run: self._delete_goals(run, ids))

    async def set_memories(self, state: ThreadState, memories: list[GivenMemory]) -> ToolResult:
        """Remember values by key, also in later runs; a key that is there gets the new value. Answers with all."""
        return await within_run(state, lambda run: self._set_memories(run, memories))

    async def delete_memories(self, state: ThreadState, keys: list[str]) -> ToolResult:
        """Forget memories, by their keys. Answers with those that are left."""
        return await within_run(state, lambda run: self._delete_memories(run, keys))

    async def set_plans(self, state: ThreadState, plans: list[GivenPlan]) -> ToolResult:
        """Plan to be told an instruction later, once (runAfter or scheduledAt) or repeatedly (cron), or change
        plans: what you leave out stays as it is. Answers with all plans, the next one first.
        """
        return await within_run(state, lambda run: self._set_plans(run, plans))

    async def delete_plans(self, state: ThreadState, ids: list[str]) -> ToolResult:
        """Give up plans, by their ids. Answers with those that are left, the next one first."""
        return await within_run(state, lambda run: self._delete_plans(run, ids))

    async def get_plans(self, state: ThreadState) -> ToolResult:
        """Your plans, the next one first."""
        return await within_run(state, self._get_plans)

    # ── goals ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _goals(self, run: BuiltinState, keeper: str) -> dict[str, Goal]:
        return {goal.id: goal for goal in await run.retry_until_available(lambda: self._minds.goals(keeper))}

    async def _set_goals(self, run: BuiltinState, goals: Sequence[GivenGoal]) -> JSON:
        keeper = (await run.reach()).keeper
        kept = await self._goals(run, keeper)
        changes = [each.change for each in goals]
        new = changed_goals(kept, changes, keeper, _new_id("goal", run), run.clock.now())

        async def checked() -> CheckMind:
            again = changed_goals(
                {goal.id: goal for goal in await self._minds.goals(keeper)}, changes, keeper,
                _new_id("goal", run), run.clock.now(),
            )  # fmt: skip
            return check_mind(keeper, "goals", again, MOST_GOALS)

        run.speak(checked)
        for goal in new.values():
            run.effect(SetGoal(goal=goal))
        return {"goals": [goal_json(goal) for goal in (kept | new).values()]}

    async def _delete_goals(self, run: BuiltinState, ids: Sequence[str]) -> JSON:
        keeper = (await run.reach()).keeper
        kept = await self._goals(run, keeper)
        there("goal", ids, kept)
        for goal_id in dict.fromkeys(ids):
            run.effect(DropGoal(agent_id=keeper, id=goal_id))
        return {"goals": [goal_json(goal) for goal in kept.values() if goal.id not in ids]}

    # ── memories ────────────────────────────────────────────────────────────────────────────────────────────

    async def _memories(self, run: BuiltinState, keeper: str) -> dict[str, Memory]:
        return {
            each.key: each for each in await run.retry_until_available(lambda: self._minds.memories(keeper))
        }

    async def _set_memories(self, run: BuiltinState, memories: Sequence[GivenMemory]) -> JSON:
        keeper = (await run.reach()).keeper
        kept = await self._memories(run, keeper)
        new = changed_memories(kept, [each.change for each in memories], keeper, run.clock.now())

        async def checked() -> CheckMind:
            again = changed_memories(
                {each.key: each for each in await self._minds.memories(keeper)},
                [each.change for each in memories], keeper, run.clock.now(),
            )  # fmt: skip
            return check_mind(keeper, "memories", [run.clean(key) for key in again], MOST_MEMORIES)

        run.speak(checked)
        for memory in new.values():
            run.effect(SetMemory(memory=memory))
        return _memories_json((kept | new).values())

    async def _delete_memories(self, run: BuiltinState, keys: Sequence[str]) -> JSON:
        keeper = (await run.reach()).keeper
        kept = await self._memories(run, keeper)
        there("memory", keys, kept)
        for each in dict.fromkeys(keys):
            run.effect(DropMemory(agent_id=keeper, key=each))
        return _memories_json([memory for memory in kept.values() if memory.key not in keys])

    # ── plans ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _plans(self, run: BuiltinState, keeper: str) -> dict[str, Plan]:
        return {plan.id: plan for plan in await run.retry_until_available(lambda: self._minds.plans(keeper))}

    async def _set_plans(self, run: BuiltinState, plans: Sequence[GivenPlan]) -> JSON:
        reach = await run.reach()
        keeper, thread_id = reach.plans, None
        if plans and reach.person is None:
            refuse_homeless(run.missing_home_tenvs)
        elif plans:
            thread_id = _woken(run)
        kept = await self._plans(run, keeper)
        changes = [each.change for each in plans]
        new = changed_plans(kept, changes, keeper, _new_id("plan", run), run.clock.now(), thread_id)

        async def checked() -> CheckMind:
            again = changed_plans(
                {plan.id: plan for plan in await self._minds.plans(keeper)}, changes, keeper,
                _new_id("plan", run), run.clock.now(), thread_id,
            )  # fmt: skip
            return check_mind(keeper, "plans", again, MOST_PLANS)

        run.speak(checked)
        for plan in new.values():
            run.effect(SetPlan(plan=plan))
        return _plans_json((kept | new).values())

    async def _delete_plans(self, run: BuiltinState, ids: Sequence[str]) -> JSON:
        keeper = (await run.reach()).plans
        kept = await self._plans(run, keeper)
        there("plan", ids, kept)
        for plan_id in dict.fromkeys(ids):
            run.effect(DropPlan(agent_id=keeper, id=plan_id))
        return _plans_json([plan for plan in kept.values() if plan.id not in ids])

    async def _get_plans(self, run: BuiltinState) -> JSON:
        return _plans_json((await self._plans(run, (await run.reach()).plans)).values())


def _woken(run: BuiltinState) -> str:
    """Return the id of the person's thread that their plans wake."""
    if run.thread.parent_id is not None:
        raise InvalidRequest(
            "In this thread no plans can be made: it is a child of a person's thread. Plans wake the thread that they "
            "are made in, so make them there."
        )
    return run.thread.id


def _new_id(prefix: str, run: BuiltinState) -> Callable[[int], str]:
    """Id of the `n`th item that the call makes, which is the same when the call is made again."""
    return lambda n: call_item_id(prefix, run.call_id, n)


def _memories_json(memories: Iterable[Memory]) -> JSON:
    return {"memories": [memory_json(each) for each in sorted(memories, key=lambda one: one.key)]}


def _plans_json(plans: Iterable[Plan]) -> JSON:
    return {"plans": [plan_json(each) for each in in_order_of_time(plans)]}
