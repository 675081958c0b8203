"""Minds: goals, memories and plans of agents, their owners' ids, and plans that are due."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from toolwright.core.agents.agent import Reach, agent_of_keeper, keeper_of, user_of_keeper
from toolwright.core.agents.mind import (
    MAX_GOALS,
    MAX_MEMORIES,
    MAX_PLANS,
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
    next_run,
)
from toolwright.core.checks import by_list, invalid_value
from toolwright.core.env.logs import logger
from toolwright.core.errors import InvalidRequest, NotFound, StoreError
from toolwright.core.journal.agent_effects import CheckMind, DropPlan, FirePlan, MindKind, SetPlan, SetTimer
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.rows import Delete, Put
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Committed, Conflict
from toolwright.core.json_value import JSONObject
from toolwright.core.text import brief, sentence
from toolwright.core.threads.inbox import ORIGIN, Delivery
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.core.value import Record, changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.inboxes import Deliveries
from toolwright.runtime.carried import Carried
from toolwright.runtime.journal import EffectCommits, Services, by_kind, can_be_id, page

T = TypeVar("T", bound=Record)
C = TypeVar("C")


async def person_of(store: Store, user_id: str) -> str:
    """Return the id of the person to whom a thread with that user belongs.

    This is the entity with that id or external id, or the user id itself if there is none.
    """
    if not can_be_id(user_id):
        return user_id
    entity = await store.entity(user_id) or await store.entity_by_external_id(user_id)
    return user_id if entity is None else entity.id


class Keepers:
    """Finds owner ids by the name or id of an agent, and by user. Raises `NotFound` for an unknown agent."""

    def __init__(self, store: Store, agents: Agents) -> None:
        self._store = store
        self._agents = agents

    async def keeper_id(self, agent: str, user_id: str | None = None) -> str:
        """Return the owner id of the agent's own data, or of its data for that user."""
        agent_id = (await self._agents.get(agent)).id
        if user_id is None:
            return agent_id
        by_kind("userId", user_id, str, "text")
        if not user_id:
            raise invalid_value("userId", "must not be empty; omit it for the agent's own")
        return keeper_of(agent_id, await person_of(self._store, user_id))

    async def people(self, agent: str) -> Sequence[str]:
        """Return the ids of the people for whom the agent stores data, up to 1,000."""
        keeper_ids = await self._store.agents.keepers_in_use((await self._agents.get(agent)).id)
        return [user_id for each in keeper_ids if (user_id := user_of_keeper(each)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MindEdit(Generic[T]):
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
    ) -> MindEdit[T]:
        """Apply the changes to the owner's rows. Raises `InvalidRequest` with the paths of invalid changes."""
        items = self.by_key(rows)
        new = self.change(items, changes, keeper, new_id, now)
        return MindEdit(
            new=new,
            items=self.order((items | new).values()),
            effects=[self.put(each) for key, each in new.items() if items.get(key) != each],
        )


GOALS: MindItems[Goal, GoalChange] = MindItems(
    kind="goals",
    noun="goal",
    most=MAX_GOALS,
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
    most=MAX_MEMORIES,
    key=lambda memory: memory.key,
    record=Memory,
    change=lambda kept, changes, keeper, _, now: changed_memories(kept, changes, keeper, now),
    order=lambda memories: sorted(memories, key=lambda memory: memory.key),
    put=lambda memory: Put(record=memory),
    drop=lambda keeper, key: Delete(kind=Memory, key=(keeper, key)),
    keeper=lambda reach: reach.keeper,
)


def plans_waking(thread_id: str | None, run_id: str | None = None) -> MindItems[Plan, PlanChange]:
    """Return the items for plans that wake this thread, or with None the agent's home thread.

    Their runs have the deps of the run `run_id`, if one is given.
    """
    return MindItems(
        kind="plans",
        noun="plan",
        most=MAX_PLANS,
        key=lambda plan: plan.id,
        record=Plan,
        change=lambda kept, changes, keeper, new_id, now: changed_plans(
            kept, changes, keeper, new_id, now, thread_id, run_id
        ),
        order=by_next_run,
        put=lambda plan: SetPlan(plan=plan),
        drop=lambda keeper, key: DropPlan(agent_id=keeper, id=key),
        keeper=lambda reach: reach.plans,
    )


PLANS = plans_waking(None)


class Minds(Carried):
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
        by_list("changes", changes, GoalChange, "GoalChange values", required=True)
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
        by_list("changes", changes, MemoryChange, "MemoryChange values", required=True)
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
        by_list("changes", changes, PlanChange, "PlanChange values", required=True)
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
        return rows[offset : offset + limit]

    async def _set(self, items: MindItems[T, C], keeper: str, changes: Sequence[C]) -> Sequence[T]:
        """Commit the changes, rebuilt if the items have changed in the meantime."""
        while True:
            rows = await self._records.list(items.record, keeper)
            edit = items.edit(rows, changes, keeper, lambda _: self._new_id(items.noun), self._clock.now())
            check = check_mind(keeper, items.kind, edit.new, items.most, items.by_key(rows))
            if not edit.effects or not isinstance(
                await self._effect_commits.commit(check, *edit.effects), Conflict
            ):
                return edit.items

    async def _drop(self, items: MindItems[T, C], keeper: str, key: str) -> None:
        """Delete an item. Raises `NotFound` if it does not exist."""
        rows = await self._records.list(items.record, keeper)
        if key not in items.by_key(rows):
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


log = logger("toolwright.runtime")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Plans:
    """Fires plans. `wake` wakes the thread that received the event."""

    def __init__(
        self, services: Services, agents: Agents, deliveries: Deliveries, wake: Callable[[str], None]
    ) -> None:
        self._agents = agents
        self._store = services.store
        self._deliveries = deliveries
        self._wake = wake
        self._clock = services.clock
        self._new_id = services.new_id

    async def fire(self, plan_key: str) -> None:
        """Deliver the plan `<keeper>:<plan_id>` if it is due, and schedule its next time.

        A plan that was missed while no process was running is delivered once. If the app has changed so that the agent
        cannot have a home thread, the plan is skipped this time. A person's plan ends with the thread that it wakes.
        """
        agent_id, _, plan_id = plan_key.rpartition(":")
        while True:  # retry if the plan has changed since it was read
            plan = await self._store.records.one(Plan, agent_id, plan_id)
            if plan is None:
                return
            if plan.next_run_at > self._clock.now():  # the clock was set back: its timer is kept
                await self._commit(SetTimer(name=plan.timer, due=plan.next_run_at))
                return
            next_plan = self._next_firing(plan)
            thread = None if plan.thread_id is None else await self._store.thread(plan.thread_id)
            refusal = await self._refusal(plan, thread)
            if refusal is not None:
                log.error("The plan %r of %s is skipped: %s.", plan_id, agent_id, refusal)
                await self._commit(_plan_effect(plan, next_plan if plan.thread_id is None else None))
                return
            delivery = self._delivery(plan, thread)
            fired = FirePlan(plan=plan, then=next_plan, delivery=delivery)
            match await self._commit(fired):
                case Committed():
                    self._wake(delivery.thread.id)
                    return
                case Conflict(guard="plan"):
                    continue  # it was changed or deleted in the meantime
                case Conflict(guard="duplicate"):
                    # It has fired for this time, and was then rewritten with its previous time.
                    await self._commit(_plan_effect(plan, next_plan))
                    return
                case Conflict(guard=guard):
                    raise StoreError(f"The plan {plan_id!r} of the agent {agent_id!r} was refused ({guard}).")

    async def _refusal(self, plan: Plan, thread: Thread | None) -> str | None:
        """Return the reason why the plan cannot be delivered, or None."""
        if plan.thread_id is not None:
            is_terminated = thread is None or thread.is_over
            return f"the thread {plan.thread_id!r} is terminated" if is_terminated else None
        missing = await self._agents.missing_home_tenvs(plan.agent_id)
        return f"without a home thread: {missing}" if missing else None

    async def _commit(self, effect: Effect) -> Committed | Conflict:
        unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(effect,))
        return await self._store.commit(unit)

    def _next_firing(self, plan: Plan) -> Plan | None:
        """Return the plan after this firing, or None if it ends."""
        if plan.cron is None:
            return None
        try:
            return changed(plan, next_run_at=next_run(plan.cron, plan.timezone, self._clock.now()))
        except InvalidRequest as error:  # its time zone no longer exists, or this was its last time
            log.warning(
                "The plan %r of the agent %s will not run again: %s", plan.id, plan.agent_id, error.message
            )
            return None

    def _delivery(self, plan: Plan, thread: Thread | None) -> Delivery:
        due = (plan.next_run_at - _EPOCH) // timedelta(microseconds=1)
        content: JSONObject = {
            "planId": plan.id,
            "name": plan.name,
            "instruction": plan.instruction,
            "scheduledAt": plan.next_run_at.isoformat(),
        }
        if plan.run_id is not None:
            content[ORIGIN] = plan.run_id
        event_id = f"plan:{plan.id}:{due}"
        return self._deliveries.delivery(
            agent_of_keeper(plan.agent_id), "plan", event_id, content, thread=thread
        )


def _plan_effect(plan: Plan, then: Plan | None) -> Effect:
    """Return the effect that reschedules or deletes a plan whose time has passed."""
    return DropPlan(agent_id=plan.agent_id, id=plan.id) if then is None else SetPlan(plan=then)
