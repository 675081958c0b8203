"""Secrets are found in every form that DESIGN D6 names, and all other text is unchanged."""

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from tests.behaviour.marks import requirement

import toolwright as tw
from toolwright.core.env.redact import NOTHING, Redactor
from toolwright.core.text import brief

SECRET = 'k3y/with+odd"chars\\and ümläut&=%'
REDACTOR = Redactor([("API_KEY", SECRET)])


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        re.sub("%..", lambda match: match[0].lower(), quote(SECRET, safe="")),
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
    ],
)
def test_a_long_secret_is_found_within_other_text(form: str) -> None:
    assert REDACTOR.text(f"before{form}behind") == "before[redacted:API_KEY]behind"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("behind", range(4))
def test_base64_is_found_at_every_alignment(
    encode: Callable[[bytes], bytes], before: int, behind: int
) -> None:
    text = encode(b"x" * before + SECRET.encode() + b"y" * behind).decode().rstrip("=")
    clean = REDACTOR.text(text)
    assert "[redacted:API_KEY]" in clean
    rest = clean.replace("[redacted:API_KEY]", "")
    # at most one character at each end of the secret remains
    assert len(rest) <= (before + behind) * 4 / 3 + 4


def test_eleven_characters_are_too_few_for_base64() -> None:
    text = base64.b64encode(b"elevenchars").decode()
    assert Redactor([("A", "elevenchars")]).text(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("pin12", "[redacted:PIN]"),
        ("it is pin12.", "it is [redacted:PIN]."),
        ("xpin12", "xpin12"),
        ("pin123", "pin123"),
        ('{"a":"pin12"}', '{"a":"[redacted:PIN]"}'),
    ],
)
def test_a_short_secret_counts_only_as_a_whole_word(text: str, clean: str) -> None:
    assert Redactor([("PIN", "pin12")]).text(text) == clean


def test_a_secret_within_a_secret_leaves_nothing_behind() -> None:
    redactor = Redactor([("SHORT", "abcdefgh"), ("LONG", "abcdefgh-ijkl")])
    assert redactor.text("abcdefgh-ijkl abcdefgh") == "[redacted:LONG] [redacted:SHORT]"


def test_what_was_put_in_is_not_looked_at_again() -> None:
    assert Redactor([("A", "redacted"), ("B", "something-long")]).text("something-long") == "[redacted:B]"


def test_keys_and_strings_of_json_are_cleaned_and_the_rest_is_the_same() -> None:
    value: dict[str, object] = {"a": [1, True, None, SECRET], SECRET: {"b": 2.5}, "[redacted:API_KEY]": 1}
    clean = REDACTOR.json(json.loads(json.dumps(value)))
    assert clean == {
        "a": [1, True, None, "[redacted:API_KEY]"],
        "[redacted:API_KEY]": {"b": 2.5},
        "[redacted:API_KEY]-2": 1,
    }


def test_a_text_as_short_as_the_shortest_secret_is_looked_at() -> None:
    redactor = Redactor([("PIN", "4711"), ("KEY", "a-long-secret")])
    assert [redactor.text(each) for each in ("4711", "471", "")] == ["[redacted:PIN]", "471", ""]


def test_a_number_that_is_a_long_secret_is_hidden_and_a_short_one_stays() -> None:
    redactor = Redactor([("LONG", "1234567890"), ("SHORT", "42")])
    assert redactor.json([1234567890, 42]) == ["[redacted:LONG]", 42]


def test_where_nothing_is_found_the_same_objects_come_back() -> None:
    value: dict[str, object] = {"a": ["text", {"b": 1}]}
    assert REDACTOR.json(value) is value  # type: ignore[arg-type]  # it is JSON
    assert NOTHING.json(value) is value  # type: ignore[arg-type]  # the same
    assert not NOTHING


def test_blank_values_are_no_secrets() -> None:
    assert not Redactor([("EMPTY", ""), ("BLANK", "   ")])


@requirement("S2-4.3-5")
def test_a_result_is_cleaned_in_all_its_texts_and_its_files_are_left_alone() -> None:
    data = base64.b64encode(SECRET.encode()).decode()
    result = tw.ToolResult(
        status="error",
        result={"a": SECRET},
        error=SECRET,
        stack=f"Traceback {SECRET}",
        error_data={SECRET: SECRET},
        attachments=(tw.Attachment(name=f"{SECRET}.txt", mime_type="text/plain", data=data),),
    )
    clean = REDACTOR.result(result)
    assert SECRET not in repr(clean)
    assert isinstance(clean.attachments[0], tw.Attachment)
    assert clean.attachments[0].data == data


def test_a_secret_does_not_show_itself() -> None:
    assert SECRET not in repr(REDACTOR)


@pytest.mark.parametrize("length", range(8, len(SECRET)))
def test_no_part_of_a_secret_is_compared(length: int) -> None:
    for text in (
        SECRET[:length],
        brief(SECRET[:length] + "x" * 2_000),
        f"{SECRET[:length]} … (40 characters)",
    ):
        assert REDACTOR.text(text) == text


@pytest.mark.parametrize(
    "spelling", [r"\u006b3y\/with+odd\"chars\\and \u00fcml\u00E4ut&=%", json.dumps(SECRET)[1:-1]]
)
def test_in_a_json_text_every_spelling_of_a_secret_is_found(spelling: str) -> None:
    text = f'{{"key": "{spelling}", "n": 1.50}}'
    assert json.loads(text)["key"] == SECRET
    assert REDACTOR.json(text) == '{"key": "[redacted:API_KEY]", "n": 1.50}'


DOCUMENT = (
    '{ "pin": 4711, "pins": [4711, "4711"],\n "on": true, "none": null, "n": 1.50, "says": "null 4711 true" }'
)


def test_a_json_text_stays_one_and_its_numbers_and_literals_stay() -> None:
    redactor = Redactor([("PIN", "4711"), ("ON", "true"), ("NONE", "null")])
    assert redactor.json(DOCUMENT) == (
        '{ "pin": 4711, "pins": [4711, "[redacted:PIN]"],\n "on": true, "none": null, "n": 1.50, '
        '"says": "[redacted:NONE] [redacted:PIN] [redacted:ON]" }'
    )
    assert redactor.json("PIN 4711") == "PIN [redacted:PIN]"


def test_a_json_text_within_a_json_text_stays_one() -> None:
    inner = json.dumps({"pin": 4711, "key": SECRET, SECRET: [True]})
    clean = Redactor([("PIN", "4711"), ("API_KEY", SECRET)]).json(json.dumps({"body": inner, "pin": 4711}))
    assert isinstance(clean, str)
    body = json.loads(clean)
    assert body["pin"] == 4711
    assert json.loads(body["body"]) == {
        "pin": 4711,
        "key": "[redacted:API_KEY]",
        "[redacted:API_KEY]": [True],
    }


def test_a_long_number_that_is_a_secret_leaves_a_json_text_what_it_is() -> None:
    redactor = Redactor([("LONG", "1234567890")])
    assert redactor.json('{"a": 1234567890}') == '{"a": "[redacted:LONG]"}'
    assert redactor.json('[12345678901, "12345678901"]') == '[12345678901, "[redacted:LONG]1"]'


def test_two_keys_that_become_equal_both_stay_in_a_json_text() -> None:
    clean = REDACTOR.json(json.dumps({SECRET: 1, "[redacted:API_KEY]": 2}))
    assert clean == '{"[redacted:API_KEY]":1,"[redacted:API_KEY]-2":2}'


@pytest.mark.parametrize(
    "text", ["{", '{"a": NaN, "b": "4711"}', "[4711", '{"a": 4711} 4711', "[1e999, 4711"]
)
def test_what_only_looks_like_json_is_text(text: str) -> None:
    assert "4711" not in str(Redactor([("PIN", "4711")]).json(text))
