"""Summaries and pins belong to the owner of a thread: edited, removed and set during runs, and visible."""

from collections.abc import Sequence

import pytest

import toolwright as tw
from tests import journals
from tests.kit import Watched
from tests.runtime.interfering import at
from tests.runtime.narrow import check_rebuilt
from tests.runtime.rig import Rig, running
from tests.runtime.test_context_window import Narrow, check_pairs, echo, tokens_of
from tests.runtime.test_sent_prompts import look, say, sent_in
from tests.runtime.test_spaces import House, calls
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.space_effects import Compact
from toolwright.core.journal.units import Advance, Unit
from toolwright.core.limits import MAX_PINNED, MAX_SUMMARY
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.compaction import Compaction
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio

WORDS = "word " * 100


def talker(limit: int = 2_000) -> Narrow:
    return Narrow(echo, limit=limit, window=limit)


def asking(limit: int = 3_000) -> Narrow:
    """A model that calls a tool once for each message of a user."""

    def answer(request: ModelRequest) -> ModelResponse:
        if request.messages[-1].role == "user":
            call = ModelCall(id="look", name="look", arguments=f'{{"number": {len(request.messages)}}}')
            return ModelResponse(model="narrow", calls=(call,))
        return echo(request)

    return Narrow(answer, limit=limit, window=limit)


def asked(model: Narrow) -> list[ModelRequest]:
    """The requests of the agent itself."""
    return [each for each in model.requests if "summary" not in each.who]


def app(model: Narrow) -> tw.App:
    return tw.App(agents=[tw.Agent("talker", tw.Prompt("talker", "Talk.", model=model))])


async def summarized(rt: Runtime, agent: str = "talker", *, least: int = 1) -> tuple[str, Compaction]:
    """Create a thread of which something is left out, by a summary. Return it and its last compaction."""
    thread = await rt.threads.create(agent)
    for number in range(60):
        await say(rt, thread.id, f"message {number}: {WORDS}")
        rows = await rt.threads.compactions(thread.id)
        if len(rows) >= least and rows[-1].summary is not None:
            return thread.id, rows[-1]
    raise AssertionError("nothing was left out")


async def test_an_edited_summary_is_what_the_next_step_is_shown() -> None:
    model = talker()
    async with journals.runtime(app(model)) as rt:
        thread_id, row = await summarized(rt)
        edited = await rt.threads.edit_summary(thread_id, "Ada wants tea.", by="person:ent_ada")
        assert (edited.number, edited.cause, edited.edited_by) == (row.number + 1, "edited", "person:ent_ada")
        assert (edited.cut, edited.covers, edited.kept, edited.cost) == (row.cut, row.covers, row.kept, None)
        assert (await rt.threads.compactions(thread_id))[-1] == edited
        await say(rt, thread_id, "Go on.")
        shown = asked(model)[-1].messages
        assert "Ada wants tea." in shown[0].content and "SUMMARY of" not in shown[0].content
        prompts = await sent_in(rt, thread_id)
        check_rebuilt(prompts, asked(model))
        assert prompts[-1].compaction == edited


async def test_a_summary_is_written_from_the_edited_one() -> None:
    model = talker()
    async with journals.runtime(app(model)) as rt:
        thread_id, _ = await summarized(rt)
        await rt.threads.edit_summary(thread_id, "Ada wants tea.")
        count = len(model.summaries)
        for number in range(20):
            await say(rt, thread_id, f"later {number}: {WORDS}")
        assert "Ada wants tea." in model.summaries[count].messages[0].content
        assert (await rt.threads.compactions(thread_id))[-1].cause == "budget"
        check_rebuilt(await sent_in(rt, thread_id), asked(model))


async def test_after_its_removal_the_whole_conversation_is_shown_and_made_shorter_again() -> None:
    model = talker(4_000)
    async with journals.runtime(app(model)) as rt:
        thread_id, row = await summarized(rt)
        removed = await rt.threads.remove_summary(thread_id, by="service")
        assert (removed.number, removed.cause, removed.cut, removed.text) == (
            row.number + 1,
            "removed",
            0,
            "",
        )
        assert (removed.summary, removed.edited_by) == (None, "service")
        with pytest.raises(NotFound, match="No compaction leaves out messages"):
            await rt.threads.remove_summary(thread_id)
        with pytest.raises(NotFound, match="No compaction leaves out messages"):
            await rt.threads.edit_summary(thread_id, "More")
        model.limit = model.window = 100_000
        await say(rt, thread_id, "Go on.")
        said = await rt.threads.messages(thread_id, 500)
        assert [each.id for each in asked(model)[-1].messages] == [each.id for each in said[:-1]]
        check_rebuilt([(await sent_in(rt, thread_id))[-1]], asked(model)[-1:])


async def test_removed_while_it_is_too_long_it_is_made_shorter_at_once() -> None:
    model = talker()
    async with journals.runtime(app(model)) as rt:
        thread_id, _ = await summarized(rt)
        for number in range(10):
            await say(rt, thread_id, f"more {number}: {WORDS}")
        await rt.threads.remove_summary(thread_id)
        await say(rt, thread_id, "Go on.")
        last = (await rt.threads.compactions(thread_id))[-1]
        assert (last.cause, last.cut > 0) == ("budget", True)
        check_rebuilt([(await sent_in(rt, thread_id))[-1]], asked(model)[-1:])


async def test_what_cannot_be_a_summary_is_refused() -> None:
    async with journals.runtime(app(talker())) as rt:
        thread = await rt.threads.create("talker")
        with pytest.raises(NotFound, match="No compaction leaves out messages"):
            await rt.threads.edit_summary(thread.id, "Tea")
        for text in ("", "  ", "x" * (MAX_SUMMARY + 1), "\x00", 7):
            with pytest.raises(InvalidRequest):
                await rt.threads.edit_summary(thread.id, text)  # type: ignore[arg-type]  # as a user passes it
        for work in (rt.threads.remove_summary, rt.threads.compactions):
            with pytest.raises(NotFound):
                await work("thr_none")


async def test_the_side_of_a_conversation_that_has_none_is_refused_and_not_taken_for_an_empty_one() -> None:
    async with journals.runtime(app(talker())) as rt:
        thread_id, _ = await summarized(rt)
        with pytest.raises(InvalidRequest, match="one summary for the whole conversation"):
            await rt.threads.edit_summary(thread_id, "Mine.", "side_a")
        with pytest.raises(InvalidRequest, match="Omit the side"):
            await rt.threads.remove_summary(thread_id, "side_b")


async def test_each_side_has_its_own_summary() -> None:
    one, two = talker(), talker()
    sides = [tw.Side(tw.Prompt(name, "Talk.", model=model)) for name, model in (("one", one), ("two", two))]
    both = tw.App(agents=[tw.Agent("both", *sides, type="dual_ai", max_session_turns=1)])
    async with journals.runtime(both) as rt:
        thread = await rt.threads.create("both")
        for number in range(15):
            await say(rt, thread.id, f"message {number}: {WORDS}")
        with pytest.raises(InvalidRequest, match="side"):
            await rt.threads.edit_summary(thread.id, "Tea")
        edited = await rt.threads.edit_summary(thread.id, "Tea is for A.", "side_a")
        assert edited.side == "side_a"
        await say(rt, thread.id, "Go on.")
        assert "Tea is for A." in asked(one)[-1].messages[0].content
        assert "Tea" not in asked(two)[-1].messages[0].content
        await rt.threads.remove_summary(thread.id, "side_b")
        await say(rt, thread.id, "Go on.")
        check_rebuilt(await sent_in(rt, thread.id), [*asked(one), *asked(two)])


# ── during a run ────────────────────────────────────────────────────────────────────────────────────────────


async def seen_by_the_next_step(
    rig: Rig, model: Narrow, thread_id: str, n: int, when: str, change: str
) -> None:
    """Change the summary before or after the n-th unit of a run, which checks it before its next request."""
    before = len(model.requests)

    async def interfere(_: int, __: Unit) -> None:
        if change == "edit":
            await rig.rt.threads.edit_summary(thread_id, "Ada wants tea.")
        else:
            await rig.rt.threads.remove_summary(thread_id)

    rig.store.before, rig.store.after, acted = at(n, when, interfere)
    await say(rig.rt, thread_id, "Look again.")
    assert acted.is_set()
    requests = [each for each in model.requests[before:] if "summary" not in each.who]
    last = requests[-1].messages
    for request in requests:
        check_pairs(request.messages)
    if change == "edit":
        assert "Ada wants tea." in last[0].content
    else:
        rows = await rig.rt.threads.compactions(thread_id)
        removed = max(each.number for each in rows if each.cause == "removed")
        assert last[0].content.startswith("message 0") or rows[-1].number > removed  # it was compacted again
    prompts = await sent_in(rig.rt, thread_id)
    check_rebuilt(prompts, asked(model))


@pytest.mark.parametrize("change", ["edit", "remove"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", [1, 2])  # the claim, the answer that calls a tool
async def test_a_run_in_progress_sees_the_change_at_its_next_step(n: int, when: str, change: str) -> None:
    model = asking()
    async with running(model, [look]) as rig:
        thread_id, _ = await summarized(rig.rt, "tester")
        model.limit = model.window = 100_000
        await seen_by_the_next_step(rig, model, thread_id, n, when, change)
        if change == "remove":
            assert asked(model)[-1].messages[0].content.startswith("message 0")


async def test_a_summary_that_is_edited_while_the_next_one_is_made_is_kept() -> None:
    model = talker()
    async with running(model) as rig:
        thread_id, row = await summarized(rig.rt, "tester")
        edits: list[Compaction] = []

        async def edit(_: int, unit: Unit) -> None:
            shortens = isinstance(unit, Advance) and any(isinstance(each, Compact) for each in unit.effects)
            if shortens and not edits:
                edits.append(await rig.rt.threads.edit_summary(thread_id, "Ada wants tea."))

        rig.store.before = edit
        for number in range(20):
            await say(rig.rt, thread_id, f"later {number}: {WORDS}")
        rows = await rig.rt.threads.compactions(thread_id)
        assert [each.number for each in rows] == [*range(1, len(rows) + 1)]
        assert edits[0] in rows and rows[-1].number > edits[0].number > row.number
        assert any("Ada wants tea." in each.messages[0].content for each in model.requests)
        check_rebuilt(await sent_in(rig.rt, thread_id), asked(model))
        runs = await rig.rt.runs.list(thread_id=thread_id, limit=500)
        assert sum(run.usage.input_tokens for run in runs) == sum(map(tokens_of, model.requests)), (
            "all is paid for"
        )


# ── pins ────────────────────────────────────────────────────────────────────────────────────────────────────


async def first_of(rt: Runtime, thread_id: str) -> Message:
    return (await rt.threads.messages(thread_id, 1))[0]


async def test_a_pinned_message_is_never_left_out() -> None:
    model = talker()
    async with journals.runtime(app(model)) as rt:
        thread = await rt.threads.create("talker")
        await say(rt, thread.id, "My name is Ada.")
        first = await first_of(rt, thread.id)
        assert (await rt.threads.pin(thread.id, first.id)).pinned
        assert (await rt.threads.pin(thread.id, first.id)).pinned
        for number in range(30):
            await say(rt, thread.id, f"message {number}: {WORDS}")
        assert (await rt.threads.compactions(thread.id))[-1].cut > 1
        assert first.id in [each.id for each in asked(model)[-1].messages]
        assert (await first_of(rt, thread.id)).pinned
        check_rebuilt(await sent_in(rt, thread.id), asked(model))
        assert not (await rt.threads.pin(thread.id, first.id, False)).pinned
        await say(rt, thread.id, "Go on.")
        assert first.id not in [each.id for each in asked(model)[-1].messages]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_run_in_progress_sees_what_was_pinned_meanwhile(when: str) -> None:
    model = asking()
    async with running(model, [look]) as rig:
        thread_id, row = await summarized(rig.rt, "tester")
        first = await first_of(rig.rt, thread_id)
        assert row.cut > 1 and first.id not in [each.id for each in asked(model)[-1].messages]
        model.limit = model.window = 100_000

        async def pin(_: int, __: Unit) -> None:
            await rig.rt.threads.pin(thread_id, first.id)

        rig.store.before, rig.store.after, acted = at(2, when, pin)
        await say(rig.rt, thread_id, "Look again.")
        assert acted.is_set()
        assert [each.id for each in asked(model)[-1].messages][1] == first.id
        check_rebuilt([(await sent_in(rig.rt, thread_id))[-1]], asked(model)[-1:])


async def test_calls_and_results_cannot_be_pinned_and_not_too_many_messages() -> None:
    model = asking(100_000)
    async with running(model, [look]) as rig:
        thread = await rig.rt.threads.create("tester")
        await say(rig.rt, thread.id, "Look.")
        _, call, result, answer = await rig.rt.threads.messages(thread.id)
        for message in (call, result):
            with pytest.raises(InvalidRequest, match="calls and their results stay together"):
                await rig.rt.threads.pin(thread.id, message.id)
        for thread_id, message_id in ((thread.id, "msg_none"), ("thr_none", answer.id)):
            with pytest.raises(NotFound):
                await rig.rt.threads.pin(thread_id, message_id)
        for number in range(MAX_PINNED):
            await say(rig.rt, thread.id, f"{number}")
        said = [each for each in await rig.rt.threads.messages(thread.id, 500) if each.role == "user"]
        for message in said[:MAX_PINNED]:
            await rig.rt.threads.pin(thread.id, message.id)
        with pytest.raises(InvalidRequest, match="50 messages"):
            await rig.rt.threads.pin(thread.id, said[MAX_PINNED].id)
        await rig.rt.threads.pin(thread.id, said[0].id, False)
        await rig.rt.threads.pin(thread.id, said[MAX_PINNED].id)


async def test_what_a_skipped_run_has_heard_is_sent_no_more_though_it_is_pinned() -> None:
    async def pin(request: ModelRequest) -> None:
        last = request.messages[-1]
        if "Small talk" in last.content:
            [run] = await rt.runs.list(status="running")
            await rt.threads.pin(run.thread_id, last.id)

    skip = {"name": "skip", "args": {"reason": "Small talk"}}
    model = Watched([{"when": "Small talk", **calls(skip)}, {"when": "Really", "text": "I was asked."}], pin)
    host = tw.Agent("host", tw.Prompt("host", "You host.", model=model), toolkits=["spaces", "mind"])
    async with journals.by_hand(tw.App(agents=[host])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        made = House(rt, motor, husam.id)
        assert (await rt.runs.get(await made.hears("Small talk"))).status == "skipped"
        thread_id = (await rt.agents.get("host")).home_thread_id
        heard = next(each for each in await rt.threads.messages(thread_id) if "Small talk" in each.content)
        assert heard.pinned and not heard.kept
        await made.hears("Really")
        assert "Small talk" not in repr(model.requests[-1].messages)
        assert (await rt.threads.pin(thread_id, heard.id, False)).pinned is False
        with pytest.raises(InvalidRequest, match="its run was skipped"):
            await rt.threads.pin(thread_id, heard.id)


async def test_a_removal_between_two_reads_leaves_no_message_out() -> None:
    """The thread is read, then its summary is removed, then the compactions are read."""
    model = asking()
    async with running(model, [look]) as rig:
        thread_id, _ = await summarized(rig.rt, "tester")
        model.limit = model.window = 100_000
        store, before = rig.store.inner, len(model.requests)
        read, removals = store.compactions, list[str]()

        async def racing(thread: str, within: str | None = None, *page: int) -> Sequence[Compaction]:
            if thread == thread_id and within == "" and removals:
                removals.clear()
                await rig.rt.threads.remove_summary(thread_id)
            return await read(thread, within, *page)

        async def edit(_: int, __: Unit) -> None:
            await rig.rt.threads.edit_summary(thread_id, "Ada wants tea.")
            removals.append(thread_id)

        rig.store.before, rig.store.after, acted = at(3, "before", edit)
        store.compactions = racing  # type: ignore[method-assign]
        await say(rig.rt, thread_id, "Look again.")
        assert acted.is_set()
        for request in model.requests[before:]:
            check_pairs(request.messages)
            first = request.messages[0].content
            assert first.startswith("message 0") or "not shown" in first
        check_rebuilt(await sent_in(rig.rt, thread_id), asked(model))


@tw.tool(description="Say something in between.")
async def interject(state: tw.ThreadState) -> str:
    state.inject_message("in between")
    return "said"


async def test_what_is_shown_again_has_its_calls_beside_their_results() -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        if last.role == "user" and last.content == "Both":
            calls = [ModelCall(id=one, name="interject", arguments="{}") for one in ("a", "b")]
            return ModelResponse(model="narrow", calls=tuple(calls))
        if last.role == "user" and last.content == "Look again.":
            call = ModelCall(id="look", name="look", arguments='{"number": 1}')
            return ModelResponse(model="narrow", calls=(call,))
        return echo(request)

    model = Narrow(answer, limit=3_000, window=3_000)
    async with running(model, [look, interject]) as rig:
        thread_id = (await rig.rt.threads.create("tester")).id
        await say(rig.rt, thread_id, "Both")
        while not (rows := await rig.rt.threads.compactions(thread_id)) or rows[-1].cut < 9:
            await say(rig.rt, thread_id, WORDS)
        model.limit = model.window = 100_000

        async def remove(_: int, __: Unit) -> None:
            await rig.rt.threads.remove_summary(thread_id)

        rig.store.before, rig.store.after, acted = at(2, "after", remove)
        await say(rig.rt, thread_id, "Look again.")
        assert acted.is_set()
        last = asked(model)[-1].messages
        assert last[0].content == "Both"
        check_pairs(last)


async def test_a_summary_stays_when_a_message_is_hidden_and_shown_again() -> None:
    model = talker()
    async with journals.runtime(app(model)) as rt:
        thread_id, row = await summarized(rt)
        last = (await rt.threads.messages(thread_id, 1_000))[-1]
        await rt.threads.hide_message(thread_id, last.id)
        await rt.threads.hide_message(thread_id, last.id, False)
        edited = await rt.threads.edit_summary(thread_id, "Ada wants tea.")
        assert edited.cut == row.cut
        await say(rt, thread_id, "Go on.")
        prompt = (await sent_in(rt, thread_id))[-1]
        assert "Ada wants tea." in prompt.messages[0].content
        check_rebuilt([prompt], asked(model)[-1:])
