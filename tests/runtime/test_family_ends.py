"""How sessions of children end when something goes wrong, and who is told of it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.databases import OpenStore, stores
from tests.runtime.kin import kin
from tests.runtime.rig import Rig
from toolwright import testing
from toolwright.core.errors import Unwritable
from toolwright.core.run import Run
from toolwright.core.units import Claim, Unit

pytestmark = pytest.mark.anyio

DONE: dict[str, object] = {"text": "Done."}
RESUMABLE: dict[str, object] = {"resumable": {"receives_messages": "side_a"}}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenStore]:
    async with stores(request.param, tmp_path) as opening:
        yield opening


def call(name: str, /, **args: object) -> dict[str, object]:
    return {"calls": [{"name": name, "args": args}]}


def agent(name: str, turns: Sequence[object], *tools: Any) -> tw.Agent:  # tools, or how others are called
    """An agent that says that, and is callable by those that name it."""
    prompt = tw.Prompt(name, model=testing.ScriptedModel(turns), tools=[*tools])
    return tw.Agent(name, prompt, expose_as_tool=True, tool_description="Works.")


async def ended(rig: Rig, thread_id: str, text: str = "Go") -> Run:
    """The run that reads this message, when it is over."""
    async with asyncio.timeout(20):
        return await rig.rt.runs.wait((await rig.rt.threads.send(thread_id, text)).id, 20)


async def results(rig: Rig, thread_id: str) -> list[Any]:  # any JSON, or text
    return [_read(each.content) for each in await rig.transcript(thread_id) if each.role == "tool"]


def _read(text: str) -> Any:  # as above
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize("claims", [1, 2])
async def test_a_child_that_cannot_begin_is_an_error_of_the_call_that_waits_for_it(
    store: OpenStore, claims: int
) -> None:
    boss = agent("boss", [call("worker", message="Do"), DONE], {"name": "worker"})
    async with kin(store, boss, agent("worker", [DONE])) as rig:
        thread = await rig.rt.threads.create("boss")
        refused: list[str] = []

        async def refuse(_: int, unit: Unit) -> None:
            if isinstance(unit, Claim) and unit.thread_id != thread.id and len(refused) < claims:
                refused.append(unit.token)
                raise Unwritable

        rig.store.before = refuse
        assert (await ended(rig, thread.id)).output == "Done."
        [child] = await rig.rt.threads.children(thread.id)
        assert (child.child_status, child.report) == ("failed", None)
        [result] = await results(rig, thread.id)
        assert (result["error_code"], result["status"]) == ("subagent_failed", "failed")
        assert result["error"].startswith("The run cannot begin: ")
