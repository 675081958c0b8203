"""Postgres dies under load, or stops responding: all acknowledged data is stored, once.

Real callers, a real gateway on loopback, a real server that is killed with SIGKILL and started again.
"""

import asyncio
import json
import os
import re
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

import toolwright as tw
from tests.api.rig import asking, at_work, outside
from tests.postgres_server import MortalServer, server_url
from tests.runtime.rig import assert_valid
from toolwright.adapters.store.postgres.opening import wait_for_postgres
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import StoreError
from toolwright.core.threads.event import Topic
from toolwright.runtime.runtime import Runtime
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions

pytestmark = [pytest.mark.anyio, pytest.mark.outage]

CALLERS, OUTAGES, BETWEEN = 6, 3, 10
PATIENCE = 25.0  # seconds for any answer: the journal times out after 15

app = tw.App(agents=[tw.Agent("tester", tw.Prompt("p", model=asking(), tools=[outside]))])


@asynccontextmanager
async def mortal() -> AsyncGenerator[MortalServer]:
    server = await asyncio.to_thread(MortalServer)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.end)


@asynccontextmanager
async def served(server: MortalServer) -> AsyncGenerator[tuple[Runtime, httpx2.AsyncClient]]:
    async with app.runtime(tw.Settings(database_url=server.url), grace=1.0) as runtime:
        options = GatewayOptions(clock=SystemClock())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            gateway = create_gateway(runtime, options)
            async with (
                at_work(gateway, options, listener) as (_, url),
                httpx2.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as client,
            ):
                yield runtime, client


@dataclass
class Load:
    """The requests of callers, and the answers that they received."""

    client: httpx2.AsyncClient
    threads: list[str] = field(default_factory=list[str])
    sent: list[str] = field(default_factory=list[str])
    messages: dict[str, str] = field(default_factory=dict[str, str])  # the acknowledged run, by content
    submitted: dict[str, str] = field(default_factory=dict[str, str])  # the result, by call
    refused: int = 0
    stopping: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:  # any JSON
        """Return the answer, or None for 503 with a `Retry-After` header. Any other status fails the test."""
        response = await self.client.request(method, path, json=body)
        self.changed.set()
        if response.status_code == 503:
            assert response.headers["Retry-After"] == "1"
            assert response.json()["error"]
            self.refused += 1
            return None
        if response.status_code == 409:
            return {}
        assert response.is_success, (response.status_code, response.text)
        return response.json()

    async def caller(self, name: int) -> None:
        """Create threads, messages and results, one after the other, until stopped."""
        number = 0
        while not self.stopping:
            number += 1
            made = await self.ask("POST", "/api/threads", {"agentId": "tester"})
            if made is None:
                continue
            self.threads.append(made["threadId"])
            content = f"message {number} of {name}"
            self.sent.append(content)
            told = await self.ask("POST", f"/api/threads/{made['threadId']}/messages", {"content": content})
            if told is None:
                continue
            self.messages[content] = told["runId"]
            await self.submit(told["runId"], f"result {number} of {name}")

    async def submit(self, run_id: str, result: str) -> None:
        """Submit the requested result of the run once; a 409 means that an unanswered attempt was stored."""
        while True:
            found = await self.ask("GET", f"/api/calls?runId={run_id}&status=waiting,pending")
            if found and found["calls"]:
                break
            await asyncio.sleep(0.02)  # as a polling caller does
        call_id = found["calls"][0]["callId"]
        while True:
            body = {"callId": call_id, "result": result}
            told = await self.ask("POST", f"/api/runs/{run_id}/tool-results", body)
            if told is not None:
                self.submitted[call_id] = result
                return

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def until_more(self, count: int) -> None:
        goal = len(self.submitted) + count
        await self.until(lambda: len(self.submitted) >= goal)


async def test_whatever_was_acknowledged_is_there_once_though_postgres_was_killed_under_load() -> None:
    async with asyncio.timeout(120), mortal() as server, served(server) as (runtime, client):
        load = Load(client)
        async with asyncio.TaskGroup() as callers:
            for name in range(CALLERS):
                callers.create_task(load.caller(name))
            for _ in range(OUTAGES):
                await load.until_more(BETWEEN)
                refused = load.refused
                await asyncio.to_thread(server.kill)
                await load.until(lambda before=refused: load.refused > before)
                await asyncio.to_thread(server.restart)
            await load.until_more(BETWEEN)
            load.stopping = True
        await hand_in_the_rest(runtime, load)
        await check(runtime, load)


async def hand_in_the_rest(runtime: Runtime, load: Load) -> None:
    """Submit results for runs whose sender received no answer, and wait until all runs end."""
    for run in await runtime.runs.list(limit=10_000):
        if run.id not in load.messages.values():
            await load.submit(run.id, "late")
    for run in await runtime.runs.list(limit=10_000):
        assert (await runtime.runs.wait(run.id, 30)).status == "completed"


async def check(runtime: Runtime, load: Load) -> None:
    threads = {thread.id: thread for thread in await runtime.threads.list(limit=10_000)}
    assert set(load.threads) <= set(threads)
    heard: Counter[str] = Counter()
    for thread_id, thread in threads.items():
        assert thread.run_id is None
        messages = await runtime.threads.messages(thread_id, 1_000)
        assert_valid(messages)
        for message in messages:
            if message.role == "user":
                heard[message.content] += 1
                assert message.run_id == load.messages.get(message.content, message.run_id)
        events = [event async for event in recorded(runtime, thread_id)]
        assert events == list(range(1, thread.ev + 1))
    assert set(load.messages) <= set(heard) <= set(load.sent)
    assert set(heard.values()) == {1}
    for call in await runtime.calls.list(status=None, limit=10_000):
        assert call.status == "resolved"
        given = load.submitted[call.id]
        assert given in json.dumps(call.result)


async def recorded(runtime: Runtime, thread_id: str) -> AsyncGenerator[int]:
    """Yield the numbers of the thread's events, from the first to the last."""
    last = (await runtime.threads.get(thread_id)).ev
    if not last:
        return
    async for event in runtime.events.follow(Topic(kind="thread", id=thread_id), after=0):
        if event.n is None:
            continue
        yield event.n
        if event.n == last:
            return


async def test_callers_are_told_when_postgres_is_silent_and_runs_go_on_when_it_speaks_again() -> None:
    async with asyncio.timeout(90), mortal() as server, served(server) as (runtime, client):
        load = Load(client)
        async with asyncio.TaskGroup() as callers:
            for name in range(3):
                callers.create_task(load.caller(name))
            await load.until_more(3)
            try:
                server.freeze()
                await load.until(lambda: load.refused >= 3)
                assert (await client.get("/health")).status_code == 503
            finally:
                server.thaw()
            await load.until_more(3)
            load.stopping = True
        await hand_in_the_rest(runtime, load)
        await check(runtime, load)


async def test_a_server_waits_at_its_start_for_a_database_that_is_not_there_yet(tmp_path: Path) -> None:
    server = await asyncio.to_thread(MortalServer)
    try:
        await asyncio.to_thread(server.kill)
        for command in ("serve", "work"):
            program = (sys.executable, "-m", "toolwright.cli", command, "waiting_app:app")
            (tmp_path / "waiting_app.py").write_text(
                "import toolwright as tw\napp = tw.App()\n", encoding="utf-8"
            )
            options = ("--port", "0") if command == "serve" else ()
            process = await asyncio.create_subprocess_exec(
                *program,
                *options,
                cwd=tmp_path,
                env=os.environ | {"TOOLWRIGHT_DATABASE_URL": server.url, "PYTHONUNBUFFERED": "1"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            assert process.stdout is not None
            lines = aiter(process.stdout)
            async with asyncio.timeout(60):
                while b"Waiting for the database, at most 60 s." not in await anext(lines):
                    pass
                await asyncio.to_thread(server.restart)
                while b"Ctrl-C stops it." not in await anext(lines):
                    pass
                process.terminate()
                assert await process.wait() == 0
            await asyncio.to_thread(server.kill)
    finally:
        await asyncio.to_thread(server.end)


async def test_the_wait_for_a_database_is_bounded_and_only_for_one_that_can_come() -> None:
    with pytest.raises(StoreError, match="The journal on Postgres cannot be used"):
        await wait_for_postgres("postgresql://me@127.0.0.1:1/x", 0.0)
    missing = re.sub("/postgres(?=[?])", "/nowhere", server_url())
    await wait_for_postgres(missing, 60.0)  # the runtime reports it
