"""Pictures of a conversation: which ones a request shows, within the limits of all providers."""

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from toolwright.core import model
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.message import Message

LARGEST = 5 * 1024 * 1024 // 4 * 3
"""Bytes of a picture that every provider accepts: 5 MiB in base64."""
MOST_PIXELS = 8_000
"""Pixels of the longer side that every provider accepts."""
LARGE_PIXELS = 2_000
MOST_LARGE, MOST_PICTURES, MOST_BYTES = 20, 100, 15 * 1024 * 1024
"""Pictures in one request, if one of them has more than 2,000 pixels on a side and otherwise; and their bytes."""
CACHE_BYTES = 64 * 1024 * 1024  # bytes cached between requests

Shown = Mapping[str, Mapping[str, bytes]]
"""The bytes of the pictures that a request shows, by message and digest."""
NOTHING_SHOWN: Shown = {}
NO_PICTURES: Mapping[str, bytes] = {}


class Pictures:
    """Loads the pictures that a request's messages refer to."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def load(self, request: model.ModelRequest) -> Shown:
        """Return the pictures that are shown. All others are left out: too large, too many, missing or invalid."""
        if not any(message.attachments for message in request.messages):
            return {}
        contents: dict[str, bytes] = {}
        images = _images(request.messages)
        for ref in images:
            assert ref.digest is not None, "checked by _images"
            picture = self._cache.pop(ref.digest, None)
            if picture is None:
                picture = await _loaded(request, ref)
                self._size += len(picture or b"")
            if picture is not None:
                contents[ref.digest] = self._cache[ref.digest] = picture
        while self._size > CACHE_BYTES:
            self._size -= len(self._cache.popitem(last=False)[1])
        return _newest(request.messages, images, contents)


def can_be_seen(ref: AttachmentRef) -> bool:
    """Return whether the file is a picture that providers accept."""
    return ref.digest is not None and ref.mime_type in _MEASURES and ref.size <= LARGEST


def _images(messages: Sequence[Message]) -> list[AttachmentRef]:
    return list(
        {
            ref.digest: ref
            for message in messages
            for ref in message.attachments
            if ref.digest is not None and can_be_seen(ref)
        }.values()
    )


async def _loaded(request: model.ModelRequest, ref: AttachmentRef) -> bytes | None:
    """Return the bytes of a picture, or None if they are missing, not a picture of this type, or too large."""
    content = None if request.load is None else await request.load(ref)
    if content is None:
        return None
    return content if 0 < longer_side(content, ref.mime_type) <= MOST_PIXELS else None


def _newest(
    messages: Sequence[Message], images: Sequence[AttachmentRef], contents: Mapping[str, bytes]
) -> Shown:
    """Return the newest pictures that one request can have.

    The oldest ones are left out in groups of half the limit, so that the beginning of the requests rarely changes.
    """
    places = [
        (message.id, ref.digest, len(contents[ref.digest]))
        for message in messages
        for ref in message.attachments
        if ref.digest is not None and ref.digest in contents and can_be_seen(ref)
    ]
    sides = [
        longer_side(contents[ref.digest or ""], ref.mime_type) for ref in images if ref.digest in contents
    ]
    is_large = max(sides, default=0) > LARGE_PIXELS
    most = MOST_LARGE if is_large else MOST_PICTURES
    first = -(-max(len(places) - most, 0) // (most // 2)) * (most // 2)
    if sum(size for _, _, size in places[first:]) > MOST_BYTES:
        first = len(places) - _count_within([size for _, _, size in reversed(places)], MOST_BYTES // 2)
    shown: dict[str, dict[str, bytes]] = {}
    for message_id, digest, _ in places[first:]:
        shown.setdefault(message_id, {})[digest] = contents[digest]
    return shown


def _count_within(sizes: Iterable[int], most: int) -> int:
    """Return how many of the sizes, from the first one, have a sum of at most `most`; at least 1."""
    count = total = 0
    for size in sizes:
        total += size
        if total > most and count:
            break
        count += 1
    return count


def longer_side(content: bytes, mime_type: str) -> int:
    """Return the pixels of the longer side of a picture, read from its header, or 0 if it is none of this type."""
    try:
        sides = _MEASURES[mime_type](content)
        return max(sides) if min(sides) else 0
    except (struct.error, IndexError):
        return 0


_NONE = (0, 0)


def _png(content: bytes) -> tuple[int, int]:
    is_png = content[:8] == b"\x89PNG\r\n\x1a\n" and content[12:16] == b"IHDR"
    return struct.unpack_from(">II", content, 16) if is_png else _NONE


def _gif(content: bytes) -> tuple[int, int]:
    return struct.unpack_from("<HH", content, 6) if content[:6] in (b"GIF87a", b"GIF89a") else _NONE


def _jpeg(content: bytes) -> tuple[int, int]:
    place = 2
    if content[:3] != b"\xff\xd8\xff":
        return _NONE
    while content[place] == 0xFF:  # a segment: its marker and its length, or a fill byte
        marker = content[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame: precision, height, width
            height, width = struct.unpack_from(">HH", content, place + 5)
            return width, height
        if marker == 0xFF:
            place += 1
        else:
            place += 2 + int(struct.unpack_from(">H", content, place + 2)[0])
    return _NONE


def _webp(content: bytes) -> tuple[int, int]:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return _NONE
    match content[12:16]:
        case b"VP8X":
            return (
                1 + int.from_bytes(content[24:27], "little"),
                1 + int.from_bytes(content[27:30], "little"),
            )
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", content, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", content, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return _NONE


_MEASURES: Mapping[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
