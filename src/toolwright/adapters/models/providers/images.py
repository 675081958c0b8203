"""Images of a conversation, for models with image input: loaded once and cached while in use."""

from collections import OrderedDict
from collections.abc import Mapping

from toolwright.core.model import ModelRequest
from toolwright.core.results.content import AttachmentRef
from toolwright.core.threads.message import Message

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BEGINNINGS: Mapping[str, tuple[bytes, ...]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
LARGEST = 5 * 1024 * 1024  # bytes per image that every provider accepts
CACHE_BYTES = 64 * 1024 * 1024  # bytes cached between requests


class Pictures:
    """Loads the images that a request's messages refer to, by digest."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def load(self, request: ModelRequest) -> Mapping[str, bytes]:
        """Return the bytes of all images that can be shown. Images with missing or invalid bytes are left out."""
        contents: dict[str, bytes] = {}
        for ref in _images(request.messages):
            assert ref.digest is not None, "checked by _images"
            picture = self._cache.pop(ref.digest, None)
            if picture is None:
                picture = await _loaded(request, ref)
                self._size += len(picture or b"")
            if picture is not None:
                contents[ref.digest] = self._cache[ref.digest] = picture
        while self._size > CACHE_BYTES:
            self._size -= len(self._cache.popitem(last=False)[1])
        return contents


def can_be_seen(ref: AttachmentRef) -> bool:
    """Return whether the file is an image that providers accept."""
    return ref.digest is not None and ref.mime_type in IMAGE_TYPES and ref.size <= LARGEST


async def _loaded(request: ModelRequest, ref: AttachmentRef) -> bytes | None:
    """Return the bytes of an image, or None if they are missing or not an image of this type."""
    content = None if request.load is None else await request.load(ref)
    return content if content is not None and is_image(content, ref.mime_type) else None


def is_image(content: bytes, mime_type: str) -> bool:
    """Return whether the bytes start like an image of this type. Providers reject conversations with invalid images."""
    if mime_type == "image/webp":
        return content[:4] == b"RIFF" and content[8:12] == b"WEBP"
    return content.startswith(_BEGINNINGS[mime_type])


def _images(messages: tuple[Message, ...]) -> list[AttachmentRef]:
    refs = {
        ref.digest: ref
        for message in messages
        for ref in message.attachments
        if ref.digest is not None and can_be_seen(ref)
    }
    return list(refs.values())
