"""Logs of code, up to a limit of bytes."""

from collections.abc import Callable
from typing import cast, get_args

from toolwright.core.state.sandbox import CodeLog, LogLevel
from toolwright.core.text import brief, quantity

_LEVELS = frozenset(get_args(LogLevel))
_EACH = 16  # bytes that an entry counts for beside its text


class Log:
    """Keeps the first `most` bytes; `clean` puts the names that people know into texts."""

    def __init__(self, most: int, clean: Callable[[str], str]) -> None:
        self._most = most
        self._room = most
        self._clean = clean
        self._entries: list[CodeLog] = []

    @property
    def entries(self) -> tuple[CodeLog, ...]:
        """Log entries in order; where some were dropped, the last entry says so."""
        if self._room >= 0:
            return tuple(self._entries)
        note = f"The code has logged more than {quantity(self._most, 'byte')}; the rest is not kept."
        return (*self._entries, CodeLog(level="warn", text=note))

    def add(self, level: object, text: str) -> None:
        """Keep the text if there is room, cut where there is some."""
        if self._room < 0:
            return
        written = text.encode(errors="replace")  # half a character is none that anybody can keep
        room, size, text = self._room, len(written) + _EACH, written.decode()
        self._room -= size
        if size > room:
            text = brief(text, max(0, room // 4))
        known = cast("LogLevel", level) if isinstance(level, str) and level in _LEVELS else "log"
        self._entries.append(CodeLog(level=known, text=self._clean(text)))
