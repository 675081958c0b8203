"""Agents' memory in every journal: blocks and their readers, passages by page, one rule of search."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.test_agents import agent, drop, save
from tests.conformance.test_deletion import swept
from tests.conformance.test_spaces import act
from tests.play import AT, committed, later

from toolwright.core.agents.memory import (
    Block,
    Passage,
    PlacedVector,
    Query,
    Vector,
    folded,
    is_match,
    read_query,
)
from toolwright.core.journal.agent_effects import (
    AddPassage,
    DropBlock,
    DropPassage,
    LinkBlock,
    SetBlock,
    SetVector,
    UnlinkBlock,
)
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict
from toolwright.runtime.agents.semantics import MAX_NEAR, PAGE, Semantics, vector_of
from toolwright.testing import ManualClock, TrigramEmbedder

pytestmark = pytest.mark.anyio


def block(label: str, agent_id: str = "agt_1", **fields: Any) -> Block:  # fields of Block
    given: dict[str, Any] = {"content": f"about {label}", "updated_at": AT}
    return Block(agent_id=agent_id, label=label, **{**given, **fields})


def link(label: str, reader_id: str, agent_id: str = "agt_1") -> LinkBlock:
    return LinkBlock(agent_id=agent_id, label=label, reader_id=reader_id)


def passage(
    content: str, number: int = 0, agent_id: str = "agt_1", **fields: Any
) -> Passage:  # fields of Passage
    given: dict[str, Any] = {"id": f"psg_{number}", "created_at": later(number)}
    return Passage(agent_id=agent_id, content=content, **{**given, **fields})


async def add(store: Store, *passages: Passage) -> None:
    await committed(store, act(*[AddPassage(passage=each) for each in passages]))


async def found(store: Store, query: str, agent_id: str = "agt_1", limit: int = 100) -> list[str]:
    return [each.id for each in await store.agents.matches(agent_id, read_query(query), limit=limit)]


async def test_a_block_is_written_again_and_sorted_by_label(store: Store) -> None:
    mood, diary = block("mood", content="calm\x00\ud800"), block("Diary")
    await committed(store, act(SetBlock(block=mood), SetBlock(block=diary)))
    now = replace(mood, content="x", updated_at=later(1))
    await committed(store, act(SetBlock(block=now)))
    await committed(store, act(SetBlock(block=block("mood", "agt_2"))))
    assert list(await store.agents.blocks("agt_1")) == [diary, now]
    await committed(store, act(DropBlock(agent_id="agt_1", label="Diary")))
    assert list(await store.agents.blocks("agt_1")) == [now]
    assert list(await store.agents.blocks("agt_3")) == []


async def test_who_is_linked_to_a_block_reads_it_as_long_as_both_are_there(store: Store) -> None:
    house, own = block("house"), block("house", "agt_2")
    await committed(store, act(SetBlock(block=house), SetBlock(block=own), link("house", "agt_2")))
    await committed(store, act(link("house", "agt_2"), link("house", "agt_3")))
    shared = replace(house, is_shared=True)
    assert list(await store.agents.blocks("agt_1")) == [shared]
    assert list(await store.agents.blocks("agt_2")) == [shared, own]
    await committed(store, act(SetBlock(block=replace(house, content="new"))))
    assert list(await store.agents.blocks("agt_3")) == [replace(shared, content="new")]
    gone = [UnlinkBlock(agent_id="agt_1", label="house", reader_id=each) for each in ("agt_3", "agt_9")]
    await committed(store, act(*gone))
    assert list(await store.agents.blocks("agt_3")) == []
    await committed(store, act(DropBlock(agent_id="agt_1", label="house")))
    await committed(store, act(SetBlock(block=house)))
    assert list(await store.agents.blocks("agt_2")) == [own]
    assert list(await store.agents.blocks("agt_1")) == [house]


@pytest.mark.parametrize(
    ("guard", "effect"),
    [
        ("block", DropBlock(agent_id="agt_1", label="none")),
        ("block", link("none", "agt_2")),
        ("passage", DropPassage(agent_id="agt_1", id="psg_9")),
        ("passage", DropPassage(agent_id="agt_2", id="psg_0")),
        ("duplicate", AddPassage(passage=passage("again"))),
    ],
)
async def test_what_cannot_be_done_to_a_memory_leaves_no_trace(
    store: Store, guard: Guard, effect: Effect
) -> None:
    await committed(store, act(SetBlock(block=block("mood")), AddPassage(passage=passage("first"))))
    others = (SetBlock(block=block("other")), AddPassage(passage=passage("second", 1)), link("mood", "agt_2"))
    assert await store.commit(act(*others, effect)) == Conflict(guard=guard)
    assert list(await store.agents.blocks("agt_1")) == [block("mood")]
    assert list(await store.agents.blocks("agt_2")) == []
    assert list(await store.agents.passages("agt_1")) == [passage("first")]
    assert await found(store, "second") == []


async def test_passages_are_read_by_page_the_newest_first(store: Store) -> None:
    kept = [passage(f"n {n}\x00\ud800", n, tags=("a", "b\x00")) for n in range(5)]
    await add(store, *kept[:3])
    await add(store, passage("theirs", 0, "agt_2"))
    await add(store, *kept[3:])
    await committed(store, act(DropPassage(agent_id="agt_1", id="psg_2")))
    newest = [kept[4], kept[3], kept[1], kept[0]]
    assert list(await store.agents.passages("agt_1")) == newest
    assert list(await store.agents.passages("agt_1", limit=2, offset=1)) == newest[1:3]
    assert await store.agents.passage("agt_1", newest[1].id) == newest[1]
    for agent_id, passage_id in (("agt_2", newest[1].id), ("agt_1", "psg_none")):
        assert await store.agents.passage(agent_id, passage_id) is None
    assert await found(store, "n") == [each.id for each in newest]
    await add(store, kept[2])
    assert [each.id for each in await store.agents.passages("agt_1", limit=1)] == ["psg_2"]


TEXTS = (
    "Jim likes GREEN tea.",
    "Straße in Köln, 100% sure_thing",
    "ΑΓΑΠΗΣ is love; İstanbul",
    'He said "no" -- OR did he? tea*',
    "a\\b!c NEAR(x, y)",
    "茶が好きです\ttea",
    "e\u0301te\u0301, d\u00e9j\u00e0 vu",
    "nul\x00half\ud800odd\ufffe",
)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("TEA", [5, 3, 0]),
        ("tea green", [0]),
        ("GREEN TEA", [0]),
        ("tea jim nobody", []),
        ("ea", [5, 4, 3, 0]),
        ("te e", [5, 3, 0]),
        ("STRASSE köLN", [1]),
        ("0%", [1]),
        ("100%", [1]),
        ("1%0", []),
        ("sure_thing", [1]),
        ("sure?thing", []),
        ("r_t", []),
        ("αγαπης", [2]),
        ("ΑΓΆΠΗΣ", []),
        ('"no"', [3]),
        ('"', [3]),
        ("OR", [3]),
        ("tea*", [3]),
        ("te*", []),
        ("near(x, y)", [4]),
        ("a\\b!c", [4]),
        ("!", [4]),
        ("茶", [5]),
        ("茶が好き", [5]),
        ("\u00e9t\u00e9", [6]),
        ("de\u0301ja\u0300", [6]),
        ("nul\ufffdhalf", [7]),
        ("odd\uffff", [7]),
    ],
)
async def test_words_are_found_without_case_and_no_character_is_a_wildcard(
    store: Store, query: str, numbers: list[int]
) -> None:
    await add(store, *[passage(text, n) for n, text in enumerate(TEXTS)])
    assert await found(store, query) == [f"psg_{n}" for n in numbers]


async def test_a_search_sees_tags_and_nothing_of_others(store: Store) -> None:
    await add(store, passage("mine", 0, tags=("Tea time", "x")), passage("theirs: tea", 1, "agt_2"))
    assert await found(store, "tea") == await found(store, "time x") == ["psg_0"]
    assert await found(store, "tea", "agt_2") == ["psg_1"]
    assert await found(store, "tea", "agt_3") == []


async def test_of_many_matches_the_newest_are_candidates(store: Store) -> None:
    await add(store, *[passage(f"tea no. {n}", n) for n in range(30)])
    for query in ("tea", "te", "tea n"):
        assert await found(store, query, limit=3) == ["psg_29", "psg_28", "psg_27"]


LETTERS = "aAbBéE\u0301ßSİıΣςσ%_!\\\"'*()茶 \t\n\x00\ud800\ufffe\ufffd\U0001f375"


async def test_every_journal_finds_what_the_rule_says(store: Store) -> None:
    chance = random.Random(14)

    def text(most: int) -> str:
        return "".join(chance.choices(LETTERS, k=chance.randint(1, most)))

    kept = [
        passage(text(12), n, tags=tuple(text(4) for _ in range(chance.randint(0, 2)))) for n in range(150)
    ]
    await add(store, *kept)
    for n in chance.sample(range(150), 30):
        await committed(store, act(DropPassage(agent_id="agt_1", id=f"psg_{n}")))
        kept = [each for each in kept if each.id != f"psg_{n}"]
    for _ in range(250):
        query = Query(keywords=tuple(folded(text(5)).split()))
        matches = [each for each in reversed(kept) if is_match(each, query)]
        assert list(await store.agents.matches("agt_1", query, limit=7)) == matches[:7], query


BYTES = bytes(range(256))
"""Any bytes, including NUL."""


def vector(number: int, embedder: str = "some") -> Vector:
    return Vector(embedder=embedder, floats=bytes([number]) + BYTES)


async def vectors(store: Store, agent_id: str = "agt_1") -> dict[str, Vector]:
    """Return the vectors of the agent's passages, newest first."""
    rows = await store.agents.vectors(agent_id, limit=100)
    assert [each.place for each in rows] == sorted([each.place for each in rows], reverse=True)
    return {
        each.id: Vector(embedder=each.embedder, floats=each.floats)
        for each in rows
        if each.embedder is not None and each.floats is not None
    }


async def lacking(store: Store, embedder: str, after: int = 0, limit: int = 100) -> list[tuple[int, str]]:
    """Return the passages without a vector of that embedder, by place."""
    rows = await store.agents.unembedded(embedder, after=after, limit=limit)
    return [(place, each.id) for place, each in rows]


async def test_a_passage_has_the_vector_it_was_stored_with_until_it_gets_another(store: Store) -> None:
    kept = [AddPassage(passage=passage(f"n {n}", n), vector=vector(n) if n else None) for n in range(3)]
    theirs = AddPassage(passage=passage("theirs", 3, "agt_2"), vector=vector(3))
    await committed(store, act(*kept, theirs))
    assert await vectors(store) == {"psg_2": vector(2), "psg_1": vector(1)}
    assert list(await vectors(store)) == ["psg_2", "psg_1"]
    changes = [("agt_1", "psg_0"), ("agt_1", "psg_1"), ("agt_2", "psg_2"), ("agt_1", "none")]
    new = [SetVector(agent_id=agent_id, id=each, vector=vector(9, "other")) for agent_id, each in changes]
    await committed(store, act(*new))
    assert await vectors(store) == {
        "psg_2": vector(2), "psg_1": vector(9, "other"), "psg_0": vector(9, "other")
    }  # fmt: skip
    assert await vectors(store, "agt_2") == {"psg_3": vector(3)}
    assert [each.content for each in await store.agents.passages("agt_1")] == ["n 2", "n 1", "n 0"]
    await committed(store, act(DropPassage(agent_id="agt_1", id="psg_1")))
    assert list(await vectors(store)) == ["psg_2", "psg_0"]
    await add(store, passage("n 1", 1))
    assert list(await vectors(store)) == ["psg_2", "psg_0"]


async def test_vectors_are_read_by_page_also_past_passages_without_one(store: Store) -> None:
    for n in range(5):
        effect = AddPassage(passage=passage(str(n), n), vector=vector(n) if n % 2 else None)
        await committed(store, act(effect, AddPassage(passage=passage(str(n), n, "agt_2"))))
    pages: list[PlacedVector] = []
    while page := await store.agents.vectors("agt_1", before=pages[-1].place if pages else None, limit=2):
        pages += page
    assert [(each.id, each.floats) for each in pages] == [
        (f"psg_{n}", vector(n).floats if n % 2 else None) for n in (4, 3, 2, 1, 0)
    ]
    assert list(await store.agents.vectors("agt_3", limit=2)) == []


async def test_passages_without_a_vector_of_an_embedder_are_found_by_place(store: Store) -> None:
    of_some = AddPassage(passage=passage("a", 0), vector=vector(0))
    of_other = AddPassage(passage=passage("b", 1), vector=vector(1, "other"))
    without = AddPassage(passage=passage("c", 2, "agt_2"))
    await committed(store, act(of_some, of_other, without))
    assert [each for _, each in await lacking(store, "some")] == ["psg_1", "psg_2"]
    assert [each for _, each in await lacking(store, "none")] == ["psg_0", "psg_1", "psg_2"]
    [(place, _), second] = await lacking(store, "some")
    assert await lacking(store, "some", limit=1) == [(place, "psg_1")]
    assert await lacking(store, "some", after=place) == [second]
    [(_, found_passage)] = await store.agents.unembedded("some", after=place, limit=9)
    assert found_passage == without.passage


@pytest.mark.slow
async def test_every_journal_finds_the_same_by_meaning(store: Store) -> None:
    chance, words = random.Random(11), ("red", "green", "blue", "tea", "house", "garden", "river", "cloud")
    embedder = TrigramEmbedder()
    texts = [" ".join(chance.choices(words, k=3)) for _ in range(PAGE + 150)]
    for n, text in enumerate(texts):
        theirs = passage(text, n, "agt_2")
        await committed(
            store, act(await stored_with(embedder, passage(text, n)), await stored_with(embedder, theirs))
        )
    gone = chance.sample(range(len(texts)), 60)
    await committed(store, act(*[DropPassage(agent_id="agt_1", id=f"psg_{n}") for n in gone]))
    semantics = Semantics(store, embedder, ManualClock(), lambda prefix: prefix)
    left = [n for n in reversed(range(len(texts))) if n not in gone]
    for query in ("green teas", "gardens by rivers", texts[0]):
        [direction] = [normal(numbers) for numbers in await embedder.embed([query])]
        distances = {n: math.dist(direction, normal(numbers)) for n, numbers in zip(
            left, await embedder.embed([texts[n] for n in left]), strict=True
        )}  # fmt: skip
        nearest = [each.id for each in await semantics.nearest("agt_1", query)]
        assert len(nearest) == MAX_NEAR
        assert nearest == [f"psg_{n}" for n in sorted(left, key=lambda n: round(distances[n], 5))[:MAX_NEAR]]


async def stored_with(embedder: TrigramEmbedder, new: Passage) -> AddPassage:
    [numbers] = await embedder.embed([new.content])
    return AddPassage(passage=new, vector=vector_of(embedder.name, numbers))


def normal(numbers: list[float]) -> list[float]:
    """Return the numbers as a normalized vector."""
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


async def test_passages_are_read_by_their_ids(store: Store) -> None:
    await add(store, *[passage(str(n), n) for n in range(3)], passage("theirs", 7, "agt_2"))
    rows = await store.agents.passages_of("agt_1", ["psg_2", "psg_0", "psg_7", "none"])
    assert sorted(rows, key=lambda each: each.id) == [passage("0", 0), passage("2", 2)]
    assert list(await store.agents.passages_of("agt_1", [])) == []


async def test_a_failed_unit_leaves_no_vector_behind(store: Store) -> None:
    await committed(store, act(AddPassage(passage=passage("a", 0), vector=vector(0))))
    new = SetVector(agent_id="agt_1", id="psg_0", vector=vector(1))
    second = AddPassage(passage=passage("b", 1), vector=vector(2))
    gone = DropPassage(agent_id="agt_1", id="psg_9")
    assert await store.commit(act(new, second, gone)) == Conflict(guard="passage")
    assert await vectors(store) == {"psg_0": vector(0)}


async def test_a_deleted_agent_leaves_no_memory_behind(store: Store) -> None:
    for number in (1, 2):
        await committed(store, save(agent(number)))
    await committed(store, act(SetBlock(block=block("mine")), SetBlock(block=block("theirs", "agt_2"))))
    await committed(store, act(link("mine", "agt_2"), link("theirs", "agt_1", "agt_2")))
    embedded = AddPassage(passage=passage("some tea"), vector=vector(0))
    await committed(store, act(embedded, AddPassage(passage=passage("their tea", 1, "agt_2"))))
    await committed(store, drop(agent(1)))
    await swept(store)
    assert [*await store.agents.blocks("agt_1"), *await store.agents.passages("agt_1")] == []
    assert await found(store, "tea") == []
    assert list(await store.agents.vectors("agt_1", limit=9)) == []
    assert list(await store.agents.blocks("agt_2")) == [block("theirs", "agt_2")]
    await committed(store, act(SetBlock(block=block("mine"))))
    assert [each.label for each in await store.agents.blocks("agt_2")] == ["theirs"]
    assert await found(store, "tea", "agt_2") == ["psg_1"]
