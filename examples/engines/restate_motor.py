"""Runs that Restate schedules: a `Motor` for which each thread is a virtual object, whose handler executes its runs.

Needs `restate-sdk`, a Restate server, and an ASGI server for `RestateMotor.app`. See docs/guides/other-engines.md.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
import restate

from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Store
from toolwright.core.ports import Clock, Drain, RetryInIsolation

log = logging.getLogger("toolwright.motor")

SERVICE, DUTIES = "toolwright", "toolwright-duties"
MOST_AT_ONCE = 1_000  # wake-ups that are read, and sent, at once
MOST_KNOWN = 100_000  # wake-ups that were sent
PATIENCE = 5.0  # seconds that a thread which was sent may wait for its drain before it is sent again
LONGEST = timedelta(days=30)  # that a run may be executed without a break, before Restate sends it elsewhere


class RestateMotor:
    """The `Motor` port over the ingress of a Restate server, to which the URL of `app` has been registered.

    Restate executes one handler of a virtual object at a time: so each thread is drained once at a time, in any process
    whose app is registered. The journal stays the truth: what is due is read from it every `sweep` seconds, and sent
    once. A drain that fails is repeated by Restate.
    """

    def __init__(self, store: Store, clock: Clock, *, ingress: str, sweep: float = 0.25) -> None:
        self._store, self._clock, self._sweep = store, clock, sweep
        self._ingress = httpx.AsyncClient(base_url=ingress, timeout=30.0, trust_env=False)
        self._drain: Drain | None = None
        self._nudge: Callable[[str], None] = lambda _: None
        self._drains: dict[str, asyncio.Task[Any]] = {}
        self._again: set[str] = set()  # threads that were woken while they were drained
        self._asked: dict[str, float] = {}  # threads that were sent and not drained yet, and when
        self._sent: OrderedDict[str, None] = OrderedDict()  # wake-ups that Restate has
        self._tasks: set[asyncio.Task[None]] = set()
        self.app = self._made_app()

    def _made_app(self) -> Any:  # an ASGI app; the SDK has no type for it
        threads, duties = restate.VirtualObject(SERVICE), restate.VirtualObject(DUTIES)

        @threads.handler("drain", inactivity_timeout=LONGEST, abort_timeout=LONGEST)
        async def drain(ctx: restate.ObjectContext, alone: bool) -> None:
            await self._drain_one(ctx.key(), alone=alone)

        @duties.handler("take")
        async def take(ctx: restate.ObjectContext, seconds: float) -> bool:
            """Take the duty for so many seconds, unless another process has it."""
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
        except httpx.TransportError:
            return False
        return answer.is_success and bool(answer.json())

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        self._drain, self._nudge = drain, nudge
        self._spawn(self._keep_sweeping())

    def wake(self, thread_id: str) -> None:
        if thread_id in self._drains:
            self._again.add(thread_id)
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
        """Execute what waits in the thread. Whatever is raised has Restate repeat it, here or elsewhere."""
        if self._drain is None:
            raise RuntimeError("This process stops.")
        self._asked.pop(thread_id, None)
        self._drains[thread_id] = task = asyncio.ensure_future(self._drain(thread_id, alone=alone))
        try:
            verdict = await task
        except asyncio.CancelledError:
            raise RuntimeError("This process stops.") from None
        finally:
            del self._drains[thread_id]
            is_woken = thread_id in self._again
            self._again.discard(thread_id)
        if isinstance(verdict, RetryInIsolation):
            await self._send(thread_id, alone=True, after=verdict.after)
        elif verdict == "again" or is_woken:
            await self._send(thread_id)

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_sweeping(self) -> None:
        """Send what is due in the journal and was not sent: timers, and wake-ups of processes that died."""
        while True:
            with suppress(StoreError):  # the journal is away: it is read again
                now = self._clock.now()
                due = await self._store.due(now, MOST_AT_ONCE + len(self._drains))
                keys = {f"{wake.thread_id}-{wake.gen}-{wake.due.timestamp()}": wake for wake in due}
                since = self._clock.monotonic() - PATIENCE
                self._asked = {thread_id: at for thread_id, at in self._asked.items() if at > since}
                busy = self._drains.keys() | self._asked.keys()
                new = {
                    key: wake.thread_id
                    for key, wake in keys.items()
                    if key not in self._sent and wake.thread_id not in busy
                }
                await asyncio.gather(*[self._send(thread_id, key=key) for key, thread_id in new.items()])
            await asyncio.sleep(self._sweep)

    async def _send(
        self, thread_id: str, *, key: str | None = None, alone: bool = False, after: float = 0.0
    ) -> None:
        """Ask Restate to have the thread drained; the same wake-up, named by its key, is drained once."""
        self._asked[thread_id] = self._clock.monotonic()
        headers = {} if key is None else {"idempotency-key": key}
        path = f"/{SERVICE}/{thread_id}/drain/send"
        params = {"delay": f"{int(after * 1_000)}ms"} if after else {}
        try:
            answer = await self._ingress.post(path, json=alone, headers=headers, params=params)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            log.warning("Restate has not taken the wake-up of %s: %s", thread_id, error)
            return  # the sweep sends it again
        if key is not None:
            self._sent[key] = None
            while len(self._sent) > MOST_KNOWN:
                self._sent.popitem(last=False)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
