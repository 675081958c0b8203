"""Answers to calls as results: those that take long to look at are told apart, and are looked at in a thread."""

import mcp_types as types
import pytest

from toolwright.adapters.mcp.results import takes_long
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
    assert takes_long(types.CallToolResult(content=content)) is large


def test_so_does_one_whose_object_is_large() -> None:
    assert not takes_long(types.CallToolResult(content=[], structured_content={"a": 1}))
    assert takes_long(types.CallToolResult(content=[], structured_content={"a": [0] * 100_000}))
    assert takes_long(types.CallToolResult(content=[], structured_content={"a": "x" * 10_000_000}))
