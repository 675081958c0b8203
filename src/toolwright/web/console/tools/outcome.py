"""Outcome of a call: the result or the error, and the files that came with it."""

from toolwright.core.results.content import AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.text import brief
from toolwright.core.threads.call import Call
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
