"""Written data is read back unchanged: page by page, with any characters."""

from dataclasses import replace

import pytest
from tests.play import (
    AT,
    Drain,
    begun,
    change,
    committed,
    create_thread,
    draft,
    dump,
    later,
    post,
    said,
    settle,
    token,
)

from toolwright.core.env.env import EnvChange, EnvRow
from toolwright.core.journal.reads import Depths
from toolwright.core.journal.retention import DropThread
from toolwright.core.journal.space_effects import Compact
from toolwright.core.journal.store import CallScope, CallVisibility, KnownMessages, Store
from toolwright.core.journal.units import Apply, Claim, Committed, Finish, Result, SubmitResult
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.compaction import Compaction
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import MessageCall
from toolwright.core.threads.run import Usage
from toolwright.core.value import changed

pytestmark = pytest.mark.anyio


def seen_by(*users: str) -> CallVisibility:
    """The events visible to people who are members of no space."""
    return CallVisibility(users=users, entity_id="ent_none")


HOSTILE = {
    "NUL": "a\x00b",
    "a lone surrogate": "a\ud800b",
    "a line separator": "a\u2028b\u2029",
    "markup": '\'; DROP TABLE runs; -- \\ % _ "$1" :x',
    "an emoji": "🧰",
    "a megabyte": "x" * 1_000_000,
}


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LATER_TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"


async def test_the_scope_of_a_call_is_what_its_parts_read_one_by_one_say(store: Store) -> None:
    drain = await begun(store)
    row = EnvRow(owner="th_1", kind="env", name="A", type="text", value="1", updated_at=AT)
    call = drain.call("waiting")
    await drain.answer(call)
    await drain.do(drain.unit(Result, env=(EnvChange(owner="th_1", kind="env", name="A", row=row),)))
    call, thread, run = await store.call(call.id), await store.thread("th_1"), await store.run(drain.run.id)
    assert call is not None
    assert await store.call_scope(call.id) == CallScope(call=call, thread=thread, run=run, env=(row,))


async def test_the_scope_of_a_call_whose_thread_is_deleted_has_no_thread(store: Store) -> None:
    drain = await begun(store)
    call = drain.call("done", completed_at=AT)
    await drain.answer(call)
    await drain.end()
    await committed(store, DropThread(token=token(), at=AT, thread_id="th_1"))
    scope = await store.call_scope(call.id)
    # a database deletes the rows of the thread later
    assert (scope is None) == (await store.call(call.id) is None)
    assert scope is None or scope.thread is None
    assert await store.call_scope("call_missing") is None


async def test_a_run_keeps_its_trace_context(store: Store):
    await create_thread(store)
    first = post("th_1")
    await committed(store, replace(first, run=replace(first.run, traceparent=TRACE)))
    drain = Drain(store, "th_1", replace(first.run, traceparent=TRACE))
    queued = await store.run(first.run.id)
    await drain.do(
        drain.unit(
            Claim,
            {"status": "running", "held": True, "traceparent": LATER_TRACE},
            read=(first.event.event_id,),
        )
    )
    await drain.answer(text="done")
    led, view = await store.run(first.run.id), await store.view("th_1")
    assert queued is not None and queued.traceparent == TRACE
    assert led is not None and led.traceparent == LATER_TRACE
    assert view is not None and view.run is not None and view.run.traceparent == LATER_TRACE


async def test_a_run_that_failed_keeps_the_code_of_its_error(store: Store):
    drain = await begun(store)
    await drain.do(drain.unit(Finish, {"status": "failed", "error": "No.", "error_code": "output"}))
    run, listed = await store.run(drain.run.id), await store.runs(status="failed")
    assert run is not None and (run.error, run.error_code) == ("No.", "output")
    assert [each.error_code for each in listed] == ["output"]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
async def test_any_text_survives(store: Store, text: str):
    await create_thread(store, name=text, tags=(text,), arguments={text: text})
    first = post("th_1")
    await committed(store, replace(first, event=replace(first.event, content={text: [text]})))
    drain = Drain(store, "th_1", first.run)
    await drain.claim()
    call = drain.call("pending", name=text, arguments=text, model_call_id=text)
    await drain.answer(call, text=text)
    submit = settle(SubmitResult, "th_1", call.id)
    await committed(store, replace(submit, result={"result": text}))
    ending = {"status": "failed", "error": text, "output": {"text": text}, "waiting": {"names": [text]}}
    message = said(text, stack=text, tool_name=text, native={"thinking": text})
    read = (first.event.event_id,)
    await drain.do(
        drain.unit(Finish, ending, messages=(message,), events=(draft("x", text=text),), read=read)
    )
    view = await store.view("th_1")
    assert view is not None
    assert (view.thread.name, view.thread.tags, view.thread.arguments) == (text, (text,), {text: text})
    assert view.messages[0].content == text
    assert view.messages[0].calls == (MessageCall(id=call.id, name=text, arguments=text, model_call_id=text),)
    assert view.messages[1] == replace(message, seq=2)
    assert (await store.inbox("th_1"))[0].content == {text: [text]}
    stored = await store.call(call.id)
    assert stored is not None
    assert (stored.name, stored.arguments, stored.result) == (text, text, {"result": text})
    assert await store.run(drain.run.id) == drain.run
    assert (await store.events(Topic(kind="thread", id="th_1")))[-1].payload == {"text": text}


async def test_every_field_of_a_message_and_a_run_survives(store: Store):
    drain = await begun(store)
    ref = AttachmentRef(id="att_1", path="/attachments/a.png", name="a.png", mime_type="image/png", size=3)
    message = replace(
        said("x", drain.run.id, attachments=(ref,), call_id="c", model_call_id="m", tool_name="t", stack="s"),
        role="tool",
        status="error",
        step=3,
        kept=False,
    )
    usage = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4)
    run = {"status": "waiting", "usage": usage, "cost": 0.5, "output": None, "side": "side_b", "held": True}
    await drain.do(drain.unit(Result, run, messages=(message,)))
    assert await store.run(drain.run.id) == drain.run
    assert list(await store.messages("th_1")) == [replace(message, seq=1)]
    assert list(await store.run_messages(drain.run.id)) == [replace(message, seq=1)]
    view = await store.view("th_1")
    assert view is not None
    assert view.messages == ()


async def test_messages_inbox_and_events_are_read_in_pages(store: Store):
    drain = await begun(store)
    for number in range(5):
        await drain.do(
            drain.unit(Result, messages=(said(str(number)),), events=(draft("message", n=number),))
        )
        await committed(store, post("th_1", f"msg_{number}"))
    assert [m.content for m in await store.messages("th_1", limit=2, offset=1)] == ["1", "2"]
    assert [m.content for m in await store.messages("th_1", limit=9, offset=4)] == ["4"]
    assert [m.content for m in await store.messages_before("th_1", None, 2)] == ["3", "4"]
    assert [m.content for m in await store.messages_before("th_1", 4, 2)] == ["1", "2"]
    assert [m.content for m in await store.messages_before("th_1", 2, 9)] == ["0"]
    assert [*await store.messages_before("th_1", 1, 9), *await store.messages_before("th_x", None, 9)] == []
    assert [*await store.messages_before("th_1", None, 0)] == []
    assert [event.n for event in await store.inbox("th_1", limit=2, offset=4)] == [5, 6]
    topic = Topic(kind="thread", id="th_1")
    assert [event.n for event in await store.events(topic, after=2, limit=2)] == [3, 4]
    assert [event.n for event in await store.events(topic, after=6)] == []
    for each in (topic, Topic(kind="run", id=drain.run.id)):
        numbers = [event.n for event in await store.events(each)]
        assert len(numbers) >= 5
        assert [event.n for event in await store.events(each, limit=2, offset=1)] == numbers[1:3]
        assert [event.n for event in await store.events(each, after=numbers[1] or 0, offset=2)] == numbers[4:]
        assert list(await store.events(each, offset=99)) == []
    assert await store.bounds(topic) == (1, 6)
    assert await store.bounds(Topic(kind="thread", id="th_none")) == (0, 0)


async def test_threads_runs_and_calls_are_filtered_and_paged(store: Store):
    for number in range(4):
        thread_id = f"th_{number}"
        await create_thread(store, thread_id, user_id="ann" if number % 2 else "bob")
        first = post(thread_id, run_id=f"run_{number}")
        await committed(store, replace(first, run=replace(first.run, created_at=later(number))))
        drain = Drain(store, thread_id, first.run)
        await drain.claim([first.event.event_id])
        await drain.answer(drain.call("pending", id=f"call_{number}", created_at=later(number)))
        if number == 3:
            await drain.do(drain.unit(Finish, {"status": "failed"}))
    assert [thread.id for thread in await store.threads(limit=2, offset=1)] == ["th_1", "th_2"]
    assert [thread.id for thread in await store.threads(users=["ann"])] == ["th_1", "th_3"]
    assert [thread.id for thread in await store.threads(users=["ann", "bob"], offset=1, limit=2)] == [
        "th_1",
        "th_2",
    ]
    assert [*await store.threads(users=[]), *await store.threads(users=["eve"])] == []
    newest = await store.threads(order="newest_first", limit=2, offset=1)
    assert [thread.id for thread in newest] == ["th_2", "th_1"]
    assert [each.id for each in await store.threads(users=["ann"], order="newest_first")] == ["th_3", "th_1"]
    agent = newest[0].agent
    assert [thread.id for thread in await store.threads(agent=agent, limit=2)] == ["th_0", "th_1"]
    assert [*await store.threads(agent="nobody"), *await store.threads(agent="x", users=["ann"])] == []
    assert [run.id for run in await store.runs(limit=2, offset=1)] == ["run_2", "run_1"]
    assert [run.id for run in await store.runs(status="failed")] == ["run_3"]
    assert [run.id for run in await store.runs(status="running", thread_id="th_0")] == ["run_0"]
    assert [run.id for run in await store.runs(agent="nobody")] == []
    assert [call.id for call in await store.calls(limit=2)] == ["call_0", "call_1"]
    assert [call.id for call in await store.calls(run_id="run_2")] == ["call_2"]
    assert [call.id for call in await store.calls(sees=seen_by("ann"), limit=1, offset=1)] == ["call_3"]
    assert [call.id for call in await store.calls(sees=seen_by("bob", "eve"), run_id="run_2")] == ["call_2"]
    assert [*await store.calls(sees=seen_by()), *await store.calls(sees=seen_by("ann"), run_id="run_2")] == []
    assert [call.id for call in await store.calls(status=("resolved",))] == []
    assert len(await store.calls(status=("pending", "waiting"))) == 4


async def test_what_is_not_there_is_nothing(store: Store):
    assert await store.thread("x") is None
    assert await store.view("x") is None
    assert await store.run("x") is None
    assert await store.call("x") is None
    assert await store.wake("x") is None
    for found in (
        store.unread("x"),
        store.inbox("x"),
        store.messages("x"),
        store.run_messages("x"),
        store.steps("x"),
    ):
        assert list(await found) == []


async def test_a_view_holds_the_calls_of_the_last_step_in_order(store: Store):
    drain = await begun(store)
    await drain.answer(drain.call("done"))
    second, first = drain.call(position=1), drain.call(position=0)
    await drain.answer(second, first)
    await drain.do(drain.unit(Result, changes=(change(first, "running"),)))
    view = await store.view("th_1")
    assert view is not None
    assert [call.id for call in view.calls] == [first.id, second.id]
    assert view.calls[0].started_at == AT
    assert view.wake == await store.wake("th_1")
    assert (await dump(store))["th_1"]["thread"] == view.thread


async def test_messages_that_are_known_count_only_while_the_thread_is_as_it_was(store: Store):
    drain = await begun(store)
    await drain.do(drain.unit(Result, messages=(said("x", drain.run.id),)))
    view = await store.view("th_1")
    assert view is not None
    known = KnownMessages(epoch=view.thread.epoch, seq=view.thread.seq, messages=view.messages)
    assert await store.view("th_1", known) == view
    stale = replace(known, messages=())
    await drain.do(drain.unit(Result, messages=(said("y", drain.run.id),)))
    after = await store.view("th_1", stale)
    assert after is not None
    assert [message.content for message in after.messages] == [
        message.content for message in await store.messages("th_1")
    ]
    assert len(after.messages) == 2


async def test_what_waits_is_counted(store: Store):
    assert await depths(store) == Depths(pending_calls=0, inbox_events=0)
    drain = await begun(store)
    calls = [drain.call(status, position=n) for n, status in enumerate(("waiting", "pending", "running"))]
    await drain.answer(*calls)
    await committed(store, settle(SubmitResult, "th_1", calls[1].id))
    await create_thread(store, "th_2")
    await committed(store, post("th_2"))
    found = await depths(store)
    assert found == Depths(
        pending_calls=1,
        inbox_events=2,
        oldest_event=found.oldest_event,
        queued_runs=1,
        active_runs=1,
        oldest_wake=AT,
    )
    assert found.oldest_event is not None


async def depths(store: Store) -> Depths:
    """Return the queue depths, without the connections, which only a journal on Postgres counts."""
    found = await store.depths()
    used, limit = found.connections or (0, 1)
    assert 0 <= used <= limit
    return changed(found, connections=None)


async def test_compactions_are_read_by_pages(store: Store) -> None:
    await create_thread(store)
    for number in range(1, 6):
        row = Compaction(thread_id="th_1", number=number, cut=number, text=f"summary {number}", created_at=AT)
        unit = Apply(token=f"compact {number}", at=AT, effects=(Compact(compaction=row, cut=number),))
        assert isinstance(await store.commit(unit), Committed)
    assert [each.number for each in await store.compactions("th_1")] == [1, 2, 3, 4, 5]
    assert [each.number for each in await store.compactions("th_1", None, 2, 1)] == [2, 3]
    assert [each.number for each in await store.compactions("th_1", "")] == [5]
