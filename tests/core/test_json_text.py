"""External JSON text: counted before it is parsed, for any split into pieces, and parsed strictly."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwright.core.json_text import (
    EXACT,
    HalfCharacter,
    NotJson,
    TooManyValues,
    ValueCount,
    parse_json,
    read_json,
)
from toolwright.core.json_value import JSON
from toolwright.core.limits import MAX_JSON_VALUES

texts = st.text(st.sampled_from('"\\[]{},:/ bnü\u20ac\U0001f600\n')) | st.text(st.characters(codec="utf-8"))
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)


def counted(value: JSON) -> int:
    """Return the number of values within a value. An empty list or object counts as two."""
    parts = _parts(value)
    return 1 + sum(map(counted, parts)) + (isinstance(value, dict | list) and not parts)


def named(value: JSON) -> int:
    """Return the number of names in its objects."""
    return (len(value) if isinstance(value, dict) else 0) + sum(map(named, _parts(value)))


def _parts(value: JSON) -> list[JSON]:
    return [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []


@given(values, st.booleans(), st.integers(1, 40))
def test_values_and_names_are_counted_in_whatever_pieces_a_text_comes(
    value: JSON, ascii_only: bool, size: int
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=size % 3 or None).encode()
    count = ValueCount(10**9)
    for start in range(0, len(text), size):
        count.add(text[start : start + size])
    assert (count.values, count.names) == (counted(value), named(value))


@given(values)
def test_every_text_is_read_as_pythons_own_reader_does(value: JSON) -> None:
    text = json.dumps(value)
    assert json.dumps(read_json(text)) == json.dumps(json.loads(text)) == json.dumps(parse_json(text))


@given(st.text(st.sampled_from('[]{}",:1 \\ae-.tru')))
def test_what_is_no_json_is_refused_as_by_pythons_own_reader(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(NotJson):
            read_json(text)
    else:
        pairs = named(expected)
        colons = ValueCount(10**9)
        colons.add(text.encode())
        if pairs == colons.names:
            assert read_json(text) == expected
        else:
            with pytest.raises(NotJson, match="duplicate key"):
                read_json(text)


def test_counting_stops_at_the_limit() -> None:
    count = ValueCount(1_000)
    with pytest.raises(TooManyValues, match="more than 1000 JSON values"):
        count.add(b"[" + b"1," * 10_000_000)
    assert count.values < 100_000  # of the first piece, and not of all twenty megabytes


@pytest.mark.parametrize("text", ['["' + "," * 200_000 + '"]', '"' + '\\"[' * 200_000 + '"'])
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    assert read_json(text) == json.loads(text)


def test_a_limit_of_our_own_is_the_default() -> None:
    with pytest.raises(TooManyValues):
        read_json(f"[{','.join(['1'] * MAX_JSON_VALUES)}]")


@pytest.mark.parametrize("size", [10, EXACT + 10])
@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ('"a": 1, "a": 2', "duplicate key"),
        ('"a": NaN', "NaN|expected"),
        ('"a": 1e400', "inf|number"),
        ('"a": [1', "delimiter|expected|EOF"),
        (f'"a": {"[" * 64}{"]" * 64}', "deeper than 64 levels"),
        (f'"a": {"9" * 4_400}', "digits|number"),
    ],
)
def test_a_text_of_any_size_is_read_strictly(size: int, inner: str, why: str) -> None:
    with pytest.raises(NotJson, match=why):
        read_json(f'{{"long": "{"x" * size}", {inner}}}')


@pytest.mark.parametrize("size", [0, EXACT])
@pytest.mark.parametrize(
    ("text", "path"),
    [
        (r'"\ud800"', ()),
        (r'["\ud800\ud801"]', (0,)),
        (r'["x", "\ud83d\ude00\ud83d"]', (1,)),
        (r'["x", "\ud83d\ude00\udc00"]', (1,)),
        (r'{"a": "x\\\ud800\n\\ud"}', ("a",)),
        (r'{"a": {"b": {"c": {"d": 1}}, "\udc00": 2}, "e": "\\ud800"}', ("a",)),
        (r'{"\udc00": [1, 2]}', ()),
        ('{"a":\n[\n"é", {},\n[], "é\\ud800\\u0041"], "b": [[]]}', ("a", 3)),
        (r'{"a": [1, {"b": "x\uDFFFy"}]}', ("a", 1, "b")),
        (r'{"a": {"\uDBFF": 1}}', ("a",)),
        (r'["\ude00\ud83d"]', (0,)),
    ],
)
def test_half_a_character_is_refused_with_its_place(
    text: str, path: tuple[str | int, ...], size: int
) -> None:
    with pytest.raises(HalfCharacter) as caught:
        read_json(text + " " * size)
    assert caught.value.path == path


def test_whole_characters_are_read_however_they_are_written() -> None:
    assert read_json(r'["\ud83d\ude00", "\\ud800"]') == ["\U0001f600", r"\ud800"]


def test_a_byte_order_mark_is_passed_over() -> None:
    for text in (b'\xef\xbb\xbf{"a": 1}', '\ufeff{"a": 1}'):
        assert read_json(text) == parse_json(text) == {"a": 1}
    with pytest.raises(NotJson):
        read_json(b"\xef\xbb\xbf\xef\xbb\xbf1")


def test_half_a_character_is_never_read_from_services() -> None:
    with pytest.raises(NotJson):
        parse_json(r'"\ud800"')
    assert parse_json('{"a": 1, "a": 2}') == {"a": 2}


def test_a_number_of_too_many_digits_is_reported_without_advice_for_programmers() -> None:
    with pytest.raises(NotJson, match=r"^it contains a number with too many digits$"):
        read_json(b'{"a": ' + b"9" * 5_000 + b"}")
