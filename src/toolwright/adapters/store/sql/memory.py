"""SQL of agents' memory: blocks, the agents linked to them, and passages with their search index.

An agent's passages are stored contiguously: `place` combines the number of the owner and the number of the passage. So
reading a page touches no other agent's rows. The index is called `passage_index`: on SQLite an FTS5 table, on Postgres
an index of the extension pg_trgm, if that is available. The migration creates it.
"""

from functools import cache
from hashlib import sha256

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, a_text, texts
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Op,
    Reading,
    RowQuery,
    Statement,
    number,
    row_params,
    string,
)
from toolwright.core.agents.memory import Block, BlockLink, Passage, PassageRow, PlacedVector, Query

PASSAGES_EACH = 2**32
"""Number of places reserved for each owner of passages."""

passage_index = sa.table("passage_index", sa.column("rowid"), sa.column("coded"), sa.column("passage_index"))
"""The index on SQLite. FTS5 tables have a column of their own name. A trigger deletes a row with its passage."""

blocks = sa.Table(
    "blocks",
    metadata,
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("content", Json(a_text), nullable=False),
    sa.Column("updated_at", Instant(), nullable=False),
    sa.PrimaryKeyConstraint("agent_id", "label"),
)

block_links = sa.Table(
    "block_links",
    metadata,
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("reader_id", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("agent_id", "label", "reader_id"),
    sa.Index("block_links_by_reader", "reader_id"),
)

passage_keepers = sa.Table(
    "passage_keepers",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("stored", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("agent_id", name="passage_keepers_by_agent"),
)

passages = sa.Table(
    "passages",
    metadata,
    sa.Column(
        "place", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False
    ),
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("content", Json(a_text), nullable=False),
    sa.Column("tags", Json(texts), nullable=False),
    sa.Column("folded", sa.Text, nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("embedder", sa.Text),
    sa.Column("floats", sa.LargeBinary),
    sa.UniqueConstraint("agent_id", "id", name="passages_by_id"),
)

FIRST_CODE, CODES = 0x100, 1789
"""First character and number of characters of coded texts. Each is two bytes in UTF-8; the number is prime."""
_SEARCHED = ("folded", "embedder", "floats")  # only by a search
TRIGRAM = 3  # characters: shorter words are not indexed
_ESCAPE = "!"


def coded(text: str, agent_id: str) -> str:
    """Return the text as indexed on SQLite, with each character replaced by an agent-specific code.

    So agents share no trigrams, and a search touches only the agent's part of the common FTS5 index. If two characters
    have the same code the index returns false matches, so matches are compared with the text itself.
    """
    seed = int.from_bytes(sha256(agent_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    factor, shift = 1 + seed % (CODES - 1), seed // CODES % CODES
    return "".join([chr(FIRST_CODE + (ord(each) * factor + shift) % CODES) for each in text])


_linked = sa.exists().where(
    block_links.c.agent_id == blocks.c.agent_id, block_links.c.label == blocks.c.label
)
BLOCKS = Mapping(blocks, Block, columns=(*blocks.columns, _linked.label("is_shared")))
OWN_BLOCKS = Mapping(blocks, Block)
"""Blocks of one agent, without their other readers."""
BLOCK_LINKS = Mapping(block_links, BlockLink)
PASSAGES = Mapping(
    passages, Passage, columns=[each for each in passages.columns if each.name not in _SEARCHED]
)
PASSAGE_ROWS = Mapping(passages, PassageRow)
VECTORS = Mapping(
    passages, PlacedVector, columns=[passages.c[each] for each in ("place", "id", "embedder", "floats")]
)


class MemoryStatements:
    """Statements about blocks and passages, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        insert, compiled = sqlite.insert if name == "sqlite" else postgresql.insert, Compiler(name)
        mine = string("agent_id")
        self.drop_passages = [
            compiled(sa.delete(passages).where(passages.c.agent_id == mine)),
            compiled(sa.delete(passage_keepers).where(passage_keepers.c.agent_id == mine)),
        ]
        keeper = insert(passage_keepers).values(agent_id=string("agent_id"), stored=number("one"))
        counted = keeper.on_conflict_do_update(
            index_elements=["agent_id"], set_={"stored": passage_keepers.c.stored + 1}
        )
        self.count_passage = compiled(counted.returning(passage_keepers.c.number, passage_keepers.c.stored))
        once = insert(passages).values(row_params(passages)).on_conflict_do_nothing()
        self.insert_passage = compiled(once.returning(passages.c.id))
        indexed = {"rowid": number("place"), "coded": string("coded")}
        self.is_indexed_apart = name == "sqlite"
        self.index_passage = compiled(sa.insert(passage_index).values(indexed))
        self._name, self._compiled = name, compiled
        self._reads(compiled)

    def _reads(self, compiled: Compiler) -> None:
        mine = string("agent_id")
        self.own_blocks = compiled(BLOCKS.query.where(blocks.c.agent_id == mine))
        link = block_links.alias("link")
        to_block = sa.and_(link.c.agent_id == blocks.c.agent_id, link.c.label == blocks.c.label)
        self.linked_blocks = compiled(BLOCKS.query.join(link, to_block).where(link.c.reader_id == mine))
        this = sa.and_(passages.c.agent_id == mine, passages.c.id == string("id"))
        self.passage = compiled(PASSAGES.query.where(this))
        newest = PASSAGES.query.where(*_own(passages.c.place)).order_by(passages.c.place.desc())
        self.passages = compiled(newest.limit(number("limit")).offset(number("offset")))
        self._matches = cache(self._compiled_matches)
        self.passages_of = cache(self._compiled_passages_of)
        place = passages.c.place
        vectors = VECTORS.query.where(*_own(place)).order_by(place.desc()).limit(number("limit"))
        self.newest_vectors = compiled(vectors)
        self.vectors_before = compiled(vectors.where(place < number("before")))
        missing = sa.or_(passages.c.embedder.is_(None), passages.c.embedder != string("embedder"))
        behind = PASSAGES.query.where(place > number("after"), missing).order_by(place)
        self.unembedded = compiled(behind.limit(number("limit")))

    def search(self, agent_id: str, query: Query) -> tuple[Statement, Params]:
        """Return the statement that finds the newest matches of a query, and its keywords as parameters."""
        words = list(dict.fromkeys(query.keywords))
        short = [word for word in words if len(word) < TRIGRAM]
        long = [word for word in words if len(word) >= TRIGRAM]
        params: Params = {f"short_{n}": word for n, word in enumerate(short)}
        if self._name == "sqlite":
            params |= {f"long_{n}": word for n, word in enumerate(long)}
            params |= {"coded": " ".join([f'"{coded(word, agent_id)}"' for word in long])}
        else:
            params |= {f"long_{n}": f"%{_literal(word)}%" for n, word in enumerate(long)}
        return self._matches(len(short), len(long)), params

    def _compiled_passages_of(self, count: int) -> Statement:
        """Return the query of `count` passages of an agent by their ids."""
        ids = passages.c.id.in_([string(f"id_{n}") for n in range(count)])
        return self._compiled(PASSAGES.query.where(passages.c.agent_id == string("agent_id"), ids))

    def _compiled_matches(self, short: int, long: int) -> Statement:
        folded, place = passages.c.folded, passages.c.place
        short_words = [string(f"short_{n}") for n in range(short)]
        long_words = [string(f"long_{n}") for n in range(long)]
        query = PASSAGES.query.where(*_own(place)).order_by(place.desc())
        if self._name == "sqlite":
            query = _indexed() if long else query
            has_words = [sa.func.instr(folded, word) > 0 for word in (*long_words, *short_words)]
        else:
            has_words = [folded.like(word, escape=_ESCAPE) for word in long_words]
            has_words += [sa.func.strpos(folded, word) > 0 for word in short_words]
        return self._compiled(query.where(*has_words).limit(number("limit")))


def _indexed() -> RowQuery:
    """Return the query of an agent's newest passages that match in the SQLite index."""
    place = passage_index.c.rowid
    joined = PASSAGES.query.join(passage_index, place == passages.c.place)
    matches = passage_index.c.passage_index.op("MATCH")(string("coded"))
    return joined.where(matches, passages.c.agent_id == string("agent_id")).order_by(place.desc())


def _own(place: sa.ColumnElement[int]) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Return the conditions that limit places to those of the agent."""
    mine = passage_keepers.c.agent_id == string("agent_id")
    keeper = sa.select(passage_keepers.c.number).where(mine).scalar_subquery()
    return place > keeper * PASSAGES_EACH, place < (keeper + 1) * PASSAGES_EACH


def _literal(word: str) -> str:
    """Return the word as a LIKE pattern with escaped wildcards."""
    for mark in (_ESCAPE, "%", "_"):
        word = word.replace(mark, _ESCAPE + mark)
    return word


def visible_blocks(agent_id: str, sql: MemoryStatements) -> Reading[list[Block]]:
    """Return the blocks that an agent reads, by label, then by owner."""
    own_rows = yield Op(sql.own_blocks, {"agent_id": agent_id})
    linked = yield Op(sql.linked_blocks, {"agent_id": agent_id})
    rows = BLOCKS.all([*own_rows, *linked])
    rows.sort(key=lambda block: (block.label, block.agent_id))
    return rows
