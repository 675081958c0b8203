"""Servers that ask during calls, and servers whose calls become tasks: all are completed within one run."""

import asyncio
import json
from typing import Any

import pytest

from tests.mcp.client_rig import Host, Ran, calling, hosting, meeting
from tests.mcp.peers.bare import Bare, JSONObject, Line, result
from tests.mcp.peers.serving import Served
from toolwright.adapters.mcp.executor import CALL_AGAIN
from toolwright.core.threads.call import Call

pytestmark = pytest.mark.anyio

REVISIONS = ("2025-11-25", "2026-07-28")


async def question(host: Host, run_id: str, known: frozenset[str] = frozenset()) -> Call:
    """Return the first open question of that run that was not seen before."""
    async with asyncio.timeout(20):
        while True:
            for call in await host.rt.calls.list(run_id=run_id):
                if call.name == "elicit" and call.id not in known:
                    return call
            await asyncio.sleep(0.02)


async def answered(host: Host, *answers: dict[str, Any]) -> Ran:
    """Execute a run whose questions are answered one after another."""
    thread = await host.rt.threads.create("host")
    run = await host.rt.threads.send(thread.id, "Go")
    known: set[str] = set()
    for answer in answers:
        asked = await question(host, run.id, frozenset(known))
        known.add(asked.id)
        await host.rt.calls.submit(run.id, asked.id, answer)
    return await host.end_of(run.id)


FILLED: dict[str, Any] = {"action": "accept", "content": {"email": "ada@example.com", "amount": 2}}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("tool", "count"), [("form", 1), ("twice", 2), ("empty_form", 1)])
async def test_a_person_answers_what_a_server_asks(revision: str, tool: str, count: int) -> None:
    answer: dict[str, Any] = {"action": "accept", "content": {}} if tool == "empty_form" else FILLED
    async with meeting("elicits", calling(tool), revision=revision) as host:
        ran = await answered(host, *[answer] * count)
    assert ran.run.status == "completed"
    assert ran.results[tool].count('"action":"accept"') == count
    assert tool == "empty_form" or ran.results[tool].count("ada@example.com") == count


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_decline(revision: str, action: str) -> None:
    async with meeting("elicits", calling("form", "own"), revision=revision) as host:
        ran = await answered(host, {"action": action})
    assert f'"action":"{action}"' in ran.results["form"]
    assert ran.results["own"] == "own result"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_address_is_shown_and_a_dangerous_one_is_not(revision: str) -> None:
    async with meeting("elicits", calling("address", "local_address", "own"), revision=revision) as host:
        ran = await answered(host, {"action": "accept"})
    assert '"action":"accept"' in ran.results["address"]
    assert '"action":"accept"' not in ran.results["local_address"]
    assert ran.results["own"] == "own result"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("tool", ["nested_form", "long_form"])
async def test_a_form_that_is_hard_to_show_may_be_declined(tool: str, revision: str) -> None:
    async with meeting("elicits", calling(tool, "own"), revision=revision) as host:
        ran = await answered(host, {"action": "decline"})
    assert ran.run.status == "completed"
    assert ran.results["own"] == "own result"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_two_questions_at_once_are_both_answered(revision: str) -> None:
    async with meeting("elicits_at_once", calling("both"), revision=revision) as host:
        thread = await host.rt.threads.create("host")
        run = await host.rt.threads.send(thread.id, "Go")
        first = await question(host, run.id)
        await host.rt.calls.submit(run.id, first.id, answer_to(first))
        second = await question(host, run.id, frozenset({first.id}))
        await host.rt.calls.submit(run.id, second.id, answer_to(second))
        ran = await host.end_of(run.id)
    assert ran.results["both"].count('"action":"accept"') == 2


def answer_to(asked: Call) -> dict[str, Any]:
    """Return a person's answer to a form, or to a URL."""
    return FILLED if "requestedSchema" in asked.arguments else {"action": "accept"}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_that_asks_without_end_is_stopped(revision: str) -> None:
    async with meeting("elicits_for_ever", calling("form", "own"), revision=revision) as host:
        thread = await host.rt.threads.create("host")
        run = await host.rt.threads.send(thread.id, "Go")
        person = asyncio.create_task(answer_all(host, run.id))
        ran = await host.end_of(run.id)
        person.cancel()
        asked = [call for call in await host.rt.calls.list(run_id=run.id) if call.name == "elicit"]
    assert (ran.run.status, ran.results["own"]) == ("completed", "own result")
    ended = json.loads(ran.results["form"])
    assert ended["error_code"] == "mcp_too_many_questions"
    assert "asked more than 20 questions in one call" in ended["error"]
    assert asked == []  # none is left open


async def answer_all(host: Host, run_id: str) -> None:
    """A person who never declines."""
    known: set[str] = set()
    while True:
        asked = await question(host, run_id, frozenset(known))
        known.add(asked.id)
        await host.rt.calls.submit(run_id, asked.id, FILLED)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("tool", ["ask_model", "sample"])
async def test_the_model_is_asked_only_where_the_configuration_allows_it(tool: str, revision: str) -> None:
    turns: list[object] = [{"text": "Paris", "when": "capital of France"}, *calling(tool, "own")]
    for allowed in (False, True):
        async with meeting(
            "samples", turns, settings={"sampling": allowed, "timeout": 5_000}, revision=revision
        ) as host:
            ran = await host.run()
        assert ran.run.status == "completed"
        assert ("Paris" in ran.results[tool]) is allowed
        assert ran.results["own"] == "own result"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_no_client_knows_is_refused_and_the_run_goes_on(revision: str) -> None:
    async with meeting("asks_unknown", calling("ask", "own"), revision=revision) as host:
        ran = await host.run()
    assert (ran.run.status, ran.results["own"]) == ("completed", "own result")


ENDS = {
    "work": '"task":"task_1"',
    "fails": "The work failed",
    "gives_up": "cancelled",
    "is_error": "It was in vain.",
    "lost": "",
    "required": '"task":"task_1"',
}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("tool", list(ENDS))
async def test_a_task_of_a_server_ends_the_call_that_it_is(tool: str, revision: str) -> None:
    async with meeting("tasks", calling(tool, "own"), revision=revision) as host:
        ran = await host.run()
        calls = await host.rt.calls.list(run_id=ran.run.id)
    assert ran.run.status == "completed"
    assert ENDS[tool] in ran.results[tool] or '"status":"pending"' in ran.results[tool], ran.results
    assert calls == []


async def test_a_task_asks_a_person() -> None:
    async with meeting("tasks", calling("asks", "own"), revision="2026-07-28") as host:
        ran = await answered(host, FILLED)
    assert ran.run.status == "completed"
    assert "ada@example.com" in ran.results["asks"] or '"status":"pending"' in ran.results["asks"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_task_that_never_ends_is_cancelled_with_its_run(revision: str) -> None:
    async with meeting("tasks", calling("endless"), settings={"timeout": 60_000}, revision=revision) as host:
        thread = await host.rt.threads.create("host")
        run = await host.rt.threads.send(thread.id, "Go")
        await asyncio.to_thread(host.hearing.wait_for, "tasks/get")
        await host.rt.runs.cancel(run.id)
        assert (await host.end_of(run.id)).run.status == "cancelled"
        await asyncio.to_thread(host.hearing.wait_for, "tasks/cancel")


SAID_BY_FASTMCP = "elicitation via server-initiated requests is unavailable on 2026-07-28 connections."


async def test_a_tool_that_cannot_ask_in_the_newest_revision_reads_how_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def call(message: JSONObject, line: Line) -> None:
        content = [{"type": "text", "text": SAID_BY_FASTMCP}]
        await line.answer(result(message, {"content": content, "isError": True}))

    served = Served(Bare(answers={"tools/call": call}))
    served.start()
    try:
        async with hosting({"url": served.url}, calling("plain")) as host:
            told = json.loads((await host.run()).results["plain"])
        async with hosting({"url": served.url, "revision": "2026-07-28"}, calling("plain")) as host:
            chosen = json.loads((await host.run()).results["plain"])
    finally:
        served.stop()
    assert told["error"] == f"{SAID_BY_FASTMCP} {CALL_AGAIN}"
    assert chosen["error"] == SAID_BY_FASTMCP  # the operator has decided it
    assert len([each for each in caplog.messages if "opened again in 2025-11-25" in each]) == 1
