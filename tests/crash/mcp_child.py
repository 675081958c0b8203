"""Processes whose agent calls tools of an MCP server, and that kill themselves at a commit or between two.

The server lives in the process of the test. A person answers every question once; nothing is left open at the end.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import toolwright as tw
from tests.crash.dying import FUNCTIONS, at_work, die, journal_url
from tests.crash.forks import Order
from tests.databases import opened
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.servers import McpTaskState
from toolwright.core.results import Outcome
from toolwright.core.state.state import ELICIT, ThreadState
from toolwright.core.threads.run import OVER
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, ScriptedModel
from toolwright.wiring.executors import LazyMcp
from toolwright.wiring.settings import Settings

for needed in ("mcp.executor", "mcp.servers", "executors.http"):
    import_module(f"toolwright.adapters.{needed}")  # once for all children, with the SDK and its HTTP client
tw.App(mcp={"peer": {"url": "http://127.0.0.1"}})  # likewise: creates the parsers of configurations
T = TypeVar("T")
ANSWER: JSONObject = {"action": "accept", "content": {"email": "a@b.c"}}
ENDS = ("task_", "error", "cancelled", "expired")
"""The content of a late result."""


class KillingServers(LazyMcp):
    """Kills its process before or after the n-th request to a server: a call, or a request about a task.

    It can also kill it before a cancellation request.
    """

    def __init__(self, kill: Mapping[str, Any]) -> None:
        super().__init__(Settings())
        self._kill = kill
        self.count = 0

    async def _counted(self, asked: Awaitable[T]) -> T:
        self.count += 1
        number = self.count
        if self._kill.get("asked") == number and self._kill["when"] == "before":
            die()
        answer = await asked
        if self._kill.get("asked") == number and self._kill["when"] == "after":
            die()
        return answer

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        return await self._counted(super().__call__(prepared, state))

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        return await self._counted(super().task(target, task_id, output, session))

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        await self._counted(super().answer_task(target, task_id, answers, session))

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        if self._kill.get("at_cancel"):
            die()
        await self._counted(super().cancel_task(target, task_id, session))


async def run(order: Order) -> None:
    """Execute an order: `tool` of the server at `peer`, which is configured with `options`."""
    folder, servers = Path(order["folder"]), KillingServers(order.get("kill") or {})
    late: list[JSONObject] = [{"when": text, "text": "I see."} for text in ENDS]
    turns: list[JSONObject] = [{"calls": [{"name": order["tool"], "args": {}}]}, {"text": "Done."}, *late]
    prompt = tw.Prompt("a", "Work.", model=ScriptedModel(turns))
    peer = {"url": order["peer"], **order.get("options", {})}
    app = tw.App(agents=[tw.Agent("a", prompt)], mcp={"peer": peer})
    store = await opened(journal_url(order), MemoryBus())
    async with at_work(order, app.catalog, {**FUNCTIONS, "mcp": servers}, servers) as rt, asyncio.timeout(20):
        await _lead(rt, store, order)
        (folder / "asked").write_text(str(servers.count))
        await servers.aclose()
    await store.close()


async def _lead(rt: Runtime, store: Store, order: Order) -> None:
    threads = await rt.threads.list()
    thread = threads[0] if threads else await rt.threads.create("a")
    if not await rt.runs.list():
        await rt.threads.send(thread.id, "Go")
    while not await _is_over(rt, store):
        for call in await rt.calls.list():
            if call.name == ELICIT:
                await rt.calls.submit(call.run_id, call.id, ANSWER)
            elif order.get("cancel"):
                await rt.calls.cancel(call.id)
        await asyncio.sleep(0.03)


async def _is_over(rt: Runtime, store: Store) -> bool:
    """Return whether nothing is open: no run, no call, no timer."""
    runs = await rt.runs.list()
    if any(run.status not in OVER for run in runs) or await rt.calls.list():
        return False
    return not await store.due(datetime.max.replace(tzinfo=UTC), 1)
