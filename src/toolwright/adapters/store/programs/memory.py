"""Effects on agents' memory as programs."""

from collections.abc import Generator

from toolwright.adapters.store.engine.codecs import Params, Row
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.sql.memory import BLOCKS, PASSAGES, PASSAGES_EACH, coded
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.agents.memory import Passage, Vector, folded_passage
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


def perform_memory(effect: MemoryEffect, sql: Statements) -> Generator[Ops, list[Row], None]:
    """Perform one effect. Locks the row of the block, or of the owner of passages, for its dependent rows."""
    match effect:
        case SetBlock(block=block):
            yield Op(sql.memory.put_block, BLOCKS.params(block), "block")
        case DropBlock():
            this: Params = {"agent_id": effect.agent_id, "label": effect.label}
            yield Op(sql.memory.drop_block, this, "block")
            yield Op(sql.memory.drop_links, this)
        case LinkBlock():
            this = {"agent_id": effect.agent_id, "label": effect.label}
            yield Op(sql.memory.lock_block, this, "block")
            yield Op(sql.memory.put_link, {**this, "reader_id": effect.reader_id})
        case UnlinkBlock():
            this = {"agent_id": effect.agent_id, "label": effect.label}
            yield Op(sql.memory.drop_link, {**this, "reader_id": effect.reader_id})
        case AddPassage(passage=passage, vector=vector):
            yield from _add(passage, vector, sql)
        case DropPassage():
            this = {"agent_id": effect.agent_id, "id": effect.id}
            yield Op(sql.memory.drop_passage, this, "passage")
        case SetVector(vector=vector):
            this = {"agent_id": effect.agent_id, "passage_id": effect.id}
            yield Op(sql.memory.set_vector, {**this, **_vector_params(vector)})


def _add(passage: Passage, vector: Vector | None, sql: Statements) -> Generator[Ops, list[Row], None]:
    [(keeper, stored)] = yield Op(sql.memory.count_passage, {"agent_id": passage.agent_id, "one": 1})
    place = int(keeper) * PASSAGES_EACH + int(stored)
    folded = folded_passage(passage)
    row = PASSAGES.params(passage, place=place, folded=folded, **_vector_params(vector))
    yield Op(sql.memory.insert_passage, row, "duplicate")
    if sql.memory.is_indexed_apart:
        yield Op(sql.memory.index_passage, {"place": place, "coded": coded(folded, passage.agent_id)})


def _vector_params(vector: Vector | None) -> Params:
    if vector is None:
        return {"embedder": None, "floats": None}
    return {"embedder": vector.embedder, "floats": vector.floats}
