"""Composed requests of users, and delegates: calls that a new request or an agent executes in a child (S1)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.catalog import REQUESTS, Catalog
from toolwright.core.checks import brief_value
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound, RunOver, SolutionError
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import CreateThread
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ATTACHMENT
from toolwright.core.requests.conversation import (
    CallContext,
    anonymous_request,
    caller_items,
    delegated_request,
    earlier_conversation,
    message_of,
    message_to,
    output_of,
)
from toolwright.core.requests.request import RequestForm, read_request
from toolwright.core.requests.speaker import (
    OBJECT,
    RequestAgents,
    Solution,
    known_tools,
    request_agent,
    written_model,
)
from toolwright.core.results import Outcome, ToolResult
from toolwright.core.schemas.meta import ANONYMOUS, REASONING, Call, read_call
from toolwright.core.schemas.output import InvalidAnswer, Output, read_answer
from toolwright.core.schemas.state_paths import read_value_key
from toolwright.core.state.state import ThreadState
from toolwright.core.text import sentence
from toolwright.core.threads.child import Link
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Value, changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.calls.request_state import state_of
from toolwright.runtime.children.child import NewChildRows
from toolwright.runtime.children.subagents import Subagents
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.files import WholeResults
from toolwright.runtime.journal import Services
from toolwright.runtime.state.state import RunState
from toolwright.runtime.threads.results import PAGE, call_rows, shown
from toolwright.runtime.threads.runs import Runs
from toolwright.runtime.threads.thread_tree import child_id_of
from toolwright.runtime.threads.threads import Threads


class Delegates:
    """The executor of tools of the kind `delegate`. A delegate's thread starts with the commit of its call."""

    def __init__(
        self, catalog: Catalog, agents: Agents, request_agents: RequestAgents, subagents: Subagents
    ) -> None:
        self._catalog = catalog
        self._agents = agents
        self._request_agents = request_agents
        self._subagents = subagents

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        """Start the delegate's thread. Its answer is the result of the call."""
        if not isinstance(state, RunState):
            return ToolResult.fail("Delegates can only be called within a run.", error_code="outside_run")
        tool = prepared.tool
        assert tool.meta is not None, "only schema tools have delegates"
        call = read_call(tool.name, tool.meta, prepared.arguments, latent=False)
        try:
            agent, birth = await self._birth(tool, call, state)
            outcome = await self._subagents.begin(state, birth, agent)
        except (InvalidRequest, NotFound, DefinitionError) as error:
            return ToolResult.fail(error.message, error_code=error.code)
        return outcome

    async def _birth(self, tool: Tool, call: Call, state: RunState) -> tuple[ActiveAgent, NewChildRows]:
        name, context = call.delegate or ANONYMOUS, state.run_context
        texts = [each.content for each in context.conversation.messages]
        measured = [context.thread.arguments, context.values, call.args, texts]
        caller = await in_thread_if_large(measured, _caller, context, call, state.call_id, self._catalog)
        if name == ANONYMOUS or name in self._catalog.requests:
            return await in_thread_if_large(measured, self._request, name, tool, call, state, caller)
        agent = await self._agent(name)
        link = Link(output=output_of(tool))
        if link.output is not None and agent.agent.type == "dual_ai":
            raise InvalidRequest(
                f"The agent {name!r} talks with itself, so it cannot answer with the _output of {tool.name!r}."
            )
        message = await in_thread_if_large(measured, message_to, tool, call, caller)
        return agent, self._birth_of(state, agent.agent_id, message, call.args, link)

    async def _agent(self, name_or_id: str) -> ActiveAgent:
        """Return the delegate's agent: declared by the app, or configured over HTTP."""
        try:
            agent = await self._agents.usable((await self._agents.get(name_or_id)).id)
        except NotFound:
            agent = None
        if agent is None:
            names = ", ".join(map(repr, self._catalog.delegates))
            raise NotFound(sentence(f"There is no delegate {name_or_id!r}; there are {names}"))
        return agent

    def _request(
        self, name: str, tool: Tool, call: Call, state: RunState, caller: CallContext
    ) -> tuple[ActiveAgent, NewChildRows]:
        """Return a request in a thread of its own, with the caller's model unless it names one."""
        base = anonymous_request(tool) if name == ANONYMOUS else self._catalog.requests[name]
        context = state.run_context
        model = base.config.model
        if model is None:  # the caller's model, which is already serialized in a request
            active, written = context.active, context.request
            model = written_model(active.agent_id, active.model) if written is None else written.config.model
        request = delegated_request(base, tool, call, caller, model)
        agent = request_agent(
            self._catalog,
            request,
            Output(request.output),
            self._request_agents.model_of(request),
            state.clock.now(),
        )
        return agent, self._birth_of(state, REQUESTS.id, message_of(request), request.as_json, Link())

    def _birth_of(
        self, state: RunState, agent_id: str, message: str, arguments: JSONObject, link: Link
    ) -> NewChildRows:
        return NewChildRows(
            thread_id=child_id_of(state.call_id),
            parent_id=state.thread_id,
            agent_id=agent_id,
            name=None,
            message=message,
            arguments=arguments,
            user_id=state.user_id,
            depth=state.chain_depth,
            link=link,
        )


def _caller(context: RunContext, call: Call, call_id: str, catalog: Catalog) -> CallContext:
    """Return the context of the call that the delegate's scopes can name."""
    request, active = context.request, context.active
    data: list[JSONObject] = []
    tools: list[JSONObject] = [
        {"type": "tool", "tool": [name for name in active.by_name if name in catalog.tools]}
    ]
    if request is not None:
        data, tools = caller_items(request, call.instance)
    messages = [*context.conversation.opening, *context.conversation.messages]
    before = next(
        (place for place, each in enumerate(messages) if any(made.id == call_id for made in each.calls)), None
    )
    return CallContext(
        messages=earlier_conversation(request, messages[:before], call.instance),
        data=data,
        tools=tools,
        input=context.input_of(call.instance),
        state=state_of(context, Changes(), call.instance),
    )


log = logger("toolwright.runtime")


class ComposedRequests:
    """Starts composed requests and reads their solutions. A request is the only run of its own thread."""

    def __init__(
        self,
        services: Services,
        catalog: Catalog,
        agents: RequestAgents,
        threads: Threads,
        runs: Runs,
        whole: WholeResults,
    ) -> None:
        self._catalog = catalog
        self._agents = agents
        self._store = services.store
        self._callers = services.callers
        self._threads = threads
        self._runs = runs
        self._whole = whole
        self._clock = services.clock
        self._new_id = services.new_id

    async def solve(
        self, config: Mapping[str, object], schema: object, context: Sequence[object] | str
    ) -> Solution:
        """Start a request, and wait for its solution. Cancelling the wait cancels the run."""
        new = await self._new(config, schema, context)
        try:
            with self._callers.executing(new.thread.id):
                run = await self._start(new)
                return await self.solution(run.id)
        except asyncio.CancelledError:
            await self._cancel(new.thread.id)
            raise
        finally:
            self._agents.release(new.thread.id)

    async def begin(
        self, config: Mapping[str, object], schema: object, context: Sequence[object] | str
    ) -> Run:
        """Start a request and return its run. Raises `InvalidConfiguration` with every error."""
        return await self._start(await self._new(config, schema, context))

    async def _new(self, config: object, schema: object, context: object) -> "_NewRequest":
        """Return the validated request, ready to start."""
        thread = Thread(id=self._new_id("thr"), agent=REQUESTS.id, created_at=self._clock.now())
        model, written = _without_object(config, thread.id)
        return await in_thread_if_large(
            [context, written, schema], _make, self._catalog, thread, model, (written, schema, context)
        )

    async def _start(self, new: "_NewRequest") -> Run:
        """Commit the request and wake its thread."""
        thread = new.thread
        self._agents.keep(thread.id, new.model, new.output, new.agent)
        unit = CreateThread(token=self._new_id("unit"), at=thread.created_at, thread=thread)
        await self._store.commit(unit)
        return await self._threads.send(thread.id, new.message)

    async def _cancel(self, thread_id: str) -> None:
        """Cancel the run of a request, even if its caller is cancelled repeatedly."""
        cancelling = asyncio.create_task(self._threads.cancel(thread_id))
        while not cancelling.done():
            with suppress(asyncio.CancelledError):  # an anyio scope cancels at every await
                await asyncio.wait([cancelling])
        error = cancelling.exception()
        # it was not started, or has ended
        if error is not None and not isinstance(error, NotFound | RunOver):
            log.warning(
                "The request of the thread %s continues, although its caller has gone: %s", thread_id, error
            )

    async def solution(self, run_id: str) -> Solution:
        """Return the solution of a finished request, also of one started by another process.

        Raises `SolutionError` if the run failed or was cancelled, `NotFound` if the run is not of a request.
        """
        thread = await self._threads.get((await self._runs.get(run_id)).thread_id)
        if thread.agent != REQUESTS.id:
            raise NotFound(f"The run {run_id!r} does not belong to a composed request.")
        run = await self._runs.wait(run_id)
        self._agents.release(thread.id)
        if run.status != "completed":
            why = run.error or f"The request was {run.status}."
            raise SolutionError(why, run.id, thread.id)
        request = await in_thread_if_large(thread.arguments, read_request, "The request", thread.arguments)
        tools = await in_thread_if_large(thread.arguments, known_tools, self._catalog, request)
        output = self._agents.output_of(thread.id, request)
        states = await self._states(thread.id, request)
        return Solution(
            output=None if run.output is None else output.load(run.output),
            calls=await self._calls(run, tools),
            state=states.pop(None),
            states={name: state for name, state in states.items() if name is not None},
            steps=run.step_count,
            usage=run.usage,
            stop_reason=run.stop_reason,
            run_id=run.id,
            thread_id=thread.id,
        )

    async def _calls(self, run: Run, tools: Mapping[str, Tool]) -> tuple[Call, ...]:
        """Return the calls that the model has made in the run, in order, with their results (see `RunResult`)."""
        rows = await self._whole.of_calls(await call_rows(self._store, run.id), MAX_ATTACHMENT)
        reasons: Mapping[tuple[int, int], str] = {}
        if any(tool.meta is None for tool in tools.values()):
            reasons = _reasons(await _answers(self._store, run))
        return tuple([shown(row, tools, reasons.get((row.step, row.position))) for row in rows])

    async def _states(self, thread_id: str, request: RequestForm) -> dict[str | None, JSONObject]:
        """Return the final state, also of each instance: written values override the values of the context."""
        states = {instance: request.state_of(instance) for instance in (None, *request.instances)}
        for key, text in (await self._store.children.values(thread_id)).items():
            name, instance = read_value_key(key)
            states.setdefault(instance, {})[name] = json.loads(text)
        return states


class _NewRequest(Value, gc=True):
    """A request before its start: its thread, its first message, and the values that JSON cannot represent."""

    thread: Thread
    message: str
    model: object
    output: Output
    agent: ActiveAgent


def _make(
    catalog: Catalog, thread: Thread, model: object, parts: tuple[JSONObject, object, object]
) -> _NewRequest:
    """Return the request with these parts (config, schema and context) in that thread."""
    config, schema, context = parts
    output = Output(schema)
    request = read_request("The request", {"config": config, "schema": output.schema, "context": context})
    message = message_of(request)
    chosen = request.config.model if model is None else model
    agent = request_agent(catalog, request, output, chosen, thread.created_at)  # raises for invalid parts
    return _NewRequest(
        thread=changed(thread, arguments=request.as_json),
        message=message,
        model=model,
        output=output,
        agent=agent,
    )


def _without_object(config: object, thread_id: str) -> tuple[object, JSONObject]:
    """Return the model if it is an object, or None, and the configuration as JSON for that thread."""
    if not isinstance(config, Mapping):
        raise InvalidRequest(f"The config of a request must be an object, not {brief_value(config)}.")
    written = dict(cast("Mapping[str, Any]", config))  # its fields are validated with the request
    model: object = written.get("model")
    if isinstance(model, str) and model.startswith(OBJECT):
        raise InvalidRequest(f"The name of a model must not begin with {OBJECT!r}.")
    if not _speaks(model):
        return None, written
    written["model"] = written_model(thread_id, model)
    return model, written


def _speaks(model: object) -> bool:
    """Return whether it is a model object, ours or pydantic-ai's."""
    return not isinstance(model, type) and (hasattr(model, "respond") or hasattr(model, "request_stream"))


async def _answers(store: Store, run: Run) -> list[Message]:
    """Return the messages of the run in which its model has made calls."""
    messages: list[Message] = []
    while page := await store.messages(run.thread_id, PAGE, len(messages)):
        messages += page
    return [each for each in messages if each.run_id == run.id and each.calls and each.within is None]


def _reasons(answers: Sequence[Message]) -> dict[tuple[int, int], str]:
    """Return the reasons of calls by step and position. Tools without meta-properties keep them in the answer only."""
    reasons: dict[tuple[int, int], str] = {}
    for answer in answers:
        for position, call in enumerate(_written(answer.content)):
            reason = call.get(REASONING) if isinstance(call, dict) else None
            if isinstance(reason, str):
                reasons[answer.step, position] = reason
    return reasons


def _written(text: str) -> list[JSON]:
    """Return the calls in the text of an answer, or none if they were made in another way."""
    try:
        answer = read_answer(text)
    except InvalidAnswer:
        return []
    calls = answer.get("calls") if isinstance(answer, dict) else None
    return calls if isinstance(calls, list) else []
