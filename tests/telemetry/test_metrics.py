"""Metrics: what is counted, and the format that Prometheus reads."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import get_args

import httpx2
import pytest

import toolwright as tw
from tests.api.rig import serving
from tests.client.rig import served
from tests.kit import add, call
from tests.runtime.test_context_window import Narrow, echo
from tests.telemetry.watching import DONE, Watching, agent_of, at_work, led
from toolwright.adapters.telemetry.instruments import MAX_AGENTS, OTHER, Metrics
from toolwright.adapters.telemetry.meters import Meters
from toolwright.adapters.telemetry.telemetry import OpenTelemetry
from toolwright.core.errors import StoreError
from toolwright.core.journal.reads import Depths
from toolwright.core.journal.telemetry import Gauge
from toolwright.core.journal.units import Node
from toolwright.core.threads.event import Topic
from toolwright.runtime.health import Gauges
from toolwright.testing import ManualClock

pytestmark = pytest.mark.anyio


def counting() -> Watching:
    """Telemetry whose metrics can be read as text."""
    watching, meters = Watching(), Meters(["prometheus"])
    watching.telemetry = OpenTelemetry(watching.tracers, meters, exposition=meters.text)
    return watching


def figure(text: str, name: str, **labels: str) -> float | None:
    """Return the metric of that name with these labels, and possibly others."""
    for line in text.splitlines():
        told = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
        if told is not None and all(
            f'{label}="{value}"' in (told[1] or "") for label, value in labels.items()
        ):
            return float(told[2])
    return None


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
    call("add", a=1, b=2),
    call("fail"),
    call("made_up_by_the_model"),
    call("own_code"),
    call("later"),
    {"text": "Done.", "usage": {"input_tokens": 7, "output_tokens": 5}},
]


async def test_prometheus_reads_what_calls_runs_and_models_have_come_to() -> None:
    watching = counting()
    app = tw.App(agents=[agent_of("boss", TURNS, add, fail, own_code, later)])
    async with at_work(app, watching) as rt, served(rt) as port, httpx2.AsyncClient(timeout=60) as http:
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
    assert figure(text, total, tool="add", agent="boss") == 1
    assert figure(ended.text, total, tool="later", outcome="cancelled", agent="boss") == 1
    assert figure(text, "toolwright_run_duration_seconds_count", agent="boss") == 1
    assert figure(text, "toolwright_step_duration_seconds_count", agent="boss") == 6
    assert figure(text, "toolwright_tokens_total", gen_ai_agent_name="boss", gen_ai_token_type="input")
    assert figure(text, "toolwright_call_duration_seconds_count", tool="add") == 1
    assert figure(text, "toolwright_run_duration_seconds_count", status="completed") == 1
    assert figure(text, "toolwright_step_duration_seconds_count") == 6
    counted = figure(text, "toolwright_tokens_total", gen_ai_token_type="output")
    assert counted == run.usage.output_tokens
    assert (
        figure(text, "gen_ai_client_operation_duration_seconds_count", gen_ai_request_model="scripted") == 6
    )


def test_figures_are_kept_for_a_hundred_agents_and_for_the_others_together() -> None:
    metrics = Metrics(Meters(["prometheus"]))
    labels = [metrics.agent(f"agent-{n}") for n in range(2 * MAX_AGENTS)]
    assert labels == [f"agent-{n}" for n in range(MAX_AGENTS)] + [OTHER] * MAX_AGENTS
    assert metrics.agent("agent-0") == "agent-0"


async def test_a_run_that_is_opened_again_for_calls_is_counted_once() -> None:
    watching = counting()
    async with at_work(tw.App(agents=[agent_of("boss", [], add)]), watching) as rt, served(rt) as port:
        toolkit = rt.toolkit("boss")
        for _ in range(3):
            await toolkit.handlers["add"]({"a": 1, "b": 2})
            await rt.runs.wait(toolkit.run_id or "", 10)
        async with httpx2.AsyncClient(timeout=60) as http:
            text = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
    assert figure(text, "toolwright_calls_total", tool="add") == 3
    assert figure(text, "toolwright_run_duration_seconds_count", status="completed") == 1


async def test_what_waits_and_who_reads_streams_is_a_gauge() -> None:
    watching = counting()
    app = tw.App(agents=[agent_of("boss", [call("later"), DONE], later)])
    async with at_work(app, watching) as rt, served(rt) as port, httpx2.AsyncClient(timeout=60) as http:
        run = await led(rt, "boss")
        url = f"http://127.0.0.1:{port}"
        async with http.stream("GET", f"{url}/api/runs/{run.id}/stream") as stream:
            lines = stream.aiter_lines()  # kept open, since closing it closes the stream
            await anext(lines)
            assert figure((await http.get(f"{url}/metrics")).text, "toolwright_stream_readers") == 1
        clock = ManualClock()
        depths = Depths(
            pending_calls=3,
            inbox_events=2,
            oldest_event=clock.now(),
            queued_runs=4,
            active_runs=5,
            waiting_runs=6,
            connections=(7, 20),
        )
        clock.advance(90)
        await Gauges(Counted(depths), watching.telemetry, clock, is_ready).measure()  # type: ignore[arg-type]  # the only method that it reads
        text = (await http.get(f"{url}/metrics")).text
    assert figure(text, "toolwright_pending_calls") == 3
    assert figure(text, "toolwright_inbox_events") == 2
    assert figure(text, "toolwright_inbox_oldest_seconds") == 90
    runs = [figure(text, f"toolwright_runs_{status}") for status in ("queued", "active", "waiting")]
    assert runs == [4, 5, 6]
    connections = [figure(text, f"toolwright_database_connections_{which}") for which in ("used", "limit")]
    assert connections == [7, 20]


async def is_ready() -> None:
    """A process that is ready."""


class Counted:
    """A journal with that many waiting items."""

    def __init__(self, depths: Depths, nodes: Sequence[Node] = ()) -> None:
        self._depths, self._nodes = depths, nodes

    async def depths(self) -> Depths:
        return self._depths

    async def nodes(self) -> Sequence[Node]:
        return self._nodes


async def test_the_nodes_of_a_cluster_are_counted_while_they_live() -> None:
    watching, clock = counting(), ManualClock()
    depths = Depths(pending_calls=0, inbox_events=0)
    await Gauges(Counted(depths), watching.telemetry, clock, is_ready).measure()  # type: ignore[arg-type]  # the only method that it reads
    assert "toolwright_node" not in (watching.telemetry.exposition() or "")
    now = clock.now()
    depths = replace(depths, oldest_wake=now - timedelta(seconds=5))
    nodes = [Node(id=f"node_{n}", version="1", slots=10, busy=n, seen=now, skew=-n * 500_000) for n in (1, 2)]
    gauges = Gauges(Counted(depths, nodes), watching.telemetry, clock, is_ready)  # type: ignore[arg-type]  # the only methods that it reads
    for after, figures in ((0, [2, 20, 3, 1, 5]), (60, [0, 0, 0, 0, 65])):
        clock.advance(after)
        await gauges.measure()
        text = watching.telemetry.exposition() or ""
        names = (
            "nodes",
            "node_slots",
            "node_slots_busy",
            "node_clock_skew_seconds",
            "wakes_oldest_due_seconds",
        )
        assert [figure(text, f"toolwright_{name}") for name in names] == figures


async def test_while_the_count_fails_there_is_no_sample_and_the_process_is_not_ready() -> None:
    watching, clock = counting(), ManualClock()
    now, reasons = clock.now(), list[str]()

    async def check() -> None:
        if reasons:
            raise StoreError(reasons[0])

    class Failing(Counted):
        async def depths(self) -> Depths:
            await check()
            return await super().depths()

    nodes = [Node(id="node_1", version="1", slots=10, busy=1, seen=now, skew=0)]
    journal = Failing(Depths(pending_calls=1, inbox_events=1, connections=(1, 2), oldest_wake=now), nodes)
    gauges = Gauges(journal, watching.telemetry, clock, check)  # type: ignore[arg-type]  # the only methods that it reads
    for reason in (None, "The database is away.", None):
        reasons[:] = [] if reason is None else [reason]
        with nullcontext() if reason is None else pytest.raises(StoreError, match=reason):
            await gauges.measure()
        text = watching.telemetry.exposition() or ""
        samples = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
        names = {f"toolwright_{name}" for name in get_args(Gauge)}
        assert figure(text, "toolwright_ready") == (1 if reason is None else 0)
        assert samples & names == (names if reason is None else {"toolwright_ready"})


class Reported(OpenTelemetry):
    """Telemetry that tells when the pending calls were counted."""

    counted: asyncio.Event

    def gauge(self, name: Gauge, value: float | None) -> None:
        super().gauge(name, value)
        if name == "pending_calls":
            self.counted.set()


async def test_a_runtime_tells_how_much_waits_as_it_starts() -> None:
    watching, meters = Watching(), Meters(["prometheus"])
    watching.telemetry = reported = Reported(watching.tracers, meters, exposition=meters.text)
    reported.counted = asyncio.Event()
    async with at_work(tw.App(agents=[agent_of("boss", [DONE])]), watching) as rt:
        await led(rt, "boss")
        await reported.counted.wait()
    assert figure(reported.exposition() or "", "toolwright_pending_calls") == 0


async def test_without_telemetry_there_are_no_figures_and_it_says_how_to_have_some() -> None:
    async with serving() as api:
        answer = await api.client.get("/metrics")
    assert answer.status_code == 404
    assert "pip install 'toolwright-agents[telemetry]'" in answer.json()["error"]


async def test_figures_are_for_services_where_there_are_keys() -> None:
    watching = counting()
    async with (
        at_work(tw.App(), watching) as rt,
        served(rt, secret_keys=("s",)) as port,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        url = f"http://127.0.0.1:{port}/metrics"
        assert (await http.get(url)).status_code == 401
        assert (await http.get(url, headers={"x-secret-key": "s"})).status_code == 200


async def test_conversations_that_are_made_shorter_are_counted_and_marked_at_their_requests() -> None:
    watching, model = counting(), Narrow(echo, limit=2_000, window=2_000)
    app = tw.App(agents=[tw.Agent("talker", tw.Prompt("talker", "Talk.", model=model))])
    async with at_work(app, watching) as rt, served(rt) as port, httpx2.AsyncClient(timeout=60) as http:
        thread = await rt.threads.create("talker")
        for number in range(20):
            run = await rt.threads.send(thread.id, f"{number}: " + "word " * 100)
            await rt.runs.wait(run.id, 20)
        text = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
        rows = await rt.threads.compactions(thread.id)
        events = await rt.events.list(Topic(kind="thread", id=thread.id), limit=1_000)
    compacted = [each.payload for each in events if each.type == "context.compacted"]
    assert [each["number"] for each in compacted] == [each.number for each in rows]
    assert all(each["measure"] == "summary" for each in compacted)
    labels = {"agent": "talker", "cause": "budget", "measure": "summary"}
    assert figure(text, "toolwright_compactions_total", **labels) == len(rows)
    for when, name in (("before", "tokensBefore"), ("after", "tokensAfter")):
        counted = figure(text, "toolwright_compaction_tokens_total", when=when, **labels)
        assert counted == sum(int(str(each[name])) for each in compacted)
    assert len(model.summaries) >= len(rows)  # summaries written during a run are counted too
    written = figure(text, "toolwright_tokens_total", gen_ai_token_type="output")
    assert written == 20 * 5 + len(model.summaries) * 9
    whole = [span for span in watching.ended if span.name.startswith("chat ")]
    assert len(whole) == 20 + len(model.summaries)
    steps = {span.context.span_id for span in watching.ended if span.name.startswith("step") and span.context}
    chats = [span for span in whole if span.parent is not None and span.parent.span_id in steps]
    marked = [bool((span.attributes or {}).get("gen_ai.conversation.compacted")) for span in chats]
    assert len(marked) == 20
    assert marked == sorted(marked) and marked[0] is False and marked[-1] is True
