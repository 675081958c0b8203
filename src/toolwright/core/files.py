"""Files of a thread: rows that refer to bytes, rules for names and paths (D19), and files as one call sees them."""

import mimetypes
import re
import struct
import unicodedata
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence, Set
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Protocol, TypeAlias

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest, NotFound, TooLarge
from toolwright.core.results import AttachmentRef
from toolwright.core.text import brief, quantity
from toolwright.core.value import Record, Stored, Value, changed

_LOOKED_AT = 4_096  # maximum characters examined of an external name
_TRIED = 16  # numbers tried at once
_DOUBLED = 40  # maximum number of doublings
ATTACHMENTS = "/attachments/"
MAX_NAME = 200  # bytes of one segment in UTF-8, accepted by every file system
MAX_PATH = 1024  # bytes
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$)(\..*)?")
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"|?*/\\]')
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
ANY_TYPE = "application/octet-stream"


class File(Record):
    """A file of a thread.

    Its bytes are in the file store under `digest`, their SHA-256 in hex. `size` is in bytes, `width` and `height` are
    pixels.
    """

    STORED = Stored(key=("thread_id", "folded"), owner="thread_id")

    thread_id: str
    path: str
    id: str
    name: str
    mime_type: str
    size: int
    digest: str
    width: int | None = None
    height: int | None = None
    description: str | None = None
    created_at: datetime

    @property
    def folded(self) -> str:
        """The path as it is compared: two paths of a thread may not differ in case alone."""
        return fold(self.path)

    @property
    def ref(self) -> AttachmentRef:
        """The reference to the file, as an attachment."""
        return AttachmentRef(
            id=self.id,
            path=self.path,
            name=self.name,
            mime_type=self.mime_type,
            size=self.size,
            width=self.width,
            height=self.height,
            description=self.description,
            digest=self.digest,
        )


class FileChange(Value):
    """A change of a file: `new` (its path must be unused), `written` (replaces an existing file), or `deleted`."""

    path: str
    file: File | None = None
    new: bool = False

    @property
    def folded(self) -> str:
        """The path, normalized for comparison."""
        return fold(self.path)


def fold(path: str) -> str:
    """Return the path normalized and case-folded, for comparing paths."""
    folded = unicodedata.normalize("NFKC", path).casefold()
    return unicodedata.normalize("NFKC", folded)


def safe_name(name: str) -> str:
    """Return a name as one path segment that is valid on every system, or `file` if nothing remains."""
    name = name[-_LOOKED_AT:]  # keeps the last segment and the extension
    text = _UNSAFE.sub("_", _last_segment(unicodedata.normalize("NFC", _visible(name))))
    text = text.strip(" .\t\u3000\u00a0").strip().strip(" .") or "file"
    if _RESERVED.fullmatch(text):
        text = f"_{text}"
    return _shortened(text)


async def free_path(
    name: str, existing_of: Callable[[Sequence[str]], Awaitable[Container[str]]], folder: str = ATTACHMENTS
) -> str:
    """Return an unused path for a new file: `chart.png`, or `chart-2.png` if the first exists.

    `existing_of` returns which of some folded paths exist. It is called only a few times, even if many files share the
    name: the first numbers are tried in turn, then growing ones, then numbers between a used and an unused one.
    """

    async def free(numbers: Sequence[int]) -> int | None:
        paths = {number: fold(_numbered(name, number, folder)) for number in numbers}
        existing = await existing_of([*paths.values()])
        return next((number for number in numbers if paths[number] not in existing), None)

    number = await free((1,)) or await free(range(2, _TRIED + 1))
    below = _TRIED
    if number is None:
        number = await free([_TRIED << shift for shift in range(1, _DOUBLED)])
        assert number is not None, "no thread has that many files"
        below = number // 2
    while number - below > _TRIED:
        step = (number - below) // _TRIED
        between = [*range(below + step, number, step)]
        first = await free(between)
        if first is None:
            below = between[-1]
        else:
            number, below = first, first - step
    if number > _TRIED:
        number = await free(range(below + 1, number + 1)) or number
    return _numbered(name, number, folder)


def _numbered(name: str, number: int, folder: str) -> str:
    if number == 1:
        return f"{folder}{name}"
    stem, suffix = _split(name)
    return f"{folder}{_shortened(stem, room=MAX_NAME - len(suffix.encode()) - 12)}-{number}{suffix}"


def checked_path(path: object) -> str:
    """Return a path given by a program, made absolute. Raises `InvalidRequest` if it is not plain and safe."""
    if not isinstance(path, str):
        raise _invalid_value(path, "a path must be text")
    full_path = unicodedata.normalize("NFC", path if path.startswith("/") else f"/{path}")
    segments = full_path[1:].split("/")
    if len(full_path.encode("utf-8", "surrogatepass")) > MAX_PATH:
        raise _invalid_value(path, f"a path has at most {MAX_PATH} bytes")
    for segment in segments:
        if segment in ("", ".", "..") or segment != segment.strip() or len(_bytes(segment)) > MAX_NAME:
            raise _invalid_value(path, "each of its parts is a name, not empty and neither '.' nor '..'")
        if _UNSAFE.search(segment) or _visible(segment) != segment:
            raise _invalid_value(path, "it holds characters that a path may not have")
    return full_path


def clean_mime_type(mime_type: str) -> str:
    """Return a MIME type that is valid in a header; an invalid one becomes `application/octet-stream`."""
    kind = mime_type.partition(";")[0].strip().lower()
    return kind if _MIME_TYPE.fullmatch(kind) else ANY_TYPE


def _visible(text: str) -> str:
    """Remove invisible characters: format and direction characters, private ones, unpaired surrogates."""
    if text.isascii():
        return text
    return "".join(
        each for each in text if unicodedata.category(each) not in ("Cf", "Co", "Cs", "Cn", "Zl", "Zp")
    )


def _last_segment(text: str) -> str:
    parts = [part for part in re.split(r"[/\\]", text) if part.strip(" .")]
    return parts[-1] if parts else ""


def _split(name: str) -> tuple[str, str]:
    suffix = PurePosixPath(name).suffix
    return (name.removesuffix(suffix), suffix) if len(suffix.encode()) <= 20 else (name, "")


def _shortened(text: str, room: int = MAX_NAME) -> str:
    """Shorten a name to at most `room` bytes and keep its extension."""
    if len(_bytes(text)) <= room:
        return text
    stem, suffix = _split(text)
    shortened = _bytes(stem)[: room - len(_bytes(suffix))].decode("utf-8", "ignore")
    return shortened.rstrip(" .") + suffix


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _invalid_value(path: object, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"The path {brief(repr(path), 100)} cannot be used: {why}.", [{"path": "path", "message": why}]
    )


class KnownFiles(Protocol):
    """The files of a thread, read by folded path, because a thread can have very many."""

    async def at(self, folded: str) -> File | None:
        """Return the file at that path, or None."""
        ...

    async def all(self) -> Sequence[File]:
        """Return all known files."""
        ...

    async def existing_paths(self, folded: Sequence[str]) -> Set[str]:
        """Return the paths that already exist."""
        ...


class NoFiles:
    """A thread without files."""

    async def at(self, folded: str) -> File | None:
        return None

    async def all(self) -> Sequence[File]:
        return ()

    async def existing_paths(self, folded: Sequence[str]) -> Set[str]:
        return frozenset()


class FileDrafts:
    """The changes of one call, one for each path, on top of the existing files. Their bytes are stored separately."""

    def __init__(self, known: KnownFiles, changes: Mapping[str, FileChange] | None = None) -> None:
        self._files = known
        self._changes = dict(changes or {})

    def copy(self) -> "FileDrafts":
        """Return a copy for further changes."""
        return FileDrafts(self._files, self._changes)

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The changes of the call, in order."""
        return tuple(self._changes.values())

    async def free_path(self, name: str) -> str:
        """Return an unused path for a new file of that name. A path that this call has deleted still counts as used."""
        return await free_path(safe_name(name), self._existing_paths)

    async def _existing_paths(self, folded: Sequence[str]) -> Set[str]:
        return {path for path in folded if path in self._changes} | await self._files.existing_paths(folded)

    async def files(self) -> list[File]:
        """Return all files as the call sees them, by path."""
        by_path = {fold(file.path): file for file in await self._files.all()}
        for folded, change in self._changes.items():
            if change.file is None:
                by_path.pop(folded, None)
            else:
                by_path[folded] = change.file
        return sorted(by_path.values(), key=lambda file: file.path)

    async def at(self, path: str) -> File | None:
        """Return the file at a path, or None."""
        folded = fold(checked_path(path))
        change = self._changes.get(folded)
        return await self._files.at(folded) if change is None else change.file

    async def get(self, path: str) -> File:
        """Return the file at that path. Raises `NotFound` if there is none."""
        file = await self.at(path)
        if file is None:
            raise NotFound(f"There is no file {brief(repr(path), 200)} in this thread.")
        return file

    def put(self, file: File) -> None:
        """Write a file, and replace an existing one."""
        self._changes[fold(file.path)] = FileChange(path=file.path, file=file)

    def add(self, file: File) -> None:
        """Write a new file at an unused path."""
        self._changes[fold(file.path)] = FileChange(path=file.path, file=file, new=True)

    async def rename_existing(self) -> None:
        """Rename new files whose paths are used by now. `now` returns their new names."""
        new = {folded: change.file for folded, change in self._changes.items() if change.new and change.file}
        for folded in await self._files.existing_paths([*new]) if new else ():
            file = new[folded]
            del self._changes[folded]
            path = await self.free_path(file.name)
            self.add(changed(file, path=path, name=path.rsplit("/", 1)[1]))

    def now(self, file: File) -> File:
        """Return the file under its current name, if this call has created it."""
        mine = (change.file for change in self._changes.values() if change.file is not None)
        return next((each for each in mine if each.id == file.id), file)

    async def drop(self, path: str) -> bool:
        """Delete a file and return whether it existed."""
        file = await self.at(path)
        if file is not None:
            self._changes[fold(file.path)] = FileChange(path=file.path)
        return file is not None

    async def below(self, folder: str) -> Sequence[AttachmentRef]:
        """Return the files in a folder and its subfolders."""
        if not isinstance(folder, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise InvalidRequest(f"A folder must be text, not {brief_value(folder)}.")
        if folder.strip("/") == "":
            return [file.ref for file in await self.files()]
        start = fold(f"{checked_path(folder.rstrip('/'))}/")
        return [file.ref for file in await self.files() if fold(file.path).startswith(start)]

    async def matching(self, pattern: str) -> Sequence[AttachmentRef]:
        """Return the files whose path, or name if the pattern has no slash, matches."""
        if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise InvalidRequest(f"A pattern must be text, not {brief_value(pattern)}.")
        folded = fold(pattern)
        if "/" not in pattern:
            return [file.ref for file in await self.files() if fnmatchcase(fold(file.name), folded)]
        folded = folded if folded.startswith("/") else f"/{folded}"
        return [file.ref for file in await self.files() if fnmatchcase(fold(file.path), folded)]


def written_file(
    thread_id: str,
    path: str,
    size: int,
    digest: str,
    mime_type: str | None,
    *,
    new_id: Callable[[str], str],
    at: datetime,
) -> File:
    """Return the row of a file written by a program. A missing MIME type is derived from its name."""
    full_path = checked_path(path)
    if not isinstance(mime_type, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise InvalidRequest(f"A MIME type must be text, not {brief_value(mime_type)}.")
    kind = mime_type or mimetypes.guess_type(full_path)[0] or ANY_TYPE
    return File(
        thread_id=thread_id,
        path=full_path,
        id=new_id("fil"),
        name=full_path.rsplit("/", 1)[1],
        mime_type=clean_mime_type(kind),
        size=size,
        digest=digest,
        created_at=at,
    )


def as_bytes(content: object, limit: int) -> bytes:
    """Return a file's content as bytes. Raises `TooLarge` beyond `limit` bytes, `InvalidRequest` for other types."""
    if isinstance(content, str):
        try:
            content = content.encode()
        except UnicodeEncodeError:
            raise InvalidRequest("The text of a file must not hold lone surrogates.") from None
    if not isinstance(content, bytes | bytearray):
        raise InvalidRequest(f"A file must be bytes or text, not {brief_value(content)}.")
    if len(content) > limit:
        raise TooLarge(f"A file must have at most {quantity(limit, 'byte')}, not {len(content)}.")
    return bytes(content)


Sides: TypeAlias = tuple[int, int]


def longer_side(content: bytes, mime_type: str) -> int:
    """Return the pixels of the longer side of a picture, read from its header, or 0 if it is none of this type."""
    try:
        sides = PICTURES[mime_type](content)
        return max(sides) if min(sides) else 0
    except (struct.error, IndexError):
        return 0


def _png(content: bytes) -> Sides:
    is_png = content[:8] == b"\x89PNG\r\n\x1a\n" and content[12:16] == b"IHDR"
    return struct.unpack_from(">II", content, 16) if is_png else (0, 0)


def _gif(content: bytes) -> Sides:
    return struct.unpack_from("<HH", content, 6) if content[:6] in (b"GIF87a", b"GIF89a") else (0, 0)


def _jpeg(content: bytes) -> Sides:
    place = 2
    if content[:3] != b"\xff\xd8\xff":
        return 0, 0
    while content[place] == 0xFF:  # a segment: its marker and its length, or a fill byte
        marker = content[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame: precision, height, width
            height, width = struct.unpack_from(">HH", content, place + 5)
            return width, height
        if marker == 0xFF:
            place += 1
        else:
            place += 2 + int(struct.unpack_from(">H", content, place + 2)[0])
    return 0, 0


def _webp(content: bytes) -> Sides:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return 0, 0
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
            return 0, 0


PICTURES: Mapping[str, Callable[[bytes], Sides]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
"""Functions that read the sides of a picture from its header, by the types of pictures that providers accept."""
