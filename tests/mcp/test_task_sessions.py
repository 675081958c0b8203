"""Tasks of servers over HTTP that belong to a session: polled in that session, also after our restart."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

import pytest

import toolwright as tw
from tests.kit import call, until
from tests.mcp.peers.bare import TOOL, Answer, Bare, HttpLine, JSONObject, Line, error, polite, result
from tests.mcp.peers.serving import Served
from tests.mcp.test_runs import begin, over
from toolwright import testing
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio


class Sessions:
    """A server of 2025-11-25 that makes a task of each call and knows it only in the session of the call.

    `forgets` maps sessions to the status that it answers them with.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.forgets: dict[str, int] = {}
        self.shares = False
        self._numbers = count(1)
        self._owner = ""
        answers: dict[str, Answer] = {
            "initialize": self._greet,
            "server/discover": self._unknown,
            "tools/list": self._list,
            "tools/call": self._call,
            "tasks/get": self._get,
            "tasks/result": self._result,
        }
        self.peer = Bare(answers=answers, get=405)

    @property
    def hearing(self) -> list[str]:
        """Sessions in which the task was polled."""
        return [each.headers["mcp-session-id"] for each in self.peer.hearing.of("tasks/get")]

    @property
    def ended(self) -> list[str]:
        """Sessions that their client has ended."""
        return [each.headers["mcp-session-id"] for each in self.peer.hearing.of("(DELETE)")]

    async def _greet(self, message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        capabilities: JSONObject = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
        info = {"name": "sessions", "version": "1"}
        told: JSONObject = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        session = f"mcp-session-id: s{next(self._numbers)}"
        await line.status(200, result(message, told), "content-type: application/json", session)

    async def _unknown(self, message: JSONObject, line: Line) -> None:
        await line.answer(error(message, -32601, "Method not found"))

    async def _list(self, message: JSONObject, line: Line) -> None:
        tool = {**TOOL, "execution": {"taskSupport": "required"}}
        await line.answer(result(message, {"tools": [tool]}))

    async def _call(self, message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        self._owner = line.headers["mcp-session-id"]
        await line.answer(result(message, {"task": _task("working")}))

    async def _get(self, message: JSONObject, line: Line) -> None:
        if await self._knows(message, line):
            await line.answer(result(message, _task("completed" if self.is_done else "working")))

    async def _result(self, message: JSONObject, line: Line) -> None:
        if await self._knows(message, line):
            await line.answer(polite({**message, "method": "tools/call"}))

    async def _knows(self, message: JSONObject, line: Line) -> bool:
        assert isinstance(line, HttpLine)
        session = line.headers["mcp-session-id"]
        if session in self.forgets:
            await line.status(self.forgets[session])
        elif session != self._owner and not self.shares:
            await line.answer(error(message, -32602, "Task not found"))
        else:
            return True
        return False


def _task(status: str) -> JSONObject:
    at = "2026-01-01T00:00:00Z"
    return {
        "taskId": "t",
        "status": status,
        "createdAt": at,
        "lastUpdatedAt": at,
        "ttl": None,
        "pollInterval": 20,
    }


@contextmanager
def served(sessions: Sessions) -> Generator[str]:
    at_work = Served(sessions.peer)
    at_work.start()
    try:
        yield at_work.url
    finally:
        at_work.stop()


@asynccontextmanager
async def process(url: str, journal: Path) -> AsyncGenerator[Runtime]:
    """Run a runtime on that journal whose agent calls the server's tool."""
    model = testing.ScriptedModel([call("plain"), {"text": "done"}])
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Work.", model=model))], mcp={"peer": {"url": url}})
    settings = tw.Settings(database_url=f"sqlite:///{journal}")
    async with app.runtime(settings, grace=1.0) as rt:
        yield rt


async def until_asked(sessions: Sessions) -> None:
    async def asked() -> list[str]:
        return sessions.hearing

    await until(asked)


async def result_after_a_restart(sessions: Sessions, tmp_path: Path) -> str:
    with served(sessions) as url:
        async with process(url, tmp_path / "journal.db") as rt:
            thread_id, run_id = await begin(rt)
            await until_asked(sessions)
        sessions.is_done = True
        async with process(url, tmp_path / "journal.db") as rt:
            await over(rt, run_id)
            messages = await rt.threads.messages(thread_id)
    [read] = [each.content for each in messages if each.role == "tool"]
    return read


async def test_a_task_is_asked_about_in_its_session_after_a_restart(tmp_path: Path) -> None:
    sessions = Sessions()
    assert "fine" in await result_after_a_restart(sessions, tmp_path)
    assert {*sessions.hearing} == {"s1"}
    assert "s1" not in sessions.ended


@pytest.mark.parametrize("status", [400, 404])
async def test_a_task_whose_session_is_gone_is_asked_about_in_the_new_one(
    tmp_path: Path, status: int
) -> None:
    sessions = Sessions()
    sessions.shares = True
    with served(sessions) as url:
        async with process(url, tmp_path / "journal.db") as rt:
            _, run_id = await begin(rt)
            await until_asked(sessions)
        sessions.is_done, sessions.forgets = True, {"s1": status}
        async with process(url, tmp_path / "journal.db") as rt:
            await over(rt, run_id)
            assert (await rt.runs.get(run_id)).status == "completed"
            assert sessions.hearing[-1] == "s2"
            assert len(sessions.peer.hearing.of("initialize")) == 2
    assert "s2" in sessions.ended


async def test_a_session_without_tasks_is_ended_with_its_connection(tmp_path: Path) -> None:
    sessions = Sessions()
    with served(sessions) as url:
        async with process(url, tmp_path / "journal.db") as rt:

            async def ready() -> bool:
                return (await rt.mcp.of("a"))[0].status == "ready"

            await until(ready)
    assert sessions.ended == ["s1"]
