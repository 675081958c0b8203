"""Lock file next to the database: only one process at a time executes the runs of a journal."""

import fcntl
import os
from pathlib import Path

from toolwright.core.errors import StoreError
from toolwright.core.text import sentence

_SHARED_MEMORY = (
    128  # the byte of `<database>-shm` that every connection of SQLite locks while the file is open
)


class NoLock:
    """Lock of a journal that only one process can access. `acquire` always succeeds."""

    def __init__(self) -> None:
        self.held = False

    async def acquire(self) -> bool:
        self.held = True
        return True

    async def release(self) -> None:
        self.held = False


class NeverLock(NoLock):
    """Lock of a process that executes no runs. `acquire` always fails."""

    async def acquire(self) -> bool:
        return False


class FileLock:
    """An OS lock on `<database>.lock`, released when the process ends. It cannot be lost."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = beside(database, "lock")
        self._file: int | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    async def acquire(self) -> bool:
        """Try once to acquire the lock. Raises `StoreError` if the lock file cannot be used."""
        if self._file is None:
            self._file = _lock(self._path, self._database)
        return self._file is not None

    async def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_open(database: Path) -> bool:
    """Return whether another process has the SQLite file open. Nothing is changed."""
    try:
        descriptor = os.open(f"{database.resolve()}-shm", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _SHARED_MEMORY)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(descriptor)
    return False


def holder(path: Path) -> str:
    """Describe the process that holds the file's lock, by its id if the system provides it."""
    inode = beside(path, "lock").stat().st_ino
    try:
        held = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return "another process"
    for fields in map(str.split, held):  # "1: FLOCK ADVISORY WRITE <pid> <device>:<inode> 0 EOF"
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            return f"process {fields[4]}"
    return "another process"


def beside(database: Path, ending: str) -> Path:
    """Return the file `<database>.<ending>` next to the real database file. All links to one database share it."""
    real = database.resolve()
    return real.with_name(f"{real.name}.{ending}")


def give_to_owner(descriptor: int, database: Path) -> None:
    """Change an open file's owner to the database's owner if root created it, so that the owner can open it too."""
    if os.geteuid() == 0 and database.exists():
        owner = database.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _lock(path: Path, database: Path) -> int | None:
    try:
        # O_CLOEXEC: a child process that inherited the descriptor would hold the lock after this one has ended.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        give_to_owner(file, database)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except OSError as error:
        os.close(file)
        raise _unusable(path, error) from error
    return file


def _unusable(path: Path, error: OSError) -> StoreError:
    return StoreError(sentence(f"The lock file {str(path)!r} cannot be used: {error.strerror}"))
