"""Effects on agents' memory, on the in-memory tables."""

from toolwright.adapters.store.engine.outcome import GuardFailed
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.journal.effects import (
    AddPassage,
    DropBlock,
    DropPassage,
    LinkBlock,
    MemoryEffect,
    SetBlock,
    SetVector,
    UnlinkBlock,
)


def perform_memory(effect: MemoryEffect, tables: Tables) -> None:
    """Perform one effect."""
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
        case AddPassage():
            _add(effect, tables)
        case DropPassage():
            if tables.passages.pop((effect.agent_id, effect.id), None) is None:
                raise GuardFailed("passage")
            tables.places.pop((effect.agent_id, effect.id))
            tables.vectors.pop((effect.agent_id, effect.id), None)
        case SetVector():
            if (effect.agent_id, effect.id) in tables.passages:
                tables.vectors[effect.agent_id, effect.id] = effect.vector


def _add(effect: AddPassage, tables: Tables) -> None:
    key = (effect.passage.agent_id, effect.passage.id)
    if key in tables.passages:
        raise GuardFailed("duplicate")
    tables.counters["passages"] = tables.counters.get("passages", 0) + 1
    tables.passages[key], tables.places[key] = effect.passage, tables.counters["passages"]
    if effect.vector is not None:
        tables.vectors[key] = effect.vector
