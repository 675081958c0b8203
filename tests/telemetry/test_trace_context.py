"""Propagation of trace contexts: to HTTP tools and workers, and from the gateway's callers."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

import toolwright as tw
from tests.client.rig import client_of, served
from tests.databases import stores
from tests.executors.rig import answer
from tests.executors.rig import serving as http_server
from tests.kit import call, send_to
from tests.telemetry.watching import DONE, Watching, agent_of, at_work, by_hand, led, lines
from toolwright.client import Worker
from toolwright.core.threads.event import Topic
from toolwright.core.tools.http.execution import HttpExecution

pytestmark = pytest.mark.anyio

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def ids_of(span: ReadableSpan) -> tuple[int, int]:
    """Return the ids of a trace and of its span."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def ids_in(traceparent: str) -> tuple[int, int]:
    """Return the ids in a W3C trace context."""
    _, trace_id, span_id, _ = traceparent.split("-")
    return int(trace_id, 16), int(span_id, 16)


def external(name: str) -> tw.Tool:
    """Return a tool that a worker executes."""
    return tw.Tool(
        name=name, description="Ask.", kind="external", timeout=30.0, parameters={"type": "object"}
    )


async def test_the_request_of_an_http_tool_carries_the_trace_of_its_call() -> None:
    watching = Watching()
    async with http_server() as server:
        url = f"http://me:password@127.0.0.1:{server.port}/look/{{place}}?key=sk-in-the-url"
        look = tw.Tool(
            name="look",
            description="Look.",
            kind="gateway",
            parameters={"type": "object", "properties": {"place": {"type": "string"}}},
            execution=HttpExecution(url=url, method="GET"),
        )
        app = tw.App(agents=[agent_of("boss", [call("look", place="attic"), DONE], look)])
        async with at_work(app, watching) as rt:
            await led(rt, "boss")
        [received] = server.received
    assert "execute_tool look\n      GET http://127.0.0.1" in watching.tree
    [request] = [span for span in watching.ended if span.name.startswith("GET ")]
    assert ids_in(received.headers["traceparent"]) == ids_of(request)
    assert request.attributes == {
        "http.request.method": "GET",
        "url.template": f"http://127.0.0.1:{server.port}/look/{{place}}",
        "http.response.status_code": 200,
    }
    assert "password" not in watching.written
    assert "sk-in-the-url" not in watching.written
    assert "attic" not in watching.written


async def test_of_what_an_http_tool_was_answered_a_span_has_the_status_alone() -> None:
    watching = Watching()
    async with http_server() as server:
        server.replies["/look"] = answer("503 Go Away", "the patient's name is Ada")
        execution = HttpExecution(url=f"http://127.0.0.1:{server.port}/look", method="GET")
        look = tw.Tool(
            name="look",
            description="Look.",
            kind="gateway",
            parameters={"type": "object"},
            execution=execution,
        )
        app = tw.App(agents=[agent_of("boss", [call("look"), DONE], look)])
        async with at_work(app, watching) as rt:
            await led(rt, "boss")
    [made] = [span for span in watching.ended if span.name == "execute_tool look"]
    assert made.status.description == "HTTP 503 Service Unavailable"
    assert "patient" not in watching.written


async def test_a_worker_works_within_the_trace_of_its_call() -> None:
    watching = Watching()
    contexts: list[trace.SpanContext] = []
    app = tw.App(
        agents=[
            agent_of("boss", [call("ask"), call("ask_sync"), DONE], external("ask"), external("ask_sync"))
        ]
    )
    async with at_work(app, watching) as rt, served(rt) as port, client_of(port) as client:
        worker = Worker(client)

        @worker.tool("ask")
        async def answer() -> str:
            contexts.append(trace.get_current_span().get_span_context())
            return "They said so."

        @worker.tool("ask_sync")
        def answer_in_thread() -> str:
            contexts.append(trace.get_current_span().get_span_context())
            return "They said so."

        working = asyncio.create_task(worker.run())
        assert (await led(rt, "boss")).status == "completed"
        await worker.stop()
        await working
    calls = [watching.span(f"execute_tool {name}") for name in ("ask", "ask_sync")]
    assert [(each.trace_id, each.span_id) for each in contexts] == [ids_of(each) for each in calls]


async def test_a_call_that_another_process_has_begun_is_offered_with_the_trace_of_its_run(
    tmp_path: Path,
) -> None:
    before, after = Watching(), Watching()
    app = tw.App(agents=[agent_of("boss", [call("ask"), DONE], external("ask"))])
    async with stores("sqlite", tmp_path) as store:
        async with at_work(app, before, store, inline_wait=0.0) as rt:
            run = await send_to(rt, "boss", "go")
            async with asyncio.timeout(10):
                async for event in rt.events.follow(Topic(kind="run", id=run.id), after=0):
                    if event.type == "run.waiting":
                        break
        async with at_work(app, after, store, inline_wait=0.0) as rt, rt.offers.following() as offers:
            async with asyncio.timeout(10):
                offer = await anext(offers.events)
    assert ids_in(str(offer.payload["traceparent"])) == ids_of(before.span("invoke_agent boss"))


async def test_a_run_is_below_the_trace_of_the_request_that_began_it() -> None:
    watching = Watching()
    app = tw.App(agents=[agent_of("boss", [DONE])])
    async with at_work(app, watching) as rt, served(rt) as port, httpx2.AsyncClient(timeout=60) as http:
        url = f"http://127.0.0.1:{port}/api/threads"
        thread_id = (await http.post(url, json={"agentId": "boss"})).json()["threadId"]
        headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
        for sent in (headers, {"traceparent": "nonsense"}, {}):
            body = {"content": "go"}
            posted = await http.post(f"{url}/{thread_id}/messages", json=body, headers=sent)
            await rt.runs.wait(posted.json()["runId"], 20)
    runs = [span for span in watching.ended if span.name == "invoke_agent boss"]
    first = runs[0].parent
    assert first is not None
    assert (first.trace_id, first.span_id) == ids_in(TRACEPARENT)
    assert [span.parent for span in runs[1:]] == [None, None]
    assert watching.traces == 3


async def test_a_run_that_a_service_triggers_is_below_the_trace_of_its_request() -> None:
    watching = Watching()
    app = tw.App(agents=[agent_of("boss", [DONE])])
    async with at_work(app, watching) as rt, served(rt) as port, httpx2.AsyncClient(timeout=60) as http:
        url = f"http://127.0.0.1:{port}/api/agents/{(await rt.agents.get('boss')).id}/trigger"
        sent = await http.post(url, json={"serviceName": "mail"}, headers={"traceparent": TRACEPARENT})
        assert sent.json()["success"] is True
        [run] = await rt.runs.list()
        await rt.runs.wait(run.id, 20)
    parent = watching.span("invoke_agent boss").parent
    assert parent is not None
    assert (parent.trace_id, parent.span_id) == ids_in(TRACEPARENT)


async def test_an_agent_woken_by_what_another_one_says_is_below_the_call_that_said_it() -> None:
    watching = Watching()
    speaking = [call("enter_space", spaceId="den"), call("send_message", text="Hello"), DONE]
    ada = agent_of("ada", speaking, toolkits=["spaces"])
    bob = agent_of("bob", [DONE], toolkits=["spaces"])
    async with by_hand(tw.App(agents=[ada, bob]), watching) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "ada"])
        await rt.spaces.create("Den", id="den", members=["ada", "bob"])
        with watching.tracers.get_tracer("mine").start_as_current_span("my program"):
            await rt.spaces.say("tea", husam.id, "Hi")
        await motor.run_until_idle()
    assert watching.tree == lines("""
        my program
          invoke_agent ada
            step 1
              chat scripted
              execute_tool enter_space
            step 2
              chat scripted
              execute_tool send_message
                invoke_agent bob
                  step 1
                    chat scripted
            step 3
              chat scripted
    """)


async def test_a_server_span_of_the_programs_own_stays_the_parent_of_what_a_request_begins() -> None:
    watching = Watching()
    tracer = watching.tracers.get_tracer("mine")
    with (
        watching.telemetry.incoming({"traceparent": TRACEPARENT}),
        tracer.start_as_current_span("my server"),
        watching.telemetry.incoming({"traceparent": TRACEPARENT}),
        tracer.start_as_current_span("within"),
    ):
        pass
    with watching.telemetry.incoming({}), tracer.start_as_current_span("without"):
        pass
    assert watching.tree == "my server\n  within\nwithout"
