"""Outcome of a call: the result or the error, and the files that came with it."""

from typing import Final
from urllib.parse import quote

from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.json_value import JSON
from toolwright.core.results.content import Attachment, AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.text import brief
from toolwright.core.threads.call import Call
from toolwright.web.console.widgets import LONGEST_SHOWN, badge, box, code, json_text, words
from toolwright.web.routes.files import SHOWN

MOST_FILES: Final = 50


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
            badge(brief(result.error_code, 60), "bad")
    if result.result is not None or result.status == "success":
        await _result(result.result)
    for each in result.attachments[:MOST_FILES]:
        _file(call.thread_id, each)
    if result.stack:
        with box("details"):
            words("Traceback", "summary", "quiet small")
            code(result.stack)


async def _result(result: JSON) -> None:
    text = result if isinstance(result, str) else await in_thread_if_large(result, json_text, result)
    if len(text) > LONGEST_SHOWN:
        words(f"{len(text):,} characters, of which the first are shown.", "p", "quiet small")
    code(text)


def _file(thread_id: str, file: Attachment | AttachmentRef) -> None:
    """A link to a file of the thread; an image is shown, if it is of a type in which nothing can run."""
    with box("div", "stack"):
        if not isinstance(file, AttachmentRef):
            words(f"{file.name} ({file.mime_type})", "span", "small")
            return
        address = f"/console/files/{quote(thread_id, safe='')}/{quote(file.path)}"
        if file.mime_type in SHOWN and file.mime_type.startswith("image/"):
            image = box("img", "thumbnail")
            image.props["src"] = address
            image.props["alt"] = brief(file.name, 200)
        named = words(f"{file.name} ({file.size:,} bytes)", "a", "small")
        named.props["href"] = address
        named.props["target"] = "_blank"
