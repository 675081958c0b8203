"""Calls offered to external workers: all open calls, then new ones (D25), in a queue per reader.

A call that opens in this process is sent to the readers at once. One watcher for all readers polls the journal for
calls that other processes have opened, periodically and after an announcement, and for expired leases. Each reader
reads the earlier open calls itself, page by page, taking turns with the others. A reader can receive a call twice: the
first worker to claim it executes it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.checks import by_list
from toolwright.core.errors import StoreError
from toolwright.core.journal.reads import Offer
from toolwright.core.journal.store import Outage
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Follower
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Event, Topic
from toolwright.runtime.journal import Services
from toolwright.runtime.threads.events import Subscription
from toolwright.wire.call import arguments_json

BACKLOG = 2_000  # maximum number of offers queued for one reader
MAX_BYTES = 1024 * 1024  # maximum bytes of offers queued for one reader, unless it is a single one
OVERLAP = timedelta(seconds=60)
"""Maximum delay until a started call is visible in the journal, plus the clock difference of processes."""
PAGE = 100  # calls per read
PACE = 0.01  # seconds between full pages, across all readers
LOOK_AGAIN = 2.0  # seconds between two reads of the journal
LOOK_ABROAD = 0.5  # the same while another process drives the journal
SPACING = 0.1  # minimum seconds between such reads
MAX_EXPIRED_READ = 10_000  # maximum number of expired leases per read
ENVELOPE = 300  # approximate bytes of an offer in addition to its arguments


class OfferQueue:
    """One reader's queue; `tools` are the names of the tools that it accepts, or None for all.

    The reader reads earlier calls from the journal, up to the time when it `opened`, and is notified of later ones. A
    call from about that time can arrive both ways: `meets` returns whether it is the first time.
    """

    def __init__(self, tools: frozenset[str] | None, opened: datetime) -> None:
        self.tools = tools
        self._from, self.until = opened - OVERLAP, opened + OVERLAP
        self._met = set[str]()
        self._waiting = deque[Event]()
        self._bytes = 0
        self._came = asyncio.Event()
        self._overrun = asyncio.Event()

    def meets(self, call_id: str, began: datetime) -> bool:
        """Return whether the reader has not received the call yet."""
        if not self._from <= began < self.until:
            return True
        if call_id in self._met:
            return False
        self._met.add(call_id)
        return True

    def put(self, event: Event, size: int) -> None:
        """Queue an event without blocking. A reader that lags too far is disconnected and re-reads the offers later."""
        if self._waiting and (len(self._waiting) >= BACKLOG or self._bytes + size > MAX_BYTES):
            self._waiting.clear()
            self._overrun.set()
        self._waiting.append(event)
        self._bytes += size
        self._came.set()

    def pop_events(self) -> Sequence[Event]:
        """Return the queued events and clear the queue."""
        self._came.clear()
        taken = tuple(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return taken

    async def next(self) -> Sequence[Event]:
        """Return the queued events, waiting until there are some."""
        await self._came.wait()
        return self.pop_events()

    async def overrun(self) -> None:
        """Return once the queue has overflowed."""
        await self._overrun.wait()


NEWEST = timedelta(seconds=1)  # age of the calls that are read after another process has announced one
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


TOOLS = Topic(kind="tools", id="")


class Offers:
    """The calls offered to external workers, for any number of readers."""

    def __init__(self, services: Services, outage: Outage) -> None:
        self._outage, self._away = outage, False
        self._telemetry = services.telemetry
        self._store, self._bus = services.store, services.bus
        self._motor = services.motor
        self._clock = services.clock
        self._queues = set[OfferQueue]()
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()
        self._start_times: dict[str, datetime] = {}  # start times of the recently announced calls
        self._again: dict[str, datetime] = {}  # ends of the announced expired leases

    def opened(self, call: Call, agent: str) -> None:
        """Announce a call that this process has opened and committed."""
        if call.kind == "external" and not call.awaits_approval:
            if self._queues:
                self._announce(Offer(call=call, agent=agent))
            self._bus.announce(TOOLS)

    @asynccontextmanager
    async def following(self, tools: Collection[str] | None = None) -> AsyncGenerator[Subscription]:
        """Subscribe to calls on offer as events `tool.call`, without end; with `tools` only to calls of these."""
        by_list("tools", tools, str, "names of tools")
        queue = OfferQueue(None if tools is None else frozenset(tools), self._clock.now())
        self._queues.add(queue)
        self._wanted.set()
        try:
            yield Subscription(self._events(queue), None, queue.overrun)
        finally:
            self._queues.discard(queue)
            if not self._queues:
                self._wanted.clear()
                self._start_times.clear()

    async def run(self) -> None:
        """Poll the journal while there are readers, without end."""
        while True:
            await self._wanted.wait()
            with self._bus.subscribe(TOOLS) as follower:
                await self._keep_looking(follower)
            self._again.clear()

    async def _keep_looking(self, follower: Follower) -> None:
        """Poll the journal while there are readers; only for the newest calls after an announcement."""
        since, time = self._clock.now(), asyncio.get_running_loop().time  # real time, as for streams
        whole_at = 0.0
        while self._queues:
            is_whole = time() >= whole_at
            try:
                since = await self._announce_due(since, OVERLAP if is_whole else NEWEST)
            except StoreError as error:
                self._away = True
                self._outage.failed(error)
            else:
                if self._away:
                    self._away = False
                    self._outage.over()
            if is_whole:
                whole_at = time() + (LOOK_AGAIN if self._motor.is_only_driver else LOOK_ABROAD)
            if await follower.next(max(whole_at - time(), 0.0)):
                await asyncio.sleep(SPACING)

    async def _announce_due(self, since: datetime, back: timedelta) -> datetime:
        """Announce recent calls, and leases that expired at `since` or later. Return the next `since`.

        Reads the calls that started at most `back` ago.
        """
        now = self._clock.now()
        horizon = now - OVERLAP
        self._start_times = {
            call_id: began for call_id, began in self._start_times.items() if began >= horizon
        }
        self._again = {call_id: ended for call_id, ended in self._again.items() if ended >= horizon}
        after = (now - back, "")
        while page := await self._store.offers.claimable(now, after=after, before=now + OVERLAP, limit=PAGE):
            for offer in page:
                self._announce(offer)
            after = (_began(page[-1].call), page[-1].call.id)
        for offer in await self._store.offers.expired_leases(now, since=since, limit=MAX_EXPIRED_READ):
            self._tell_again(offer)
        return max(since, horizon)

    def _announce(self, offer: Offer) -> None:
        call = offer.call
        if call.id in self._start_times:
            return
        self._start_times[call.id] = _began(call)
        readers = [queue for queue in self._readers(call) if queue.meets(call.id, _began(call))]
        self._put(offer, readers)

    def _tell_again(self, offer: Offer) -> None:
        call = offer.call
        if call.leased_until is not None and self._again.get(call.id) != call.leased_until:
            self._again[call.id] = call.leased_until
            self._put(offer, self._readers(call))

    def _readers(self, call: Call) -> list[OfferQueue]:
        return [queue for queue in self._queues if queue.tools is None or call.name in queue.tools]

    def _put(self, offer: Offer, readers: list[OfferQueue]) -> None:
        if readers:
            event, size = self._event(offer), len(offer.call.arguments) + ENVELOPE
            for queue in readers:
                queue.put(event, size)

    async def _events(self, queue: OfferQueue) -> AsyncGenerator[Sequence[Event]]:
        after, full = (BEGINNING, ""), True
        while full:
            page = await self._page(queue, after)
            new = [offer for offer in page if queue.meets(offer.call.id, _began(offer.call))]
            yield [*queue.pop_events(), *map(self._event, new)]
            if page:
                after = (_began(page[-1].call), page[-1].call.id)
            full = len(page) == PAGE
        while True:
            yield await queue.next()

    async def _page(self, queue: OfferQueue, after: tuple[datetime, str]) -> list[Offer]:
        """Return the next page of open calls. Readers take turns, so that many of them do not overload the journal."""
        names = None if queue.tools is None else sorted(queue.tools)
        async with self._turn:
            now, started_calls = self._clock.now(), self._store.offers.claimable
            page = await started_calls(now, after=after, before=queue.until, names=names, limit=PAGE)
            if len(page) == PAGE:
                await asyncio.sleep(PACE)
        return list(page)

    def _event(self, offer: Offer) -> Event:
        call = offer.call
        payload: JSONObject = {
            "toolCallId": call.id,
            "toolName": call.name,
            "args": arguments_json(call.arguments),
            "runId": call.run_id,
            "agentEntityId": entity_id_of(offer.agent),
        }
        traceparent = None if self._telemetry is None else self._telemetry.of_call(call.id)
        traceparent = traceparent or offer.traceparent
        if traceparent is not None:
            payload["traceparent"] = traceparent
        return Event(
            thread_id=call.thread_id,
            run_id=call.run_id,
            agent=offer.agent,
            type="tool.call",
            payload=payload,
            at=_began(call),
        )


def _began(call: Call) -> datetime:
    return call.started_at or call.created_at
