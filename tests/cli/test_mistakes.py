"""A user's mistake is one line on stderr and an exit code, never a traceback."""

import socket
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from toolwright.cli.errors import explanations

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["call", "add"], "No app is configured. Pass --app MODULE:APP, set TOOLWRIGHT_APP"),
        (["call", "add", "--app", "nothing:app"], "There is no module 'nothing'"),
        (["call", "add", "--app", "app.py:app"], "'app.py:app' is a path. Name the module, as in 'app:app'"),
        (["call", "add", "--app", ":app"], "':app' is not of the form MODULE:APP"),
        (["serve", "nothing.at.all:app"], "There is no module 'nothing.at.all'"),
        (["serve", "config.json"], "'config.json' cannot be read: No such file or directory."),
        (
            ["serve", "--port", "70000"],
            "Invalid value for '--port': must be at most 65535. See toolwright serve --help.",
        ),
        (
            ["serve", "--port", "x"],
            "Invalid value for '--port': must be a whole number. See toolwright serve",
        ),
        (["serve", "--port", "-1"], "Invalid value for '--port': must be at least 0. See toolwright serve"),
        (["serv"], "No such command 'serv'. Did you mean 'serve'? See toolwright --help."),
        (["talk"], "No such command 'talk'"),
        (["chat"], "Missing argument 'AGENT'. See toolwright chat --help."),
        (["tools"], "Missing command."),
    ],
)
def test_without_an_app_a_command_says_what_is_missing(empty: Shell, arguments: list[str], said: str) -> None:
    code, line = empty.refused(*arguments)
    assert code == 2
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["call", "ad", "{}"], "There is no tool 'ad'. Did you mean 'add'?"),
        (["tools", "show", "zzz"], "There is no tool 'zzz'. It has: describe, add"),
        (["call", "add", "{a: 1}"], "The arguments are not JSON: Expecting property name"),
        (["call", "add", "[1]"], "The arguments must be a JSON object"),
        (["chat", "helpr"], "There is no agent 'helpr'. Did you mean 'helper'?"),
        (["chat", "helper", "--app", "app:ap"], "The module 'app' has no 'ap'. Did you mean 'app:app'?"),
        (["chat", "helper", "--app", "app:add"], "neither a tw.App nor a tw.Agent but of the type 'Tool'"),
    ],
)
def test_a_name_or_a_text_that_is_wrong_is_refused_with_a_hint(
    shell: Shell, arguments: list[str], said: str
) -> None:
    code, line = shell.refused(*arguments)
    assert code == 2
    assert said in line


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import not_there", "app.py, line 1: ModuleNotFoundError: No module named 'not_there'"),
        ("\n1 / 0", "app.py, line 2: ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (
            "import toolwright as tw\ntw.Agent('', 'p')",
            "app.py, line 2: DefinitionError: An agent needs a name.",
        ),
    ],
)
def test_an_app_that_cannot_be_imported_is_named_with_its_line(empty: Shell, source: str, said: str) -> None:
    empty.write("app.py", source)
    code, line = empty.refused("tools", "list")
    assert code == 2
    assert "The module 'app' cannot be imported." in line
    assert said in line


def test_a_bad_database_url_is_named_by_its_setting(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "mysql://here"
    for arguments in (["db", "upgrade"], ["serve"], ["chat", "helper"]):
        code, line = shell.refused(*arguments)
        assert code == 2
        assert (
            "The setting TOOLWRIGHT_DATABASE_URL is not valid: database_url must begin with sqlite:///"
            in line
        )


def test_a_database_that_cannot_be_reached_is_one_line(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///nowhere/x.db"
    for arguments in (["db", "upgrade"], ["serve", "--port", "0"], ["chat", "helper"]):
        code, line = shell.refused(*arguments)
        assert code == 1
        assert "'nowhere/x.db' cannot be created: its folder does not exist" in line


def test_a_postgres_that_is_not_there_is_one_line(empty: Shell) -> None:
    empty.env["TOOLWRIGHT_DATABASE_URL"] = "postgresql://me:hidden@127.0.0.1:1/x"
    code, line = empty.refused("db", "upgrade")
    assert code == 1
    assert "The journal on Postgres cannot be used" in line
    assert "hidden" not in line


def test_a_port_in_use_is_one_line(empty: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, line = empty.refused("serve", "--port", str(port))
    assert code == 1
    advice = "Choose another port, or stop the process that listens there."
    assert (
        line == f"toolwright: Port {port} of '127.0.0.1' is in use. {advice} (toolwright errors cannot_serve)"
    )


def test_an_error_names_the_command_that_explains_it(shell: Shell) -> None:
    assert shell.run("db", "upgrade").returncode == 0
    for arguments, code in (
        (["runs", "show", "run_1"], "not_found"),
        (["chat", "helpr"], "not_found"),  # a rejection with an error as its cause
        (["chat", "helper", "--model", "gpt"], "invalid_definition"),
    ):
        _, line = shell.refused(*arguments)
        assert line.endswith(f" (toolwright errors {code})")
        assert shell.run("errors", code).stdout.startswith(f"{code} (")
    assert "toolwright errors" in shell.run("--help").stdout
    assert "toolwright errors" not in shell.refused("serve", "--port", "x")[1]  # a usage error has no code


def test_the_codes_of_errors_are_explained(empty: Shell) -> None:
    assert empty.run("errors", "not_found").stdout == (
        "not_found (NotFound, HTTP 404): It does not exist, or belongs to another user.\n"
        "What to do: Check the id and the key.\n"
    )
    assert empty.run("errors", "too_deep").stdout == (
        "too_deep: Agents call each other too deeply.\nWhat to do: Raise the limit, or flatten the agents.\n"
    )
    listed = [line.split("\t") for line in empty.run("errors").stdout.splitlines()]
    assert {code for code, _ in listed} == explanations().keys()
    code, line = empty.refused("errors", "not_fond")
    assert (code, line) == (
        2,
        "toolwright: There is no error code 'not_fond'. Did you mean 'not_found'? "
        "`toolwright errors` lists all codes.",
    )


def test_without_keys_a_server_is_not_opened_to_others(empty: Shell) -> None:
    code, line = empty.refused("serve", "--host", "0.0.0.0", "--port", "0")
    assert code == 1
    assert "set TOOLWRIGHT_SECRET_KEYS" in line


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gpt", "The model 'gpt' needs a provider"),
        ("scripted:none.yaml", "The script 'none.yaml' cannot be read"),
    ],
)
def test_a_model_that_cannot_be_made_is_said_before_the_first_line(
    shell: Shell, model: str, said: str
) -> None:
    code, line = shell.refused("chat", "helper", "--model", model)
    assert code == 1
    assert said in line


def test_a_missing_extra_is_named(shell: Shell) -> None:
    shell.write("pydantic_ai.py", "raise ImportError('not installed')")
    with shell.start_anew("chat", "helper", "--model", "openai:gpt-6.1-terra") as chat:
        assert chat.end() == 1
    [line] = chat.shown.splitlines()
    assert line.startswith("toolwright: ")
    assert "pip install 'toolwright-agents[openai]'" in line


def test_an_agent_without_a_model_says_how_to_give_one(shell: Shell) -> None:
    del shell.env["TOOLWRIGHT_MODEL"]
    assert shell.refused("chat", "helper") == (
        1,
        "toolwright: The agent 'helper' has no model: add --model, or set TOOLWRIGHT_MODEL.",
    )
