"""A server that is killed during calls over MCP: recorded calls continue in the next process."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcp.server_rig import Wire

pytestmark = pytest.mark.anyio

APP = """
import asyncio
from pathlib import Path
import toolwright as tw

ask = tw.Tool(name="ask", description="Ask.", kind="external", is_async=True)

@tw.tool(description="Wait until there is a file.", idempotent=True)
async def wait() -> str:
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "gone on"

app = tw.App(tools=[ask, wait])
"""
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": TASKS,
}


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[Wire]:
    """Serve the app by a separate process, which is killed at the end of the block."""
    source = str(Path(__file__).parents[2] / "src")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolwright.cli", "serve", "app:app", "--port", "0"),
        cwd=folder,
        env={"PYTHONPATH": source, "TOOLWRIGHT_MCP_SERVER": "on"},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        url = next(word.rstrip(",") for word in line.split() if word.startswith("http://"))
        async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
            yield Wire(http, "2026-07-28")
    finally:
        process.kill()
        await process.wait()


async def task_of(wire: Wire, task_id: str) -> dict[str, Any]:
    task = await wire.request("tasks/get", {"_meta": META, "taskId": task_id}, task_id)
    result: dict[str, Any] = task["result"]
    return result


async def test_tasks_go_on_in_the_next_process(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    async with served(tmp_path) as wire:
        asked = (await wire.call("ask", _meta=META))["result"]["taskId"]
        waiting = (await wire.call("wait", _meta=META))["result"]["taskId"]
        assert (await task_of(wire, asked))["status"] == "working"
    (tmp_path / "go").touch()
    async with served(tmp_path) as wire:
        [call] = (await wire.http.get("/api/calls")).json()["calls"]
        assert call["callId"] == asked
        result = {"callId": asked, "result": "late"}
        assert (await wire.http.post(f"/api/runs/{call['runId']}/tool-results", json=result)).is_success
        over = await task_of(wire, asked)
        assert over["result"]["content"] == [{"type": "text", "text": "late"}]
        while (task := await task_of(wire, waiting))["status"] == "working":
            pass  # each poll is a request, so the process works in the meantime
        assert task["result"]["content"] == [{"type": "text", "text": "gone on"}]
