"""Blocks and passages of agents' memory, read and written from outside their runs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolwright.core.agents.memory import (
    CANDIDATES,
    MAX_BLOCKS,
    MAX_FOUND,
    MAX_LINKED,
    Block,
    Passage,
    Query,
    check_block,
    check_label,
    check_passage,
    fused,
    ranked,
    read_query,
)
from toolwright.core.checks import by_list, invalid_value
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.agent_effects import (
    AddPassage,
    CheckMind,
    DropBlock,
    DropPassage,
    LinkBlock,
    SetBlock,
    UnlinkBlock,
    link_key,
)
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.reads import AgentReads
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict
from toolwright.core.ports import Clock
from toolwright.core.text import brief, quantity
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.minds import Keepers, check_mind
from toolwright.runtime.carried import Carried
from toolwright.runtime.journal import EffectCommits, Services, by_id, by_kind, page

if TYPE_CHECKING:
    from toolwright.runtime.agents.semantics import Semantics  # not loaded by most apps


class Blocks(Carried):
    """Core memory blocks of an agent, by its name or id. Raises `NotFound` for unknown agents and blocks.

    They are the agent's own. With a `user_id` they are the blocks stored for that person, which are linked to no one.
    """

    def __init__(
        self, store: Store, agents: Agents, keepers: Keepers, effect_commits: EffectCommits, clock: Clock
    ) -> None:
        self._memory = store.agents
        self._agents = agents
        self._keepers = keepers
        self._effect_commits = effect_commits
        self._clock = clock

    async def list(
        self, agent: str, limit: int = 1_000, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Block]:
        """Return the blocks that the agent can read, its own and linked ones, by label."""
        page(limit, offset)
        blocks = await self._memory.blocks(await self._keepers.keeper_id(agent, user_id))
        return blocks[offset : offset + limit]

    async def get(self, agent: str, label: str, *, user_id: str | None = None) -> Block:
        """Return the agent's own block with that label, or the linked one. Raises `NotFound`."""
        label, agent_id = _label(label), await self._keepers.keeper_id(agent, user_id)
        blocks = await self._memory.blocks(agent_id)
        same = [block for block in blocks if block.label == label]
        own_blocks = [block for block in same if block.agent_id == agent_id]
        if not same:
            raise _no_block(label)
        return (own_blocks or same)[0]

    async def write(
        self,
        agent: str,
        label: str,
        content: str,
        readers: Sequence[str] = (),
        *,
        user_id: str | None = None,
    ) -> Block:
        """Create a block of the agent, or replace its content.

        The `readers` are other agents that can read it from now on, in addition to the current readers; see `link`.
        Raises `InvalidRequest` for content of more than 16 KiB, for too many blocks and for a label of another agent's
        block.
        """
        by_kind("label", label, str, "text")
        by_kind("content", content, str, "text")
        by_list("readers", readers, str, "names or ids of agents")
        if readers and user_id is not None:
            raise invalid_value("readers", "must be omitted: a block kept for a person has no readers")
        agent_id = await self._keepers.keeper_id(agent, user_id)
        while True:  # retry if a block has changed since it was read: the checks compare with these blocks
            blocks = await self._memory.blocks(agent_id)
            check_block(blocks, agent_id, label, content)
            block = Block(
                agent_id=agent_id,
                label=label,
                content=content,
                updated_at=self._clock.now(),
                is_shared=bool(readers)
                or any(each.is_shared for each in blocks if (each.agent_id, each.label) == (agent_id, label)),
            )
            links = [await self._link(agent_id, label, one, f"readers.{n}") for n, one in enumerate(readers)]
            check = check_blocks(blocks, agent_id, label, compared=True)
            effects = [effect for pair in links for effect in pair]
            if await self._commit(label, check, SetBlock(block=block), *effects):
                return block

    async def drop(self, agent: str, label: str, *, user_id: str | None = None) -> None:
        """Delete a block of the agent, also for linked readers."""
        keeper = await self._keepers.keeper_id(agent, user_id)
        await self._commit(label, DropBlock(agent_id=keeper, label=_label(label)))

    async def link(self, agent: str, label: str, reader: str) -> None:
        """Link another agent, the `reader`, to this agent's block.

        Raises `InvalidRequest` for the agent itself, and for a reader that is linked to too many blocks.
        """
        agent_id = await self._id(agent)
        while not await self._commit(label, *await self._link(agent_id, _label(label), reader, "reader")):
            pass  # the reader was linked to other blocks in the meantime

    async def _link(self, agent_id: str, label: str, reader: str, where: str) -> tuple[CheckMind, LinkBlock]:
        reader_id = await self._id(reader)
        if reader_id == agent_id:
            raise invalid_value(where, "must name another agent: an agent always reads its own blocks")
        blocks = await self._memory.blocks(reader_id)
        linked = {(each.agent_id, each.label) for each in blocks if each.agent_id != reader_id}
        if len(linked - {(agent_id, label)}) >= MAX_LINKED:
            raise InvalidRequest(
                f"The agent {reader!r} reads {quantity(len(linked), 'block')} of other agents. "
                f"At most {MAX_LINKED} are allowed.",
                [{"path": where, "message": f"already reads {MAX_LINKED} blocks of others, the maximum"}],
            )
        most = None if (agent_id, label) in linked else MAX_LINKED
        check = check_mind(reader_id, "links", [link_key(agent_id, label)], most)
        return check, LinkBlock(agent_id=agent_id, label=label, reader_id=reader_id)

    async def unlink(self, agent: str, label: str, reader: str) -> None:
        """Stop sharing this agent's block with that agent, if it is shared."""
        agent_id, reader_id = await self._id(agent), await self._id(reader)
        await self._commit(label, UnlinkBlock(agent_id=agent_id, label=_label(label), reader_id=reader_id))

    async def _commit(self, label: str, *effects: Effect) -> bool:
        """Commit the effects. Return False if the rows that they were built from have changed."""
        answer = await self._effect_commits.commit(*effects)
        if isinstance(answer, Conflict) and answer.guard != "mind":
            raise _no_block(label)
        return not isinstance(answer, Conflict)

    async def _id(self, agent: str) -> str:
        return (await self._agents.get(agent)).id


def check_blocks(blocks: Iterable[Block], agent_id: str, label: str, *, compared: bool = False) -> CheckMind:
    """Return the check of a unit that writes a block; `compared` if it must be unchanged since it was read."""
    own_blocks = {each.label: changed(each, is_shared=False) for each in blocks if each.agent_id == agent_id}
    most = None if label in own_blocks else MAX_BLOCKS
    return check_mind(agent_id, "blocks", [label], most, own_blocks if compared else None)


def _label(label: str) -> str:
    """Return the label. Raises `InvalidRequest` if it is invalid."""
    by_kind("label", label, str, "text")
    check_label(label)
    return label


def _no_block(label: str) -> NotFound:
    return NotFound(f"There is no block {brief(repr(label), 200)} of this agent.")


class Passages(Carried):
    """Archival passages of an agent, by its name or id. Raises `NotFound` for an unknown agent.

    They are the agent's own. With a `user_id` they are those stored for that person.
    """

    def __init__(
        self,
        services: Services,
        keepers: Keepers,
        effect_commits: EffectCommits,
        semantics: "Semantics | None",
    ) -> None:
        self._memory = services.store.agents
        self._keepers = keepers
        self._effect_commits = effect_commits
        self._clock = services.clock
        self._new_id = services.new_id
        self._semantics = semantics

    async def list(
        self, agent: str, limit: int = 50, offset: int = 0, *, user_id: str | None = None
    ) -> Sequence[Passage]:
        """Return the agent's passages, the newest first."""
        page(limit, offset)
        return await self._memory.passages(
            await self._keepers.keeper_id(agent, user_id), limit=limit, offset=offset
        )

    async def get(self, agent: str, passage_id: str, *, user_id: str | None = None) -> Passage:
        """Return a passage of the agent. Raises `NotFound` if it does not exist."""
        agent_id = await self._keepers.keeper_id(agent, user_id)
        passage = await self._memory.passage(agent_id, by_id("passage", passage_id))
        if passage is None:
            raise _no_passage(passage_id)
        return passage

    async def search(
        self,
        agent: str,
        query: str,
        limit: int = MAX_FOUND,
        offset: int = 0,
        *,
        user_id: str | None = None,
    ) -> Sequence[Passage]:
        """Return the passages that match the query, best first; `core.agents.memory` defines the ranking.

        There are at most `CANDIDATES` of them. With an embedder, passages with a similar meaning are found too, at most
        `core.agents.vectors.MAX_NEAR`. Raises `InvalidRequest` for a query without words, or with too many.
        """
        page(limit, offset)
        by_kind("query", query, str, "text")
        keywords = read_query(query)
        ranking = await rank_passages(
            self._memory, self._semantics, await self._keepers.keeper_id(agent, user_id), keywords, query
        )
        return ranking[offset : offset + limit]

    async def add(
        self, agent: str, content: str, tags: Sequence[str] = (), *, user_id: str | None = None
    ) -> Passage:
        """Create a passage. Raises `InvalidRequest` for content of more than 64 KiB and for invalid tags."""
        by_kind("content", content, str, "text")
        by_list("tags", tags, str, "texts")
        check_passage(content, tags)
        passage = Passage(
            agent_id=await self._keepers.keeper_id(agent, user_id),
            id=self._new_id("psg"),
            content=content,
            tags=tuple(tags),
            created_at=self._clock.now(),
        )
        vector = await self._semantics.vector(passage) if self._semantics else None
        await self._effect_commits.commit(AddPassage(passage=passage, vector=vector))
        return passage

    async def drop(self, agent: str, passage_id: str, *, user_id: str | None = None) -> None:
        """Delete a passage. Raises `NotFound` if it does not exist."""
        effect = DropPassage(
            agent_id=await self._keepers.keeper_id(agent, user_id), id=by_id("passage", passage_id)
        )
        if isinstance(await self._effect_commits.commit(effect), Conflict):
            raise _no_passage(passage_id)


async def rank_passages(
    memory: AgentReads, semantics: "Semantics | None", agent_id: str, query: Query, text: str
) -> Sequence[Passage]:
    """Return matching passages, best first, ranked by keywords and, with an embedder, by semantic similarity."""
    candidates = await memory.matches(agent_id, query, limit=CANDIDATES)
    ranking = ranked(candidates, query, CANDIDATES)
    if semantics is not None:
        ranking = fused(ranking, await semantics.nearest(agent_id, text))
    return ranking


def _no_passage(passage_id: str) -> NotFound:
    return NotFound(f"There is no passage {brief(repr(passage_id), 200)} of this agent.")
