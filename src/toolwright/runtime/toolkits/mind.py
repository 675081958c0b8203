"""The toolkits `mind` and `memory`: goals, plans, core blocks and passages that an agent keeps (S3, S4).

A call applies all of its changes or none. It overwrites concurrent changes of another run of the agent. The maximum
numbers hold for concurrent writers too, because they are checked in the commit.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from toolwright.core.agents.memory import MAX_FOUND, Block, Passage, check_block, check_passage, read_query
from toolwright.core.agents.mind import GoalChange, MemoryChange, PlanChange
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.agent_effects import AddPassage, CheckMind, SetBlock
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.results import ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Record, changed
from toolwright.runtime.agents.memory import check_blocks, rank_passages
from toolwright.runtime.agents.minds import (
    GOALS,
    MEMORIES,
    PLANS,
    MindEdit,
    MindItems,
    check_mind,
    plans_waking,
    require_home_tenvs,
)
from toolwright.runtime.toolkits.builtins import BuiltinState, builtin, call_item_id, within_run
from toolwright.wire import agent as shapes

if TYPE_CHECKING:
    from toolwright.runtime.agents.semantics import Semantics  # not loaded by most apps


T = TypeVar("T", bound=Record)
C = TypeVar("C")
_BY_MEANING = (
    "Search your stored passages. Returns passages whose content or tags contain every keyword, and passages with a "
    "similar meaning."
)


class GivenGoal(BaseModel):
    """A goal."""

    id: str | None = Field(default=None, description="The goal to update; omit it to create a new goal.")
    description: str | None = Field(default=None, description="The goal. Required for a new goal.")
    status: str | None = Field(default=None, description="Status, such as 'active' or 'done'.")
    priority: str | None = Field(default=None, description="Priority, such as 'high'.")

    @property
    def change(self) -> GoalChange:
        """The change that the arguments describe."""
        return GoalChange(**self.model_dump())


class GivenMemory(BaseModel):
    """A memory."""

    key: str = Field(description="Key of the memory; an existing one is replaced.")
    value: str = Field(description="The value to remember.")

    @property
    def change(self) -> MemoryChange:
        """The change that the arguments describe."""
        return MemoryChange(key=self.key, value=self.value)


class GivenPlan(BaseModel):
    """A plan."""

    model_config = ConfigDict(alias_generator=to_camel)

    id: str | None = Field(
        default=None,
        description="The plan to update; without it, the plan with that name, or a new one.",
    )
    name: str | None = Field(default=None, description="A short name. Required for a new plan.")
    instruction: str | None = Field(
        default=None, description="The instruction that you receive when it runs. Required for a new plan."
    )
    run_after: int | float | str | None = Field(
        default=None,
        description="Run once, after a number of milliseconds or a text such as '5 hours' or '1h30m'.",
    )
    scheduled_at: str | None = Field(
        default=None, description="Run once, at this time: ISO 8601 with an offset, or with a timezone."
    )
    cron: str | None = Field(
        default=None,
        description="Run repeatedly: minute, hour, day of month, month, day of week, or '@daily'.",
    )
    timezone: str | None = Field(
        default=None,
        description="The IANA time zone of cron, or of scheduledAt without an offset. Default: UTC.",
    )

    @property
    def change(self) -> PlanChange:
        """The change that the arguments describe."""
        return PlanChange(**self.model_dump())


class MindToolkit:
    """The seven tools, which use the minds in a journal."""

    def __init__(self, store: Store) -> None:
        self._records = store.records
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

    async def set_goals(self, state: ThreadState, goals: list[GivenGoal]) -> ToolResult:
        """Create or update your goals; omitted fields keep their values. Returns all goals."""
        changes = [each.change for each in goals]
        return await within_run(state, lambda run: self._set(run, GOALS, changes, shapes.Goal.of))

    async def delete_goals(self, state: ThreadState, ids: list[str]) -> ToolResult:
        """Delete goals by id. Returns the remaining goals."""
        return await within_run(state, lambda run: self._delete(run, GOALS, ids, shapes.Goal.of))

    async def set_memories(self, state: ThreadState, memories: list[GivenMemory]) -> ToolResult:
        """Store values by key for later runs; an existing key gets the new value. Returns all memories."""
        changes = [each.change for each in memories]
        return await within_run(state, lambda run: self._set(run, MEMORIES, changes, shapes.Memory.of))

    async def delete_memories(self, state: ThreadState, keys: list[str]) -> ToolResult:
        """Delete memories by key. Returns the remaining memories."""
        return await within_run(state, lambda run: self._delete(run, MEMORIES, keys, shapes.Memory.of))

    async def set_plans(self, state: ThreadState, plans: list[GivenPlan]) -> ToolResult:
        """Schedule an instruction to yourself, once (runAfter or scheduledAt) or repeatedly (cron), or update plans.

        Omitted fields keep their values. Returns all plans, soonest first.
        """
        return await within_run(state, lambda run: self._set_plans(run, [each.change for each in plans]))

    async def delete_plans(self, state: ThreadState, ids: list[str]) -> ToolResult:
        """Delete plans by id. Returns the remaining plans, soonest first."""
        return await within_run(state, lambda run: self._delete(run, PLANS, ids, shapes.Plan.of))

    async def get_plans(self, state: ThreadState) -> ToolResult:
        """Return your plans, soonest first."""
        return await within_run(state, self._get_plans)

    async def _set(
        self, run: BuiltinState, items: MindItems[T, C], changes: Sequence[C], to_json: Callable[[T], JSON]
    ) -> JSON:
        return await self._edit(run, items, items.keeper(await run.reach()), changes, to_json)

    async def _edit(
        self,
        run: BuiltinState,
        items: MindItems[T, C],
        keeper: str,
        changes: Sequence[C],
        to_json: Callable[[T], JSON],
    ) -> JSON:
        """Change the owner's items in the commit of the call's result. Return all items after that."""
        rows = await self._read(run, items, keeper)

        def edit(rows: Iterable[T]) -> MindEdit[T]:
            return items.edit(
                rows, changes, keeper, lambda n: call_item_id(items.noun, run.call_id, n), run.clock.now()
            )

        async def checked() -> CheckMind:
            reapplied = edit(await self._records.list(items.record, keeper))
            return check_mind(keeper, items.kind, reapplied.new, items.most)

        edited = edit(rows)
        run.speak(checked)
        for effect in edited.effects:
            run.effect(effect)
        return {items.kind: [to_json(each) for each in edited.items]}

    async def _delete(
        self, run: BuiltinState, items: MindItems[T, C], keys: Sequence[str], to_json: Callable[[T], JSON]
    ) -> JSON:
        """Delete items in the commit of the call's result. Return the remaining ones."""
        keeper = items.keeper(await run.reach())
        existing = items.by_key(await self._read(run, items, keeper))
        missing = [each for each in keys if each not in existing]
        if missing:
            names = brief(", ".join(map(repr, missing)), 200)
            raise InvalidRequest(f"There is no {items.noun} {names}: nothing was deleted.")
        for key in dict.fromkeys(keys):
            run.effect(items.drop(keeper, key))
        remaining = items.order(item for key, item in existing.items() if key not in keys)
        return {items.kind: [to_json(each) for each in remaining]}

    async def _set_plans(self, run: BuiltinState, changes: Sequence[PlanChange]) -> JSON:
        """Change plans. A person's plans wake the thread in which they are made."""
        reach = await run.reach()
        items, thread_id = PLANS, None
        if changes and reach.person is None:
            require_home_tenvs(run.missing_home_tenvs)
        elif changes:
            thread_id = _woken(run)
        if thread_id is not None or run.deps_run_id is not None:
            items = plans_waking(thread_id, run.deps_run_id)
        return await self._edit(run, items, items.keeper(reach), changes, shapes.Plan.of)

    async def _get_plans(self, run: BuiltinState) -> JSON:
        plans = await self._read(run, PLANS, PLANS.keeper(await run.reach()))
        return {"plans": [shapes.Plan.of(each) for each in PLANS.order(plans)]}

    async def _read(self, run: BuiltinState, items: MindItems[T, C], keeper: str) -> Sequence[T]:
        return await run.retry_until_available(lambda: self._records.list(items.record, keeper))


def _woken(run: BuiltinState) -> str:
    """Return the id of the person's thread, which their plans wake."""
    if run.thread.parent_id is not None:
        raise InvalidRequest(
            "Plans cannot be made in this thread, because it is a child of a person's thread. Make them in the "
            "person's thread, which they wake."
        )
    return run.thread.id


class MemoryToolkit:
    """The three tools, which use the memory in a journal."""

    def __init__(self, store: Store, semantics: "Semantics | None" = None) -> None:
        self._memory = store.agents
        self._semantics = semantics
        search = builtin(self.search_memory)
        if semantics is not None:
            search = changed(search, description=_BY_MEANING)
        self.tools: tuple[Tool, ...] = (builtin(self.update_memory), search, builtin(self.store_memory))

    async def update_memory(self, state: ThreadState, label: str, content: str) -> ToolResult:
        """Write one of your own core memory blocks, which you see at every step. The content replaces the block with
        that label; a new label creates a block.
        """
        return await within_run(state, lambda run: self._update(run, label, content))

    async def search_memory(self, state: ThreadState, query: str) -> ToolResult:
        """Search your stored passages by keywords: each keyword must occur in a passage or its tags."""
        return await within_run(state, lambda run: self._search(run, query))

    async def store_memory(
        self, state: ThreadState, content: str, tags: list[str] | None = None
    ) -> ToolResult:
        """Store a passage for later searches, with optional tags."""
        return await within_run(state, lambda run: self._store(run, content, tags or []))

    async def _update(self, run: BuiltinState, label: str, content: str) -> JSON:
        keeper = (await run.reach()).keeper
        blocks = await run.retry_until_available(lambda: self._memory.blocks(keeper))
        check_block(blocks, keeper, label, content)
        block = Block(agent_id=keeper, label=label, content=content, updated_at=run.clock.now())

        async def checked() -> CheckMind:
            now = await self._memory.blocks(keeper)
            check_block(now, keeper, label, content)
            return check_blocks(now, keeper, label)

        run.speak(checked)
        run.effect(SetBlock(block=block))
        return {"success": True}

    async def _search(self, run: BuiltinState, text: str) -> JSON:
        query = read_query(text)
        keeper = (await run.reach()).keeper
        ranking = await run.retry_until_available(
            lambda: rank_passages(self._memory, self._semantics, keeper, query, text)
        )
        return {"passages": [shapes.Passage.of(each) for each in ranking[:MAX_FOUND]]}

    async def _store(self, run: BuiltinState, content: str, tags: list[str]) -> JSON:
        check_passage(content, tags)
        passage = Passage(
            agent_id=(await run.reach()).keeper,
            id=call_item_id("psg", run.call_id),
            content=content,
            tags=tuple(tags),
            created_at=run.clock.now(),
        )
        vector = None
        if self._semantics is not None:
            vector = await self._semantics.vector(passage)
        run.effect(AddPassage(passage=passage, vector=vector))
        return {"passageId": passage.id}
