"""The dashboard, the alert rules and the scrape example of `deploy/`: they name existing metrics."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

import toolwright as tw
from tests.client.rig import served
from tests.telemetry.test_metrics import TURNS, Counted, add, counting, fail, later, own_code
from tests.telemetry.watching import agent_of, at_work, led
from toolwright.core.journal.reads import Depths
from toolwright.runtime.health import Gauges
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


async def scraped() -> str:
    """Return the metrics of a server after a run, with every gauge."""
    watching, depths = counting(), Depths(pending_calls=1, inbox_events=1, connections=(1, 2))
    app = tw.App(agents=[agent_of("boss", TURNS, add, fail, own_code, later)])
    async with at_work(app, watching) as rt, served(rt) as port, httpx2.AsyncClient(timeout=60) as http:
        await led(rt, "boss")
        await Gauges(Counted(depths), watching.telemetry, ManualClock()).measure()  # type: ignore[arg-type]  # the only method that it reads
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
    assert re.fullmatch(r"\d+[smh]", rule["for"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert re.search(r"[<>]|==", rule["expr"])
    for opening, closing in ("()", "[]", "{}"):
        assert rule["expr"].count(opening) == rule["expr"].count(closing)


def test_the_scrape_uses_a_key_of_its_own() -> None:
    [job] = SCRAPE["scrape_configs"]
    assert scope_of("GET", job["metrics_path"]) == "metrics"
    assert list(job["http_headers"]) == ["x-secret-key"]
    assert all((DEPLOY / "prometheus" / name).exists() for name in SCRAPE["rule_files"])
    assert f'job="{job["job_name"]}"' in RULES[0]["expr"]
