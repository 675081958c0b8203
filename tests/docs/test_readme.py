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


def checkout(folder: Path) -> None:
    """Copy all files that git tracks or would track."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)


def script(readme: str, port: int) -> str:
    """Return the blocks as one script: waits for what has happened instead of seconds, each stream is stopped."""
    lines = "\n".join(COMMANDS.findall(readme)).replace("localhost:8000", f"localhost:{port}")
    for program, waited_for in (
        ("python pay.py", "toolwright calls 2> /dev/null | grep -q approval"),
        ("toolwright serve pay:app", "toolwright runs list --status completed 2> /dev/null | grep -q run_"),
    ):
        assert f"{program} & sleep 10" in lines
        until = f"for _ in $(seq 100); do {waited_for} && break; sleep 1; done"
        lines = lines.replace(f"{program} & sleep 10", f"{program} > printed.txt 2>&1 & PROGRAM=$!\n{until}")
    lines = lines.replace("serve pay:app", f"serve pay:app --port {port}").replace(
        "kill -9 $!", "kill -9 $PROGRAM"
    )
    lines = re.sub(r"^curl -sN (\S+).*$", r"timeout 20 curl -sN \1 || true", lines, flags=re.MULTILINE)
    trap = "trap 'test -z \"$PROGRAM\" || kill $PROGRAM' EXIT"
    return f"set -eo pipefail\n{trap}\n{lines}\npython examples/first/tool.py"


@pytest.mark.timeout(600)
async def test_a_reader_who_follows_the_readme_gets_through(tmp_path: Path) -> None:
    checkout(tmp_path)
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    [pay] = [match["code"] for match in BLOCK.finditer(readme) if match["title"] == "pay.py"]
    (tmp_path / "pay.py").write_text(pay, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with WireServer() as wire:
        payment = json.dumps({"to": "Ann", "amount": 5})
        wire.answer(calls=[WireCall(id="c1", name="pay", arguments=(payment,))])
        wire.answer(text=["Ann has her 5 euros."])
        wire.answer(text=["Hello to you."])
        arguments = json.dumps({"text": "to be or not to be"})
        wire.answer(calls=[WireCall(id="c2", name="count_words", arguments=(arguments,))])
        wire.answer(text=["It has six words."])
        kept = {
            name: value
            for name, value in environment(wire).items()
            if name not in ("VIRTUAL_ENV", "PYTHONPATH") and value != AUTHORITY
        }
        kept["PATH"] = os.pathsep.join(
            each for each in kept["PATH"].split(os.pathsep) if not each.startswith(str(ROOT))
        )
        process = await run_script(script(readme, port), tmp_path, kept)
    assert re.search(r"^call_\w+\tapproval\tpay\t", process, re.MULTILINE)
    assert "is approved." in process
    assert "\nAnn 5\n" in process
    assert "Hello to you." in process
    assert "It has six words." in process


async def run_script(text: str, folder: Path, environ: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", text, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()[-4_000:]
    return printed.decode()
