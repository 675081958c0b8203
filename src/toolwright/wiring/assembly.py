"""Assembly of a runtime from its parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from toolwright.adapters.motor.leases import NO_HEARTBEAT, LeaseMotor
from toolwright.core.agents.agent import CHANNELS, MEMORY, MIND, SPACES
from toolwright.core.agents.catalog import Catalog
from toolwright.core.agents.prompt import Context
from toolwright.core.journal.store import Outage, Store
from toolwright.core.mcp.questions import OpenForms, handler_tools
from toolwright.core.mcp.servers import TASK
from toolwright.core.ports import Motor
from toolwright.core.requests.speaker import RequestAgents
from toolwright.core.tools.pipeline import Executor
from toolwright.core.tools.tool import Kind
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.inboxes import Deliveries, Inboxes, Rounds
from toolwright.runtime.agents.memory import Blocks, Passages
from toolwright.runtime.agents.minds import Keepers, Minds, Plans
from toolwright.runtime.agents.speakers import BuiltinTools, Speakers
from toolwright.runtime.calls.calls import Calls
from toolwright.runtime.calls.handlers import Handlers
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.sampling import Sampling
from toolwright.runtime.calls.waiting import INLINE_WAIT, Waiting
from toolwright.runtime.children.child import ChildReports, ChildStart
from toolwright.runtime.children.requests import Requests
from toolwright.runtime.children.step_tools import StepTools, callable_tools, lifecycle_tools
from toolwright.runtime.children.subagents import Subagents
from toolwright.runtime.composed import ComposedRequests, Delegates
from toolwright.runtime.context.commit import Listeners
from toolwright.runtime.env import Environment, Keys
from toolwright.runtime.files import FileKeeper, ThreadFiles, WholeResults
from toolwright.runtime.health import Gauges, Health
from toolwright.runtime.housekeeping import Housekeeper, RetentionPeriods
from toolwright.runtime.journal import EffectCommits, Services
from toolwright.runtime.mcp import McpOffers
from toolwright.runtime.model.ask import ANSWER_LIMITS, ModelAnswers
from toolwright.runtime.model.context_window import ContextWindows
from toolwright.runtime.pending.mcp_tasks import McpTasks
from toolwright.runtime.pending.offers import Offers
from toolwright.runtime.pending.pending import PendingCalls
from toolwright.runtime.prompts import Prompts, SystemPrompts
from toolwright.runtime.runs.act import Actions
from toolwright.runtime.runs.ends import RunEnds
from toolwright.runtime.runs.handler_calls import HandlerCalls
from toolwright.runtime.runs.outcomes import Outcomes
from toolwright.runtime.runs.sent_prompts import SentPrompts
from toolwright.runtime.runs.worker import RunWorker
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.spaces.entities import Entities
from toolwright.runtime.spaces.membership import Membership
from toolwright.runtime.spaces.messages import Speech
from toolwright.runtime.spaces.spaces import Spaces
from toolwright.runtime.threads.deletion import Deletion
from toolwright.runtime.threads.events import Events, RunStreams
from toolwright.runtime.threads.results import RunResults
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.threads.thread_tree import Lineages
from toolwright.runtime.threads.threads import Threads
from toolwright.runtime.timers import CALL, PLAN, ClockWatch, Timers
from toolwright.runtime.toolkits.mcp_servers import AgentServers
from toolwright.runtime.toolkits.mind import MemoryToolkit, MindToolkit
from toolwright.runtime.toolkits.results import ResultReader
from toolwright.runtime.toolkits.spaces import ChannelsToolkit, SpacesToolkit
from toolwright.runtime.toolkits.toolkit import ToolkitParts
from toolwright.wiring.parts import Parts, needs_worker, worker_warning
from toolwright.wiring.settings import Settings

if TYPE_CHECKING:
    from toolwright.runtime.agents.semantics import Semantics


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """Parts that most services of a runtime share."""

    parts: Parts
    services: Services
    settings: Settings
    environment: Environment
    keeper: FileKeeper
    agents: Agents
    membership: Membership
    system_prompts: SystemPrompts
    deliveries: Deliveries
    child_start: ChildStart
    lineages: Lineages
    catalog: Catalog
    request_agents: RequestAgents
    mcp_offers: McpOffers
    model_answers: ModelAnswers
    outage: Outage
    forms: OpenForms


def assemble(
    catalog: Catalog,
    parts: Parts,
    settings: Settings,
    inline_wait: float = INLINE_WAIT,
    answer_limits: tuple[float, float] = ANSWER_LIMITS,
) -> Runtime:
    """Return the runtime of these parts, not yet started."""
    store, motor, clock, ids = parts.store, parts.motor, parts.clock, parts.new_id
    shared = _shared(catalog, parts, settings, answer_limits)
    services, agents, environment = shared.services, shared.agents, shared.environment
    keeper, membership = shared.keeper, shared.membership
    entities = Entities(services, agents, environment)
    speech = Speech(store, membership, shared.deliveries)
    effect_commits = EffectCommits(services)
    keepers = Keepers(store, agents)
    spaces = Spaces(services, effect_commits, entities, membership, speech)
    semantics = _semantics(parts)
    equipment = _equipment(store, spaces, speech, semantics)
    offers = Offers(services, shared.outage)
    speakers = Speakers(agents, equipment.with_builtins, shared.request_agents)
    drainer = _drainer(shared, speakers, offers, inline_wait)
    plans = Plans(services, agents, shared.deliveries, motor.wake)
    keys = Keys(store, environment, clock, ids)
    whole = WholeResults(store, keeper)
    events, results = Events(store, parts.bus, motor), RunResults(store, agents, whole)
    health = _health(parts, settings)
    streams = RunStreams(events, results, parts.motor)
    runs = Runs(services, results, streams, agents)
    pending = PendingCalls(services, agents, shared.lineages, keeper, whole, shared.forms)
    mcp_tasks = McpTasks(services, parts.mcp, agents, shared.lineages, pending, membership)
    deletion = Deletion(store, motor.wake, parts.bus, parts.files, clock, ids)
    threads = Threads(services, agents, runs, environment, keeper, shared.lineages, streams, deletion)
    return Runtime(
        catalog=catalog,
        agents=agents,
        services=services,
        drainer=drainer,
        timers=Timers(
            store, drainer, {CALL: pending.expire, PLAN: plans.fire, TASK: mcp_tasks.poll}, clock, ids
        ),
        mcp=_agent_servers(shared, equipment),
        threads=threads,
        runs=runs,
        composed=ComposedRequests(services, catalog, shared.request_agents, threads, runs, whole),
        requests=Requests(
            services, agents, speakers, shared.lineages, shared.child_start, environment, shared.outage
        ),
        calls=pending,
        offers=offers,
        files=ThreadFiles(store, keeper),
        minds=Minds(services, agents, keepers, effect_commits),
        blocks=Blocks(store, agents, keepers, effect_commits, clock),
        passages=Passages(services, keepers, effect_commits, semantics),
        prompts=Prompts(
            store, agents, shared.system_prompts, membership, equipment.with_builtins, shared.mcp_offers
        ),
        sent_prompts=SentPrompts(store, speakers),
        inboxes=Inboxes(services, agents, shared.deliveries, effect_commits),
        entities=entities,
        spaces=spaces,
        events=events,
        health=health,
        keys=keys,
        housekeeper=Housekeeper(
            store,
            motor,
            keys,
            parts.files,
            clock,
            ids,
            deletion,
            RetentionPeriods(events=settings.retain_events, runs=settings.retain_runs),
            semantics,
        ),
        clock_watch=ClockWatch(store, motor, clock, ids),
        toolkit_parts=_toolkit_parts(shared, equipment),
        gauges=None if parts.telemetry is None else Gauges(store, parts.telemetry, clock, health.check_ready),
        close=(shared.model_answers.windows.summaries.close, *parts.close, parts.sandbox.close),
    )


def _agent_servers(shared: _Shared, equipment: BuiltinTools) -> AgentServers:
    """Return the service for the MCP servers of agents."""
    return AgentServers(
        shared.services,
        shared.agents,
        equipment.with_builtins,
        shared.lineages,
        shared.mcp_offers,
        shared.parts.models,
        shared.settings.model,
    )


def _health(parts: Parts, settings: Settings) -> Health:
    """Return the health check, which also looks for a worker if this process executes no runs."""
    store, files, clock = parts.store, parts.files, parts.clock
    look_for_worker = None
    if needs_worker(settings):
        look_for_worker = partial(worker_warning, settings, store, parts.cipher.keys, files, clock)
    return Health(
        store,
        files,
        clock,
        parts.new_id,
        unready=lambda: _unready(settings, parts.motor),
        look_for_worker=look_for_worker,
    )


def _unready(settings: Settings, motor: Motor) -> str | None:
    """Return the reason why this node of a cluster currently executes no runs, or None."""
    if not settings.executes_in_cluster or motor.driving:
        return None
    return motor.unready if isinstance(motor, LeaseMotor) else NO_HEARTBEAT


def _toolkit_parts(shared: _Shared, equipment: BuiltinTools) -> ToolkitParts:
    """Return the parts of the toolkits for agent loops outside this runtime."""
    parts = shared.parts
    return ToolkitParts(
        store=parts.store,
        catalog=shared.catalog,
        agents=shared.agents,
        tools_of=lambda active, user_id: callable_tools(equipment.with_builtins(active, user_id)),
        lineages=shared.lineages,
        files=shared.keeper,
        motor=parts.motor,
        bus=parts.bus,
        clock=parts.clock,
        new_id=parts.new_id,
        cipher=parts.cipher,
        mcp=shared.mcp_offers,
        fit=shared.model_answers.fit_loop,
        reader=shared.model_answers.windows.reader,
        telemetry=parts.telemetry,
    )


def _semantics(parts: Parts) -> "Semantics | None":
    if parts.embedder is None:
        return None
    module = import_module("toolwright.runtime.agents.semantics")  # lazily: few apps have an embedder
    semantics: Semantics = module.Semantics(parts.store, parts.embedder, parts.clock, parts.new_id)
    return semantics


def _equipment(store: Store, spaces: Spaces, speech: Speech, semantics: "Semantics | None") -> BuiltinTools:
    """Return the built-in tools by toolkit."""
    kits = {
        SPACES: SpacesToolkit(spaces, speech),
        MIND: MindToolkit(store),
        CHANNELS: ChannelsToolkit(spaces, speech),
        MEMORY: MemoryToolkit(store, semantics),
    }
    return BuiltinTools({name: kit.tools for name, kit in kits.items()})


def _shared(
    catalog: Catalog, parts: Parts, settings: Settings, answer_limits: tuple[float, float]
) -> _Shared:
    store, clock, ids = parts.store, parts.clock, parts.new_id
    services = Services(
        store=store, motor=parts.motor, bus=parts.bus, clock=clock, new_id=ids, telemetry=parts.telemetry
    )
    environment = Environment(parts.cipher)
    agents = Agents(store, catalog, environment, parts.models, clock, ids, parts.read_api)
    context = catalog.context or Context(
        max_tokens=settings.context_tokens, summarize_with=settings.summary_model
    )
    system_prompts = SystemPrompts(store, agents)
    keeper = FileKeeper(
        parts.files, clock, ids, max_attachment=settings.max_attachment, max_text=settings.max_result_text
    )
    model_answers = ModelAnswers(
        parts.models,
        parts.bus,
        keeper,
        system_prompts,
        ContextWindows(store, parts.models, ResultReader(store).tool, context),
        default_model=settings.model,
        answer_limits=answer_limits,
    )
    return _Shared(
        parts=parts,
        services=services,
        settings=settings,
        environment=environment,
        keeper=keeper,
        agents=agents,
        membership=Membership(store, agents),
        system_prompts=system_prompts,
        deliveries=Deliveries(store, agents, clock, ids, settings.max_chain_depth),
        child_start=ChildStart(services, environment),
        lineages=Lineages(store, agents, environment),
        catalog=catalog,
        request_agents=RequestAgents(catalog),
        mcp_offers=McpOffers(parts.mcp, store, clock, model_answers.most_tokens),
        model_answers=model_answers,
        outage=parts.outage or Outage(clock),
        forms=OpenForms(),
    )


def _drainer(
    shared: _Shared,
    speakers: Speakers,
    offers: Offers,
    inline_wait: float,
) -> RunWorker:
    """Return the worker of runs, with all its dependencies."""
    parts, settings, keeper, environment = shared.parts, shared.settings, shared.keeper, shared.environment
    store = parts.store
    subagents = Subagents(shared.services, shared.agents, shared.child_start, settings.max_subagent_depth)
    delegates = Delegates(shared.catalog, shared.agents, shared.request_agents, subagents)
    executors: Mapping[Kind, Executor] = {"agent": subagents, "delegate": delegates, **parts.executors}
    calls = Calls(parts.inline_executors, keeper)
    handlers = Handlers(
        executors, parts.bus, keeper, environment, store, parts.sandbox, shared.forms, parts.abort_grace
    )
    model_answers, windows = shared.model_answers, shared.model_answers.windows
    nested = Nested(store, windows.with_reader)
    rounds = Rounds(store, shared.deliveries)
    ends = RunEnds(calls, nested, ChildReports(store, keeper), rounds, max_steps=settings.max_steps)
    waiting = Waiting(store, calls, inline_wait)
    step_tools = StepTools(store, lifecycle_tools, shared.mcp_offers, windows.with_reader)
    outcomes = Outcomes(calls, handlers, nested, ends)
    actions = Actions(
        calls,
        handlers,
        model_answers,
        waiting,
        nested,
        ends,
        outcomes,
        speakers,
        step_tools,
        environment,
        settings.longest_outage,
    )
    tools = handler_tools(Sampling(model_answers).answer)
    handler_calls = HandlerCalls(
        actions, outcomes, calls, handlers, waiting, nested, WholeResults(store, keeper), tools
    )
    actions.invoke = handler_calls.invoke
    listeners = Listeners(
        parts.motor.wake, offers.opened, parts.bus.publish, shared.outage, shared.services.callers
    )
    return RunWorker(
        shared.services,
        actions,
        calls,
        speakers,
        ends,
        shared.lineages,
        listeners,
        shared.membership,
        keeper,
        parts.lifespan,
    )
