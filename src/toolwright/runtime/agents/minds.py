"""Minds: goals, memories and plans of agents. The service edits them here by the same rules as the toolkit `mind`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from toolwright.core.agents.agent import Reach
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
    by_next_run,
    changed_goals,
    changed_memories,
    changed_plans,
)
from toolwright.core.broken_rows import Rows, all_rows, broken_rows, sliced
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.effects import (
    CheckMind,
    Delete,
    DropPlan,
    Effect,
    MindKind,
    Put,
    SetPlan,
)
from toolwright.core.journal.units import Conflict
from toolwright.core.text import brief, sentence
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.core.value import Record
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.keepers import Keepers
from toolwright.runtime.checks import by_list, page
from toolwright.runtime.journal import EffectCommits, Services

T = TypeVar("T", bound=Record)
C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Generic[T]):
    """An edit of a mind: the new and changed items by key, all items after it, and the effects that write it."""

    new: Mapping[str, T]
    items: Sequence[T]
    effects: Sequence[Effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class MindItems(Generic[T, C]):
    """One kind of items in a mind: their class, how they are changed, ordered, written and deleted.

    `change` takes the items by key, the changes, the owner id, the id of the nth new item, and the time; it raises
    `InvalidRequest`. `keeper` selects the owner id of such items from what an agent reaches.
    """

    kind: MindKind
    noun: str
    most: int
    key: Callable[[T], str]
    record: type[T]
    change: Callable[[Mapping[str, T], Sequence[C], str, Callable[[int], str], datetime], dict[str, T]]
    order: Callable[[Iterable[T]], list[T]]
    put: Callable[[T], Effect]
    drop: Callable[[str, str], Effect]
    keeper: Callable[[Reach], str]

    def by_key(self, rows: Iterable[T]) -> dict[str, T]:
        """Return the items by key."""
        return {self.key(row): row for row in rows}

    def edit(
        self,
        rows: Iterable[T],
        changes: Sequence[C],
        keeper: str,
        new_id: Callable[[int], str],
        now: datetime,
    ) -> Edit[T]:
        """Apply the changes to the owner's rows. Raises `InvalidRequest` with the paths of invalid changes."""
        items = self.by_key(rows)
        new = self.change(items, changes, keeper, new_id, now)
        return Edit(
            new=new,
            items=self.order((items | new).values()),
            effects=[self.put(each) for each in new.values()],
        )


GOALS: MindItems[Goal, GoalChange] = MindItems(
    kind="goals",
    noun="goal",
    most=MOST_GOALS,
    key=lambda goal: goal.id,
    record=Goal,
    change=changed_goals,
    order=list,
    put=lambda goal: Put(record=goal),
    drop=lambda keeper, key: Delete(kind=Goal, key=(keeper, key)),
    keeper=lambda reach: reach.keeper,
)
MEMORIES: MindItems[Memory, MemoryChange] = MindItems(
    kind="memories",
    noun="memory",
    most=MOST_MEMORIES,
    key=lambda memory: memory.key,
    record=Memory,
    change=lambda kept, changes, keeper, _, now: changed_memories(kept, changes, keeper, now),
    order=lambda memories: sorted(memories, key=lambda memory: memory.key),
    put=lambda memory: Put(record=memory),
    drop=lambda keeper, key: Delete(kind=Memory, key=(keeper, key)),
    keeper=lambda reach: reach.keeper,
)


def plans_waking(thread_id: str | None) -> MindItems[Plan, PlanChange]:
    """Return the items for plans that wake this thread, or with None the agent's home thread."""
    return MindItems(
        kind="plans",
        noun="plan",
        most=MOST_PLANS,
        key=lambda plan: plan.id,
        record=Plan,
        change=lambda kept, changes, keeper, new_id, now: changed_plans(
            kept, changes, keeper, new_id, now, thread_id
        ),
        order=by_next_run,
        put=lambda plan: SetPlan(plan=plan),
        drop=lambda keeper, key: DropPlan(agent_id=keeper, id=key),
        keeper=lambda reach: reach.plans,
    )


PLANS = plans_waking(None)


class Minds:
    """Goals, memories and plans of an agent, by its name or id. Raises `NotFound` for an unknown agent.

    Changes follow the rules of the toolkit `mind` (`core.agents.mind`): they are all applied, or none is and
    `InvalidRequest` is raised. Items that have changed since they were read are re-read first, so that no concurrent
    change is lost.

    All items are the agent's own. With a `user_id` (an entity's id or external id, or the user of a thread) they are
    those that the agent stores for that person.
    """

    def __init__(
        self, services: Services, agents: Agents, keepers: Keepers, effect_commits: EffectCommits
    ) -> None:
        self._records = services.store.records
        self._agents = agents
        self._keepers = keepers
        self._effect_commits = effect_commits
        self._clock = services.clock
        self._new_id = services.new_id

    async def goals(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Goal]:
        """Return the agent's goals, the oldest first."""
        return await self._page(GOALS, agent, limit, offset, user_id)

    async def set_goals(
        self, agent: str, changes: Sequence[GoalChange], *, user_id: str | None = None
    ) -> Sequence[Goal]:
        """Create and change goals. Return all goals after that, the oldest first."""
        by_list("changes", changes, GoalChange, "GoalChange values")
        return await self._set(GOALS, await self._keepers.keeper_id(agent, user_id), changes)

    async def drop_goal(self, agent: str, goal_id: str, *, user_id: str | None = None) -> None:
        """Delete a goal. Raises `NotFound` if it does not exist."""
        await self._drop(GOALS, await self._keepers.keeper_id(agent, user_id), goal_id)

    async def memories(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Memory]:
        """Return the agent's memories, by key."""
        return await self._page(MEMORIES, agent, limit, offset, user_id)

    async def set_memories(
        self, agent: str, changes: Sequence[MemoryChange], *, user_id: str | None = None
    ) -> Sequence[Memory]:
        """Store values by key. Return all memories after that, by key."""
        by_list("changes", changes, MemoryChange, "MemoryChange values")
        return await self._set(MEMORIES, await self._keepers.keeper_id(agent, user_id), changes)

    async def drop_memory(self, agent: str, key: str, *, user_id: str | None = None) -> None:
        """Delete a memory. Raises `NotFound` if it does not exist."""
        await self._drop(MEMORIES, await self._keepers.keeper_id(agent, user_id), key)

    async def plans(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Plan]:
        """Return the agent's plans, soonest first."""
        return await self._page(PLANS, agent, limit, offset, user_id)

    async def set_plans(self, agent: str, changes: Sequence[PlanChange]) -> Sequence[Plan]:
        """Create and change plans. Return all plans after that, soonest first.

        Raises `InvalidRequest` also for an agent that cannot have a home thread, in which plans are executed.
        """
        by_list("changes", changes, PlanChange, "PlanChange values")
        agent_id = (await self._agents.get(agent)).id
        if changes:
            require_home_tenvs(await self._agents.missing_home_tenvs(agent_id))
        return await self._set(PLANS, agent_id, changes)

    async def drop_plan(self, agent: str, plan_id: str, *, user_id: str | None = None) -> None:
        """Delete a plan. Raises `NotFound` if it does not exist."""
        await self._drop(PLANS, await self._keepers.keeper_id(agent, user_id), plan_id)

    async def people(self, agent: str) -> Sequence[str]:
        """Return the ids of the people for whom the agent stores data, up to 1,000."""
        return await self._keepers.people(agent)

    async def _page(
        self, items: MindItems[T, C], agent: str, limit: int, offset: int, user_id: str | None
    ) -> Sequence[T]:
        page(limit, offset)
        rows = await self._records.list(items.record, await self._keepers.keeper_id(agent, user_id))
        return sliced(rows, limit, offset)

    async def _set(self, items: MindItems[T, C], keeper: str, changes: Sequence[C]) -> Sequence[T]:
        """Commit the changes, rebuilt if the items have changed in the meantime."""
        while True:
            rows = await self._records.list(items.record, keeper)
            edit = items.edit(rows, changes, keeper, lambda _: self._new_id(items.noun), self._clock.now())
            check = check_mind(keeper, items.kind, edit.new, items.most, items.by_key(rows))
            if not edit.effects or not isinstance(
                await self._effect_commits.commit(check, *edit.effects), Conflict
            ):
                return Rows(edit.items, broken_rows(rows))

    async def _drop(self, items: MindItems[T, C], keeper: str, key: str) -> None:
        """Delete an item. Raises `NotFound` if it does not exist, `RowBroken` if it can be among the broken rows."""
        rows = await self._records.list(items.record, keeper)
        if key not in items.by_key(rows):
            all_rows(rows)
            raise NotFound(f"There is no {items.noun} {brief(repr(key), 200)} of this agent.")
        await self._effect_commits.commit(items.drop(keeper, key))


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


def require_home_tenvs(missing_home_tenvs: MissingTenvs) -> None:
    """Raise `InvalidRequest` if the home thread that would run the plans is missing tenvs."""
    if missing_home_tenvs:
        raise InvalidRequest(
            sentence(
                "Plans run in the agent's home thread, which cannot be created. Its tenvs do not fit what its "
                f"tools require: {missing_home_tenvs}"
            )
        )
