"""The messages that a peer has received: requests and notifications with their headers, and the ends of its calls."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Heard:
    """One message: its method, its parameters, the headers of its HTTP request (names in lower case)."""

    method: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass(eq=False)
class Hearing:
    """All messages that a peer has received, readable from any thread."""

    heard: list[Heard] = field(default_factory=list[Heard])
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def hear(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Record one message. `(cancelled)` is the method of a call whose handler was cancelled."""
        with self._changed:
            self.heard.append(Heard(method, params, headers))
            self._changed.notify_all()

    def of(self, method: str) -> list[Heard]:
        """Return the messages of that method so far."""
        return [each for each in list(self.heard) if each.method == method]

    def wait_for(self, method: str, count: int = 1, seconds: float = 20) -> list[Heard]:
        """Block until there are that many messages of that method. AssertionError lists the received ones instead."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.of(method)) >= count, seconds):
                raise AssertionError(f"heard no {method!r} but {[each.method for each in self.heard]}")
        return self.of(method)
