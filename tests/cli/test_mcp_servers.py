"""MCP servers on the command line: `toolwright tools list --mcp`, and the findings of `toolwright doctor`."""

import shlex
import sys

import pytest

from tests.cli.shell import Shell
from tests.mcp.peers.peer import Asked, Peer, tool
from tests.mcp.peers.serving import Served, command, down, served, started
from toolwright.cli.mcp import list_mcp_tools
from toolwright.wiring.settings import Settings

APP = """
import toolwright as tw

agents = [tw.Agent("a", tw.Prompt("p", "Be."))]
app = tw.App(agents=agents, mcp={servers!r})
"""


def said(shell: Shell, *arguments: str) -> tuple[int, str, list[str]]:
    """Return the exit code, the output, and the lines on stderr."""
    done = shell.run("tools", "list", "--mcp", *arguments)
    return done.returncode, done.stdout, done.stderr.splitlines()


def test_the_tools_of_a_server_are_listed_by_its_url_and_by_its_command(empty: Shell) -> None:
    with served("plain") as server:
        code, printed, _ = said(empty, server.url, "--header", "X-Key: k")
        assert (code, [line.split("\t")[0] for line in printed.splitlines()]) == (0, ["echo", "add"])
        assert server.hearing.heard[0].headers["x-key"] == "k"
    assert said(empty, shlex.join(command("plain")))[:2] == (0, printed)


def test_a_server_that_is_not_there_is_said_in_one_sentence(empty: Shell) -> None:
    with down() as url:
        code, printed, errors = said(empty, url)
    assert (code, printed, len(errors)) == (1, "", 1)
    assert "The server cannot be used: it cannot be reached" in errors[0]
    code, printed, errors = said(empty, "no-such-command --x")
    assert (code, printed) == (1, "")
    words = "its command 'no-such-command' cannot be started: No such file or directory."
    assert errors == [f"toolwright: The server cannot be used: {words}"]


def test_a_process_that_ends_at_once_is_said_with_its_exit_code_and_its_words(empty: Shell) -> None:
    program = "import sys; print('no config', file=sys.stderr); sys.exit(3)"
    code, _, errors = said(empty, shlex.join([sys.executable, "-c", program]))
    assert code == 1
    assert "no config" in errors[0]
    words = "its process has ended, with the exit code 3: no config."
    assert errors[-1] == f"toolwright: The server cannot be used: {words}"


@pytest.mark.anyio
async def test_a_server_that_says_nothing_is_waited_for_so_long(capsys: pytest.CaptureFixture[str]) -> None:
    with served("hangs_at_list") as server:
        assert await list_mcp_tools(server.url, [], Settings(database_url="memory://"), patience=0.2) == 1
        assert f"{server.url!r} did not answer within 0.2 s." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mcp", ""], "--mcp needs the URL of a server, or the command that starts one."),
        (["--mcp", "'x"], "is not a command: No closing quotation."),
        (["--mcp", "ftp://x"], "'ftp://x': url must begin with http:// or https://"),
        (
            ["--mcp", "ls", "--header", "A: b"],
            "Headers are only sent to a server at a URL, but 'ls' is a command.",
        ),
        (["--mcp", "http://x", "--header", "A"], "A header must be written as 'Name: value', not 'A'."),
        (["--mcp", "http://x", "--header", "A: "], "A header must be written as 'Name: value', not 'A: '."),
        (["--mcp", "http://x", "--header", ": b"], "A header must be written as 'Name: value', not ': b'."),
        (
            ["--mcp", "http://x", "--header", "A: b", "--header", "a: c"],
            "The header 'a' is given twice. Keep one.",
        ),
        (["--mcp", "http://x", "--header", "Host: b"], "'http://x': headers.Host is set by Toolwright"),
        (
            ["--mcp", "http://x", "--header", "A: ${env.B}"],
            "The variable 'B' has no value on the command line",
        ),
        (["--header", "A: b"], "--header is only sent to an MCP server: name the server with --mcp URL."),
    ],
)
def test_a_mistake_is_one_sentence(empty: Shell, arguments: list[str], words: str) -> None:
    code, line = empty.refused("tools", "list", *arguments)
    assert code == 2
    assert words in line


@pytest.mark.parametrize("arguments", [("call", "find_note", "{}"), ("tools", "show", "find_note")])
def test_a_tool_of_a_server_is_not_the_apps(shell: Shell, arguments: tuple[str, ...]) -> None:
    shell.write("app.py", APP.format(servers={"notes": {"url": "https://notes.example"}}))
    code, line = shell.refused(*arguments)
    assert code == 2
    assert "There is no tool 'find_note'. It has none. Only agents can call tools of MCP servers" in line


def test_doctor_looks_at_the_servers_of_the_app(shell: Shell) -> None:
    with served("plain") as fine, down() as nowhere:
        servers = {
            "fine": {"url": fine.url, "allowedTools": ["add", "gone"]},
            "needy": {"url": fine.url, "headers": {"X-Key": "${env.KEY}"}},
            "nowhere": {"url": nowhere},
        }
        shell.write("app.py", APP.format(servers=servers))
        done = shell.run("doctor", "--app", "app:app", "--port", "0")
    assert (done.returncode, done.stderr) == (1, "")
    found = [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("mcp\t")]
    assert [verdict for verdict, _ in found] == ["ok", "ok", "broken"]
    assert "gone: The server does not list this tool." in found[0][1]
    assert "not tried: The server needs the variable 'KEY'" in found[1][1]
    assert "it cannot be reached" in found[2][1]


def offering_prompts() -> Served:
    """A server with one tool and two prompts."""

    async def prompts(_: Asked) -> dict[str, object]:
        arguments = [{"name": "diff", "required": True}, {"name": "tone"}]
        review = {"name": "review", "description": "Review a change.\nWell.", "arguments": arguments}
        return {"prompts": [review, {"name": "greet"}]}

    return Served(
        Peer(tools=[tool("plain")], answers={"prompts/list": prompts}, capabilities={"prompts": {}})
    )


def test_the_prompts_of_a_server_are_listed_with_their_arguments(empty: Shell) -> None:
    with started(offering_prompts()) as server:
        code, printed, errors = said(empty, server.url)
        assert (code, errors) == (0, [])
        assert printed.splitlines() == [
            "plain\tmcp\tDoes it.",
            "review(diff, tone?)\tprompt\tReview a change.",
            "greet()\tprompt\t",
        ]
        empty.write("app.py", APP.format(servers={"peer": {"url": server.url}}))
        done = empty.run("doctor", "--app", "app:app", "--port", "0")
    [line] = [line for line in done.stdout.splitlines() if line.startswith("mcp\t")]
    assert ": 1 tool, revision " in line
    assert line.endswith(", 2 prompts")
