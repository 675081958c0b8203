"""Files that a request shows a model: loaded, checked, and the newest of them, by the types that the model reads."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set

from pydantic_ai.models import Model

from toolwright.core import model
from toolwright.core.files import PICTURES, longer_side
from toolwright.core.limits import MAX_TEXT_DOCUMENT
from toolwright.core.results import AttachmentRef
from toolwright.core.text import is_text_type
from toolwright.core.threads.message import Message
from toolwright.core.threads.state_report import is_notice

MAX_PICTURE = 5 * 1024 * 1024 // 4 * 3
"""Bytes of a picture that every provider accepts: 5 MiB in base64."""
MAX_PIXELS = 8_000
"""Pixels of the longer side that every provider accepts."""
LARGE_PIXELS = 2_000
MAX_LARGE, MAX_PICTURES, MAX_BYTES = 20, 100, 15 * 1024 * 1024
"""Pictures in one request, if one of them has more than 2,000 pixels on a side and otherwise; and their bytes."""
CACHE_BYTES = 64 * 1024 * 1024  # bytes cached between requests
MAX_FILE = 10 * 1024 * 1024
"""Bytes of a document, a sound or a video that is sent."""
PDF = "application/pdf"
SOUNDS = frozenset({"audio/wav", "audio/mpeg"})
MORE_SOUNDS = frozenset({"audio/ogg", "audio/flac", "audio/aac", "audio/aiff"})
"""Sounds that models of Google read too."""
VIDEOS = frozenset({"video/mp4", "video/webm", "video/quicktime", "video/mpeg"})
SHOWN_TYPES = frozenset({*PICTURES, PDF, *SOUNDS, *MORE_SOUNDS, *VIDEOS})

Shown = Mapping[str, Mapping[str, bytes]]
"""The bytes of the files that a request shows, by message, digest and type."""
NOTHING_SHOWN: Shown = {}
NO_FILES: Mapping[str, bytes] = {}


class ReadableFiles:
    """Loads the files of a request that the model can read: those of these types, and people's text documents."""

    def __init__(self, types: Set[str]) -> None:
        self._types = types
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def load(self, request: model.ModelRequest) -> Shown:
        """Return the files that are shown. All others are left out: too large, too many, missing or invalid."""
        places = [
            (message.id, ref)
            for message in request.messages
            for ref in message.attachments
            if ref.digest is not None and (self._can_read(ref) or is_persons_text(message, ref))
        ]
        count = _count_within([ref.size for _, ref in reversed(places)], MAX_BYTES)
        contents: dict[str, bytes | None] = {}  # of all that can be shown, not of the whole conversation
        for _, ref in places[len(places) - min(count, MAX_PICTURES) :]:
            if file_key(ref) not in contents:
                contents[file_key(ref)] = await self._content(request, ref)
        while self._size > CACHE_BYTES:
            self._size -= len(self._cache.popitem(last=False)[1])
        return _newest(places, contents)

    async def _content(self, request: model.ModelRequest, ref: AttachmentRef) -> bytes | None:
        key = file_key(ref)
        content = self._cache.pop(key, None)
        if content is None:
            content = await _loaded(request, ref)
            self._size += len(content or b"")
        if content is not None:
            self._cache[key] = content
        return content

    def _can_read(self, ref: AttachmentRef) -> bool:
        return ref.mime_type in self._types and ref.size <= (
            MAX_PICTURE if ref.mime_type in PICTURES else MAX_FILE
        )


def readable_types(native: Model) -> frozenset[str]:
    """Return the types of files that the model reads, by its profile."""
    profile, types = native.profile, set[str]()
    if profile.get("supports_image_input", True):
        types |= PICTURES.keys()
    documents = profile.get("supported_document_media_types")
    if profile.get("supports_document_input", True) and (documents is None or PDF in documents):
        types.add(PDF)
    if profile.get("supports_audio_file_input", True):
        types |= SOUNDS | MORE_SOUNDS if native.system.startswith("google") else SOUNDS
    if profile.get("supports_video_input", True):
        types |= VIDEOS
    if native.system == "openai" and "audio" in native.model_name:  # whose profile has pictures and PDFs
        types -= {*PICTURES, PDF}
    return frozenset(types)


def can_be_shown(ref: AttachmentRef) -> bool:
    """Return whether some model is shown such a file."""
    return ref.digest is not None and (ref.mime_type in SHOWN_TYPES or is_text_type(ref.mime_type))


def is_persons_text(message: Message, ref: AttachmentRef) -> bool:
    """Return whether the file is a text document of a person's message. A tool returns text as its result instead."""
    return (
        message.role == "user"
        and not is_notice(message)
        and is_text_type(ref.mime_type)
        and ref.size <= MAX_TEXT_DOCUMENT
    )


def file_key(ref: AttachmentRef) -> str:
    """Return the key of a file among those that a request shows."""
    return f"{ref.digest} {ref.mime_type}"


async def _loaded(request: model.ModelRequest, ref: AttachmentRef) -> bytes | None:
    """Return the bytes of a file, or None if they are missing, not of this type, or a picture that is too large."""
    content = None if request.load is None else await request.load(ref)
    if content is None:
        return None
    if ref.mime_type in PICTURES:
        return content if 0 < longer_side(content, ref.mime_type) <= MAX_PIXELS else None
    if ref.mime_type == PDF:
        return content if content.startswith(b"%PDF-") else None
    if is_text_type(ref.mime_type):
        return content if content and _is_utf8(content) else None
    return content or None


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def _newest(files: Sequence[tuple[str, AttachmentRef]], contents: Mapping[str, bytes | None]) -> Shown:
    """Return the newest files that one request can have. `files` have the ids of their messages.

    The oldest ones are left out in groups of half the limit, so that the beginning of the requests rarely changes.
    """
    # A file that was loaded and is invalid has no place. Older ones, which were not loaded, keep theirs.
    places = [(id, ref) for id, ref in files if contents.get(file_key(ref), b"") is not None]
    pictures = [(contents.get(file_key(ref)), ref) for _, ref in places if ref.mime_type in PICTURES]
    sides = [longer_side(content, ref.mime_type) for content, ref in pictures if content is not None]
    most = MAX_LARGE if max(sides, default=0) > LARGE_PIXELS else MAX_PICTURES
    first = -(-max(len(places) - most, 0) // (most // 2)) * (most // 2)
    if sum(ref.size for _, ref in places[first:]) > MAX_BYTES:
        first = len(places) - _count_within([ref.size for _, ref in reversed(places)], MAX_BYTES // 2)
    shown: dict[str, dict[str, bytes]] = {}
    for message_id, ref in places[first:]:
        content = contents.get(file_key(ref))
        if content is not None:
            shown.setdefault(message_id, {})[file_key(ref)] = content
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
