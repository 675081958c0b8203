"""Workers: every call is executed once, by the worker that claims it, even if servers and workers fail."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import Api, serving
from tests.behaviour.marks import requirement
from tests.client.rig import client_of, served
from tests.databases import sqlite_journal, stores
from tests.kit import until
from tests.runtime.rig import Rig, running
from toolwright.client import Worker
from toolwright.core.errors import DefinitionError, Unauthorized
from toolwright.core.journal.store import Store
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.results import Outcome, Pending
from toolwright.core.threads.call import Call
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Kind
from toolwright.runtime.calls.plan import InlineExecutor
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio

PROCESS = Path(__file__).with_name("worker_process.py")


def external(name: str, **options: Any) -> tw.Tool:  # options of Tool
    """Return a tool that outside workers execute."""
    return tw.Tool(
        name=name,
        description="Do it.",
        kind="external",
        timeout=30.0,
        parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        **options,
    )


def at_once(prepared: PreparedCall) -> Outcome:
    return Pending()


PENDING: Mapping[Kind, InlineExecutor] = {"external": at_once}


class Asking:
    """A model that makes these calls when the last message asks for it, and not when it reads their results."""

    name = "asking"

    def __init__(self, calls: tuple[tuple[str, int], ...]) -> None:
        self._calls = tuple(
            ModelCall(id=f"c{place}", name=name, arguments=json.dumps({"n": n}))
            for place, (name, n) in enumerate(calls)
        )

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        goes = request.messages[-1].content == "Go"
        yield ModelResponse(calls=self._calls) if goes else ModelResponse(text="Done.")


def turns(*named: tuple[str, int]) -> Asking:
    """A model that makes these calls in its first answer."""
    return Asking(named)


@asynccontextmanager
async def at_work(worker: Worker) -> AsyncGenerator[Worker]:
    """Run the worker within the block."""
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        try:
            yield worker
        finally:
            await worker.stop()


@asynccontextmanager
async def process(url: str, path: Path, mode: str = "works") -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start a worker process. It must exit cleanly on SIGTERM, unless it was killed."""
    command = (sys.executable, str(PROCESS), url, str(path), mode)
    worker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert await worker.stdout.readline() == b"ready\n"
        yield worker
    finally:
        if worker.returncode is None:
            worker.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await worker.wait() in (0, -signal.SIGKILL)


async def results(api: Api, count: int) -> Mapping[str, Any]:
    """Return the calls' results by tool and argument, once there are that many."""

    async def resolved() -> Mapping[str, Any] | None:
        found = (await api.get("/api/calls", params={"status": "resolved", "limit": 1_000}))["calls"]
        if len(found) < count:
            return None
        return {f"{call['toolName']} {call['args']['n']}": call["result"] for call in found}

    return await until(resolved)


async def witnessed(path: Path, *lines: str) -> list[str]:
    """Return the recorded effects, once these lines are among them."""

    async def said() -> list[str] | None:
        found = done(path)
        return found if set(lines) <= set(found) else None

    return await until(said)


def done(path: Path) -> list[str]:
    """Return the recorded effects, without the process that executed them."""
    return [line.split(" ", 1)[1] for line in lines_of(path)]


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@requirement("S3-10-4")
async def test_functions_of_every_kind_carry_calls_out() -> None:
    names = ["keywords", "whole", "sync", "faulty", "not_json", "wrong", "rich"]
    async with serving(
        turns(*[(name, n) for n, name in enumerate(names)]),
        [external(name) for name in names],
        inline_executors=PENDING,
    ) as api:
        await api.finished()
        async with client_of(api.port) as client:
            worker = Worker(client)

            async def keywords(n: int) -> dict[str, int]:
                return {"n": n}

            @worker.tool("whole")
            async def whole(arguments: dict[str, Any]) -> object:  # pyright: ignore[reportUnusedFunction]
                return arguments

            def faulty(n: int) -> None:
                raise ValueError("It is broken.")

            def leaving(n: int) -> None:
                raise SystemExit

            worker.tool("keywords")(keywords)

            def sync(n: int) -> list[int | None]:
                return [n, None]

            def not_json(n: int) -> float:
                return float("nan")

            def rich(n: int) -> tw.ToolResult:
                return tw.ToolResult.fail("No such thing.", error_code="absent", error_data={"n": n})

            worker.tool("sync", sync)
            worker.tool("faulty", faulty)
            worker.tool("not_json", not_json)
            worker.tool("wrong", leaving)
            worker.tool("rich", rich)
            async with at_work(worker):
                found = await results(api, len(names))
        assert found["keywords 0"] == {"n": 0}
        assert found["whole 1"] == {"n": 1}
        assert found["sync 2"] == [2, None]
        assert found["faulty 3"] == {"error": "It is broken."}
        assert "NaN" in found["not_json 4"]["error"] or "nan" in found["not_json 4"]["error"]
        assert found["wrong 5"] == {"error": "SystemExit"}
        assert found["rich 6"] == {"error": "No such thing."}


@requirement("S3-3-2")
async def test_a_waiting_run_gets_the_result_inline() -> None:
    async with serving(turns(("double", 4)), [external("double")]) as api, client_of(api.port) as client:
        worker = Worker(client)

        def double(n: int) -> int:
            return 2 * n

        worker.tool("double", double)
        async with at_work(worker):
            _, run_id = await api.finished()
        assert (await client.runs.get(run_id)).output == "Done."
        [call] = await client.calls.list(status="resolved")
        assert call.result == 8


async def test_a_worker_claims_no_more_than_it_can_run() -> None:
    calls = [("slow", n) for n in range(6)]
    async with serving(turns(*calls), [external("slow")], inline_executors=PENDING) as api:
        await api.finished()
        gate, began, most, now = asyncio.Event(), asyncio.Semaphore(0), 0, 0

        async def slow(n: int) -> int:
            nonlocal most, now
            now += 1
            most = max(most, now)
            began.release()
            await gate.wait()
            now -= 1
            return n

        async with client_of(api.port) as client:
            worker = Worker(client, concurrency=2)
            worker.tool("slow", slow)
            async with at_work(worker):
                for _ in range(2):
                    await began.acquire()
                claimed = [call for call in await api.rig.rt.calls.list() if call.worker == worker.name]
                assert len(claimed) == 2
                gate.set()
                await results(api, 6)
            assert most == 2


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_worker_processes_do_each_effect_exactly_once(kind: str, tmp_path: Path) -> None:
    calls, path = [("effect", n) for n in range(200)], tmp_path / "witness"
    async with (
        stores(kind, tmp_path) as store,
        serving(turns(*calls), [external("effect")], store=store, inline_executors=PENDING) as api,
    ):
        url = f"http://127.0.0.1:{api.port}"
        async with process(url, path) as first, process(url, path) as second:
            await api.finished()
            found = await results(api, 200)
        assert found == {f"effect {n}": n for n in range(200)}
        assert Counter(done(path)) == Counter(f"effect {n}" for n in range(200))
        assert {int(line.split()[0]) for line in lines_of(path)} == {first.pid, second.pid}


async def test_the_call_of_a_killed_worker_is_run_again_only_if_it_is_repeatable(tmp_path: Path) -> None:
    model, path = turns(("once", 1), ("again", 2)), tmp_path / "witness"
    tools = [external("once"), external("again", idempotent=True)]
    async with serving(model, tools, inline_executors=PENDING) as api:
        url = f"http://127.0.0.1:{api.port}"
        await api.finished()
        async with process(url, path, "hangs") as doomed:
            await witnessed(path, "hang 1", "hang 2")
            doomed.kill()
            await doomed.wait()
        async with process(url, path):
            assert await results(api, 1) == {"again 2": "done by the other"}
            said = await witnessed(path)
        assert Counter(said) == {"hang 1": 1, "hang 2": 2}
        [lost] = await api.rig.rt.calls.list()
        assert (lost.name, lost.status) == ("once", "pending")


async def test_a_claim_is_renewed_while_the_work_takes_longer() -> None:
    tool = external("again", idempotent=True)
    async with serving(turns(("again", 1)), [tool], inline_executors=PENDING) as api:
        await api.finished()
        gate, times = asyncio.Event(), 0

        async def slow(n: int) -> int:
            nonlocal times
            times += 1
            await gate.wait()
            return n

        async with client_of(api.port) as one, client_of(api.port) as two:
            workers = [Worker(client, lease=1.0) for client in (one, two)]
            for worker in workers:
                worker.tool("again", slow)
            async with at_work(workers[0]), at_work(workers[1]):
                [call] = await api.rig.rt.calls.list()
                ends = set[object]()

                async def renewed() -> bool | None:
                    ends.add((await api.rig.rt.calls.get(call.id)).leased_until)
                    return len(ends) > 5 or None  # longer than a lease

                await until(renewed)
                gate.set()
                await results(api, 1)
        assert times == 1


async def test_a_server_that_restarts_keeps_its_worker(tmp_path: Path) -> None:
    began, gate = asyncio.Semaphore(0), asyncio.Event()

    async def slow(n: int) -> int:
        began.release()
        await gate.wait()
        return n

    async def opened(bus: MemoryBus) -> Store:
        return await sqlite_journal(tmp_path / "t.db", bus.publish)

    @asynccontextmanager
    async def server(port: int = 0) -> AsyncGenerator[tuple[Rig, int]]:
        async with (
            running(turns(("slow", 1)), [external("slow")], store=opened, inline_executors=PENDING) as rig,
            served(rig.rt, port) as listening,
        ):
            yield rig, listening

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        rig, port = await first.enter_async_context(server())
        client = await stack.enter_async_context(client_of(port))
        worker = Worker(client, pause=lambda _: asyncio.sleep(0.01))
        worker.tool("slow", slow)
        await stack.enter_async_context(at_work(worker))
        run = await rig.send()
        await began.acquire()
        await rig.rt.runs.wait(run.id, 10)
        await first.aclose()
        gate.set()  # the work ends while there is no server
        again, _ = await stack.enter_async_context(server(port))

        async def resolved() -> Sequence[Call] | None:
            return await again.rt.calls.list(status=["resolved"]) or None

        async def was_read() -> bool | None:
            return len(await again.rt.runs.list(thread_id=run.thread_id, status="completed")) == 2 or None

        assert [call.name for call in await until(resolved)] == ["slow"]
        assert await until(
            was_read
        )  # otherwise one run reads both messages, and the last of them requests no call
        await again.rt.threads.send(run.thread_id, "Go")
        async with asyncio.timeout(20):
            await began.acquire()
        await worker.stop()  # while there is a server for its last result


async def test_a_worker_that_stops_lets_its_calls_end_and_takes_no_more() -> None:
    async with serving(turns(("slow", 1), ("slow", 2)), [external("slow")], inline_executors=PENDING) as api:
        await api.finished()
        began, gate = asyncio.Event(), asyncio.Event()

        async def slow(n: int) -> int:
            began.set()
            await gate.wait()
            return n

        async with client_of(api.port) as client:
            worker = Worker(client, concurrency=1)
            worker.tool("slow", slow)
            running = asyncio.create_task(worker.run())
            await began.wait()
            stopping = asyncio.create_task(worker.stop())
            await asyncio.sleep(0)
            gate.set()
            await stopping
            await running
            [left] = await client.calls.list()
            assert (await api.rig.rt.calls.get(left.id)).worker is None


async def test_a_worker_stops_though_its_function_swallows_every_cancellation() -> None:
    async with serving(turns(("deaf", 1)), [external("deaf")], inline_executors=PENDING) as api:
        await api.finished()
        began, freed = asyncio.Event(), asyncio.Event()

        async def deaf(n: int) -> int:
            began.set()
            while not freed.is_set():
                with suppress(BaseException):
                    await freed.wait()
            return n

        async with client_of(api.port) as client, asyncio.timeout(20):
            worker = Worker(client, grace=0.0)
            worker.tool("deaf", deaf)
            running = asyncio.create_task(worker.run())
            await began.wait()
            await worker.stop()
            await running
            freed.set()
            assert [call.status for call in await client.calls.list()] == ["pending"]


@pytest.mark.parametrize("ends", ["stopped", "cancelled"])
async def test_a_worker_submits_nothing_that_a_function_returns_when_it_is_cancelled(ends: str) -> None:
    async with serving(turns(("stubborn", 1)), [external("stubborn")], inline_executors=PENDING) as api:
        await api.finished()
        began = asyncio.Event()

        async def stubborn(n: int) -> int:
            began.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return n

        async with client_of(api.port) as client, asyncio.timeout(20):
            worker = Worker(client, grace=0.0)
            worker.tool("stubborn", stubborn)
            running = asyncio.create_task(worker.run())
            await began.wait()
            if ends == "cancelled":
                running.cancel()
            await worker.stop()
            await asyncio.wait([running])
            assert running.cancelled() is (ends == "cancelled")
            assert [call.status for call in await client.calls.list()] == ["pending"]


async def test_a_cancelled_worker_leaves_its_call_open() -> None:
    async with serving(turns(("slow", 1)), [external("slow")], inline_executors=PENDING) as api:
        await api.finished()
        began = asyncio.Event()

        async def slow(n: int) -> None:
            began.set()
            await asyncio.Event().wait()

        async with client_of(api.port) as client:
            worker = Worker(client)
            worker.tool("slow", slow)
            running = asyncio.create_task(worker.run())
            await began.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await worker.stop()
            assert [call.name for call in await client.calls.list()] == ["slow"]


async def test_a_worker_with_a_wrong_key_says_so() -> None:
    async with serving(secret_keys=("sk",)) as api, client_of(api.port, secret_key="wrong") as client:
        worker = Worker(client)
        worker.tool("slow", len)
        with pytest.raises(Unauthorized):
            await worker.run()


@pytest.mark.parametrize(
    "options",
    [
        {"grace": -1},
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"lease": 0.9},
        {"lease": 3_601},
        {"lease": "x"},
        {"name": ""},
    ],
)
async def test_an_invalid_worker_is_refused(options: dict[str, Any]) -> None:
    async with client_of(1) as client:
        with pytest.raises(DefinitionError):
            Worker(client, **options)
        with pytest.raises(DefinitionError, match="A worker's client must be a Client, not None"):
            Worker(None)  # type: ignore[arg-type]  # user input
        worker = Worker(client)
        with pytest.raises(DefinitionError, match="has no tools"):
            await worker.run()
        with pytest.raises(DefinitionError, match="must be executed by a function"):
            worker.tool("slow", 5)  # type: ignore[type-var]  # user input
        worker.tool("quick", lambda: 1)
        with pytest.raises(DefinitionError, match="already has a tool 'quick'"):
            worker.tool("quick")
        with pytest.raises(
            DefinitionError, match="The name 'a,b' of a worker's tool must not contain a comma"
        ):
            worker.tool("a,b", lambda: 1)
        assert worker.name != Worker(client).name


async def test_calls_that_are_over_by_then_end_quietly() -> None:
    tools = [replace(external("slow"), timeout=30.0)]
    async with serving(turns(("slow", 1)), tools, inline_executors=PENDING) as api:
        await api.finished()
        began, gate = asyncio.Event(), asyncio.Event()

        async def slow(n: int) -> int:
            began.set()
            await gate.wait()
            return n

        async with client_of(api.port) as client:
            worker = Worker(client)
            worker.tool("slow", slow)
            async with at_work(worker):
                await began.wait()
                [call] = await client.calls.list()
                assert (await client.calls.cancel(call.id)).status == "cancelled"
                gate.set()
            assert (await api.rig.rt.calls.get(call.id)).status == "cancelled"
