"""Shares of callers: their turns, their rates, and replays of streams that take turns."""

import asyncio
import re

import httpx2
import pytest
from starlette.types import Message

import toolwright as tw
from tests.api.rig import Api, serving
from tests.api.town import ADA, BOB, town
from tests.api.town import SERVICE as SERVICE_KEY
from tests.kit import call
from toolwright import testing
from toolwright.core.threads.event import Topic
from toolwright.testing import ManualClock, ScriptedModel
from toolwright.web.auth.access import SERVICE, Caller
from toolwright.web.console.console import Console
from toolwright.web.dependencies import Serving
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions
from toolwright.web.shares import Rates, Turns, network_of
from toolwright.web.streams import AT_ONCE, EventStream

pytestmark = pytest.mark.anyio

EMITTED = 450


@tw.tool(description="Say a lot.")
async def shout(state: tw.ThreadState) -> str:
    for n in range(EMITTED):
        state.emit("shout", {"n": n})
    return "done"


async def test_callers_take_turns_however_much_each_has_to_do() -> None:
    turns, done = Turns(), list[str]()

    async def work(caller: str) -> None:
        async with turns.take(caller):
            done.append(caller)

    async with asyncio.TaskGroup() as tasks, turns.take("busy"):
        for _ in range(5):
            tasks.create_task(work("busy"))
        await asyncio.sleep(0)
        for caller in ("ada", "bob", "ada"):
            tasks.create_task(work(caller))
        await asyncio.sleep(0)
        assert done == []
    assert done == ["busy", "ada", "bob", "busy", "ada", "busy", "busy", "busy"]


@pytest.mark.parametrize("given", [False, True])
async def test_a_caller_who_leaves_passes_the_turn_on(given: bool) -> None:
    turns, done = Turns(), list[str]()

    async def work(caller: str) -> None:
        async with turns.take(caller):
            done.append(caller)

    async with asyncio.TaskGroup() as tasks:
        async with turns.take("first"):
            leaving = tasks.create_task(work("leaves"))
            tasks.create_task(work("stays"))
            await asyncio.sleep(0)
            if not given:
                leaving.cancel()
        if given:  # its turn has been given, but it has not run
            leaving.cancel()
    async with turns.take("last"):
        done.append("last")
    assert [each for each in done if each != "leaves"] == ["stays", "last"]


async def test_a_rate_has_a_burst_and_refills() -> None:
    now = 100.0
    rates = Rates(3, 0.5, lambda: now, most=2)
    for _ in range(3):
        assert rates.seconds_until_free("ada") == 0
        rates.use("ada")
    assert rates.seconds_until_free("ada") == 2
    assert rates.seconds_until_free("bob") == 0
    now += 2
    assert rates.seconds_until_free("ada") == 0
    rates.use("ada")
    assert rates.seconds_until_free("ada") == 2
    for key in ("bob", "eve"):
        rates.use(key)
    assert rates.seconds_until_free("ada") == 0, "only the last used keys are remembered"


async def test_a_clock_that_is_set_back_does_not_reject_a_caller_until_it_has_caught_up() -> None:
    now = 10_000.0
    rates = Rates(3, 0.5, lambda: now)
    rates.use("ada")
    now -= 3_600
    assert rates.seconds_until_free("ada") == 0


class Reader:
    """Reads a stream until it has seen the end of the run, and notes when each write came."""

    def __init__(self, name: str, order: list[str]) -> None:
        self.name = name
        self.writes: list[int] = []  # events of each write
        self.ended = asyncio.Event()
        self._order = order

    async def send(self, message: Message) -> None:
        frames = message.get("body", b"")
        if b'"shout"' not in frames and b"run." not in frames:
            return
        self.writes.append(len(re.findall(rb"^id: ", frames, re.MULTILINE)))
        self._order.append(self.name)
        if b'"run.completed"' in frames:
            self.ended.set()

    async def receive(self) -> Message:
        await self.ended.wait()
        return {"type": "http.disconnect"}


async def replay(api: Api, reader: Reader, thread_id: str, caller: Caller) -> None:
    parts: Serving = api.application.state.serving
    stream = EventStream(parts, caller, Topic(kind="thread", id=thread_id), 0, {})
    await stream({"type": "http"}, reader.receive, reader.send)


def named(name: str) -> Caller:
    return Caller(kind="service", name=name)


async def test_a_replay_is_one_write_and_one_pause_a_page() -> None:
    async with serving(ScriptedModel([call("shout"), {"text": "Done."}]), [shout]) as api:
        thread_id, _ = await api.finished()
        reader, ticks = Reader("ada", []), 0

        async def tick() -> None:
            nonlocal ticks
            while not reader.ended.is_set():
                ticks += 1
                await asyncio.sleep(0)

        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(tick())
            tasks.create_task(replay(api, reader, thread_id, SERVICE))
        assert sum(reader.writes) > EMITTED
        assert max(reader.writes) <= AT_ONCE
        assert len(reader.writes) <= EMITTED // AT_ONCE + 2
        assert ticks >= len(reader.writes), "others have had their turn between the writes"


async def test_a_caller_with_many_replays_waits_for_the_others() -> None:
    async with serving(ScriptedModel([call("shout"), {"text": "Done."}]), [shout]) as api:
        thread_id, _ = await api.finished()
        order: list[str] = []
        many = [Reader("busy", order) for _ in range(30)]
        one = Reader("ada", order)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for reader in many:
                tasks.create_task(replay(api, reader, thread_id, named("busy")))
            await asyncio.sleep(0)
            tasks.create_task(replay(api, one, thread_id, named("ada")))
        last = len(order) - order[::-1].index("ada")
        assert last <= 6 * len(one.writes), f"the last write of the other was number {last} of {len(order)}"
        assert len(order) >= 30 * len(one.writes)


async def test_a_person_has_a_rate_of_changes_and_others_and_services_are_not_affected() -> None:
    async with town() as made:
        parts: Serving = made.api.application.state.serving
        parts.changes = Rates(3, 0.001, lambda: 0.0)
        for _ in range(3):
            await made.post("/api/threads", ADA, {"agentId": "tester"}, 201)
        refused = await made.api.client.post("/api/threads", headers=ADA, json={"agentId": "tester"})
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1000"
        assert refused.json() == {
            "error": "You have sent too many requests. Try again in 1000 seconds.",
            "code": "too_many_requests",
        }
        for path in ("/api/stream-tokens", f"/api/threads/{made.ids['thread_id']}/messages"):
            refused = await made.api.client.post(path, headers=ADA, json={"content": "Hi"})
            assert refused.status_code == 429, path
        assert len((await made.get("/api/threads", ADA))["threads"]) == 4
        await made.post("/api/threads", BOB, {"agentId": "tester"}, 201)
        for _ in range(5):
            await made.post("/api/threads", SERVICE_KEY, {"agentId": "tester"}, 201)


async def test_an_address_whose_sign_ins_fail_waits_before_another_key_is_compared() -> None:
    clock, key = ManualClock(), "key-with-all-the-rights"
    options = GatewayOptions(clock=clock, secret_keys=(key,), console=Console)

    async with testing.runtime(tw.App()) as rt:
        gateway = create_gateway(rt, options)

        async def enter(entered: str, address: str) -> httpx2.Response:
            transport = httpx2.ASGITransport(gateway, client=(address, 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.post("/console/sign-in", data={"secret_key": entered})

        for _ in range(10):
            assert (await enter("wrong", "2001:db8::1")).status_code == 401
        for entered, address in (("wrong", "2001:db8::1"), (key, "2001:db8::2")):
            refused = await enter(entered, address)
            assert refused.status_code == 429 and refused.headers["retry-after"] == "6"
            assert "Too many sign-ins have failed. Try again in 6 seconds." in refused.text
        assert (await enter(key, "192.0.2.7")).status_code == 303
        clock.advance(6)
        assert (await enter(key, "2001:db8::2")).status_code == 303


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("testclient", "testclient"),
        (None, "-"),
    ],
)
def test_the_addresses_of_one_network_count_together(address: str | None, network: str) -> None:
    assert network_of(address) == network
