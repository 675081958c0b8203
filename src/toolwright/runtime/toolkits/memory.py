"""The toolkit `memory`: core blocks that an agent writes, and archival passages that it stores and searches (S4)."""

from typing import TYPE_CHECKING

from toolwright.core.agents.memory import MOST_FOUND, Block, Passage, check_block, check_passage, read_query
from toolwright.core.journal.effects import AddPassage, CheckMind, SetBlock
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.results import ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.agents.memory import check_blocks, rank_passages
from toolwright.runtime.toolkits.builtins import BuiltinState, builtin, call_item_id, within_run
from toolwright.wire.agent import passage_json

if TYPE_CHECKING:
    from toolwright.runtime.agents.semantics import Semantics  # not loaded by most apps

_BY_MEANING = (
    "Search your stored passages. Returns passages whose content or tags contain every keyword, and passages with a "
    "similar meaning."
)


class MemoryToolkit:
    """The three tools, which use the memory in a journal."""

    def __init__(self, store: Store, semantics: "Semantics | None" = None) -> None:
        self._memory = store.agents
        self._semantics = semantics
        search = builtin(self.search_memory)
        if semantics is not None:
            search = changed(search, description=_BY_MEANING)
        self.tools: tuple[Tool, ...] = (builtin(self.update_memory), search, builtin(self.store_memory))

    async def update_memory(self, state: ThreadState, label: str, content: str) -> ToolResult:
        """Write one of your own core memory blocks, which you see at every step. The content replaces the block with
        that label; a new label creates a block.
        """
        return await within_run(state, lambda run: self._update(run, label, content))

    async def search_memory(self, state: ThreadState, query: str) -> ToolResult:
        """Search your stored passages by keywords: each keyword must occur in a passage or its tags."""
        return await within_run(state, lambda run: self._search(run, query))

    async def store_memory(
        self, state: ThreadState, content: str, tags: list[str] | None = None
    ) -> ToolResult:
        """Store a passage for later searches, with optional tags."""
        return await within_run(state, lambda run: self._store(run, content, tags or []))

    async def _update(self, run: BuiltinState, label: str, content: str) -> JSON:
        keeper = (await run.reach()).keeper
        blocks = await run.retry_until_available(lambda: self._memory.blocks(keeper))
        check_block(blocks, keeper, label, content)
        block = Block(agent_id=keeper, label=label, content=content, updated_at=run.clock.now())

        async def checked() -> CheckMind:
            now = await self._memory.blocks(keeper)
            check_block(now, keeper, label, content)
            return check_blocks(now, keeper, run.clean(label))

        run.speak(checked)
        run.effect(SetBlock(block=block))
        return {"success": True}

    async def _search(self, run: BuiltinState, text: str) -> JSON:
        query = read_query(text)
        redacted = run.clean(text) if self._semantics else text
        keeper = (await run.reach()).keeper
        ranking = await run.retry_until_available(
            lambda: rank_passages(self._memory, self._semantics, keeper, query, redacted)
        )
        return {"passages": [passage_json(each) for each in ranking[:MOST_FOUND]]}

    async def _store(self, run: BuiltinState, content: str, tags: list[str]) -> JSON:
        check_passage(content, tags)
        passage = Passage(
            agent_id=(await run.reach()).keeper,
            id=call_item_id("psg", run.call_id),
            content=content,
            tags=tuple(tags),
            created_at=run.clock.now(),
        )
        vector = None
        if self._semantics is not None:  # the embedder receives the stored, redacted text
            clean = tuple([run.clean(tag) for tag in passage.tags])
            passage = changed(passage, content=run.clean(content), tags=clean)
            vector = await self._semantics.vector(passage)
        run.effect(AddPassage(passage=passage, vector=vector))
        return {"passageId": passage.id}
