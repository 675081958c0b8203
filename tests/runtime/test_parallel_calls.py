"""Parallel calls of read-only tools: which calls are parallel, what is recorded, and how they end."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

import toolwright as tw
from tests.kit import Watched, call, calls
from tests.runtime.talk import Talk, opened, talking, until
from toolwright.core.errors import DefinitionError
from toolwright.core.threads.event import Topic

pytestmark = pytest.mark.anyio


@dataclass
class Gate:
    """Tools that record begin and end: each waits until it is released, or until that many are running."""

    together: int = 1
    log: list[str] = field(default_factory=list[str])
    at_work: int = 0
    most: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)

    def tool(self, name: str, *, read_only: bool = True, **options: Any) -> tw.Tool:
        @tw.tool(description="Work.", name=name, read_only=read_only, **options)
        async def work(n: int) -> str:
            self.log.append(f"{name}{n} begins")
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            if read_only and self.together > 1:
                if self.at_work >= self.together:
                    self.full.set()
                await self.full.wait()
            self.at_work -= 1
            self.log.append(f"{name}{n} ends")
            return f"{name}{n}"

        return work


def app(model: object, *tools: Any, parallel: int | None = 8, **options: Any) -> tw.App:
    prompt = tw.Prompt("main", tools=list(tools), model=model)
    return tw.App(agents=[tw.Agent("boss", prompt, parallel=parallel)], **options)


def reads(*numbers: int) -> list[dict[str, Any]]:
    return [call("read", n=n) for n in numbers]


async def until_results(talk: Talk, count: int) -> None:
    """Wait until that many results of the thread's calls exist."""
    async with asyncio.timeout(10):
        async for _ in talk.rt.events.follow(Topic(kind="thread", id=talk.thread_id), after=0):
            if len(await talk.results()) >= count:
                return


async def test_read_only_calls_of_one_answer_run_at_once_and_are_recorded_in_their_order() -> None:
    gate = Gate(together=4)
    model = Watched([calls(*reads(1, 2, 3, 4)), {"text": "Done."}])
    async with talking(app(model, gate.tool("read")), "boss") as talk:
        run = await talk.say()
        assert run.output == "Done."
        assert await talk.results() == ["read1", "read2", "read3", "read4"]
        assert gate.most == 4


async def test_by_default_calls_run_one_after_another() -> None:
    gate = Gate()
    model = Watched([calls(*reads(1, 2)), {"text": "Done."}])
    async with talking(app(model, gate.tool("read"), parallel=None), "boss") as talk:
        await talk.say()
        assert gate.log == ["read1 begins", "read1 ends", "read2 begins", "read2 ends"]


async def test_any_other_call_runs_alone_and_in_its_place() -> None:
    gate = Gate(together=2)
    asked = calls(*reads(1, 2), call("write", n=3), *reads(4, 5))
    model = Watched([asked, {"text": "Done."}])
    async with talking(app(model, gate.tool("read"), gate.tool("write", read_only=False)), "boss") as talk:
        await talk.say()
        assert gate.log[4:6] == ["write3 begins", "write3 ends"]
        assert sorted(gate.log[:4]) == ["read1 begins", "read1 ends", "read2 begins", "read2 ends"]
        assert await talk.results() == ["read1", "read2", "write3", "read4", "read5"]


async def test_no_more_run_at_once_than_the_agent_says() -> None:
    gate = Gate(together=2)
    model = Watched([calls(*reads(1, 2, 3, 4, 5)), {"text": "Done."}])
    async with talking(app(model, gate.tool("read"), parallel=2), "boss") as talk:
        await talk.say()
        assert (gate.most, len(gate.log)) == (2, 10)
        assert await talk.results() == [f"read{n}" for n in range(1, 6)]


# ── suspended calls, and calls that are settled immediately ─────────────────────────────────────────────────────────

outside = tw.Tool(
    name="outside", description="Ask.", kind="external", timeout=20.0, parameters={"type": "object"}
)
outside_read = tw.Tool(
    name="look_outside",
    description="Ask.",
    kind="external",
    read_only=True,
    timeout=20.0,
    parameters={"type": "object"},
)


@pytest.mark.parametrize("waiting", [outside, outside_read], ids=["any", "read_only"])
async def test_a_suspended_call_does_not_hold_up_the_reads_after_it(waiting: tw.Tool) -> None:
    gate = Gate()
    model = Watched([calls(call("read", n=1), call(waiting.name), *reads(2, 3)), {"text": "Done."}])
    async with talking(app(model, gate.tool("read"), waiting), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        call_id = await opened(talk)
        await until_results(talk, 3)
        assert await talk.results() == ["read1", "read2", "read3"]
        await talk.rt.calls.submit(sent.id, call_id, {"result": "from outside"})
        assert (await talk.rt.runs.wait(sent.id, 10)).output == "Done."
        said = [m.content for m in model.requests[-1].messages if m.role == "tool"]
        assert said == ["read1", '{"result":"from outside"}', "read2", "read3"], (
            "the model reads them in their order"
        )


async def test_calls_behind_one_that_waits_begin_only_if_they_are_reads() -> None:
    gate = Gate()
    model = Watched(
        [calls(call("outside"), call("read", n=1), call("write", n=2), call("read", n=3)), {"text": "Done."}]
    )
    async with talking(
        app(model, gate.tool("read"), gate.tool("write", read_only=False), outside), "boss"
    ) as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        call_id = await opened(talk)
        await until(talk, "run.waiting")
        assert gate.log == ["read1 begins", "read1 ends"]
        await talk.rt.calls.submit(sent.id, call_id, {"result": "from outside"})
        await talk.rt.runs.wait(sent.id, 10)
        assert gate.log[2:] == ["write2 begins", "write2 ends", "read3 begins", "read3 ends"]


async def test_of_several_that_wait_each_is_answered_and_each_has_its_own_time() -> None:
    quick = tw.Tool(
        name="quick",
        description="Ask.",
        kind="external",
        read_only=True,
        timeout=0.2,
        parameters={"type": "object"},
    )
    model = Watched([calls(call("look_outside"), call("quick")), {"text": "Done."}])
    async with talking(app(model, outside_read, quick), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        call_id = await opened(talk)
        await until_results(talk, 1)
        [late] = await talk.results()
        assert "timed out after 200ms" in late
        run = await talk.rt.runs.get(sent.id)
        assert run.status in ("running", "waiting")
        await talk.rt.calls.submit(sent.id, call_id, {"result": "from outside"})
        await talk.rt.runs.wait(sent.id, 10)
        assert [m.content for m in model.requests[-1].messages if m.role == "tool"] == [
            '{"result":"from outside"}',
            late,
        ]


async def test_an_invalid_call_is_answered_in_its_place_and_holds_up_no_reads() -> None:
    gate = Gate(together=3)
    asked = calls(call("read", n=1), call("read", n="x"), call("nothing"), *reads(2, 3))
    model = Watched([asked, {"text": "Done."}])
    async with talking(app(model, gate.tool("read")), "boss") as talk:
        await talk.say()
        first, wrong, unknown, *rest = await talk.results()
        assert (first, rest) == ("read1", ["read2", "read3"])
        assert "n" in wrong
        assert "nothing" in unknown


async def test_an_approval_of_a_read_holds_up_no_other_reads() -> None:
    gate = Gate()
    asked = calls(call("secret", n=1), *reads(2, 3))
    model = Watched([asked, {"text": "Done."}])
    tools = [gate.tool("secret", requires_approval=True), gate.tool("read")]
    async with talking(app(model, *tools), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        await until(talk, "run.waiting")
        assert await talk.results() == ["read2", "read3"]
        await talk.rt.calls.submit(sent.id, await opened(talk), {"approved": True})
        await talk.rt.runs.wait(sent.id, 10)
        assert [m.content for m in model.requests[-1].messages if m.role == "tool"] == [
            "secret1",
            "read2",
            "read3",
        ]


# ── concurrent changes ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_events_begin_together_and_end_in_the_order_of_the_calls() -> None:
    gate = Gate(together=3)
    model = Watched([calls(*reads(1, 2, 3)), {"text": "Done."}])
    async with talking(app(model, gate.tool("read")), "boss") as talk:
        await talk.say()
        events = await talk.rt.events.list(Topic(kind="thread", id=talk.thread_id))
        told = [each.type for each in events if each.type.startswith(("tool.", "step."))]
        assert told == [
            "step.started",
            *["tool.started"] * 3,
            *["tool.done"] * 3,
            "step.done",
            "step.started",
            "step.done",
        ]


async def test_a_cancelled_run_cancels_all_of_them_and_keeps_the_results_before() -> None:
    started, ended, all_begun = list[int](), list[int](), asyncio.Event()

    @tw.tool(description="Wait.", read_only=True)
    async def wait(n: int) -> str:
        started.append(n)
        if len(started) == 3:
            all_begun.set()
        if n == 1:
            return "one"
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)
        return "never"

    model = Watched([calls(*[call("wait", n=n) for n in (1, 2, 3)]), {"text": "Done."}])
    async with talking(app(model, wait), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        await asyncio.wait_for(all_begun.wait(), 10)
        await talk.rt.runs.cancel(sent.id)
        assert (await talk.rt.runs.wait(sent.id, 10)).status == "cancelled"
        assert sorted(ended) == [2, 3]
        one, *cut = await talk.results()
        assert one == "one"
        assert ["Run cancelled while this call was running" in each for each in cut] == [True, True]


async def test_each_has_its_own_time() -> None:
    @tw.tool(description="Wait.", read_only=True, timeout=0.2)
    async def slow(n: int) -> str:
        if n == 2:
            await asyncio.Event().wait()
        return f"slow{n}"

    model = Watched([calls(*[call("slow", n=n) for n in (1, 2, 3)]), {"text": "Done."}])
    async with talking(app(model, slow), "boss") as talk:
        await talk.say()
        first, late, last = await talk.results()
        assert (first, last) == ("slow1", "slow3")
        assert "timed out after 200ms" in late


async def test_one_that_ends_the_session_ends_the_others() -> None:
    gate = Gate(together=2)
    cut = asyncio.Event()

    @tw.tool(description="Stop.", read_only=True)
    async def stop(state: tw.ThreadState) -> str:
        state.execution.stop_session()
        return "stopped"

    @tw.tool(description="Wait.", read_only=True)
    async def forever() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        return ""

    model = Watched([calls(call("stop"), call("forever"), call("read", n=1)), {"text": "Never."}])
    async with talking(app(model, stop, forever, gate.tool("read")), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason) == ("completed", "session_stop")
        await asyncio.wait_for(cut.wait(), 10)
        assert len(model.requests) == 1
        stopped, *rest = await talk.results()
        assert stopped == "stopped"
        assert ["stopped while this call was running" in each for each in rest] == [True, True]


async def test_handlers_that_run_at_once_make_calls_of_their_own_one_after_another() -> None:
    gate = Gate()

    @tw.tool(description="Call.", read_only=True)
    async def outer(state: tw.ThreadState, n: int) -> str:
        made = [await state.invoke_tool("read", {"n": 10 * n + each}) for each in (1, 2)]
        return " ".join([str(each.result) for each in made])

    model = Watched([calls(*[call("outer", n=n) for n in (1, 2, 3)]), {"text": "Done."}])
    async with talking(app(model, outer, gate.tool("read")), "boss") as talk:
        await talk.say()
        assert await talk.results() == [f"read{n}1 read{n}2" for n in (1, 2, 3)]
        made = await talk.calls()
        assert {each.status for each in made} == {"done"}
        assert len(made) == 9
        assert gate.most == 1


async def test_what_a_handler_raises_is_its_own_result() -> None:
    @tw.tool(description="Fail.", read_only=True)
    async def broken(n: int) -> str:
        if n == 1:
            raise RuntimeError("a bug")
        return f"fine{n}"

    model = Watched([calls(*[call("broken", n=n) for n in (1, 2)]), {"text": "Done."}])
    async with talking(app(model, broken), "boss") as talk:
        await talk.say()
        first, second = await talk.results()
        assert "a bug" in first
        assert second == "fine2"


async def test_secrets_are_kept_out_of_every_result() -> None:
    @tw.tool(
        description="Tell.", read_only=True, variables=[tw.Variable("KEY", required=True, type="secret")]
    )
    async def tell(state: tw.ThreadState, n: int) -> str:
        return f"{n} {await state.env('KEY')}"

    model = Watched([calls(*[call("tell", n=n) for n in (1, 2, 3)]), {"text": "Done."}])
    async with talking(app(model, tell), "boss", env={"KEY": "a-long-secret"}) as talk:
        await talk.say()
        assert not any("a-long-secret" in each for each in await talk.results())
        assert len(await talk.results()) == 3


async def test_the_calls_of_a_prompt_tool_run_at_once_too() -> None:
    gate = Gate(together=3)
    inner = Watched([calls(*reads(1, 2, 3)), {"text": "Looked."}])
    looker = tw.Prompt(
        "looker",
        tools=[gate.tool("read")],
        model=inner,
        expose_as_tool=True,
        tool_description="Look.",
        parallel=3,
    )
    model = Watched([call("looker", message="Look"), {"text": "Done."}])
    outer = tw.Agent("boss", tw.Prompt("main", tools=["looker"], model=model))
    async with talking(tw.App(agents=[outer], prompts=[looker]), "boss") as talk:
        await talk.say()
        assert gate.most == 3
        assert [m.content for m in inner.requests[-1].messages if m.role == "tool"] == [
            "read1",
            "read2",
            "read3",
        ]


async def test_a_drain_that_is_cancelled_records_what_ends_well_all_the_same_and_nothing_more() -> None:
    begun, release, beginnings = asyncio.Event(), asyncio.Event(), list[int]()

    @tw.tool(description="Wait.", read_only=True)
    async def stubborn(n: int) -> str:
        beginnings.append(n)
        if len(beginnings) in (3, 5):
            begun.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            if n != 1:
                raise
        return f"stubborn{n}"

    model = Watched([calls(*[call("stubborn", n=n) for n in (1, 2, 3)]), {"text": "Done."}])
    async with talking(app(model, stubborn), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        await asyncio.wait_for(begun.wait(), 10)
        begun.clear()
        [drain] = [each for each in asyncio.all_tasks() if each.get_name() == f"drain {talk.thread_id}"]
        drain.cancel()
        await asyncio.wait_for(begun.wait(), 10)
        assert await talk.results() == ["stubborn1"]
        assert sorted(beginnings) == [1, 2, 2, 3, 3]
        release.set()
        assert (await talk.rt.runs.wait(sent.id, 10)).output == "Done."
        assert await talk.results() == ["stubborn1", "stubborn2", "stubborn3"]


# ── declarations ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("of_prompt", "of_agent", "of_app", "most"),
    [(2, 3, 4, 2), (None, 3, 4, 3), (None, None, 4, 4), (None, None, None, 1), (1, 3, 4, 1)],
)
def test_the_prompt_says_it_else_the_agent_else_the_app(
    of_prompt: int | None, of_agent: int | None, of_app: int | None, most: int
) -> None:
    prompt = tw.Prompt("main", parallel=of_prompt)
    made = tw.App(agents=[tw.Agent("boss", prompt, parallel=of_agent)], parallel=of_app)
    assert made.catalog.active(made.catalog.agent("boss").id).parallel == most


@pytest.mark.parametrize("wrong", [0, -1, 101, 1.5, True, "8"])
def test_what_is_no_number_of_calls_is_refused(wrong: Any) -> None:
    for declare in (
        lambda: tw.Agent("boss", instructions="Work.", parallel=wrong),
        lambda: tw.Prompt("main", parallel=wrong),
        lambda: tw.App(parallel=wrong),
    ):
        with pytest.raises(DefinitionError, match="parallel must be a number of calls from 1 to 100, not"):
            declare()


async def test_that_reads_waited_for_each_other_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    model = Watched([calls(*reads(1, 2)), calls(*reads(3, 4)), {"text": "Done."}])
    with caplog.at_level(logging.DEBUG, logger="toolwright.runtime"):
        async with talking(app(model, gate.tool("read"), parallel=None), "boss") as talk:
            await talk.say()
    said = [each.getMessage() for each in caplog.records if "parallel" in each.getMessage()]
    assert said == [
        "The agent 'boss' made 2 read-only calls in one answer, which run one after another. With parallel=8 they "
        "would run at once."
    ]
