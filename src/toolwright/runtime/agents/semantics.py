"""Semantic search of passages: an embedder computes vectors, which are stored, backfilled and compared.

All vectors have length 1, so that sorting by distance is the same as sorting by angle. Distances are computed with
`math.dist`, the fastest way for plain floats in the standard library.

An embedder is an external service that can be slow or down. So it is called before a commit and never within one, with
a timeout of a few seconds. If it does not answer, a passage is stored without a vector, and a search finds by keyword
alone.
"""

import asyncio
import logging
import math
from array import array
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from sys import byteorder

from toolwright.core.agents.memory import Passage, PlacedVector, Vector
from toolwright.core.journal.agent_effects import SetVector
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply
from toolwright.core.ports import Clock, Embedder, NewId
from toolwright.core.value import Value

SCANNED, MAX_NEAR = 20_000, 20
"""Maximum numbers of an agent's newest passages compared with a query, and of passages in the result."""
MAX_EMBEDDED = 8_000
"""Maximum bytes (UTF-8) of the text embedded: no tokenizer yields more tokens, and models accept 8,191."""
MAX_NUMBERS = 8_192
"""Maximum number of dimensions of a vector. Models return up to 4,096."""
MIN_ALIKE = 0.1
"""Minimum cosine similarity of a query and a passage: unrelated texts have less."""

_FARTHEST = math.sqrt(2 * (1 - MIN_ALIKE))
log = logging.getLogger("toolwright.runtime")
PATIENCE, BATCH_PATIENCE = 3.0, 30.0
"""Seconds that a call waits for the embedder, and that housekeeping waits for a batch."""
BATCH, MAX_FILLED = 32, 10_000
"""Passages that housekeeping embeds per request, and per hour."""
MAX_FILL = 600.0  # maximum seconds per hour; other housekeeping waits for it
PAGE = 500  # vectors that are read and compared together: 3 MB at 1,536 numbers each, 12 ms of a thread


class VectorMatch(Value):
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
    if len(numbers) > MAX_NUMBERS:
        raise ValueError(f"A vector must have at most {MAX_NUMBERS} numbers, not {len(numbers)}.")
    length = math.hypot(*numbers)
    if not 0 < length < math.inf:
        return None
    floats = array("f", [number / length for number in numbers])
    return Vector(embedder=embedder, floats=_in_order(floats).tobytes())


def nearest(
    query: Vector, rows: Iterable[PlacedVector], before: Sequence[VectorMatch] = ()
) -> list[VectorMatch]:
    """Return the rows nearest to the query, including those found `before`, at most `MAX_NEAR`; ties newest first.

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
    return nsmallest(MAX_NEAR, matches, key=lambda each: each.distance)


def _direction(floats: bytes) -> list[float]:
    return _in_order(array("f", floats)).tolist()


def _in_order(floats: "array[float]") -> "array[float]":
    """Swap the bytes of the floats on big-endian machines: stored vectors are little-endian."""
    if byteorder == "big":
        floats.byteswap()
    return floats


class Semantics:
    """The vectors of agents' passages, from one embedder."""

    def __init__(self, store: Store, embedder: Embedder, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._new_id = new_id
        self._failing = False
        self._place = 0  # position after which passages are checked for missing vectors

    async def vector(self, passage: Passage) -> Vector | None:
        """Return the vector of a passage to be stored, or None if the embedder fails or takes too long."""
        vectors = await self._embed([embedded_text(passage)], PATIENCE)
        return vectors[0] if vectors else None

    async def nearest(self, agent_id: str, text: str) -> Sequence[Passage]:
        """Return the agent's passages nearest in meaning to the text, nearest first; none if the embedder fails."""
        vectors = await self._embed([shortened(text)], PATIENCE)
        query = vectors[0] if vectors else None
        near = [] if query is None else await self._near(agent_id, query)
        rows = await self._store.agents.passages_of(agent_id, [each.id for each in near])
        passages = {passage.id: passage for passage in rows}
        return [passages[each.id] for each in near if each.id in passages]

    async def fill(self) -> int:
        """Embed passages of all agents that have no vector of this embedder. Return the number of new vectors.

        Passages at which the embedder fails are retried after all others.
        """
        total, end = 0, self._clock.monotonic() + MAX_FILL
        for _ in range(0, MAX_FILLED, BATCH):
            if self._clock.monotonic() >= end:
                break
            rows = await self._store.agents.unembedded(self._embedder.name, after=self._place, limit=BATCH)
            self._place = rows[-1][0] if rows else 0
            passages = [passage for _, passage in rows]
            vectors = await self._embed([embedded_text(each) for each in passages], BATCH_PATIENCE)
            if not vectors:
                break
            total += await self._set(passages, vectors)
        return total

    async def _set(self, passages: Sequence[Passage], vectors: Sequence[Vector | None]) -> int:
        effects = [
            SetVector(agent_id=passage.agent_id, id=passage.id, vector=vector)
            for passage, vector in zip(passages, vectors, strict=True)
            if vector is not None
        ]
        if effects:
            unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=tuple(effects))
            await self._store.commit(unit)
        return len(effects)

    async def _near(self, agent_id: str, query: Vector) -> list[VectorMatch]:
        """Return the nearest of the agent's newest passages, read and compared page by page in a thread."""
        near: list[VectorMatch] = []
        before: int | None = None
        for _ in range(0, SCANNED, PAGE):
            rows = await self._store.agents.vectors(agent_id, before=before, limit=PAGE)
            near = await asyncio.to_thread(nearest, query, rows, near)
            if len(rows) < PAGE:
                break
            before = rows[-1].place
        return near

    async def _embed(self, texts: Sequence[str], seconds: float) -> list[Vector | None]:
        """Return a vector for each text that has one; an empty list if the embedder fails, which is logged once."""
        if not texts:
            return []
        try:
            async with asyncio.timeout(seconds):
                answer = await self._embedder.embed(texts)
            vectors = [vector_of(self._embedder.name, numbers) for numbers in answer]
            if len(vectors) != len(texts):
                raise ValueError(f"The embedder returned {len(vectors)} vectors for {len(texts)} texts.")
        except Exception as error:  # noqa: BLE001 - whatever an embedder raises, memory works without it
            self._note(error)
            return []
        self._failing = False
        return vectors

    def _note(self, error: Exception) -> None:
        if not self._failing:
            message = str(error) or type(error).__name__
            log.warning(
                "The embedder %r failed. Passages are stored without vectors and found by keyword: %s",
                self._embedder.name,
                message,
            )
        self._failing = True
