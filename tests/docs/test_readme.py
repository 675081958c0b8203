"""README, word for word, in a fresh checkout: every block of commands in its order."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.conftest import AUTHORITY
from tests.docs.test_guides import BLOCK, ROOT, environment
from tests.models.wire_server import WireCall, WireServer

pytestmark = [pytest.mark.anyio, pytest.mark.peers]  # it installs from the package index
COMMANDS = re.compile(r"```bash\n(.*?)```", re.DOTALL)
TESTS = "make test "  # the target that runs this test


def checkout(folder: Path) -> None:
    """Copy all files that git tracks or would track."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)


def script(readme: str, port: int) -> str:
    """Return the blocks as one script: the server in the background, each stream stopped after some seconds."""
    lines = "\n".join(block for block in COMMANDS.findall(readme) if not block.startswith(TESTS))
    lines = lines.replace("localhost:8000", f"localhost:{port}")
    served = f"toolwright serve app:app --port {port} > served.txt 2>&1 & SERVER=$!\n"
    ready = "for _ in $(seq 600); do grep -q Ctrl-C served.txt && break; sleep 0.1; done"
    lines, count = re.subn(r"^toolwright serve app:app.*$", served + ready, lines, flags=re.MULTILINE)
    assert count == 1
    lines = lines.replace("toolwright doctor ", f"toolwright doctor --port {port} ")
    lines = re.sub(r"^curl -sN (\S+).*$", r"timeout 20 curl -sN \1 || true", lines, flags=re.MULTILINE)
    return f"set -eo pipefail\ntrap 'test -z \"$SERVER\" || kill $SERVER' EXIT\n{lines}"


@pytest.mark.timeout(600)
async def test_a_reader_who_follows_the_readme_gets_through(tmp_path: Path) -> None:
    checkout(tmp_path)
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    [app] = [match["code"] for match in BLOCK.finditer(readme) if match["title"] == "app.py"]
    (tmp_path / "app.py").write_text(app, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with WireServer() as wire:
        arguments = json.dumps({"text": "to be or not to be"})
        wire.answer(calls=[WireCall(id="c1", name="count_words", arguments=(arguments,))])
        wire.answer(text=["It has six words."])
        wire.answer(text=["Hello to you."])
        kept = {
            name: value
            for name, value in environment(wire).items()
            if name not in ("VIRTUAL_ENV", "PYTHONPATH") and value != AUTHORITY
        }
        kept["PATH"] = os.pathsep.join(
            each for each in kept["PATH"].split(os.pathsep) if not each.startswith(str(ROOT))
        )
        process = await run_script(script(readme, port), tmp_path, kept)
    assert "It has six words." in process
    assert "1 passed" in process
    assert "Hello to you." in process


async def run_script(text: str, folder: Path, environ: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", text, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()[-4_000:]
    return printed.decode()
