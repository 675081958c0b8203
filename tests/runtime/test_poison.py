"""Events that fail every run that reads them: tried three times, then set aside; all others are processed as usual."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import pytest

import toolwright as tw
from tests.runtime.rig import Rig, assert_valid, running
from toolwright.core.errors import ModelUnavailable, NotFailed, NotFound, Unwritable
from toolwright.core.journal.units import Advance, Claim, Finish, SubmitResult, Unit
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.event import Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run

pytestmark = pytest.mark.anyio

outside = tw.Tool(
    name="ask_outside",
    description="Ask somebody outside.",
    kind="external",
    timeout=0.01,
    parameters={"type": "object", "properties": {}},
)
POISON = "poison"


class Reader:
    """A model that makes that many external calls, then repeats what it reads; it fails on messages in `fault`."""

    name = "reader"

    def __init__(self, calls: int, fault: Exception | None = None) -> None:
        self.calls = calls
        self.fault = fault
        self.read: list[list[str]] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if len(request.messages) == 1:
            asked = [ModelCall(id=f"c{n}", name="ask_outside", arguments="{}") for n in range(self.calls)]
            yield ModelResponse(calls=tuple(asked))
            return
        said = [message.content for message in request.messages if message.id.startswith("evt_")]
        if self.fault is not None and any(POISON in content for content in said):
            raise self.fault
        self.read.append([content.rpartition(" ")[2] for content in said])
        yield ModelResponse(text="I see.")


def spoiled(rig: Rig, store: Callable[[Unit], bool]) -> None:
    """Make the journal reject some units."""

    async def refuse(_: int, unit: Unit) -> None:
        if store(unit):
            raise Unwritable

    rig.store.before = refuse


def says_poison(unit: Unit) -> bool:
    return isinstance(unit, Advance) and any(
        POISON in message.content and message.kept for message in unit.messages
    )


async def begin(rig: Rig, results: Sequence[object]) -> tuple[str, Sequence[str]]:
    """Create a thread whose calls have received these late results, all at once. Return its events by name."""
    run = await rig.run()
    calls = await rig.rt.calls.list(run_id=run.id)
    held = asyncio.Event()

    async def hold(_: int, unit: Unit) -> None:
        if isinstance(unit, Claim):
            await held.wait()

    before, rig.store.before = rig.store.before, hold
    for call, result in zip(calls, results, strict=True):
        await rig.rt.calls.submit(run.id, call.id, result)  # type: ignore[arg-type]  # all are JSON
    rig.store.before = before
    held.set()
    return run.thread_id, [f"tr:{call.id}" for call in calls]


async def settled(rig: Rig, thread_id: str) -> dict[str, InboxEvent]:
    """Return the inbox after all events have been processed."""
    agent = await rig.rt.agents.get("tester")
    async with asyncio.timeout(20):
        async for _ in rig.rt.events.follow(Topic(kind="thread", id=thread_id), after=0):
            events = await rig.rt.inboxes.list(agent.id, thread_id)
            thread = await rig.rt.threads.get(thread_id)
            if thread.run_id is None and not any(e.status in ("pending", "processing") for e in events):
                return {event.event_id: event for event in events}
    raise AssertionError("a follower follows for ever")


async def runs_of(rig: Rig, thread_id: str) -> list[Run]:
    return list(reversed(await rig.rt.runs.list(thread_id=thread_id)))


async def check(rig: Rig, thread_id: str, bad: str, good: Sequence[str]) -> None:
    inbox = await settled(rig, thread_id)
    assert (inbox[bad].status, inbox[bad].attempts) == ("failed", 3)
    assert [inbox[one].status for one in good] == ["processed"] * len(good)
    assert_valid(await rig.transcript(thread_id))
    view = await rig.store.inner.view(thread_id)
    assert view is not None
    assert view.reading == ()
    read = [message.id for message in view.messages if message.id.startswith("evt_")]
    assert sorted(read) == sorted(f"evt_{one.removeprefix('tr:')}" for one in good)
    assert view.messages[-1].role == "assistant"
    failed = [run for run in await runs_of(rig, thread_id) if run.status == "failed"]
    assert len(failed) == 3
    assert all(run.error for run in failed)


async def test_what_the_journal_cannot_hold_is_parked_and_the_others_go_on() -> None:
    model = Reader(4)
    async with running(model, [outside]) as rig:
        spoiled(rig, says_poison)
        thread_id, events = await begin(rig, ["a", POISON, "b", "c"])
        await check(rig, thread_id, events[1], [events[0], *events[2:]])


async def test_what_cannot_be_rendered_is_parked() -> None:
    model = Reader(2)
    async with running(model, [outside]) as rig:

        async def spoil(_: int, unit: Unit) -> None:
            if isinstance(unit, SubmitResult) and unit.notice.content["result"] == POISON:
                del unit.notice.content["toolName"]  # as an older version, or a bug, could have written it

        rig.store.after = spoil
        run = await rig.run()
        first, second = await rig.rt.calls.list(run_id=run.id)
        await rig.rt.calls.submit(run.id, first.id, POISON)
        await rig.rt.calls.submit(run.id, second.id, "good")
        await check(rig, run.thread_id, f"tr:{first.id}", [f"tr:{second.id}"])
        assert model.read == [['"good"']] or model.read[-1] == ['"good"']


async def test_a_run_that_has_read_events_only_is_not_retried_in_their_place() -> None:
    async with running(Reader(1, RuntimeError("a bug")), [outside]) as rig:
        thread_id, [event_id] = await begin(rig, [POISON])
        await check(rig, thread_id, event_id, [])
        for run in await runs_of(rig, thread_id):
            if run.status == "failed":
                with pytest.raises(NotFailed, match="Retry those events in the inbox"):
                    await rig.rt.runs.retry(run.id)


async def test_what_a_models_bug_fails_at_is_parked() -> None:
    model = Reader(3, RuntimeError("a bug"))
    async with running(model, [outside]) as rig:
        thread_id, events = await begin(rig, ["a", POISON, "b"])
        await check(rig, thread_id, events[1], [events[0], events[2]])


async def test_a_models_own_error_does_not_count() -> None:
    model = Reader(1, ModelUnavailable("busy"))
    async with running(model, [outside]) as rig:
        thread_id, [event] = await begin(rig, [POISON])
        agent = await rig.rt.agents.get("tester")
        backed_off = rig.rt.events.follow(Topic(kind="thread", id=thread_id), after=0)
        async with asyncio.timeout(20):
            await anext(event async for event in backed_off if event.payload.get("error") == "busy")
        [shown] = [e for e in await rig.rt.inboxes.list(agent.id, thread_id) if e.event_id == event]
        assert (shown.status, shown.attempts) == ("processing", 0)
        model.fault = None
        inbox = await settled(rig, thread_id)
        assert inbox[event].status == "processed"
        assert [run.status for run in await runs_of(rig, thread_id)] == ["completed", "completed"]


async def test_a_parked_event_is_retried_on_demand() -> None:
    model = Reader(1, RuntimeError("a bug"))
    async with running(model, [outside]) as rig:
        agent = await rig.rt.agents.get("tester")
        thread_id, [event] = await begin(rig, [POISON])
        assert (await settled(rig, thread_id))[event].status == "failed"
        model.fault = None
        assert await rig.rt.inboxes.list(agent.id) == []
        with pytest.raises(NotFound):
            await rig.rt.inboxes.retry(agent.id, event)
        with pytest.raises(NotFound):
            await rig.rt.inboxes.retry(agent.id, "tr:none", thread_id)
        with pytest.raises(NotFound):
            await rig.rt.inboxes.list(agent.id, "thr_none")
        again = await rig.rt.inboxes.retry(agent.id, event, thread_id)
        assert (again.status, again.attempts) == ("pending", 0)
        assert (await settled(rig, thread_id))[event].status == "processed"
        with pytest.raises(NotFailed):
            await rig.rt.inboxes.retry(agent.id, event, thread_id)
        assert model.read[-1] == [f'"{POISON}"']


async def test_a_message_is_not_tried_again_and_frees_the_events_beside_it() -> None:
    model = Reader(1, RuntimeError("a bug"))
    async with running(model, [outside]) as rig:
        held = asyncio.Event()

        async def hold(_: int, unit: Unit) -> None:
            if isinstance(unit, Claim):
                await held.wait()

        first = await rig.run()
        [call] = await rig.rt.calls.list(run_id=first.id)
        rig.store.before = hold
        mine = await rig.rt.threads.send(first.thread_id, "Hello")
        await rig.rt.calls.submit(first.id, call.id, POISON)
        held.set()
        inbox = await settled(rig, first.thread_id)
        assert (await rig.rt.runs.get(mine.id)).status == "failed"
        assert (inbox[f"tr:{call.id}"].status, inbox[f"tr:{call.id}"].attempts) == ("failed", 3)
        view = await rig.store.inner.view(first.thread_id)
        assert view is not None
        assert [m.content for m in view.messages if m.role == "user"] == ["Go", "Hello"]
        assert_valid(await rig.transcript(first.thread_id))


async def test_a_message_that_cannot_be_kept_does_not_hold_its_thread_up() -> None:
    async with running(Reader(0)) as rig:
        spoiled(rig, says_poison)
        bad = await rig.run(POISON)
        assert (bad.status, bad.output) == ("failed", None)
        inbox = await settled(rig, bad.thread_id)
        assert [event.status for event in inbox.values()] == ["failed"]
        good = await rig.rt.runs.wait((await rig.rt.threads.send(bad.thread_id, "Go")).id, 10)
        assert good.status == "completed"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, 9))
async def test_a_takeover_at_any_point_continues_the_count(n: int, when: str) -> None:
    """A new owner takes over before or after the n-th unit of the failing runs: the old one's next unit is rejected."""
    model = Reader(2, RuntimeError("a bug"))
    async with running(model, [outside]) as rig:
        thread_id, events = "", ["", ""]
        seen = 0

        async def rob(_: int, unit: Unit) -> None:
            nonlocal seen
            if not isinstance(unit, Claim | Finish) or unit.thread_id != thread_id:
                return
            seen += 1
            if seen == n:
                raise asyncio.CancelledError

        run = await rig.run()
        calls = await rig.rt.calls.list(run_id=run.id)
        thread_id, events = run.thread_id, [f"tr:{call.id}" for call in calls]
        if when == "before":
            rig.store.before = rob
        else:
            rig.store.after = rob
        for call, result in zip(calls, [POISON, "good"], strict=True):
            await rig.rt.calls.submit(run.id, call.id, result)
        inbox = await settled(rig, thread_id)
        assert (inbox[events[0]].status, inbox[events[1]].status) == ("failed", "processed")
        assert inbox[events[0]].attempts == 3
        assert_valid(await rig.transcript(thread_id))
