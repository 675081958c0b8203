"""Threads are deleted over HTTP: by allowed callers, only if nothing is in progress, with all their data."""

import pytest

from tests.api.rig import Api, asking, read, serving
from tests.api.town import ADA, BOB, town
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def asked(api: Api) -> tuple[str, str]:
    """Return a thread whose run waits for an external result, and that run."""
    thread = read(await api.client.post("/api/threads", json={"agentId": "tester"}), 201)["threadId"]
    sent = await api.client.post(f"/api/threads/{thread}/messages", json={"content": "Go"})
    return thread, read(sent, 202)["runId"]


async def test_a_deleted_thread_is_not_there_any_more() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        thread, run = await asked(api)
        await api.rig.rt.runs.wait(run, 10)
        gone = await api.client.delete(f"/api/threads/{thread}")
        assert (gone.status_code, gone.content) == (204, b"")
        for path in (
            f"threads/{thread}",
            f"threads/{thread}/messages",
            f"threads/{thread}/stream",
            f"runs/{run}",
        ):
            read(await api.client.get(f"/api/{path}"), 404)
        again = read(await api.client.delete(f"/api/threads/{thread}"), 404)
        assert again["error"] == f"There is no thread {thread!r}."
        assert (await api.get("/api/threads"))["threads"] == []


async def test_a_running_thread_is_deleted_only_with_cancel() -> None:
    async with serving(asking()) as api:
        thread, run = await asked(api)
        refused = read(await api.client.delete(f"/api/threads/{thread}"), 409)
        assert thread in refused["error"]
        assert (await api.client.delete(f"/api/threads/{thread}?cancel=true")).status_code == 204
        read(await api.client.get(f"/api/runs/{run}"), 404)
        read(await api.client.get(f"/api/threads/{thread}"), 404)
        faulty = read(await api.client.delete(f"/api/threads/{thread}?cancel=perhaps"), 400)
        assert faulty["details"][0]["path"] == "cancel"


async def test_a_person_deletes_their_own_threads_alone() -> None:
    async with town() as made:
        thread = (await made.post("/api/threads", ADA, {"agentId": "tester"}, 201))["threadId"]
        refused = await made.api.client.delete(f"/api/threads/{thread}", headers=BOB)
        assert read(refused, 404)["error"] == f"There is no thread {thread!r}."
        await made.get(f"/api/threads/{thread}", ADA, 200)
        assert (await made.api.client.delete(f"/api/threads/{thread}", headers=ADA)).status_code == 204
        await made.get(f"/api/threads/{thread}", ADA, 404)
