"""An agent's toolkit for the caller's own loop: tool definitions, and handlers that record every call (S4)."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from toolwright.core import errors
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.catalog import RESERVED, Catalog
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.logs import log_ids
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.journal.units import Committed, CreateThread
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Bus, Cipher, Clock, Motor, NewId
from toolwright.core.threads.event import Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tenvs_needed import missing_tenvs
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Format, Toolset
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.carried import Carried, carried_operation
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.journal import by_id
from toolwright.runtime.mcp import McpOffers, env_of_agent
from toolwright.runtime.threads.runs import ENDS, LOOK_AGAIN
from toolwright.runtime.threads.thread_tree import Lineages
from toolwright.runtime.toolkits.external_calls import CallEnds, call_event, post_of, write_input
from toolwright.wire.result import s4_result

Handler = Callable[[object], Awaitable[JSONObject]]
"""Takes a call's input, an object; returns `{"content": [{"type": "text", "text": …}], "is_error"?: true}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitParts:
    """The parts of a runtime that toolkits share.

    `tools_of` returns all tools that an agent may call in a thread that belongs to that user, or to no one.
    """

    store: Store
    catalog: Catalog
    agents: Agents
    tools_of: Callable[[ActiveAgent, str | None], Toolset]
    lineages: Lineages
    files: FileKeeper
    motor: Motor
    bus: Bus
    clock: Clock
    new_id: NewId
    cipher: Cipher
    mcp: McpOffers
    telemetry: Telemetry | None = None


class Toolkit(Carried):
    """All tools of one agent, for the caller's own loop: `definitions` for the model, `handlers` for its calls.

    A call through a handler is processed like any other call: it is validated, recorded with its result in the run,
    executed by the tool's executor, resumed after a crash, and visible to followers. The caller is fixed here; the
    input cannot change it. Calls of one run are executed one after another.

    Without a run of the agent to record to, the toolkit creates a run in a thread of its own with the first call. A
    finished run is open again while calls are made in it.

    `await` the toolkit once if the agent is configured over HTTP or has MCP servers: this reads its tools. Raises
    `NotFound` for an unknown agent or run, `InvalidRequest` for another agent's run, `RunOver` for a run that has
    failed, was cancelled or skipped, `TenvsRequired` for an agent that needs tenvs which only a thread can provide.
    """

    def __init__(self, agent: str, run_id: str | None, parts: ToolkitParts) -> None:
        self._agent = agent
        self._parts = parts
        self._given_run = run_id
        self._run_id = run_id
        self._thread_id: str | None = None
        self._user_id: str | None = None
        self._active: ActiveAgent | None = parts.catalog.find_named(agent)
        self._placing = asyncio.Lock()
        self._mcp_tools: Sequence[Tool] = ()
        self._combined: tuple[tuple[Toolset, Sequence[Tool]], Toolset] | None = None
        self._ends = CallEnds(parts.store, parts.bus, parts.files)
        self.handlers: Mapping[str, Handler] = Handlers(self)

    def __await__(self) -> Generator[object, None, "Toolkit"]:
        return self._opened().__await__()

    @property
    def tools(self) -> Toolset:
        """The agent's tools, including those of its toolkits."""
        if self._active is None:
            raise errors.InvalidRequest(
                f"The agent {self._agent!r} is not declared by the app. If it is configured over HTTP, write "
                "`await rt.toolkit(…)`."
            )
        tools = self._parts.tools_of(self._active, self._user_id)
        if not self._mcp_tools:
            return tools
        if self._combined is None or self._combined[0] != (tools, self._mcp_tools):
            self._combined = (tools, self._mcp_tools), Toolset([*tools, *self._mcp_tools])
        return self._combined[1]  # the same object, which knows the names given to a model

    @property
    def definitions(self) -> list[JSONObject]:
        """Return the `tools` of Anthropic's `messages.create` as a new list, without those that the API rejects."""
        return self.definitions_for("anthropic")

    def definitions_for(self, format: Format) -> list[JSONObject]:
        """Return the definitions for OpenAI's chat completions, Anthropic's messages or MCP."""
        return self.tools.definitions(format, provider=None if format == "mcp" else format)

    @property
    def names(self) -> list[str]:
        """The names of the callable tools."""
        return [tool.name for tool in self.tools]

    @property
    def run_id(self) -> str | None:
        """The run that calls are recorded to; None before the first call if the toolkit creates its own run."""
        return self._run_id

    async def call(self, name: str, written_input: object) -> JSONObject:
        """Call a tool by name, like `handlers[name](written_input)`, also for a name that no tool has."""
        parts, call_id = self._parts, self._parts.new_id("call")
        written = await in_thread_if_large(written_input, write_input, written_input)
        while True:  # retry while the thread is busy with another run
            thread, run_id = await self._place()
            if log_ids().get("threadId") == thread.id:
                raise errors.InvalidRequest(
                    f"The thread {thread.id!r} waits for this handler, so the call would never end. Call the agent's "
                    "tools with state.invoke_tool instead."
                )
            translated = self.tools.renamed(name)
            own_name, own_input = name, written
            if translated is not None:
                own_name = translated.name
                own_input = changed(written, arguments=str(translated.arguments(written.arguments)))
            event = call_event(thread, call_id, own_name, own_input, parts.clock.now())
            with self._ends.expect(event, call_id) as end:
                if await self._post(thread, event, run_id):
                    parts.motor.wake(thread.id)
                    result = await end
                    return s4_result(result if translated is None else translated.result(result))

    # ── the run that records the calls ──────────────────────────────────────────────────────────────────────

    @carried_operation
    async def _opened(self) -> "Toolkit":
        parts = self._parts
        self._active = await parts.agents.active(self._agent)
        if self._active.agent_id in RESERVED:
            raise errors.NotFound(f"There is no agent {self._agent!r}.")
        if self._given_run is None:
            missing = self._active.missing_tenvs({})
            if missing:
                raise missing_tenvs(
                    f"The agent {self._active.agent.name!r} cannot have a thread of its own", missing
                )
            self._mcp_tools = (await parts.mcp.tools_for(self._active, env_of_agent(self._active))).tools
            return self
        run = await parts.store.run(by_id("run", self._given_run))
        if run is None:
            raise errors.NotFound(f"There is no run {self._given_run!r}.")
        if run.agent != self._active.agent_id:
            raise errors.InvalidRequest(
                f"The run {run.id!r} does not belong to the agent {self._active.agent.name!r}. A toolkit records "
                "calls of its own agent only."
            )
        if run.over and run.status != "completed":
            raise _over(run)
        thread = await self._thread(run.thread_id)
        if thread.answering != run.agent:
            raise errors.InvalidRequest(f"The thread of the run {run.id!r} was handed over to another agent.")
        env = await parts.lineages.env(thread, self._active)
        self._mcp_tools = (await parts.mcp.tools_for(self._active, env)).tools
        self._thread_id, self._user_id = run.thread_id, thread.user_id
        return self

    async def _place(self) -> tuple[Thread, str]:
        """Return the thread and the id of the run in which the next call is made."""
        async with self._placing:  # concurrent first calls must share one thread and one run
            thread = None if self._thread_id is None else await self._thread(self._thread_id)
            if thread is None or thread.answering != thread.agent:
                await self._opened()
                thread = (
                    await self._own_thread()
                    if self._given_run is None
                    else await self._thread(self._thread_id or "")
                )
            if not await self._parts.agents.exists(thread.agent):
                raise errors.NotFound(f"The agent {self._agent!r} no longer exists.")
            assert self._run_id is not None, "it goes with the thread"
            return thread, self._run_id

    async def _own_thread(self) -> Thread:
        """Create a thread of the agent for the toolkit's own run."""
        parts, now = self._parts, self._parts.clock.now()
        assert self._active is not None, "it was found"
        thread = Thread(id=parts.new_id("thr"), agent=self._active.agent_id, created_at=now)
        await parts.store.commit(CreateThread(token=parts.new_id("unit"), at=now, thread=thread))
        self._run_id, self._thread_id = parts.new_id("run"), thread.id
        return thread

    async def _thread(self, thread_id: str) -> Thread:
        thread = await self._parts.store.thread(thread_id)
        if thread is None:
            raise errors.NotFound(f"There is no thread {thread_id!r}.")
        return thread

    async def _post(self, thread: Thread, event: InboxEvent, run_id: str) -> bool:
        """Make the call in the run. Return False if the thread is busy with another run and it must be retried."""
        parts = self._parts
        unit = post_of(thread, event, run_id, parts.clock, parts.new_id, parts.telemetry)
        answer = await parts.store.commit(unit)
        if isinstance(answer, Committed):
            return True
        match answer.guard:
            case "terminated":
                raise errors.ThreadTerminated(
                    f"The thread {event.thread_id!r} is terminated, so no call can be made in it."
                )
            case "busy":
                await self._until_idle(event.thread_id)
            case "run":
                await self._next_run(run_id)
            case guard:
                raise errors.StoreError(f"The call could not be recorded ({guard}).")
        return False

    async def _until_idle(self, thread_id: str) -> None:
        """Wait until a run has ended, or for a while."""
        with self._parts.bus.subscribe(Topic(kind="thread", id=thread_id), ENDS) as follower:
            await follower.next(LOOK_AGAIN)

    async def _next_run(self, run_id: str) -> None:
        """Select a new run for the toolkit. Raises if the run was given, because it records nothing more."""
        if self._given_run is not None:
            run = await self._parts.store.run(run_id)
            raise errors.NotFound(f"There is no run {run_id!r}.") if run is None else _over(run)
        if self._run_id == run_id:
            self._run_id = self._parts.new_id("run")


class Handlers(Mapping[str, Handler]):
    """The handlers of a toolkit by name. The handler of an unknown name returns the error that a model would read."""

    def __init__(self, toolkit: Toolkit) -> None:
        self._toolkit = toolkit

    def __getitem__(self, name: str) -> Handler:
        return partial(self._toolkit.call, name)

    def __contains__(self, name: object) -> bool:
        return name in self._toolkit.names or (
            isinstance(name, str) and self._toolkit.tools.renamed(name) is not None
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._toolkit.names)

    def __len__(self) -> int:
        return len(self._toolkit.names)


def _over(run: Run) -> errors.RunOver:
    return errors.RunOver(f"The run {run.id!r} is {run.status}: it accepts no more calls.")
