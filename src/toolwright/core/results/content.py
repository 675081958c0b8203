"""Text, images and files that a tool hands over (S2 §5 and §6)."""

from typing import Literal, TypeAlias

from toolwright.core.value import value


@value
class TextContent:
    """Plain text (S2 §6.1)."""

    text: str
    type: Literal["text"] = "text"


@value
class ImageContent:
    """An inline image: base64 text and its MIME type, such as `image/png` (S2 §6.2)."""

    data: str
    mime_type: str
    type: Literal["image"] = "image"


ToolContent: TypeAlias = TextContent | ImageContent


@value
class Attachment:
    """A new file: `data` is base64 text, `width` and `height` are pixels (S2 §5.1)."""

    name: str
    mime_type: str
    data: str
    width: int | None = None
    height: int | None = None


@value
class AttachmentRef:
    """A file that the thread already has; `path` decides, `size` is in bytes (S2 §5.3).

    `digest` names the bytes in the file store; a reference that a handler makes needs none.
    """

    id: str
    path: str
    name: str
    mime_type: str
    size: int
    type: Literal["file"] = "file"
    width: int | None = None
    height: int | None = None
    description: str | None = None
    digest: str | None = None
