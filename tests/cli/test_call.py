"""`toolwright call` and `toolwright tools`."""

import json
import os
import pty
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.cli.shell import COMMAND, PATIENCE, Shell


def test_a_call_prints_the_result_as_a_model_reads_it(shell: Shell) -> None:
    done = shell.run("call", "add", '{"a": 2, "b": 3}')
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")
    assert shell.run("call", "describe").stdout == '{"colour":"grün"}\n'


def test_arguments_may_come_from_stdin(shell: Shell) -> None:
    assert shell.run("call", "add", "-", typed='{"a": 2, "b": 3}').stdout == "5\n"


def test_an_error_result_is_printed_and_the_exit_code_is_1(shell: Shell) -> None:
    failed = shell.run("call", "fail", "{}")
    assert (failed.returncode, failed.stdout, failed.stderr) == (1, '{"error":"it is closed"}\n', "")
    wrong = shell.run("call", "add", '{"a": "2"}')
    assert wrong.returncode == 1
    assert "a: must be an integer, not a string" in wrong.stdout
    assert "b: is missing" in wrong.stdout


DRAWING = """
import toolwright as tw


@tw.tool(description="Draw.")
async def draw(state: tw.ThreadState) -> tw.ToolResult:
    kept = await state.write_file("/notes/a.txt", b"kept", "text/plain")
    new = [tw.Attachment(name=name, mime_type="image/png", data="AAAA") for name in ("a.png", "../a.png")]
    return tw.ToolResult.ok("drawn", (*new, kept))


app = tw.App(tools=[draw])
"""


def test_files_of_a_result_are_named_or_saved_and_nothing_is_written_over(empty: Shell) -> None:
    (empty.folder / "app.py").write_text(DRAWING)
    named = empty.run("call", "draw")
    assert (named.returncode, named.stdout) == (0, "drawn\n")
    assert named.stderr == (
        "Files of the result, not saved: a.png (image/png), ../a.png (image/png), a.txt (text/plain). "
        "Add --files FOLDER to save them.\n"
    )
    for names in (("a.png", "a-2.png", "a.txt"), ("a-3.png", "a-4.png", "a-2.txt")):
        saved = empty.run("call", "draw", "--files", "out")
        assert (saved.returncode, saved.stdout) == (0, "drawn\n")
        assert saved.stderr == "".join(f"Saved out/{name}\n" for name in names)
    kept = {path.name: path.read_bytes() for path in (empty.folder / "out").iterdir()}
    assert set(kept) == {"a.png", "a-2.png", "a-3.png", "a-4.png", "a.txt", "a-2.txt"}
    assert kept["a.txt"] == b"kept"
    assert kept["a-4.png"] == b"\0\0\0"
    code, line = empty.refused("call", "draw", "--files", "app.py")
    assert code != 0
    assert "cannot be saved in 'app.py'" in line


def test_on_a_terminal_a_result_is_pretty(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "call", "describe"], cwd=shell.folder, stdout=theirs, env=os.environ | {"TERM": "dumb"}
    ) as process:
        os.close(theirs)
        assert process.wait(PATIENCE) == 0
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert shown.splitlines() == ["{", '  "colour": "grün"', "}"]


HIDES = """
import toolwright as tw


@tw.tool(description="Shout.")
def shout() -> dict[str, str]:
    return {"a\\u202e\\x9b": "b\\u2066\\x1b[2K"}


@tw.tool(description="Fail.")
def fail() -> str:
    raise ValueError("no\\u202e\\x9b\\x1b[2K")


app = tw.App(tools=[shout, fail])
"""


def test_what_a_terminal_is_shown_does_not_steer_it(empty: Shell) -> None:
    (empty.folder / "app.py").write_text(HIDES)
    for name, words in (("shout", '"a": "b[2K"'), ("fail", "no[2K")):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, "call", name, "--app", "app:app"],
            cwd=empty.folder,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"TERM": "dumb"},
        ) as process:
            os.close(theirs)
            process.wait(PATIENCE)
        shown = os.read(ours, 65_536).decode()
        os.close(ours)
        assert words in shown
        assert not {*"\u202e\u2066\x1b\x9b"} & {*shown}
    code, line = empty.refused("call", "x\u202e\x1b[2K\x9b", "--app", "app:app")
    assert code == 2
    assert not {*"\u202e\x1b\x9b"} & {*line}


def test_tools_are_listed_also_those_that_only_an_agent_has(shell: Shell) -> None:
    lines = shell.run("tools", "list").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["describe", "add", "fail", "wait_for_stop", "hang"]
    assert lines[1] == "add\tfunction\tAdd two numbers."


def test_a_tool_is_shown_with_its_schema(shell: Shell) -> None:
    shown = json.loads(shell.run("tools", "show", "add").stdout)
    assert shown["description"] == "Add two numbers."
    assert shown["parameters"]["properties"]["a"]["description"] == "The first."
    assert shown["agents"] == ["helper"]


def test_the_app_may_be_named_by_option_or_variable(shell: Shell) -> None:
    (shell.folder / "app.py").rename(shell.folder / "other.py")
    assert shell.run("call", "add", '{"a": 2, "b": 3}', "--app", "other").stdout == "5\n"
    shell.env["TOOLWRIGHT_APP"] = "other:app"
    assert shell.run("call", "add", '{"a": 2, "b": 3}').stdout == "5\n"


TENVS = """
from typing import Annotated

from pydantic import BaseModel

import toolwright as tw


class ShopTenvs(BaseModel):
    shop: str
    api_key: Annotated[str, tw.Secret]
    pages: int = 20


@tw.tool(description="Show.", tenvs=ShopTenvs)
async def show(state: tw.ThreadState) -> list[str]:
    return [repr(state.tenvs.shop), repr(state.tenvs.api_key), repr(state.tenvs.pages)]


app = tw.App(tools=[show])
"""


def test_a_call_brings_tenvs_as_text_or_json_or_from_the_environment(empty: Shell) -> None:
    empty.write("app.py", TENVS)
    empty.env["api_key"] = "sk=1"
    done = empty.run("call", "show", "--tenv", "shop=5", "--tenv", "pages=7", "--tenv", "api_key")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, ["'5'", "'sk=1'", "7"], "")


def test_a_call_without_required_tenvs_says_how_to_give_them_and_calls_nothing(empty: Shell) -> None:
    empty.write("app.py", TENVS)
    lacks = empty.run("call", "show", "--tenv", "pages=many")
    assert (lacks.returncode, lacks.stdout) == (2, "")
    assert lacks.stderr.startswith(
        "toolwright: The tool 'show' needs valid tenvs: missing: shop, api_key; pages"
    )
    assert "Add --tenv NAME=VALUE" in lacks.stderr
    for wrong in ("nowhere", "=x"):
        refused = empty.run("call", "show", "--tenv", wrong)
        assert refused.returncode == 2
        assert f"--tenv {wrong!r} is not NAME=VALUE" in refused.stderr


def test_a_tool_is_shown_with_its_tenvs(empty: Shell, shell: Shell) -> None:
    assert json.loads(shell.run("tools", "show", "add").stdout)["tenvs"] == []
    empty.write("app.py", TENVS)
    shop, key, pages = json.loads(empty.run("tools", "show", "show").stdout)["tenvs"]
    assert (shop["name"], shop["required"], shop["secret"], shop["schema"]["type"]) == (
        "shop",
        True,
        False,
        "string",
    )
    assert (key["name"], key["required"], key["secret"]) == ("api_key", True, True)
    assert (pages["name"], pages["required"], pages["schema"]["default"]) == ("pages", False, 20)


REMOTE = """
import toolwright as tw

ask = tw.Tool.from_config({
    "name": "ask",
    "description": "Ask a service.",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "executionType": "gateway",
    "execution": {"url": "http://127.0.0.1:PORT/ask", "method": "GET"},
})
secret = tw.Tool.from_config({
    "name": "secret",
    "description": "Ask a service with a key.",
    "inputSchema": {},
    "executionType": "gateway",
    "execution": {"url": "http://127.0.0.1:PORT/ask", "headers": {"X-Key": "${env.API_KEY}"}},
})
show = tw.Tool.from_config({
    "name": "show", "description": "Show.", "inputSchema": {}, "executionType": "internal",
})
app = tw.App(tools=[ask, secret, show])
"""


class Echo(BaseHTTPRequestHandler):
    """Answers with the request that it has received."""

    def do_GET(self) -> None:
        content = json.dumps({"path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def echoing() -> Generator[int]:
    """Run a service in a separate thread. Yields its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_tools_over_http_are_called_too(shell: Shell) -> None:
    with echoing() as port:
        shell.write("app.py", REMOTE.replace("PORT", str(port)))
        done = shell.run("call", "ask", '{"q": "a b"}')
        assert (done.returncode, done.stdout, done.stderr) == (0, '{"path":"/ask?q=a%20b"}\n', "")
        lacking = shell.run("call", "secret")
        assert lacking.returncode == 1
        assert json.loads(lacking.stdout) == {
            "error": "Tool 'secret' needs variables that are not set here: API_KEY.",
            "error_code": "variables_required",
            "missing": ["API_KEY"],
        }
    closed = shell.run("call", "ask")
    assert closed.returncode == 1
    assert json.loads(closed.stdout)["error_code"] == "http_unreachable"
    assert shell.run("call", "show", '{"a": 1}').stdout == '{"success":true,"args":{"a":1}}\n'
    shell.env["TOOLWRIGHT_HTTP_ALLOW"] = "10.0.0.0/99"
    code, line = shell.refused("call", "ask")
    assert (code, "TOOLWRIGHT_HTTP_ALLOW is not valid: '10.0.0.0/99' is not a network" in line) == (2, True)


VARIABLES = """
import toolwright as tw

NEEDS = [tw.Variable("KEY", type="secret", description="The key."), tw.Variable("REGION", required=False)]


@tw.tool(description="Show.", variables=NEEDS)
async def show(state: tw.ThreadState) -> list[str | None]:
    return [await state.env("KEY"), await state.env("REGION"), await state.env_type("KEY")]


@tw.tool(description="Only here.", variables=NEEDS, read_only=True)
async def own(state: tw.ThreadState) -> list[str | None]:
    return [await state.env("KEY"), await state.env("REGION")]


text = {"value": "prompt", "type": "text"}
prompt = tw.Prompt("p", tools=["show", own], env={"REGION": text, "KEY": "prompt-key"})
agent = tw.Agent("helper", prompt, env={"KEY": "agent-key"})
app = tw.App(tools=[show], agents=[agent], env=ENV)
"""


def test_a_call_knows_the_values_of_the_app_of_an_agent_and_of_its_options(empty: Shell) -> None:
    empty.write("app.py", VARIABLES.replace("ENV", "{}"))
    lacking = empty.run("call", "show")
    assert lacking.returncode == 1
    assert json.loads(lacking.stdout)["error_code"] == "variables_required"
    assert json.loads(lacking.stdout)["missing"] == ["KEY"]
    assert json.loads(empty.run("call", "show", "--env", "KEY=k=1").stdout) == ["k=1", None, "secret"]
    empty.env["KEY"] = "from-outside"
    assert json.loads(empty.run("call", "show", "--env", "KEY").stdout) == ["from-outside", None, "secret"]
    assert json.loads(empty.run("call", "show", "--agent", "helper").stdout) == [
        "agent-key",
        "prompt",
        "secret",
    ]
    assert json.loads(empty.run("call", "own").stdout) == ["agent-key", "prompt"]
    empty.write("app.py", VARIABLES.replace("ENV", '{"KEY": "app-key"}'))
    assert json.loads(empty.run("call", "show").stdout) == ["app-key", None, "secret"]
    assert json.loads(empty.run("call", "own").stdout) == ["app-key", "prompt"]


def test_a_call_for_an_agent_that_is_not_there_or_has_no_such_tool_is_refused(empty: Shell) -> None:
    empty.write("app.py", VARIABLES.replace("ENV", "{}"))
    assert empty.refused("call", "show", "--agent", "helpr")[0] == 2
    assert "There is no agent 'helpr'" in empty.refused("call", "show", "--agent", "helpr")[1]
    assert (
        "The agent 'helper' has no tool 'nothing'" in empty.refused("call", "nothing", "--agent", "helper")[1]
    )
    assert "--env" in empty.refused("call", "show", "--env", "=x")[1]


def test_a_tool_is_shown_with_its_variables(empty: Shell, shell: Shell) -> None:
    assert json.loads(shell.run("tools", "show", "add").stdout)["variables"] == []
    empty.write("app.py", VARIABLES.replace("ENV", "{}"))
    key, region = json.loads(empty.run("tools", "show", "show").stdout)["variables"]
    assert key == {
        "name": "KEY",
        "type": "secret",
        "required": True,
        "scoped": False,
        "description": "The key.",
    }
    assert (region["name"], region["required"]) == ("REGION", False)


LIVING = """
import contextlib
from typing import Annotated

import toolwright as tw


@contextlib.asynccontextmanager
async def lifespan(app):
    print("begin")
    yield {"pool": "the pool"}
    print("end")


def pool(state: tw.ThreadState) -> str:
    return state.lifespan["pool"]


@tw.tool(description="Read.")
async def read(pool: Annotated[str, tw.Depends(pool)]) -> str:
    return pool


app = tw.App(tools=[read], lifespan=lifespan)
"""


def test_a_call_is_made_within_the_lifespan_of_the_app(empty: Shell) -> None:
    (empty.folder / "app.py").write_text(LIVING)
    done = empty.run("call", "read")
    assert (done.returncode, done.stdout, done.stderr) == (0, "begin\nend\nthe pool\n", "")
