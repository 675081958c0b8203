"""Long conversations over HTTP: the prompt as sent, summaries and pins, for services and the owners of threads."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.api.rig import outside, read, serving
from tests.api.town import ADA, BOB, SERVICE, Town, town
from tests.client.rig import client_of
from tests.runtime.test_context_window import Narrow, echo
from toolwright.core.errors import NotFound
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio

WORDS = "word " * 100


def answer(request: ModelRequest) -> ModelResponse:
    """A model that makes an external call if asked to, and otherwise talks."""
    if request.messages[-1].content == "Go":
        return ModelResponse(calls=(ModelCall(id="a", name="ask_outside", arguments="{}"),))
    return echo(request)


def talker() -> Narrow:
    return Narrow(answer, limit=2_000, window=2_000)


async def talk(rt: Runtime, thread_id: str) -> str:
    """Talk until something is left out of the prompt. Return the last run."""
    run_id = ""
    for number in range(30):
        run = await rt.runs.wait((await rt.threads.send(thread_id, f"{number}: {WORDS}")).id, 20)
        assert run.status == "completed", run.error
        run_id = run.id
        rows = await rt.threads.compactions(thread_id)
        if rows and rows[-1].cut:
            break
    return run_id


@asynccontextmanager
async def long_talk() -> AsyncGenerator[tuple[Town, str, str]]:
    """Ada's thread, from whose prompt something is left out, and its last run."""
    async with town(model=talker(), tools=[outside]) as made:
        thread = await made.api.rig.rt.threads.create("tester", made.ids["ada"])
        yield made, thread.id, await talk(made.api.rig.rt, thread.id)


async def test_a_person_sees_what_was_said_and_a_service_the_system_text_and_the_tools_too() -> None:
    async with long_talk() as (made, _, run_id):
        [whole] = (await made.get(f"/api/runs/{run_id}/prompts", SERVICE))["prompts"]
        [seen] = (await made.get(f"/api/runs/{run_id}/prompts", ADA))["prompts"]
        assert whole["system"] == "You test." and whole["tools"][0]["name"] == "ask_outside"
        assert (seen["system"], seen["changing"], seen["tools"]) == (None, None, None)
        assert {**seen, "system": 0, "changing": 0, "tools": 0} == {
            **whole, "system": 0, "changing": 0, "tools": 0,
        }  # fmt: skip
        assert (seen["stepNumber"], seen["compaction"]["number"] > 0) == (1, True)
        assert seen["messages"][0]["content"] == seen["compaction"]["text"]
        [step] = (await made.get(f"/api/runs/{run_id}", ADA))["run"]["steps"]
        assert step["context"] == seen["context"]
        assert seen["context"]["budget"] and seen["context"]["counted"]
        await made.get(f"/api/runs/{run_id}/prompts", BOB, 404)


async def test_the_owner_edits_and_removes_the_summary_and_no_one_else() -> None:
    async with long_talk() as (made, thread_id, _):
        path, client = f"/api/threads/{thread_id}/summary", made.api.client
        read(await client.patch(path, json={"text": "Mine."}, headers=BOB), 404)
        read(await client.delete(path, headers=BOB), 404)
        read(await client.patch(path, json={"text": ""}, headers=ADA), 400)
        read(await client.patch(path, json={"text": "Tea.", "editedBy": "x"}, headers=ADA), 400)
        edited = read(await client.patch(path, json={"text": "Tea."}, headers=ADA), 200)["compaction"]
        assert (edited["summary"], edited["cause"]) == ("Tea.", "edited")
        assert edited["editedBy"] == f"person:{made.ids['ada']}"
        removed = read(await client.delete(path, headers=SERVICE), 200)["compaction"]
        assert (removed["cause"], removed["cut"], removed["editedBy"].partition(":")[0]) == (
            "removed",
            0,
            "service",
        )
        listed = (await made.get(f"/api/threads/{thread_id}/compactions", ADA))["compactions"]
        assert listed[-2:] == [edited, removed]
        page = await made.get(f"/api/threads/{thread_id}/compactions", ADA, limit=1, offset=len(listed) - 1)
        assert page["compactions"] == [removed]
        await made.get(f"/api/threads/{thread_id}/compactions", BOB, 404)


async def test_the_owner_pins_messages_and_no_one_else() -> None:
    async with long_talk() as (made, thread_id, _):
        first = (await made.get(f"/api/threads/{thread_id}/messages", ADA))["messages"][0]
        path, client = f"/api/threads/{thread_id}/messages/{first['id']}/pin", made.api.client
        read(await client.put(path, headers=BOB), 404)
        assert "pinned" not in first
        pinned = read(await client.put(path, headers=ADA), 200)["message"]
        assert pinned == {**first, "pinned": True}
        assert (await made.get(f"/api/threads/{thread_id}/messages", ADA))["messages"][0] == pinned
        assert read(await client.delete(path, headers=ADA), 200)["message"] == first


async def test_the_owner_hides_messages_and_no_one_else() -> None:
    async with long_talk() as (made, thread_id, _):
        first = (await made.get(f"/api/threads/{thread_id}/messages", ADA))["messages"][0]
        path, client = f"/api/threads/{thread_id}/messages/{first['id']}/hidden", made.api.client
        read(await client.put(path, headers=BOB), 404)
        read(await client.delete(path, headers=BOB), 404)
        [hidden] = read(await client.put(path, headers=ADA), 200)["messages"]
        assert hidden == {**first, "hiddenBy": hidden["hiddenBy"]}
        assert hidden["hiddenBy"].startswith("person:")
        assert (await made.get(f"/api/threads/{thread_id}/messages", ADA))["messages"][0] == hidden
        assert read(await client.delete(path, headers=ADA), 200)["messages"] == [first]


async def test_the_client_does_it_all() -> None:
    async with serving(talker(), [outside]) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        run_id = await talk(api.rig.rt, thread.id)
        [prompt] = await client.runs.prompts(run_id)
        assert prompt.compaction == (await client.threads.compactions(thread.id))[-1]
        edited = await client.threads.edit_summary(thread.id, "Tea.")
        assert (edited.summary, edited.cause) == ("Tea.", "edited")
        [first] = await client.threads.messages(thread.id, limit=1)
        assert not first.pinned
        assert (await client.threads.pin(thread.id, first.id)).pinned
        assert not (await client.threads.pin(thread.id, first.id, False)).pinned
        [hidden] = await client.threads.hide_message(thread.id, first.id)
        assert (hidden.id, hidden.hidden_by is None) == (first.id, False)
        assert [each.hidden_by for each in await client.threads.hide_message(thread.id, first.id, False)] == [
            None
        ]
        assert (await client.threads.remove_summary(thread.id)).cause == "removed"
        with pytest.raises(NotFound):
            await client.threads.edit_summary(thread.id, "More.")
