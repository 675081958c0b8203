"""File contents in an object store: a folder or S3, with removal of old and of partial files.

Objects are named by the SHA-256 of their bytes and are never modified, so that neither a crash nor a race can change
one. An object left behind by a dead process is identical to a new one.

The library writes the bytes of `sha256/ab/abcd…` to `sha256/ab/abcd…#1` and links the complete file to its final name.
So a partial file is never mistaken for a complete one. This module only removes partial files.

Old files are first renamed and then checked again: if a process has renewed a file in the meantime, it is restored. A
process that comes later does not find the file and writes it again.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError, PreconditionError
from obstore.store import LocalStore, ObjectStore, S3Store

from toolwright.core.errors import NotFound, StoreError
from toolwright.core.text import brief, sentence

ASIDE = "#0"
"""Suffix of a file that is being removed. Writers number their parts from 1, so no part has this suffix."""
FOLDER, PROBE = "sha256", "toolwright-probe"
PROBE_BYTES = 32 * 1024  # the size of the journal's own probe, because a full disk can still accept less


def renew(path: Path) -> bool:
    """Set the file's modification time to now. Return False if the file does not exist."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def bring_back(aside: Path) -> None:
    """Restore a file that a killed process has renamed, because it could have been renewed just before."""
    with suppress(FileNotFoundError):  # the process that renamed it is alive
        with suppress(FileExistsError):  # it was written again in the meantime
            os.link(aside, aside.with_name(aside.name.removesuffix(ASIDE)))
        aside.unlink()


def remove_old(path: Path, before: float) -> bool:
    """Delete a file not modified since `before` (seconds since 1970). Return whether it no longer exists."""
    try:
        if path.stat().st_mtime >= before:
            return False
        aside = path.with_name(path.name + ASIDE)
        path.rename(aside)  # from now on a writer creates a new file instead of renewing this one
        if aside.stat().st_mtime >= before:  # it was renewed between the first check and the rename
            with suppress(FileExistsError):  # it was written again in the meantime
                os.link(aside, path)
            aside.unlink()
            return False
        aside.unlink()
    except FileNotFoundError:
        return True
    return True


_PART = re.compile("[0-9a-f]{64}#[0-9]+")
_PREFIX = re.compile("[0-9a-f]{2}")


def remove_leftovers(folder: Path, before: float) -> int:
    """Remove parts not written since `before`, in seconds since 1970. Returns their number. Raises `OSError`.

    Every write updates the part's modification time, so an old part has no writer. Files that a killed process was
    removing are restored. They are removed again if they are not needed.
    """
    count = 0
    for part in _parts(folder):
        if part.name.endswith(ASIDE):
            bring_back(Path(part))
            continue
        with suppress(FileNotFoundError):  # its writer was still active
            if part.stat(follow_symlinks=False).st_mtime < before:
                Path(part).unlink()
                count += 1
    return count


def _parts(folder: Path) -> Iterator["os.DirEntry[str]"]:
    for each in (folder, folder / FOLDER):
        yield from (entry for entry in _entries(each) if entry.name.startswith(PROBE) and _is_file(entry))
    for inner in _entries(folder / FOLDER):
        if _PREFIX.fullmatch(inner.name):
            yield from (entry for entry in _entries(inner) if _PART.fullmatch(entry.name) and _is_file(entry))


def _entries(folder: "Path | os.DirEntry[str]") -> Iterator["os.DirEntry[str]"]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries


def _is_file(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file(follow_symlinks=False)


_ERRORS = (BaseError, OSError, ValueError)
YOUNG = timedelta(minutes=5)  # far shorter than the time for which unreferenced bytes are kept
_DIGEST = re.compile("[0-9a-f]{64}")
_ALREADY_EXISTS = (AlreadyExistsError, FileExistsError, PreconditionError)


class ObjectFiles:
    """The `FileStore` port over an object store, which is opened when first needed.

    With a `folder` every object is synced to disk before `put` returns.
    """

    def __init__(self, opening: Callable[[], ObjectStore], folder: Path | None = None) -> None:
        self._opening = opening
        self._opened: ObjectStore | None = None
        self._folder = folder

    async def put(self, content: bytes) -> str:
        digest = await asyncio.to_thread(lambda: sha256(content).hexdigest())
        key = _key(digest)
        try:
            while not (await self._create(key, content) or await self._renew(key, content)):
                continue  # it existed, but was removed before its time could be renewed
        except _ERRORS as error:
            raise StoreError(f"The file store cannot be written: {_first_line(error)}") from error
        return digest

    async def _create(self, key: str, content: bytes) -> bool:
        """Write the object to the disk if it does not exist. Return whether it was written."""
        try:
            await obstore.put_async(self._store(), key, content, mode="create", use_multipart=False)
        except _ALREADY_EXISTS:
            return False
        if self._folder is not None:
            await asyncio.to_thread(_sync, self._folder / key)
        return True

    async def _renew(self, key: str, content: bytes) -> bool:
        """Renew the time of an existing object; return False if it does not exist. A bucket needs a second write."""
        if self._folder is not None:
            return await asyncio.to_thread(renew, self._folder / key)
        try:
            head = await obstore.head_async(self._store(), key)
        except FileNotFoundError:  # just removed
            return False
        if datetime.now(UTC) - head["last_modified"] > YOUNG:
            await obstore.put_async(self._store(), key, content, use_multipart=False)
        return True

    async def get(self, digest: str, part: slice | None = None) -> bytes:
        if not _DIGEST.fullmatch(digest):
            raise NotFound("The bytes of this file are not in the file store.")
        try:
            if part is not None:
                bounds = {"start": part.start, "end": part.stop}
                return bytes(await obstore.get_range_async(self._store(), _key(digest), **bounds))
            response = await obstore.get_async(self._store(), _key(digest))
            return bytes(await response.bytes_async())
        except (FileNotFoundError, InvalidPathError) as error:
            raise NotFound("The bytes of this file are not in the file store.") from error
        except _ERRORS as error:
            raise StoreError(f"The file store cannot be read: {_first_line(error)}") from error

    async def probe(self) -> None:
        """Try to write. A missing folder is not created: its nearest existing parent is tried."""
        if self._folder is not None:
            return await asyncio.to_thread(_try, self._folder)
        try:
            await obstore.put_async(self._store(), PROBE, b"", use_multipart=False)
        except _ERRORS as error:
            raise StoreError(f"The file store cannot be written: {_first_line(error)}") from error
        with suppress(*_ERRORS):  # without delete permission the same empty object remains
            await obstore.delete_async(self._store(), PROBE)
        return None

    async def tidy(self, before: datetime) -> int:
        """Remove partial files of killed processes from a folder.

        A bucket has none, because its objects are always complete.
        """
        if self._folder is None:
            return 0
        try:
            return await asyncio.to_thread(remove_leftovers, self._folder, before.timestamp())
        except OSError as error:
            raise StoreError(
                sentence(f"The files folder {str(self._folder)!r} cannot be tidied up: {error.strerror}")
            ) from error

    async def digests(self) -> AsyncIterator[str]:
        if self._folder is not None and not self._folder.is_dir():  # created with the first file
            return
        try:
            async for page in obstore.list(self._store(), FOLDER):  # pyright: ignore[reportUnknownMemberType]  # a type of arrow, which is not installed
                for each in page:
                    name = each["path"].rpartition("/")[2]
                    if _DIGEST.fullmatch(name):
                        yield name
        except _ERRORS as error:
            raise StoreError(f"The file store cannot be read: {_first_line(error)}") from error

    async def remove(self, digest: str, before: datetime) -> bool:
        """Remove old bytes.

        In a folder, bytes stored again at the same time are kept; in a bucket only their age counts.
        """
        if not _DIGEST.fullmatch(digest):
            return True
        try:
            if self._folder is not None:
                return await asyncio.to_thread(remove_old, self._folder / _key(digest), before.timestamp())
            head = await obstore.head_async(self._store(), _key(digest))
            if head["last_modified"] >= before:
                return False
            await obstore.delete_async(self._store(), _key(digest))
        except (FileNotFoundError, InvalidPathError):
            return True
        except _ERRORS as error:
            raise StoreError(f"The file store cannot be written: {_first_line(error)}") from error
        return True

    async def close(self) -> None:
        """Do nothing, because nothing is held open."""

    def _store(self) -> ObjectStore:
        if self._opened is None:
            self._opened = self._opening()
        return self._opened


def open_folder(folder: Path) -> ObjectFiles:
    """Return files in a folder, which is created with the first file, readable by its owner only."""

    def created() -> LocalStore:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return LocalStore(folder)

    return ObjectFiles(created, folder)


def open_bucket(url: str) -> ObjectFiles:
    """Open files in S3 at `s3://bucket/prefix`. Keys, region and endpoint are taken from the AWS environment."""
    return ObjectFiles(lambda: S3Store.from_url(url))


def _sync(path: Path) -> None:
    """Flush a file and its folder entry to disk, so that they survive a power loss."""
    for each in (path, path.parent):
        opened = os.open(each, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _try(folder: Path) -> None:
    """Write a file to the folder, or to its nearest existing parent, and delete it."""
    try:
        existing = next(
            each for each in (folder / FOLDER, folder, *folder.absolute().parents) if each.exists()
        )
        with NamedTemporaryFile(dir=existing, prefix=PROBE) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
    except OSError as error:
        raise StoreError(
            sentence(f"The files folder {str(folder)!r} cannot be written: {error.strerror}")
        ) from error


def _key(digest: str) -> str:
    return f"{FOLDER}/{digest[:2]}/{digest}"


def _first_line(error: Exception) -> str:
    """Return the first line of the library's message."""
    lines = str(error).strip().splitlines()
    return brief(lines[0] if lines else type(error).__name__, 300)
