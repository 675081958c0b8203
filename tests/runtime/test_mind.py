"""The built-in tools of the mind: what they store, what they reject, and their state after a crash."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.runtime.mind_rig import AGENT, Died, thinking
from toolwright.core.agents.agent import TOOLKITS
from toolwright.core.agents.mind import (
    MAX_GOALS,
    MAX_MEMORIES,
    MAX_PLANS,
    Goal,
    GoalChange,
    MemoryChange,
    PlanChange,
)
from toolwright.core.errors import InvalidRequest, NotFound, StoreError
from toolwright.core.journal.rows import Put
from toolwright.core.journal.units import Unit
from toolwright.runtime.toolkits.mind import MindToolkit
from toolwright.testing import MemoryStore

pytestmark = pytest.mark.anyio


def test_each_runtimes_tools_are_its_own_and_their_signatures_read_once() -> None:
    ours, theirs = (MindToolkit(MemoryStore(lambda _: None)) for _ in range(2))
    for our, their in zip(ours.tools, theirs.tools, strict=True):
        assert our.signature is their.signature
        assert (our.handler, their.handler) == (getattr(ours, our.name), getattr(theirs, our.name))


@requirement("S3-6-15")
def test_the_toolkit_has_the_tools_of_the_document() -> None:
    tools = MindToolkit(MemoryStore(lambda _: None)).tools
    assert tuple(tool.name for tool in tools) == TOOLKITS["mind"]
    assert all(tool.idempotent and not tool.visible for tool in tools)


@requirement("S3-6-8", "S3-6-9")
async def test_goals_are_set_changed_and_deleted() -> None:
    async with thinking() as mind:
        given = [{"description": "Learn Go"}, {"id": "tea", "description": "Tea", "priority": "high"}]
        first, second = (await mind.call("set_goals", goals=given))["goals"]
        assert first == {
            "id": first["id"],
            "description": "Learn Go",
            "status": "active",
            "priority": "medium",
        }
        assert second == {"id": "tea", "description": "Tea", "status": "active", "priority": "high"}
        changed = [{"id": first["id"], "status": "done"}, {"description": "Rest", "status": None}]
        answer = await mind.call("set_goals", goals=changed)
        assert answer["goals"][:2] == [{**first, "status": "done"}, second]
        assert answer["goals"][2]["description"] == "Rest"
        assert [goal.id for goal in await mind.rt.minds.goals("thinker")] == [
            g["id"] for g in answer["goals"]
        ]
        left = await mind.call("delete_goals", ids=["tea", first["id"], "tea"])
        assert left == {"goals": answer["goals"][2:]}
        assert [goal.description for goal in await mind.rt.minds.goals(AGENT.id)] == ["Rest"]


@requirement("S3-6-10", "S3-6-11")
async def test_memories_are_set_replaced_and_deleted() -> None:
    async with thinking() as mind:
        given = [{"key": "tea", "value": "green"}, {"key": "Milk \u2028", "value": ""}]
        answer = await mind.call("set_memories", memories=given)
        assert answer == {"memories": [given[1], given[0]]}
        answer = await mind.call("set_memories", memories=[{"key": "tea", "value": "black"}])
        assert answer["memories"][1] == {"key": "tea", "value": "black"}
        assert await mind.call("delete_memories", keys=["Milk \u2028"]) == {
            "memories": answer["memories"][1:]
        }
        assert [(m.key, m.value) for m in await mind.rt.minds.memories("thinker")] == [("tea", "black")]


@requirement("S3-6-12", "S3-6-13", "S3-6-14")
async def test_plans_are_set_changed_read_and_deleted() -> None:
    async with thinking() as mind:
        given: list[dict[str, Any]] = [
            {"id": "cron", "name": "News", "instruction": "Read.", "cron": "0 9 * * *"},
            {"id": "soon", "name": "Tea", "instruction": "Make tea.", "runAfter": 90_000},
            {
                "id": "date",
                "name": "Call",
                "instruction": "Call.",
                "scheduledAt": "2030-01-01T08:00:00+01:00",
            },
        ]
        plans = (await mind.call("set_plans", plans=given))["plans"]
        assert [(plan["id"], plan["nextRunAt"]) for plan in plans] == [
            ("soon", "2030-01-01T00:01:30+00:00"),
            ("date", "2030-01-01T07:00:00+00:00"),
            ("cron", "2030-01-01T09:00:00+00:00"),
        ]
        assert plans[2] == {
            "id": "cron",
            "name": "News",
            "instruction": "Read.",
            "nextRunAt": "2030-01-01T09:00:00+00:00",
            "cron": "0 9 * * *",
        }
        assert await mind.call("get_plans") == {"plans": plans}
        changes: list[dict[str, Any]] = [
            {"id": "cron", "timezone": "Europe/Vienna"},
            {"id": "soon", "instruction": "Make green tea."},
            {"id": "date", "cron": "@daily"},
        ]
        plans = (await mind.call("set_plans", plans=changes))["plans"]
        assert plans == [
            {
                **plans[0],
                "id": "soon",
                "instruction": "Make green tea.",
                "nextRunAt": "2030-01-01T00:01:30+00:00",
            },
            {**plans[1], "id": "cron", "nextRunAt": "2030-01-01T08:00:00+00:00", "timezone": "Europe/Vienna"},
            {**plans[2], "id": "date", "nextRunAt": "2030-01-02T00:00:00+00:00", "cron": "@daily"},
        ]
        assert await mind.call("delete_plans", ids=["soon", "cron"]) == {"plans": plans[2:]}
        [left] = await mind.rt.minds.plans("thinker")
        assert await mind.store.wake(left.timer) is not None
        assert await mind.store.wake(left.timer.replace("date", "soon")) is None


PLAN = {"name": "Tea", "instruction": "Make tea."}


@pytest.mark.parametrize(
    ("fault", "tool", "args"),
    [
        ("goals.1.description is needed.", "set_goals", {"goals": [{"description": "a"}, {"status": "b"}]}),
        ("goals.0.description is needed.", "set_goals", {"goals": [{"id": "new"}]}),
        ("goals.0.description is needed.", "set_goals", {"goals": [{"id": "kept", "description": " "}]}),
        ("has 4001 characters; 4000", "set_goals", {"goals": [{"description": "x" * 4_001}]}),
        ("goals.0.status has 201", "set_goals", {"goals": [{"description": "a", "status": "x" * 201}]}),
        ("not 'a b'", "set_goals", {"goals": [{"description": "a"}, {"id": "a b", "description": "b"}]}),
        ("not ''", "set_goals", {"goals": [{"id": "", "description": "b"}]}),
        ("An id must be at most 64", "set_goals", {"goals": [{"id": "x" * 65, "description": "b"}]}),
        ("'a' is given twice", "set_goals", {"goals": [{"id": "a", "description": "b"}] * 2}),
        ("101 goals", "set_goals", {"goals": [{"description": "x"}] * MAX_GOALS}),
        ("goals.0.colour", "set_goals", {"goals": [{"description": "x", "colour": "red"}]}),
        ("more", "set_goals", {"goals": [], "more": 1}),
        ("goals", "set_goals", {}),
        ("no goal 'x', 'y': nothing was deleted", "delete_goals", {"ids": ["kept", "x", "y"]}),
        ("memories.0.key is needed", "set_memories", {"memories": [{"key": " ", "value": "x"}]}),
        ("NUL", "set_memories", {"memories": [{"key": "a\x00", "value": "x"}]}),
        ("memories.0.key has 201", "set_memories", {"memories": [{"key": "x" * 201, "value": "x"}]}),
        ("memories.0.value has", "set_memories", {"memories": [{"key": "x", "value": "x" * 4_001}]}),
        ("'k' is given twice", "set_memories", {"memories": [{"key": "k", "value": "x"}] * 2}),
        (
            "1001 memories",
            "set_memories",
            {"memories": [{"key": str(n), "value": "x"} for n in range(MAX_MEMORIES)]},
        ),
        ("memories.0.value", "set_memories", {"memories": [{"key": "k", "value": 5}]}),
        ("no memory 'x'", "delete_memories", {"keys": ["x"]}),
        ("plans.0: Give exactly one", "set_plans", {"plans": [{**PLAN, "name": "New"}]}),
        ("plans.0: Give exactly one", "set_plans", {"plans": [{**PLAN, "runAfter": 1, "cron": "@daily"}]}),
        ("plans.0: Give exactly one", "set_plans", {"plans": [{"id": "kept", "timezone": "UTC"}]}),
        ("plans.0: runAfter must be", "set_plans", {"plans": [{**PLAN, "runAfter": -5}]}),
        ("plans.0: scheduledAt", "set_plans", {"plans": [{**PLAN, "scheduledAt": "2029-12-31T00:00:00Z"}]}),
        (
            "plans.1: The cron",
            "set_plans",
            {"plans": [{**PLAN, "runAfter": 5}, {**PLAN, "name": "New", "cron": "0 9 30 2 *"}]},
        ),
        ("plans.0.name is needed", "set_plans", {"plans": [{"instruction": "x", "runAfter": 5}]}),
        ("plans.0.instruction is needed", "set_plans", {"plans": [{"name": "x", "runAfter": 5}]}),
        ("plans.0.runAfter", "set_plans", {"plans": [{**PLAN, "runAfter": True}]}),
        ("plans.0.run_after", "set_plans", {"plans": [{**PLAN, "run_after": 5}]}),
        (
            "101 plans",
            "set_plans",
            {"plans": [{**PLAN, "name": str(n), "runAfter": 5} for n in range(MAX_PLANS)]},
        ),
        ("no plan 'x'", "delete_plans", {"ids": ["kept", "x"]}),
        ("more", "get_plans", {"more": 1}),
    ],
)
async def test_an_invalid_call_changes_nothing(fault: str, tool: str, args: dict[str, Any]) -> None:
    async with thinking() as mind:
        await mind.call("set_goals", goals=[{"id": "kept", "description": "Kept."}])
        await mind.call("set_memories", memories=[{"key": "kept", "value": "Kept."}])
        await mind.call("set_plans", plans=[{**PLAN, "id": "kept", "runAfter": "5 days"}])
        before = await mind.mind()
        answer = await mind.call(tool, **args)
        assert fault in answer["error"]
        assert len(answer["error"]) < 500
        assert await mind.mind() == before


async def test_a_mind_is_the_agents_in_all_its_threads() -> None:
    async with thinking() as mind:
        await mind.call("set_memories", memories=[{"key": "a", "value": "1"}])
        mind.thread_id = (await mind.rt.threads.create("thinker")).id
        answer = await mind.call("set_memories", memories=[{"key": "b", "value": "2"}])
        assert [each["key"] for each in answer["memories"]] == ["a", "b"]
        assert [each.key for each in await mind.rt.minds.memories("thinker", 1, 1)] == ["b"]
        with pytest.raises(NotFound, match="no agent 'thinkers'"):
            await mind.rt.minds.plans("thinkers")


async def test_outside_a_run_a_built_in_tool_is_an_error_result() -> None:
    store = MemoryStore(lambda _: None)
    tools = tw.Toolset(MindToolkit(store).tools)
    for name, args in (("get_plans", {}), ("set_goals", {"goals": [{"description": "x"}]})):
        result = await tools.call(name, args)
        assert (result.status, result.error_code) == ("error", "outside_run")
        assert result.error == "Built-in tools can only be called within a run."


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_process_that_dies_around_the_commit_has_set_everything_once(when: str) -> None:
    store = MemoryStore(lambda _: None)
    lost: list[Unit] = []

    async def die(unit: Unit) -> None:
        if goals_in(unit):
            lost.append(unit)
            raise Died

    given = [{"description": "one"}, {"description": "two"}]
    async with thinking(store) as mind:
        setattr(mind.store, when, die)
        with pytest.raises(Died):
            await mind.call("set_goals", goals=given)
        thread_id = mind.thread_id
    wanted = goals_in(lost[0])
    async with thinking(store) as mind:
        mind.clock.advance(3_600)
        mind.thread_id = thread_id
        await mind.motor.run_until_idle()
        goals = await mind.rt.minds.goals("thinker")
        assert [(goal.id, goal.description) for goal in goals] == [
            (one.id, one.description) for one in wanted
        ]
        assert [goal["id"] for goal in (await mind.answer())["goals"]] == [goal.id for goal in goals]
        made = goals[0].created_at - wanted[0].created_at
        assert made == (timedelta(hours=1) if when == "before" else timedelta())


def goals_in(unit: Unit) -> list[Goal]:
    puts = [each for each in getattr(unit, "effects", ()) if isinstance(each, Put)]
    return [each.record for each in puts if isinstance(each.record, Goal)]


class Shaky:
    """A store whose minds cannot be read the first time."""

    def __init__(self, inner: MemoryStore) -> None:
        self.records = self
        self._inner = inner
        self.refused = 0

    async def list(self, kind: type[Goal], owner: str) -> Sequence[Goal]:
        if not self.refused:
            self.refused += 1
            raise StoreError("The disk is slow.")
        return await self._inner.records.list(kind, owner)


async def test_a_journal_that_cannot_be_read_for_a_moment_is_waited_for() -> None:
    store = MemoryStore(lambda _: None)
    shaky = Shaky(store)
    toolkit = MindToolkit(shaky)  # type: ignore[arg-type]  # it implements the one read that is needed
    async with thinking(store, toolkit=toolkit) as mind:
        answer = await mind.call("set_goals", goals=[{"description": "x"}])
        assert [goal["description"] for goal in answer["goals"]] == ["x"]
        assert shaky.refused == 1


def test_a_model_is_told_what_the_tools_take() -> None:
    tools = {tool.name: tool for tool in MindToolkit(MemoryStore(lambda _: None)).tools}
    shape = json.dumps(tools["set_plans"].parameters)
    for name in ("id", "name", "instruction", "runAfter", "scheduledAt", "cron", "timezone"):
        assert f'"{name}"' in shape
    assert tools["get_plans"].parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


async def test_a_mind_is_set_from_outside_by_the_rules_of_the_tools() -> None:
    wrong: Any = 5
    async with thinking() as mind:
        minds = mind.rt.minds
        [goal] = await minds.set_goals("thinker", [GoalChange(description="Tea")])
        assert (await mind.call("set_goals", goals=[]))["goals"][0]["id"] == goal.id
        await minds.set_memories("thinker", [MemoryChange(key="tea", value="green")])
        plans = [PlanChange(name="Tea", instruction="Make tea.", run_after="5 days")]
        [plan] = await minds.set_plans("thinker", plans)
        before = await mind.mind()
        for faulty in (
            *(minds.set_goals("thinker", wrong), minds.set_goals("thinker", [wrong])),
            *(minds.set_goals("thinker", [GoalChange(id=wrong)]), minds.set_plans("thinker", [PlanChange()])),
            minds.set_goals("thinker", [GoalChange(description="a"), GoalChange(description=wrong)]),
            minds.set_memories("thinker", [MemoryChange(key=wrong, value="x")]),
            minds.set_memories("thinker", [MemoryChange(key="x", value=wrong)]),
            minds.set_plans("thinker", [PlanChange(id=plan.id, run_after=10**400)]),
        ):
            with pytest.raises(InvalidRequest):
                await faulty
        for missing in (
            *(minds.drop_goal("thinker", "x"), minds.drop_memory("thinker", "x")),
            *(minds.drop_plan("thinker", "x"), minds.set_goals("nobody", [GoalChange(description="x")])),
        ):
            with pytest.raises(NotFound):
                await missing
        assert await mind.mind() == before
        await minds.drop_plan("thinker", plan.id)
        await mind.turn_to(plan.next_run_at)
        assert await mind.fired() == []
