"""Routes of agents (declared by the app or configured over HTTP), of their MCP servers and inboxes."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Depends, Query, Request
from pydantic import Field, JsonValue, model_validator

from toolwright.core.agents.config import check_script
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import CONFIG_VALUES, PageLimit
from toolwright.core.tools.openapi import OperationFault as Fault
from toolwright.runtime.agents.agents import AgentView
from toolwright.web.answers import ApiResponse, Deleted, ListShape, answer, answers, listed
from toolwright.web.dependencies import AtWork, Service, noun
from toolwright.web.options import GatewayOptions
from toolwright.web.requests import (
    TOOLS,
    Description,
    Id,
    Limit,
    Name,
    Offset,
    Person,
    RequestForm,
    SpaceId,
    StorableText,
    described,
    parse,
    reads,
)
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
    """An operation of an OpenAPI document that could not become a tool, and the reason."""

    operation: str
    message: str


class AgentAnswer(Shape):
    """One agent. `faults` are errors in its OpenAPI documents, after a change."""

    agent: Agent
    agent_id: str
    entity_id: str
    faults: Absent[list[OperationFault]] = None


class AgentSaved(AgentAnswer):
    """An agent, and whether it was created."""

    created: bool


class AgentList(ListShape):
    """The agents that the app declares, in order of declaration, then the configured agents, oldest first."""

    agents: list[Agent]


class Triggered(Shape):
    """An agent that was triggered."""

    success: Literal[True]
    agent_entity_id: str


class Configuration(RequestForm):
    """A configuration, as an object or as JSON text."""

    config: dict[str, JsonValue] | None = None
    config_json: str | dict[str, JsonValue] | None = Field(
        None, description="The configuration, as an object or as JSON text. An alternative to `config`."
    )

    @model_validator(mode="after")
    def _one(self) -> "Configuration":
        if self.config is not None and self.config_json is not None:
            raise ValueError("must have either config or configJson, not both")
        return self

    def requested_config(self, request: Request) -> JSON:
        """Return the requested configuration, or None."""
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


class NewTrigger(RequestForm):
    """An event from a service for an agent's inbox."""

    service_name: Name
    payload: JsonValue = None


@router.post(
    "",
    status_code=201,
    responses=answers(AgentSaved, "The updated agent of that name.", errors=(409, 413))
    | answers(AgentSaved, "The new agent.", 201),
    openapi_extra=described(NewAgent),
)
async def save_agent(
    _: Service,
    runtime: AtWork,
    request: Request,
    new: Annotated[NewAgent, Depends(reads(NewAgent, CONFIG_VALUES, large=TOOLS))],
) -> ApiResponse:
    """Create an agent, or update the agent with that name. Its next run uses the new configuration."""
    saved = await runtime.agents.save(new.name, new.requested_config(request), new.description)
    body = _one(await runtime.agents.show(saved.agent.id), saved.faults)
    return answer({**body, "created": saved.created}, 201 if saved.created else 200)


@router.get("", responses=answers(AgentList, "The agents."))
async def list_agents(
    _: Service, runtime: AtWork, limit: Limit = PageLimit(1_000), offset: Offset = 0
) -> ApiResponse:
    """List the agents that the app declares, in order of declaration, then the configured agents, oldest first."""
    agents = await runtime.agents.show_all(limit, offset)
    return listed("agents", agents, lambda each: agent_json(each.agent, each.config))


@router.get("/{agent_id}", responses=answers(AgentAnswer, "The agent.", errors=(404,)))
async def get_agent(_: Service, runtime: AtWork, agent_id: Id) -> ApiResponse:
    """Get an agent by name or id."""
    return answer(_one(await runtime.agents.show(agent_id)))


@router.patch(
    "/{agent_id}",
    responses=answers(AgentAnswer, "The updated agent.", errors=(404, 409, 413)),
    openapi_extra=described(AgentChange),
)
async def change_agent(
    _: Service,
    runtime: AtWork,
    request: Request,
    agent_id: Id,
    change: Annotated[AgentChange, Depends(reads(AgentChange, CONFIG_VALUES, large=TOOLS))],
) -> ApiResponse:
    """Update a configured agent. Its next run uses the change."""
    config, errors = await runtime.agents.read_apis(change.requested_config(request))
    changed = await runtime.agents.update(
        agent_id, name=change.name, config=config, description=change.description
    )
    return answer(_one(await runtime.agents.show(changed.id), errors))


@router.delete("/{agent_id}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_agent(_: Service, runtime: AtWork, agent_id: Id) -> ApiResponse:
    """Delete a configured agent. It leaves its spaces, its runs in progress end, and no new ones start."""
    await runtime.agents.delete(agent_id)
    return answer({"success": True})


@router.post(
    "/{agent_id}/trigger",
    responses=answers(Triggered, "The agent is notified.", errors=(404, 413)),
    openapi_extra=described(NewTrigger),
)
async def trigger_agent(
    _: Service, runtime: AtWork, agent_id: Id, new: Annotated[NewTrigger, Depends(reads(NewTrigger))]
) -> ApiResponse:
    """Put an event with the payload into the agent's inbox, which starts a run."""
    await runtime.inboxes.trigger(agent_id, new.service_name, new.payload)
    return answer({"success": True, "agentEntityId": (await runtime.agents.get(agent_id)).entity_id})


@router.get("/{agent_id}/prompt", responses=answers(SystemPrompt, "The agent's prompt.", errors=(404,)))
async def get_prompt(
    _: Service, runtime: AtWork, agent_id: Id, space_id: SpaceId = None, user_id: Person = None
) -> ApiResponse:
    """Get the agent's current system prompt, for its active space or the given one."""
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
        description="Tools of the agent that are withheld from its model, and why.",
    )


McpThread = Annotated[
    StorableText | None,
    Query(alias="threadId", description="The thread whose values are used to contact the servers."),
]


@router.get("/{agent_id}/mcp", responses=answers(McpServers, "The servers.", errors=(404,)))
async def list_mcp_servers(
    _: Service, runtime: AtWork, agent_id: Id, thread_id: McpThread = None
) -> ApiResponse:
    """List the MCP servers of an agent with their status, tools and errors."""
    servers: list[JSON] = [mcp_server_json(each) for each in await runtime.mcp.of(agent_id, thread_id)]
    withheld: list[JSON] = [
        tool_fault_json(each.tool, each.message) for each in await runtime.mcp.withheld(agent_id)
    ]
    return answer({"servers": servers, "withheld": withheld})


@router.post(
    "/{agent_id}/mcp/{server}/tools/{tool}/accept",
    responses=answers(Deleted, "The changed tool is accepted.", errors=(404,)),
)
async def accept_mcp_tool(_: Service, runtime: AtWork, agent_id: Id, server: Id, tool: Id) -> ApiResponse:
    """Accept the changed definition of a tool, which is withheld from the model until then."""
    await runtime.mcp.accept(agent_id, server, tool)
    return answer({"success": True})


inboxes_router = noun("/api/agents/{agent_id}/inbox", "agents")


class InboxEventList(ListShape):
    """Events of an inbox, oldest first."""

    events: list[InboxEvent]


class InboxEventAnswer(Shape):
    """One event of an inbox."""

    event: InboxEvent


ThreadId = Annotated[
    StorableText | None,
    Query(alias="threadId", description="A thread of the agent. The default is its home thread."),
]


@inboxes_router.get("", responses=answers(InboxEventList, "The events.", errors=(404,)))
async def list_inbox(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    thread_id: ThreadId = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> ApiResponse:
    """List the events of the agent's inbox, oldest first. A `failed` event is not retried automatically."""
    events = await runtime.inboxes.list(agent_id, thread_id, limit, offset)
    return listed("events", events, inbox_json)


@inboxes_router.post(
    "/{event_id}/retry", responses=answers(InboxEventAnswer, "The event, pending again.", errors=(404, 409))
)
async def retry_event(
    _: Service, runtime: AtWork, agent_id: Id, event_id: Id, thread_id: ThreadId = None
) -> ApiResponse:
    """Retry a failed event."""
    event = await runtime.inboxes.retry(agent_id, event_id, thread_id)
    return answer({"event": inbox_json(event)})
