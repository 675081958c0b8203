"""A result's text and its images, as frameworks show them to a model."""

from toolwright.core.results.content import Attachment
from toolwright.core.results.result import ToolResult
from toolwright.wire.result import model_text


def shown_text(result: ToolResult) -> str:
    """The text that a model reads of a result, with the names of its files that are no images."""
    pictures = images(result)
    named = [each.name for each in result.attachments if each not in pictures]
    text = model_text(result)
    return f"{text}\n\nFiles: {', '.join(named)}" if named else text


def images(result: ToolResult) -> list[Attachment]:
    """The images of a result whose bytes are there."""
    return [
        each
        for each in result.attachments
        if isinstance(each, Attachment) and each.mime_type.startswith("image/")
    ]
