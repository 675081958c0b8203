"""Memory of an agent: blocks in its prompt, archival passages, and their search by keyword.

A query is split at whitespace into keywords. A passage matches if its content or one of its tags contains each keyword,
also inside another word. Case and the encoding of accents are ignored, and there are no wildcards. The `CANDIDATES`
newest matching passages are ranked: exact phrase first, then the number of whole-word matches, then newest. The journal
finds the candidates with an index of `folded_passage`; they are ranked here.

If an embedder also finds passages by meaning (`core.agents.vectors`), both rankings are merged by reciprocal rank
fusion: a passage gets 1 / (60 + its rank) from each ranking that contains it.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime

from toolwright.core.checks import invalid_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import one_line, unwritable
from toolwright.core.text import brief, quantity
from toolwright.core.value import Record, Stored, Value

MAX_BLOCK, MAX_PASSAGE = 16 * 1024, 64 * 1024
"""Maximum size in bytes (UTF-8) of a block's content, and of a passage's content."""
MAX_LABEL, MAX_TAG = 100, 100
"""Maximum numbers of characters of a label and of a tag."""
MAX_BLOCKS, MAX_LINKED, MAX_TAGS = 20, 20, 20
"""Maximum numbers of an agent's blocks, of linked blocks of other agents, and of a passage's tags."""
CANDIDATES, MAX_FOUND = 100, 20
"""Maximum numbers of candidates to rank (the newest), and of passages in a search result."""
MAX_QUERY, MAX_QUERY_WORDS = 1_000, 16
"""Maximum numbers of characters and of words of a query."""
RANK_OFFSET = 60
"""Constant added to a rank before inversion, so that one first place does not outweigh two good ranks."""


class Block(Record):
    """A core memory block: a text under a label, which only its agent can change.

    `is_shared` is true if other agents are linked to it and read it too.
    """

    STORED = Stored(key=("agent_id", "label"), owner="agent_id")

    agent_id: str
    label: str
    content: str
    updated_at: datetime
    is_shared: bool = False


class BlockLink(Record):
    """A link of an agent, the `reader_id`, to a block of another agent."""

    STORED = Stored(key=("agent_id", "label", "reader_id"), owner="agent_id")

    agent_id: str
    label: str
    reader_id: str


class Passage(Value):
    """An archival passage of an agent."""

    agent_id: str
    id: str
    content: str
    tags: tuple[str, ...] = ()
    created_at: datetime


class Vector(Value):
    """Embedding of a passage's text: a unit vector, as float32 in little-endian bytes."""

    embedder: str
    floats: bytes


class PassageRow(Record):
    """A passage as it is stored, with its position among the passages of its agent, and its vector."""

    STORED = Stored(key=("agent_id", "id"), owner="agent_id")

    place: int
    agent_id: str
    id: str
    passage: Passage
    embedder: str | None = None
    floats: bytes | None = None


class PlacedVector(Value):
    """A passage's vector, or None, and its position, which is greater for later passages."""

    place: int
    id: str
    embedder: str | None
    floats: bytes | None


def check_block(blocks: Iterable[Block], agent_id: str, label: str, content: str) -> None:
    """Check that the agent, which reads these blocks, is allowed to write this block. Raises `InvalidRequest`."""
    check_label(label)
    _check_length("label", label, MAX_LABEL)
    _check_size("content", content, MAX_BLOCK)
    existing = list(blocks)
    own = {block.label for block in existing if block.agent_id == agent_id}
    if label in own:
        return
    if any(block.label == label for block in existing):
        raise InvalidRequest(
            f"The block {label!r} is shared with you by another agent. Only its owner can change it.",
            [{"path": "label", "message": "is the label of another agent's block"}],
        )
    if len(own) >= MAX_BLOCKS:
        raise InvalidRequest(
            f"There are {quantity(len(own), 'block')} already, which is the maximum. "
            "Add this to one of them.",
            [{"path": "label", "message": f"would make more than {MAX_BLOCKS} blocks"}],
        )


def check_label(label: str) -> None:
    """Validate a block's label. Raises `InvalidRequest`.

    A stored label can be longer than a new one, because redaction can lengthen it.
    """
    _check_name("label", label)


def check_passage(content: str, tags: Sequence[str]) -> None:
    """Validate a new passage. Raises `InvalidRequest`."""
    if not content.strip():
        raise invalid_value("content", "is needed")
    _check_size("content", content, MAX_PASSAGE)
    if len(tags) > MAX_TAGS:
        raise invalid_value("tags", f"has {quantity(len(tags), 'tag')}; {MAX_TAGS} are allowed")
    for n, tag in enumerate(tags):
        _check_name(f"tags.{n}", tag)
        _check_length(f"tags.{n}", tag, MAX_TAG)


def _check_length(where: str, name: str, most: int) -> None:
    if len(name) > most:
        raise invalid_value(where, f"has {quantity(len(name), 'character')}; {most} are allowed")


def _check_name(where: str, name: str) -> None:
    if not name.strip():
        raise invalid_value(where, "is needed")
    if not one_line(name) or unwritable(name):
        quoted = brief(repr(name), 200)
        raise invalid_value(where, f"must not hold line breaks or other control characters, and is {quoted}")


def _check_size(where: str, text: str, most: int) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise invalid_value(where, f"has {size} bytes in UTF-8; {most} are allowed")


_UNINDEXED = re.compile("[\x00\ud800-\udfff\ufffe\uffff]")  # characters that some full-text indexes ignore


class Query(Value):
    """A search query: its normalized keywords, in order."""

    keywords: tuple[str, ...]


def read_query(text: str) -> Query:
    """Parse a search text. Raises `InvalidRequest` if it has no keywords, or too many."""
    if len(text) > MAX_QUERY:
        error = f"has {quantity(len(text), 'character')}; {MAX_QUERY} are allowed: give a few words"
        raise invalid_value("query", error)
    keywords = tuple(folded(text).split())
    if not keywords:
        raise invalid_value("query", "is needed: give a few words")
    if len(keywords) > MAX_QUERY_WORDS:
        error = f"has {quantity(len(keywords), 'word')}; {MAX_QUERY_WORDS} are allowed: give fewer"
        raise invalid_value("query", error)
    return Query(keywords=keywords)


def folded(text: str) -> str:
    """Return the text normalized for comparison: case folded, accents composed."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return _UNINDEXED.sub("\ufffd", composed)


def folded_passage(passage: Passage) -> str:
    """Return the searched text of a passage, normalized for comparison: its content and its tags, one per line."""
    return folded("\n".join([passage.content, *passage.tags]))


def is_match(passage: Passage, query: Query) -> bool:
    """Return whether the passage contains every keyword of the query."""
    text = folded_passage(passage)
    return all(word in text for word in query.keywords)


def ranked(candidates: Sequence[Passage], query: Query, limit: int) -> list[Passage]:
    """Return the first `limit` matches by rank. `candidates` are sorted newest first."""
    phrase = " ".join(query.keywords)
    whole_words = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)") for word in dict.fromkeys(query.keywords)]

    def rank(passage: Passage) -> tuple[bool, int]:
        text = folded_passage(passage)
        return phrase in " ".join(text.split()), sum(word.search(text) is not None for word in whole_words)

    return sorted(candidates, key=rank, reverse=True)[:limit]


def fused(*rankings: Sequence[Passage]) -> list[Passage]:
    """Merge several rankings into one, best passage first. On a tie the earlier ranking is first."""
    passages: dict[str, Passage] = {}
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, passage in enumerate(ranking, 1):
            passages.setdefault(passage.id, passage)
            scores[passage.id] = scores.get(passage.id, 0.0) + 1 / (RANK_OFFSET + rank)
    return sorted(passages.values(), key=lambda passage: scores[passage.id], reverse=True)
