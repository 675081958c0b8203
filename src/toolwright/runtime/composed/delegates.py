"""Delegates (S1 `_delegate`): calls that a new request, or another agent, executes in a child thread."""

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.catalog import REQUESTS, Catalog
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound
from toolwright.core.json_value import JSONObject
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
from toolwright.core.requests.speaker import RequestAgents, request_agent, written_model
from toolwright.core.results import Outcome, ToolResult
from toolwright.core.schemas.meta import ANONYMOUS, Call, read_call
from toolwright.core.schemas.output import Output
from toolwright.core.state.state import ThreadState
from toolwright.core.text import sentence
from toolwright.core.threads.child import Link
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Tool
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.calls.request_state import state_of
from toolwright.runtime.children.start import NewChildRows
from toolwright.runtime.children.subagents import Subagents
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.state.state import RunState
from toolwright.runtime.threads.thread_tree import child_id_of


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
        texts = [each.content for each in context.frame.messages]
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
            message=state.run_context.redactor.text(message),
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
    messages = [*context.frame.opening, *context.frame.messages]
    before = next(
        (place for place, each in enumerate(messages) if any(made.id == call_id for made in each.calls)), None
    )
    return CallContext(
        messages=[
            context.redactor.object(each)
            for each in earlier_conversation(request, messages[:before], call.instance)
        ],
        data=[context.redactor.object(each) for each in data],
        tools=tools,
        input=context.input_of(call.instance),
        state=state_of(context, Changes(), call.instance),
    )
