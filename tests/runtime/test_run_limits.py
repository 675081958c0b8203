"""Limits of a run that its agent declares: steps and seconds, and how a run reports that it has reached one."""

import asyncio
from typing import Any

import pytest

import toolwright as tw
from tests.kit import Watched, call, hang
from toolwright.core.errors import DefinitionError
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio
LOOK = call("look")


async def look() -> str:
    """Look."""
    return "nothing"


async def look_long() -> str:
    """Look, for longer than the run may take."""
    await asyncio.sleep(0.06)
    return "nothing"


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


async def test_max_steps_of_an_agent_ends_its_run_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    agent = tw.Agent("seeker", model=ScriptedModel([LOOK] * 9), tools=[look], max_steps=3)
    result = await tw.run(agent, "Find it.")
    assert (result.status, result.stop_reason, len(result.calls)) == ("completed", "max_steps", 3)
    assert warnings_of(caplog) == [
        "A run of the agent 'seeker' has reached its limit of steps (max_steps) after 3 steps."
    ]


async def test_max_seconds_ends_a_run_between_its_steps(caplog: pytest.LogCaptureFixture) -> None:
    tool = tw.tool(name="look")(look_long)
    agent = tw.Agent("seeker", model=ScriptedModel([LOOK] * 9), tools=[tool], max_seconds=0.05)
    result = await tw.run(agent, "Find it.")
    assert (result.status, result.stop_reason) == ("completed", "max_seconds")
    assert len(result.calls) <= 1
    assert "has reached its time limit (max_seconds)" in warnings_of(caplog)[-1]


async def test_max_seconds_ends_an_answer_that_takes_too_long() -> None:
    result = await tw.run(tw.Agent("slow", model=Watched(before=hang), max_seconds=0.05), "Go.")
    assert (result.status, result.stop_reason) == ("completed", "max_seconds")


async def test_a_child_that_reaches_its_time_limit_is_an_error_for_its_caller() -> None:
    child = tw.Agent(
        "slow", model=Watched(before=hang), max_seconds=0.05, expose_as_tool=True, tool_description="Slow."
    )
    turns = [call("slow", message="Go."), {"text": "Well."}]
    boss = tw.Agent("boss", model=ScriptedModel(turns), tools=[tw.SubagentToolConfig(name="slow")])
    [made] = (await tw.run("boss", "Go.", app=tw.App(agents=[boss, child]))).calls
    assert made.result is not None
    assert (made.result.error_code, made.result.status) == ("max_seconds", "error")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_steps": 0}, "Agent 'a': max_steps must be 1 or more, not 0."),
    ({"max_steps": 1.5}, "Agent 'a': max_steps must be 1 or more, not 1.5."),
    (
        {"max_seconds": 0},
        "Agent 'a': max_seconds must be a positive number of seconds, at most 10**9, not 0.",
    ),
    (
        {"max_seconds": "5"},
        "Agent 'a': max_seconds must be a positive number of seconds, at most 10**9, not '5'.",
    ),
    ({"max_seconds": float("nan")}, "max_seconds must be a positive number of seconds"),
    (
        {"max_steps": 3, "side_a": tw.Prompt("p")},
        "Agent 'a' has a side_a: its max_steps= belongs to the side there.",
    ),
    ({"max_seconds": 3, "type": "dual_ai"}, "give max_seconds= to its sides."),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_an_invalid_limit_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        tw.Agent("a", **options)
    assert words in refused.value.message
