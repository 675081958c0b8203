"""Deps over HTTP: services set and read them, people only if the agent allows it; the client and `chat` pass them."""

from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests import journals
from tests.api.test_people_and_agents import SERVICE, Crowd, crowd
from tests.client.rig import client_of, served
from tests.kit import call, hanging
from toolwright.core.errors import OtherDeps
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Customer(BaseModel):
    id: int


@tw.tool(description="Reads the deps.")
async def number(state: tw.ThreadState[Customer]) -> int:
    return state.deps.id


def desk(**options: Any) -> tw.Agent:
    model = ScriptedModel([call("number"), {"text": "Done."}])
    return tw.Agent("desk", instructions="Be brief.", model=model, tools=[number], deps=Customer, **options)


async def send(town: Crowd, who: Any, thread_id: str, status: int = 202, **more: Any) -> Any:
    return await town.ask(who, f"/api/threads/{thread_id}/messages", {"content": "Go", **more}, status)


async def test_a_service_sets_deps_which_only_services_see() -> None:
    async with crowd(tw.App(agents=[desk()])) as town:
        thread_id = (await town.open("ada", "desk"))["threadId"]
        run_id = (await send(town, SERVICE, thread_id, deps={"id": 7}))["runId"]
        run = await town.rt.runs.wait(run_id)
        assert run.status == "completed"
        assert [each.result and each.result.result for each in (await town.rt.runs.result(run_id)).calls] == [
            7
        ]
        shown = await town.ask(SERVICE, f"/api/runs/{run_id}")
        assert shown["run"]["deps"] == {"id": 7}
        assert "deps" not in (await town.ask("ada", f"/api/runs/{run_id}"))["run"]
        assert all("deps" not in each for each in (await town.ask(SERVICE, "/api/runs"))["runs"])
        run_id = (await send(town, "ada", thread_id))["runId"]
        await town.rt.runs.wait(run_id)
        assert (await town.ask(SERVICE, f"/api/runs/{run_id}"))["run"]["deps"] == {"id": 7}


async def test_a_person_may_set_them_only_if_the_agent_allows_it() -> None:
    async with crowd(tw.App(agents=[desk()])) as town:
        thread_id = (await town.open("ada", "desk"))["threadId"]
        refused = await send(town, "ada", thread_id, 403, deps={"id": 7})
        assert refused["error"] == "Only services may set the deps of this agent's runs."
        assert await town.rt.runs.list(thread_id=thread_id) == []
    async with crowd(tw.App(agents=[desk(user_deps=True)])) as town:
        thread_id = (await town.open("ada", "desk"))["threadId"]
        run_id = (await send(town, "ada", thread_id, deps={"id": 7}))["runId"]
        assert (await town.rt.runs.wait(run_id)).deps == {"id": 7}


async def test_invalid_deps_are_400_and_nothing_is_sent() -> None:
    async with crowd(tw.App(agents=[desk(), tw.Agent("plain", instructions="Hi.")])) as town:
        thread_id = (await town.open(SERVICE, "desk"))["threadId"]
        for deps in ({"id": "x"}, {}, "x", {"id": None}):
            await send(town, SERVICE, thread_id, 400, deps=deps)
        thread_id = (await town.open(SERVICE, "plain"))["threadId"]
        answer = await send(town, SERVICE, thread_id, 400, deps={"id": 7})
        assert "declares no deps" in answer["error"]
        assert await town.rt.runs.list() == []


async def test_the_client_sends_a_value_and_gets_the_error_of_a_run_with_others() -> None:
    hang, begun = hanging()
    agent = tw.Agent(
        "desk", instructions="Go.", model=ScriptedModel([call("hang")]), tools=[hang], deps=Customer
    )
    async with journals.runtime(tw.App(agents=[agent])) as rt, served(rt) as port, client_of(port) as client:
        thread = await client.threads.create("desk")
        sent = await client.threads.send(thread.id, "Go", deps=Customer(id=7))
        await begun.wait()
        assert (await client.threads.send(thread.id, "Go", deps={"id": 7})).run_id == sent.run_id
        with pytest.raises(OtherDeps, match="with other deps") as raised:
            await client.threads.send(thread.id, "Go", deps=Customer(id=8))
        assert raised.value.code == "other_deps"
        assert (await client.runs.get(sent.run_id or "")).deps == {"id": 7}
        await rt.runs.cancel(sent.run_id or "")
