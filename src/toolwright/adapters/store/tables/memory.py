"""Tables of agents' memory: blocks, who is linked to them, and passages with the index by which they are searched.

An agent's passages lie side by side: `place` is the number of its keeper, then the number of the passage. So a page
touches nobody else's. The index is called `passage_index`: on SQLite a table of FTS5, on Postgres an index of the
extension pg_trgm, where that can be had. The migration makes it.
"""

from hashlib import sha256

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    column,
    exists,
    table,
)

from toolwright.adapters.store.engine.codecs import a_text, texts
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.agents.memory import Block, Passage, PlacedVector

PASSAGES_EACH = 2**32
"""Places of one keeper."""

passage_index = table("passage_index", column("rowid"), column("coded"), column("passage_index"))
"""The index on SQLite, which is a column of itself; whoever deletes a passage takes its row away by a trigger."""

blocks = Table(
    "blocks",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("content", Json(a_text), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "label"),
)

block_links = Table(
    "block_links",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("reader_id", Text, nullable=False),
    PrimaryKeyConstraint("agent_id", "label", "reader_id"),
    Index("block_links_by_reader", "reader_id"),
)

passage_keepers = Table(
    "passage_keepers",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("agent_id", Text, nullable=False),
    Column("stored", BigInteger, nullable=False),
    UniqueConstraint("agent_id", name="passage_keepers_by_agent"),
)

passages = Table(
    "passages",
    metadata,
    Column("place", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("content", Json(a_text), nullable=False),
    Column("tags", Json(texts), nullable=False),
    Column("folded", Text, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("embedder", Text),
    Column("floats", LargeBinary),
    UniqueConstraint("agent_id", "id", name="passages_by_id"),
)

FIRST_CODE, CODES = 0x100, 1789
"""Characters that a coded text is made of: two bytes each in UTF-8, and a prime number of them."""


def coded(text: str, agent_id: str) -> str:
    """The text in a code of the agent's own, by which it is indexed on SQLite: each character stands for others.

    So no agent's trigrams are another's, and a search touches nobody else's part of the index, though FTS5 has one for
    all. Where two characters have one code the index finds too much, so what it finds is compared with the text itself.
    """
    seed = int.from_bytes(sha256(agent_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    factor, shift = 1 + seed % (CODES - 1), seed // CODES % CODES
    return "".join([chr(FIRST_CODE + (ord(each) * factor + shift) % CODES) for each in text])


_linked = exists().where(block_links.c.agent_id == blocks.c.agent_id, block_links.c.label == blocks.c.label)
BLOCKS = Mapping(blocks, Block, "label", columns=(*blocks.columns, _linked.label("is_shared")))
OWN_BLOCKS = Mapping(blocks, Block, "label")
"""Blocks of one agent, without who else reads them."""
_SEARCHED = ("folded", "embedder", "floats")  # by a search alone
PASSAGES = Mapping(
    passages, Passage, columns=[each for each in passages.columns if each.name not in _SEARCHED]
)
VECTORS = Mapping(
    passages, PlacedVector, columns=[passages.c[each] for each in ("place", "id", "embedder", "floats")]
)
