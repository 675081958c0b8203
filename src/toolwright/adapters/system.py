"""The system: its clock, the cluster's clock, generation of time-ordered ids, and the trusted certificates."""

import asyncio
import hashlib
import itertools
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

from toolwright.core.errors import DISTRIBUTION, DefinitionError, StoreError
from toolwright.core.text import brief, sentence

COMPARE_EVERY = 5.0  # seconds
SLOW = 1.0  # seconds
DELAY = timedelta(milliseconds=50)
DRIFT = 1e-4  # seconds per second by which two clocks can diverge
# Random parts of the next ids, drawn in batches: one system call per id would take longer than the rest.
_randoms: list[str] = []
CERT_FILE, CERT_DIR = "SSL_CERT_FILE", "SSL_CERT_DIR"
"""Variables that name the certificates to trust instead of the system's. The folder counts only without a file."""


class SystemClock:
    """The machine's clock. Its functions are built in, because each step of a run reads the time several times."""

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ClusterClock(SystemClock):
    """Clock of a cluster's database, continued with the monotonic clock and independent of the machine's clock setting.

    Until the first comparison it is the machine's clock.
    """

    def __init__(self) -> None:
        self._compared: tuple[datetime, float] | None = None
        self._took = 0.0  # response time of that comparison in seconds, which bounds its error

    def now(self) -> datetime:
        compared = self._compared
        if compared is None:
            return datetime.now(UTC)
        then, at = compared
        return then + timedelta(seconds=time.monotonic() - at)

    def moved(self, ahead: timedelta, took: float = 0.0) -> None:
        """Set how far the database's clock is ahead of the machine's, measured by an answer that took `took` seconds.

        A small difference is applied only if this answer was at least as fast as the one in use.
        """
        now, at = datetime.now(UTC) + ahead, time.monotonic()
        age = 0.0 if self._compared is None else at - self._compared[1]
        is_better = self._compared is None or took <= self._took + age * DRIFT
        if is_better or abs(now - self.now()) > DELAY:
            self._compared, self._took = (now, at), took

    async def compare(self, database_time: Callable[[], Awaitable[datetime]]) -> None:
        """Set the clock to the database's time. Answers that took longer than a second are ignored as too imprecise."""
        began = time.monotonic()
        database_now = await database_time()
        took = time.monotonic() - began
        if self._compared is None or took < SLOW:
            self.moved(database_now + timedelta(seconds=took / 2) - datetime.now(UTC), took)

    async def follow(self, database_time: Callable[[], Awaitable[datetime]]) -> None:
        """Set the clock every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(COMPARE_EVERY)
            with suppress(StoreError):  # during an outage the clock continues by itself
                await self.compare(database_time)


_number = itertools.count(int.from_bytes(os.urandom(3)))
os.register_at_fork(after_in_child=_randoms.clear)


def new_id(prefix: str) -> str:
    """Return `prefix_` and 27 hex characters: 11 of time in milliseconds, 6 of a counter, 10 random.

    Ids of a process are increasing, also within a millisecond, except once in 16 million.
    """
    try:
        random = _randoms.pop()
    except IndexError:
        random = _draw()
    return f"{prefix}_{time.time_ns() // 1_000_000:011x}{next(_number) & 0xFFFFFF:06x}{random}"


def _draw() -> str:
    drawn = os.urandom(5 * 200).hex()
    first, *others = map("".join, zip(*[iter(drawn)] * 10, strict=True))  # ten characters each
    _randoms.extend(others)  # for the next caller, in any thread
    return first


@cache
def build_version() -> str:
    """Return the installed version with the first digits of a digest of its code, such as `0.1.0+0f31a24a`.

    The same code has the same version on every machine, and other code another one, also between two releases.
    """
    folder, digest = Path(__file__).parents[1], hashlib.sha256()
    for module in sorted(folder.rglob("*.py")):
        digest.update(f"{module.relative_to(folder).as_posix()}\0".encode() + module.read_bytes())
    return f"{version(DISTRIBUTION)}+{digest.hexdigest()[:8]}"


def certificates(environment: Mapping[str, str]) -> str | None:
    """Return the variable that names the trusted certificates, with its path; None for the system's.

    Raises `DefinitionError` if they cannot be read.
    """
    file, folders = environment.get(CERT_FILE), environment.get(CERT_DIR)
    if file:
        try:
            ssl.create_default_context(cafile=file)
        except ssl.SSLError as error:
            raise _unusable(CERT_FILE, file, "it holds no certificates in PEM format") from error
        except OSError as error:
            raise _unusable(CERT_FILE, file, error.strerror or "it cannot be opened") from error
        return f"{CERT_FILE}={file}"
    if not folders:
        return None
    if not any(Path(each).is_dir() for each in folders.split(os.pathsep)):
        raise _unusable(CERT_DIR, folders, "it is not a folder")
    return f"{CERT_DIR}={folders}"


def check_certificates() -> None:
    """Raise `DefinitionError` if the certificates to trust cannot be read: nothing could be reached over TLS."""
    certificates(os.environ)


def _unusable(variable: str, path: str, why: str) -> DefinitionError:
    message = f"The certificates that {variable} names cannot be read: {brief(path, 300)!r}: {why}"
    return DefinitionError(sentence(message))
