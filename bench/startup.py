"""The cost of a process: import time, a first run, memory of an idle gateway, and memory left by finished runs."""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
import psutil

import toolwright as tw
from bench.row import Row
from toolwright.testing import ScriptedModel

IMPORT_TARGET, FIRST_RUN_TARGET, MEMORY_TARGET, LEFT_TARGET = 120.0, 350.0, 120.0, 2.0  # ms, ms, MB, MB
TIMED = "import time; t = time.perf_counter(); {}; print((time.perf_counter() - t) * 1e3)"
FIRST_RUN = """
import asyncio
import toolwright as tw, toolwright.testing
app = tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Hi.", model=toolwright.testing.ScriptedModel([{"text": "Hi."}])))])
async def main():
    async with toolwright.testing.runtime(app) as rt:
        thread = await rt.threads.create("a")
        await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id)
asyncio.run(main())
"""
WARM_UP, RUNS = 300, 1_000


def _took(code: str, cache: str) -> float:
    """Return the median ms of seven processes, with cached bytecode."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = cache
    command = [sys.executable, "-c", TIMED.format(code)]
    taken = [
        float(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)
        for _ in range(8)
    ]
    return statistics.median(taken[1:])


def _idle_memory(folder: str) -> float:
    """Return the resident MB of `toolwright serve` on SQLite, two seconds after it listens."""
    environ = os.environ | {"TOOLWRIGHT_DATABASE_URL": f"sqlite:///{folder}/t.db"}
    command = [sys.executable, "-m", "toolwright.cli", "serve", "--port", "0"]
    with subprocess.Popen(
        command, env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if b"http://" in line:
                    url = "http://" + line.decode().split("http://")[1].split()[0].rstrip("/.,")
                    httpx2.get(f"{url}/health").raise_for_status()
                    break
            time.sleep(2)
            return psutil.Process(server.pid).memory_info().rss / 1e6
        finally:
            server.terminate()


async def _left(folder: str) -> float:
    """Return the resident MB that 1,000 consecutive runs leave in the process, with their journal in a file."""
    model = ScriptedModel([{"text": "Hi."}])
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Hi.", model=model))])
    async with app.runtime(tw.Settings(database_url=f"sqlite:///{folder}/left.db")) as rt:

        async def some(count: int) -> int:
            for _ in range(count):
                thread = await rt.threads.create("a")
                await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id)
            return psutil.Process().memory_info().rss

        before = await some(WARM_UP)
        return (await some(RUNS) - before) / 1e6


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "cache")
        floor = _took("import asyncio, pydantic, jsonschema_rs; from pydantic import BaseModel", cache)
        ours = _took("import toolwright", cache)
        names = _took("from toolwright import Agent, Prompt, ThreadState, Tool, ToolResult, tool", cache)
        first = _took(f"exec({FIRST_RUN!r})", cache)
        return [
            Row(
                "import toolwright",
                ours,
                "ms",
                floor,
                IMPORT_TARGET,
                note="floor: asyncio, pydantic, jsonschema-rs",
            ),
            Row(
                "import of what an app is made of",
                names,
                "ms",
                floor,
                IMPORT_TARGET,
                note="agents, prompts, tools; the same floor",
            ),
            Row(
                "import, and a first run in memory",
                first,
                "ms",
                floor,
                FIRST_RUN_TARGET,
                note="the same floor",
            ),
            Row("memory that 1,000 runs leave", asyncio.run(_left(folder)), "MB", None, LEFT_TARGET),
            Row("memory of an idle gateway", _idle_memory(folder), "MB", None, MEMORY_TARGET),
        ]
