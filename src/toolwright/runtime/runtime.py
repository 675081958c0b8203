"""Runtime: the operations of a running app, by noun."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from toolwright.core.agents.catalog import Catalog
from toolwright.core.concurrency import start_task
from toolwright.core.journal.reads import Depths
from toolwright.core.journal.units import Node
from toolwright.core.requests.speaker import Solution
from toolwright.core.threads.run import Run
from toolwright.core.tools.toolset import Toolset
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.inboxes import Inboxes
from toolwright.runtime.agents.memory import Blocks, Passages
from toolwright.runtime.agents.minds import Minds
from toolwright.runtime.carried import Carried
from toolwright.runtime.children.requests import Requests
from toolwright.runtime.composed import ComposedRequests
from toolwright.runtime.env import Keys
from toolwright.runtime.files import ThreadFiles
from toolwright.runtime.health import Gauges, Health
from toolwright.runtime.housekeeping import Housekeeper
from toolwright.runtime.journal import Services
from toolwright.runtime.pending.app_calls import AppCalls
from toolwright.runtime.pending.offers import Offers
from toolwright.runtime.pending.pending import PendingCalls
from toolwright.runtime.prompts import Prompts
from toolwright.runtime.runs.sent_prompts import SentPrompts
from toolwright.runtime.runs.worker import RunWorker
from toolwright.runtime.spaces.entities import Entities, FrontEnds
from toolwright.runtime.spaces.spaces import Spaces
from toolwright.runtime.threads.events import Events
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.threads.threads import Threads
from toolwright.runtime.timers import ClockWatch, Timers
from toolwright.runtime.toolkits.mcp_servers import AgentServers
from toolwright.runtime.toolkits.toolkit import Toolkit, ToolkitParts


class Runtime(Carried):
    """A running app. Created by `App.runtime(...)`, which also calls `start` and `stop`."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        agents: Agents,
        services: Services,
        drainer: RunWorker,
        timers: Timers,
        threads: Threads,
        runs: Runs,
        requests: Requests,
        composed: ComposedRequests,
        calls: PendingCalls,
        offers: Offers,
        files: ThreadFiles,
        inboxes: Inboxes,
        minds: Minds,
        blocks: Blocks,
        passages: Passages,
        prompts: Prompts,
        sent_prompts: SentPrompts,
        entities: Entities,
        spaces: Spaces,
        events: Events,
        keys: Keys,
        health: Health,
        housekeeper: Housekeeper,
        clock_watch: ClockWatch,
        toolkit_parts: ToolkitParts,
        mcp: AgentServers,
        gauges: Gauges | None = None,
        close: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self._catalog = catalog
        self.agents = agents
        self._store = services.store
        self._motor = services.motor
        self._callers = services.callers
        self._drainer = drainer
        self._timers = timers
        self.threads = threads
        self.runs = runs
        self.requests = requests
        self._composed = composed
        self.calls = calls
        self.offers = offers
        self.files = files
        self.inboxes = inboxes
        self.minds = minds
        self.blocks = blocks
        self.passages = passages
        self.prompts = prompts
        self.sent_prompts = sent_prompts
        self.entities = entities
        self.spaces = spaces
        self.clients = FrontEnds(services, entities)
        self.events = events
        self.keys = keys
        self.health = health
        self._housekeeper = housekeeper
        self._clock_watch = clock_watch
        self._toolkit_parts = toolkit_parts
        self.app_calls = AppCalls(toolkit_parts, runs, calls)
        self.mcp = mcp
        self.telemetry = services.telemetry
        self._gauges = gauges
        self._tasks: list[asyncio.Task[None]] = []
        self._close = close

    @property
    def tools(self) -> Toolset:
        """The app's own tools."""
        return self._catalog.tools

    def toolkit(self, agent_id: str, run_id: str | None = None) -> Toolkit:
        """Return all tools of that agent, by its name or id, for the caller's own loop (S4): definitions and handlers.

        Every call of a handler is recorded in the run, or in a new run if none is given. `await` the result to load an
        agent configured over HTTP and to reject a run that does not fit; see `Toolkit`.
        """
        toolkit = Toolkit(agent_id, run_id, self._toolkit_parts)
        toolkit.loop = self.loop
        return toolkit

    async def request(
        self, config: Mapping[str, object], schema: object, context: Sequence[object] | str
    ) -> Solution:
        """Send a request to a model, which calls tools until it returns an output (S1).

        `config` may have `model` (a name or an object), `system`, `temperature`, `top_p`, `max_tokens`, `seed`,
        `reasoning`, `max_steps` and `call_reasoning`. `schema` is the output's JSON Schema, or a type. `context` is a
        text, or a list of `{"type": "text", "text": …}`, messages `{"role": …, "content": …}`, `{"type": "tool",
        "tool": {name: schema} or names of the app's tools}`, and `data`, `input` and `state` in the same form.

        Raises `InvalidConfiguration` with the path of every error, `DefinitionError` for unknown tools, and
        `SolutionError` if the run failed, for example because an answer and two corrections of it broke its schema.
        """
        return await self._composed.solve(config, schema, context)

    async def begin_request(
        self, config: Mapping[str, object], schema: object, context: Sequence[object] | str
    ) -> Run:
        """Start a request like `request`, without waiting. Return its run, which can be followed like any other."""
        return await self._composed.begin(config, schema, context)

    async def solution(self, run_id: str) -> Solution:
        """Return the solution of a finished request, started here or in another process."""
        return await self._composed.solution(run_id)

    @property
    def driving(self) -> bool:
        """Return whether this process executes runs. False while another process executes those of the same journal."""
        return self._motor.driving

    async def nodes(self) -> Sequence[Node]:
        """Return the processes of the cluster, including some that have stopped; none without a cluster."""
        return await self._store.nodes()

    async def depths(self) -> Depths:
        """Return the numbers of pending calls and unread events in the journal."""
        return await self._store.depths()

    @property
    def is_only_driver(self) -> bool:
        """Return whether this process alone executes runs; False in a cluster."""
        return self._motor.is_only_driver

    @contextmanager
    def calling(self, thread_id: str) -> Generator[None]:
        """Execute the thread's runs in the context of the block, whose caller waits for them and raises their failures.

        Failed runs of the thread are not logged as warnings then.
        """
        self._drainer.raised.add(thread_id)
        try:
            with self._callers.executing(thread_id):
                yield
        finally:
            self._drainer.raised.discard(thread_id)

    async def start(self) -> None:
        """Start to execute runs."""
        self.loop = asyncio.get_running_loop()
        for service in vars(self).values():
            if isinstance(service, Carried):
                service.loop = self.loop
        await self._motor.start(self._timers, self._drainer.nudge)
        self._tasks = [
            start_task(self._housekeeper.run(), "toolwright-housekeeping"),
            start_task(self._clock_watch.run(), "toolwright-clock"),
            start_task(self.offers.run(), "toolwright-offers"),
            start_task(self.requests.run(), "toolwright-requests"),
        ]
        if self._gauges is not None:
            self._tasks.append(start_task(self._gauges.run(), "toolwright-gauges"))

    async def stop(self, grace: float = 10.0) -> None:
        """Wait `grace` seconds for work in progress, release the rest to the next process, and close the journal."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._drainer.stop()
        await self._motor.stop(grace)
        if self.telemetry is not None:
            await self.telemetry.close()
        for close in self._close:
            await close()
        await self._store.close()
