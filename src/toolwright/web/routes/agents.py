"""Routes of agents (declared by the app or configured over HTTP), of their MCP servers and inboxes."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import Field, JsonValue, model_validator

from toolwright.core.agents.config import check_script
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import CONFIG_VALUES, PageLimit
from toolwright.core.threads.inbox import InboxEvent as InboxEventRow
from toolwright.core.tools.openapi import OperationFault as Fault
from toolwright.runtime.agents.agents import AgentView
from toolwright.runtime.prompts import PromptPreview
from toolwright.web.answers import ApiResponse, Deleted, ListShape, answer, failures
from toolwright.web.dependencies import AtWork, Service
from toolwright.web.options import GatewayOptions
from toolwright.web.requests import (
    TOOLS,
    Description,
    Id,
    Limit,
    Name,
    Offset,
    Person,
    RequestBody,
    SpaceId,
    StorableText,
    parse,
)
from toolwright.web.route import noun
from toolwright.wire.agent import (
    Agent,
    InboxEvent,
    McpServer,
    McpServerError,
    SystemPrompt,
)
from toolwright.wire.rendering import Absent, Itself, WrittenBy
from toolwright.wire.shape import Shape

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


def _agent(row: AgentView) -> JSONObject:
    return Agent.of(row.agent, config=row.config)


class AgentList(ListShape):
    """The agents that the app declares, in order of declaration, then the configured agents, oldest first."""

    agents: list[Annotated[Agent, WrittenBy(_agent)]]


class Triggered(Shape):
    """An agent that was triggered."""

    success: Literal[True]
    agent_entity_id: str


class Configuration(RequestBody):
    """A configuration, as an object or as JSON text."""

    times = CONFIG_VALUES
    slow_text = TOOLS

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


class NewTrigger(RequestBody):
    """An event from a service for an agent's inbox."""

    service_name: Name
    payload: JsonValue = None


@router.post(
    "",
    status_code=201,
    response_model=AgentSaved,
    response_description="The new agent.",
    responses={200: {"model": AgentSaved, "description": "The updated agent of that name."}}
    | failures(409, 413),
)
async def save_agent(_: Service, runtime: AtWork, request: Request, new: NewAgent) -> ApiResponse:
    """Create an agent, or update the agent with that name. Its next run uses the new configuration."""
    saved = await runtime.agents.save(new.name, new.requested_config(request), new.description)
    body = _one(await runtime.agents.show(saved.agent.id), saved.faults)
    return answer({**body, "created": saved.created}, 201 if saved.created else 200)


@router.get("", response_description="The agents.")
async def list_agents(
    _: Service, runtime: AtWork, limit: Limit = PageLimit(1_000), offset: Offset = 0
) -> Annotated[Sequence[AgentView], AgentList]:
    """List the agents that the app declares, in order of declaration, then the configured agents, oldest first."""
    return await runtime.agents.show_all(limit, offset)


@router.get("/{agent_id}", response_description="The agent.", responses=failures(404))
async def get_agent(_: Service, runtime: AtWork, agent_id: Id) -> Annotated[JSONObject, AgentAnswer]:
    """Get an agent by name or id."""
    return _one(await runtime.agents.show(agent_id))


@router.patch("/{agent_id}", response_description="The updated agent.", responses=failures(404, 409, 413))
async def change_agent(
    _: Service, runtime: AtWork, request: Request, agent_id: Id, change: AgentChange
) -> Annotated[JSONObject, AgentAnswer]:
    """Update a configured agent. Its next run uses the change."""
    config, errors = await runtime.agents.read_apis(change.requested_config(request))
    changed = await runtime.agents.update(
        agent_id, name=change.name, config=config, description=change.description
    )
    return _one(await runtime.agents.show(changed.id), errors)


@router.delete("/{agent_id}", response_description="Deleted.", responses=failures(404))
async def delete_agent(_: Service, runtime: AtWork, agent_id: Id) -> Annotated[None, Deleted]:
    """Delete a configured agent. It leaves its spaces, its runs in progress end, and no new ones start."""
    await runtime.agents.delete(agent_id)


@router.post(
    "/{agent_id}/trigger", response_description="The agent is notified.", responses=failures(404, 413)
)
async def trigger_agent(
    _: Service, runtime: AtWork, agent_id: Id, new: NewTrigger
) -> Annotated[JSONObject, Triggered]:
    """Put an event with the payload into the agent's inbox, which starts a run."""
    await runtime.inboxes.trigger(agent_id, new.service_name, new.payload)
    return {"success": True, "agentEntityId": (await runtime.agents.get(agent_id)).entity_id}


@router.get("/{agent_id}/prompt", response_description="The agent's prompt.", responses=failures(404))
async def get_prompt(
    _: Service, runtime: AtWork, agent_id: Id, space_id: SpaceId = None, user_id: Person = None
) -> Annotated[PromptPreview, SystemPrompt]:
    """Get the agent's current system prompt, for its active space or the given one."""
    return await runtime.prompts.of(agent_id, space_id, user_id)


def _one(row: AgentView, errors: Sequence[Fault] = ()) -> JSONObject:
    agent = row.agent
    body: JSONObject = {
        "agent": _agent(row),
        "agentId": agent.id,
        "entityId": agent.entity_id,
    }
    if errors:
        body["faults"] = [OperationFault.of(each) for each in errors]
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


@router.get("/{agent_id}/mcp", response_description="The servers.", responses=failures(404))
async def list_mcp_servers(
    _: Service, runtime: AtWork, agent_id: Id, thread_id: McpThread = None
) -> Annotated[JSONObject, McpServers]:
    """List the MCP servers of an agent with their status, tools and errors."""
    return {
        "servers": [McpServer.of(each) for each in await runtime.mcp.of(agent_id, thread_id)],
        "withheld": [McpServerError.of(each) for each in await runtime.mcp.withheld(agent_id)],
    }


@router.post(
    "/{agent_id}/mcp/{server}/tools/{tool}/accept",
    response_description="The changed tool is accepted.",
    responses=failures(404),
)
async def accept_mcp_tool(
    _: Service, runtime: AtWork, agent_id: Id, server: Id, tool: Id
) -> Annotated[None, Deleted]:
    """Accept the changed definition of a tool, which is withheld from the model until then."""
    await runtime.mcp.accept(agent_id, server, tool)


inboxes_router = noun("/api/agents/{agent_id}/inbox", "agents")


class InboxEventList(ListShape):
    """Events of an inbox, oldest first."""

    events: list[InboxEvent]


class InboxEventAnswer(Shape):
    """One event of an inbox."""

    event: Itself[InboxEvent]


ThreadId = Annotated[
    StorableText | None,
    Query(alias="threadId", description="A thread of the agent. The default is its home thread."),
]


@inboxes_router.get("", response_description="The events.", responses=failures(404))
async def list_inbox(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    thread_id: ThreadId = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> Annotated[Sequence[InboxEventRow], InboxEventList]:
    """List the events of the agent's inbox, oldest first. A `failed` event is not retried automatically."""
    return await runtime.inboxes.list(agent_id, thread_id, limit, offset)


@inboxes_router.post(
    "/{event_id}/retry", response_description="The event, pending again.", responses=failures(404, 409)
)
async def retry_event(
    _: Service, runtime: AtWork, agent_id: Id, event_id: Id, thread_id: ThreadId = None
) -> Annotated[InboxEventRow, InboxEventAnswer]:
    """Retry a failed event."""
    return await runtime.inboxes.retry(agent_id, event_id, thread_id)
