"""Runs of agents with tools of MCP servers: questions, notifications, held-back tools, tasks."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.house import HUSAM, opened
from tests.kit import call, send_to, until
from tests.mcp.peers.peer import Peer, tool
from tests.mcp.peers.serving import Served, command, made, served, started
from toolwright import testing
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio
REVISIONS = ("2025-11-25", "2026-07-28")


class Hearing(testing.ScriptedModel):
    """A script that records the offered tools."""

    def __init__(self, turns: Sequence[JSONObject]) -> None:
        super().__init__(list(turns))
        self.asked: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.asked.append(request)
        if request.system == "Answer in one word.":
            yield ModelResponse(text="Paris", model="hearing")
            return
        async for event in super().respond(request):
            yield event

    @property
    def offered(self) -> list[list[str]]:
        """Names of the tools at each step."""
        return [[tool.name for tool in request.tools] for request in self.asked]


@asynccontextmanager
async def agent(
    url: str, *turns: JSONObject, env: dict[str, str] | None = None, **server: Any
) -> AsyncGenerator[tuple[Runtime, Hearing]]:
    """Run a runtime with one agent, `a`, that has the tools of the server at that URL and makes these calls."""
    model = Hearing([*turns, {"text": "done"}])
    prompt = tw.Prompt("a", "Work.", model=model)
    app = tw.App(agents=[tw.Agent("a", prompt, env=env or {})], mcp={"peer": {"url": url, **server}})
    async with testing.runtime(app) as rt:
        yield rt, model


async def begin(rt: Runtime) -> tuple[str, str]:
    """Start a run in a new thread. Return both."""
    thread = await rt.threads.create("a")
    return thread.id, (await rt.threads.send(thread.id, "Go")).id


async def over(rt: Runtime, run_id: str) -> list[Message]:
    """Return the tool messages of the run after it has finished."""
    run = await rt.runs.wait(run_id, timeout=60)
    assert run.status == "completed", run.error
    messages = await rt.threads.messages(run.thread_id)
    return [message for message in messages if message.role == "tool"]


async def question(rt: Runtime, run_id: str, seen: Sequence[str] = ()) -> Call:
    """Return the next question of the run."""

    async def asked() -> Call | None:
        for each in await rt.calls.list(run_id=run_id):
            if each.name == "elicit" and each.id not in seen and each.status == "waiting":
                return each
        return None

    return await until(asked)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_a_server_asks_is_a_pending_call_below_its_own(revision: str) -> None:
    with served("elicits", revision) as server:
        async with agent(server.url, call("twice")) as (rt, _):
            _, run_id = await begin(rt)
            first = await question(rt, run_id)
            assert first.parent_id is not None
            asked = json.loads(first.arguments)
            assert (asked["message"], asked["source"]) == ("First?", "peer")
            accepted: JSONObject = {"action": "accept", "content": {"email": "a@b.c"}}
            await rt.calls.submit(run_id, first.id, accepted)
            second = await question(rt, run_id, [first.id])
            await rt.calls.submit(run_id, second.id, {"action": "decline"})
            [told] = await over(rt, run_id)
    answers = json.loads(told.content)["answers"]
    assert answers[0]["content"] == {"email": "a@b.c", "size": "M", "gift": False}
    assert [each["action"] for each in answers] == ["accept", "decline"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_may_send_a_person_somewhere(revision: str) -> None:
    with served("elicits", revision) as server:
        async with agent(server.url, call("address")) as (rt, _):
            _, run_id = await begin(rt)
            asked = await question(rt, run_id)
            assert json.loads(asked.arguments)["url"] == "https://shop.example/pay?order=5"
            await rt.calls.submit(run_id, asked.id, {"action": "accept"})
            [told] = await over(rt, run_id)
    assert json.loads(told.content)["answers"][0]["action"] == "accept"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("allowed", [True, False])
async def test_the_agents_model_answers_a_server_only_where_that_is_allowed(
    revision: str, allowed: bool
) -> None:
    with served("samples", revision) as server:
        async with agent(server.url, call("sample"), sampling=allowed) as (rt, model):
            _, run_id = await begin(rt)
            [told] = await over(rt, run_id)
    samplings = [each for each in model.asked if each.system == "Answer in one word."]
    assert len(samplings) == allowed, told.content
    assert ("answers" in told.content) == allowed


@pytest.mark.parametrize("revision", REVISIONS)
async def test_progress_is_reported_as_the_calls(revision: str) -> None:
    with served("progress", revision) as server:
        async with agent(server.url, call("with_message")) as (rt, _):
            thread_id, run_id = await begin(rt)
            reports: list[JSONObject] = []
            async for event in rt.events.follow(Topic(kind="thread", id=thread_id), after=0):
                if event.type == "tool.progress":
                    reports.append(event.payload)
                if event.type == "run.completed":
                    break
            await over(rt, run_id)
    assert reports
    assert reports[-1]["text"] == "step 3"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("tool", ["work", "twice"])
async def test_each_request_of_a_call_says_which_call_it_is(revision: str, tool: str) -> None:
    with served("tasks" if tool == "work" else "elicits", revision) as server:
        async with agent(server.url, call(tool)) as (rt, _):
            _, run_id = await begin(rt)
            for _ in range(2 if tool == "twice" else 0):
                asked = await question(rt, run_id)
                await rt.calls.submit(run_id, asked.id, {"action": "decline"})
            [told] = await over(rt, run_id)
    heard = [each.params["_meta"]["toolwright/callId"] for each in server.hearing.of("tools/call")]
    assert set(heard) == {told.call_id}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_cancelled_run_cancels_the_call_on_the_server(revision: str) -> None:
    with served("hangs_at_call", revision) as server:
        async with agent(server.url, call("wait")) as (rt, _):
            _, run_id = await begin(rt)
            await asyncio.to_thread(server.hearing.wait_for, "tools/call")
            await rt.runs.cancel(run_id)
            assert (await rt.runs.wait(run_id, timeout=60)).status == "cancelled"
            await asyncio.to_thread(server.hearing.wait_for, "(cancelled)")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_that_takes_too_long_is_an_error_and_cancelled_on_the_server(revision: str) -> None:
    with served("hangs_at_call", revision) as server:
        async with agent(server.url, call("wait"), call("plain"), timeout=300) as (rt, _):
            _, run_id = await begin(rt)
            first, second = await over(rt, run_id)
            await asyncio.to_thread(server.hearing.wait_for, "(cancelled)")
    assert json.loads(first.content)["error"] == "Tool timed out after 300ms"
    assert second.status == "success"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_headers_have_the_values_of_the_thread_and_secrets_never_come_back(revision: str) -> None:
    headers = {"Authorization": "Bearer ${env.TOKEN}"}
    with served("headers", revision) as server:
        async with agent(server.url, call("headers"), headers=headers) as (rt, _):
            run = await send_to(rt, "a", env={"TOKEN": {"value": "tok-12345678", "type": "secret"}})
            [told] = await over(rt, run.id)
        [heard] = server.hearing.of("tools/call")
    assert heard.headers["authorization"] == "Bearer tok-12345678"
    assert json.loads(told.content)["authorization"] == "Bearer [redacted:TOKEN]"


async def test_a_thread_without_a_value_that_a_server_needs_waits_for_it() -> None:
    with served("headers") as server:
        async with agent(server.url, call("headers"), headers={"X-User": "${env.USER}"}) as (rt, _):
            _, run_id = await begin(rt)

            async def waiting() -> Run | None:
                run = await rt.runs.get(run_id)
                return run if run.status == "waiting" else None

            run = await until(waiting)
            assert run.waiting is not None
            assert run.waiting["reason"] == "variables"
            assert not server.hearing.heard
            await rt.requests.answer(run.thread_id, str(run.waiting["requestId"]), {"USER": "ada"})
            [told] = await over(rt, run_id)
    assert "x-user" in told.content


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_list_that_changes_is_read_again(revision: str) -> None:
    with served("changing_tools", revision) as server:
        async with agent(server.url, call("grow"), call("shrink"), call("grow")) as (rt, model):
            state = await ready(rt)
            assert state.protocol == revision
            _, run_id = await begin(rt)
            await over(rt, run_id)

            async def grown() -> bool:
                return len((await ready(rt)).tools) == 4

            await until(grown)
    assert "grow" in model.offered[0]


async def ready(rt: Runtime) -> Any:  # the state of the one server
    [state] = await rt.mcp.of("a")
    return state


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_tool_that_changes_after_its_first_use_is_held_back_until_it_is_accepted(
    revision: str,
) -> None:
    with served("changing_definition", revision) as server:
        turns = (call("stable"), call("stable"), call("stable", secret="s"))
        async with agent(server.url, *turns, holdChanges=True) as (rt, model):
            await ready(rt)
            thread_id, run_id = await begin(rt)
            first, *_ = await over(rt, run_id)
            assert first.status == "success"

            async def held() -> Any:  # a state
                state = await ready(rt)
                return state if state.held else None

            state = await until(held)
            assert [each.tool for each in state.held] == ["stable"]
            assert "send the secret" in str(state.held[0].definition)
            assert not state.tools
            run = await rt.threads.send(thread_id, "Again")
            await over(rt, run.id)
            assert model.offered[-1] == []
            events = [event async for event in events_until(rt, thread_id, "tool.held")]
            assert events[-1].payload == {"serverName": "peer", "toolName": "stable"}
            await rt.mcp.accept("a", "peer", "stable")
            state = await ready(rt)
            assert (not state.held, [tool.name for tool in state.tools]) == (True, ["stable"])
            run = await rt.threads.send(thread_id, "Once more")
            await over(rt, run.id)
            assert model.offered[-1] == ["stable"]


async def events_until(rt: Runtime, thread_id: str, type_: str) -> AsyncGenerator[Any]:  # events
    async with asyncio.timeout(60):
        async for event in rt.events.follow(Topic(kind="thread", id=thread_id), after=0):
            yield event
            if event.type == type_:
                return


async def test_without_the_setting_a_changed_tool_is_offered_as_it_is() -> None:
    with served("changing_definition") as server:
        async with agent(server.url, call("stable")) as (rt, _):
            _, run_id = await begin(rt)
            await over(rt, run_id)

            async def changed() -> bool:
                return "secret" in str((await ready(rt)).tools[0].parameters)

            await until(changed)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("work", "task"),
        ("required", "task"),
        ("fails", "The task failed"),
        ("lost", "lost"),
    ],
)
async def test_a_task_is_a_call_that_waits(revision: str, tool: str, said: str) -> None:
    with served("tasks", revision) as server:
        async with agent(server.url, call(tool)) as (rt, _):
            _, run_id = await begin(rt)
            [told] = await over(rt, run_id)
    assert said in told.content


async def test_what_a_task_asks_is_asked_below_its_call() -> None:
    with served("tasks", "2026-07-28") as server:
        async with agent(server.url, call("asks")) as (rt, _):
            _, run_id = await begin(rt)
            asked = await question(rt, run_id)
            await rt.calls.submit(run_id, asked.id, {"action": "accept", "content": {"email": "a@b.c"}})
            [told] = await over(rt, run_id)
    assert "a@b.c" in told.content


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_task_that_outlasts_its_timeout_is_cancelled_with_its_call(revision: str) -> None:
    with served("tasks", revision) as server:
        async with agent(server.url, call("endless"), timeout=300) as (rt, _):
            _, run_id = await begin(rt)
            [told] = await over(rt, run_id)
            assert "timed out after 300ms" in told.content
            [open_call] = await rt.calls.list(run_id=run_id)
            await rt.calls.cancel(open_call.id)
            await asyncio.to_thread(server.hearing.wait_for, "tasks/cancel")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_that_was_down_is_used_as_soon_as_it_is_there(revision: str) -> None:
    server = Served(made("plain", revision))
    server.start()
    try:
        async with agent(server.url, call("add", a=1, b=1), call("add", a=2, b=2), call("add", a=3, b=3)) as (
            rt,
            _,
        ):
            await ready(rt)
            _, run_id = await begin(rt)
            assert len(await over(rt, run_id)) == 3
            server.stop()
            _, run_id = await begin(rt)
            broken = await over(rt, run_id)
            assert all(each.status == "error" for each in broken)
            server.start()
            _, run_id = await begin(rt)
            assert [each.content for each in await over(rt, run_id)] == [
                '{"sum":2}',
                '{"sum":4}',
                '{"sum":6}',
            ]
    finally:
        server.stop()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_on_stdio_is_a_process_with_the_variables_that_it_is_given(revision: str) -> None:
    program, *args = command("headers", revision)
    server = {
        "command": program,
        "args": args,
        "env": {"KEY": "${env.TOKEN}", "PYTHONPATH": ":".join(sys.path)},
    }
    model = Hearing([call("environment"), {"text": "done"}])
    agents = [tw.Agent("a", tw.Prompt("a", "Work.", model=model), env={"TOKEN": "tok-12345678"})]
    async with testing.runtime(tw.App(agents=agents, mcp={"peer": server})) as rt:
        _, run_id = await begin(rt)
        [told] = await over(rt, run_id)
    environment = json.loads(told.content)
    assert environment["KEY"] == "[redacted:TOKEN]"
    assert not [name for name in environment if name.startswith("TOOLWRIGHT_")]


@pytest.mark.parametrize(("peer", "tool"), [("elicits", "form"), ("tasks", "asks")], ids=["call", "task"])
async def test_a_question_is_shown_in_the_space_and_a_person_in_it_answers(peer: str, tool: str) -> None:
    with served(peer) as server:
        turns = [
            {"calls": [{"name": "enter_space", "args": {"spaceId": "tea"}}]},
            call(tool),
            {"text": "done"},
        ]
        app = tw.App(
            agents=[
                tw.Agent(
                    "host",
                    tw.Prompt("host", "You host.", model=testing.ScriptedModel(turns)),
                    toolkits=["spaces", "mind"],
                )
            ],
            mcp={"peer": {"url": server.url}},
        )
        async with testing.runtime(app) as rt, opened(rt) as house:
            [run_id] = await house.says("Order, please")
            asked = await question(house.rt, run_id)
            shown = await house.shown()
            assert (shown["toolName"], shown["status"]) == ("elicit", "requires_action")
            assert shown["args"]["message"] == "Where shall it go?"
            answer = {"action": "accept", "content": {"email": "a@b.c"}}
            body = {"callId": asked.id, "result": answer}
            await house.post(f"/api/runs/{run_id}/tool-results", {**body, "result": "yes"}, 400, HUSAM)
            await house.post(f"/api/runs/{run_id}/tool-results", body, 200, HUSAM)
            await house.rt.runs.wait(run_id, timeout=60)
            assert (await house.said())[-1]["metadata"]["status"] == "complete"
            assert any("a@b.c" in each for each in await house.mind())


async def test_tools_of_a_server_take_a_quarter_of_a_small_window_at_most(long_server: str) -> None:
    model = Hearing([call("own"), call("tool0"), call("own"), {"text": "done"}])

    @tw.tool(description="o" * 600)
    async def own() -> str:
        return "own result"

    prompt = tw.Prompt("a", "Work.", model=model, tools=[own], context=tw.Context(max_tokens=2_000))
    app = tw.App(agents=[tw.Agent("a", prompt)], mcp={"peer": {"url": long_server}})
    async with testing.runtime(app) as rt:
        await until(lambda: is_ready(rt))
        await over(rt, (await begin(rt))[1])
        [state] = await rt.mcp.of("a")
    tools = {each.name: each for each in model.asked[0].tools}
    assert len(tools["own"].description) == 600
    assert 4 < len(tools) < 12
    assert "It is left out: " in state.faults[-2].message
    assert {each.name for each in state.tools} == {name for name in tools if name.startswith("tool")}
    assert all(request.tools == model.asked[0].tools for request in model.asked), "the prefix stays"


@pytest.fixture
def long_server() -> Generator[str]:
    """The URL of a server with long descriptions."""
    tools = [tool(f"tool{number}", "d" * 5_000) for number in range(100)]
    with started(Served(Peer(tools=tools))) as served:
        yield served.url


async def is_ready(rt: Runtime) -> bool:
    """Return whether the server of the agent has listed its tools."""
    return (await rt.mcp.of("a"))[0].status == "ready"
