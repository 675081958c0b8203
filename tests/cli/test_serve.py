"""`toolwright serve`."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import httpx2
import pytest

from tests.cli.shell import Running, Shell
from tests.postgres_server import database_url, server_url
from toolwright.adapters.store.postgres.connection import connect

URL = re.compile(r"http://127\.0\.0\.1:\d+")


def url_of(server: Running) -> str:
    found = URL.search(server.until("Ctrl-C stops it."))
    assert found is not None
    return found[0]


def test_an_app_is_served_until_ctrl_c(shell: Shell) -> None:
    with shell.start_anew("serve", "app:app", "--port", "0") as server:
        url = url_of(server)
        assert httpx2.get(f"{url}/health", trust_env=False, timeout=60).json()["status"] == "ok"
        agents = httpx2.get(f"{url}/api/agents", trust_env=False, timeout=60).json()["agents"]
        assert [agent["name"] for agent in agents] == ["helper"]
        server.ctrl_c()
        assert server.end() == 0


def test_a_stopped_server_is_not_ready_before_it_closes_its_port(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_STOP_DELAY"] = "10m"
    with shell.start("serve", "app:app", "--port", "0") as server:
        url = url_of(server)
        assert httpx2.get(f"{url}/ready", trust_env=False, timeout=60).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        server.until("It accepts requests for 600 s more")
        answer = httpx2.get(f"{url}/ready", trust_env=False, timeout=60)
        assert (answer.status_code, answer.json()["error"]) == (503, "This process is stopping.")
        assert httpx2.get(f"{url}/live", trust_env=False, timeout=60).status_code == 200
        body = {"agentId": "helper"}
        assert httpx2.post(f"{url}/api/threads", json=body, trust_env=False, timeout=60).status_code == 201
        server.process.send_signal(signal.SIGTERM)  # a second one does not wait
        assert server.end() == 0


def test_a_stopped_server_ends_after_its_delay(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_STOP_DELAY"] = "1s"
    with shell.start("serve", "app:app", "--port", "0") as server:
        url_of(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
        assert "It accepts requests for 1 s more" in server.shown


def test_connections_without_a_free_descriptor_are_one_line(shell: Shell) -> None:
    command = f"ulimit -n 48; exec {sys.executable} -m toolwright.cli serve --port 0"
    with (
        subprocess.Popen(
            ["sh", "-c", command],
            cwd=shell.folder,
            env={**shell.variables(), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process,
        ExitStack() as stack,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        stack.callback(process.kill)
        server = Running(process, process.stdin, process.stdout)
        url = url_of(server)
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with ExitStack() as callers:
            for _ in range(100):
                callers.enter_context(socket.create_connection(address, timeout=60))
            server.until(
                "New connections wait: [Errno 24] Too many open files. Raise the limit of open files"
            )
        assert httpx2.get(f"{url}/live", trust_env=False, timeout=60).status_code == 200
        process.terminate()
        assert server.end() == 0
        assert "Logging error" not in server.shown
        assert "Traceback" not in server.shown


def test_an_agent_is_served_as_it_is(shell: Shell) -> None:
    shell.write("alone.py", "import toolwright as tw\n\nagent = tw.Agent('helper', instructions='Help.')\n")
    with shell.start("serve", "alone:agent", "--port", "0") as server:
        url = url_of(server)
        agents = httpx2.get(f"{url}/api/agents", trust_env=False, timeout=60).json()["agents"]
        assert [agent["name"] for agent in agents] == ["helper"]
        server.ctrl_c()
        assert server.end() == 0


def test_without_a_target_the_app_is_empty(shell: Shell) -> None:
    with shell.start("serve", "--port", "0") as server:
        url = url_of(server)
        assert httpx2.get(f"{url}/api/agents", trust_env=False, timeout=60).json()["agents"] == []
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0


def test_without_a_target_beside_an_app_it_is_said_how_to_serve_that(shell: Shell) -> None:
    with shell.start("serve", "--port", "0") as server:
        url_of(server)
        assert "app.py is not served. To serve it: toolwright serve app:app" in server.until("all rights.")
        server.ctrl_c()
        assert server.end() == 0


@pytest.mark.slow
def test_with_dev_the_server_starts_again_when_a_file_changes(shell: Shell) -> None:
    with shell.start_anew("serve", "app:app", "--port", "0", "--dev") as server:
        url_of(server)
        shell.write("app.py", "import toolwright as tw\n\napp = tw.App(\n")
        server.until("SyntaxError")
        server.shown = ""
        shell.write("app.py", "import toolwright as tw\n\napp = tw.App()\n")
        url = url_of(server)
        assert httpx2.get(f"{url}/api/agents", trust_env=False, timeout=60).json()["agents"] == []
        server.ctrl_c()
        assert server.end() == 0


def test_a_journal_on_postgres_is_named_by_its_url(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = asyncio.run(empty_database())
    assert "was created at revision" in shell.run("db", "upgrade").stdout
    with shell.start("serve", "app:app", "--port", "0") as server:
        url = url_of(server)
        assert httpx2.get(f"{url}/health", trust_env=False, timeout=60).json()["status"] == "ok"
        doctor = shell.run("doctor", "--app", "app:app", "--port", "0")
        assert "another process executes the runs" in " ".join(doctor.stdout.split())
        server.ctrl_c()
        assert server.end() == 0


async def empty_database() -> str:
    """Yield the URL of a database without tables, which is deleted with its server."""
    server = await asyncio.to_thread(server_url)
    admin = await connect(server)
    await admin.execute("CREATE DATABASE served")
    await admin.close()
    return database_url("served")


def test_agents_without_a_usable_model_are_named_and_the_server_starts_all_the_same(shell: Shell) -> None:
    """Each error is one line on stderr; an agent that can run is not named."""
    del shell.env["TOOLWRIGHT_MODEL"]
    shell.env["OPENAI_API_KEY"] = ""
    models = {"bare": None, "keyless": "openai:gpt-6.1-terra", "fine": "scripted:script.yaml"}
    agents = [
        {"name": name, "config": {} if model is None else {"model": model}} for name, model in models.items()
    ]
    shell.write("config.json", json.dumps({"agents": agents}))
    with shell.start("serve", "config.json", "--port", "0") as server:
        url = url_of(server)
        server.until("The model 'openai:gpt-6.1-terra' has no key")
        assert httpx2.get(f"{url}/health", trust_env=False, timeout=60).json()["status"] == "ok"
        server.ctrl_c()
        assert server.end() == 0
    warned = [
        line.partition("toolwright.serve: ")[2] for line in server.shown.splitlines() if "WARNING" in line
    ]
    expected = [
        "The agent 'bare' has no model: name one in its prompt, or set TOOLWRIGHT_MODEL.",
        "The agent 'keyless' cannot run: The model 'openai:gpt-6.1-terra' has no key: set the environment variable ",
    ]
    assert len(warned) == 2
    assert all(said.startswith(start) for said, start in zip(warned, expected, strict=True)), warned


def test_a_model_that_can_never_work_is_refused_at_the_start(shell: Shell) -> None:
    shell.write(
        "config.json", json.dumps({"agents": [{"name": "odd", "config": {"model": "gpt-6.1-terra"}}]})
    )
    refused = shell.run("serve", "config.json", "--port", "0")
    assert refused.returncode != 0
    assert (
        "agents.0: config.model cannot be used: The model 'gpt-6.1-terra' needs a provider" in refused.stderr
    )
    assert len(refused.stderr.splitlines()) == 1


def test_a_configuration_file_is_served_and_an_invalid_one_refused_in_one_line(shell: Shell) -> None:
    shell.write(
        "config.json", '{"agents": [{"name": "scout", "config": {"agent": {"system": "You scout."}}}]}'
    )
    with shell.start("serve", "config.json", "--port", "0") as server:
        url = url_of(server)
        [agent] = httpx2.get(f"{url}/api/agents", trust_env=False, timeout=60).json()["agents"]
        assert (agent["name"], agent["config"]) == ("scout", {"agent": {"system": "You scout."}})
        server.ctrl_c()
        assert server.end() == 0
    shell.write("config.json", '{"agents": [{"name": "scout", "config": {"nonsense": 1}}]}')
    refused = shell.run("serve", "config.json", "--port", "0")
    assert refused.returncode == 2
    assert refused.stderr == (
        "toolwright: config.json: agents.0.config.nonsense is not a known field. "
        "(toolwright errors invalid_definition)\n"
    )


def test_lines_of_the_log_are_json_where_that_is_asked_for(shell: Shell) -> None:
    shell.env |= {"TOOLWRIGHT_LOG_FORMAT": "json", "TOOLWRIGHT_SECRET_KEY": "a"}
    with shell.start("serve", "--port", "0") as server:
        url_of(server)
        server.ctrl_c()
        assert server.end() == 0
    [line] = [line for line in server.shown.splitlines() if line.startswith("{")]
    logged = json.loads(line)
    assert (logged["level"], logged["logger"]) == ("WARNING", "toolwright.cli")
    assert "TOOLWRIGHT_SECRET_KEY" in logged["message"]
