"""The toolkit `mind`: what an agent sets itself as goals, remembers and plans (S3 built-in tools).

Everything in one call is done or nothing is. What was changed by another run of the agent meanwhile is written over.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.agents.schedule import Schedule, read_schedule
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.effects import DropGoal, DropMemory, DropPlan, SetGoal, SetMemory, SetPlan
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.plain import unwritable
from toolwright.core.results.result import ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief, quantity, sentence
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.toolkits.builtins import BuiltinState, builtin, call_item_id, within_run
from toolwright.wire.agent import goal_json, memory_json, plan_json

MOST_GOALS, MOST_MEMORIES, MOST_PLANS = 100, 1_000, 100
"""Most of each that an agent keeps."""
LONGEST_TEXT, LONGEST_NAME = 4_000, 200
"""Characters of a description, value or instruction; and of a name, key, status or priority."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class GivenGoal(BaseModel):
    """A goal."""

    id: str | None = Field(default=None, description="The goal to change; without one, a new goal is made.")
    description: str | None = Field(default=None, description="What is wanted. A new goal needs it.")
    status: str | None = Field(default=None, description="How far it is, such as 'active' or 'done'.")
    priority: str | None = Field(default=None, description="How much it matters, such as 'high'.")


class GivenMemory(BaseModel):
    """A memory."""

    key: str = Field(description="What it is about; an existing one is replaced.")
    value: str = Field(description="What is to be remembered.")


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
    def says_when(self) -> bool:
        """Whether there is a new time in it."""
        return not (self.run_after is None and self.scheduled_at is None and self.cron is None)


def item_id(prefix: str, value: str | None, call_id: str, n: int) -> str:
    """The id that was given for the `n`th item of a call, else one that is the same when the call is made again."""
    if value is None:
        return call_item_id(prefix, call_id, n)
    if _ID.fullmatch(value) is None:
        raise InvalidRequest(
            f"An id is up to 64 letters, digits, '-' and '_', not {brief(repr(value), 200)}: leave it out, and a "
            "new one is made."
        )
    return value


def text(where: str, value: str | None, kept: str | None, most: int = LONGEST_TEXT) -> str:
    """The given text, else the kept one; `InvalidRequest` for neither, or one that is blank or too long."""
    if value is None and kept is not None:
        return kept
    if value is None or not value.strip():
        raise InvalidRequest(f"{where} is needed.")
    return short(where, value, most)


def short(where: str, value: str, most: int = LONGEST_NAME) -> str:
    """The text, which may be empty; refused if it is too long."""
    if len(value) > most:
        raise InvalidRequest(f"{where} has {quantity(len(value), 'character')}; {most} are allowed.")
    return value


def key(where: str, value: str) -> str:
    """The key of a memory, as every journal can keep it."""
    if unwritable(value):
        raise InvalidRequest(f"{where} must be text without NUL characters or halves of characters.")
    return text(where, value, None, LONGEST_NAME)


def once(what: str, names: Iterable[str]) -> None:
    """Refuse what is given twice in one call: which of them should count?"""
    seen = set[str]()
    for name in names:
        if name in seen:
            raise InvalidRequest(f"The {what} {brief(repr(name), 200)} is given twice.")
        seen.add(name)


def at_most(most: int, items: Mapping[str, object], what: str) -> None:
    """Refuse to keep more of them."""
    if len(items) > most:
        raise InvalidRequest(f"That makes {len(items)} {what}; {most} are allowed. Delete some first.")


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
        """Plan to be told an instruction later, once (runAfter or scheduledAt) or again and again (cron), or change
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

    async def _goals(self, run: BuiltinState) -> dict[str, Goal]:
        return {
            goal.id: goal for goal in await run.retry_until_available(lambda: self._minds.goals(run.agent_id))
        }

    async def _set_goals(self, run: BuiltinState, goals: Sequence[GivenGoal]) -> JSON:
        kept = await self._goals(run)
        newest = max([run.clock.now(), *(goal.created_at for goal in kept.values())])
        ids = [item_id("goal", item.id, run.call_id, n) for n, item in enumerate(goals)]
        once("goal", ids)
        new: dict[str, Goal] = {}
        for n, (goal_id, item) in enumerate(zip(ids, goals, strict=True)):
            made = newest + timedelta(microseconds=n + 1)  # so that they keep their order
            was = kept.get(goal_id) or Goal(
                agent_id=run.agent_id,
                id=goal_id,
                description="",
                status="active",
                priority="medium",
                created_at=made,
            )
            new[goal_id] = _goal(f"goals.{n}", item, was)
        all_goals = kept | new
        at_most(MOST_GOALS, all_goals, "goals")
        for goal in new.values():
            run.effect(SetGoal(goal=goal))
        return {"goals": [goal_json(goal) for goal in all_goals.values()]}

    async def _delete_goals(self, run: BuiltinState, ids: Sequence[str]) -> JSON:
        kept = await self._goals(run)
        there("goal", ids, kept)
        for goal_id in dict.fromkeys(ids):
            run.effect(DropGoal(agent_id=run.agent_id, id=goal_id))
        return {"goals": [goal_json(goal) for goal in kept.values() if goal.id not in ids]}

    # ── memories ────────────────────────────────────────────────────────────────────────────────────────────

    async def _memories(self, run: BuiltinState) -> dict[str, Memory]:
        return {
            each.key: each
            for each in await run.retry_until_available(lambda: self._minds.memories(run.agent_id))
        }

    async def _set_memories(self, run: BuiltinState, memories: Sequence[GivenMemory]) -> JSON:
        kept, now = await self._memories(run), run.clock.now()
        once("key", [item.key for item in memories])
        new: dict[str, Memory] = {}
        for n, item in enumerate(memories):
            where = f"memories.{n}"
            named = key(f"{where}.key", item.key)
            value = short(f"{where}.value", item.value, LONGEST_TEXT)
            new[named] = Memory(agent_id=run.agent_id, key=named, value=value, updated_at=now)
        all_memories = kept | new
        at_most(MOST_MEMORIES, all_memories, "memories")
        for memory in new.values():
            run.effect(SetMemory(memory=memory))
        return _memories_json(all_memories.values())

    async def _delete_memories(self, run: BuiltinState, keys: Sequence[str]) -> JSON:
        kept = await self._memories(run)
        there("memory", keys, kept)
        for each in dict.fromkeys(keys):
            run.effect(DropMemory(agent_id=run.agent_id, key=each))
        return _memories_json([memory for memory in kept.values() if memory.key not in keys])

    # ── plans ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _plans(self, run: BuiltinState) -> dict[str, Plan]:
        return {
            plan.id: plan for plan in await run.retry_until_available(lambda: self._minds.plans(run.agent_id))
        }

    async def _set_plans(self, run: BuiltinState, plans: Sequence[GivenPlan]) -> JSON:
        if plans and run.missing_home_tenvs:
            raise InvalidRequest(
                sentence(
                    "Plans are carried out in the agent's home thread, which cannot be: its tenvs are not what "
                    f"its tools need: {run.missing_home_tenvs}"
                )
            )
        kept, now = await self._plans(run), run.clock.now()
        ids = [item_id("plan", item.id, run.call_id, n) for n, item in enumerate(plans)]
        once("plan", ids)
        new: dict[str, Plan] = {}
        for n, (plan_id, item) in enumerate(zip(ids, plans, strict=True)):
            new[plan_id] = _plan(f"plans.{n}", item, kept.get(plan_id), run.agent_id, plan_id, now)
        all_plans = kept | new
        at_most(MOST_PLANS, all_plans, "plans")
        for plan in new.values():
            run.effect(SetPlan(plan=plan))
        return _plans_json(all_plans.values())

    async def _delete_plans(self, run: BuiltinState, ids: Sequence[str]) -> JSON:
        kept = await self._plans(run)
        there("plan", ids, kept)
        for plan_id in dict.fromkeys(ids):
            run.effect(DropPlan(agent_id=run.agent_id, id=plan_id))
        return _plans_json([plan for plan in kept.values() if plan.id not in ids])

    async def _get_plans(self, run: BuiltinState) -> JSON:
        return _plans_json((await self._plans(run)).values())


def _goal(where: str, change: GivenGoal, was: Goal) -> Goal:
    return changed(
        was,
        description=text(f"{where}.description", change.description, was.description or None),
        status=was.status if change.status is None else short(f"{where}.status", change.status),
        priority=was.priority if change.priority is None else short(f"{where}.priority", change.priority),
    )


def _plan(
    where: str, change: GivenPlan, was: Plan | None, agent_id: str, plan_id: str, now: datetime
) -> Plan:
    try:
        when = _schedule(change, was, now)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error.message}") from error
    return Plan(
        agent_id=agent_id,
        id=plan_id,
        name=text(f"{where}.name", change.name, was and was.name, LONGEST_NAME),
        instruction=text(f"{where}.instruction", change.instruction, was and was.instruction),
        next_run_at=when.next_run_at,
        cron=when.cron,
        timezone=when.timezone,
        created_at=now if was is None else was.created_at,
    )


def _schedule(change: GivenPlan, was: Plan | None, now: datetime) -> Schedule:
    """Schedule: as was said now, else as before; a cron may be read in another zone from now on."""
    if was is None or change.says_when:
        return read_schedule(
            now,
            run_after=change.run_after,
            scheduled_at=change.scheduled_at,
            cron=change.cron,
            timezone=change.timezone,
        )
    if change.timezone is not None:
        return read_schedule(now, cron=was.cron, timezone=change.timezone)
    return Schedule(next_run_at=was.next_run_at, cron=was.cron, timezone=was.timezone)


def _memories_json(memories: Iterable[Memory]) -> JSON:
    return {"memories": [memory_json(each) for each in sorted(memories, key=lambda one: one.key)]}


def _plans_json(plans: Iterable[Plan]) -> JSON:
    in_order = sorted(plans, key=lambda one: (one.next_run_at, one.id))
    return {"plans": [plan_json(each) for each in in_order]}
