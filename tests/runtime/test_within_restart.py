"""A process stops during nested calls, and another one continues (decision D14)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.databases import OpenStore, stores
from tests.kit import Watched, call
from tests.runtime.rig import Rig, running
from tests.runtime.talk import Talk, opened
from toolwright.core.json_value import JSON

pytestmark = pytest.mark.anyio

ask = tw.Tool(
    name="ask", description="Ask outside.", kind="external", timeout=60.0, parameters={"type": "object"}
)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenStore]:
    async with stores(request.param, tmp_path) as opening:
        yield opening


@asynccontextmanager
async def process(store: OpenStore, tools: Sequence[Any], **more: Any) -> AsyncGenerator[Rig]:
    """A process that serves an agent which calls `caller` once."""
    model = Watched([call("caller"), {"text": "Done."}])
    async with running(model, tools, store=store, **more) as rig:
        yield rig


def caller(*asked: tuple[str, dict[str, JSON]], begun: asyncio.Event | None = None) -> tw.Tool:
    """Return a repeatable tool that makes these calls. With `begun` it then sets that event, and never ends."""

    @tw.tool(description="Call.", name="caller", idempotent=True)
    async def made(state: tw.ThreadState) -> JSON:
        found = [(await state.invoke_tool(name, args)).result for name, args in asked]
        if begun is not None:
            begun.set()
            await asyncio.Event().wait()
        return found

    return made


def counting(made: list[int]) -> tw.Tool:
    @tw.tool(description="Work.")
    async def work(n: int) -> int:
        made.append(n)
        return n

    return work


ONE: tuple[str, dict[str, JSON]] = ("work", {"n": 1})
TWO: tuple[str, dict[str, JSON]] = ("work", {"n": 2})


@pytest.mark.parametrize(
    ("first", "again", "made", "places"),
    [
        ([ONE, TWO], [ONE, TWO], [1, 2], ["", "1", "2"]),
        ([ONE], [ONE, TWO], [1, 2], ["", "1", "2"]),
        ([ONE], [TWO, TWO], [1, 2, 2], ["", "1", "2", "3"]),
        ([ONE, ONE], [ONE, ONE], [1, 1], ["", "1", "2"]),
    ],
)
async def test_a_handler_that_runs_again_is_given_what_the_same_calls_gave(
    first: list[tuple[str, dict[str, JSON]]],
    again: list[tuple[str, dict[str, JSON]]],
    made: list[int],
    places: list[str],
    store: OpenStore,
) -> None:
    done, begun = list[int](), asyncio.Event()
    work = counting(done)
    async with process(store, [caller(*first, begun=begun), work]) as rig:
        sent = await rig.send()
        await begun.wait()
    async with process(store, [caller(*again), work]) as rig:
        assert (await rig.rt.runs.wait(sent.id, 10)).output == "Done."
        talk = Talk(rig.rt, sent.thread_id)
        assert await talk.results() == [str([args["n"] for _, args in again]).replace(" ", "")]
        assert done == made
        assert [place for place, _, _ in await talk.made()] == places


@pytest.mark.parametrize("answered", ["before", "after"])
async def test_a_handler_that_runs_again_waits_for_the_same_call(answered: str, store: OpenStore) -> None:
    tools = [caller(("ask", {})), ask]
    async with process(store, tools) as rig:
        sent = await rig.send()
        waiting = await opened(Talk(rig.rt, sent.thread_id))
    async with process(store, [caller(("ask", {})), ask]) as rig:
        if answered == "before":
            await rig.rt.calls.submit(sent.id, waiting, "said")
        assert [each.id for each in await rig.rt.calls.list()] in ([waiting], [])
        if answered == "after":
            await rig.rt.calls.submit(sent.id, waiting, "said")
        assert (await rig.rt.runs.wait(sent.id, 10)).output == "Done."
        talk = Talk(rig.rt, sent.thread_id)
        assert await talk.results() == ['["said"]']
        assert [place for place, _, _ in await talk.made()] == ["", "1"]


async def test_a_handler_goes_on_with_the_calls_that_it_waits_for_while_its_process_stops(
    store: OpenStore,
) -> None:
    made, begun, goes_on = list[int](), asyncio.Event(), asyncio.Event()

    @tw.tool(description="Look.")
    async def look() -> str:
        begun.set()
        await goes_on.wait()
        return "looked"

    below = Watched([call("look"), call("work", n=1), {"text": "Done below."}])
    prompt = tw.Prompt(
        "sums", model=below, tools=[look, counting(made)], expose_as_tool=True, tool_description="Sums."
    )
    tools = [caller(("sums", {"message": "x"})), "sums"]
    async with process(store, tools, prompts=[prompt]) as rig:
        thread = await rig.rt.threads.create("tester")
        sent = await rig.rt.threads.send(thread.id, "Go")
        await begun.wait()
        asyncio.get_running_loop().call_later(0.01, goes_on.set)
        await rig.rt.stop(10.0)
        assert made == [1], "the call was made before the process ended"
    async with process(store, tools, prompts=[prompt]) as rig:
        done = await rig.rt.runs.wait(sent.id, 10)
        assert (done.output, done.lives) == ("Done.", 0)
        assert made == [1]


@pytest.mark.idle_clock
async def test_a_handler_that_runs_again_reads_again_that_a_call_was_not_answered_in_time(
    store: OpenStore,
) -> None:
    read, begun = list[str | None](), asyncio.Event()
    brief = tw.Tool(
        name="ask", description="Ask outside.", kind="external", timeout=1.0, parameters={"type": "object"}
    )

    def asking(*, ends: bool) -> tw.Tool:
        @tw.tool(description="Call.", name="caller", idempotent=True)
        async def asks(state: tw.ThreadState) -> str:
            read.append((await state.invoke_tool("ask")).error)
            begun.set()
            await (asyncio.sleep(0) if ends else asyncio.Event().wait())
            return "asked"

        return asks

    async with process(store, [asking(ends=False), brief]) as rig:
        thread = await rig.rt.threads.create("tester")
        sent = await rig.rt.threads.send(thread.id, "Go")
        await begun.wait()
    async with process(store, [asking(ends=True), brief]) as rig:
        assert (await rig.rt.runs.wait(sent.id, 10)).output == "Done."
    assert read == ["Tool timed out after 1000ms"] * 2


async def test_what_a_prompt_tool_waits_for_outlives_the_process(store: OpenStore) -> None:
    def prompts() -> list[tw.Prompt]:
        below = Watched([call("ask"), {"text": "They said it."}])
        return [
            tw.Prompt(
                "caller", model=below, tools=[ask], expose_as_tool=True, tool_description="Asks."
            )
        ]  # fmt: skip

    model = Watched([call("caller", message="x"), {"text": "Done."}])
    async with running(model, ["caller"], store=store, prompts=prompts(), inline_wait=0.0) as rig:
        sent = await rig.send()
        waiting = await opened(Talk(rig.rt, sent.thread_id))
    async with running(model, ["caller"], store=store, prompts=prompts(), inline_wait=0.0) as rig:
        await rig.rt.calls.submit(sent.id, waiting, "said")
        assert (await rig.rt.runs.wait(sent.id, 10)).output == "Done."
        [result] = await Talk(rig.rt, sent.thread_id).results()
        assert '"text":"They said it."' in result
        assert '"result":"said"' in result


async def test_what_a_handler_that_cannot_run_again_has_asked_for_comes_to_the_inbox(
    store: OpenStore,
) -> None:
    @tw.tool(description="Call.", name="caller")
    async def once(state: tw.ThreadState) -> JSON:
        return (await state.invoke_tool("ask")).result

    async with process(store, [once, ask]) as rig:
        sent = await rig.send()
        waiting = await opened(Talk(rig.rt, sent.thread_id))
    async with process(store, [once, ask]) as rig:
        assert (await rig.rt.runs.wait(sent.id, 10)).output == "Done."
        talk = Talk(rig.rt, sent.thread_id)
        assert "Interrupted" in (await talk.results())[0]
        assert (await rig.rt.calls.get(waiting)).status == "pending"
        await rig.rt.calls.submit(sent.id, waiting, "said")
        assert (await rig.rt.calls.get(waiting)).route == "inbox"
        [late] = [each for each in await rig.store.inbox(sent.thread_id) if each.type == "tool_result"]
        assert late.event_id == f"tr:{waiting}"
