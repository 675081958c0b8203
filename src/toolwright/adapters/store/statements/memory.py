"""The statements that write agents' memory."""

from sqlalchemy import LargeBinary, bindparam, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.statement import Compiler, DialectName, number, row_params, string
from toolwright.adapters.store.tables.memory import (
    block_links,
    blocks,
    passage_index,
    passage_keepers,
    passages,
)


class MemoryStatements:
    """Statements about blocks and passages, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self._name = name
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._block_statements(compiled := Compiler(name))
        self._passage_statements(compiled)
        mine = string("agent_id")
        self.drop_blocks = [
            compiled(delete(blocks).where(blocks.c.agent_id == mine)),
            compiled(delete(block_links).where(or_(block_links.c.agent_id == mine, _reader == mine))),
        ]
        self.drop_passages = [
            compiled(delete(passages).where(passages.c.agent_id == mine)),
            compiled(delete(passage_keepers).where(passage_keepers.c.agent_id == mine)),
        ]

    def _block_statements(self, compiled: Compiler) -> None:
        this = (blocks.c.agent_id == string("agent_id"), blocks.c.label == string("label"))
        put = self._insert(blocks).values(row_params(blocks))
        rest = {each: put.excluded[each] for each in ("content", "updated_at")}
        put = put.on_conflict_do_update(index_elements=["agent_id", "label"], set_=rest)
        self.put_block = compiled(put.returning(blocks.c.label))
        self.lock_block = compiled(select(blocks.c.label).where(*this).with_for_update())
        self.drop_block = compiled(delete(blocks).where(*this).returning(blocks.c.label))
        links = delete(block_links).where(
            block_links.c.agent_id == string("agent_id"), block_links.c.label == string("label")
        )
        self.drop_links = compiled(links)
        self.drop_link = compiled(links.where(_reader == string("reader_id")))
        self.put_link = compiled(
            self._insert(block_links).values(row_params(block_links)).on_conflict_do_nothing()
        )

    def _passage_statements(self, compiled: Compiler) -> None:
        keeper = self._insert(passage_keepers).values(agent_id=string("agent_id"), stored=number("one"))
        counted = keeper.on_conflict_do_update(
            index_elements=["agent_id"], set_={"stored": passage_keepers.c.stored + 1}
        )
        self.count_passage = compiled(counted.returning(passage_keepers.c.number, passage_keepers.c.stored))
        once = self._insert(passages).values(row_params(passages)).on_conflict_do_nothing()
        self.insert_passage = compiled(once.returning(passages.c.id))
        indexed = {"rowid": number("place"), "coded": string("coded")}
        self.is_indexed_apart = self._name == "sqlite"
        self.index_passage = compiled(insert(passage_index).values(indexed))
        this = (passages.c.agent_id == string("agent_id"), passages.c.id == string("id"))
        self.drop_passage = compiled(delete(passages).where(*this).returning(passages.c.id))
        named = (passages.c.agent_id == string("agent_id"), passages.c.id == string("passage_id"))
        vector = {"embedder": string("embedder"), "floats": bindparam("floats", type_=LargeBinary)}
        self.set_vector = compiled(update(passages).where(*named).values(vector))


_reader = block_links.c.reader_id
