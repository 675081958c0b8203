"""Vectors of passages: the embedded text, the stored bytes, and nearest-neighbor search.

All vectors have length 1, so that sorting by distance is the same as sorting by angle. Distances are computed with
`math.dist`, the fastest way for plain floats in the standard library.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from sys import byteorder

from toolwright.core.agents.memory import Passage, PlacedVector, Vector
from toolwright.core.value import value

SCANNED, MOST_NEAR = 20_000, 20
"""Maximum numbers of an agent's newest passages compared with a query, and of passages in the result."""
MAX_EMBEDDED = 8_000
"""Maximum bytes (UTF-8) of the text embedded: no tokenizer yields more tokens, and models accept 8,191."""
MOST_NUMBERS = 8_192
"""Maximum number of dimensions of a vector. Models return up to 4,096."""
LEAST_ALIKE = 0.1
"""Minimum cosine similarity of a query and a passage: unrelated texts have less."""

_FARTHEST = math.sqrt(2 * (1 - LEAST_ALIKE))


@value
class VectorMatch:
    """A passage whose vector is near the query's, and their distance: 0 for the same direction."""

    id: str
    place: int
    distance: float


def embedded_text(passage: Passage) -> str:
    """Return the beginning of a passage as sent to an embedder: its content, then its tags, one per line."""
    return shortened("\n".join([passage.content, *passage.tags]))


def shortened(text: str) -> str:
    """Return the first `MAX_EMBEDDED` bytes of the text, without characters that UTF-8 cannot encode."""
    clean = text.encode("utf-8", "replace")
    return clean[:MAX_EMBEDDED].decode("utf-8", "ignore")


def vector_of(embedder: str, numbers: Sequence[float]) -> Vector | None:
    """Return the normalized vector, or None if its length is zero or not finite.

    Raises `ValueError` if there are too many numbers.
    """
    if len(numbers) > MOST_NUMBERS:
        raise ValueError(f"A vector must have at most {MOST_NUMBERS} numbers, not {len(numbers)}.")
    length = math.hypot(*numbers)
    if not 0 < length < math.inf:
        return None
    floats = array("f", [number / length for number in numbers])
    return Vector(embedder=embedder, floats=_in_order(floats).tobytes())


def nearest(
    query: Vector, rows: Iterable[PlacedVector], before: Sequence[VectorMatch] = ()
) -> list[VectorMatch]:
    """Return the rows nearest to the query, including those found `before`, at most `MOST_NEAR`; ties newest first.

    Only vectors of the same embedder and size are compared. The rows are sorted newest first.
    """
    direction, size = _direction(query.floats), len(query.floats)
    matches = [*before]
    for row in rows:
        if row.embedder != query.embedder or row.floats is None or len(row.floats) != size:
            continue
        distance = math.dist(_direction(row.floats), direction)
        if distance < _FARTHEST:
            matches.append(VectorMatch(id=row.id, place=row.place, distance=distance))
    return nsmallest(MOST_NEAR, matches, key=lambda each: each.distance)


def _direction(floats: bytes) -> list[float]:
    return _in_order(array("f", floats)).tolist()


def _in_order(floats: "array[float]") -> "array[float]":
    """Swap the bytes of the floats on big-endian machines: stored vectors are little-endian."""
    if byteorder == "big":
        floats.byteswap()
    return floats
