"""The stream of calls for outside workers: open calls first, then new ones, each once per connection."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import toolwright as tw
from tests.api.rig import Api, Stream, outside, read, serving
from tests.databases import stores
from tests.kit import call
from toolwright.core.results import Outcome, Pending
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Kind
from toolwright.runtime.calls.plan import InlineExecutor
from toolwright.runtime.pending import offers
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

other = replace(outside, name="other")
STREAM = "/api/tools/stream"


def at_once(prepared: PreparedCall) -> Outcome:
    """An outside worker has the call, and the run continues."""
    return Pending()


PENDING: Mapping[Kind, InlineExecutor] = {"external": at_once}


def both(times: int = 1) -> ScriptedModel:
    """A model that calls both tools, that number of times in one answer."""
    turn: list[dict[str, object]] = [{"name": name, "args": {}} for name in ("ask_outside", "other")]
    return ScriptedModel([{"calls": turn * times}, {"text": "Done."}])


async def offered(stream: Stream, count: int) -> list[str]:
    """Return the ids of the next offers."""
    return [(await stream.event())["data"]["toolCallId"] for _ in range(count)]


async def open_calls(api: Api) -> list[str]:
    found = await api.get("/api/calls", params={"limit": 1_000})
    return [call["callId"] for call in found["calls"]]


async def test_an_open_call_is_offered_with_its_arguments(tmp_path: Path) -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        async with api.stream(STREAM) as stream:
            assert stream.status == 200
            connected = await stream.event()
            assert (connected["type"], connected["data"], set(connected)) == (
                "connected",
                {},
                {"type", "ts", "data"},
            )
            offer = await stream.event()
            entity_id = api.rig.rt.agents.declared[0].entity_id
            assert (offer["type"], offer["runId"], offer["agentEntityId"]) == ("tool.call", run_id, entity_id)
            assert "id" not in offer and "seq" not in offer
            assert offer["data"] == {
                "toolCallId": call_id,
                "toolName": "ask_outside",
                "args": {"user_name": "Ada"},
                "runId": run_id,
                "agentEntityId": entity_id,
            }
            later = await api.run(await api.thread())
            fresh = await stream.event()
            assert fresh["runId"] == later


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_calls_before_and_after_the_connection_come_once_each(kind: str, tmp_path: Path) -> None:
    async with (
        stores(kind, tmp_path) as store,
        serving(both(60), [outside, other], store=store, inline_executors=PENDING) as api,
    ):
        await api.finished()
        async with api.stream(STREAM) as stream, api.stream(f"{STREAM}?tools=other,none") as some:
            for each in (stream, some):
                await each.event()
            first = await offered(stream, 120)
            assert sorted(first) == sorted(await open_calls(api))
            await api.finished()
            second = await offered(stream, 120)
            assert len({*first, *second}) == 240
            filtered = [await some.event() for _ in range(120)]
            assert {offer["data"]["toolName"] for offer in filtered} == {"other"}
            assert len({offer["data"]["toolCallId"] for offer in filtered}) == 120


async def test_calls_that_are_claimed_or_over_are_not_offered() -> None:
    async with serving(both(), [outside, other], inline_executors=PENDING) as api:
        run_id = (await api.finished())[1]
        mine, over = await open_calls(api)
        await api.post(f"/api/calls/{mine}/claim", {"worker": "ann", "leaseMs": 60_000})
        await api.post(f"/api/runs/{run_id}/tool-results", {"callId": over, "result": 1})
        async with api.stream(STREAM) as stream:
            await stream.event()
            await api.finished()
            assert not {*await offered(stream, 2)} & {mine, over}


async def test_a_call_whose_lease_is_over_is_offered_again_if_it_is_repeatable() -> None:
    repeatable = replace(other, idempotent=True)
    async with serving(both(), [outside, repeatable], inline_executors=PENDING) as api:
        await api.finished()
        once, again = await open_calls(api)
        async with api.stream(STREAM) as stream:
            await stream.event()
            assert await offered(stream, 2) == [once, again]
            for call_id in (once, again):
                await api.post(f"/api/calls/{call_id}/claim", {"worker": "ann", "leaseMs": 1_000})
            assert await offered(stream, 1) == [again]
        async with api.stream(STREAM) as stream:
            await stream.event()
            assert await offered(stream, 1) == [again]


async def test_calls_that_another_process_opens_are_offered_too(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path) as store, AsyncExitStack() as stack:
        driving = await stack.enter_async_context(serving(store=store))
        beside = await stack.enter_async_context(serving(store=store))
        async with beside.stream(STREAM) as stream:
            await stream.event()
            _, call_id = await driving.waiting()
            assert await offered(stream, 1) == [call_id]


async def test_a_reader_that_lags_too_far_is_cut_off_and_finds_all_again(tmp_path: Path) -> None:
    async with serving(both(1_100), [outside, other], inline_executors=PENDING) as api:
        offering = api.rig.rt.offers
        async with offering.following() as following:
            await api.finished()
            async with asyncio.timeout(10):
                await following.overrun()
        async with offering.following(["other"]) as following, asyncio.timeout(10):
            found = [await anext(following.events) for _ in range(1_100)]
            assert len({str(event.payload["toolCallId"]) for event in found}) == 1_100


async def test_many_readers_take_turns_at_the_journal() -> None:
    async with serving(both(150), [outside, other], inline_executors=PENDING) as api:
        await api.finished()
        reading = 0
        inner = api.rig.store.inner.offers

        class Counted:
            """Counts the concurrent reads."""

            most = 0
            pause = 0.0

            async def claimable(self, *args: object, **options: object) -> object:
                nonlocal reading
                reading += 1
                self.most = max(self.most, reading)
                await asyncio.sleep(0)
                reading -= 1
                return await inner.claimable(*args, **options)  # type: ignore[arg-type]  # passed on unchanged

        counted = Counted()
        api.rig.store.inner.offers = counted  # type: ignore[misc,assignment]  # a test double

        async def read_all() -> set[str]:
            async with api.rig.rt.offers.following(["other"]) as following:
                return {str((await anext(following.events)).payload["toolCallId"]) for _ in range(150)}

        async with asyncio.timeout(20):
            found = await asyncio.gather(*(read_all() for _ in range(20)))
        assert {len(each) for each in found} == {150}
        assert counted.most <= 2  # one reader at a time, and the watcher
        assert offers.PAGE < 150


async def test_people_are_refused_and_a_services_token_opens_the_stream_once() -> None:
    async with serving(secret_keys=("sk",)) as api:
        api.client.headers["x-secret-key"] = "sk"
        token = (await api.post("/api/stream-tokens"))["token"]
        async with api.stream(f"{STREAM}?token={token}") as stream:
            assert (await stream.event())["type"] == "connected"
        del api.client.headers["x-secret-key"]
        read(await api.client.get(f"{STREAM}?token={token}"), 401)
        read(await api.client.get(STREAM), 401)


@tw.tool(description="Say hello.")
async def hello() -> str:
    return "hello"


async def test_other_kinds_of_tools_are_not_offered() -> None:
    model = ScriptedModel([call("hello"), call("ask_outside"), {"text": "Done."}])
    async with serving(model, [hello, outside]) as api, api.stream(STREAM) as stream:
        await stream.event()
        await api.run(await api.thread())
        assert (await stream.event())["data"]["toolName"] == "ask_outside"
