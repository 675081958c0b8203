"""Values from a server that Postgres does not accept: NUL, and unlimited task ids. The run always continues."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

import toolwright as tw
from tests.kit import call, send_to
from tests.mcp.peers.peer import Answer, Asked, JSONObject, Peer, text, tool
from tests.mcp.peers.questions import form, request
from tests.mcp.peers.serving import Served
from tests.mcp.peers.tasks import EXTENSION, TASKS
from tests.mcp.test_runs import REVISIONS, over
from tests.postgres_server import fresh_database
from toolwright import testing
from toolwright.core.threads.message import Message
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio
ODD = "nul \x00 in it"


@asynccontextmanager
async def serving(peer: Peer) -> AsyncGenerator[str]:
    """Run that peer. Yields its URL."""
    server = Served(peer)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


async def told(peer: Peer, name: str) -> Message:
    """Return the result of a call of that tool as the agent reads it, with its journal on Postgres."""
    model = testing.ScriptedModel([call(name), {"text": "done"}])
    agent = tw.Agent("a", tw.Prompt("a", "Work.", model=model))
    async with serving(peer) as url, fresh_database() as database:
        app = tw.App(agents=[agent], mcp={"peer": {"url": url}})
        async with app.runtime(Settings(database_url=database), grace=1.0) as rt:
            run = await send_to(rt, "a")
            [message] = await over(rt, run.id)
            return message


def task(task_id: str, revision: Any, *states: JSONObject) -> Peer:
    """A peer whose tool `work` becomes a task with that id and these states."""
    left = list(states)

    async def create(asked: Asked) -> JSONObject:
        if asked.modern:
            return {"resultType": "task", "taskId": task_id, "status": "working", "pollIntervalMs": 20}
        return {"task": {"taskId": task_id, "status": "working", "pollInterval": 20}}

    async def get(_: Asked) -> JSONObject:
        return {"taskId": task_id, "pollIntervalMs": 20, **(left.pop(0) if len(left) > 1 else left[0])}

    async def nothing(_: Asked) -> JSONObject:
        return {}

    answers: dict[str, Answer] = {"tasks/get": get, "tasks/update": nothing, "tasks/cancel": nothing}
    return Peer(
        tools=[tool("work", execution={"taskSupport": "required"})],
        calls={"work": create},
        answers=answers,
        extensions={EXTENSION: {}},
        capabilities={"tasks": TASKS},
        revision=revision,
    )


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("task_id", [ODD, "", "x" * 100_000], ids=["nul", "empty", "long"])
async def test_the_id_of_a_task_that_cannot_be_kept_is_the_servers_error(task_id: str, revision: str) -> None:
    message = await told(task(task_id, revision, {"status": "working"}), "work")
    assert json.loads(message.content)["error_code"] == "mcp_bad_answer"
    assert len(message.content) < 1_000


@pytest.mark.parametrize("name", ["text", "structured", "key", "error", "file", "refused", "progress"])
async def test_a_call_whose_answer_holds_what_cannot_be_kept_has_a_result(name: str) -> None:
    results = {
        "text": text(ODD),
        "structured": text("x", structuredContent={"a": [ODD]}),
        "key": text("x", structuredContent={ODD: 1}),
        "error": text(ODD, isError=True),
        "file": {"content": [{"type": "resource", "resource": {"uri": f"file:///{ODD}", "blob": "AAAA"}}]},
    }

    async def answer(asked: Asked) -> JSONObject:
        if name == "refused":
            raise MCPError(types.INVALID_REQUEST, ODD)
        if name == "progress":
            await asked.context.session.report_progress(1, 2, ODD)
        return results.get(name, text("done"))

    assert (await told(Peer(tools=[tool("work")], calls={"work": answer}), "work")).content


async def test_a_list_that_holds_what_cannot_be_kept_is_offered_as_far_as_it_can_be() -> None:
    tools = [tool(ODD), tool("work", ODD, title=ODD, inputSchema={"type": "object", "description": ODD})]
    assert (await told(Peer(tools=tools), "work")).content == "{}"


@pytest.mark.parametrize("part", ["message", "key", "schema", "status"])
async def test_a_task_that_asks_with_what_cannot_be_kept_goes_on(part: str) -> None:
    schema: JSONObject = {"type": "object", "properties": {"a": {"type": "string", "title": ODD}}}
    asked = form(ODD) if part == "message" else form("Well?", schema) if part == "schema" else form("")
    requests = {ODD if part == "key" else "q": {"method": "elicitation/create", "params": asked}}
    waits = {"status": "input_required", "inputRequests": requests}
    if part == "status":
        waits = {"status": "working", "statusMessage": ODD}
    done = {"status": "completed", "result": text("All done.")}
    message = await told(task("t", "2026-07-28", waits, done), "work")
    assert message.content == "All done."


@pytest.mark.parametrize("part", ["message", "schema"])
async def test_a_question_that_cannot_be_kept_is_refused_to_the_server(part: str) -> None:
    schema: JSONObject = {"type": "object", "properties": {"a": {"type": "string", "title": ODD}}}

    async def answer(asked: Asked) -> JSONObject:
        params = form(ODD) if part == "message" else form("Well?", {**schema, "required": 7})
        return text(json.dumps(await request(asked, "elicitation/create", params)))

    answers: dict[str, Answer] = {"work": answer}
    message = await told(Peer(tools=[tool("work")], calls=answers, revision="2025-11-25"), "work")
    assert message.status == "error"
