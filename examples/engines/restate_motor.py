"""Runs that Restate schedules: a `Motor` for which each thread is a virtual object, whose handler executes its runs.

Needs `restate-sdk`, a Restate server, and an ASGI server for `RestateMotor.app`. See docs/guides/other-engines.md.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

import httpx2
import restate

import toolwright as tw

log = logging.getLogger("toolwright.motor")

SERVICE, DUTIES = "toolwright", "toolwright-duties"
MAX_BATCH = 1_000  # wake-ups that are read and sent in one sweep
MAX_REMEMBERED = 100_000  # keys of wake-ups that were sent
RESEND_AFTER = 5.0  # seconds without a drain after which a thread is sent again
MAX_EXECUTION = timedelta(days=30)  # the time that Restate waits for one drain before it sends it elsewhere


class Wake(Protocol):
    """A wake-up in the journal. Each new wake-up of a thread has a higher `gen`."""

    @property
    def thread_id(self) -> str: ...

    @property
    def gen(self) -> int: ...

    @property
    def due(self) -> datetime: ...


class WakeStore(Protocol):
    """The part of the journal that a motor reads."""

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]: ...


class RestateMotor:
    """The `Motor` port over the ingress of a Restate server, with which the URL of `app` has been registered.

    Restate executes one handler of a virtual object at a time: so each thread is drained once at a time, in any process
    whose app is registered. The journal stays the source of truth: every `sweep` seconds the motor reads due
    wake-ups and sends each once. Restate repeats a drain that fails.
    """

    def __init__(self, store: WakeStore, clock: tw.ports.Clock, *, ingress: str, sweep: float = 0.25) -> None:
        self._store, self._clock, self._sweep = store, clock, sweep
        self._ingress = httpx2.AsyncClient(base_url=ingress, timeout=30.0, trust_env=False)
        self._drain: tw.ports.Drain | None = None
        self._nudge: Callable[[str], None] = lambda _: None
        self._drains: dict[str, asyncio.Task[Any]] = {}
        self._woken: set[str] = set()  # threads that were woken during their drain
        self._requested: dict[str, float] = {}  # threads that were sent and not drained yet, and when
        self._sent: OrderedDict[str, None] = OrderedDict()  # keys of wake-ups that Restate has accepted
        self._tasks: set[asyncio.Task[None]] = set()
        self.app = self._restate_app()

    def _restate_app(self) -> Any:  # an ASGI app; the SDK has no type for it
        threads, duties = restate.VirtualObject(SERVICE), restate.VirtualObject(DUTIES)

        @threads.handler("drain", inactivity_timeout=MAX_EXECUTION, abort_timeout=MAX_EXECUTION)
        async def drain(ctx: restate.ObjectContext, alone: bool) -> None:
            await self._drain_one(ctx.key(), alone=alone)

        @duties.handler("take")
        async def take(ctx: restate.ObjectContext, seconds: float) -> bool:
            """Reserve the duty for that many seconds. Return False if another process has it."""
            now = await ctx.run_typed("now", lambda: self._clock.now().timestamp())
            until = await ctx.get("until", type_hint=float)
            if until is not None and until > now:
                return False
            ctx.set("until", now + seconds)
            return True

        return restate.app([threads, duties])

    # ── the port ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def driving(self) -> bool:
        return self._drain is not None

    @property
    def is_only_driver(self) -> bool:
        return False  # other processes whose apps are registered execute runs as well

    async def on_duty(self, name: str, seconds: float) -> bool:
        try:
            answer = await self._ingress.post(f"/{DUTIES}/{name}/take", json=seconds)
        except httpx2.TransportError:
            return False
        return answer.is_success and bool(answer.json())

    async def start(self, drain: tw.ports.Drain, nudge: Callable[[str], None]) -> None:
        self._drain, self._nudge = drain, nudge
        self._spawn(self._keep_sweeping())

    def wake(self, thread_id: str) -> None:
        if thread_id in self._drains:
            self._woken.add(thread_id)
            self._nudge(thread_id)
        else:
            self._spawn(self._send(thread_id))

    async def stop(self, grace: float) -> None:
        self._drain = None
        for task in self._tasks:
            task.cancel()
        if self._drains:
            await asyncio.wait([*self._drains.values()], timeout=grace)
        for task in self._drains.values():
            task.cancel()  # Restate sends these threads to another process
        if self._drains:
            await asyncio.wait([*self._drains.values()], timeout=5.0)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ingress.aclose()

    # ── executing ───────────────────────────────────────────────────────────────────────────────────────────

    async def _drain_one(self, thread_id: str, *, alone: bool) -> None:
        """Execute the due work of the thread. If this raises, Restate repeats the drain, here or elsewhere."""
        if self._drain is None:
            raise RuntimeError("This process is stopping.")
        self._requested.pop(thread_id, None)
        self._drains[thread_id] = task = asyncio.ensure_future(self._drain(thread_id, alone=alone))
        try:
            verdict = await task
        except asyncio.CancelledError:
            raise RuntimeError("This process is stopping.") from None
        finally:
            del self._drains[thread_id]
            is_woken = thread_id in self._woken
            self._woken.discard(thread_id)
        if isinstance(verdict, tw.ports.RetryInIsolation):
            await self._send(thread_id, alone=True, after=verdict.after)
        elif verdict == "again" or is_woken:
            await self._send(thread_id)

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_sweeping(self) -> None:
        """Send due wake-ups that were not sent: timers, and wake-ups of processes that died."""
        while True:
            with suppress(tw.errors.StoreError):  # the database does not answer: try again in the next sweep
                now = self._clock.now()
                due = await self._store.due(now, MAX_BATCH + len(self._drains))
                wakes = {f"{wake.thread_id}-{wake.gen}-{wake.due.timestamp()}": wake for wake in due}
                since = self._clock.monotonic() - RESEND_AFTER
                self._requested = {thread_id: at for thread_id, at in self._requested.items() if at > since}
                busy = self._drains.keys() | self._requested.keys()
                new = {
                    key: wake.thread_id
                    for key, wake in wakes.items()
                    if key not in self._sent and wake.thread_id not in busy
                }
                await asyncio.gather(*[self._send(thread_id, key=key) for key, thread_id in new.items()])
            await asyncio.sleep(self._sweep)

    async def _send(
        self, thread_id: str, *, key: str | None = None, alone: bool = False, after: float = 0.0
    ) -> None:
        """Request a drain of the thread from Restate, which executes requests with the same key once."""
        self._requested[thread_id] = self._clock.monotonic()
        headers = {} if key is None else {"idempotency-key": key}
        path = f"/{SERVICE}/{thread_id}/drain/send"
        params = {"delay": f"{int(after * 1_000)}ms"} if after else {}
        try:
            answer = await self._ingress.post(path, json=alone, headers=headers, params=params)
            answer.raise_for_status()
        except httpx2.HTTPError as error:
            log.warning("Restate did not accept the wake-up of %s: %s", thread_id, error)
            return  # the sweep sends it again
        if key is not None:
            self._sent[key] = None
            while len(self._sent) > MAX_REMEMBERED:
                self._sent.popitem(last=False)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
