"""Runtime: the operations of a running app, by noun."""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from toolwright.core.agents.agent import CHANNELS, MEMORY, MIND, SPACES
from toolwright.core.agents.catalog import Catalog
from toolwright.core.agents.prompt import Context
from toolwright.core.concurrency import start_task
from toolwright.core.journal.reads import Depths
from toolwright.core.journal.store import Outage
from toolwright.core.journal.units import Node
from toolwright.core.mcp.questions import OpenForms, handler_tools
from toolwright.core.mcp.servers import TASK
from toolwright.core.requests.speaker import RequestAgents, Solution
from toolwright.core.threads.run import Run
from toolwright.core.tools.function import FunctionExecutor
from toolwright.core.tools.pipeline import Executor, answer_internal, answer_latent
from toolwright.core.tools.tool import Kind
from toolwright.core.tools.toolset import Toolset
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.inboxes import Deliveries, Inboxes, Rounds
from toolwright.runtime.agents.memory import Blocks, Passages
from toolwright.runtime.agents.minds import Keepers, Minds, Plans
from toolwright.runtime.agents.speakers import BuiltinTools, Speakers
from toolwright.runtime.calls.decide import CallDecider
from toolwright.runtime.calls.execute import CallExecutor
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.plan import CallPlanner
from toolwright.runtime.calls.sampling import Sampling
from toolwright.runtime.calls.settle import CallSettler
from toolwright.runtime.calls.wait import INLINE_WAIT, CallWaiter
from toolwright.runtime.carried import Carried
from toolwright.runtime.children.child import ChildReports, ChildStart
from toolwright.runtime.children.requests import Requests
from toolwright.runtime.children.step_tools import StepTools, callable_tools, lifecycle_tools
from toolwright.runtime.children.subagents import Subagents
from toolwright.runtime.composed import ComposedRequests, Delegates
from toolwright.runtime.context.commit import Listeners
from toolwright.runtime.env import Environment, Keys
from toolwright.runtime.files import FileKeeper, ThreadFiles, WholeResults
from toolwright.runtime.health import Gauges, Health
from toolwright.runtime.hooks import HookRunner
from toolwright.runtime.housekeeping import Housekeeper, RetentionPeriods
from toolwright.runtime.journal import EffectCommits
from toolwright.runtime.mcp import McpOffers
from toolwright.runtime.model.ask import ModelAnswers
from toolwright.runtime.model.context_window import ContextWindows
from toolwright.runtime.parts import Parts, RuntimeSettings
from toolwright.runtime.pending.app_calls import AppCalls
from toolwright.runtime.pending.mcp_tasks import McpTasks
from toolwright.runtime.pending.offers import Offers
from toolwright.runtime.pending.pending import PendingCalls
from toolwright.runtime.prompts import Prompts, SystemPrompts
from toolwright.runtime.runs.act import Actions, Do
from toolwright.runtime.runs.dynamic import DynamicValues
from toolwright.runtime.runs.ends import RunEnds
from toolwright.runtime.runs.handler_calls import HandlerCalls
from toolwright.runtime.runs.hook_actions import HookActions
from toolwright.runtime.runs.outcomes import Outcomes
from toolwright.runtime.runs.reading import InboxReader
from toolwright.runtime.runs.sent_prompts import SentPrompts
from toolwright.runtime.runs.worker import RunWorker
from toolwright.runtime.spaces.entities import Entities, FrontEnds
from toolwright.runtime.spaces.membership import Membership
from toolwright.runtime.spaces.messages import Speech
from toolwright.runtime.spaces.spaces import Spaces
from toolwright.runtime.state.state import HandlerServices, Invoke
from toolwright.runtime.threads.deletion import Deletion
from toolwright.runtime.threads.events import Events, RunStreams
from toolwright.runtime.threads.results import RunResults
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.threads.thread_tree import Lineages
from toolwright.runtime.threads.threads import Threads
from toolwright.runtime.timers import AFTER_RUN, CALL, PLAN, Timers
from toolwright.runtime.toolkits.mcp_servers import AgentServers
from toolwright.runtime.toolkits.mind import MemoryToolkit, MindToolkit
from toolwright.runtime.toolkits.results import ResultReader
from toolwright.runtime.toolkits.spaces import ChannelsToolkit, SpacesToolkit
from toolwright.runtime.toolkits.toolkit import Toolkit, ToolkitParts

if TYPE_CHECKING:
    from toolwright.runtime.agents.semantics import Semantics


class Runtime(Carried):
    """A running app. Created by `App.runtime(...)`, which also calls `start` and `stop`."""

    def __init__(
        self,
        catalog: Catalog,
        parts: Parts,
        settings: RuntimeSettings,
        inline_wait: float = INLINE_WAIT,
    ) -> None:
        self._catalog, self._parts, self._settings = catalog, parts, settings
        self._store, self._motor = parts.store, parts.motor
        store, motor, bus, clock, ids = parts.store, parts.motor, parts.bus, parts.clock, parts.new_id
        self._tasks: list[asyncio.Task[None]] = []
        self._environment = environment = Environment(parts.cipher)
        self._outage = outage = parts.outage or Outage(clock)
        self._forms = OpenForms()
        self.agents = agents = Agents(store, catalog, environment, parts.models, clock, ids, parts.read_api)
        self._keeper = keeper = FileKeeper(
            parts.files, clock, ids, max_attachment=settings.max_attachment, max_text=settings.max_result_text
        )
        system_prompts = SystemPrompts(store, agents)
        context = catalog.context or Context(
            max_tokens=settings.context_tokens, summarize_with=settings.summary_model
        )
        self._hooks = hooks = HookRunner(
            HandlerServices(bus, keeper, environment, store, parts.sandbox, self._forms),
            lambda *question: Sampling(self._model_answers).for_hook(*question),
        )
        self._windows = ContextWindows(store, parts.models, ResultReader(store).tool, context)
        self._model_answers = ModelAnswers(
            parts.models,
            bus,
            keeper,
            system_prompts,
            self._windows,
            default_model=settings.model,
            timeout=settings.model_timeout.total_seconds(),
            request_timeout=settings.model_request_timeout.total_seconds(),
            hooks=hooks,
        )
        self._mcp_offers = McpOffers(parts.mcp, store, clock, self._model_answers.most_tokens)
        self._lineages = lineages = Lineages(store, agents, environment)
        self._child_start = ChildStart(parts, environment)
        self._request_agents = RequestAgents(catalog)
        self._membership = membership = Membership(store, agents)
        self._deliveries = deliveries = Deliveries(store, agents, clock, ids, settings.max_chain_depth)
        commits, speech = EffectCommits(parts), Speech(store, membership, deliveries)
        self.entities = Entities(parts, agents, environment)
        self.clients = FrontEnds(parts, self.entities)
        self.spaces = Spaces(parts, commits, self.entities, membership, speech)
        semantics = _semantics(parts)
        kits = {
            SPACES: SpacesToolkit(self.spaces, speech),
            MIND: MindToolkit(store),
            CHANNELS: ChannelsToolkit(self.spaces, speech),
            MEMORY: MemoryToolkit(store, semantics),
        }
        with_builtins = BuiltinTools({name: kit.tools for name, kit in kits.items()}).with_builtins
        self._speakers = Speakers(agents, with_builtins, self._request_agents)
        self._whole = WholeResults(store, keeper)
        self.keys = Keys(store, environment, clock, ids)
        self.events = Events(store, bus, motor)
        results = RunResults(store, agents, self._whole)
        streams = RunStreams(self.events, results, motor)
        self.runs = Runs(parts, results, streams, agents)
        self.offers = Offers(parts, outage)
        self.calls = PendingCalls(parts, agents, lineages, keeper, self._whole, self._forms)
        deletion = Deletion(store, motor.wake, bus, parts.files, clock, ids)
        self.threads = Threads(parts, agents, self.runs, environment, keeper, lineages, streams, deletion)
        self.files = ThreadFiles(store, keeper)
        self.requests = Requests(
            parts, agents, self._speakers, lineages, self._child_start, environment, outage
        )
        self._composed = ComposedRequests(
            parts, catalog, self._request_agents, self.threads, self.runs, self._whole
        )
        keepers = Keepers(store, agents)
        self.minds = Minds(parts, agents, keepers, commits)
        self.blocks = Blocks(store, agents, keepers, commits, clock)
        self.passages = Passages(parts, keepers, commits, semantics)
        self.inboxes = Inboxes(parts, agents, deliveries, commits)
        self.prompts = Prompts(store, agents, system_prompts, membership, with_builtins, self._mcp_offers)
        self.sent_prompts = SentPrompts(store, self._speakers)
        self.mcp = AgentServers(
            parts, agents, with_builtins, lineages, self._mcp_offers, parts.models, settings.model
        )
        self._drainer = self._run_worker(inline_wait)
        plans = Plans(parts, agents, deliveries, motor.wake)
        mcp_tasks = McpTasks(parts, parts.mcp, agents, lineages, self.calls, membership)
        timers = {
            CALL: self.calls.expire,
            PLAN: plans.fire,
            TASK: mcp_tasks.poll,
            AFTER_RUN: self._drainer.after_run,
        }
        self._timers = Timers(store, self._drainer, timers, clock, ids)
        periods = RetentionPeriods(events=settings.retain_events, runs=settings.retain_runs)
        self._housekeeper = Housekeeper(
            store, motor, self.keys, parts.files, clock, ids, deletion, periods, semantics
        )
        self.health = Health(
            store, parts.files, clock, ids, unready=parts.unready, look_for_worker=parts.look_for_worker
        )
        self.telemetry = parts.telemetry
        self._gauges = None
        if parts.telemetry is not None:
            self._gauges = Gauges(store, parts.telemetry, clock, self.health.check_ready)
        self._toolkit_parts = ToolkitParts(
            store=store,
            catalog=catalog,
            agents=agents,
            tools_of=lambda active, user_id: callable_tools(with_builtins(active, user_id)),
            lineages=lineages,
            files=keeper,
            motor=motor,
            bus=bus,
            clock=clock,
            new_id=ids,
            cipher=parts.cipher,
            mcp=self._mcp_offers,
            telemetry=parts.telemetry,
        )
        self.app_calls = AppCalls(self._toolkit_parts, self.runs, self.calls)

    def _run_worker(self, inline_wait: float) -> RunWorker:
        """Return the worker of runs, with all its dependencies."""
        parts, store, keeper = self._parts, self._store, self._keeper
        subagents = Subagents(parts, self.agents, self._child_start, self._settings.max_subagent_depth)
        delegates = Delegates(self._catalog, self.agents, self._request_agents, subagents)
        executors: Mapping[Kind, Executor] = {
            "agent": subagents,
            "delegate": delegates,
            "internal": answer_internal,
            "latent": answer_latent,
            **parts.executors,
        }
        given = parts.executors.get("function")
        functions = given if isinstance(given, FunctionExecutor) else FunctionExecutor()
        settler = CallSettler(keeper)
        planner = CallPlanner(parts.inline_executors, settler)
        decider = CallDecider(self._hooks)
        executor = CallExecutor(executors, self._hooks.services, self._hooks, parts.abort_grace)
        nested = Nested(store, self._windows.with_reader)
        rounds = Rounds(store, self._deliveries)
        reports = ChildReports(store, keeper)
        ends = RunEnds(settler, executor, nested, reports, rounds, max_steps=self._settings.max_steps)
        waiter = CallWaiter(store, settler, inline_wait)
        outcomes = Outcomes(planner, executor, settler, nested, ends)
        reader = InboxReader(self._membership, keeper)
        hooks = HookActions(self._hooks, ends, outcomes, executor, store, reader)
        tools = handler_tools(Sampling(self._model_answers).answer)

        def handler_calls(do: Do) -> Invoke:
            return HandlerCalls(do, outcomes, settler, nested, self._whole, tools, decider, hooks).invoke

        actions = Actions(
            planner,
            executor,
            settler,
            waiter,
            self._model_answers,
            nested,
            ends,
            outcomes,
            self._speakers,
            StepTools(store, lifecycle_tools, self._mcp_offers, self._windows.with_reader),
            self._environment,
            self._settings.longest_outage,
            handler_calls,
            decider,
            hooks,
            DynamicValues(self._hooks.services, functions.value, ends, self._windows.with_reader),
        )
        listeners = Listeners(
            parts.motor.wake, self.offers.opened, parts.bus.publish, self._outage, parts.callers
        )
        return RunWorker(
            parts,
            actions,
            settler,
            self._speakers,
            ends,
            self._lineages,
            listeners,
            self._membership,
            reader,
            hooks,
            parts.lifespan,
        )

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
            with self._parts.callers.executing(thread_id):
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
        for close in (self._windows.summaries.close, *self._parts.close, self._parts.sandbox.close):
            await close()
        await self._store.close()


def _semantics(parts: Parts) -> "Semantics | None":
    if parts.embedder is None:
        return None
    module = import_module("toolwright.runtime.agents.semantics")  # lazily: few apps have an embedder
    semantics: Semantics = module.Semantics(parts.store, parts.embedder, parts.clock, parts.new_id)
    return semantics
