"""The `Cipher` port in memory: encrypted text differs from plain text and can be decrypted only in this process."""

import secrets

from toolwright.core.errors import CannotUnseal


class MemoryCipher:
    """Stores the texts and returns tokens for them."""

    key: str | None = "memory"
    keys = ("memory",)

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def seal(self, text: str) -> tuple[str, str]:
        token = secrets.token_urlsafe(16)
        self._texts[token] = text
        return token, "memory"

    def open(self, sealed: str) -> str:
        if sealed not in self._texts:
            raise CannotUnseal
        return self._texts[sealed]
