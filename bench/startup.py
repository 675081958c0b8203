"""What a process costs before it does anything: import time, and the memory of an idle gateway."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from bench.row import Row

IMPORT_TARGET, MEMORY_TARGET = 150.0, 120.0  # ms, MB
TIMED = "import time; t = time.perf_counter(); import {}; print((time.perf_counter() - t) * 1e3)"


def _import(modules: str, cache: str) -> float:
    """ms, the median of seven processes; with bytecode cached, as any second start has it."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = cache
    command = [sys.executable, "-c", TIMED.format(modules)]
    taken = [
        float(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)
        for _ in range(8)
    ]
    return statistics.median(taken[1:])


def _idle_memory(folder: str) -> float:
    """MB of resident memory of `toolwright serve` on SQLite, two seconds after it listens."""
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
                    httpx.get(f"{url}/health").raise_for_status()
                    break
            time.sleep(2)
            return psutil.Process(server.pid).memory_info().rss / 1e6
        finally:
            server.terminate()


def run() -> list[Row]:
    """The figures."""
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "cache")
        floor = _import("asyncio, pydantic, jsonschema_rs; from pydantic import BaseModel", cache)
        ours = _import("toolwright", cache)
        return [
            Row(
                "import toolwright",
                ours,
                "ms",
                floor,
                IMPORT_TARGET,
                note="floor: asyncio, pydantic, jsonschema-rs",
            ),
            Row("memory of an idle gateway", _idle_memory(folder), "MB", None, MEMORY_TARGET),
        ]
