"""Figures: what is counted, and how Prometheus reads it."""

import re

import httpx
import pytest

import toolwright as tw
from tests.api.rig import serving
from tests.client.rig import served
from tests.telemetry.watching import DONE, Watching, agent_of, at_work, calling, led
from toolwright.adapters.telemetry.meters import Meters
from toolwright.adapters.telemetry.telemetry import OpenTelemetry
from toolwright.core.journal.reads import Depths
from toolwright.runtime.gauges import Gauges

pytestmark = pytest.mark.anyio


def counting() -> Watching:
    """Telemetry whose figures can be read as text."""
    watching, meters = Watching(), Meters(["prometheus"])
    watching.telemetry = OpenTelemetry(watching.tracers, meters, exposition=meters.text)
    return watching


def figure(text: str, name: str, **labels: str) -> float | None:
    """The figure of that name with these labels, and perhaps others."""
    for line in text.splitlines():
        told = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
        if told is not None and all(
            f'{label}="{value}"' in (told[1] or "") for label, value in labels.items()
        ):
            return float(told[2])
    return None


@tw.tool(description="Add.")
async def add(a: int, b: int) -> int:
    return a + b


@tw.tool(description="Fail.")
async def fail() -> str:
    raise ValueError("no luck")


@tw.tool(description="Fail with a code of its own.")
async def own_code() -> tw.ToolResult:
    return tw.ToolResult.fail("no luck", error_code="code-4711")


later = tw.Tool(
    name="later", description="Ask.", kind="external", is_async=True, parameters={"type": "object"}
)
TURNS = [
    calling("add", a=1, b=2),
    calling("fail"),
    calling("made_up_by_the_model"),
    calling("own_code"),
    calling("later"),
    {"text": "Done.", "usage": {"input_tokens": 7, "output_tokens": 5}},
]


async def test_prometheus_reads_what_calls_runs_and_models_have_come_to() -> None:
    watching = counting()
    app = tw.App(agents=[agent_of("boss", TURNS, add, fail, own_code, later)])
    async with at_work(app, watching) as rt, served(rt) as port, httpx.AsyncClient() as http:
        run = await led(rt, "boss")
        answer = await http.get(f"http://127.0.0.1:{port}/metrics")
        [pending] = await rt.calls.list(run_id=run.id)
        await rt.calls.cancel(pending.id)
        ended = await http.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.text
    total = "toolwright_calls_total"
    assert figure(text, total, tool="add", kind="function", outcome="success") == 1
    assert figure(text, total, tool="fail", kind="function", outcome="error") == 1
    assert figure(text, total, tool="unknown", outcome="unknown_tool") == 1
    assert figure(text, total, tool="own_code", outcome="error") == 1
    assert figure(text, total, tool="later", kind="external", outcome="pending") == 1
    assert figure(ended.text, total, tool="later", kind="external", outcome="cancelled") == 1
    assert "made_up_by_the_model" not in text
    assert "code-4711" not in text
    assert figure(text, "toolwright_call_duration_seconds_count", tool="add") == 1
    assert figure(text, "toolwright_run_duration_seconds_count", status="completed") == 1
    assert figure(text, "toolwright_step_duration_seconds_count") == 6
    counted = figure(text, "toolwright_tokens_total", gen_ai_token_type="output")
    assert counted == run.usage.output_tokens
    assert (
        figure(text, "gen_ai_client_operation_duration_seconds_count", gen_ai_request_model="scripted") == 6
    )


async def test_a_run_that_is_opened_again_for_calls_is_counted_once() -> None:
    watching = counting()
    async with at_work(tw.App(agents=[agent_of("boss", [], add)]), watching) as rt, served(rt) as port:
        toolkit = rt.toolkit("boss")
        for _ in range(3):
            await toolkit.handlers["add"]({"a": 1, "b": 2})
            await rt.runs.wait(toolkit.run_id or "", 10)
        async with httpx.AsyncClient() as http:
            text = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
    assert figure(text, "toolwright_calls_total", tool="add") == 3
    assert figure(text, "toolwright_run_duration_seconds_count", status="completed") == 1


async def test_what_waits_and_who_reads_streams_is_a_gauge() -> None:
    watching = counting()
    app = tw.App(agents=[agent_of("boss", [calling("later"), DONE], later)])
    async with at_work(app, watching) as rt, served(rt) as port, httpx.AsyncClient() as http:
        run = await led(rt, "boss")
        url = f"http://127.0.0.1:{port}"
        async with http.stream("GET", f"{url}/api/runs/{run.id}/stream") as stream:
            await anext(stream.aiter_lines())
            assert figure((await http.get(f"{url}/metrics")).text, "toolwright_stream_readers") == 1
        depths = Depths(pending_calls=3, inbox_events=2)
        await Gauges(Counted(depths), watching.telemetry).look()  # type: ignore[arg-type]  # all that it reads
        text = (await http.get(f"{url}/metrics")).text
    assert figure(text, "toolwright_pending_calls") == 3
    assert figure(text, "toolwright_inbox_events") == 2


class Counted:
    """A journal in which so much waits."""

    def __init__(self, depths: Depths) -> None:
        self._depths = depths

    async def depths(self) -> Depths:
        return self._depths


async def test_a_runtime_tells_how_much_waits_as_it_starts() -> None:
    watching = counting()
    async with at_work(tw.App(agents=[agent_of("boss", [DONE])]), watching) as rt:
        await led(rt, "boss")
    assert figure(watching.telemetry.exposition() or "", "toolwright_pending_calls") == 0


async def test_without_telemetry_there_are_no_figures_and_it_says_how_to_have_some() -> None:
    async with serving() as api:
        answer = await api.client.get("/metrics")
    assert answer.status_code == 404
    assert "install toolwright[telemetry]" in answer.json()["error"]


async def test_figures_are_for_services_where_there_are_keys() -> None:
    watching = counting()
    async with (
        at_work(tw.App(), watching) as rt,
        served(rt, secret_keys=("s",)) as port,
        httpx.AsyncClient() as http,
    ):
        url = f"http://127.0.0.1:{port}/metrics"
        assert (await http.get(url)).status_code == 401
        assert (await http.get(url, headers={"x-secret-key": "s"})).status_code == 200
