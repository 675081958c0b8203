"""File contents in memory: the `Files` port for tests and for journals that need not be durable."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from hashlib import sha256

from toolwright.core.errors import NotFound


class MemoryFiles:
    """Keeps file contents until the process ends."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._put_at: dict[str, datetime] = {}

    async def put(self, content: bytes) -> str:
        digest = sha256(content).hexdigest()
        self._contents.setdefault(digest, content)
        self._put_at[digest] = datetime.now(UTC)
        return digest

    async def get(self, digest: str, part: slice | None = None) -> bytes:
        if digest not in self._contents:
            raise NotFound("The bytes of this file are not in the file store.")
        return self._contents[digest] if part is None else self._contents[digest][part]

    async def probe(self) -> None:
        """Do nothing, because memory is always writable."""

    async def tidy(self, before: datetime) -> int:
        """Do nothing, because there are no partial files."""
        return 0

    async def digests(self) -> AsyncIterator[str]:
        for digest in list(self._contents):
            yield digest

    async def remove(self, digest: str, before: datetime) -> bool:
        if self._put_at.get(digest, before) >= before and digest in self._contents:
            return False
        self._contents.pop(digest, None)
        self._put_at.pop(digest, None)
        return True

    async def close(self) -> None:
        self._contents.clear()
        self._put_at.clear()
