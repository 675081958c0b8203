"""Telemetry of a process by its environment: its destination, and that no caller waits for it."""

import os
import socket
import threading
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

import toolwright as tw
from tests.forks import Forks
from tests.telemetry.program import PROGRAM, SECRET, lead
from tests.telemetry.receiver import receiving
from toolwright.adapters.telemetry.telemetry import OpenTelemetry
from toolwright.core.errors import MissingExtra
from toolwright.wiring.telemetry import TelemetryChoice, open_telemetry


def test_spans_go_to_the_endpoint_of_the_environment(tmp_path: Path, commands: Forks) -> None:
    with receiving() as receiver:
        endpoint = f"http://127.0.0.1:{receiver.port}"
        assert lead(tmp_path, commands, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) == "completed True"
        spans = receiver.spans
        assert spans["execute_tool fail"].trace_id == spans["invoke_agent boss"].trace_id
        assert {path for path, _ in receiver.bodies} == {"/v1/traces", "/v1/metrics"}
        assert SECRET.encode() not in receiver.text


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
        },
    ],
)
def test_without_an_exporter_there_is_no_telemetry(
    variables: dict[str, str], tmp_path: Path, commands: Forks
) -> None:
    assert lead(tmp_path, commands, **variables) == "completed False"


def test_an_exporter_that_is_not_installed_is_named(tmp_path: Path, commands: Forks) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = commands.run([], tmp_path, os.environ | {"OTEL_TRACES_EXPORTER": "nowhere"}, program="program.py")
    assert "No exporter for traces called 'nowhere' here" in done.stderr


def test_a_run_continues_if_its_spans_cannot_be_exported(tmp_path: Path, commands: Forks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    assert lead(tmp_path, commands, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) == "completed True"


def test_a_process_ends_where_the_spans_are_taken_and_never_acknowledged(
    tmp_path: Path, commands: Forks
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        assert lead(tmp_path, commands, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) == "completed True"


OWN_PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
"""


def test_a_program_with_a_provider_of_its_own_gets_the_spans(tmp_path: Path, commands: Forks) -> None:
    ending = "print(testing.trace_tree(spans.get_finished_spans()).splitlines()[0])\n"
    (tmp_path / "program.py").write_text(OWN_PROVIDER + PROGRAM + ending, encoding="utf-8")
    done = commands.run([], tmp_path, os.environ, program="program.py")
    assert done.stdout.splitlines() == ["completed True", "invoke_agent boss"], done.stderr


@pytest.mark.parametrize(
    ("variables", "extra"),
    [
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "telemetry"),
        ({"SENTRY_DSN": "https://public@sentry.test/1"}, "sentry"),
    ],
)
def test_without_the_extra_it_says_what_to_install(variables: dict[str, str], extra: str) -> None:
    def lacking(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    with pytest.raises(MissingExtra, match=rf"install 'toolwright-agents\[{extra}\]'"):
        open_telemetry(tw.Settings(), variables, lacking)


def test_figures_alone_are_wanted_by_the_name_of_their_exporter() -> None:
    settings = tw.Settings(trace_content=True)
    wanted = TelemetryChoice.read(settings, {"OTEL_METRICS_EXPORTER": "Prometheus"})
    assert wanted == TelemetryChoice(metrics=("prometheus",), content=True)
    captured = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    assert TelemetryChoice.read(tw.Settings(), captured) == TelemetryChoice(content=True, implied=True)
    assert not TelemetryChoice.read(tw.Settings(), captured)
    assert TelemetryChoice.read(tw.Settings(sentry_dsn=" "), {}) == TelemetryChoice(implied=True)


def test_where_figures_alone_are_wanted_no_spans_are_made(tmp_path: Path, commands: Forks) -> None:
    ending = "from opentelemetry import trace\nprint(type(trace.get_tracer_provider()).__name__)\n"
    (tmp_path / "program.py").write_text(PROGRAM + ending, encoding="utf-8")
    variables = os.environ | {"OTEL_METRICS_EXPORTER": "prometheus"}
    done = commands.run([], tmp_path, variables, program="program.py")
    assert done.stdout.splitlines() == ["completed True", "ProxyTracerProvider"], done.stderr


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("prometheus,otlp", ("prometheus", "otlp")),
        (" Otlp , none,,otlp", ("otlp",)),
        ("none", ()),
        (",", ("otlp",)),
    ],
)
def test_exporters_are_a_list(listed: str, names: tuple[str, ...]) -> None:
    variables = {"OTEL_METRICS_EXPORTER": listed, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    assert TelemetryChoice.read(tw.Settings(), variables).metrics == names


def test_several_exporters_do_not_stop_the_start(tmp_path: Path, commands: Forks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        variables = {"OTEL_METRICS_EXPORTER": "prometheus,otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        assert lead(tmp_path, commands, **variables) == "completed True"


def test_an_endpoint_without_the_extra_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    def lacking(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    assert [open_telemetry(tw.Settings(), variables, lacking) for _ in range(3)] == [None] * 3
    [warning] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "nothing is exported: pip install 'toolwright-agents[telemetry]'" in warning


def test_closing_a_runtime_waits_for_no_exporter() -> None:
    released, handed_over = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        released.wait()
        handed_over.release()

    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider(shutdown_on_exit=False)
    telemetry = OpenTelemetry(tracers, meters, ends=[hang])
    for _ in range(3):
        with pytest.raises(StopIteration):  # immediately: it has awaited nothing
            telemetry.close().send(None)
    released.set()
    assert handed_over.acquire(timeout=60)
    assert handed_over.acquire(timeout=60)  # once more, for the spans that ended in the meantime


REQUESTS = """
import asyncio
import httpx2
import toolwright as tw

async def main() -> None:
    settings = tw.Settings(database_url="memory://", console=True)
    application = tw.gateway(tw.App(agents=[tw.Agent("boss")]), settings)
    async with application.router.lifespan_context(application):
        transport = httpx2.ASGITransport(application)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            thread = (await client.post("/api/threads", json={"agentId": "boss"})).json()["threadId"]
            for path in ("/health", f"/api/threads/{thread}/events?token=secret-word", "/console/?q=secret-word",
                         "/console/static/console.js", "/nowhere?q=secret-word", "/metrics"):
                await client.get(path, follow_redirects=True)

asyncio.run(main())
print([span.name for span in spans.get_finished_spans()])
"""


def test_requests_make_no_spans_of_their_own(tmp_path: Path, commands: Forks) -> None:
    (tmp_path / "program.py").write_text(OWN_PROVIDER + REQUESTS, encoding="utf-8")
    done = commands.run([], tmp_path, dict(os.environ), program="program.py")
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
