"""Rules of memory: allowed content, and the ranking of passages."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwright.core.agents.memory import (
    MAX_BLOCK,
    MAX_BLOCKS,
    MAX_LABEL,
    MAX_PASSAGE,
    MAX_QUERY,
    MAX_QUERY_WORDS,
    MAX_TAG,
    MAX_TAGS,
    Block,
    Passage,
    PlacedVector,
    Vector,
    check_block,
    check_passage,
    folded,
    fused,
    is_match,
    ranked,
    read_query,
)
from toolwright.core.errors import InvalidRequest
from toolwright.runtime.agents.semantics import MAX_EMBEDDED, MAX_NEAR, embedded_text, nearest
from toolwright.runtime.agents.semantics import vector_of as vector_or_none

AT = datetime(2026, 1, 1, tzinfo=UTC)


def passage(content: str, *tags: str) -> Passage:
    return Passage(agent_id="a", id=content, content=content, tags=tags, created_at=AT)


def block(label: str, agent_id: str = "a") -> Block:
    return Block(agent_id=agent_id, label=label, content="x", updated_at=AT)


def found(query: str, *contents: str, limit: int = 20) -> list[str]:
    matches = [each for each in map(passage, contents) if is_match(each, read_query(query))]
    return [each.content for each in ranked(matches, read_query(query), limit)]


def test_the_words_side_by_side_come_first_then_whole_words_then_the_newest() -> None:
    newest_first = (
        "teas, greenish",
        "green\u00a0\n tea",
        "tea is green",
        "steam in greens",
        "GREEN TEA",
        "tea",
    )
    ranks = ["green\u00a0\n tea", "GREEN TEA", "tea is green", "teas, greenish", "steam in greens"]
    assert found("Green tea", *newest_first) == ranks
    assert found("Green tea", *newest_first, limit=2) == ranks[:2]
    assert found("tea", "steam", "tea!", "teas", "my tea") == ["tea!", "my tea", "steam", "teas"]


def test_a_tag_is_found_like_the_content() -> None:
    query = read_query("tea time")
    assert is_match(passage("It is time.", "TEA"), query)
    assert not is_match(passage("It is.", "tea"), query)


@given(st.text(st.characters(), max_size=30), st.text(st.characters(), max_size=30))
def test_every_text_finds_itself_in_any_case(text: str, around: str) -> None:
    if not folded(text).split() or len(folded(text).split()) > MAX_QUERY_WORDS:
        return
    assert is_match(passage(f"{around}\n{text}\n{around}"), read_query(text))
    assert folded(folded(text)) == folded(text)


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("", "query is needed"),
        (" \n\u3000", "query is needed"),
        ("x" * (MAX_QUERY + 1), "query has 1001 characters; 1000 are allowed"),
        ("a " * (MAX_QUERY_WORDS + 1), "query has 17 words; 16 are allowed"),
    ],
)
def test_an_invalid_query_is_refused(query: str, fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        read_query(query)


@pytest.mark.parametrize(
    ("label", "content", "fault"),
    [
        (" ", "x", "label is needed"),
        ("x" * (MAX_LABEL + 1), "x", "label has 101 characters; 100 are allowed"),
        ("a\nb", "x", "label must not hold line breaks"),
        ("a\x00", "x", "label must not hold"),
        ("a", "é" * (MAX_BLOCK // 2) + "x", "content has 16385 bytes in UTF-8; 16384 are allowed"),
        ("theirs", "x", "'theirs' is shared with you by another agent"),
    ],
)
def test_an_invalid_block_is_refused(label: str, content: str, fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        check_block([block("mine"), block("theirs", "b")], "a", label, content)


def test_a_block_of_ones_own_may_be_written_as_long_as_there_are_not_too_many() -> None:
    seen = [*(block(str(n)) for n in range(MAX_BLOCKS)), block("0", "b"), block("other", "c")]
    check_block(seen, "a", "0", "x" * MAX_BLOCK)
    check_block(seen[1:], "a", "new", "")
    with pytest.raises(InvalidRequest, match="20 blocks already, which is the maximum"):
        check_block(seen, "a", "new", "x")


@pytest.mark.parametrize(
    ("content", "tags", "fault"),
    [
        (" ", [], "content is needed"),
        ("\ud800" * (MAX_PASSAGE // 3 + 1), [], "content has 65538 bytes in UTF-8; 65536 are allowed"),
        ("x", ["t"] * (MAX_TAGS + 1), "tags has 21 tags; 20 are allowed"),
        ("x", ["a", ""], "tags.1 is needed"),
        ("x", ["y" * (MAX_TAG + 1)], "tags.0 has 101 characters; 100 are allowed"),
        ("x", ["a\u2028b"], "tags.0 must not hold line breaks"),
    ],
)
def test_an_invalid_passage_is_refused(content: str, tags: list[str], fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        check_passage(content, tags)


def fusion(*rankings: str) -> str:
    """Return the passages of one letter each, in the order of their fused ranks."""
    return "".join(each.content for each in fused(*[[passage(letter) for letter in one] for one in rankings]))


def test_what_two_rankings_have_comes_before_the_first_of_one_and_equals_in_their_order() -> None:
    assert fusion("abc", "") == fusion("", "abc") == fusion("abc", "abc") == "abc"
    assert fusion("abc", "xc") == "caxb"
    assert fusion("ab", "ba") == "ab"
    assert fusion("ab", "xy") == "axby"
    assert fusion() == ""


@given(st.permutations("abcdef"), st.permutations("defghi"))
def test_a_fusion_has_every_passage_once(one: Sequence[str], other: Sequence[str]) -> None:
    assert sorted(fusion("".join(one), "".join(other))) == list("abcdefghi")


def vector_of(embedder: str, numbers: list[float]) -> Vector:
    vector = vector_or_none(embedder, numbers)
    assert vector is not None
    return vector


def row(place: int, vector: Vector | None) -> PlacedVector:
    embedder, floats = (None, None) if vector is None else (vector.embedder, vector.floats)
    return PlacedVector(place=place, id=f"psg_{place}", embedder=embedder, floats=floats)


def test_the_nearest_vectors_come_first_and_of_equals_the_newest() -> None:
    query = vector_of("some", [1, 0, 0])
    rows = [
        row(9, vector_of("some", [1, 1, 0])),
        row(8, vector_of("some", [0, 1, 0])),
        row(7, vector_of("some", [-1, 0, 0])),
        row(6, vector_of("some", [7, 0, 0])),
        row(5, vector_of("some", [0.5, 0.5, 0])),
        row(4, vector_of("other", [1, 0, 0])),
        row(3, vector_of("some", [1, 0])),
        row(2, None),
    ]
    near = nearest(query, rows)
    assert [each.place for each in near] == [6, 9, 5]
    assert near[0].distance == 0
    older = [row(1, vector_of("some", [9, 0, 0])), row(0, vector_of("some", [3, 2, 0]))]
    assert nearest(query, older, near) == nearest(query, [*rows, *older])
    assert [each.place for each in nearest(query, older, near)] == [6, 1, 0, 9, 5]
    many = [row(place, vector_of("some", [1, 0, 0])) for place in range(100, 0, -1)]
    assert [each.place for each in nearest(query, many)] == list(range(100, 100 - MAX_NEAR, -1))


@pytest.mark.parametrize("numbers", [[], [0.0, 0.0], [float("nan"), 1.0], [float("inf")], [-float("inf"), 1]])
def test_numbers_without_a_direction_are_no_vector(numbers: list[float]) -> None:
    assert vector_or_none("some", numbers) is None


def test_a_vector_is_kept_as_floats_of_four_bytes_in_little_endian() -> None:
    assert vector_of("some", [3, 4]) == Vector(embedder="some", floats=struct.pack("<2f", 0.6, 0.8))


def test_the_beginning_of_a_passage_is_embedded_with_its_tags() -> None:
    assert embedded_text(passage("Tea.", "hot", "green")) == "Tea.\nhot\ngreen"
    long = embedded_text(passage("茶" * MAX_EMBEDDED))
    assert long == "茶" * (MAX_EMBEDDED // 3)
    assert embedded_text(passage("half \ud800")) == "half ?"
