"""Processes of a cluster exchange events, live text and wake-ups, even if the relay loses messages."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.fernet import Fernet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolwright as tw
from tests.kit import send_to
from tests.motor.rig import NatsServer, Rig, bus_of, leased
from tests.play import begun, draft
from tests.postgres_server import fresh_database
from toolwright import testing
from toolwright.adapters import system
from toolwright.adapters.bus import cluster as cluster_bus
from toolwright.adapters.bus.cluster import ClusterBus
from toolwright.adapters.bus.memory import MAX_BYTES, QueueFollower
from toolwright.adapters.memory import MemoryFiles
from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.system import SystemClock
from toolwright.core.journal.units import Node, Result
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse, TextDelta
from toolwright.core.threads.event import GROWN, Event, Topic
from toolwright.core.value import changed
from toolwright.runtime.pending import offers
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.threads.events import Events
from toolwright.testing import ManualMotor
from toolwright.web.console.visit import Presence
from toolwright.wiring import gateway, parts

pytestmark = pytest.mark.anyio


class Spoken:
    """A model that repeats its message, piece by piece."""

    name = "test:spoken"

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self.asked = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.asked.set()
        whole = ""
        while (piece := await self.pieces.get()) is not None:
            whole += piece
            yield TextDelta(piece)
        yield ModelResponse(text=whole, model="spoken")


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the files of a test's processes in one folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["postgres", "nats"])
def cluster(request: pytest.FixtureRequest) -> Generator[str]:
    """The cluster setting."""
    if request.param == "postgres":
        yield "postgres"
        return
    server = NatsServer()
    yield server.url
    server.kill()


@asynccontextmanager
async def process(url: str, model: Any, cluster: str, *, work: bool) -> AsyncGenerator[Runtime]:
    """A process of a cluster, which executes runs or not."""
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=model)])
    async with app.runtime(tw.Settings(database_url=url, cluster=cluster, work=work)) as rt:
        yield rt


async def test_text_that_another_process_streams_is_followed_live(cluster: str) -> None:
    async with fresh_database() as url:
        model = Spoken()
        async with process(url, model, cluster, work=True), process(url, model, cluster, work=False) as rt:
            thread = await rt.threads.create("talker")
            topic = Topic(kind="thread", id=thread.id)
            async with asyncio.timeout(60), rt.events.following(topic) as following:
                run = await rt.threads.send(thread.id, "Go")
                speaking = asyncio.create_task(speak(model))
                seen: list[Event] = []
                async for event in following.events:
                    seen.append(event)
                    if event.type == "message.delta":
                        speaking.cancel()
                        model.pieces.put_nowait(None)
                    if event.type == "run.completed":
                        break
            types = [event.type for event in seen]
            assert types.index("message.delta") < len(types) - types[::-1].index("message")
            numbers = [event.n for event in seen if event.n is not None]
            assert numbers == [*range(1, len(numbers) + 1)]
            assert "la la" in str((await rt.runs.wait(run.id, 30)).output)


async def speak(model: Spoken) -> None:
    """Say more and more."""
    while True:
        model.pieces.put_nowait("la ")
        await asyncio.sleep(0.02)


async def test_a_thread_that_is_woken_in_another_process_is_drained_at_once(cluster: str) -> None:
    async with (
        fresh_database() as url,
        bus_of(url, cluster, works=False) as outside,
        bus_of(url, cluster, works=True) as bus,
        leased(url, sweep=600.0, bus=bus) as rig,
    ):
        await until(lambda: bool(outside._workers))  # pyright: ignore[reportPrivateUsage]  # its messages have arrived
        for name in ("a", "b"):  # the motor does not poll
            await rig.thread(name)
            await rig.post(name)
            outside.wake(name)
            await rig.until(lambda name=name: rig.drained[-1:] == [name])


async def test_a_thread_that_is_leased_elsewhere_is_woken_there(cluster: str) -> None:
    async with (
        fresh_database() as url,
        bus_of(url, cluster, works=True) as one,
        bus_of(url, cluster, works=True) as two,
        leased(url, sweep=600.0, bus=one) as first,
        leased(url, sweep=600.0, bus=two) as second,
    ):
        await until(lambda: bool(one._workers and two._workers))  # pyright: ignore[reportPrivateUsage]  # its messages have arrived
        holding, begun, go_on = list[Rig](), asyncio.Event(), asyncio.Event()

        async def take_long(rig: Rig, _: str) -> None:
            holding.append(rig)
            begun.set()
            await go_on.wait()

        for rig in (first, second):  # on a busy machine the second can still look at all threads once
            rig.during = partial(take_long, rig)
        await first.thread("a")
        await first.send("a")
        await begun.wait()
        [holder] = holding
        other = second if holder is first else first
        await other.send("a")  # the other node cannot lease it
        await holder.until(lambda: "a" in holder.nudged)
        go_on.set()
        await holder.until(lambda: holder.drained == ["a", "a"])
        assert other.drained == []


async def test_a_call_that_another_process_opens_is_offered_at_once(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "LOOK_AGAIN", 600.0)  # the journal is not polled
    monkeypatch.setattr(offers, "LOOK_ABROAD", 600.0)
    tool = tw.Tool(name="ask_outside", description="Ask outside.", kind="external", timeout=60.0)
    model = testing.ScriptedModel([{"calls": [{"name": "ask_outside", "args": dict[str, str]()}]}])
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=model, tools=[tool])])
    async with fresh_database() as url:

        def opened(*, work: bool) -> AbstractAsyncContextManager[Runtime]:
            return app.runtime(tw.Settings(database_url=url, cluster=cluster, work=work))

        async with opened(work=True) as works, opened(work=False) as rt, rt.offers.following() as following:
            bus = cast("ClusterBus", works.events.bus)
            reading = asyncio.create_task(anext(following.events))
            await until(lambda: ("tools", "") in bus._elsewhere)  # pyright: ignore[reportPrivateUsage]
            run = await send_to(rt, "talker")
            async with asyncio.timeout(60):
                assert (await reading).run_id == run.id


async def test_people_at_a_space_and_who_types_are_seen_in_other_processes() -> None:
    async with captured() as (bus, relay):
        redrawn = list[str]()
        presence = Presence(lambda: bus)
        presence.come("page 1", "trip", "ada", lambda: redrawn.append("ada"))
        presence.come("page 2", "trip", "ada", lambda: None)
        await until(lambda: bool(relay.messages("share")))
        relay.tell("share", "presence trip", {"bob": True})
        assert (presence.present("trip"), presence.typing("trip")) == ({"ada", "bob"}, {"bob"})
        presence.type("page 2", is_typing=True)
        assert (presence.typing("trip"), presence.present("other")) == ({"ada", "bob"}, set())
        relay.tell("share", "presence trip", None)
        assert presence.present("trip") == {"ada"}
        relay.tell("share", "presence trip", ["of another version"])
        assert presence.present("trip") == {"ada"}
        presence.leave("page 1")
        presence.leave("page 2")
        await until(lambda: ["presence trip", None] in relay.messages("share"))
        assert relay.messages("share")[0] == ["presence trip", {"ada": False}]
        assert len(redrawn) == 5  # page 2 joined and typed, and three changes elsewhere
        presence.close()
        assert bus.on_shared == []


async def test_a_relay_whose_session_is_ended_connects_again_and_what_was_missed_is_read() -> None:
    async with (
        fresh_database() as url,
        bus_of(url, "postgres", works=True) as one,
        bus_of(url, "postgres", works=True) as two,
    ):
        watcher = await connect(url)
        with one.subscribe(Topic(kind="thread", id="th_1")) as follower:
            await until_heard(two, follower)
            while await watcher.fetch(END_LISTENERS):
                pass
            async with asyncio.timeout(60):
                while GROWN not in await follower.next():  # connected again: the journal must be read
                    pass
            await until_heard(two, follower)
        await watcher.close()


async def until_heard(sender: ClusterBus, follower: QueueFollower) -> None:
    """Publish live events until one of them arrives."""
    now = SystemClock().now()
    event = Event(thread_id="th_1", run_id=None, agent=None, type="message.delta", payload={}, at=now)
    async with asyncio.timeout(60):
        while event not in await follower.next(0.05):
            sender.publish([event])


END_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query LIKE 'SELECT pg_notify%')
"""


class Captured:
    """A relay that records the sent messages, and with which a test sends as another process."""

    pause = 0.005

    def __init__(self, most: int = 1_000) -> None:
        self.most, self.sent = most, list[str]()
        self.gate = asyncio.Event()  # while it is clear, sending blocks
        self.gate.set()

    async def listen(self, receive: Callable[[str], None], connected: Callable[[], None]) -> None:
        self.receive = receive
        await asyncio.Event().wait()

    async def send(self, texts: Sequence[str]) -> None:
        await self.gate.wait()
        self.sent += texts

    def messages(self, kind: str) -> list[list[Any]]:
        """Return the fields of the sent messages of a kind."""
        return [fields for text in self.sent for name, *fields in json.loads(text)[1:] if name == kind]

    def tell(self, *message: Any, node: str = "bus_other") -> None:
        """Send one message as another process."""
        self.receive(json.dumps([node, [*message]]))


@asynccontextmanager
async def captured(most: int = 1_000) -> AsyncGenerator[tuple[ClusterBus, Captured]]:
    """A bus and its relay, which is listening."""
    relay = Captured(most)
    bus = ClusterBus(relay, works=True)
    await bus.start()
    try:
        await until(lambda: bool(relay.sent))
        yield bus, relay
    finally:
        relay.gate.set()
        await bus.close()


def live(stream: str, **payload: Any) -> Event:
    """Return a piece of a text in a thread."""
    payload = {"streamId": stream, "delta": "d", **payload}
    now = SystemClock().now()
    return Event(thread_id="th_1", run_id="r", agent="a", type="message.delta", payload=payload, at=now)


async def test_texts_are_as_long_as_the_relay_takes() -> None:
    async with captured() as (bus, relay):
        relay.tell("want", "thread", "th_1", None)
        for text in (
            "not JSON",
            "[]",
            "3",
            "[" * 100_000,
            '["bus_other",3,["live",[1]],["wake"]]',
            '["bus_other",["live",["th_1",null,null,null,"message.delta","2026-01-01",[1]]]]',
            '["bus_other",["grown",["thread"],{}],["want","thread","th_2",{"a":1}]]',
            '["bus_other",["new",1]]',
        ):
            relay.receive(text)  # of another version, or of a foreign sender
        for number in range(50):
            bus.publish([live(f"s{number}", text="x" * (number * 40), n=number)])
        await until(lambda: '"n":49' in "".join(relay.sent))
        assert max(map(len, relay.sent)) <= 1_000
        payloads = [fields[0][-1] for fields in relay.messages("live")]
        assert [each["n"] for each in payloads] == [*range(50)]
        assert "text" in payloads[0] and payloads[-1].get("truncated")


async def test_what_waits_to_be_sent_is_bounded_in_bytes_and_keeps_its_order() -> None:
    async with captured(64 * 1024) as (bus, relay):
        relay.tell("want", "thread", "th_1", None)
        relay.gate.clear()
        grown = changed(live("s"), n=1, type="message")
        for number in range(100):
            bus.publish([live(f"s{number}", text="x" * 60_000)])
        assert bus._events._bytes <= MAX_BYTES  # pyright: ignore[reportPrivateUsage]  # the rest is dropped
        bus.publish([live("before"), grown, live("after")])
        relay.gate.set()
        await until(lambda: "after" in "".join(relay.sent))
        kinds = [
            each[0] for text in relay.sent for each in json.loads(text)[1:] if each[0] in ("live", "grown")
        ]
        assert kinds[-3:] == ["live", "grown", "live"]
        assert sum(map(len, relay.sent)) < 2 * MAX_BYTES


async def test_a_process_sends_once_what_it_follows_and_again_from_time_to_time() -> None:
    async with captured() as (bus, relay):
        topic = Topic(kind="thread", id="th_1")
        with bus.subscribe(topic, ["message"]), bus.subscribe(topic, ["message"]):
            await until(lambda: bool(relay.messages("want")))
            with bus.subscribe(topic), bus.subscribe(topic, ["run.completed"]):
                await until(lambda: ["thread", "th_1", None] in relay.messages("want"))
        assert relay.messages("want") == [["thread", "th_1", ["message"]], ["thread", "th_1", None]]
        with bus.subscribe(topic, ["message"]), bus.subscribe(topic, ["run.completed"]):
            relay.tell("hello")
            await until(lambda: ["thread", "th_1", ["message", "run.completed"]] in relay.messages("want"))


@pytest.mark.idle_clock
async def test_what_a_process_follows_is_sent_again_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_bus, "MIN_PART", 10)
    async with captured(64 * 1024) as (bus, relay):
        names = {f"th_{number}" for number in range(400)}
        send, parts = relay.send, list[int]()

        async def note(texts: Sequence[str]) -> None:
            parts.append(sum(len(json.loads(text)) - 1 for text in texts))
            await send(texts)

        def are_sent() -> bool:
            return {id_ for _, id_, _ in relay.messages("want")} >= names

        with ExitStack() as stack:
            for name in names:
                stack.enter_context(bus.subscribe(Topic(kind="thread", id=name)))
            await until(are_sent)
            relay.sent.clear()
            relay.send = note  # type: ignore[method-assign]
            relay.tell("hello")
            await until(are_sent)
        assert max(parts) < 50


async def test_types_and_processes_that_others_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_bus, "MAX_NODES", 2)
    async with captured() as (bus, relay):
        for number in range(1_000):
            relay.tell("want", "thread", "th_1", [f"type{number}"])
        assert len(bus._elsewhere["thread", "th_1"]) <= cluster_bus.MAX_TYPES  # pyright: ignore[reportPrivateUsage]
        assert bus.wanted("th_1", "r")  # all types: too much is sent, and nothing is missed
        for node in ("one", "two", "three"):
            relay.tell("share", "room", {node: True}, node=node)
            relay.tell("node", True, node=node)
        assert list(bus.shared("room")) == [{"one": True}, {"two": True}]
        assert {*bus._workers} == {"one", "two"}  # pyright: ignore[reportPrivateUsage]


@pytest.mark.idle_clock
async def test_topics_are_forgotten_that_are_not_sent_again() -> None:
    async with captured() as (bus, relay):
        for name in ("th_1", "th_2"):
            relay.tell("want", "thread", name, None)

        async def keep() -> None:
            while True:
                relay.tell("want", "thread", "th_1", None)
                await asyncio.sleep(1)

        keeping = asyncio.create_task(keep())
        known = bus._elsewhere  # pyright: ignore[reportPrivateUsage]
        await until(lambda: ("thread", "th_2") not in known)
        assert ("thread", "th_1") in known
        keeping.cancel()
        await until(lambda: not known)


async def test_topics_that_are_known_are_kept_also_when_no_more_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_bus, "MAX_TOPICS", 1)
    async with captured() as (bus, relay):
        relay.tell("want", "thread", "th_1", ["message"])
        relay.tell("want", "thread", "th_2", None)
        relay.tell("want", "thread", "th_1", None)
        assert bus.wanted("th_1", "r") and not bus.wanted("th_2", "r")


async def test_a_process_sees_the_values_that_others_share_until_they_are_taken_back() -> None:
    async with captured() as (bus, relay):
        seen = list[str]()
        bus.on_shared.append(seen.append)
        bus.share("room", {"ada": True})
        bus.share("room", {"ada": True})
        await until(lambda: bool(relay.messages("share")))
        assert relay.messages("share") == [["room", {"ada": True}]]
        for node in ("one", "two"):
            relay.tell("share", "room", {node: False}, node=node)
        relay.tell("share", "room", {"one": False}, node="one")
        assert list(bus.shared("room")) == [{"one": False}, {"two": False}]
        relay.tell("share", "room", None, node="one")
        assert list(bus.shared("room")) == [{"two": False}] and list(bus.shared("other")) == []
        assert seen == ["room"] * 3  # no event where nothing changed
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster_bus, "EXPIRES", -1.0)
            relay.tell("share", "room", {"two": True}, node="two")  # a dead process sends nothing more
            relay.tell("hello")
            await until(lambda: len(seen) == 5)
        assert list(bus.shared("room")) == []
        bus.share("room", None)
        await until(lambda: ["room", None] in relay.messages("share"))


class Hostile:
    """A relay between two buses that loses, duplicates, delays and reorders messages."""

    most = 500
    pause = 0.005

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.others: list[Hostile] = []

    async def listen(self, receive: Callable[[str], None], connected: Callable[[], None]) -> None:
        self.receive = receive
        connected()
        await asyncio.Event().wait()

    async def send(self, texts: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        for text in [*texts, *texts]:
            if self._dice.random() < 0.5:
                for other in self.others:
                    loop.call_later(self._dice.choice([0, 0, 0.003, 0.02]), other.receive, text)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), counts=st.lists(st.integers(1, 5), min_size=5, max_size=20))
async def test_whatever_the_relay_does_each_event_is_seen_once_in_order(seed: int, counts: list[int]) -> None:
    here, there = Hostile(random.Random(seed)), Hostile(random.Random(seed + 1))
    here.others, there.others = [there], [here]
    one, two = ClusterBus(here, works=True), ClusterBus(there, works=True)
    store, clock = MemoryStore(one.publish), SystemClock()
    events = Events(store, two, ManualMotor(store, clock))  # pyright: ignore[reportArgumentType]
    await one.start()
    await two.start()
    try:
        drain = await begun(store)
        total, seen = 0, list[int]()
        topic = Topic(kind="thread", id="th_1")

        async def commit() -> None:
            for count in counts:
                for _ in range(count):
                    await drain.do(drain.unit(Result, events=(draft("message"),)))
                await asyncio.sleep(random.Random(seed + count).choice([0, 0.002, 0.01]))

        async with asyncio.timeout(60), events.following(topic) as following:
            committing = asyncio.create_task(commit())
            total = sum(counts)
            async for event in following.events:
                if event.n is not None:
                    seen.append(event.n)
                if len(seen) >= total:
                    break
            await committing
        assert seen == [*range(seen[0], seen[0] + total)]
    finally:
        await one.close()
        await two.close()


async def test_a_server_that_is_killed_and_comes_back_is_heard_again() -> None:
    server = NatsServer()
    try:
        async with bus_of("", server.url, works=True) as one, bus_of("", server.url, works=True) as two:
            with one.subscribe(Topic(kind="thread", id="th_1")) as follower:
                await until_heard(two, follower)
                server.kill()
                server.start()
                async with asyncio.timeout(60):
                    while GROWN not in await follower.next():  # connected again: the journal must be read
                        pass
                await until_heard(two, follower)
    finally:
        server.kill()


async def test_processes_go_on_without_the_server_that_they_hear_each_other_by(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = NatsServer()
    server.kill()
    async with fresh_database() as url:
        model = testing.ScriptedModel([{"text": "Yes."}])
        async with (
            process(url, model, server.url, work=True),
            process(url, model, server.url, work=False) as rt,
        ):
            run = await send_to(rt, "talker")
            assert (await rt.runs.wait(run.id, 60)).output == "Yes."
    said = (
        "This process executes no runs, because TOOLWRIGHT_WORK is off. Other processes on this database do."
    )
    assert caplog.messages.count(said) == 1  # about the process that executes no runs


async def test_a_process_without_the_key_that_seals_in_the_cluster_does_not_start() -> None:
    one, two = (Fernet.generate_key().decode() for _ in range(2))
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=testing.ScriptedModel([]))])
    async with fresh_database() as url:

        def opened(*keys: str, work: bool = True) -> AbstractAsyncContextManager[Runtime]:
            settings = tw.Settings(database_url=url, cluster="postgres", work=work, encryption_keys=keys)
            return app.runtime(settings)

        async with opened(one):
            for keys in ((), (two,)):
                with pytest.raises(tw.errors.DefinitionError, match=r"a key that this process does not"):
                    async with opened(*keys, work=False):
                        pass
            with pytest.raises(
                tw.errors.DefinitionError, match="as the second of TOOLWRIGHT_ENCRYPTION_KEYS"
            ):
                async with opened(two, one):  # before the others have the new key
                    pass
            async with opened(one, two):
                pass
        async with opened(one, two), opened(two, one):  # as during key rotation
            pass
        async with opened(two):  # whose node has left
            pass
        async with opened():
            with pytest.raises(
                tw.errors.DefinitionError, match=r"The node \w+ has no encryption keys, so it"
            ):
                async with opened(one):
                    pass


async def test_a_process_without_work_that_started_before_nodes_with_another_key_or_files_says_so(
    tmp_path: Path,
) -> None:
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=testing.ScriptedModel([]))])
    one, two = (Fernet.generate_key().decode() for _ in range(2))
    async with fresh_database() as url:

        def opened(key: str, files: str, *, work: bool = True) -> AbstractAsyncContextManager[Runtime]:
            folder = str(tmp_path / files)
            return app.runtime(
                tw.Settings(
                    database_url=url, cluster="postgres", work=work, encryption_keys=(key,), files_url=folder
                )
            )

        async with (
            opened(one, "a", work=False) as alike,
            opened(two, "a", work=False) as sealing,
            opened(one, "b", work=False) as filing,
            opened(one, "a"),
        ):
            assert await alike.health.warning() is None
            assert "a key that this process does not have" in str(await sealing.health.warning())
            assert "does not share the files of this process" in str(await filing.health.warning())


async def test_of_processes_that_start_at_once_with_other_files_none_works_beside_another(
    tmp_path: Path,
) -> None:
    """Neither sees the other's node before its own has been written."""
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=testing.ScriptedModel([]))])
    everyone, end = asyncio.Barrier(2), asyncio.Event()
    async with fresh_database() as url:
        async with app.runtime(tw.Settings(database_url=url)):
            pass  # this creates the tables

        async def start(files: str) -> bool:
            here = tw.Settings(database_url=url, cluster="postgres", files_url=str(tmp_path / files))
            try:
                async with app.runtime(here):
                    await end.wait()
            except tw.errors.DefinitionError as error:
                assert "does not share the files of this process" in str(error)
                return False
            return True

        checked = parts._check_nodes  # pyright: ignore[reportPrivateUsage]  # holds both up between check and joining

        async def check(*args: Any, **options: Any) -> str:
            marker = await checked(*args, **options)
            if len(args) == 5:
                await everyone.wait()
            return marker

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parts, "_check_nodes", check)
            tasks = [asyncio.create_task(start(files)) for files in ("one", "two")]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            end.set()
            assert sum(await asyncio.gather(*tasks)) <= 1
        async with app.runtime(
            tw.Settings(database_url=url, cluster="postgres", files_url=str(tmp_path / "one"))
        ) as rt:
            assert len(await rt.nodes()) == 1  # the rejected process has left immediately


class Ahead(datetime):
    """The clock of a machine that is an hour ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # of the base class
        return datetime.now(tz) + timedelta(hours=1)


async def test_a_process_whose_clock_is_ahead_goes_by_the_databases(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = tw.App(
        agents=[tw.Agent("talker", instructions="Talk.", model=testing.ScriptedModel([{"text": "Hi."}]))]
    )
    async with fresh_database() as url:

        def set_for(files: str, *, work: bool) -> tw.Settings:
            return tw.Settings(
                database_url=url, cluster="postgres", work=work, files_url=str(tmp_path / files)
            )

        async with app.runtime(set_for("one", work=True)):
            parts._cluster_clock.cache_clear()  # pyright: ignore[reportPrivateUsage]  # as in another process
            monkeypatch.setattr(system, "datetime", Ahead)
            with pytest.raises(tw.errors.DefinitionError, match="does not share the files of this process"):
                async with app.runtime(set_for("two", work=False)):
                    pass
            async with app.runtime(set_for("one", work=False)) as rt:
                thread = await rt.threads.create("talker")
                assert abs(thread.created_at - datetime.now(UTC)) < timedelta(minutes=1)
                run = await rt.threads.send(thread.id, "Hello")
                assert (await rt.runs.wait(run.id, 60)).status == "completed"


async def test_files_that_do_not_answer_keep_no_node_from_joining(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Silent(MemoryFiles):
        async def get(self, digest: str, part: slice | None = None) -> bytes:
            asked.append(digest)
            await asyncio.Event().wait()
            return b""

    monkeypatch.setattr(parts, "FILES", 0.01)
    now = datetime.now(UTC)
    nodes = [
        Node(id="node", version="1", slots=1, busy=0, seen=now, files=files)
        for files in ("own", "theirs", "theirs")
    ]
    async with asyncio.timeout(30):
        assert await parts.node_errors(nodes, [], Silent(), "own") == []
    assert asked == ["theirs"]


async def test_secrets_are_sealed_by_the_newest_key_though_another_node_has_the_duty() -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=testing.ScriptedModel([]))])
    async with fresh_database() as url:

        def opened(*keys: str) -> AbstractAsyncContextManager[Runtime]:
            return app.runtime(tw.Settings(database_url=url, cluster="postgres", encryption_keys=keys))

        async with opened(old, new) as first:
            thread = await first.threads.create("talker")
            await first.threads.set_env(thread.id, {"TOKEN": "hidden-value"})
            admin = await connect(url)
            duty = "SELECT node FROM duties WHERE name = 'housekeeping'"
            async with asyncio.timeout(60):
                await until_true(lambda: admin.fetchval(duty))
            before = await admin.fetchval("SELECT value FROM env WHERE name = 'TOKEN'")
            sealed = "SELECT count(*) = 0 FROM env WHERE name = 'TOKEN' AND value = $1"
            async with opened(new, old), asyncio.timeout(60):
                await until_true(lambda: admin.fetchval(sealed, before))
            await admin.close()


async def until_true(look: Callable[[], Awaitable[object]]) -> None:
    while not await look():  # noqa: ASYNC110 - a database sends no notification
        await asyncio.sleep(0.05)


async def until_waiting(rt: Runtime, run_id: str) -> None:
    """Wait until the run reports that it needs a process that knows its agent."""
    while True:
        run = await rt.runs.get(run_id)
        if (run.waiting or {}).get("reason") == "agent":
            return
        await asyncio.sleep(0.05)


async def test_a_run_is_left_at_once_to_the_process_that_declares_its_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "toolwright.runtime")
    old = tw.App(agents=[tw.Agent("old", instructions="Talk.", model=testing.ScriptedModel([]))])
    answers = [{"text": "Yes."}] * 20
    new = tw.App(agents=[tw.Agent("new", instructions="Talk.", model=testing.ScriptedModel(answers))])
    async with fresh_database() as url, AsyncExitStack() as stack:
        here = tw.Settings(database_url=url, cluster="postgres", database_connections=4)
        for _ in range(3):
            await stack.enter_async_context(old.runtime(here))
        serving = here.model_copy(update={"work": False})
        front = await stack.enter_async_context(new.runtime(serving))
        threads = [(await front.threads.create("new")).id for _ in range(10)]
        runs = [(await front.threads.send(each, "Go")).id for each in threads]

        for each in runs:
            async with asyncio.timeout(60):
                await until_waiting(front, each)
        admin = await connect(url)
        taken = "SELECT sum(epoch) FROM threads"
        before = await admin.fetchval(taken)
        await asyncio.sleep(2)  # up to eight polls of each node
        assert await admin.fetchval(taken) == before  # none of them takes a run again
        await admin.close()
        await stack.enter_async_context(new.runtime(here))
        for each in runs:
            done = await front.runs.wait(each, 60)
            assert (done.status, done.output, done.error) == ("completed", "Yes.", None)
    left = [each for each in caplog.records if "is left to other processes" in each.getMessage()]
    assert len(left) == len({each.getMessage() for each in left}) == 10
    assert all("Start a process whose app has this agent" in each.getMessage() for each in left)
    assert 1 <= sum(each.levelname == "WARNING" for each in left) <= 3  # at most once per process


def test_the_gateway_goes_by_the_clock_of_its_runtime() -> None:
    here = tw.Settings(database_url="postgresql://h/d", cluster="postgres")
    options = gateway._options(tw.App(agents=[]), here)  # pyright: ignore[reportPrivateUsage]
    assert options.clock is parts.clock_of(here)
    assert isinstance(options.clock, system.ClusterClock)


async def test_nodes_that_are_set_otherwise_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=testing.ScriptedModel([]))])
    async with fresh_database() as url:

        def opened(cluster: str, key: str, *, work: bool = True) -> AbstractAsyncContextManager[Runtime]:
            here = tw.Settings(database_url=url, cluster=cluster, work=work, secret_keys=(key * 40,))
            return app.runtime(here)

        async with opened("postgres", "a"):
            async with opened("postgres", "a"):
                pass
            assert not [each for each in caplog.messages if "at all processes" in each]
            async with opened("nats://127.0.0.1:1", "b", work=False):
                pass
    said = [each for each in caplog.messages if "at all processes" in each]
    assert [each.rpartition(" Set the same ")[2] for each in said] == [
        "TOOLWRIGHT_CLUSTER at all processes.",
        "TOOLWRIGHT_SECRET_KEYS at all processes.",
    ]
    assert "a" * 40 not in str(caplog.messages)


async def test_files_in_memory_are_none_of_a_cluster() -> None:
    here = tw.Settings(database_url="postgresql://h/d", cluster="postgres", files_url="memory://")
    with pytest.raises(tw.errors.DefinitionError, match="A cluster needs files that all its processes share"):
        async with tw.App(agents=[]).runtime(here):
            pass


async def test_a_process_with_other_files_than_those_of_the_cluster_does_not_start(tmp_path: Path) -> None:
    app = tw.App(agents=[tw.Agent("talker", instructions="Talk.", model=testing.ScriptedModel([]))])
    async with fresh_database() as url:

        def opened(files: str, *, work: bool = True) -> AbstractAsyncContextManager[Runtime]:
            settings = tw.Settings(database_url=url, cluster="postgres", work=work, files_url=files)
            return app.runtime(settings)

        async with opened(str(tmp_path / "one")), opened(str(tmp_path / "one")) as rt:
            one, two = await rt.nodes()
            assert one.files and one.files == two.files
            with pytest.raises(
                tw.errors.DefinitionError, match=r"does not share the files of this process\. Set the same"
            ):
                async with opened(str(tmp_path / "two"), work=False):
                    pass
        async with opened(str(tmp_path / "two")):  # the earlier nodes have left
            pass


@pytest.mark.parametrize("cluster", ["redis://x", "nats://a,http://b", ""])
def test_a_cluster_is_postgres_or_servers_of_nats(cluster: str) -> None:
    with pytest.raises(tw.errors.DefinitionError, match="must be postgres, or URLs of NATS servers"):
        tw.Settings(database_url="postgresql://h/d", cluster=cluster)
    with pytest.raises(tw.errors.DefinitionError, match="a cluster needs a Postgres database"):
        tw.Settings(database_url="sqlite:///x.db", cluster="nats://a")


@pytest.mark.parametrize(
    "cluster",
    [
        "nats://",
        "nats://h:99999",
        "nats://h:0",
        "tls://user:hidden@:4222",
        "nats://h:4222,nats://u:hidden@",
        "nats://h:x",
        "nats://[::1",
    ],
)
def test_servers_of_nats_need_a_host_and_a_possible_port(cluster: str) -> None:
    with pytest.raises(tw.errors.DefinitionError, match="each NATS server needs a host") as refused:
        tw.Settings(database_url="postgresql://h/d", cluster=cluster)
    assert "hidden" not in str(refused.value)
    for taken in ("nats://h", "nats://u:p@h:65535", "tls://[::1]:4222, nats://10.0.0.1"):
        assert tw.Settings(database_url="postgresql://h/d", cluster=taken).cluster == taken


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("database_url", "postgresql+asyncpg://me:hidden@db/shop"),
        ("database_url", "me:hidden@db/shop"),
        ("files_url", "gs://me:hidden@bucket"),
        ("jwt_jwks_url", "ftp://me:hidden@keys"),
        ("cluster", "nats://me:hid/den@host"),
    ],
)
def test_the_error_of_a_url_has_no_password(name: str, url: str) -> None:
    with pytest.raises(tw.errors.DefinitionError) as refused:
        tw.Settings(**{name: url})  # type: ignore[arg-type]
    assert "hid" not in str(refused.value)
