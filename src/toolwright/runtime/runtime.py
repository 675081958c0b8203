"""The runtime: what an app can do once it runs, by noun."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from toolwright.core.agents.catalog import Catalog
from toolwright.core.journal.store import Store
from toolwright.core.ports import Motor
from toolwright.core.tools.toolset import Toolset
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.inboxes import Inboxes
from toolwright.runtime.agents.minds import Minds
from toolwright.runtime.children.requests import Requests
from toolwright.runtime.env.redaction import Keys
from toolwright.runtime.files.files import ThreadFiles
from toolwright.runtime.health import Health
from toolwright.runtime.housekeeping import Housekeeper
from toolwright.runtime.pending.offers import Offers
from toolwright.runtime.pending.pending import PendingCalls
from toolwright.runtime.runs.drain import Drainer
from toolwright.runtime.spaces.entities import Entities
from toolwright.runtime.spaces.front_ends import FrontEnds
from toolwright.runtime.spaces.prompts import Prompts
from toolwright.runtime.spaces.spaces import Spaces
from toolwright.runtime.threads.events import Events
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.threads.threads import Threads
from toolwright.runtime.timers import Timers


class Runtime:
    """An app at work. Made by `App.runtime(...)`; `start` and `stop` are called there."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        agents: Agents,
        store: Store,
        motor: Motor,
        drainer: Drainer,
        timers: Timers,
        threads: Threads,
        runs: Runs,
        requests: Requests,
        calls: PendingCalls,
        offers: Offers,
        files: ThreadFiles,
        inboxes: Inboxes,
        minds: Minds,
        prompts: Prompts,
        entities: Entities,
        spaces: Spaces,
        clients: FrontEnds,
        events: Events,
        keys: Keys,
        health: Health,
        housekeeper: Housekeeper,
        close: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self._catalog = catalog
        self.agents = agents
        self._store = store
        self._motor = motor
        self._drainer = drainer
        self._timers = timers
        self.threads = threads
        self.runs = runs
        self.requests = requests
        self.calls = calls
        self.offers = offers
        self.files = files
        self.inboxes = inboxes
        self.minds = minds
        self.prompts = prompts
        self.entities = entities
        self.spaces = spaces
        self.clients = clients
        self.events = events
        self.keys = keys
        self.health = health
        self._housekeeper = housekeeper
        self._tasks: list[asyncio.Task[None]] = []
        self._close = close

    @property
    def tools(self) -> Toolset:
        """The app's own tools."""
        return self._catalog.tools

    @property
    def driving(self) -> bool:
        """Whether runs are led in this process; false while another one drives the same journal."""
        return self._motor.driving

    async def start(self) -> None:
        """Begin to lead runs."""
        await self._motor.start(self._timers, self._drainer.nudge)
        self._tasks = [
            asyncio.create_task(self._housekeeper.run(), name="toolwright-housekeeping"),
            asyncio.create_task(self.offers.run(), name="toolwright-offers"),
            asyncio.create_task(self.requests.run(), name="toolwright-requests"),
        ]

    async def stop(self, grace: float = 10.0) -> None:
        """Let what is at work end for `grace` seconds, leave the rest to the next process, close the journal."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._drainer.stop()
        await self._motor.stop(grace)
        for close in self._close:
            await close()
        await self._store.close()
