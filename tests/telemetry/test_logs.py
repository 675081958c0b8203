"""Logs of runs: every line contains its run, call and trace."""

import json
import logging
from collections.abc import Generator
from io import StringIO

import pytest

import toolwright as tw
from tests.kit import call
from tests.telemetry.watching import DONE, Watching, agent_of, at_work, led
from toolwright.core.env.logs import JsonFormatter

pytestmark = pytest.mark.anyio

log = logging.getLogger("tests.of_a_tool")


@pytest.fixture
def written() -> Generator[StringIO]:
    """Yield the log records of tools, as JSON."""
    text = StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    yield text
    log.removeHandler(handler)


@tw.tool(description="Speak.")
async def speak() -> str:
    log.warning("Here I am.")
    return "spoken"


@tw.tool(description="Speak.")
def speak_in_a_thread() -> str:
    log.warning("Here I am.")
    return "spoken"


@tw.tool(description="Call.")
async def caller(state: tw.ThreadState) -> str:
    await state.invoke_tool("speak", {})
    log.warning("Here I am.")
    return "called"


async def test_what_a_handler_logs_names_its_run_call_and_trace(written: StringIO) -> None:
    watching = Watching()
    turns = [call("speak"), call("speak_in_a_thread"), call("caller"), DONE]
    app = tw.App(agents=[agent_of("boss", turns, speak, speak_in_a_thread, caller)])
    async with at_work(app, watching) as rt:
        run = await led(rt, "boss")
        calls = {
            call.name: call.id for call in await rt.calls.list(status=None, run_id=run.id) if call.step < 3
        }
        [outer] = [c for c in await rt.calls.list(status=None, run_id=run.id) if c.name == "caller"]
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    context = watching.span("invoke_agent boss").context
    assert context is not None
    assert {line["runId"] for line in lines} == {run.id}
    assert {line["threadId"] for line in lines} == {run.thread_id}
    assert {line["traceId"] for line in lines} == {f"{context.trace_id:032x}"}
    assert [line["callId"] for line in lines] == [
        calls["speak"],
        calls["speak_in_a_thread"],
        f"{outer.id}.1",
        outer.id,
    ]
