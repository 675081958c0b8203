"""Unread answers and unfinished bodies: what clients do not read or send holds a bounded number of bytes in all."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from anyio import CancelScope
from anyio.lowlevel import RunVar
from starlette.types import Scope

from toolwright.core.limits import PAGE_BYTES

MOST_UNREAD = 64 * PAGE_BYTES  # bytes, of all callers together
CUT = "toolwright.cut"
"""The extension by which a server offers to cut a connection off at once."""
CALLER = "toolwright.caller"
"""The name in a request's scope of its caller's label, once the caller is known."""


class Holder(Protocol):
    """Holds bytes until it ends; `cancel` ends it early."""

    def cancel(self) -> object: ...


class UnreadAnswers:
    """Bounds the bytes of the large answers that wait for their readers, or of bodies that wait for their ends.

    If a new answer would be one too many, the oldest answers of the caller that holds the most bytes are cut off until
    there is room. An answer that is larger than the bound is held alone.
    """

    def __init__(self, most: int = MOST_UNREAD) -> None:
        self._most = most
        self._bytes: dict[str, int] = {}
        self._held: dict[str, dict[Holder, int]] = {}

    @contextmanager
    def hold(self, scope: Scope, size: int) -> Generator["Held"]:
        """Count an answer of `size` bytes in this block, which ends early if the answer must make room."""
        caller = caller_of(scope)
        block = CancelScope()
        self.add(caller, block, size)
        try:
            with block:
                yield Held(self, caller, block)
        finally:
            self.remove(caller, block)

    def resize(self, caller: str, block: Holder, size: int) -> None:
        """Count an answer that is held with another size."""
        if self.remove(caller, block):
            self.add(caller, block, size)

    def add(self, caller: str, block: Holder, size: int) -> None:
        """Count bytes of the caller, for which others make room."""
        self._make_room(caller, size)
        self._held.setdefault(caller, {})[block] = size
        self._bytes[caller] = self._bytes.get(caller, 0) + size

    def _make_room(self, caller: str, size: int) -> None:
        """Cut off answers until the caller's new one fits, or none is left."""
        while self._held and sum(self._bytes.values()) + size > self._most:
            most = max(self._held, key=lambda each: self._bytes[each] + (size if each == caller else 0))
            oldest = next(iter(self._held[most]))
            oldest.cancel()
            self.remove(most, oldest)

    def remove(self, caller: str, block: Holder) -> bool:
        """Count the answer no more. Return False if it has made room before."""
        held = self._held.get(caller, {})
        if block not in held:
            return False
        self._bytes[caller] -= held.pop(block)
        if not held:
            del self._held[caller], self._bytes[caller]
        return True


class Held:
    """One answer that is held."""

    def __init__(self, answers: UnreadAnswers, caller: str, block: CancelScope) -> None:
        self._answers = answers
        self._block = block
        self.caller = caller

    @property
    def has_made_room(self) -> bool:
        """Return whether the answer was ended early."""
        return self._block.cancelled_caught

    def resize(self, size: int) -> None:
        """Count the answer with another size."""
        self._answers.resize(self.caller, self._block, size)


UNREAD = RunVar[UnreadAnswers]("toolwright_unread_answers")
"""The unread answers of an event loop."""


def unread_answers() -> UnreadAnswers:
    """Return the unread answers of the event loop."""
    try:
        return UNREAD.get()
    except LookupError:
        answers = UnreadAnswers()
        UNREAD.set(answers)
        return answers


BODIES = RunVar[UnreadAnswers]("toolwright_unfinished_bodies")
"""The unfinished bodies of an event loop."""


def unfinished_bodies() -> UnreadAnswers:
    """Return the bodies of the event loop's requests that have not arrived whole."""
    try:
        return BODIES.get()
    except LookupError:
        bodies = UnreadAnswers()
        BODIES.set(bodies)
        return bodies


def cut_off(scope: Scope) -> None:
    """Cut the connection off, if the server can: an orderly end would wait for the reader."""
    cut = scope.get("extensions", {}).get(CUT)
    if cut is not None:
        cut()


def caller_of(scope: Scope) -> str:
    """Return the label of the caller, or the address if the caller is not known."""
    label, client = scope.get(CALLER), scope.get("client")
    if isinstance(label, str) and label:
        return label
    return client[0] if client else "-"
