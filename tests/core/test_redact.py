"""Secrets are found in every form that DESIGN D6 names, and all other text is unchanged."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.behaviour.marks import requirement

import toolwright as tw
from toolwright.core.env.redact import NOTHING, Redactor, open_end
from toolwright.core.limits import MAX_JSON_VALUES
from toolwright.core.text import CUT, brief
from toolwright.runtime.env import clean_arguments

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
        quote(SECRET, safe="").lower() if SECRET.islower() else quote(SECRET, safe=""),
        SECRET.encode().decode("latin-1"),
        json.dumps(SECRET.encode().decode("latin-1"))[1:-1],
        SECRET.encode("latin-1").decode("utf-8", "replace"),
        quote(SECRET.encode("latin-1"), safe=""),
    ],
)
def test_a_long_secret_is_found_within_other_text(form: str) -> None:
    assert REDACTOR.text(f"before{form}behind") == "before[redacted:API_KEY]behind"


@pytest.mark.parametrize("secret", ["sk-0123456789", "pässwörd"])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("percent", [True, False])
def test_a_secret_spelled_byte_by_byte_is_found(secret: str, upper: bool, percent: bool) -> None:
    pairs = [f"{byte:02X}" if upper else f"{byte:02x}" for byte in secret.encode()]
    spelled = "".join(f"%{pair}" if percent else pair for pair in pairs)
    redactor = Redactor([("KEY", secret)])
    assert redactor.text(f"a {spelled} b") == "a [redacted:KEY] b"


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


def test_a_secret_of_other_letters_is_found_misread_and_nothing_illegible_is_taken_for_it() -> None:
    secret = "пароль-пароль"
    redactor = Redactor([("A", secret)])
    assert redactor.text(f"a {secret.encode().decode('latin-1')} b") == "a [redacted:A] b"
    unreadable = "\ufffd" * 40
    assert Redactor([("A", "üüüüüüüü")]).text(unreadable) == unreadable


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


LETTERS = st.characters(codec="ascii", categories=["L", "N", "P"])


@given(
    secrets=st.lists(
        st.one_of(
            st.text(LETTERS, min_size=1, max_size=14),
            st.text("ab", min_size=6, max_size=12),
            st.text("ab", min_size=3, max_size=5).map(lambda text: text * 3),
        ),
        max_size=4,
    ),
    seed=st.integers(0, 2**32),
)
def test_a_stream_shows_what_the_whole_would_and_never_the_start_of_a_secret(
    secrets: list[str], seed: int
) -> None:
    chance = random.Random(seed)
    redactor = Redactor([(f"S{number}", secret) for number, secret in enumerate(secrets)])
    begun = [secret[: chance.randint(1, len(secret))] for secret in secrets]
    pieces = [chance.choice([*secrets, *begun, " ", "x", "hello ", CUT, CUT[:2]]) for _ in range(8)]
    whole = "".join(pieces)
    shown = ""
    read = 0
    while read < len(whole):
        read += chance.randint(1, 3)
        visible, _ = redactor.so_far(whole[:read])
        assert visible.startswith(shown), (visible, shown, whole)
        shown = visible
    assert redactor.text(whole).startswith(shown)


def test_a_secret_as_python_spells_it_is_found() -> None:
    assert REDACTOR.text(f"There is no file {SECRET!r}.") == "There is no file '[redacted:API_KEY]'."


LONG_SECRET = "".join(random.Random(5).choices('abcdefghijklmnopqrstuvwxyz"\\/ü+=0123456789', k=120))


def beginnings(text: str, secret: str) -> list[str]:
    """Return the parts of eight characters of the secret that the text contains, in any of the forms cut here."""
    forms = (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1])
    return [form[at : at + 8] for form in forms for at in range(len(form) - 7) if form[at : at + 8] in text]


@pytest.mark.parametrize("spell", [str, repr, json.dumps], ids=["plain", "repr", "json"])
@pytest.mark.parametrize("at", range(80, 202, 3))
def test_of_a_secret_that_a_cut_goes_through_nothing_is_left(spell: Callable[[str], str], at: int) -> None:
    redactor = Redactor([("KEY", LONG_SECRET)])
    text = f"Failed: {brief(spell('x' * at + LONG_SECRET), 200)}."
    clean = redactor.text(text)
    assert not beginnings(clean, LONG_SECRET), clean
    assert redactor.text(brief(clean, 190)) == brief(clean, 190)


@pytest.mark.parametrize("most", range(60, 150, 3))
def test_what_is_cut_twice_is_as_clean(most: int) -> None:
    clean = Redactor([("KEY", LONG_SECRET)]).text(brief(brief("x" * 20 + LONG_SECRET, 100), most))
    assert not beginnings(clean, LONG_SECRET), clean


def test_a_beginning_that_was_not_cut_off_is_left_alone() -> None:
    redactor = Redactor([("URL", "https://example.test/a/long/path")])
    assert redactor.text("See https://… or https://example.test.") == "See https://… or https://example.test."


@given(text=st.text("ab", max_size=60), word=st.text("ab", min_size=1, max_size=40))
def test_the_open_end_is_the_longest_there_is(text: str, word: str) -> None:
    ends = [length for length in range(len(word)) if text.endswith(word[:length])]
    assert open_end(text, word) == max(ends)


def test_the_open_end_of_a_word_that_nearly_repeats_itself() -> None:
    word = "a" * 500 + "b" + "a" * 500 + "c"
    assert open_end("a" * 2_000 + "b" + "a" * 400, word) == 901
    assert open_end("a" * 400 + "b" + "a" * 450, word) == 450


def spelled(text: str, chance: random.Random) -> str:
    """Return the text as content of a JSON string, each character in a random one of its spellings."""
    return "".join(chance.choice(list(spellings(each))) for each in text)


def spellings(character: str) -> Iterator[str]:
    """Yield all JSON spellings of one character."""
    yield json.dumps(character)[1:-1]
    yield json.dumps(character, ensure_ascii=False)[1:-1]
    if character == "/":
        yield "\\/"
    units = character.encode("utf-16-be")
    for digits in ("04x", "04X"):
        yield "".join(f"\\u{int.from_bytes(units[at : at + 2]):{digits}}" for at in range(0, len(units), 2))


ODD = st.text(st.sampled_from('abcxyz019/\\"\n\t€üß😀𝄞 .'), min_size=8, max_size=20).filter(str.strip)


@given(secret=ODD, seed=st.integers(0, 2**32), layers=st.integers(1, 3))
def test_a_secret_is_found_in_every_spelling_that_json_has_and_in_json_within_json(
    secret: str, seed: int, layers: int
) -> None:
    chance = random.Random(seed)
    text = secret
    for _ in range(layers):
        text = spelled(text, chance)
    assert Redactor([("KEY", secret)]).text(f'{{"key": "{text}"}}') == '{"key": "[redacted:KEY]"}'


def test_a_short_secret_behind_an_escape_is_a_whole_word() -> None:
    assert Redactor([("PIN", "pin12")]).text('"a\\npin12\\tb p\\u0069n12 xp\\u0069n12"') == (
        '"a\\n[redacted:PIN]\\tb [redacted:PIN] xp\\u0069n12"'
    )


@settings(deadline=None)
@given(secrets=st.lists(ODD, min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_a_stream_of_escapes_shows_what_the_whole_would_and_never_the_start_of_a_secret(
    secrets: list[str], seed: int
) -> None:
    chance = random.Random(seed)
    redactor = Redactor([(f"S{number}", secret) for number, secret in enumerate(secrets)])
    wire_name = [spelled(each, chance) for each in secrets]
    wire_name += [spelled(spelled(each, chance), chance) for each in secrets]
    begun = [each[: chance.randint(1, len(each))] for each in wire_name]
    pieces = [chance.choice([*wire_name, *begun, " ", "x", "\\", "\\u00", CUT, CUT[:2]]) for _ in range(6)]
    whole = "".join(pieces)
    shown, read = "", 0
    while read < len(whole):
        read += chance.randint(1, 20)  # in pieces of any length, as in a stream
        visible, _ = redactor.so_far(whole[:read])
        assert visible.startswith(shown), (visible, shown, whole)
        shown = visible
    assert redactor.text(whole).startswith(shown)


def test_what_a_stream_holds_back_begins_where_the_spelling_of_a_secret_begins() -> None:
    redactor = Redactor([("KEY", "/secret/key")])
    text = "see \\u002Fse\\u0063ret\\/ke\\u007"
    assert redactor.so_far(text) == ("see ", len(text) - 4)
    assert redactor.so_far(f"{text}9!") == ("see [redacted:KEY]!", 0)


@pytest.mark.parametrize("cut", range(2, 60))
def test_of_an_escaped_secret_that_a_cut_goes_through_nothing_is_left(cut: int) -> None:
    secret = "/äbcd/éfgh/ijkl"
    spelling = "".join(f"\\u{ord(each):04X}" for each in secret)
    clean = Redactor([("KEY", secret)]).text(brief(f"{spelling}{'x' * 100}", cut))
    kept = clean.partition(CUT)[0]
    assert len(kept) < 8 * 6 or kept == "[redacted:KEY]", clean


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


def test_what_is_written_again_around_a_secret_has_letters_as_they_are() -> None:
    assert REDACTOR.json(json.dumps({"Zürich": f"é {SECRET}"}, ensure_ascii=False)) == (
        '{"Zürich": "é [redacted:API_KEY]"}'
    )
    arguments = clean_arguments(json.dumps({"city": "Zürich", "key": SECRET}), REDACTOR)
    assert arguments == '{"city":"Zürich","key":"[redacted:API_KEY]"}'


def test_arguments_of_more_values_than_are_taken_are_cleaned_as_text() -> None:
    many = '{"n": [' + "1, " * MAX_JSON_VALUES + '1], "key": "SECRET"}'
    assert clean_arguments(many.replace("SECRET", SECRET), REDACTOR) == many.replace(
        "SECRET", "[redacted:API_KEY]"
    )


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
