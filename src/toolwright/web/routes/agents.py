"""Agents, declared by the app or configured here, what they keep in mind, and their inboxes."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Depends, Query, Request
from pydantic import Field, JsonValue, model_validator

from toolwright.core.agents.config import check_script
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import CONFIG_VALUES, PageLimit
from toolwright.core.tools.openapi import OperationFault as Fault
from toolwright.runtime.agents.agents import AgentView
from toolwright.web.answers import Answer, Deleted, ListShape, answer, answers, listed
from toolwright.web.dependencies import Service
from toolwright.web.options import GatewayOptions
from toolwright.web.requests.body import Form, described, parse, reads
from toolwright.web.requests.query import Description, Id, Limit, Name, Offset, Person, SpaceId, Words
from toolwright.web.routes.router import noun
from toolwright.web.serving import AtWork
from toolwright.wire.agent import (
    Agent,
    InboxEvent,
    McpServer,
    McpServerError,
    SystemPrompt,
    agent_json,
    inbox_json,
    mcp_server_json,
    tool_fault_json,
)
from toolwright.wire.shape import Absent, Shape

router = noun("/api/agents", "agents")


class OperationFault(Shape):
    """An operation of an OpenAPI document that is no tool, and why."""

    operation: str
    message: str


class AgentAnswer(Shape):
    """One agent; `faults` are there after a change whose OpenAPI documents have some."""

    agent: Agent
    agent_id: str
    entity_id: str
    faults: Absent[list[OperationFault]] = None


class AgentSaved(AgentAnswer):
    """An agent, and whether it is a new one."""

    created: bool


class AgentList(ListShape):
    """The agents that the app declares, in their order, then the configured ones, the oldest first."""

    agents: list[Agent]


class Triggered(Shape):
    """An agent that was woken."""

    success: Literal[True]
    agent_entity_id: str


class Configuration(Form):
    """A configuration, as an object or as JSON text."""

    config: dict[str, JsonValue] | None = None
    config_json: str | dict[str, JsonValue] | None = Field(None, description="The same, also as JSON text.")

    @model_validator(mode="after")
    def _one(self) -> "Configuration":
        if self.config is not None and self.config_json is not None:
            raise ValueError("must have either config or configJson, not both")
        return self

    def given_config(self, request: Request) -> JSON:
        """Return the configuration that was given, or None."""
        options: GatewayOptions = request.app.state.serving.options
        config = self._parsed(request)
        if options.scripts is not None:
            check_script(config, options.scripts)
        return config

    def _parsed(self, request: Request) -> JSON:
        if not isinstance(self.config_json, str):
            return self.config if self.config_json is None else self.config_json
        return parse("configJson", self.config_json, request, CONFIG_VALUES)


class NewAgent(Configuration):
    """An agent to configure."""

    name: Name
    description: Description = ""

    @model_validator(mode="after")
    def _some(self) -> "NewAgent":
        if self.config is None and self.config_json is None:
            raise ValueError("must have config or configJson")
        return self


class AgentChange(Configuration):
    """Changes of an agent; missing fields are unchanged. A configuration replaces the whole one."""

    name: Name | None = None
    description: Description | None = None


class NewTrigger(Form):
    """Why a service wakes an agent."""

    service_name: Name
    payload: JsonValue = None


@router.post(
    "",
    status_code=201,
    responses=answers(AgentSaved, "The agent of that name, with the new configuration.", errors=(409, 413))
    | answers(AgentSaved, "The new agent.", 201),
    openapi_extra=described(NewAgent),
)
async def save_agent(
    _: Service,
    runtime: AtWork,
    request: Request,
    new: Annotated[NewAgent, Depends(reads(NewAgent, CONFIG_VALUES))],
) -> Answer:
    """Configure an agent, or the one of that name again: its next run has the new configuration."""
    saved = await runtime.agents.save(new.name, new.given_config(request), new.description)
    body = _one(await runtime.agents.show(saved.agent.id), saved.faults)
    return answer({**body, "created": saved.created}, 201 if saved.created else 200)


@router.get("", responses=answers(AgentList, "The agents."))
async def list_agents(
    _: Service, runtime: AtWork, limit: Limit = PageLimit(1_000), offset: Offset = 0
) -> Answer:
    """The agents that the app declares, in their order, then the configured ones, oldest first."""
    agents = await runtime.agents.show_all(limit, offset)
    return listed("agents", agents, lambda each: agent_json(each.agent, each.config))


@router.get("/{agent_id}", responses=answers(AgentAnswer, "The agent.", errors=(404,)))
async def get_agent(_: Service, runtime: AtWork, agent_id: Id) -> Answer:
    """One agent, by its name or id."""
    return answer(_one(await runtime.agents.show(agent_id)))


@router.patch(
    "/{agent_id}",
    responses=answers(AgentAnswer, "The agent as it is now.", errors=(404, 409, 413)),
    openapi_extra=described(AgentChange),
)
async def change_agent(
    _: Service,
    runtime: AtWork,
    request: Request,
    agent_id: Id,
    change: Annotated[AgentChange, Depends(reads(AgentChange, CONFIG_VALUES))],
) -> Answer:
    """Change a configured agent: its next run sees the change."""
    config, errors = await runtime.agents.read_apis(change.given_config(request))
    changed = await runtime.agents.update(
        agent_id, name=change.name, config=config, description=change.description
    )
    return answer(_one(await runtime.agents.show(changed.id), errors))


@router.delete("/{agent_id}", responses=answers(Deleted, "It is deleted.", errors=(404,)))
async def delete_agent(_: Service, runtime: AtWork, agent_id: Id) -> Answer:
    """Delete a configured agent: it leaves its spaces; runs in progress end, no new one begins."""
    await runtime.agents.delete(agent_id)
    return answer({"success": True})


@router.post(
    "/{agent_id}/trigger",
    responses=answers(Triggered, "The agent is woken.", errors=(404, 413)),
    openapi_extra=described(NewTrigger),
)
async def trigger_agent(
    _: Service, runtime: AtWork, agent_id: Id, new: Annotated[NewTrigger, Depends(reads(NewTrigger))]
) -> Answer:
    """Wake an agent in a service's name; it reads the payload in its inbox."""
    await runtime.inboxes.trigger(agent_id, new.service_name, new.payload)
    return answer({"success": True, "agentEntityId": (await runtime.agents.get(agent_id)).entity_id})


@router.get("/{agent_id}/prompt", responses=answers(SystemPrompt, "The system prompt.", errors=(404,)))
async def get_prompt(
    _: Service, runtime: AtWork, agent_id: Id, space_id: SpaceId = None, user_id: Person = None
) -> Answer:
    """The agent's current system prompt: in its active space, or as if it were in the given space."""
    prompt = await runtime.prompts.of(agent_id, space_id, user_id)
    parts: list[JSON] = [{"name": part.name, "text": part.text} for part in prompt.sections]
    return answer({"prompt": prompt.prompt, "sections": parts})


def _one(row: AgentView, errors: Sequence[Fault] = ()) -> JSONObject:
    agent = row.agent
    body: JSONObject = {
        "agent": agent_json(agent, row.config),
        "agentId": agent.id,
        "entityId": agent.entity_id,
    }
    if errors:
        body["faults"] = [{"operation": each.operation, "message": each.message} for each in errors]
    return body


class McpServers(Shape):
    """The MCP servers of an agent, in the order of its configuration."""

    servers: list[McpServer]
    withheld: list[McpServerError] = Field(
        default_factory=list[McpServerError],
        description="Tools of the agent, its own among them, that its model is not offered, and why.",
    )


McpThread = Annotated[
    Words | None, Query(alias="threadId", description="A thread whose values the servers are asked with.")
]


@router.get("/{agent_id}/mcp", responses=answers(McpServers, "The servers.", errors=(404,)))
async def list_mcp_servers(_: Service, runtime: AtWork, agent_id: Id, thread_id: McpThread = None) -> Answer:
    """The MCP servers of an agent: which are there, the tools that it has of them, and what is wrong with them."""
    servers: list[JSON] = [mcp_server_json(each) for each in await runtime.mcp.of(agent_id, thread_id)]
    withheld: list[JSON] = [
        tool_fault_json(each.tool, each.message) for each in await runtime.mcp.withheld(agent_id)
    ]
    return answer({"servers": servers, "withheld": withheld})


@router.post(
    "/{agent_id}/mcp/{server}/tools/{tool}/accept",
    responses=answers(Deleted, "The agent has the tool again.", errors=(404,)),
)
async def accept_mcp_tool(_: Service, runtime: AtWork, agent_id: Id, server: Id, tool: Id) -> Answer:
    """Accept the definition of a tool that is held back since its server has changed it."""
    await runtime.mcp.accept(agent_id, server, tool)
    return answer({"success": True})


inboxes_router = noun("/api/agents/{agent_id}/inbox", "agents")


class InboxEventList(ListShape):
    """Events of an inbox, the oldest first."""

    events: list[InboxEvent]


class InboxEventAnswer(Shape):
    """One event of an inbox."""

    event: InboxEvent


ThreadId = Annotated[
    Words | None, Query(alias="threadId", description="Another thread of the agent than its home thread.")
]


@inboxes_router.get("", responses=answers(InboxEventList, "The events.", errors=(404,)))
async def list_inbox(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    thread_id: ThreadId = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> Answer:
    """Events of the agent's inbox, oldest first; a `failed` one waits until it is retried."""
    events = await runtime.inboxes.list(agent_id, thread_id, limit, offset)
    return listed("events", events, inbox_json)


@inboxes_router.post(
    "/{event_id}/retry", responses=answers(InboxEventAnswer, "The event, pending.", errors=(404, 409))
)
async def retry_event(
    _: Service, runtime: AtWork, agent_id: Id, event_id: Id, thread_id: ThreadId = None
) -> Answer:
    """Try a failed event again, as if it were new."""
    event = await runtime.inboxes.retry(agent_id, event_id, thread_id)
    return answer({"event": inbox_json(event)})
