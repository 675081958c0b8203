"""The images of a conversation, for models that can see: loaded once, while they are in use."""

from collections import OrderedDict
from collections.abc import Mapping

from toolwright.core.content import AttachmentRef
from toolwright.core.message import Message
from toolwright.core.model import ModelRequest

SEEN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
LARGEST = 5 * 1024 * 1024  # bytes of one image that every provider takes
KEPT = 64 * 1024 * 1024  # bytes kept from request to request


class Pictures:
    """Loads the images that a request's messages refer to, by their digests."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def of(self, request: ModelRequest) -> Mapping[str, bytes]:
        """The bytes of all images that can be shown; one whose bytes are gone is left out."""
        found: dict[str, bytes] = {}
        for ref in _images(request.messages):
            assert ref.digest is not None, "checked by _images"
            picture = self._kept.pop(ref.digest, None)
            if picture is None and request.load is not None:
                picture = await request.load(ref)
                self._size += len(picture or b"")
            if picture is not None:
                found[ref.digest] = self._kept[ref.digest] = picture
        while self._size > KEPT:
            self._size -= len(self._kept.popitem(last=False)[1])
        return found


def can_be_seen(ref: AttachmentRef) -> bool:
    """Whether the file is an image that providers take."""
    return ref.digest is not None and ref.mime_type in SEEN and ref.size <= LARGEST


def _images(messages: tuple[Message, ...]) -> list[AttachmentRef]:
    refs = {
        ref.digest: ref
        for message in messages
        for ref in message.attachments
        if ref.digest is not None and can_be_seen(ref)
    }
    return list(refs.values())
