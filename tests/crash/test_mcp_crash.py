"""The process dies while its agent calls an MCP server: at every commit, and after every answer of the server.

The requests to the server are known, since it survives. A call without hints reaches it at most once. A recorded task
is followed to its end by the next process, and its result is delivered once. An answered question is never repeated.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.crash.processes import INTERRUPTED, KILLED, Scene, kill_points, processes_of, sampled
from tests.mcp.peers.serving import Served, served

DONE_TASK = {"task": "task_1", "text": "work done"}
pytestmark = [pytest.mark.anyio, pytest.mark.matrix]

REVISIONS = ("2025-11-25", "2026-07-28")

processes = processes_of("mcp_child")


class Play:
    """One tool of one server, called by processes that die; the requests to the server and the state of the journal."""

    def __init__(self, scene: Scene, server: Served, **order: Any) -> None:
        self.scene = scene
        self.server = server
        self._order = {"peer": server.url, **order}

    async def run(self, **more: Any) -> int:
        return await self.scene.run(**{**self._order, **more})

    async def run_to_the_end(self, **kill: Any) -> None:
        """Execute it in a process that dies at that point, if it reaches it, and in the next process."""
        assert await self.run(kill=kill) in (KILLED, 0)
        assert await self.run() == 0
        assert await self.scene.rows("SELECT 1 FROM mcp_tasks") == []
        assert await self.scene.rows("SELECT 1 FROM wakes") == []

    def heard(self, method: str) -> int:
        return len(self.server.hearing.of(method))

    async def result(self) -> dict[str, Any]:
        """Return the result of the call, which the agent has read once: as an answer or in its inbox."""
        [(call_id, route, told)] = await self.scene.rows(
            "SELECT id, route, result FROM calls WHERE parent_id IS NULL"
        )
        notices = await self.scene.rows(f"SELECT status FROM inbox WHERE event_id = 'tr:{call_id}'")
        assert notices == ([("processed",)] if route == "inbox" else [])
        bodies = [json.loads(body) for (body,) in await self.scene.rows("SELECT body FROM messages")]
        assert len([body for body in bodies if "call" in body]) == 1
        assert {
            each.params["_meta"]["toolwright/callId"] for each in self.server.hearing.of("tools/call")
        } <= {call_id}
        result: dict[str, Any] = json.loads(told)
        return result

    async def questions(self) -> list[dict[str, Any]]:
        """Return the answers, one per question."""
        asked = await self.scene.rows("SELECT result FROM calls WHERE parent_id IS NOT NULL ORDER BY id")
        return [json.loads(told)["result"] for (told,) in asked]


@contextmanager
def play(
    scene: Scene, peer: str, tool: str, revision: str, *, more: dict[str, Any] | None = None, **options: Any
) -> Generator[Play]:
    """Serve that tool of that peer, created with `more`; the server is configured with these options."""
    with served(peer, revision, **more or {}) as server:
        yield Play(scene, server, tool=tool, options=options)


TOO_LATE = "Tool timed out after 50ms"
UNITS = {"call": 6, "task": 13, "late": 14, "call_asks": 11}
"""The approximate number of commits of an undisturbed run."""
both_revisions = pytest.mark.parametrize("revision", REVISIONS)
both_kinds = pytest.mark.parametrize("kind", ["sqlite", "postgres"])
before_or_after = pytest.mark.parametrize("when", ["before", "after"])


def commits(name: str) -> pytest.MarkDecorator:
    """Parametrize the commits at which a process dies: on Postgres every third. The protocol revisions alternate."""
    units = {"sqlite": range(1, UNITS[name] + 1), "postgres": range(1, UNITS[name] + 1, 3)}
    points = [(kind, unit) for kind, numbers in units.items() for unit in numbers]
    return pytest.mark.parametrize(
        ("kind", "unit", "revision"),
        [(kind, unit, REVISIONS[number % 2]) for number, (kind, unit) in enumerate(points)],
    )


@before_or_after
@commits("call")
async def test_a_call_without_hints_reaches_its_server_once_at_most(
    scene: Scene, revision: str, unit: int, when: str
) -> None:
    with play(scene, "counts_calls", "count", revision) as it:
        await it.run_to_the_end(unit=unit, when=when)
        result = await it.result()
        assert it.heard("tools/call") <= 1
        if result["status"] == "error":
            assert result["error"] == INTERRUPTED
        else:
            assert result["result"] == "1"


@both_revisions
@both_kinds
@pytest.mark.parametrize(("tool", "calls"), [("count", 1), ("read", 2), ("put", 2)])
async def test_a_call_whose_answer_was_lost_is_made_again_where_that_does_no_harm(
    scene: Scene, revision: str, tool: str, calls: int
) -> None:
    with play(scene, "counts_calls", tool, revision) as it:
        await it.run_to_the_end(asked=1, when="after")
        assert it.heard("tools/call") == calls
        assert (await it.result())["status"] == ("error" if tool == "count" else "success")


@before_or_after
@commits("call")
async def test_a_call_that_may_be_made_again_has_a_result(
    scene: Scene, revision: str, unit: int, when: str
) -> None:
    with play(scene, "counts_calls", "read", revision) as it:
        await it.run_to_the_end(unit=unit, when=when)
        assert (await it.result())["status"] == "success"


@before_or_after
@commits("task")
async def test_a_task_is_followed_by_the_next_process(
    scene: Scene, revision: str, unit: int, when: str
) -> None:
    with play(scene, "tasks", "work", revision) as it:
        await it.run_to_the_end(unit=unit, when=when)
        result = await it.result()
        assert it.heard("tools/call") <= 1
        assert result.get("result") == DONE_TASK or result["error"] == INTERRUPTED


@both_revisions
@both_kinds
@before_or_after
@pytest.mark.parametrize("asked", sampled(range(1, 4)))
async def test_death_between_a_server_and_the_journal_loses_no_recorded_task(
    scene: Scene, revision: str, asked: int, when: str
) -> None:
    with play(scene, "tasks", "work", revision) as it:
        await it.run_to_the_end(asked=asked, when=when)
        result = await it.result()
        assert it.heard("tools/call") <= 1
        assert (result["status"] == "error") == (asked == 1), "nobody knows of a task that was not recorded"


@before_or_after
@commits("late")
async def test_a_task_whose_call_is_pending_brings_its_result_to_the_inbox_once(
    scene: Scene, revision: str, unit: int, when: str
) -> None:
    with play(scene, "tasks", "work", revision, timeout=50) as it:
        await it.run_to_the_end(unit=unit, when=when)
        result = await it.result()
        # on a busy machine the server might not have created its task in time: then the call has failed by its timeout
        assert result.get("result") == DONE_TASK or result["error"] in (INTERRUPTED, TOO_LATE)


@before_or_after
@pytest.mark.parametrize(("kind", "unit"), kill_points(sqlite=range(1, 20), postgres=range(1, 20, 3)))
async def test_what_a_task_asks_is_asked_once(scene: Scene, unit: int, when: str) -> None:
    with play(scene, "tasks", "asks", "2026-07-28") as it:
        await it.run_to_the_end(unit=unit, when=when)
        await _asked_once(it)


@both_kinds
@before_or_after
@pytest.mark.parametrize("asked", sampled(range(2, 7)))
async def test_a_task_that_asks_survives_death_between_its_server_and_the_journal(
    scene: Scene, asked: int, when: str
) -> None:
    with play(scene, "tasks", "asks", "2026-07-28") as it:
        await it.run_to_the_end(asked=asked, when=when)
        await _asked_once(it)


async def _asked_once(it: Play) -> None:
    result, questions = await it.result(), await it.questions()
    if result["status"] == "error":
        assert (result["error"], questions) == (INTERRUPTED, [])
        return
    assert len(questions) == 1
    assert result["result"]["answer"]["content"]["email"] == "a@b.c"


@before_or_after
@commits("call_asks")
async def test_what_a_call_has_asked_is_found_again_with_its_answer(
    scene: Scene, revision: str, unit: int, when: str
) -> None:
    reads = {"annotations": {"readOnlyHint": True}}
    with play(scene, "elicits", "twice", revision, more=reads) as it:
        await it.run_to_the_end(unit=unit, when=when)
        assert [each["action"] for each in (await it.result())["result"]["answers"]] == ["accept", "accept"]
        assert len(await it.questions()) == 2


@before_or_after
@commits("call")
async def test_what_was_pinned_stays_pinned(scene: Scene, revision: str, unit: int, when: str) -> None:
    with play(scene, "changing_definition", "stable", revision, holdChanges=True) as it:
        first = await it.run(kill={"unit": unit, "when": when})
        pinned = await scene.rows("SELECT tool, digest FROM mcp_definitions")
        assert first in (KILLED, 0)
        assert await it.run() == 0
        [now] = await scene.rows("SELECT tool, digest FROM mcp_definitions")
        assert pinned in ([], [now])
        assert it.heard("tools/call") <= 1


@both_revisions
@both_kinds
async def test_a_call_that_was_cancelled_before_the_process_died_ends_its_task(
    scene: Scene, revision: str
) -> None:
    with play(scene, "tasks", "endless", revision) as it:
        assert await it.run(kill={"asked": 3, "when": "before"}) == KILLED
        assert await it.run(cancel=True, kill={"at_cancel": True}) == KILLED
        assert [status for (status,) in await scene.rows("SELECT status FROM calls")] == ["cancelled"]
        assert it.heard("tasks/cancel") == 0
        await it.run_to_the_end()
        assert it.heard("tasks/cancel") == 1
        assert (await it.result())["error"] == "Tool call cancelled"
