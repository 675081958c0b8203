"""`toolwright threads delete`: with a running server and without one, for idle and running threads."""

import asyncio
import signal
import sqlite3
from contextlib import aclosing, closing

import pytest

from tests.cli.shell import Shell
from tests.cli.test_serve import url_of
from toolwright.client import Client
from toolwright.core.errors import NotFound
from toolwright.core.results import Attachment

APP = """
import toolwright as tw
from toolwright.testing import ScriptedModel

@tw.tool(requires_approval=True)
async def pay(to: str) -> str:
    '''Pay.'''
    return f"Paid {to}"

turns = [{"when": "Pay", "calls": [{"name": "pay", "args": {"to": "Ann"}}]}, {"text": "Done."}]
app = tw.App(agents=[tw.Agent("clerk", tw.Prompt("p", "Help.", model=ScriptedModel(turns), tools=[pay]))])
"""
SERVE = ("serve", "threads_app:app", "--port", "0")
TABLES = ("threads", "messages", "inbox", "events", "files", "env", "calls", "steps", "runs")


async def at_rest(url: str) -> str:
    """Create a thread with a value and a file, whose run has finished."""
    async with Client(url) as client:
        thread = await client.threads.create("clerk", env={"NAME": {"value": "sesame", "type": "secret"}})
        file = Attachment(name="note.txt", mime_type="text/plain", data="aGVsbG8=")
        sent = await client.threads.send(thread.id, "Hello.", [file])
        await client.runs.wait(sent.run_id, 30)
        return thread.id


async def at_work(url: str) -> str:
    """Create a thread whose run waits for an approval."""
    async with Client(url) as client:
        thread = await client.threads.create("clerk")
        sent = await client.threads.send(thread.id, "Pay Ann.")
        async with aclosing(client.runs.follow(sent.run_id, after=0)) as events:
            async for event in events:
                if event.type == "run.waiting":
                    break
        return thread.id


async def gone(url: str, *thread_ids: str) -> None:
    async with Client(url) as client:
        for thread_id in thread_ids:
            with pytest.raises(NotFound):
                await client.threads.get(thread_id)


def left(shell: Shell) -> dict[str, int]:
    with closing(sqlite3.connect(shell.folder / "toolwright.db")) as connection:
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES}
        return {name: count for name, count in counts.items() if count}


def test_threads_are_deleted_beside_a_server_that_executes_their_runs(shell: Shell) -> None:
    shell.write("threads_app.py", APP)
    with shell.start(*SERVE) as server:
        url = url_of(server)
        resting, busy = asyncio.run(at_rest(url)), asyncio.run(at_work(url))
        done = shell.run("threads", "delete", resting)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"The thread {resting} was deleted, with everything that belonged to it.\n"
        code, line = shell.refused("threads", "delete", busy)
        assert (code, busy in line, "--cancel" in line) == (1, True, True)
        assert shell.run("threads", "delete", busy, "--cancel").returncode == 0
        asyncio.run(gone(url, resting, busy))
        code, line = shell.refused("threads", "delete", busy)
        assert (code, line) == (
            1,
            f"toolwright: There is no thread '{busy}'. (toolwright errors not_found)",
        )
        server.process.send_signal(signal.SIGTERM)
        server.end()
    assert left(shell) == {}


def test_a_thread_is_deleted_without_a_server(shell: Shell) -> None:
    shell.write("threads_app.py", APP)
    with shell.start(*SERVE) as server:
        resting = asyncio.run(at_rest(url_of(server)))
        server.process.send_signal(signal.SIGTERM)
        server.end()
    assert left(shell)["files"] == 1
    assert shell.run("threads", "delete", resting).returncode == 0
    assert left(shell) == {}


def test_a_journal_in_memory_has_no_threads_for_others(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "memory://"
    code, line = shell.refused("threads", "delete", "thr_1")
    assert (code, "in memory" in line) == (1, True)


def test_a_journal_that_is_not_there_is_not_made(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///mistyped.db"
    before = sorted(shell.folder.rglob("*"))
    code, line = shell.refused("threads", "delete", "thr_1")
    assert (code, "There is no database 'mistyped.db'" in line) == (1, True)
    assert sorted(shell.folder.rglob("*")) == before
