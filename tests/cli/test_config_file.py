"""Commands with a configuration file instead of an app in Python."""

import json

from tests.cli.shell import Shell

TOOL = {
    "name": "look",
    "description": "Look something up.",
    "executionType": "gateway",
    "inputSchema": {"type": "object"},
    "execution": {"url": "http://127.0.0.1:9/look"},
}
CONFIG = {"agent": {"system": "You scout."}, "model": "scripted:script.yaml", "tools": [TOOL]}


def configured(shell: Shell, config: object = CONFIG) -> Shell:
    shell.write("config.json", json.dumps({"agents": [{"name": "scout", "config": config}]}))
    shell.write("script.yaml", "- text: Nobody is there.\n- text: Still nobody.\n")
    return shell


def test_every_command_that_takes_an_app_takes_a_configuration_file(empty: Shell) -> None:
    shell = configured(empty)
    listed = shell.run("tools", "list", "--app", "config.json")
    assert listed.stdout == "look\tgateway\tLook something up.\n"
    shown = json.loads(shell.run("tools", "show", "look", "--app", "config.json").stdout)
    assert (shown["kind"], shown["agents"]) == ("gateway", ["scout"])
    called = shell.run("call", "look", "--app", "config.json")
    assert (called.returncode, json.loads(called.stdout)["error_code"]) == (1, "http_unreachable")
    checked = shell.run("doctor", "config.json", "--port", "0").stdout
    assert "app\tok\tconfig.json, agents: scout\n" in checked
    assert "model\tok\tscripted:script.yaml;" in checked


def test_a_conversation_is_with_the_agent_of_the_journal(empty: Shell) -> None:
    shell = configured(empty)
    shell.env["TOOLWRIGHT_APP"] = "config.json"
    for _ in range(2):
        done = shell.run("chat", "scout", typed="hello\n")
        assert (done.returncode, "scout  Nobody is there." in done.stdout) == (0, True)
    listed = shell.run("runs", "list", "--agent", "scout").stdout.splitlines()
    assert len({line.split("\t")[2] for line in listed}) == 1
    assert [line.split("\t")[1] for line in listed] == ["completed", "completed"]


def test_the_model_of_a_configuration_file_is_not_replaced(empty: Shell) -> None:
    refused = configured(empty).run(
        "chat", "scout", "--app", "config.json", "--model", "openai:gpt-6.1-terra"
    )
    assert refused.returncode == 2
    assert "change the agent's model in config.json." in refused.stderr


def test_an_error_in_the_file_is_one_line_of_every_command(empty: Shell) -> None:
    configured(empty, {"agent": {"system": "You scout."}, "modle": "scripted:script.yaml"})
    for arguments in (["chat", "scout"], ["call", "look"], ["tools", "list"]):
        refused = empty.run(*arguments, "--app", "config.json")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert refused.stderr.startswith(
            "toolwright: config.json: agents.0.config.modle is not a known field"
        )
    assert not (empty.folder / "toolwright.db").exists()
