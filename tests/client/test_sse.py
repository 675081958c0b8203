"""The parser of server-sent events: its result does not depend on how the bytes are split."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwright.client.follow import Sse, SseParser
from toolwright.core.errors import BadAnswer

LINES = st.sampled_from(
    [
        "data: a", "data:b", "data:  c", "data", "data:", "id: 7", "id", "id: x\0y", "event: e", "event",
        ": comment", ":", "retry: 3", "other: x", "data: ümlaut \U0001f642 \u2028 \u0085", "", "", "", " data: x",
    ]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r", "\r\n"])
TEXTS = st.lists(st.tuples(LINES, ENDS), max_size=25).map(lambda parts: "".join(map("".join, parts)))


def reference(text: str) -> list[Sse]:
    """The algorithm of the standard, applied to the whole text at once."""
    lines = re.split("\r\n|\n|\r", text.removeprefix("\ufeff"))[:-1]
    found: list[Sse] = []
    data: list[str] = []
    event, last = "", ""
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                found.append(Sse("\n".join(data), event or "message", last))
            data, event = [], ""
        elif name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last = value
    return found


def parsed(*chunks: bytes) -> list[Sse]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@given(st.data(), TEXTS, st.booleans())
def test_any_cutting_gives_the_same_events(data: st.DataObject, text: str, mark: bool) -> None:
    whole = (b"\xef\xbb\xbf" if mark else b"") + text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert parsed(*chunks) == reference(text)
    assert parsed(*[whole[n : n + 1] for n in range(len(whole))]) == reference(text)


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(junk: bytes) -> None:
    assert parsed(junk) == parsed(*[junk[n : n + 1] for n in range(len(junk))])


def test_lines_end_in_three_ways_and_data_may_have_several() -> None:
    assert parsed(b"data: a\rdata: b\r\ndata: c\n\r") == [Sse("a\nb\nc")]


def test_comments_unknown_fields_and_a_byte_order_mark_are_passed_over() -> None:
    assert parsed(b"\xef\xbb", b"\xbf: hello\nretry: 5\nfoo: bar\nid: 3\ndata: x\n\n") == [Sse("x", id="3")]


def test_half_an_event_at_the_end_is_none() -> None:
    assert parsed(b"data: whole\n\ndata: half\n") == [Sse("whole")]
    assert parsed(b"data: whole\n\ndata: ha") == [Sse("whole")]


@pytest.mark.parametrize("piece", [b"x" * 100, b"data: x\n", b":\xff\xff"])
def test_an_endless_event_is_refused_before_it_fills_the_memory(piece: bytes) -> None:
    parser = SseParser(largest=1_000)
    fed = 0
    with pytest.raises(BadAnswer, match="more than 1000 bytes"):
        while fed < 10_000:
            fed += len(piece)
            assert list(parser.feed(piece)) == []
    assert fed <= 1_200


def test_many_small_events_are_not_one_large_one() -> None:
    parser = SseParser(largest=100)
    assert sum(len(list(parser.feed(b"data: xxxx\n\n: comment\n"))) for _ in range(100)) == 100
