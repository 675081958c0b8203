"""Answers to calls as results: those that take long to look at are told apart, and are looked at in a thread."""

import mcp_types as types
import pytest

from toolwright.adapters.mcp.results import is_large
from toolwright.core.results.content import LARGE

LONG = "A" * (LARGE + 4)


@pytest.mark.parametrize(
    ("content", "large"),
    [
        ([types.TextContent(text="fine")], False),
        ([types.ImageContent(data="AAAA", mime_type="image/png")], False),
        ([types.ImageContent(data=LONG, mime_type="image/png")], True),
        ([types.AudioContent(data=LONG, mime_type="audio/wav")], True),
        ([types.EmbeddedResource(resource=types.BlobResourceContents(uri="x:///a", blob=LONG))], True),
        ([types.TextContent(text="fine")] * 101, True),
    ],
)
def test_an_answer_with_a_large_file_or_many_parts_takes_long_to_look_at(
    content: list[types.ContentBlock], large: bool
) -> None:
    assert is_large(types.CallToolResult(content=content)) is large


def test_so_does_one_that_is_judged() -> None:
    assert is_large(types.CallToolResult(content=[], structured_content={"a": 1}))
