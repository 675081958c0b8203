"""Passages found by meaning in addition to keywords: with an embedder, including its failures."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.runtime.mind_rig import Mind, thinking
from toolwright.core.agents.memory import MAX_FOUND, Passage, PlacedVector
from toolwright.core.errors import DefinitionError, ModelUnavailable, NotFound
from toolwright.core.journal.store import Store
from toolwright.runtime.agents.semantics import (
    BATCH,
    BATCH_PATIENCE,
    MAX_FILL,
    MAX_FILLED,
    MAX_NUMBERS,
    PAGE,
    PATIENCE,
    SCANNED,
    Semantics,
)
from toolwright.testing import ManualClock, MemoryStore, TrigramEmbedder

pytestmark = pytest.mark.anyio

AGENTS = [tw.Agent(name, "p", toolkits=["memory"]) for name in ("thinker", "friend")]
MEANINGS = (("dog", "puppy", "hound"), ("tea", "brew", "infusion"), ("house", "home", "villa"))
"""Words with the same meaning."""


class Meanings:
    """An embedder that knows a few words. It can be `broken` or `stuck`; `texts` are the embedded texts."""

    def __init__(self, name: str = "meanings") -> None:
        self.name = name
        self.texts: list[str] = []
        self.broken: Exception | None = None
        self.batches: asyncio.Queue[int] = asyncio.Queue()
        self.stuck = False

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        self.batches.put_nowait(len(texts))
        if self.stuck:
            await asyncio.Event().wait()
        if self.broken is not None:
            raise self.broken
        return [
            [float(sum(text.lower().count(word) for word in same)) for same in MEANINGS] for text in texts
        ]


def contents(answer: Any) -> list[str]:  # JSON of a tool
    return [each["content"] for each in answer["passages"]]


async def found(mind: Mind, query: str, agent: str = "thinker") -> list[str]:
    """Return the results of the Python API."""
    return [each.content for each in await mind.rt.passages.search(agent, query)]


async def fill(mind: Mind, embedder: Meanings) -> int:
    """Embed the passages as housekeeping does."""
    port: Store = mind.store  # type: ignore[assignment]  # reads go through
    return await Semantics(port, embedder, mind.clock, lambda prefix: f"{prefix}_1").fill()


async def vectors(mind: Mind, agent_id: str = AGENTS[0].id) -> list[str | None]:
    """Return the embedders of the agent's vectors, newest passage first."""
    return [each.embedder for each in await mind.store.agents.vectors(agent_id, limit=1_000)]


@requirement("S4-2.5-3")
async def test_passages_are_found_by_what_they_mean_and_by_their_words() -> None:
    async with thinking(agents=AGENTS, embedder=Meanings()) as mind:
        await mind.call("store_memory", content="A hound barks.", tags=["puppy"])
        await mind.call("store_memory", content="Rex is a dog, and the house is his home.")
        await mind.rt.passages.add("thinker", "The brew is hot.")
        await mind.rt.passages.add("thinker", "Nothing of it.")
        assert await vectors(mind) == [None, "meanings", "meanings", "meanings"]
        assert contents(await mind.call("search_memory", query="puppy")) == [
            "A hound barks.",
            "Rex is a dog, and the house is his home.",
        ]
        assert await found(mind, "infusion") == ["The brew is hot."]
        assert await found(mind, "dog") == ["Rex is a dog, and the house is his home.", "A hound barks."]
        assert await found(mind, "it") == ["Nothing of it."]
        assert await found(mind, "nowhere") == []
        assert await found(mind, "puppy villa") == [
            "Rex is a dog, and the house is his home.",
            "A hound barks.",
        ]
        pages = [await mind.rt.passages.search("thinker", "puppy", 1, offset) for offset in range(3)]
        assert [[each.content for each in page] for page in pages] == [
            ["A hound barks."],
            ["Rex is a dog, and the house is his home."],
            [],
        ]


async def test_a_search_sees_nothing_of_other_agents_or_of_another_embedder() -> None:
    store = MemoryStore(lambda _: None)
    async with thinking(store, agents=AGENTS, embedder=Meanings()) as mind:
        await mind.rt.passages.add("friend", "Their dog.")
        await mind.rt.passages.add("thinker", "My hound.")
        assert await found(mind, "puppy") == ["My hound."]
        assert await found(mind, "puppy", "friend") == ["Their dog."]
    async with thinking(store, agents=AGENTS, embedder=Meanings("better")) as mind:
        assert await found(mind, "puppy") == []
        assert await found(mind, "hound") == ["My hound."]


async def test_an_agent_finds_no_more_passages_than_before() -> None:
    async with thinking(agents=AGENTS, embedder=Meanings()) as mind:
        for n in range(MAX_FOUND + 5):
            await mind.rt.passages.add("thinker", f"dog {n}")
            await mind.rt.passages.add("thinker", f"hound {n}")
        assert len(contents(await mind.call("search_memory", query="dog"))) == MAX_FOUND


@pytest.mark.parametrize("error", [ModelUnavailable("down"), RuntimeError("a bug of theirs"), OSError()])
async def test_where_the_embedder_fails_passages_are_stored_and_found_by_their_words(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = Meanings()
    async with thinking(agents=AGENTS, embedder=embedder) as mind:
        await mind.rt.passages.add("thinker", "The dog before.")
        embedder.broken = error
        with caplog.at_level(logging.WARNING, "toolwright"):
            assert "passageId" in await mind.call("store_memory", content="The hound barks.")
            await mind.rt.passages.add("thinker", "The puppy sleeps.")
            assert contents(await mind.call("search_memory", query="hound")) == ["The hound barks."]
            assert await found(mind, "puppy") == ["The puppy sleeps."]
        assert caplog.text.count("The embedder 'meanings' failed") == 1
        assert await fill(mind, embedder) == 0
        embedder.broken = None
        assert await found(mind, "hound") == ["The hound barks.", "The dog before."]
        assert await fill(mind, embedder) == 2
        assert await found(mind, "hound") == ["The hound barks.", "The puppy sleeps.", "The dog before."]


@pytest.mark.idle_clock
async def test_an_embedder_that_does_not_answer_is_not_waited_for_long() -> None:
    embedder = Meanings()
    async with thinking(agents=AGENTS, embedder=embedder) as mind:
        await mind.rt.passages.add("thinker", "The dog.")
        embedder.stuck = True
        async with asyncio.timeout(2 * PATIENCE + BATCH_PATIENCE + 1):
            assert "passageId" in await mind.call("store_memory", content="The hound barks.")
            assert contents(await mind.call("search_memory", query="hound")) == ["The hound barks."]
            assert await fill(mind, embedder) == 0


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [[1.0], [1.0]],
        [[float("nan")]],
        [[]],
        [[0.0, 0.0]],
        [["x"]],
        7,
        None,
        [[1.0] * (MAX_NUMBERS + 1)],
    ],
    ids=["none", "two", "nan", "empty", "zeros", "texts", "a number", "nothing", "too many"],
)
async def test_what_is_no_vector_is_none(answer: Any) -> None:
    class Faulty(Meanings):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return answer

    async with thinking(agents=AGENTS, embedder=Faulty()) as mind:
        await mind.rt.passages.add("thinker", "The dog.")
        assert await found(mind, "dog") == ["The dog."]
        assert await vectors(mind) == [None]


async def test_housekeeping_embeds_what_has_no_vector_of_the_embedder() -> None:
    store = MemoryStore(lambda _: None)
    async with thinking(store, agents=AGENTS) as mind:
        for n in range(BATCH + 1):
            await mind.rt.passages.add("thinker", f"The dog {n}.")
        await mind.rt.passages.add("friend", "The dog of another.")
    async with thinking(store, agents=AGENTS, embedder=Meanings("old")) as mind:
        await mind.rt.passages.add("thinker", "The hound.")
    embedder = Meanings()
    async with thinking(store, agents=AGENTS, embedder=embedder) as mind:
        assert [await embedder.batches.get() for _ in range(2)] == [BATCH, 3]
        await mind.rt.passages.list("thinker")  # the last ones are written in the meantime
        assert await fill(mind, embedder) == 0
        assert await vectors(mind) == ["meanings"] * (BATCH + 2)
        assert await vectors(mind, AGENTS[1].id) == ["meanings"]
        assert embedder.batches.empty()


async def test_what_an_embedder_fails_at_is_tried_again_after_the_others() -> None:
    embedder, store, clock = Meanings(), MemoryStore(lambda _: None), ManualClock()
    async with thinking(store, agents=AGENTS) as mind:
        for n in range(BATCH + 1):
            await mind.rt.passages.add("thinker", f"The dog {n}.")
    semantics = Semantics(store, embedder, clock, lambda prefix: f"{prefix}_{len(embedder.texts)}")
    embedder.broken = ModelUnavailable()
    assert await semantics.fill() == 0
    embedder.broken = None
    assert [await semantics.fill() for _ in range(3)] == [1, BATCH, 0]


class Endless:
    """Reads of an agent that always has more passages; `seen` is the number of read ones."""

    seen = 0

    async def unembedded(self, embedder: str, *, after: int, limit: int) -> list[tuple[int, Passage]]:
        passage = Passage(agent_id="a", id="p", content="dog", created_at=ManualClock().now())
        return [(after + n, passage) for n in range(1, limit + 1)]

    async def vectors(self, agent_id: str, *, before: int | None = None, limit: int) -> list[PlacedVector]:
        assert limit <= PAGE
        self.seen += limit
        first = before or 0
        return [
            PlacedVector(place=first - n, id=f"p{n}", embedder=None, floats=None) for n in range(1, limit + 1)
        ]

    async def passages_of(self, agent_id: str, ids: Sequence[str]) -> list[Passage]:
        return []


def endless(embedder: Meanings, clock: ManualClock) -> tuple[Semantics, Endless]:
    store, reads = MemoryStore(lambda _: None), Endless()
    setattr(store, "agents", reads)  # noqa: B010 - other reads
    return Semantics(store, embedder, clock, lambda prefix: prefix), reads


async def test_housekeeping_embeds_only_so_many_at_once() -> None:
    embedder = Meanings()
    semantics, _ = endless(embedder, ManualClock())
    total = await semantics.fill()
    assert total == len(embedder.texts)
    assert MAX_FILLED <= total < MAX_FILLED + BATCH


async def test_housekeeping_embeds_only_so_long_at_once() -> None:
    clock = ManualClock()

    class Slow(Meanings):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            clock.advance(MAX_FILL / 2)
            return await super().embed(texts)

    semantics, _ = endless(Slow(), clock)
    assert await semantics.fill() == 2 * BATCH


async def test_a_search_compares_only_so_many_passages() -> None:
    semantics, reads = endless(Meanings(), ManualClock())
    assert list(await semantics.nearest("a", "dog")) == []
    assert reads.seen == SCANNED


async def test_the_model_is_told_that_its_search_goes_by_meaning() -> None:
    told: list[str] = []
    for embedder in (None, Meanings()):
        async with thinking(agents=AGENTS, embedder=embedder) as mind:
            tools = mind.rt.toolkit("thinker").definitions
            told += [str(each["description"]) for each in tools if each["name"] == "search_memory"]
    assert "each keyword must occur" in told[0]
    assert "a similar meaning" in told[1]


class Counted:
    """Reads of agents that record the agents' names."""

    def __init__(self, reads: Any) -> None:  # reads of the port
        self.reads = reads
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:  # passes through
        self.names.append(name)
        return getattr(self.reads, name)


async def test_without_an_embedder_a_search_reads_what_it_always_did() -> None:
    store = MemoryStore(lambda _: None)
    reads = Counted(store.agents)
    setattr(store, "agents", reads)  # noqa: B010 - other reads
    async with thinking(store, agents=AGENTS) as mind:
        await mind.rt.passages.add("thinker", "The dog.")
        reads.names.clear()
        await mind.rt.passages.search("thinker", "dog")
        assert [name for name in reads.names if name != "named"] == ["matches"]
        await mind.call("store_memory", content="The hound.")
        await mind.call("search_memory", query="hound")
        assert not {"vectors", "passages_of", "unembedded"} & set(reads.names)
        assert await vectors(mind) == [None, None]


WITHOUT = """
import asyncio, sys
import toolwright as tw
from toolwright import testing

async def main() -> None:
    model = testing.ScriptedModel([{"text": "x"}])
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("a", "x", model=model), toolkits=["memory"])])
    async with testing.runtime(app) as rt:
        await rt.passages.add("a", "tea")
        assert len(await rt.passages.search("a", "tea")) == 1

asyncio.run(main())
print(*sys.modules)
"""


def test_without_an_embedder_nothing_of_it_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "toolwright.runtime.agents.memory" in loaded
    ours = {"runtime.agents.semantics", "adapters.models.embeddings"}
    assert not loaded & {"httpx2", *(f"toolwright.{each}" for each in ours)}


async def test_an_app_with_an_embedder_of_its_own_uses_it() -> None:
    app = tw.App(agents=AGENTS, prompts=[tw.Prompt("p", "x")], embedder=TrigramEmbedder())
    async with tw.testing.runtime(app) as rt:
        await rt.passages.add("thinker", "She is a gardener.")
        assert [each.content for each in await rt.passages.search("thinker", "gardens")] == [
            "She is a gardener."
        ]
        with pytest.raises(NotFound):
            await rt.passages.search("nobody", "gardens")
    async with tw.testing.by_hand(app) as (rt, _):
        await rt.passages.add("thinker", "She is a gardener.")
        assert len(await rt.passages.search("thinker", "gardens")) == 1


class Nameless:
    """An object with an embedder's method, but without a name."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


@pytest.mark.parametrize(
    "given", ["openai:text-embedding-3-small", 7, Nameless(), Meanings(""), Meanings("a\nb")]
)
def test_what_is_no_embedder_is_refused(given: Any) -> None:
    with pytest.raises(DefinitionError, match="embedder"):
        tw.App(embedder=given)
