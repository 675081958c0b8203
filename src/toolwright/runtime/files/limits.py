"""Limits of a result's texts (D20): what a model is shown of it, and what only the records keep."""

import re

from toolwright.core.json_value import dumps_unescaped, utf8_size
from toolwright.core.results.result import ToolResult
from toolwright.core.text import CUT, brief, quantity
from toolwright.core.value import changed
from toolwright.wire.result import error_object

LONGEST_CODE = 200  # characters
_MARK = 100  # bytes that a mark in a stack has at the most


_NOTICE = 2_000  # bytes that the notice of a cut has at the most
_NOTICE_END = re.compile(r"\n\[The result has \d+ bytes?, of which the first \d+ are shown\.[^\n]*\]\Z")


def text_of(result: ToolResult) -> str:
    """The text by which a model reads a result."""
    if result.status == "error":
        return dumps_unescaped(error_object(result)) if result.error_data else result.error or ""
    return result.result if isinstance(result.result, str) else dumps_unescaped(result.result)


def as_bytes(text: str) -> bytes:
    """The text as it is kept."""
    return text.encode("utf-8", "replace")


def too_long(result: ToolResult, most: int) -> bool:
    """Return whether the text has more than `most` bytes. A text that was cut before is not too long."""
    if result.status == "success" and not isinstance(result.result, str) and utf8_size(result.result) <= most:
        return False  # the common case
    text = text_of(result)
    if len(text) * 4 <= most:
        return False
    size = len(as_bytes(text))
    return size > most and (size > most + _NOTICE or _NOTICE_END.search(text[-_NOTICE:]) is None)


def shortened(result: ToolResult, content: bytes, most: int, more: str) -> ToolResult:
    """The result with the first `most` bytes of its whole text, how many there are, and a further word."""
    notice = f"[The result has {quantity(len(content), 'byte')}, of which the first {most} are shown.{more}]"
    text = f"{content[:most].decode('utf-8', 'ignore')}\n{notice}"
    if result.status == "error":
        return changed(result, error=text, error_data=None)
    return changed(result, result=text)


def recordable(result: ToolResult, most: int) -> ToolResult:
    """The result with a stack of `most` bytes at the most, cut in its middle, and a code that is no text."""
    if result.stack is None and result.error_code is None:
        return result  # the common case
    code = None if result.error_code is None else brief(result.error_code, LONGEST_CODE)
    return changed(
        result, stack=None if result.stack is None else _stack(result.stack, most), error_code=code
    )


def _stack(stack: str, most: int) -> str:
    """Beginning and end of a stack: the middle is what is missed least."""
    content = as_bytes(stack) if len(stack) * 4 > most else b""
    if len(content) <= most:
        return stack
    half = max(most - _MARK, 2) // 2
    left = len(content) - 2 * half
    first, last = content[:half].decode("utf-8", "ignore"), content[-half:].decode("utf-8", "ignore")
    return f"{first}{CUT}{left} bytes are left out)\n{last}"
