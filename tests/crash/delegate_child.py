"""Processes that solve a request whose calls are delegated, and kill themselves at a commit."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.crash.dying import at_work
from tests.crash.forks import Order
from tests.runtime.solving import DONE, SUMMARY, TEXT, said
from toolwright.core.agents.catalog import Catalog
from toolwright.core.json_value import JSON
from toolwright.core.tools.registry import Registry

CALLS: list[JSON] = [{"_tool": "sum_up", "text": text} for text in ("one", "two")]
TURNS = {
    "request": [said(None, *CALLS), said(DONE)],
    "sum_up": [said({"summary": 1}), said({"summary": "short"})],
}
TOOL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "_delegate": {"const": "anonymous"},
        "_output": SUMMARY,
        "_outputPath": {"const": {"path": "†state.sums", "method": "push"}},
    },
    "required": ["text"],
}


def catalog() -> Catalog:
    registry = Registry()
    registry.tool("sum_up", TOOL)
    return Catalog(tools=registry.tools())


async def run(order: Order) -> None:
    folder = Path(order["folder"])
    script = folder / "script.yaml"
    script.write_text(json.dumps(TURNS))  # JSON is valid YAML
    async with at_work(order, catalog()) as runtime, asyncio.timeout(20):
        runs = sorted(await runtime.runs.list(), key=lambda run: run.created_at)
        config = {"model": f"scripted:{script}"}
        context = [{"type": "tool", "tool": "sum_up"}, TEXT]
        begun = runs[0] if runs else await runtime.begin_request(config, SUMMARY, context)
        solution = await runtime.solution(begun.id)
        results = [call.result.result if call.result else None for call in solution.calls]
        kept = {"output": solution.output, "results": results, "state": solution.state}
        (folder / "solution").write_text(json.dumps(kept))
