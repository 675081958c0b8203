"""The dashboard, the alert rules and the scrape example of `deploy/`: they name existing metrics."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

import toolwright as tw
from tests.client.rig import served
from tests.postgres_server import MortalServer
from tests.prerequisites import missing
from tests.telemetry.test_metrics import TURNS, Counted, add, counting, fail, is_ready, later, own_code
from tests.telemetry.watching import agent_of, at_work, led
from toolwright.adapters.memory import MemoryFiles
from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.system import new_id
from toolwright.core.errors import StoreError
from toolwright.core.journal.reads import Depths
from toolwright.core.journal.units import Node
from toolwright.runtime.health import FRESH, Gauges, Health
from toolwright.testing import ManualClock
from toolwright.web.auth.access import scope_of

pytestmark = pytest.mark.anyio

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: Any = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
ALERTS: Any = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
SCRAPE: Any = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
FIGURE = re.compile(r"\b(?:toolwright|gen_ai_client)_\w+(?=[{\[)\s/]|$)")
LABELS = re.compile(r"by \(([^)]*)\)|[{,]\s*(\w+)\s*=~?\"")


def expressions() -> list[str]:
    """Return all PromQL of the dashboard and of the rules."""
    shown = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return shown + [rule["expr"] for rule in RULES]


NODE = Node(id="node_1", version="1", slots=10, busy=1, seen=ManualClock().now(), skew=0)


async def scraped() -> str:
    """Return the metrics of a server after a run, with every gauge."""
    watching, depths = counting(), Depths(pending_calls=1, inbox_events=1, connections=(1, 2))
    app = tw.App(agents=[agent_of("boss", TURNS, add, fail, own_code, later)])
    async with at_work(app, watching) as rt, served(rt) as port, httpx2.AsyncClient(timeout=60) as http:
        await led(rt, "boss")
        await Gauges(Counted(depths, [NODE]), watching.telemetry, ManualClock(), is_ready).measure()  # type: ignore[arg-type]  # the only method that it reads
        async with http.stream("GET", f"http://127.0.0.1:{port}/api/tools/stream") as stream:
            lines = stream.aiter_lines()  # kept open, since closing it closes the stream
            await anext(lines)
            return (await http.get(f"http://127.0.0.1:{port}/metrics")).text


async def test_every_figure_and_label_that_they_name_is_in_a_scrape() -> None:
    text = await scraped()
    there = set(re.findall(r"^(\w+)[{ ]", text, re.MULTILINE))
    named = {name for expression in expressions() for name in FIGURE.findall(expression)}
    assert len(named) > 15
    assert named <= there, named - there
    own = {name.removesuffix("_bucket") for name in there if name.endswith("_bucket")}
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named}
    assert own <= shown, "a histogram that no panel shows"
    labels = {
        label.strip()
        for expression in expressions()
        for by, one in LABELS.findall(expression)
        for label in (by or one).split(",")
    }
    known = set(re.findall(r'[{,](\w+)="', text)) | {"job", "error_type"}
    assert labels <= known, labels - known


def test_the_dashboard_has_a_place_for_each_panel() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    [source] = DASHBOARD["templating"]["list"]
    assert {panel["datasource"]["uid"] for panel in panels} == {f"${{{source['name']}}}"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_has_all_that_prometheus_wants(rule: dict[str, Any]) -> None:
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["annotations"].keys() <= {"summary", "description"}
    assert re.fullmatch(r"\d+[smh]", rule["for"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert re.search(r"[<>]|==", rule["expr"])
    for opening, closing in ("()", "[]", "{}"):
        assert rule["expr"].count(opening) == rule["expr"].count(closing)


MINUTES, SECONDS = 60, 15  # length of a series, and its interval
IS_UP: Mapping[str, tuple[float, float]] = {'up{job="toolwright",instance="a"}': (1, 1)}
FIRING: dict[str, dict[str, tuple[float, float]]] = {  # a figure's value, and its increase in each interval
    "ToolwrightDown": {'up{job="toolwright",instance="a"}': (0, 0)},
    "ToolwrightNotReady": {'toolwright_ready{instance="a"}': (0, 0)},
    "ToolwrightRunsFail": {
        'toolwright_run_duration_seconds_count{agent="boss",status="failed"}': (0, 1),
        'toolwright_run_duration_seconds_count{agent="boss",status="completed"}': (0, 3),
    },
    "ToolwrightToolFails": {
        'toolwright_calls_total{tool="add",outcome="timeout"}': (0, 2),
        'toolwright_calls_total{tool="add",outcome="success"}': (0, 1),
    },
    "ToolwrightEventsUnread": {"toolwright_inbox_oldest_seconds": (301, 15)},
    "ToolwrightRunsQueue": {"toolwright_runs_queued": (101, 0)},
    "ToolwrightModelsFail": {
        'gen_ai_client_operation_duration_seconds_count{gen_ai_request_model="m",error_type="model"}': (0, 1),
        'gen_ai_client_operation_duration_seconds_count{gen_ai_request_model="m"}': (0, 3),
    },
    "ToolwrightConnectionsUsedUp": {
        'toolwright_database_connections_used{instance="a"}': (19, 0),
        'toolwright_database_connections_limit{instance="a"}': (20, 0),
    },
    "ToolwrightNoNode": {"toolwright_nodes": (0, 0)},
    "ToolwrightSlotsUsedUp": {"toolwright_node_slots": (20, 0), "toolwright_node_slots_busy": (20, 0)},
    "ToolwrightWakeUpsOverdue": {"toolwright_wakes_oldest_due_seconds": (61, 15)},
    "ToolwrightClocksDiffer": {"toolwright_node_clock_skew_seconds": (6, 0)},
}


def promtool() -> str:
    """Return the path of Prometheus' own program."""
    program = shutil.which("promtool")
    if program is None:
        missing("There is no program `promtool`: Debian's package `prometheus` has it.")
    return program


def evaluate(folder: Path, series: Mapping[str, str], firing: Sequence[str]) -> None:
    """Evaluate the rules over series in Prometheus' notation. Exactly these alerts must fire at their end."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing]
    expected = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{MINUTES}m",
        "exp_samples": samples,
    }
    case = {
        "interval": f"{SECONDS}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [expected],
    }
    rules = {"rule_files": [str(DEPLOY / "prometheus" / "alerts.yaml")], "evaluation_interval": f"{SECONDS}s"}
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules | {"tests": [case]}), encoding="utf-8")
    command = [promtool(), "test", "rules", folder / "rules.yaml"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def constant(figures: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    count = MINUTES * 60 // SECONDS
    return {name: f"{start:g}+{more:g}x{count}" for name, (start, more) in figures.items()}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_fires_for_what_it_watches(rule: dict[str, Any], tmp_path: Path) -> None:
    evaluate(tmp_path, constant({**IS_UP, **FIRING[rule["alert"]]}), [rule["alert"]])


def samples_of(text: str) -> dict[str, float]:
    """Return the samples of a scrape, labelled as Prometheus does."""
    samples = dict(IS_UP)
    for name, labels, value in re.findall(r"^(\w+)(?:{(.*)})? (\S+)$", text, re.MULTILINE):
        more = ",".join(filter(None, [labels, 'job="toolwright"', 'instance="a"']))
        samples[f"{name}{{{more}}}"] = (float(value), 0)
    return {name: value for name, (value, _) in samples.items()}


async def test_a_healthy_server_fires_nothing(tmp_path: Path) -> None:
    healthy = samples_of(await scraped())
    evaluate(tmp_path, constant({name: (value, 0) for name, value in healthy.items()}), [])


@pytest.mark.outage
async def test_a_stopped_postgres_fires_the_alert_of_readiness(tmp_path: Path) -> None:
    watching, clock = counting(), ManualClock()
    server = await asyncio.to_thread(MortalServer)
    try:
        store = await open_postgres(server.url, lambda _: None, patience=1.0)
        health = Health(store, MemoryFiles(), clock, new_id)
        gauges = Gauges(store, watching.telemetry, clock, health.check_ready)
        await gauges.measure()
        before = samples_of(watching.telemetry.exposition() or "")
        await asyncio.to_thread(server.kill)
        clock.advance(FRESH)
        with pytest.raises(StoreError):
            await gauges.measure()
        after = samples_of(watching.telemetry.exposition() or "")
        await store.close()
    finally:
        await asyncio.to_thread(server.end)
    outage = MINUTES * 60 // SECONDS // 2
    series = {
        name: f"{before[name]:g}x{outage} "
        + (f"{after[name]:g}x{outage}" if name in after else f"stale _x{outage}")
        for name in before
    }
    evaluate(tmp_path, series, ["ToolwrightNotReady"])
    gone = {name for name in before if name not in after}
    assert {name.partition("{")[0] for name in gone} >= {"toolwright_pending_calls", "toolwright_runs_queued"}


def test_every_alert_has_figures_for_which_it_fires() -> None:
    assert [rule["alert"] for rule in RULES] == list(FIRING)


async def test_the_scrape_sends_a_key_of_its_own_as_every_prometheus_can(tmp_path: Path) -> None:
    [job] = SCRAPE["scrape_configs"]
    assert scope_of("GET", job["metrics_path"]) == "metrics"
    assert list(job["authorization"]) == ["credentials_file"]  # sent as a bearer token
    assert all((DEPLOY / "prometheus" / name).exists() for name in SCRAPE["rule_files"])
    assert f'job="{job["job_name"]}"' in RULES[0]["expr"]
    watching, keys = counting(), ("scraper(metrics)=sk_0123456789abcdef", "sk_all_0123456789abcdef")
    async with (
        at_work(tw.App(), watching) as rt,
        served(rt, secret_keys=keys) as port,
        httpx2.AsyncClient() as http,
    ):
        for path, credentials, status in (
            ("/metrics", "Bearer sk_0123456789abcdef", 200),
            ("/metrics", "bearer  sk_all_0123456789abcdef", 200),
            ("/metrics", "Bearer wrong", 401),
            ("/metrics", "Bearer", 401),
            ("/metrics", "Basic sk_0123456789abcdef", 401),
            ("/api/agents", "Bearer sk_all_0123456789abcdef", 401),
        ):
            url, headers = f"http://127.0.0.1:{port}{path}", {"Authorization": credentials}
            assert (await http.get(url, headers=headers)).status_code == status, (path, credentials)


def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk", encoding="utf-8")
    for name in ("prometheus.yml", "alerts.yaml"):
        text = (DEPLOY / "prometheus" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(
            text.replace("/etc/prometheus/toolwright-key", str(tmp_path / "key")), "utf-8"
        )
    command = [promtool(), "check", "config", tmp_path / "prometheus.yml"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
