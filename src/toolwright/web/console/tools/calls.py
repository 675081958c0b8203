"""Calls of a tool and their outcomes."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from toolwright.core.errors import NotFound, StoreError
from toolwright.core.json_value import JSONObject
from toolwright.core.results.content import AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.text import brief
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.run import Run
from toolwright.core.value import value
from toolwright.runtime.pending.app_calls import EVERY
from toolwright.runtime.runtime import Runtime
from toolwright.web.console.runs.calls import draw_files
from toolwright.web.console.tool_ui.parts import json_block
from toolwright.web.console.widgets import LONGEST_SHOWN, badge, box, code, words


async def draw_outcome(call: Call, result: ToolResult | None) -> None:
    """Draw it; of a call that was cancelled there may be none."""
    if result is None:
        words("There is no result.", "p", "quiet")
        return
    if result.status == "error":
        with box("div", "error") as said:
            said.props["role"] = "alert"
            words(brief(result.error or "It failed.", LONGEST_SHOWN), "p")
        if result.error_code is not None:
            with box("div", "row"):
                badge(brief(result.error_code, 60), "bad")
    if isinstance(result.result, str):
        code(result.result)
    elif result.result is not None or result.status == "success":
        await json_block(result.result)
    draw_files(call.thread_id, [each for each in result.attachments if isinstance(each, AttachmentRef)])
    if result.stack:
        with box("details", "folded"):
            words("Traceback", "summary", "quiet small")
            code(result.stack)


LOOK_AGAIN: Final = 0.5  # seconds without news after which the row is read all the same


@value
class Progress:
    """How a call stands: its row, once there is one, and its run."""

    call: Call | None = None
    run: Run | None = None

    @property
    def over(self) -> bool:
        """Return whether nothing changes any more."""
        return self.call is not None and is_over(self.call.status)

    @property
    def request_id(self) -> str | None:
        """The request for values that its run waits with."""
        waiting = self.run.waiting if self.run is not None and self.run.status == "waiting" else None
        request_id = (waiting or {}).get("requestId")
        return request_id if isinstance(request_id, str) else None


async def call_app_tool(
    runtime: Runtime, name: str, arguments: JSONObject, before: Call | None
) -> AsyncGenerator[Progress]:
    """Call a tool of the app, as hosts outside do: how the call stands, repeatedly until it is over.

    It is made in the thread of the call `before`, where values were set for it, else in one of its own.
    """
    app_calls = runtime.app_calls
    call = app_calls.new(before)
    with app_calls.watch(call) as watch:
        if before is None:
            await app_calls.make(call, name, arguments)
        else:
            await app_calls.make_beside(call, before, name, arguments)
        while True:
            row = await watch.row()
            progress = Progress(call=row, run=await _run(runtime, call.run_id))
            yield progress
            if progress.over:
                return
            if not await watch.next(LOOK_AGAIN) and row is None and await app_calls.lost(call):
                raise StoreError("The call could not be made.")


async def call_agent_tool(
    runtime: Runtime, agent_id: str, name: str, arguments: JSONObject
) -> AsyncGenerator[Progress]:
    """Call a tool of an agent, in a run of its own: how the call stands, repeatedly until it is over."""
    toolkit = await runtime.toolkit(agent_id)
    calling = asyncio.create_task(toolkit.call(name, arguments), name="toolwright-console-call")
    try:
        done = False
        while not done:
            await asyncio.wait([calling], timeout=LOOK_AGAIN)
            done = calling.done()
            if done:
                await calling  # raises what it raised
            yield await _latest(runtime, toolkit.run_id)
    finally:  # the call goes on as a row, though nobody waits here any more
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)


async def _latest(runtime: Runtime, run_id: str | None) -> Progress:
    """How the call stands that the run was made for."""
    if run_id is None:
        return Progress()
    calls = await runtime.calls.list(status=EVERY, run_id=run_id)
    own = next((each for each in calls if each.parent_id is None), None)
    return Progress(call=own, run=await _run(runtime, run_id))


async def _run(runtime: Runtime, run_id: str) -> Run | None:
    """The run, None before there is one."""
    try:
        return await runtime.runs.get(run_id)
    except NotFound:
        return None
