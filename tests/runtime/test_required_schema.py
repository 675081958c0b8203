"""The model of `required_schema`: its validators run and its defaults are filled in, for every kind of call."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

import toolwright as tw
from tests.kit import DONE, Watched, call, ran
from tests.runtime.family_rig import RESUMABLE, home, model_of, worker
from toolwright import testing
from toolwright.core.errors import InvalidRequest

pytestmark = pytest.mark.anyio


class Part(BaseModel):
    size: int = 3


class Task(BaseModel):
    task: str
    words: int = Field(default=50, alias="maxWords")
    part: Part = Part()
    note: str | None = None

    @field_validator("task")
    @classmethod
    def check(cls, task: str) -> str:
        if task == "forbidden":
            raise ValueError("is not a task for this agent")
        if task == "broken":
            raise KeyError("table")
        return task.strip()


FILLED = {"task": "sweep", "maxWords": 50, "part": {"size": 3}}
FAULTS = {
    "forbidden": "task: is not a task for this agent",
    "broken": "KeyError: 'table'",
}


@tw.tool(description="Show the arguments of this thread.")
async def show(state: tw.ThreadState) -> Any:
    return dict(state.arguments or {})


def below() -> tw.Agent:
    return worker([call("show"), DONE], [show], required_schema=Task)


@pytest.mark.parametrize("task", ["forbidden", "broken"])
@pytest.mark.parametrize("resumable", [False, True])
async def test_what_a_validator_refuses_reaches_no_child(task: str, resumable: bool) -> None:
    agent = below()
    asked = (
        call("subagent_create", agent="worker", name="Ada", arguments={"task": task})
        if resumable
        else call("worker", task=task)
    )
    async with home(agent, RESUMABLE if resumable else {}, [asked, DONE]) as house:
        thread = await house.thread()
        await house.run(thread.id)
        [told] = await house.results(thread.id)
        assert told["error_code"] == "invalid_arguments"
        assert FAULTS[task] in told["error"]
        assert told["error"].count("nvalid arguments") == 1
        assert await house.children(thread.id) == []
    assert model_of(agent).requests == []


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_child_gets_the_defaults(resumable: bool) -> None:
    agent = below()
    asked = (
        call("subagent_create", agent="worker", name="Ada", arguments={"task": " sweep "})
        if resumable
        else call("worker", task=" sweep ")
    )
    async with home(agent, RESUMABLE if resumable else {}, [asked, DONE]) as house:
        thread = await house.thread()
        await house.run(thread.id)
        [child] = await house.children(thread.id)
        assert (await house.results(child.id)) == [FILLED]


@pytest.mark.parametrize("task", ["sweep", "forbidden"])
@pytest.mark.parametrize("nested", [False, True])
async def test_a_prompt_that_is_a_tool_gets_what_the_model_makes_of_its_arguments(
    task: str, nested: bool
) -> None:
    @tw.tool(description="Call the prompt.")
    async def pass_on(state: tw.ThreadState) -> Mapping[str, Any]:
        result = await state.invoke_tool("work", {"task": task})
        return {"result": result.result, "error": result.error}

    inner = Watched([DONE])
    prompt = tw.Prompt(
        "work", "", model=inner, required_schema=Task, expose_as_tool=True, tool_description="Works."
    )
    boss = Watched([call("pass_on") if nested else call("work", task=task), DONE])
    agent = tw.Agent("boss", tw.Prompt("boss", "", model=boss, tools=["work", pass_on]))
    async with testing.runtime(tw.App(agents=[agent], prompts=[prompt])) as rt:
        run = await ran(rt, "boss")
        [told] = [each.content for each in await rt.threads.messages(run.thread_id) if each.role == "tool"]
    if task == "sweep":
        [request] = inner.requests
        assert request.messages[-1].content == '{"task":"sweep","maxWords":50,"part":{"size":3}}'
    else:
        assert FAULTS[task] in told
        assert inner.requests == []


async def test_a_handoff_is_refused_by_the_model_of_its_target() -> None:
    asked = call("worker", task="forbidden")
    async with home(below(), "worker", [asked, DONE]) as house:
        thread = await house.thread()
        await house.run(thread.id)
        assert FAULTS["forbidden"] in (await house.results(thread.id))[0]["error"]


async def test_arguments_of_a_new_thread_are_validated_and_filled_in() -> None:
    async with testing.runtime(tw.App(agents=[below()])) as rt:
        thread = await rt.threads.create("worker", arguments={"task": " sweep "})
        assert thread.arguments == FILLED
        assert (await rt.threads.get(thread.id)).arguments == FILLED
        assert (await rt.threads.create("worker")).arguments is None
        for task, fault in FAULTS.items():
            with pytest.raises(InvalidRequest, match=fault):
                await rt.threads.create("worker", arguments={"task": task})
        with pytest.raises(InvalidRequest) as raised:
            await rt.threads.create("worker", arguments={"maxWords": "many"})
        assert {each["path"] for each in raised.value.details} == {"arguments.task", "arguments.maxWords"}
        assert len(await rt.threads.list()) == 2
