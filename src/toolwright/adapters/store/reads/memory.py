"""Reads of agents' memory on SQL: the queries of one dialect."""

from functools import cache

from sqlalchemy import ColumnElement, and_, func, or_, select

from toolwright.adapters.store.engine.codecs import Params
from toolwright.adapters.store.engine.program import Op, Reading
from toolwright.adapters.store.engine.statement import Compiler, DialectName, Rows, Statement, number, string
from toolwright.adapters.store.tables.memory import (
    BLOCKS,
    PASSAGES,
    PASSAGES_EACH,
    VECTORS,
    block_links,
    blocks,
    coded,
    passage_index,
    passage_keepers,
    passages,
)
from toolwright.core.agents.memory import Block, Query
from toolwright.core.broken_rows import Rows as Found

TRIGRAM = 3  # characters: shorter words are in no index


class MemoryQueries:
    """The queries about blocks and passages; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self._name = name
        self._compiled = compiled = Compiler(name)
        mine = string("agent_id")
        self.own_blocks = compiled(BLOCKS.query.where(blocks.c.agent_id == mine))
        link = block_links.alias("link")
        to_block = and_(link.c.agent_id == blocks.c.agent_id, link.c.label == blocks.c.label)
        self.linked_blocks = compiled(BLOCKS.query.join(link, to_block).where(link.c.reader_id == mine))
        this = and_(passages.c.agent_id == mine, passages.c.id == string("id"))
        self.passage = compiled(PASSAGES.query.where(this))
        newest = PASSAGES.query.where(*_own(passages.c.place)).order_by(passages.c.place.desc())
        self.passages = compiled(newest.limit(number("limit")).offset(number("offset")))
        self._matches = cache(self._compiled_matches)
        self.passages_of = cache(self._compiled_passages_of)
        place = passages.c.place
        vectors = VECTORS.query.where(*_own(place)).order_by(place.desc()).limit(number("limit"))
        self.newest_vectors = compiled(vectors)
        self.vectors_before = compiled(vectors.where(place < number("before")))
        lacking = or_(passages.c.embedder.is_(None), passages.c.embedder != string("embedder"))
        behind = PASSAGES.query.where(place > number("after"), lacking).order_by(place)
        self.unembedded = compiled(behind.limit(number("limit")))

    def search(self, agent_id: str, query: Query) -> tuple[Statement, Params]:
        """Return the statement that finds the newest matches of a query, and its keywords as parameters."""
        words = list(dict.fromkeys(query.words))
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
        """Return the query of so many passages of an agent by their ids."""
        ids = passages.c.id.in_([string(f"id_{n}") for n in range(count)])
        return self._compiled(PASSAGES.query.where(passages.c.agent_id == string("agent_id"), ids))

    def _compiled_matches(self, short: int, long: int) -> Statement:
        folded, place = passages.c.folded, passages.c.place
        short_words = [string(f"short_{n}") for n in range(short)]
        long_words = [string(f"long_{n}") for n in range(long)]
        query = PASSAGES.query.where(*_own(place)).order_by(place.desc())
        if self._name == "sqlite":
            query = _indexed() if long else query
            has_words = [func.instr(folded, word) > 0 for word in (*long_words, *short_words)]
        else:
            has_words = [folded.like(word, escape=_ESCAPE) for word in long_words]
            has_words += [func.strpos(folded, word) > 0 for word in short_words]
        return self._compiled(query.where(*has_words).limit(number("limit")))


def _indexed() -> Rows:
    """Return the newest passages of an agent that the index on SQLite finds."""
    place = passage_index.c.rowid
    joined = PASSAGES.query.join(passage_index, place == passages.c.place)
    matches = passage_index.c.passage_index.op("MATCH")(string("coded"))
    return joined.where(matches, passages.c.agent_id == string("agent_id")).order_by(place.desc())


def _own(place: ColumnElement[int]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Conditions that the place is one of the agent's."""
    mine = passage_keepers.c.agent_id == string("agent_id")
    keeper = select(passage_keepers.c.number).where(mine).scalar_subquery()
    return place > keeper * PASSAGES_EACH, place < (keeper + 1) * PASSAGES_EACH


_ESCAPE = "!"


def _literal(word: str) -> str:
    """Return the word as a pattern of LIKE in which no character is a wildcard."""
    for mark in (_ESCAPE, "%", "_"):
        word = word.replace(mark, _ESCAPE + mark)
    return word


def seen_blocks(agent_id: str, sql: MemoryQueries) -> Reading[Found[Block]]:
    """Return the blocks that an agent reads, by label, then by owner."""
    own = yield Op(sql.own_blocks, {"agent_id": agent_id})
    linked = yield Op(sql.linked_blocks, {"agent_id": agent_id})
    seen = BLOCKS.each([*own, *linked])
    seen.sort(key=lambda block: (block.label, block.agent_id))
    return seen
