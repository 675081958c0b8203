"""Limits of agents' stored data, and concurrent changes: checked in the commit, on every journal."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.kit import ran
from tests.runtime.rig import Rig, running
from toolwright.core.agents.memory import MAX_BLOCKS, MAX_LINKED
from toolwright.core.agents.mind import (
    MAX_GOALS,
    MAX_MEMORIES,
    MAX_PLANS,
    GoalChange,
    MemoryChange,
    PlanChange,
)
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.agent_effects import CheckMind
from toolwright.core.journal.units import Advance, Unit
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

AT_ONCE = 12
Write = Callable[..., Awaitable[None]]


@asynccontextmanager
async def kept() -> AsyncGenerator[Runtime]:
    agents = [
        tw.Agent("keeper", tw.Prompt("k", "You keep.", model=ScriptedModel([])), toolkits=["mind", "memory"])
    ]
    agents += [tw.Agent(f"owner{n}", tw.Prompt("o", "You own.", model=ScriptedModel([]))) for n in (1, 2)]
    async with journals.by_hand(tw.App(agents=agents)) as (rt, _):
        yield rt


async def goals(rt: Runtime, name: str, count: int = 1) -> None:
    await rt.minds.set_goals("keeper", [GoalChange(description=f"{name} {n}") for n in range(count)])


async def memories(rt: Runtime, name: str, count: int = 1) -> None:
    await rt.minds.set_memories("keeper", [MemoryChange(key=f"{name}{n}", value="v") for n in range(count)])


async def plans(rt: Runtime, name: str, count: int = 1) -> None:
    changes = [PlanChange(name=f"{name}{n}", instruction="Do.", run_after="1 hour") for n in range(count)]
    await rt.minds.set_plans("keeper", changes)


async def blocks(rt: Runtime, name: str, count: int = 1) -> None:
    for n in range(count):
        await rt.blocks.write("keeper", f"{name}{n}", "text")


async def links(rt: Runtime, name: str, count: int = 1) -> None:
    for n in range(count):
        owner = "owner1" if name == "first" else "owner2"
        await rt.blocks.write(owner, f"{name}{n}", "text", readers=["keeper"])


async def count_of(rt: Runtime, write: Write) -> int:
    if write is goals:
        return len(await rt.minds.goals("keeper"))
    if write is memories:
        return len(await rt.minds.memories("keeper", 2_000))
    if write is plans:
        return len(await rt.minds.plans("keeper"))
    return len(await rt.blocks.list("keeper"))


LIMITS: list[tuple[Any, int]] = [
    (goals, MAX_GOALS),
    (memories, MAX_MEMORIES),
    (plans, MAX_PLANS),
    (blocks, MAX_BLOCKS),
    (links, MAX_LINKED),
]


@pytest.mark.parametrize(("write", "most"), LIMITS)
async def test_many_at_once_make_no_more_than_there_may_be(write: Any, most: int) -> None:
    async with kept() as rt:
        await write(rt, "first", most - 2)
        tries = [write(rt, f"try{n}") for n in range(AT_ONCE)]
        answers = await asyncio.gather(*tries, return_exceptions=True)
        refused = [each for each in answers if isinstance(each, InvalidRequest)]
        assert (await count_of(rt, write), len(refused)) == (most, AT_ONCE - 2)
        assert [each for each in answers if each is not None and each not in refused] == []


async def test_changes_of_one_goal_by_several_at_once_are_all_kept() -> None:
    async with kept() as rt:
        [goal] = await rt.minds.set_goals("keeper", [GoalChange(description="Be kind")])
        await asyncio.gather(
            rt.minds.set_goals("keeper", [GoalChange(id=goal.id, status="done")]),
            rt.minds.set_goals("keeper", [GoalChange(id=goal.id, priority="high")]),
            rt.minds.set_goals("keeper", [GoalChange(id=goal.id, description="Be kinder")]),
        )
        [goal] = await rt.minds.goals("keeper")
        assert (goal.description, goal.status, goal.priority) == ("Be kinder", "done", "high")


CALLS: dict[str, tuple[dict[str, Any], Write]] = {
    "goals": ({"name": "set_goals", "args": {"goals": [{"description": "One more"}]}}, goals),
    "memories": ({"name": "set_memories", "args": {"memories": [{"key": "k", "value": "v"}]}}, memories),
    "plans": (
        {"name": "set_plans", "args": {"plans": [{"name": "p", "instruction": "Do.", "runAfter": "1 hour"}]}},
        plans,
    ),
    "blocks": ({"name": "update_memory", "args": {"label": "more", "content": "text"}}, blocks),
}


@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_that_would_make_too_many_by_the_time_it_is_committed_is_an_error(kind: str) -> None:
    call, write = CALLS[kind]
    [most] = [most for each, most in LIMITS if each is write]
    model = ScriptedModel([{"calls": [call]}, {"text": "Done."}])
    rigs: list[Rig] = []

    async def fill(_: int, unit: Unit) -> None:
        checks = isinstance(unit, Advance) and any(isinstance(each, CheckMind) for each in unit.effects)
        if checks and await count_of(rigs[0].rt, write) < most:
            await write(rigs[0].rt, "last")

    keeper = tw.Agent("keeper", tw.Prompt("k", "You keep.", model=model), toolkits=["mind", "memory"])
    async with running(ScriptedModel([]), agents=[keeper]) as rig:
        rigs.append(rig)
        await write(rig.rt, "first", most - 1)
        rig.store.before = fill
        run = await ran(rig.rt, "keeper")
        [result] = [each for each in await rig.transcript(run.thread_id) if each.role == "tool"]
        assert (run.status, result.status) == ("completed", "error")
        assert f"{most} are allowed" in result.content or "which is the maximum" in result.content
        assert await count_of(rig.rt, write) == most
