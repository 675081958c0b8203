"""Dependencies in runs: one value per run, closed when the run ends or is suspended; overrides; the app's lifespan."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Annotated, Any

import pytest

import toolwright as tw
from tests.kit import calls, ran, send_to
from toolwright import testing
from toolwright.core.errors import DefinitionError

pytestmark = pytest.mark.anyio


class Log:
    """A log of opened and closed values, in order, and tools that write to it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.opened = 0

    async def pool(self) -> AsyncIterator[str]:
        """A pool for a run."""
        self.opened += 1
        name = f"pool {self.opened}"
        self.said.append(f"open {name}")
        try:
            yield name
        finally:
            self.said.append(f"close {name}")

    def session(self) -> Iterator[str]:
        """A session for a call."""
        self.said.append("begin")
        yield "session"
        self.said.append("commit")

    def tools(self) -> list[tw.Tool]:
        pool = self.pool

        @tw.tool(description="Reads.")
        async def read(pool: Annotated[str, tw.Depends(pool)]) -> str:
            return pool

        @tw.tool(description="Reads in a thread.")
        def read_too(pool: Annotated[str, tw.Depends(pool)]) -> str:
            return pool

        @tw.tool(description="Writes.")
        async def write(
            session: Annotated[str, tw.Depends(self.session, cached=False)],
            pool: Annotated[str, tw.Depends(pool)],
        ) -> str:
            self.said.append(f"write with {session} of {pool}")
            return pool

        return [read, read_too, write]


def app_of(*turns: object, tools: list[tw.Tool]) -> tw.App:
    """Return an app with one agent, which answers with these turns."""
    return tw.App(
        agents=[
            tw.Agent("desk", instructions="Be brief.", model=testing.ScriptedModel([*turns]), tools=tools)
        ]
    )


async def said_by_tools(rt: Any, thread_id: str) -> list[str]:
    return [each.content for each in await rt.threads.messages(thread_id) if each.role == "tool"]


async def test_all_calls_of_a_run_share_one_value_which_is_cleaned_up_at_its_end() -> None:
    log = Log()
    app = app_of(calls("read", "read_too"), calls("read"), {"text": "Done."}, tools=log.tools())
    async with testing.by_hand(app) as (rt, motor):
        thread = await rt.threads.create("desk")
        for number in (1, 2):
            await rt.threads.send(thread.id, "Go")
            await motor.run_until_idle()
            assert log.said[-2:] == [f"open pool {number}", f"close pool {number}"]
        assert await said_by_tools(rt, thread.id) == ["pool 1"] * 3 + ["pool 2"] * 3


async def test_what_is_not_cached_is_opened_and_cleaned_up_with_each_call() -> None:
    log = Log()
    app = app_of(calls("write", "write"), {"text": "Done."}, tools=log.tools())
    async with testing.by_hand(app) as (rt, motor):
        await rt.threads.send((await rt.threads.create("desk")).id, "Go")
        await motor.run_until_idle()
    call = ["begin", "write with session of pool 1", "commit"]
    assert log.said == ["begin", "open pool 1", *call[1:], *call, "close pool 1"]


async def test_what_a_value_of_the_run_needs_lives_as_long_as_it_also_if_not_cached() -> None:
    said: list[str] = []

    async def connection() -> AsyncIterator[str]:
        said.append("connect")
        yield "connection"
        said.append("disconnect")

    async def pool(one: Annotated[str, tw.Depends(connection, cached=False)]) -> AsyncIterator[str]:
        yield f"pool of {one}"
        said.append("close pool")

    @tw.tool(description="Reads.")
    async def read(
        pool: Annotated[str, tw.Depends(pool)], own: Annotated[str, tw.Depends(connection, cached=False)]
    ) -> str:
        said.append(f"read {pool} and {own}")
        return "x"

    app = app_of(calls("read", "read"), {"text": "Done."}, tools=[read])
    async with testing.by_hand(app) as (rt, motor):
        await rt.threads.send((await rt.threads.create("desk")).id, "Go")
        await motor.run_until_idle()
    reading = "read pool of connection and connection"
    call = ["connect", reading, "disconnect"]
    assert said == ["connect", *call, *call, "close pool", "disconnect"]


async def test_a_run_that_waits_closes_its_values_and_opens_them_again_when_it_goes_on() -> None:
    log = Log()
    ask = tw.Tool(name="ask", description="Ask the clerk.", kind="external", timeout=60.0)
    app = app_of(calls("read"), calls("ask"), calls("read"), {"text": "Done."}, tools=[*log.tools(), ask])
    async with testing.by_hand(app) as (rt, motor):
        run = await send_to(rt, "desk")
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).status == "waiting"
        assert log.said == ["open pool 1", "close pool 1"]
        [asked] = (await rt.threads.messages(run.thread_id))[-1].calls
        await rt.calls.submit(run.id, asked.id, "Open.")
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).output == "Done."
        assert log.said == ["open pool 1", "close pool 1", "open pool 2", "close pool 2"]


async def test_a_run_that_is_cancelled_or_fails_cleans_up() -> None:
    log, at_work = Log(), asyncio.Event()

    @tw.tool(description="Lasts.")
    async def last(state: tw.ThreadState, pool: Annotated[str, tw.Depends(log.pool)]) -> str:
        at_work.set()
        await state.execution.abort_signal.wait()
        return pool

    app = app_of(calls("last"), tools=[last, *log.tools()])
    async with testing.runtime(app) as rt:
        thread = await rt.threads.create("desk")
        run = await rt.threads.send(thread.id, "Go")
        await at_work.wait()
        await rt.threads.cancel(thread.id)
        assert (await rt.runs.wait(run.id, 60)).status == "cancelled"
    assert log.said == ["open pool 1", "close pool 1"]
    failing = app_of(calls("read"), {"fail": "refused"}, tools=log.tools())
    async with testing.by_hand(failing) as (rt, motor):
        run = await rt.threads.send((await rt.threads.create("desk")).id, "Go")
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).status == "failed"
    assert log.said[2:] == ["open pool 2", "close pool 2"]


async def test_a_process_that_stops_cleans_up_also_in_the_middle_of_a_call() -> None:
    at_work, said = asyncio.Event(), list[str]()

    async def pool() -> AsyncIterator[str]:
        yield "pool"
        await asyncio.sleep(0)  # a clean-up that waits
        said.append("closed")

    @tw.tool(description="Lasts.")
    async def last(pool: Annotated[str, tw.Depends(pool)]) -> str:
        at_work.set()
        await asyncio.Event().wait()
        return pool

    app = app_of(calls("last"), tools=[last])
    async with app.runtime(tw.Settings(database_url="memory://"), grace=0.0) as rt:
        await rt.threads.send((await rt.threads.create("desk")).id, "Go")
        await at_work.wait()
    assert said == ["closed"]


async def test_a_dependency_that_failed_is_asked_again_by_the_next_call() -> None:
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not yet")
        return "pool"

    @tw.tool(description="Reads.")
    async def read(pool: Annotated[str, tw.Depends(flaky)]) -> str:
        return pool

    app = app_of(calls("read"), calls("read", "read"), {"text": "Done."}, tools=[read])
    async with testing.by_hand(app) as (rt, motor):
        thread = await rt.threads.create("desk")
        await rt.threads.send(thread.id, "Go")
        await motor.run_until_idle()
        first, *others = await said_by_tools(rt, thread.id)
    assert "not yet" in first
    assert others == ["pool", "pool"]
    assert len(tries) == 2


async def test_calls_at_once_open_a_value_once_and_one_that_gives_up_does_not_take_it_from_the_other() -> (
    None
):
    opening, go_on, waiting = asyncio.Event(), asyncio.Event(), asyncio.Event()
    opened: list[str] = []

    async def slow() -> str:
        opening.set()
        await go_on.wait()
        opened.append("pool")
        return "pool"

    @tw.tool(description="Reads.")
    async def read(pool: Annotated[str, tw.Depends(slow)]) -> str:
        return pool

    @tw.tool(description="Makes calls at once.")
    async def both(state: tw.ThreadState) -> str:
        first = asyncio.create_task(state.invoke_tool("read", {}))
        await opening.wait()
        others = [asyncio.create_task(state.invoke_tool("read", {})) for _ in range(3)]
        waiting.set()
        await asyncio.sleep(0)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        go_on.set()
        return ",".join([str((await other).result) for other in others])

    app = app_of(calls("both"), {"text": "Done."}, tools=[both, read])
    async with testing.runtime(app) as rt:
        run = await ran(rt, "desk")
        assert await said_by_tools(rt, run.thread_id) == ["pool,pool,pool"]
    assert opened == ["pool"]


async def test_many_runs_at_once_have_a_value_each_and_all_are_cleaned_up() -> None:
    log = Log()
    app = app_of(calls("read", "read_too"), {"text": "Done."}, tools=log.tools())
    async with testing.runtime(app) as rt:
        threads = [await rt.threads.create("desk") for _ in range(200)]
        runs = [await rt.threads.send(thread.id, "Go") for thread in threads]
        for run in runs:
            assert (await rt.runs.wait(run.id, 60)).status == "completed"
        pools = [await said_by_tools(rt, thread.id) for thread in threads]
    assert {len(set(each)) for each in pools} == {1}
    assert len({each[0] for each in pools}) == 200
    assert sum(each.startswith("close") for each in log.said) == 200


async def test_secrets_are_taken_out_of_what_a_clean_up_logs(caplog: pytest.LogCaptureFixture) -> None:
    async def pool() -> AsyncIterator[str]:
        yield "pool"
        raise ConnectionError("cannot leave postgres://hunter2-hunter2@db")

    @tw.tool(description="Reads.", variables=[tw.Variable("KEY", type="secret")])
    async def read(state: tw.ThreadState, pool: Annotated[str, tw.Depends(pool)]) -> str:
        return str(await state.env("KEY"))

    app = app_of(calls("read"), {"text": "Done."}, tools=[read])
    async with testing.by_hand(app) as (rt, motor):
        run = await send_to(rt, "desk", env={"KEY": "hunter2-hunter2"})
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).status == "completed"
    assert "The clean-up of the dependency 'pool' failed" in caplog.text
    assert "hunter2" not in caplog.text


# ── overrides ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_override_stands_in_wherever_the_function_is_needed_until_the_block_ends() -> None:
    async def pool() -> str:
        return "real"

    async def users(pool: Annotated[str, tw.Depends(pool)]) -> str:
        return f"users of {pool}"

    @tw.tool(description="Reads.")
    async def read(users: Annotated[str, tw.Depends(users)], pool: Annotated[str, tw.Depends(pool)]) -> str:
        return f"{users}, {pool}"

    def fake(state: tw.ThreadState, lifespan: Annotated[str, tw.Depends(lambda: "fake")]) -> str:
        return f"{lifespan} of {state.agent_id}"

    app = app_of(calls("read"), {"text": "Done."}, tools=[read])
    with_model = app.with_model(testing.ScriptedModel([calls("read"), {"text": "Done."}]))
    async with testing.by_hand(with_model) as (rt, motor):
        desk = (await rt.agents.get("desk")).id
        thread = await rt.threads.create("desk")

        async def go() -> str:
            await rt.threads.send(thread.id, "Go")
            await motor.run_until_idle()
            return (await said_by_tools(rt, thread.id))[-1]

        with app.override(pool, fake):
            assert await go() == f"users of fake of {desk}, fake of {desk}"
            with app.override(pool, lambda: "inner"):
                assert await go() == "users of inner, inner"
            assert await go() == f"users of fake of {desk}, fake of {desk}"
        assert await go() == "users of real, real"


def test_an_override_that_needs_what_it_stands_in_for_is_refused() -> None:
    def pool() -> str:
        return "real"

    def other() -> str:
        return "other"

    def of_pool(pool: Annotated[str, tw.Depends(pool)]) -> str:
        return pool

    def of_other(other: Annotated[str, tw.Depends(other)]) -> str:
        return other

    app = tw.App()
    with pytest.raises(DefinitionError, match="'pool' would depend on itself: pool → pool"):
        app.override(pool, of_pool).__enter__()
    with app.override(pool, of_other), pytest.raises(DefinitionError, match="other → pool → other"):
        app.override(other, of_pool).__enter__()
    assert app.overrides == {}


@pytest.mark.parametrize(("dependency", "other"), [("pool", len), (len, "pool")])
def test_an_override_takes_functions(dependency: Any, other: Any) -> None:
    with pytest.raises(DefinitionError, match=r"App\.override needs two functions, not 'pool'"):
        tw.App().override(dependency, other).__enter__()


# ── the lifespan of an app ──────────────────────────────────────────────────────────────────────────────────────


class Living:
    """An app with a lifespan, and the log of its lifespan."""

    def __init__(self) -> None:
        self.said: list[str] = []

        @contextlib.asynccontextmanager
        async def lifespan(app: tw.App) -> AsyncGenerator[dict[str, str]]:
            assert isinstance(app, tw.App)
            self.said.append("begin")
            yield {"pool": "the app's pool"}
            self.said.append("end")

        def pool(state: tw.ThreadState) -> str:
            return state.lifespan["pool"]

        async def cleaned(pool: Annotated[str, tw.Depends(pool)]) -> AsyncIterator[str]:
            yield pool
            self.said.append("clean up")

        @tw.tool(description="Reads.")
        async def read(state: tw.ThreadState, pool: Annotated[str, tw.Depends(cleaned)]) -> str:
            assert state.lifespan["pool"] == pool
            return pool

        model = testing.ScriptedModel([calls("read"), {"text": "Done."}])
        self.agent = tw.Agent("desk", instructions="Be brief.", model=model, tools=[read])
        self.app = tw.App(agents=[self.agent], tools=[read], lifespan=lifespan)


async def test_the_lifespan_of_an_app_lasts_as_long_as_its_runtime() -> None:
    living = Living()
    async with testing.runtime(living.app) as rt:
        thread = await rt.threads.create("desk")
        await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 60)
        assert await said_by_tools(rt, thread.id) == ["the app's pool"]
    assert living.said == ["begin", "clean up", "end"]
    async with testing.by_hand(living.app) as (rt, motor):
        thread = await rt.threads.create("desk")
        await rt.threads.send(thread.id, "Go")
        await motor.run_until_idle()
        assert await said_by_tools(rt, thread.id) == ["the app's pool"]
    assert living.said == ["begin", "clean up", "end"] * 2
    result = await tw.run(living.agent, "Go", app=living.app)
    assert result.status == "completed"
    assert [each.result and each.result.result for each in result.calls] == ["the app's pool"]
    assert living.said == ["begin", "clean up", "end"] * 3


async def test_a_tool_alone_is_given_a_lifespan_by_its_state() -> None:
    tools = Living().app.catalog.tools
    assert (await tools.call("read", {}, testing.MemoryState(lifespan={"pool": "mine"}))).result == "mine"
    tools.close()


async def test_a_lifespan_that_fails_is_raised_and_nothing_is_begun() -> None:
    @contextlib.asynccontextmanager
    async def lifespan(_: tw.App) -> AsyncGenerator[None]:
        raise ConnectionError("no database")
        yield

    with pytest.raises(ConnectionError, match="no database"):
        async with testing.runtime(tw.App(lifespan=lifespan)):
            raise AssertionError("it has not begun")


async def bare(app: tw.App) -> AsyncIterator[None]:
    yield None


async def coroutine(app: tw.App) -> None: ...


@contextlib.asynccontextmanager
async def of_nothing() -> AsyncGenerator[None]:
    yield None


@pytest.mark.parametrize(
    ("lifespan", "fault"),
    [
        (bare, "App: the lifespan is a generator. Decorate it with @contextlib.asynccontextmanager"),
        (
            coroutine,
            "App: the lifespan must be a function that takes the app and returns an async context manager",
        ),
        ("open", "App: the lifespan must be a function that takes the app .* not 'open'"),
        (
            of_nothing,
            "App: the lifespan must be a function that takes the app and returns an async context manager",
        ),
        (of_nothing(), "App: the lifespan must be the function itself"),
    ],
)
def test_what_is_no_lifespan_is_refused(lifespan: Any, fault: str) -> None:
    with pytest.raises(DefinitionError, match=fault):
        tw.App(lifespan=lifespan)
