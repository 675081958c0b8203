"""Shares of callers: turns for work that holds the event loop, and rates, so that one caller does not delay others."""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.types import Scope

CALLER = "toolwright.caller"
"""Key in a request's scope of the caller's label, set after the caller is identified."""


def caller_of(scope: Scope) -> str:
    """Return the label of the caller, or the address if the caller is unknown."""
    label, client = scope.get(CALLER), scope.get("client")
    if isinstance(label, str) and label:
        return label
    return client[0] if client else "-"


def network_of(address: str | None) -> str:
    """Return the address, or the network of an IPv6 address, all of whose addresses one host can use."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return address or "-"
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network((parsed.packed, 64), strict=False))


class Turns:
    """Admits `at_once` pieces of work at a time. While some wait, each caller has one turn after the other.

    A caller with much work waits for their own earlier pieces, and others wait for one piece of that caller's.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._free = at_once
        self._waiting = OrderedDict[str, deque[asyncio.Future[None]]]()

    @asynccontextmanager
    async def take(self, caller: str) -> AsyncGenerator[None]:
        """Wait for the caller's turn, which lasts for the block.

        All other tasks of the event loop run before the next turn begins.
        """
        await self._begin(caller)
        try:
            yield
            await asyncio.sleep(0)
        finally:
            self._end()

    async def _begin(self, caller: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end()  # it was this caller's turn already
            raise

    def _end(self) -> None:
        """Give the turn to the next caller who still waits."""
        while self._waiting:
            caller, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[caller] = turns  # behind all others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Rates:
    """Limits how often something is done for each of many keys: `burst` times at once, then `per_second`.

    Only keys that have used a part of their burst are remembered, at most `most` of them, the last used ones.
    """

    def __init__(self, burst: int, per_second: float, time: Callable[[], float], most: int = 10_000) -> None:
        self._burst, self._per_second = burst, per_second
        self._time = time
        self._most = most
        self._used = OrderedDict[str, tuple[float, float]]()  # the used part of the burst, and when it was so

    def seconds_until_free(self, key: str) -> int:
        """Return the whole seconds until the key may be used again, 0 for now."""
        return math.ceil(max(self._used_now(key) + 1 - self._burst, 0.0) / self._per_second)

    def use(self, key: str) -> None:
        """Count one use of the key."""
        self._used[key] = min(self._used_now(key) + 1, self._burst), self._time()
        self._used.move_to_end(key)
        if len(self._used) > self._most:
            self._used.popitem(last=False)

    def _used_now(self, key: str) -> float:
        used, at = self._used.get(key, (0.0, 0.0))
        passed = abs(
            self._time() - at
        )  # a clock that was set back must not reject callers until it has caught up
        return max(used - passed * self._per_second, 0.0)
