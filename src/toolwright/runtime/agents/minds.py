"""Minds: what agents keep as goals, memories and plans, read and written from outside their runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

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
from toolwright.core.broken_rows import Rows, all_of, broken_of, sliced
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.effects import (
    CheckMind,
    DropGoal,
    DropMemory,
    DropPlan,
    Effect,
    MindKind,
    SetGoal,
    SetMemory,
    SetPlan,
)
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict
from toolwright.core.ports import Clock, NewId
from toolwright.core.text import brief, sentence
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.keepers import Keepers
from toolwright.runtime.checks import by_list, page
from toolwright.runtime.journal import EffectCommits

T = TypeVar("T")


class Minds:
    """Goals, memories and plans of an agent, by its name or id. Raises `NotFound` for an agent that is not there.

    What is set is held to the rules of the toolkit `mind` (`core.agents.mind`): all of it is done, or nothing is, with
    `InvalidRequest`. What has changed since it was read is read again first, so that nobody's change is lost.

    All of it is the agent's own; with a `user_id` (an entity's id or external id, or the user of a thread) it is what
    the agent keeps for that person.
    """

    def __init__(
        self,
        store: Store,
        agents: Agents,
        keepers: Keepers,
        effect_commits: EffectCommits,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._minds = store.agents
        self._agents = agents
        self._keepers = keepers
        self._effect_commits = effect_commits
        self._clock = clock
        self._new_id = new_id

    async def goals(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Goal]:
        """Its goals, the oldest first."""
        page(limit, offset)
        return sliced(await self._minds.goals(await self._keepers.of(agent, user_id)), limit, offset)

    async def set_goals(
        self, agent: str, changes: Sequence[GoalChange], *, user_id: str | None = None
    ) -> Sequence[Goal]:
        """Make goals and change some: all its goals then, the oldest first."""
        by_list("changes", changes, GoalChange, "GoalChange values")
        agent_id = await self._keepers.of(agent, user_id)
        while True:
            rows = await self._minds.goals(agent_id)
            kept = {goal.id: goal for goal in rows}
            new = changed_goals(kept, changes, agent_id, lambda _: self._new_id("goal"), self._clock.now())
            effects = [SetGoal(goal=goal) for goal in new.values()]
            if await self._set(check_mind(agent_id, "goals", new, MOST_GOALS, kept), effects):
                return Rows([*(kept | new).values()], broken_of(rows))

    async def drop_goal(self, agent: str, goal_id: str, *, user_id: str | None = None) -> None:
        """Have it give up a goal. Raises `NotFound` if it is not there."""
        agent_id = await self._keepers.of(agent, user_id)
        rows = await self._minds.goals(agent_id)
        _require_existing("goal", goal_id, rows, {goal.id: goal for goal in rows})
        await self._commit([DropGoal(agent_id=agent_id, id=goal_id)])

    async def memories(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Memory]:
        """Its memories, by key."""
        page(limit, offset)
        return sliced(await self._minds.memories(await self._keepers.of(agent, user_id)), limit, offset)

    async def set_memories(
        self, agent: str, changes: Sequence[MemoryChange], *, user_id: str | None = None
    ) -> Sequence[Memory]:
        """Have it remember values by key: all its memories then, by key."""
        by_list("changes", changes, MemoryChange, "MemoryChange values")
        agent_id = await self._keepers.of(agent, user_id)
        while True:
            rows = await self._minds.memories(agent_id)
            kept = {memory.key: memory for memory in rows}
            new = changed_memories(kept, changes, agent_id, self._clock.now())
            effects = [SetMemory(memory=memory) for memory in new.values()]
            if await self._set(check_mind(agent_id, "memories", new, MOST_MEMORIES, kept), effects):
                return Rows(sorted((kept | new).values(), key=lambda memory: memory.key), broken_of(rows))

    async def drop_memory(self, agent: str, key: str, *, user_id: str | None = None) -> None:
        """Have it forget a memory. Raises `NotFound` if it is not there."""
        agent_id = await self._keepers.of(agent, user_id)
        rows = await self._minds.memories(agent_id)
        _require_existing("memory", key, rows, {memory.key: memory for memory in rows})
        await self._commit([DropMemory(agent_id=agent_id, key=key)])

    async def plans(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Plan]:
        """Its plans, the next one first."""
        page(limit, offset)
        return sliced(await self._minds.plans(await self._keepers.of(agent, user_id)), limit, offset)

    async def set_plans(self, agent: str, changes: Sequence[PlanChange]) -> Sequence[Plan]:
        """Make plans and change some: all its plans then, the next one first.

        Raises `InvalidRequest` also for an agent that can have no home thread, in which plans are executed.
        """
        by_list("changes", changes, PlanChange, "PlanChange values")
        agent_id = (await self._agents.get(agent)).id
        if changes:
            refuse_homeless(await self._agents.missing_home_tenvs(agent_id))
        while True:
            rows = await self._minds.plans(agent_id)
            kept = {plan.id: plan for plan in rows}
            new = changed_plans(kept, changes, agent_id, lambda _: self._new_id("plan"), self._clock.now())
            effects = [SetPlan(plan=plan) for plan in new.values()]
            if await self._set(check_mind(agent_id, "plans", new, MOST_PLANS, kept), effects):
                return Rows(in_order_of_time((kept | new).values()), broken_of(rows))

    async def drop_plan(self, agent: str, plan_id: str, *, user_id: str | None = None) -> None:
        """Have it give up a plan. Raises `NotFound` if it is not there."""
        agent_id = await self._keepers.of(agent, user_id)
        rows = await self._minds.plans(agent_id)
        _require_existing("plan", plan_id, rows, {plan.id: plan for plan in rows})
        await self._commit([DropPlan(agent_id=agent_id, id=plan_id)])

    async def people(self, agent: str) -> Sequence[str]:
        """Return the ids of the people for whom the agent keeps something, up to 1,000."""
        return await self._keepers.people(agent)

    async def _set(self, check: CheckMind, effects: Sequence[Effect]) -> bool:
        """Commit the effects; return False if what they were made from has changed in the meantime."""
        return not effects or not isinstance(await self._effect_commits.commit(check, *effects), Conflict)

    async def _commit(self, effects: Sequence[Effect]) -> None:
        if effects:
            await self._effect_commits.commit(*effects)


def check_mind(
    agent_id: str,
    kind: MindKind,
    new: Iterable[str],
    most: int | None,
    seen: Mapping[str, object] | None = None,
) -> CheckMind:
    """Return the check of a unit that writes the rows `new`; see `CheckMind`."""
    keys = tuple(new)
    was = None if seen is None else {key: seen[key] for key in keys if key in seen}
    return CheckMind(agent_id=agent_id, kind=kind, keys=keys, most=most, seen=was)


def refuse_homeless(missing_home_tenvs: MissingTenvs) -> None:
    """Raise `InvalidRequest` for plans of an agent whose home thread would lack these values."""
    if missing_home_tenvs:
        raise InvalidRequest(
            sentence(
                "Plans are carried out in the agent's home thread, which cannot be: its tenvs are not what "
                f"its tools need: {missing_home_tenvs}"
            )
        )


def _require_existing(noun: str, name: str, rows: Sequence[T], items: Mapping[str, T]) -> None:
    """Raise `NotFound` for what is not there, `RowBroken` where it may be among what cannot be read."""
    if name not in items:
        all_of(rows)
        raise NotFound(f"There is no {noun} {brief(repr(name), 200)} of this agent.")
