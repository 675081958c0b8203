"""The four tutorials are followed word for word: their commands run, and print what the pages show."""

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.test_guides import ROOT, environment, pattern, write_files
from tests.models.wire_server import WireCall, WireServer

GUIDES = ROOT / "docs" / "guides"
BASH = re.compile(r"```bash\n(.*?)```", re.DOTALL)
SHOWN = re.compile(r"```text\n(.*?)```", re.DOTALL)
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]  # each starts up to ten processes


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def session(page: Path, port: int, typed: str) -> str:
    """Return the commands of a page as one script. `typed` is what a user types in a chat."""
    script = ["set -e"]
    for commands in BASH.findall(page.read_text(encoding="utf-8")):
        if commands == "toolwright serve app:app\n":
            script += [
                f"toolwright serve app:app --port {port} > serve.log & trap 'kill $(jobs -p)' EXIT",
                f"until curl -sf localhost:{port}/live > /dev/null; do sleep 0.1; done",
            ]
        elif commands.startswith("toolwright chat"):
            script.append(f"printf %s {shlex.quote(typed)} | {commands}")
        elif commands.startswith("toolwright calls"):
            script += ['until [ -n "$(toolwright calls)" ]; do sleep 0.1; done', commands]
        elif "ask.py" in commands and "toolwright calls" in page.read_text(encoding="utf-8"):
            script.append(commands.rstrip() + " > asked.txt & asking=$!")  # another terminal
        else:
            script.append(commands)
    if any("asking" in each for each in script):
        script.append("wait $asking; cat asked.txt")
    text = "\n".join(script).replace("localhost:8000", f"localhost:{port}")
    # a stream never ends: stop at the end of the run
    return re.sub(r"(curl -sN .*?)    # Ctrl-C ends it", r"\1 | sed '/run.completed/q'", text)


def use_port(program: Path, port: int) -> None:
    if program.exists():
        text = program.read_text(encoding="utf-8")
        program.write_text(text.replace("127.0.0.1:8000", f"127.0.0.1:{port}"), encoding="utf-8")


async def followed(page: str, folder: Path, typed: str, answers: Sequence[WireCall | str]) -> str:
    """Follow a page in a folder, with these answers of the model. Return what its commands print."""
    write_files(GUIDES / f"{page}.md", folder)
    port = free_port()
    use_port(folder / "ask.py", port)
    async with WireServer() as server:
        for answer in answers:
            if isinstance(answer, str):
                server.answer(text=[answer])
            else:
                server.answer(calls=[answer])
        bin_folder = Path(sys.executable).parent
        environ = environment(server) | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
        script = session(GUIDES / f"{page}.md", port, typed)
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            script,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(280):
            printed, errors = await process.communicate()
    assert process.returncode == 0, f"{script}\n{errors.decode()}"
    return printed.decode()


def call(name: str, **arguments: object) -> WireCall:
    return WireCall(id="c1", name=name, arguments=(json.dumps(arguments),))


def assert_shown(page: str, printed: str) -> None:
    """Check that each line of the outputs of a page was printed, in order."""
    lines = iter(printed.splitlines())
    for shown in SHOWN.findall((GUIDES / f"{page}.md").read_text(encoding="utf-8")):
        for line in shown.splitlines():
            if line != "…":
                assert any(re.search(f"{pattern(line)}$", each) for each in lines), f"{line}\n{printed}"


SHELF = [call("find_shelf", title="Emma"), "Emma is on shelf A1."]
DUNE = [call("find_shelf", title="Dune"), "Dune is on shelf B4."]
ORDER = call("order_book", title="Dune", copies=3)


async def test_the_first_tutorial(tmp_path: Path) -> None:
    printed = await followed("first-tool", tmp_path, "Where is Dune?\n", [*DUNE, *DUNE])
    assert_shown("first-tool", printed)


async def test_the_second_tutorial(tmp_path: Path) -> None:
    write_files(GUIDES / "first-tool.md", tmp_path)
    assert_shown("tutorial-serve", await followed("tutorial-serve", tmp_path, "", [*SHELF, *SHELF]))


async def test_the_third_tutorial(tmp_path: Path) -> None:
    write_files(GUIDES / "tutorial-serve.md", tmp_path)
    answers = [ORDER, "I have ordered three copies.", ORDER, "I have ordered two copies of Dune."]
    typed = "Order three copies of Dune.\nyes\n"
    assert_shown("tutorial-approval", await followed("tutorial-approval", tmp_path, typed, answers))


async def test_the_fourth_tutorial(tmp_path: Path) -> None:
    write_files(GUIDES / "first-tool.md", tmp_path)
    write_files(GUIDES / "tutorial-serve.md", tmp_path)
    assert_shown("tutorial-deploy", await followed("tutorial-deploy", tmp_path, "", SHELF))
