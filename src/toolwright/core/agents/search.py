"""Search of an agent's passages: by keyword, one rule over every journal, and the fusion with other rankings.

The words of a query are what white space parts. A passage matches if each of them stands somewhere in its content or
in one of its tags, also within another word. Case does not matter, nor how an accent is encoded, and no character is
a wildcard. Of the `CANDIDATES` newest passages that match, those come first in which all words stand side by side as
in the query; then those in which more of them are whole words; then the newer ones. A journal finds the candidates by
an index of `folded_passage`; their rank is found here.

Where an embedder finds passages by what they mean too (`core.agents.vectors`), both rankings become one by reciprocal
rank fusion: a passage gets 1 / (60 + its rank) of each ranking that it is in.
"""

import re
import unicodedata
from collections.abc import Sequence

from toolwright.core.agents.memory import Passage
from toolwright.core.checks import invalid_value
from toolwright.core.text import quantity
from toolwright.core.value import value

CANDIDATES, MOST_FOUND = 100, 20
"""Newest matches that are ranked, and passages that a search finds at most."""
LONGEST_QUERY, MOST_QUERY_WORDS = 1_000, 16
"""Characters and words of a query."""
RANK_OFFSET = 60
"""Added to a rank before it is inverted, as is usual: the first of one ranking does not outweigh two good ranks."""

_UNINDEXED = re.compile("[\x00\ud800-\udfff\ufffe\uffff]")  # what some index takes for no character


@value
class Query:
    """A query: its words as they are compared, in order."""

    words: tuple[str, ...]


def read_query(text: str) -> Query:
    """The query of that text; raises `InvalidRequest` for one without words, or with too many."""
    if len(text) > LONGEST_QUERY:
        fault = f"has {quantity(len(text), 'character')}; {LONGEST_QUERY} are allowed: give a few words"
        raise invalid_value("query", fault)
    words = tuple(folded(text).split())
    if not words:
        raise invalid_value("query", "is needed: give a few words")
    if len(words) > MOST_QUERY_WORDS:
        fault = f"has {quantity(len(words), 'word')}; {MOST_QUERY_WORDS} are allowed: give fewer"
        raise invalid_value("query", fault)
    return Query(words=words)


def folded(text: str) -> str:
    """The text as it is compared: without case, accents composed."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return _UNINDEXED.sub("\ufffd", composed)


def folded_passage(passage: Passage) -> str:
    """All of the passage that is searched, as it is compared: its content and its tags, a line each."""
    return folded("\n".join([passage.content, *passage.tags]))


def is_match(passage: Passage, query: Query) -> bool:
    """Return whether every word of the query stands in the passage."""
    text = folded_passage(passage)
    return all(word in text for word in query.words)


def ranked(candidates: Sequence[Passage], query: Query, limit: int) -> list[Passage]:
    """The first `limit` of these matches by their rank; they come with the newest first."""
    phrase = " ".join(query.words)
    whole = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)") for word in dict.fromkeys(query.words)]

    def rank(passage: Passage) -> tuple[bool, int]:
        text = folded_passage(passage)
        return phrase in " ".join(text.split()), sum(word.search(text) is not None for word in whole)

    return sorted(candidates, key=rank, reverse=True)[:limit]


def fused(*rankings: Sequence[Passage]) -> list[Passage]:
    """One ranking of several, the best passage first; of equals the one that an earlier ranking has."""
    passages: dict[str, Passage] = {}
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, passage in enumerate(ranking, 1):
            passages.setdefault(passage.id, passage)
            scores[passage.id] = scores.get(passage.id, 0.0) + 1 / (RANK_OFFSET + rank)
    return sorted(passages.values(), key=lambda passage: scores[passage.id], reverse=True)
