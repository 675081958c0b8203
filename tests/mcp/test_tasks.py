"""Tasks of MCP servers with unusual or changing answers: the run always continues."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.kit import call, send_to, until
from tests.mcp.peers.peer import Answer, Asked, JSONObject, Peer, Revision, text, tool
from tests.mcp.peers.questions import SAMPLING, form, request
from tests.mcp.peers.results import SUM
from tests.mcp.peers.serving import Served
from tests.mcp.peers.tasks import EXTENSION, TASKS
from tests.mcp.test_runs import agent, begin, over, question
from toolwright.core.threads.call import Call
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio
ACCEPTED: Any = {"action": "accept", "content": {"email": "a@b.c"}}
DONE: JSONObject = {"status": "completed", "result": text("All done.")}


def asks(**questions: JSONObject) -> JSONObject:
    """Return the state of a task that asks these questions, by their keys."""
    requests = {key: {"method": "elicitation/create", "params": each} for key, each in questions.items()}
    return {"status": "input_required", "inputRequests": requests}


@pytest.mark.parametrize(("kept", "lasts"), [({}, 7 * 24 * 3600), ({"ttlMs": 60_000}, 60)])
async def test_a_task_may_take_as_long_as_its_server_keeps_it_else_a_week(
    kept: JSONObject, lasts: float
) -> None:
    async def create(_: Asked) -> JSONObject:
        return {"resultType": "task", "taskId": "t", "status": "working", **kept}

    with task_that({"status": "working"}, create=create) as server:
        async with agent(server.url, call("work")) as (rt, _):
            _, run_id = await begin(rt)

            async def waiting() -> Call | None:
                calls = await rt.calls.list(run_id=run_id)
                return next((each for each in calls if each.status == "waiting"), None)

            waits = await until(waiting)
            assert waits.expires_at is not None
            assert waits.started_at is not None
            assert (waits.expires_at - waits.started_at).total_seconds() // 60 == lasts // 60
            await rt.runs.cancel(run_id)


@contextmanager
def task_that(*states: JSONObject, create: Answer | None = None, **answers: Answer) -> Generator[Served]:
    """Run a server whose tool `work` becomes a task with these states, one per poll; the last one is repeated.

    `create` answers the call, `answers` the methods of tasks.
    """
    left = list(states)

    async def begun(_: Asked) -> JSONObject:
        return {"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 20}

    async def get(_: Asked) -> JSONObject:
        return {"taskId": "t", "pollIntervalMs": 20, **(left.pop(0) if len(left) > 1 else left[0])}

    async def nothing(_: Asked) -> JSONObject:
        return {}

    methods = {"tasks/get": get, "tasks/update": nothing, "tasks/cancel": nothing}
    methods |= {f"tasks/{name}": answer for name, answer in answers.items()}
    peer = Peer(
        tools=[tool("work")],
        calls={"work": create or begun},
        answers=methods,
        extensions={EXTENSION: {}},
        revision="2026-07-28",
    )
    server = Served(peer)
    server.start()
    try:
        yield server
    finally:
        server.stop()


async def told_by(server: Served) -> str:
    """Return the result of a task without questions, as the agent reads it."""
    async with agent(server.url, call("work")) as (rt, _):
        _, run_id = await begin(rt)
        [told] = await over(rt, run_id)
        assert not [each for each in await rt.calls.list(status=None) if each.name == "elicit"]
    return told.content


async def until_answered(rt: Runtime, run_id: str, answer: Any = ACCEPTED) -> None:
    asked = await question(rt, run_id)
    await rt.calls.submit(run_id, asked.id, answer)


@pytest.mark.parametrize(
    "faulty",
    [
        form(""),
        form("Well?", {"type": "object", "properties": {"a": {"type": "nothing"}}}),
        form("Well?", {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}),
    ],
    ids=["no words", "no schema", "nowhere"],
)
async def test_a_question_that_cannot_be_asked_is_cancelled_at_once(faulty: JSONObject) -> None:
    heard: list[Any] = []

    async def update(asked: Asked) -> JSONObject:
        heard.append(asked.params["inputResponses"])
        return {}

    with task_that(asks(where=faulty), asks(where=faulty), DONE, update=update) as server:
        assert await told_by(server) == "All done."
    assert heard[0] == {"where": {"action": "cancel"}}


async def test_a_task_with_an_unanswerable_question_is_cancelled() -> None:
    requests = {"model": {"method": "sampling/createMessage", "params": SAMPLING}}
    with task_that({"status": "input_required", "inputRequests": requests}) as server:
        assert "asks for input that no one here can give" in await told_by(server)
        await asyncio.to_thread(server.hearing.wait_for, "tasks/cancel")


async def test_a_task_that_asks_without_an_end_is_cancelled() -> None:
    many = {f"q{number}": form(f"Number {number}?") for number in range(100)}
    with task_that(asks(**many)) as server:
        assert "asks too many questions" in await told_by(server)
        await asyncio.to_thread(server.hearing.wait_for, "tasks/cancel")


async def test_an_answered_question_is_not_asked_again_while_its_server_still_shows_it() -> None:
    async def late(asked: Asked) -> JSONObject:
        updates = asked.peer.hearing.of("tasks/update")
        state = DONE if len(updates) > 2 else asks(where=form())
        return {"taskId": "t", "pollIntervalMs": 20, **state}

    with task_that(DONE, get=late) as server:
        async with agent(server.url, call("work")) as (rt, _):
            _, run_id = await begin(rt)
            await until_answered(rt, run_id)
            [told] = await over(rt, run_id)
            calls = await rt.calls.list(status=None)
        assert told.content == "All done."
        assert len([each for each in calls if each.name == "elicit"]) == 1
        answers = [each.params["inputResponses"]["where"] for each in server.hearing.of("tasks/update")]
    whole = {"action": "accept", "content": {"email": "a@b.c", "size": "M", "gift": False}}
    assert answers == [whole] * 3, "with the defaults"


async def test_the_result_of_a_task_that_ends_while_it_is_answered_is_not_lost() -> None:
    ended = asyncio.Event()

    async def refuse(_: Asked) -> JSONObject:
        ended.set()
        raise MCPError(types.INVALID_PARAMS, "The task is over")

    async def get(_: Asked) -> JSONObject:
        return {"taskId": "t", "pollIntervalMs": 20, **(DONE if ended.is_set() else asks(where=form()))}

    with task_that(DONE, update=refuse, get=get) as server:
        async with agent(server.url, call("work")) as (rt, _):
            _, run_id = await begin(rt)
            await until_answered(rt, run_id)
            [told] = await over(rt, run_id)
    assert told.content == "All done."


async def test_a_question_that_a_task_has_taken_back_is_taken_back() -> None:
    go_on = asyncio.Event()

    async def get(_: Asked) -> JSONObject:
        state = {"status": "working"} if go_on.is_set() else asks(where=form())
        return {"taskId": "t", "pollIntervalMs": 20, **state}

    with task_that(DONE, get=get) as server:
        async with agent(server.url, call("work")) as (rt, _):
            _, run_id = await begin(rt)
            asked = await question(rt, run_id)
            go_on.set()

            async def taken_back() -> Call | None:
                each = await rt.calls.get(asked.id)
                return each if each.status == "cancelled" else None

            await until(taken_back)
            await rt.runs.cancel(run_id)


async def test_what_a_task_asks_in_2025_is_never_asked_below_another_call() -> None:
    asked_of: list[str] = []

    async def create(asked: Asked) -> JSONObject:
        if asked.params["name"] == "wait":
            await asyncio.Event().wait()
        return {"task": {"taskId": "t", "status": "working", "pollInterval": 20}}

    async def get(asked: Asked) -> JSONObject:
        return {"taskId": "t", "status": "input_required"}

    async def result(asked: Asked) -> JSONObject:
        try:
            asked_of.append(str(await request(asked, "elicitation/create", form())))
        except MCPError as error:
            asked_of.append(str(error))
        return text("All done.")

    peer = Peer(
        tools=[tool("work", execution={"taskSupport": "required"}), tool("wait")],
        calls={"work": create, "wait": create},
        answers={"tasks/get": get, "tasks/result": result},
        capabilities={"tasks": TASKS},
        revision="2025-11-25",
    )
    server = Served(peer)
    server.start()
    try:
        turns = ({"when": "Go", **call("wait")}, {"when": "Begin", **call("work")})
        async with agent(server.url, *turns) as (rt, _):
            _, waiting = await begin(rt)
            await asyncio.to_thread(server.hearing.wait_for, "tools/call")
            run = await send_to(rt, "a", "Begin")
            [told] = await over(rt, run.id)
            assert told.content == "All done."
            assert asked_of == ["The call has ended: no one can be asked."]
            assert not [each for each in await rt.calls.list(status=None) if each.name == "elicit"]
            await rt.runs.cancel(waiting)
    finally:
        server.stop()


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        {"content": "none"},
        {"content": [{"type": "image", "data": "%%%", "mimeType": "image/png"}]},
        {"content": [{"type": "resource", "resource": {"uri": "file:///\x00/..", "blob": "AAAA"}}]},
        {"content": [], "structuredContent": {"deep": json.loads("[" * 150 + "]" * 150)}},
        {"content": [], "structuredContent": {"large": 10**400}},
        {"content": [{"type": "text", "text": "nul \x00"}], "isError": True},
    ],
    ids=["none", "list", "words", "image", "name", "deep", "large", "nul"],
)
async def test_whatever_the_result_of_a_task_is_the_run_goes_on(result: Any) -> None:
    with task_that({"status": "completed", "result": result}) as server:
        await told_by(server)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("structured", "said"),
    [
        ({"sum": 3}, '{"sum":3}'),
        ({"sum": "three"}, "The result does not match the outputSchema of the tool: sum: must be a number"),
        (None, "The result does not match the outputSchema of the tool: there is no structured content."),
    ],
    ids=["fits", "does not fit", "none"],
)
async def test_the_result_of_a_task_is_validated_as_that_of_a_call_is(
    structured: JSONObject | None, said: str, revision: Revision
) -> None:
    result = text("3") if structured is None else text("3", structuredContent=structured)

    async def create(asked: Asked) -> JSONObject:
        if asked.modern:
            return {"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 20}
        return {"task": {"taskId": "t", "status": "working", "pollInterval": 20}}

    async def get(asked: Asked) -> JSONObject:
        return {"taskId": "t", "status": "completed", **({"result": result} if asked.modern else {})}

    async def payload(_: Asked) -> JSONObject:
        return result

    peer = Peer(
        tools=[tool("work", execution={"taskSupport": "required"}, outputSchema=SUM)],
        calls={"work": create},
        answers={"tasks/get": get, "tasks/result": payload},
        capabilities={"tasks": TASKS},
        extensions={EXTENSION: {}},
        revision=revision,
    )
    server = Served(peer)
    server.start()
    try:
        assert said in await told_by(server)
    finally:
        server.stop()


@pytest.mark.parametrize(
    "state",
    [
        {"status": "failed", "error": "text"},
        {"status": "failed", "error": {"message": 7}, "statusMessage": ["x"]},
        {"status": "cancelled", "pollIntervalMs": "soon"},
        {"status": "completed"},
    ],
)
async def test_whatever_the_end_of_a_task_is_the_run_goes_on(state: JSONObject) -> None:
    with task_that(state) as server:
        assert "error" in await told_by(server)
