"""Effects on agents' memory, on the tables in memory."""

from toolwright.adapters.store.engine.outcome import GuardFailed
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.journal.effects import (
    AddPassage,
    DropBlock,
    DropPassage,
    LinkBlock,
    MemoryEffect,
    SetBlock,
    UnlinkBlock,
)


def perform_memory(effect: MemoryEffect, tables: Tables) -> None:
    """Do one effect."""
    match effect:
        case SetBlock(block=block):
            tables.blocks[block.agent_id, block.label] = block
        case DropBlock():
            if tables.blocks.pop((effect.agent_id, effect.label), None) is None:
                raise GuardFailed("block")
            for key in [key for key in tables.block_links if key[:2] == (effect.agent_id, effect.label)]:
                del tables.block_links[key]
        case LinkBlock():
            if (effect.agent_id, effect.label) not in tables.blocks:
                raise GuardFailed("block")
            tables.block_links[effect.agent_id, effect.label, effect.reader_id] = None
        case UnlinkBlock():
            tables.block_links.pop((effect.agent_id, effect.label, effect.reader_id), 0)
        case AddPassage(passage=passage):
            if (passage.agent_id, passage.id) in tables.passages:
                raise GuardFailed("duplicate")
            tables.passages[passage.agent_id, passage.id] = passage
        case DropPassage():
            if tables.passages.pop((effect.agent_id, effect.id), None) is None:
                raise GuardFailed("passage")
