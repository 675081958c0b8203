"""Summaries of long conversations: written ahead of time, by which model, at whose cost, and without one."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.runtime.narrow import Narrow, all_tokens_of, check_valid, digest_of, echo, tokens_of
from tests.runtime.rig import Rig, running
from toolwright import testing
from toolwright.core.errors import ContextTooLong, ModelRefused, ModelUnavailable
from toolwright.core.journal.space_effects import Compact
from toolwright.core.journal.units import Apply, Unit
from toolwright.core.model import Model, ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.compaction import Compaction, header, header_text, shown, text_tokens
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Usage
from toolwright.core.value import changed
from toolwright.runtime.model import context_window
from toolwright.runtime.model.summaries import (
    MAX_AHEAD,
    MAX_PIECES,
    MAX_QUIET,
    MAX_READY,
    MISSING_PART,
    Order,
    Summaries,
    Summary,
    pieces,
)
from toolwright.testing import FunctionModel

pytestmark = pytest.mark.anyio

AT = datetime(2026, 1, 1, tzinfo=UTC)

BUDGET = 8_000
LINE = "word " * 200  # 250 tokens


class Writer:
    """A model that writes the given summaries, and waits for its gate first."""

    name = "test:writer"

    def __init__(
        self, text: str = "What was said.", error: Callable[[], BaseException] | None = None
    ) -> None:
        self.text, self._error = text, error
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        self.asked.set()
        text = self.text
        await self.gate.wait()
        if self._error is not None:
            raise self._error()
        usage = Usage(input_tokens=100, output_tokens=10)
        yield ModelResponse(text=text, usage=usage, cost=0.5, model="writer-1")


class Long:
    """A conversation that becomes longer with each message."""

    def __init__(self, rig: Rig, model: Narrow) -> None:
        self.rig, self.model = rig, model
        self.runs: list[Run] = []
        self.thread_id = ""

    async def say(self, text: str = LINE) -> ModelRequest:
        """Send a message. Return the request for its answer."""
        if not self.thread_id:
            self.thread_id = (await self.rig.rt.threads.create("tester")).id
        run = await self.rig.rt.threads.send(self.thread_id, text)
        self.runs.append(await self.rig.rt.runs.wait(run.id, 20))
        assert self.runs[-1].status == "completed", self.runs[-1].error
        request = self.model.requests[-1]
        check_valid(request.messages)
        assert tokens_of(request) <= BUDGET
        return request

    async def rows(self) -> Sequence[Compaction]:
        return await self.rig.store.inner.compactions(self.thread_id)

    async def until_shortened(self) -> Sequence[Compaction]:
        """Continue until something is left out. Return the compactions."""
        for _ in range(80):
            await self.say()
            if rows := await self.rows():
                return rows
        raise AssertionError("nothing was left out")


def policy(**more: Any) -> dict[str, Any]:
    """Return options of a prompt."""
    return {"context": tw.Context(max_tokens=BUDGET, **more)}


def left_out(request: ModelRequest) -> bool:
    """Return whether the request says that messages were left out."""
    return request.messages[0].content.endswith("were left out to save space.]")


async def test_a_summary_that_takes_its_time_holds_up_no_answer_and_is_used_when_it_is_there() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    writer.gate.clear()
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        while not writer.asked.is_set():
            await long.say()
        for _ in range(3):  # there is room
            request = await long.say()
            assert request.messages[0].content == LINE
        assert not await long.rows()
        writer.gate.set()
        await long.say("Short.")
        request = await long.say("Short.")
        assert "What was said." in request.messages[0].content
        [row] = await long.rows()
        assert (row.summary, row.model, row.cause) == ("What was said.", "writer-1", "budget")
        assert len(writer.requests) == 1


async def test_a_summary_that_never_comes_is_waited_for_once_and_the_conversation_goes_on() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    writer.gate.clear()
    async with running(model, prompt_options=policy(summarize_with=writer), answer_limits=(0.2, 5.0)) as rig:
        long = Long(rig, model)
        [row] = await long.until_shortened()
        assert row.summary is None and left_out(model.requests[-1])
        assert len(writer.requests) <= 2


async def test_an_answer_waits_for_a_summary_that_takes_too_long_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context_window, "MAX_WAIT", 0.1)
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    writer.gate.clear()
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        [row] = await long.until_shortened()
        assert row.summary is None and left_out(model.requests[-1])
        count = len(writer.requests)
        for _ in range(10):
            await long.say()
        assert len(writer.requests) == count  # no further request within the next minute


async def test_a_run_that_waits_for_a_summary_can_be_cancelled() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    writer.gate.clear()
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        while tokens_of(await long.say()) < BUDGET * 0.6:
            pass
        assert not writer.asked.is_set()
        run = await rig.rt.threads.send(long.thread_id, LINE * 14)
        await writer.asked.wait()  # there is no room without it
        await rig.rt.runs.cancel(run.id)
        assert (await rig.rt.runs.wait(run.id, 20)).status == "cancelled"
        assert not await long.rows()
        writer.gate.set()
        assert "What was said." in (await long.say()).messages[0].content


@pytest.mark.parametrize("named", ["gpt", "nosuch:model", "scripted:/nowhere.yaml"])
async def test_without_the_model_that_is_to_write_them_the_oldest_turns_are_left_out(
    named: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = Narrow(echo, limit=BUDGET)
    async with running(model, prompt_options=policy(summarize_with=named)) as rig:
        long = Long(rig, model)
        [row] = await long.until_shortened()
        assert row.summary is None and left_out(model.requests[-1])
    assert len([each for each in caplog.messages if each.startswith("Summaries are not written for ")]) == 1


FAULTS: dict[str, Callable[[], BaseException]] = {
    "its own": lambda: RuntimeError("a bug"),
    "refused": lambda: ModelRefused("No credit."),
    "unavailable": lambda: ModelUnavailable("Busy."),
    "too long": lambda: ContextTooLong("Too long.", 5, 10),
    "an exit": lambda: SystemExit(3),
    "the end of a generator": GeneratorExit,
}


@pytest.mark.parametrize("fault", [*FAULTS, "nothing"])
async def test_older_turns_are_left_out_with_a_note_where_no_summary_can_be_written(fault: str) -> None:
    writer = Writer("  \n", FAULTS.get(fault))
    model = Narrow(echo, limit=BUDGET)
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        [row] = await long.until_shortened()
        assert (row.summary, row.usage, row.cost, row.model) == (None, None, None, None)
        assert row.omitted > 0 and left_out(model.requests[-1])
        for _ in range(40):
            await long.say()
        assert (await long.rows())[-1].omitted > row.omitted


async def test_the_run_pays_for_its_summary() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        [row] = await long.until_shortened()
        assert row.usage is not None and (row.usage.input_tokens, row.cost) == (100, 0.5)
        paid = [run for run in long.runs if run.cost is not None]
        [run] = paid
        asked = tokens_of(model.requests[-1])
        assert (run.id, run.cost) == (row.run_id, 0.5)
        assert (run.usage.input_tokens, run.usage.output_tokens) == (asked + 100, 15)
        await long.say()
        assert long.runs[-1].cost is None


async def test_another_model_or_the_agents_own_writes_it_or_none() -> None:
    for summarize_with, count in ((Writer(), 0), (None, 1)):
        model = Narrow(echo, limit=BUDGET)
        async with running(model, prompt_options=policy(summarize_with=summarize_with)) as rig:
            [row] = await Long(rig, model).until_shortened()
            assert row.model == ("writer-1" if summarize_with else "test:narrow")
            assert len(model.summaries) == count
            assert all("tester" in each.who for each in model.summaries)
    model = Narrow(echo, limit=BUDGET)
    async with running(model, prompt_options=policy(summarize=False)) as rig:
        [row] = await Long(rig, model).until_shortened()
        assert row.summary is None and not model.summaries and left_out(model.requests[-1])


@pytest.mark.parametrize("has_model", [False, True])
async def test_without_a_summary_the_oldest_turns_stay_while_the_request_may_be_as_long(
    has_model: bool,
) -> None:
    """Old results become references at three quarters; turns are left out once the whole budget is used."""

    @tw.tool()
    async def look(times: int) -> str:
        """Look."""
        return "data " * times

    calls: list[ModelCall] = []

    def answer(request: ModelRequest) -> ModelResponse:
        return ModelResponse(calls=(calls.pop(),), model="narrow") if calls else echo(request)

    model = Narrow(answer, limit=BUDGET, counting=all_tokens_of)
    writer = Writer(error=lambda: ModelRefused("No."))
    more: dict[str, Any] = {"summarize_with": writer} if has_model else {"summarize": False}
    async with running(model, [look], prompt_options=policy(**more)) as rig:
        long = Long(rig, model)
        for _ in range(4):  # results of half the budget
            calls.append(ModelCall(id="c1", name="look", arguments='{"times": 800}'))
            await long.say("Look.")
        [row] = await long.until_shortened()
        assert (row.cut, row.cleared > 0) == (0, True)
        assert 0.7 * BUDGET < max(map(all_tokens_of, model.asked)) < 0.85 * BUDGET
        cleared = len(model.asked)
        while not (await long.rows())[-1].cut:
            await long.say()
        *before, last = model.asked[cleared:]
        assert max(map(all_tokens_of, before)) > 0.9 * BUDGET and not any(map(left_out, before))
        assert left_out(last) and all_tokens_of(last) < 0.5 * BUDGET
        assert model.refused == 0 and not model.summaries and bool(writer.requests) == has_model


async def test_a_summary_is_told_of_what_the_one_before_said_and_of_the_users_instructions() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    options = policy(summarize_with=writer, instructions="Keep every colour.")
    async with running(model, prompt_options=options) as rig:
        long = Long(rig, model)
        while len(await long.rows()) < 2:
            await long.say()
        assert all("Keep every colour." in each.system for each in writer.requests)
        assert "What was said." in writer.requests[-1].messages[0].content


async def test_nothing_is_written_any_more_after_the_end_of_the_runtime() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    writer.gate.clear()
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        while not writer.asked.is_set():
            await long.say()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("summary")]


async def test_a_summary_edited_by_its_owner_while_a_new_one_is_written_is_sent_to_the_model() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        await long.until_shortened()
        edits: list[Compaction] = []

        async def edit(_: int, unit: Unit) -> None:
            made = [each for each in getattr(unit, "effects", ()) if isinstance(each, Compact)]
            if made and not edits:
                [last] = await long.rows()
                text = last.text.replace("What was said.", "What the owner says.")
                edits.append(changed(last, number=2, text=text, cause="edited", edited_by="pam"))
                effects = (Compact(compaction=edits[0]),)
                await rig.store.inner.commit(Apply(token="edit", at=last.created_at, effects=effects))

        rig.store.before = edit
        while not edits:
            await long.say()
        request = model.requests[-1]
        rows = await long.rows()
        answer = (await rig.transcript(long.thread_id))[-1]
        assert answer.sent is not None and answer.sent.compaction == rows[-1].number
        assert [row.number for row in rows] == [*range(1, len(rows) + 1)]
        assert rows[1] == edits[0]
        sent = shown(await rig.transcript(long.thread_id), rows[-1])[:-1]
        assert digest_of(sent) == digest_of(request.messages)


async def test_a_summary_is_made_in_parts_that_its_model_takes() -> None:
    model = Narrow(echo, limit=10**9, says=False)
    async with running(model) as rig:
        thread = await rig.rt.threads.create("tester")
        for _ in range(150):
            run = await rig.rt.threads.send(thread.id, LINE)
            await rig.rt.runs.wait(run.id, 20)
        model.limit = BUDGET  # a fifth of the conversation, and it gives no number
        run = await rig.rt.threads.send(thread.id, LINE)
        done = await rig.rt.runs.wait(run.id, 20)
        assert done.status == "completed", done.error
        rows = await rig.store.inner.compactions(thread.id)
        assert all(row.summary is not None and row.omitted == 0 for row in rows), rows
        assert len(model.summaries) > 1
        assert all(tokens_of(each) <= BUDGET for each in model.requests[-len(model.summaries) :])


async def test_a_long_system_text_takes_no_share_of_the_newest_messages() -> None:
    model = Narrow(echo, limit=BUDGET)
    prompt = {**policy(), "prompt": "Be. " * 6_000}  # three quarters of the budget
    async with running(FunctionModel(lambda _: {"text": "."}), agents=[large(model, prompt)]) as rig:
        thread = await rig.rt.threads.create("large")
        for _ in range(60):
            run = await rig.rt.threads.send(thread.id, "word " * 60)
            done = await rig.rt.runs.wait(run.id, 20)
            assert done.status == "completed", done.error
        assert len(model.summaries) <= 10
        assert min(len(each.messages) for each in model.asked[30:]) >= 5


def large(model: Narrow, options: dict[str, Any]) -> tw.Agent:
    return tw.Agent("large", tw.Prompt("large", model=model, **options))


async def test_a_summary_that_was_begun_before_its_owner_edited_the_last_one_is_not_used() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer("The wrong fact.")
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        await long.until_shortened()
        writer.gate.clear()
        writer.asked.clear()
        while not writer.asked.is_set():  # the next one is written ahead of time
            await long.say()
        await rig.rt.threads.edit_summary(long.thread_id, "The right fact.")
        writer.text = "Made of the right fact."
        writer.gate.set()
        for _ in range(3):
            request = await long.say("Short.")
            assert "he right fact." in request.messages[0].content
            assert "The wrong fact." not in request.messages[0].content


async def test_a_summary_of_messages_that_were_edited_while_it_was_written_is_not_used_but_paid() -> None:
    @tw.tool()
    def correct(state: tw.ThreadState, message_id: str) -> str:
        """Correct a message."""
        state.update_message(message_id, "The right fact.")
        return "Corrected."

    calls: list[ModelCall] = []

    def answer(request: ModelRequest) -> ModelResponse:
        return ModelResponse(calls=(calls.pop(),), model="narrow") if calls else echo(request)

    model, writer = Narrow(answer, limit=BUDGET), Writer("The wrong fact.")
    writer.gate.clear()
    async with running(model, [correct], prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        await long.say("The wrong fact." + LINE)
        while not writer.asked.is_set():  # it is written ahead of time
            await long.say()
        first = (await rig.rt.threads.messages(long.thread_id, 1))[0]
        arguments = json.dumps({"message_id": first.id})
        calls.append(ModelCall(id="c1", name="correct", arguments=arguments))
        await long.say("Correct it.")
        writer.text = "Made of the right fact."
        writer.gate.set()
        while not await long.rows():
            assert not any("The wrong fact." in each.content for each in (await long.say()).messages)
        [row] = await long.rows()
        assert row.summary == "Made of the right fact."
        assert len(writer.requests) == 2 and "The right fact." in writer.requests[1].messages[0].content
        assert sum(run.cost or 0.0 for run in long.runs) == 1.0  # both


async def test_a_run_whose_time_is_over_waits_for_no_summary() -> None:
    model, writer = Narrow(echo, limit=BUDGET), Writer()
    writer.gate.clear()
    async with running(model, max_seconds=1.0, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        while not writer.asked.is_set():  # it is written ahead of time
            await long.say()
        run = await rig.rt.threads.send(long.thread_id, LINE * 20)  # there is no room without it
        run = await rig.rt.runs.wait(run.id, 60)
        assert run.status == "completed"


async def test_a_limit_that_was_guessed_from_a_refused_file_holds_for_that_conversation_alone() -> None:
    def size(request: ModelRequest) -> int:
        pictures = sum(len(each.attachments) for each in request.messages)
        return tokens_of(request) if pictures < 2 else 10**6

    model = Narrow(echo, limit=10**5, says=False, counting=size)
    async with running(model) as rig:
        long, other = Long(rig, model), Long(rig, model)
        picture = tw.Attachment(name="a.png", mime_type="image/png", data="iVBORw0KGgo=")
        thread = await rig.rt.threads.create("tester")
        for _ in range(3):
            run = await rig.rt.threads.send(thread.id, "Look.", [picture])
            await rig.rt.runs.wait(run.id, 20)
        assert model.refused
        for _ in range(24):  # some 6,000 tokens
            await other.say()
        assert not await other.rows()
        assert long.runs == []


async def test_the_limit_of_a_conversation_holds_in_the_next_process_too(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    thread_id, refused = "", list[int]()
    for _ in range(2):  # one process each
        model = Narrow(echo, limit=4_000, says=False)
        agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
        async with tw.App(agents=[agent]).runtime(settings) as rt:
            thread_id = thread_id or (await rt.threads.create("tester")).id
            for _ in range(40):
                run = await rt.threads.send(thread_id, LINE)
                assert (await rt.runs.wait(run.id, 20)).status == "completed"
            rows = await rt.threads.compactions(thread_id)
            assert len(rows) > 3 and {each.refused_by for each in rows} == {"test:narrow"}
        refused.append(model.refused)
    assert 0 < refused[0] <= 2 and refused[1] == 0


async def test_a_refused_picture_limits_no_later_message() -> None:
    def size(request: ModelRequest) -> int:
        return 10**6 if any(each.attachments for each in request.messages) else tokens_of(request)

    model = Narrow(echo, limit=100_000, says=False, counting=size)
    async with running(model) as rig:
        thread = await rig.rt.threads.create("tester")
        picture = tw.Attachment(name="a.png", mime_type="image/png", data="iVBORw0KGgo=")
        run = await rig.rt.threads.send(thread.id, "Look.", [picture])
        await rig.rt.runs.wait(run.id, 20)
        size_of_text = tokens_of
        model._counting = size_of_text  # pyright: ignore[reportPrivateUsage]  # the picture is small enough now
        for _ in range(3):
            run = await rig.rt.threads.send(thread.id, LINE * 40)
            done = await rig.rt.runs.wait(run.id, 20)
            assert (done.status, done.error) == ("completed", None)
        assert len(model.asked[-1].messages) >= 5  # unchanged, none is left out


@pytest.mark.parametrize("room", [20_000, 4_000, 1_000])
def test_the_summary_before_is_in_the_transcript_however_long_what_followed_is(room: int) -> None:
    row = Compaction(
        thread_id="t", number=1, cut=1, text=header_text("ORDER 4711 IS PAID", 0, []), created_at=AT
    )
    said = [
        Message(id=f"m{n}", role="user", content="word " * 500, seq=n, created_at=AT) for n in range(2, 92)
    ]
    parts = pieces([header(row), *said], room)
    assert len(parts) <= MAX_PIECES
    assert "ORDER 4711 IS PAID" in parts[0]
    assert (MISSING_PART in parts[0]) == (room < 20_000)
    assert parts[-1].endswith("word ")


def test_a_summary_that_was_written_from_another_pays_for_both() -> None:
    first = Summary(covers=3, digest=b"", text="One.", model="m", usage=Usage(input_tokens=5), cost=0.5)
    second = Summary(covers=9, digest=b"", text="Two.", model="m", usage=Usage(input_tokens=7), cost=None)
    both = second.with_cost_of(first)
    assert (both.covers, both.text, both.usage.input_tokens, both.cost) == (9, "Two.", 12, 0.5)


@pytest.mark.parametrize("letter", ["字", "word ", "ы"])
async def test_a_summary_in_any_script_is_cut_to_its_share_of_the_budget(letter: str) -> None:
    """A provider counts a Chinese character as a token."""
    writer = Writer(letter * 30_000)
    model = Narrow(echo, limit=BUDGET)
    async with running(model, prompt_options=policy(summarize_with=writer)) as rig:
        long = Long(rig, model)
        row = (await long.until_shortened())[-1]
        assert row.summary is not None and text_tokens(row.summary) < BUDGET * 0.35
        for _ in range(30):
            await long.say()


async def test_an_owners_summary_that_is_too_long_is_cut_and_the_conversation_goes_on() -> None:
    model = Narrow(echo, limit=BUDGET)
    async with running(model, prompt_options=policy()) as rig:
        long = Long(rig, model)
        await long.until_shortened()
        await rig.rt.threads.edit_summary(long.thread_id, "字" * 20_000)
        for _ in range(5):
            await long.say()


async def test_parts_of_a_summary_that_were_answered_are_paid_though_a_later_one_fails() -> None:
    class Failing(Writer):
        async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            if len(self.requests) % 2:
                self.requests.append(request)
                raise ModelRefused("No credit.")
            async for event in super().respond(request):
                yield event

    writer = Failing()
    model = Narrow(echo, limit=60_000, window=60_000)
    writer.window = 9_000  # type: ignore[attr-defined]  # a model can have one
    async with running(
        model, prompt_options={"context": tw.Context(max_tokens=BUDGET * 4, summarize_with=writer)}
    ) as rig:
        thread = await rig.rt.threads.create("tester")
        costs: list[float | None] = []
        while not any(costs) and len(costs) < 200:
            done = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, LINE * 2)).id, 20)
            assert done.status == "completed"
            costs.append(done.cost)
        assert (costs[-1], len(writer.requests)) == (0.5, 2)


async def test_after_a_handover_an_agent_without_tools_can_open_what_is_referred_to() -> None:
    @tw.tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen " * 1_000

    def answer(request: ModelRequest) -> ModelResponse:
        if request.messages[-1].role == "user" and "look" in {each.name for each in request.tools}:
            name = "second" if "Hand it over." in request.messages[-1].content else "look"
            return ModelResponse(calls=(ModelCall(id="c", name=name, arguments="{}"),))
        return echo(request)

    model = Narrow(answer, limit=BUDGET, window=BUDGET)
    context = tw.Context(max_tokens=BUDGET, summarize=False)
    agents = [
        tw.Agent("first", tw.Prompt("p", "Look.", model=model, tools=[look, "second"], context=context)),
        tw.Agent(
            "second",
            tw.Prompt("p", "Talk.", model=model, context=context),
            expose_as_tool=True,
            tool_description="Takes over.",
        ),
    ]
    async with testing.runtime(tw.App(agents=agents)) as rt:
        thread = await rt.threads.create("first")
        for _ in range(12):
            await rt.runs.wait((await rt.threads.send(thread.id, "Go on.")).id, 20)
        await rt.runs.wait((await rt.threads.send(thread.id, "Hand it over.")).id, 20)
        request = model.requests[-1]
        assert any("Call read_result" in each.content for each in request.messages)
        assert [each.name for each in request.tools] == ["read_result"]


def order_of(model: Writer) -> Order:
    """Return a request for a summary of one message."""
    message = Message(id="m", role="user", content=LINE, created_at=AT, seq=1)
    return Order(
        messages=[message],
        covers=1,
        digest=b"",
        model=model,
        room=5_000,
        tokens=500,
        instructions="",
        who=("tester",),
    )


async def test_so_many_summaries_are_written_kept_and_put_off_at_once_and_no_more() -> None:
    writer, kept = Writer(), Summaries()
    writer.gate.clear()

    async def ask(model: Model, request: ModelRequest) -> ModelResponse | None:
        [response] = [each async for each in model.respond(request) if isinstance(each, ModelResponse)]
        return response

    async def written() -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    for number in range(MAX_AHEAD + 5):
        kept.start((f"thr_{number}", "", ""), (0, None), order_of(writer), ask)
    await written()
    assert len(writer.requests) == MAX_AHEAD
    writer.gate.set()
    await written()
    for number in range(MAX_READY + MAX_AHEAD):
        key = (f"later_{number}", "", "")
        kept.start(key, (0, None), order_of(writer), ask)
        await written()
    ready = [number for number in range(MAX_READY + MAX_AHEAD) if kept.is_ready((f"later_{number}", "", ""))]
    # the oldest ones were removed
    assert len(ready) == MAX_READY and ready[-1] == MAX_READY + MAX_AHEAD - 1
    for number in range(MAX_QUIET + 1):
        kept.pause((f"quiet_{number}", "", ""))
    before = len(writer.requests)
    assert await kept.now((f"quiet_{MAX_QUIET}", "", ""), order_of(writer), ask) is None
    assert await kept.now(("quiet_0", "", ""), order_of(writer), ask) is not None  # its pause was forgotten
    assert len(writer.requests) == before + 1
    await kept.close()


class Hiding(tw.Hooks):
    """Hides an address in each request, also in those for summaries."""

    def __init__(self) -> None:
        self.purposes: set[str] = set()

    async def before_model(self, event: tw.BeforeModel, /) -> ModelRequest:
        self.purposes.add(event.purpose)
        messages = [
            changed(each, content=each.content.replace("ann@x.org", "[hidden]"))
            for each in event.request.messages
        ]
        return changed(event.request, messages=tuple(messages))


async def test_hooks_see_the_requests_for_summaries_too() -> None:
    model, writer, hook = Narrow(echo, limit=BUDGET), Writer(), Hiding()
    options = {**policy(summarize_with=writer), "hooks": [hook]}
    async with running(model, prompt_options=options) as rig:
        long = Long(rig, model)
        while not writer.requests:
            await long.say(f"ann@x.org {LINE}")
        assert hook.purposes == {"answer", "summary"}
        written = [each.content for request in writer.requests for each in request.messages]
        assert "[hidden]" in str(written)
        assert "ann@x.org" not in str(written)
