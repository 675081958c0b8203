"""Files as one call sees them: the files of its thread, and the call's own uncommitted changes."""

import mimetypes
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Protocol

from toolwright.core.broken_rows import all_rows
from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest, NotFound, TooLarge
from toolwright.core.files.file import (
    ANY_TYPE,
    File,
    FileChange,
    checked_path,
    clean_mime_type,
    fold,
    free_path,
    safe_name,
)
from toolwright.core.results.content import AttachmentRef
from toolwright.core.text import brief, quantity
from toolwright.core.value import changed


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
        by_path = {fold(file.path): file for file in all_rows(await self._files.all())}
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
        raise InvalidRequest(f"A file must be bytes or text, not a {type(content).__name__}.")
    if len(content) > limit:
        raise TooLarge(f"A file must have at most {quantity(limit, 'byte')}, not {len(content)}.")
    return bytes(content)
