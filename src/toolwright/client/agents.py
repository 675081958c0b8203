"""Agents over HTTP, with their memory, goals, plans, MCP servers and inboxes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pydantic.alias_generators import to_camel

from toolwright.client.http import Http, Repeat, segment
from toolwright.core.agents.mind import GoalChange, MemoryChange, PlanChange
from toolwright.core.checks import by_list
from toolwright.core.json_value import JSON, JSONObject, plain
from toolwright.wire.agent import (
    Agent,
    Block,
    Goal,
    InboxEvent,
    McpServer,
    Memory,
    Passage,
    Plan,
    SystemPrompt,
)
from toolwright.wire.shape import Items, read, read_field, read_list

_CHANGES: Mapping[str, type[object]] = {"goals": GoalChange, "memories": MemoryChange, "plans": PlanChange}


class Blocks:
    """Core memory blocks of an agent, by its name or id. Raises `NotFound`.

    They are the agent's own; with a `user_id` they are the blocks stored for that person.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Items[Block]:
        """Return the blocks that the agent reads, its own and linked ones, ordered by label."""
        path = f"/api/agents/{segment(agent)}/memory"
        query = {"limit": limit, "offset": offset, "userId": user_id}
        return read_list(Block, await self._http.get(path, query), "blocks")

    async def get(self, agent: str, label: str, *, user_id: str | None = None) -> Block:
        """Return the agent's own block of that label, or the linked one."""
        answer = await self._http.get(_block_path(agent, label), {"userId": user_id})
        return read_field(Block, answer, "block")

    async def write(
        self,
        agent: str,
        label: str,
        content: str,
        readers: Sequence[str] = (),
        *,
        user_id: str | None = None,
    ) -> Block:
        """Create or replace a block of the agent. The `readers`, other agents, can read it from then on.

        Raises `InvalidRequest`, also if the label belongs to a block linked from another agent.
        """
        body: JSONObject = {"content": content, "readers": plain(readers)}
        path, query = _block_path(agent, label), {"userId": user_id}
        answer = await self._http.call("PUT", path, body, query=query, repeat="lost")
        return read_field(Block, answer.json, "block")

    async def drop(self, agent: str, label: str, *, user_id: str | None = None) -> None:
        """Delete one of the agent's blocks, also for linked agents."""
        query = {"userId": user_id}
        await self._http.call("DELETE", _block_path(agent, label), query=query, repeat="lost")

    async def link(self, agent: str, label: str, reader: str) -> None:
        """Link another agent, the `reader`, to this agent's block."""
        await self._http.call("PUT", _link_path(agent, label, reader), repeat="lost")

    async def unlink(self, agent: str, label: str, reader: str) -> None:
        """Unlink the `reader` from this agent's block. No effect if it is not linked."""
        await self._http.call("DELETE", _link_path(agent, label, reader), repeat="lost")


def _block_path(agent: str, label: str) -> str:
    return f"/api/agents/{segment(agent)}/memory/{segment(label)}"


def _link_path(agent: str, label: str, reader: str) -> str:
    return f"/api/agents/{segment(agent)}/readers/{segment(reader)}/memory/{segment(label)}"


class Passages:
    """Archival passages of an agent, by its name or id. Raises `NotFound`.

    They are the agent's own; with a `user_id` they are the passages stored for that person.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self, agent: str, limit: int = 50, offset: int = 0, *, user_id: str | None = None
    ) -> Items[Passage]:
        """Return the passages, newest first."""
        query = {"limit": limit, "offset": offset, "userId": user_id}
        return read_list(Passage, await self._http.get(_passages_path(agent), query), "passages")

    async def get(self, agent: str, passage_id: str, *, user_id: str | None = None) -> Passage:
        """Return a passage."""
        path = f"{_passages_path(agent)}/{segment(passage_id)}"
        return read_field(Passage, await self._http.get(path, {"userId": user_id}), "passage")

    async def search(
        self,
        agent: str,
        query: str,
        limit: int = 20,
        offset: int = 0,
        *,
        user_id: str | None = None,
    ) -> Items[Passage]:
        """Return the passages that contain every keyword of the query, best match first. Raises `InvalidRequest`."""
        requested = {"q": query, "limit": limit, "offset": offset, "userId": user_id}
        return read_list(Passage, await self._http.get(_passages_path(agent), requested), "passages")

    async def add(
        self, agent: str, content: str, tags: Sequence[str] = (), *, user_id: str | None = None
    ) -> Passage:
        """Add a passage. It is not retried if the answer is lost (`AnswerLost`)."""
        body: JSONObject = {"content": content, "tags": plain(tags)}
        answer = await self._http.call("POST", _passages_path(agent), body, query={"userId": user_id})
        return read_field(Passage, answer.json, "passage")

    async def drop(self, agent: str, passage_id: str, *, user_id: str | None = None) -> None:
        """Delete a passage."""
        path = f"{_passages_path(agent)}/{segment(passage_id)}"
        await self._http.call("DELETE", path, query={"userId": user_id}, repeat="lost")


def _passages_path(agent: str) -> str:
    return f"/api/agents/{segment(agent)}/passages"


class Agents:
    """The agents of a server, by name or id."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, limit: int = 1_000, offset: int = 0) -> Items[Agent]:
        """Return the agents, in the order of their declaration."""
        return read_list(
            Agent, await self._http.get("/api/agents", {"limit": limit, "offset": offset}), "agents"
        )

    async def get(self, agent: str) -> Agent:
        """Return an agent. Raises `NotFound`."""
        return read_field(Agent, await self._http.get(f"/api/agents/{segment(agent)}"), "agent")

    async def create(self, name: str, config: JSONObject, description: str = "") -> Agent:
        """Create an agent, or replace the configuration of the agent of that name.

        Raises `InvalidConfiguration`, `AlreadyExists`.
        """
        body: JSONObject = {"name": name, "description": description, "config": config}
        answer = await self._http.call("POST", "/api/agents", body, repeat="lost")
        return read_field(Agent, answer.json, "agent")

    async def update(
        self,
        agent: str,
        *,
        name: str | None = None,
        config: JSONObject | None = None,
        description: str | None = None,
    ) -> Agent:
        """Change the given fields; a configuration replaces the whole one. Raises `Forbidden` for a declared agent."""
        body: JSONObject = {"name": name, "config": config, "description": description}
        return read_field(Agent, (await self._http.call("PATCH", _path(agent), body)).json, "agent")

    async def delete(self, agent: str) -> None:
        """Delete a configured agent: it leaves its spaces, and it starts no new runs."""
        await self._http.call("DELETE", _path(agent), repeat="lost")

    async def trigger(self, agent: str, service_name: str, payload: JSON = None) -> None:
        """Send an event to an agent in a service's name. It is not retried if the answer is lost (`AnswerLost`)."""
        body: JSONObject = {"serviceName": service_name, "payload": payload}
        await self._http.call("POST", f"{_path(agent)}/trigger", body)

    async def prompt(
        self, agent: str, space_id: str | None = None, user_id: str | None = None
    ) -> SystemPrompt:
        """Return the agent's current system prompt: in its home thread, in a space, or in a new thread of a user."""
        query = {"spaceId": space_id, "userId": user_id}
        return read(SystemPrompt, await self._http.get(f"{_path(agent)}/prompt", query))

    async def mcp(self, agent: str, thread_id: str | None = None) -> Items[McpServer]:
        """Return the MCP servers of the agent, connected with the values of a thread, or with the agent's own.

        Raises `NotFound`.
        """
        answer = await self._http.get(f"{_path(agent)}/mcp", {"threadId": thread_id})
        return read_list(McpServer, answer, "servers")

    async def accept_mcp_tool(self, agent: str, server: str, tool: str) -> None:
        """Accept a tool that is held back because its server has changed its definition. Raises `NotFound`."""
        path = f"{_path(agent)}/mcp/{segment(server)}/tools/{segment(tool)}/accept"
        await self._http.call("POST", path, {})

    async def goals(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Items[Goal]:
        """Return the agent's goals, oldest first. Raises `NotFound`."""
        return read_list(Goal, await self._items(agent, "goals", limit, offset, user_id), "goals")

    async def set_goals(
        self, agent: str, changes: Sequence[GoalChange], *, user_id: str | None = None
    ) -> Items[Goal]:
        """Create and change goals, all or none; return all goals. Raises `InvalidRequest`."""
        return read_list(Goal, await self._set(agent, "goals", changes, user_id), "goals")

    async def drop_goal(self, agent: str, goal_id: str, *, user_id: str | None = None) -> None:
        """Delete a goal. Raises `NotFound`."""
        await self._drop(agent, "goals", goal_id, user_id)

    async def memories(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Items[Memory]:
        """Return the agent's memories, by key. Raises `NotFound`."""
        return read_list(Memory, await self._items(agent, "memories", limit, offset, user_id), "memories")

    async def set_memories(
        self, agent: str, changes: Sequence[MemoryChange], *, user_id: str | None = None
    ) -> Items[Memory]:
        """Store values by key, all or none; return all memories. Raises `InvalidRequest`."""
        return read_list(
            Memory, await self._set(agent, "memories", changes, user_id, repeat="lost"), "memories"
        )

    async def drop_memory(self, agent: str, key: str, *, user_id: str | None = None) -> None:
        """Delete a memory. Raises `NotFound`."""
        await self._drop(agent, "memories", key, user_id)

    async def plans(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Items[Plan]:
        """Return the agent's plans, soonest first. Raises `NotFound`."""
        return read_list(Plan, await self._items(agent, "plans", limit, offset, user_id), "plans")

    async def set_plans(self, agent: str, changes: Sequence[PlanChange]) -> Items[Plan]:
        """Create and change plans, all or none; return all plans. Raises `InvalidRequest`."""
        return read_list(Plan, await self._set(agent, "plans", changes), "plans")

    async def drop_plan(self, agent: str, plan_id: str, *, user_id: str | None = None) -> None:
        """Delete a plan. Raises `NotFound`."""
        await self._drop(agent, "plans", plan_id, user_id)

    async def _set(
        self,
        agent: str,
        noun: str,
        changes: Sequence[GoalChange | MemoryChange | PlanChange],
        user_id: str | None = None,
        repeat: Repeat = "unsent",
    ) -> JSON:
        kind = _CHANGES[noun]
        by_list("changes", changes, kind, f"{kind.__name__} values", required=True)
        items: list[JSON] = [
            {to_camel(name): said for name, said in asdict(each).items()} for each in changes
        ]
        path, query = f"{_path(agent)}/{noun}", {"userId": user_id}
        return (await self._http.call("POST", path, {noun: items}, query=query, repeat=repeat)).json

    async def _drop(self, agent: str, noun: str, name: str, user_id: str | None) -> None:
        path = f"{_path(agent)}/{noun}/{segment(name)}"
        await self._http.call("DELETE", path, query={"userId": user_id}, repeat="lost")

    async def _items(self, agent: str, noun: str, limit: int, offset: int, user_id: str | None) -> JSON:
        path = f"/api/agents/{segment(agent)}/{noun}"
        return await self._http.get(path, {"limit": limit, "offset": offset, "userId": user_id})


def _path(agent: str) -> str:
    return f"/api/agents/{segment(agent)}"


class Inboxes:
    """Inbox events of an agent's home thread, or of another thread of the agent."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self, agent: str, thread_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Items[InboxEvent]:
        """Return the events, oldest first; a `failed` event waits until it is retried."""
        query = {"threadId": thread_id, "limit": limit, "offset": offset}
        return read_list(InboxEvent, await self._http.get(_inbox_path(agent), query), "events")

    async def retry(self, agent: str, event_id: str, thread_id: str | None = None) -> InboxEvent:
        """Retry a failed event. Raises `NotFound`, `NotFailed`."""
        path = f"{_inbox_path(agent)}/{segment(event_id)}/retry"
        answer = await self._http.call("POST", path, query={"threadId": thread_id})
        return read_field(InboxEvent, answer.json, "event")


def _inbox_path(agent: str) -> str:
    return f"/api/agents/{segment(agent)}/inbox"
