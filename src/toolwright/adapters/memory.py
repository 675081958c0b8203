"""The ports `Cipher`, `FileStore` and `Sandbox` in memory, for tests and for journals that need not be durable."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TypeAlias

from toolwright.adapters.sandbox.handle import CodeExecutions, Handle, Log
from toolwright.core.env.env import derived_key
from toolwright.core.errors import CannotUnseal, NotFound
from toolwright.core.state.sandbox import CodeLimits, CodeOptions, CodeResult, admit


class MemoryCipher:
    """Stores the texts and returns tokens for them."""

    key: str | None = "memory"
    keys = ("memory",)

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._secret = secrets.token_bytes(32)

    def derived(self, purpose: str) -> Sequence[bytes]:
        return [derived_key(self._secret, purpose)]

    def seal(self, text: str) -> tuple[str, str]:
        token = secrets.token_urlsafe(16)
        self._texts[token] = text
        return token, "memory"

    def open(self, sealed: str) -> str:
        if sealed not in self._texts:
            raise CannotUnseal
        return self._texts[sealed]


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


CodeAnswer: TypeAlias = Callable[[str, CodeOptions], Awaitable[CodeResult]]


async def _nothing(source: str, options: CodeOptions) -> CodeResult:
    return CodeResult(status="success")


class MemorySandbox:
    """A sandbox for tests. `answer` receives the source and its options; `asked` are the requested executions."""

    def __init__(self, answer: CodeAnswer = _nothing, limits: CodeLimits | None = None) -> None:
        self.asked: list[tuple[str, CodeOptions]] = []
        self._answer = answer
        self._limits = limits or CodeLimits()
        self._runs = CodeExecutions()

    def start(self, source: str, options: CodeOptions) -> Handle:
        """Return the predefined result instead of running the code. Raises `InvalidRequest` as other sandboxes do."""
        source, options = admit(source, options, self._limits)
        self.asked.append((source, options))

        async def work(log: Log) -> CodeResult:
            await asyncio.sleep(0)
            return await self._answer(source, options)

        assert options.timeout is not None
        return self._runs.start(work, Log(self._limits.logs, str), options.timeout)

    async def close(self) -> None:
        """End all executions that wait for their answer."""
        await self._runs.close()
