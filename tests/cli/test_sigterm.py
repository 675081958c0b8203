"""A served app is stopped under load: acknowledged data is stored, and a second process completes it."""

import asyncio
import json
import signal
import sqlite3
from collections import Counter
from contextlib import ExitStack, aclosing
from pathlib import Path

import httpx2
import pytest

from tests.cli.shell import Running, Shell
from tests.cli.test_serve import url_of
from toolwright.client import Client

RUNS = 200
PATIENCE = 15  # seconds within which the server must exit

APP = """
import asyncio, os
import toolwright as tw
from toolwright.testing import ScriptedModel

def note(*words):
    file = os.open("witness", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, (" ".join(words) + "\\n").encode())
    os.close(file)

@tw.tool(description="Work slowly, or at once.")
async def work(state: tw.ThreadState, slow: bool) -> str:
    note("begin", state.call_id)
    if slow:
        await asyncio.sleep(30 if os.path.exists("slowly") else 0)
    note("end", state.call_id)
    return "worked"

outside = tw.Tool(name="outside", description="Ask outside.", kind="external", timeout=600.0,
    parameters={"type": "object", "properties": {}})

def turns(*calls):
    return [{"text": "On it.", "calls": list(calls)}, {"text": "Done."}]

QUICK = {"name": "work", "args": {"slow": False}}
SLOW = {"name": "work", "args": {"slow": True}}
ASK = {"name": "outside", "args": {}}
models = {"quick": turns(QUICK, QUICK, QUICK), "slow": turns(QUICK, SLOW), "waits": turns(QUICK, ASK)}
app = tw.App(agents=[
    tw.Agent(name, tw.Prompt(name, "Work.", model=ScriptedModel(said), tools=[work, outside]))
    for name, said in models.items()
])
"""


STUCK = """
import asyncio, pathlib, threading
import toolwright as tw
from toolwright.core.model import ModelResponse
from toolwright.testing import ScriptedModel

async def never():
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:
            pass

@tw.tool(description="Swallows every cancellation.", timeout=None)
async def deaf() -> str:
    pathlib.Path("deaf").touch()
    await never()

@tw.tool(description="Never comes back from its thread.", timeout=None)
def sleeps() -> str:
    pathlib.Path("sleeps").touch()
    threading.Event().wait()

@tw.tool(description="Waits for a thread of its own that never comes back.", timeout=None)
async def threads() -> str:
    pathlib.Path("threads").touch()
    await asyncio.to_thread(threading.Event().wait)

class Deaf:
    name = "deaf"

    async def respond(self, request):
        pathlib.Path("model").touch()
        await never()
        yield ModelResponse(text="late")

def calling(tool):
    return ScriptedModel([{"calls": [{"name": tool.name, "args": {}}]}, {"text": "Done."}])

app = tw.App(agents=[
    *[tw.Agent(t.name, tw.Prompt(t.name, "Work.", model=calling(t), tools=[t])) for t in (deaf, sleeps, threads)],
    tw.Agent("model", tw.Prompt("model", "Work.", model=Deaf())),
])
"""


def test_a_server_ends_though_foreign_code_does_not(shell: Shell) -> None:
    """Each case has its server. All servers are stopped at once, since each takes its whole grace period."""
    shells = {case: _folder(shell, case) for case in ("deaf", "sleeps", "threads", "model")}
    with ExitStack() as at_work:
        servers = {
            case: at_work.enter_context(own.start("serve", "app:app", "--port", "0"))
            for case, own in shells.items()
        }
        for case, server in servers.items():
            _occupy(case, server)
        for server in servers.values():
            server.process.send_signal(signal.SIGTERM)
        assert {case: server.end() for case, server in servers.items()} == dict.fromkeys(servers, 0)
    for case, own in shells.items():
        assert _rows(own.folder, "SELECT status FROM runs") == [("running",)], case
        assert _rows(own.folder, "SELECT held FROM runs") == [(0,)], f"{case}: nobody takes it for dead"


def _folder(shell: Shell, case: str) -> Shell:
    """Return a folder for the server of that case."""
    folder = shell.folder / case
    folder.mkdir()
    own = shell.at(folder)
    own.env |= shell.env
    own.write("app.py", STUCK)
    return own


def _occupy(case: str, server: Running) -> None:
    """Have that code in progress in its server."""
    with httpx2.Client(base_url=url_of(server), timeout=20, trust_env=False) as client:
        thread_id = client.post("/api/threads", json={"agentId": case}).json()["threadId"]
        sent = client.post(f"/api/threads/{thread_id}/messages", json={"content": "Go"})
        run_id = sent.json()["runId"]
        with client.stream("GET", f"/api/runs/{run_id}/stream", params={"after": 0}) as stream:
            first = "step.started" if case == "model" else "tool.started"
            next(line for line in stream.iter_lines() if first in line)


@pytest.mark.slow
def test_a_stop_under_load_loses_and_repeats_nothing(shell: Shell) -> None:
    shell.write("app.py", APP)
    shell.write("slowly", "")
    with shell.start("serve", "app:app", "--port", "0") as server:
        told = asyncio.run(_load(url_of(server), server))
        assert server.process.wait(PATIENCE) == 0
    (shell.folder / "slowly").unlink()
    assert len(told) >= RUNS
    stored = {row[0] for row in _rows(shell.folder, "SELECT id FROM runs")}
    assert told <= stored, "what was acknowledged is there"
    with shell.start("serve", "app:app", "--port", "0") as server:
        asyncio.run(_bring_to_an_end(url_of(server), told))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    _check(shell.folder)


async def _load(url: str, server: Running) -> set[str]:
    """Start runs, streams and requests, and stop the server in the middle. Return the runs that it acknowledged."""
    told: set[str] = set()
    ready, streaming = asyncio.Event(), asyncio.Event()
    async with (
        httpx2.AsyncClient(base_url=url, timeout=20, trust_env=False) as client,
        asyncio.TaskGroup() as tasks,
    ):

        async def one(n: int) -> None:
            agent = ("quick", "slow", "waits")[n % 3]
            made = await client.post("/api/threads", json={"agentId": agent})
            thread_id = made.json()["threadId"]
            sent = await client.post(f"/api/threads/{thread_id}/messages", json={"content": "Go"})
            if sent.status_code == 202:
                told.add(sent.json()["runId"])
            if len(told) >= RUNS:
                ready.set()

        async def many(first: int) -> None:
            n = first
            try:
                while True:
                    await one(n)
                    n += 8
            except (httpx2.HTTPError, KeyError, json.JSONDecodeError):
                return  # the server stops

        async def follow() -> None:
            made = await client.post("/api/threads", json={"agentId": "waits"})
            path = f"/api/threads/{made.json()['threadId']}/stream"
            try:
                async with client.stream("GET", path) as stream:
                    async for _ in stream.aiter_bytes():
                        streaming.set()
            except httpx2.HTTPError:
                return

        for _ in range(5):
            tasks.create_task(follow())
        await asyncio.wait_for(streaming.wait(), 20)
        for first in range(8):
            tasks.create_task(many(first))
        await asyncio.wait_for(ready.wait(), 60)
        server.process.send_signal(signal.SIGTERM)
    return told


async def _bring_to_an_end(url: str, told: set[str]) -> None:
    """Follow each run, a few at a time, and submit the results that it waits for, until it has finished."""
    left = iter(sorted(told))
    async with Client(url) as client, asyncio.timeout(60), asyncio.TaskGroup() as tasks:

        async def some() -> None:
            for run_id in left:
                await _finish(client, run_id)

        for _ in range(8):
            tasks.create_task(some())


async def _finish(client: Client, run_id: str) -> None:
    async with aclosing(client.runs.follow(run_id, after=0)) as events:
        async for event in events:
            if event.type == "run.waiting":
                for call in await client.calls.list(run_id=run_id):
                    await client.calls.submit(run_id, call.id, "here")
            if event.type in ("run.completed", "run.failed"):
                return


def _check(folder: Path) -> None:
    assert {row[0] for row in _rows(folder, "SELECT DISTINCT status FROM runs")} == {"completed"}
    begun = Counter(
        line.split()[1] for line in (folder / "witness").read_text().splitlines() if "begin" in line
    )
    assert set(begun.values()) == {1}, "no effect may happen twice"
    transcripts: dict[str, list[str]] = {}
    for thread_id, role in _rows(folder, "SELECT thread_id, role FROM messages ORDER BY thread_id, seq"):
        transcripts.setdefault(thread_id, []).append(role)
    for roles in transcripts.values():
        assert roles in (
            ["user", "assistant", "tool", "tool", "tool", "assistant"],
            ["user", "assistant", "tool", "tool", "assistant"],
        )


def _rows(folder: Path, query: str) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(folder / "toolwright.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
