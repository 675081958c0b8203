"""`toolwright mcp` as a command: only the protocol on stdout, and exit when stdin closes."""

import json
import os
import subprocess

import pytest

from tests.cli.shell import COMMAND, Shell

APP = """
import toolwright as tw

print("printed while the app is loaded")

@tw.tool(description="Add.")
def add(a: int, b: int) -> int:
    print("printed by a tool")
    return a + b

app = tw.App(tools=[add])
"""
CONFIG = """{"agents": [{"name": "a", "config": {
  "agent": {"system": "Be."}, "model": "scripted:none.yaml", "env": {"KEY": "very secret"},
  "tools": [{"name": "confirm", "description": "Confirm.", "executionType": "internal",
    "inputSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}},
    "variables": [{"name": "KEY", "type": "secret", "required": true}]}]
}}]}"""


def said(*messages: object) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in messages)


def request(number: int, method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


INITIALIZE = request(
    1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "x", "version": "1"}
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_stdout_has_the_protocol_alone_and_the_end_of_stdin_ends_it(shell: Shell) -> None:
    shell.write("app.py", APP)
    done = shell.run("mcp", "app:app", typed=said(INITIALIZE, INITIALIZED))
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["id"] for each in answers] == [1]
    assert answers[0]["result"]["serverInfo"]["name"] == "toolwright"
    assert "printed while the app is loaded" in done.stderr


def test_a_line_that_is_no_message_does_not_end_the_command(shell: Shell) -> None:
    shell.write("app.py", APP)
    done = shell.run("mcp", typed="{\nnull\n\n" + said(INITIALIZE))
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [None, None, 1]


@pytest.mark.parametrize(("closed", "name"), [("<&-", "stdin"), (">&-", "stdout")])
def test_a_closed_end_is_reported_in_one_sentence(closed: str, name: str, shell: Shell) -> None:
    shell.write("app.py", APP)
    script = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "mcp"]
    done = subprocess.run(script, cwd=shell.folder, capture_output=True, check=False, text=True)
    assert done.returncode == 2
    said = f"toolwright: An MCP host uses this command's stdin and stdout, but {name} is closed."
    assert done.stderr.split(os.linesep) == [said, ""]


def test_a_configuration_file_is_served_too(shell: Shell) -> None:
    shell.write("config.json", CONFIG)
    shell.write("none.yaml", "- text: Hm.\n")
    with shell.start("mcp", "config.json") as running:
        running.say(said(INITIALIZE, INITIALIZED, request(2, "tools/list")).strip())
        running.until('"name":"confirm"')
        running.say(json.dumps(request(3, "tools/call", name="confirm", arguments={"sure": True})))
        running.until('"args":{"sure":true}')
        assert running.end() == 0


def test_an_app_that_is_not_there_is_refused_in_one_line(shell: Shell) -> None:
    code, line = shell.refused("mcp", "nothing:app")
    assert (code, line) == (
        2,
        "toolwright: There is no module 'nothing', neither in this folder nor among the installed packages. "
        "(toolwright errors invalid_definition)",
    )
