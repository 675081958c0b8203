"""Who drains a journal: one process at a time, by a lock beside the database."""

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Protocol


class DrainLock(Protocol):
    """A lock that one process holds; `lost` is set when it is gone although nobody released it."""

    lost: asyncio.Event

    @property
    def held(self) -> bool: ...

    async def acquire(self) -> bool:
        """Try once, without waiting."""
        ...

    async def release(self) -> None: ...


class NoLock:
    """For a journal that only one process can see: always to be had."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.held = False

    async def acquire(self) -> bool:
        self.held = True
        return True

    async def release(self) -> None:
        self.held = False


class FileLock:
    """An OS lock on `<database>.lock`, which ends with the process. It cannot be lost."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}.lock")
        self._file: int | None = None
        self.lost = asyncio.Event()

    @property
    def held(self) -> bool:
        return self._file is not None

    async def acquire(self) -> bool:
        if self._file is None:
            self._file = _lock(self._path)
        return self._file is not None

    async def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _lock(path: Path) -> int | None:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
