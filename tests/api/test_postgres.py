"""The gateway on a Postgres journal: a run, its lists and its stream."""

from collections.abc import AsyncGenerator

import pytest

from tests.api.rig import Api, serving
from tests.databases import opened
from tests.postgres_server import fresh_database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api() -> AsyncGenerator[Api]:
    async with fresh_database() as url, serving(store=lambda bus: opened(url, bus)) as served:
        yield served


async def test_a_run_waits_for_a_result_and_goes_on_with_it(api: Api) -> None:
    run_id, call_id = await api.waiting()
    submission = {"callId": call_id, "result": "Ada"}
    await api.post(f"/api/runs/{run_id}/tool-results", submission)
    await api.post(f"/api/runs/{run_id}/tool-results", submission, 409)
    await api.rig.rt.runs.wait(run_id, 10)
    shown = await api.get(f"/api/runs/{run_id}")
    run = shown.get("run", shown)
    assert run["status"] == "completed"
    assert (await api.get("/api/calls", params={"runId": run_id}))["calls"] == []


async def test_the_events_of_a_thread_are_streamed_from_where_a_reader_was(api: Api) -> None:
    run_id, call_id = await api.waiting()
    thread_id = (await api.rig.rt.runs.get(run_id)).thread_id
    async with api.stream(f"/api/threads/{thread_id}/stream", Last_Event_ID="0") as stream:
        assert stream.status == 200
        numbers = [event["id"] for event in await stream.until("run.waiting") if event.get("id")]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    await api.post(f"/api/runs/{run_id}/tool-results", {"callId": call_id, "result": "Ada"})
    async with api.stream(f"/api/threads/{thread_id}/stream", Last_Event_ID=numbers[-1]) as stream:
        event = await stream.event()
        while not event.get("id"):
            event = await stream.event()
        assert int(event["id"]) == len(numbers) + 1


async def test_unknown_things_are_not_found(api: Api) -> None:
    for path in ("/api/threads/thr_none", "/api/runs/run_none"):
        assert (await api.client.get(path)).status_code == 404
