"""The memory of agents, as a client sees it: core blocks and archival passages."""

from collections.abc import Sequence

from toolwright.client.transport.http import Http, segment
from toolwright.core.json_value import JSONObject
from toolwright.wire.agent import Block, Passage
from toolwright.wire.reading import Items, read_field, read_list


class Blocks:
    """Core memory blocks of an agent, by its name or id. Raises `NotFound` for what is not there.

    They are the agent's own; with a `user_id` those that it keeps for that person.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Items[Block]:
        """Return the blocks that it reads, its own and linked ones, by label."""
        path = f"/api/agents/{segment(agent)}/memory"
        query = {"limit": limit, "offset": offset, "userId": user_id}
        return read_list(Block, await self._http.get(path, query), "blocks")

    async def get(self, agent: str, label: str, *, user_id: str | None = None) -> Block:
        """Return the block of that label: its own, or the linked one."""
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
        """Write a block of the agent's own; the `readers`, other agents, read it from now on too.

        Raises `InvalidRequest`, also for a label that stands for another agent's block.
        """
        body: JSONObject = {"content": content, "readers": [*readers]}
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
        """Unlink that agent from this agent's block; no effect if it is not linked."""
        await self._http.call("DELETE", _link_path(agent, label, reader), repeat="lost")


def _block_path(agent: str, label: str) -> str:
    return f"/api/agents/{segment(agent)}/memory/{segment(label)}"


def _link_path(agent: str, label: str, reader: str) -> str:
    return f"/api/agents/{segment(agent)}/readers/{segment(reader)}/memory/{segment(label)}"


class Passages:
    """Archival passages of an agent, by its name or id. Raises `NotFound` for what is not there.

    They are the agent's own; with a `user_id` those that it keeps for that person.
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
        """Its passages in which every word of the query stands, by their rank. Raises `InvalidRequest`."""
        asked = {"q": query, "limit": limit, "offset": offset, "userId": user_id}
        return read_list(Passage, await self._http.get(_passages_path(agent), asked), "passages")

    async def add(
        self, agent: str, content: str, tags: Sequence[str] = (), *, user_id: str | None = None
    ) -> Passage:
        """Add a passage. It is not retried if the answer is lost (`AnswerLost`)."""
        body: JSONObject = {"content": content, "tags": [*tags]}
        answer = await self._http.call("POST", _passages_path(agent), body, query={"userId": user_id})
        return read_field(Passage, answer.json, "passage")

    async def drop(self, agent: str, passage_id: str, *, user_id: str | None = None) -> None:
        """Delete a passage."""
        path = f"{_passages_path(agent)}/{segment(passage_id)}"
        await self._http.call("DELETE", path, query={"userId": user_id}, repeat="lost")


def _passages_path(agent: str) -> str:
    return f"/api/agents/{segment(agent)}/passages"
