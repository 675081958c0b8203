"""Forms in which a secret may stand in a text: as it is, in JSON, percent-encoded, in hex, base64 and misread (D6)."""

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote, quote_plus

from toolwright.core.text import CUT

ENCODED = 12  # characters from which its base64 is looked for
_LOST, _LEGIBLE = "\ufffd", 4  # characters that must be left of a text for it to be worth a search


def forms_of(value: str) -> Iterator[str]:
    """All that are looked for as they are; other spellings of JSON are undone before (`json_escapes`)."""
    for text in (value, *_misread(value)):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield json.dumps(json.dumps(text))[3:-3]  # JSON within JSON, as tools often return it
    for sent in _as_bytes(value):
        for encoded in (quote(sent), quote(sent, safe=""), quote_plus(sent)):
            yield encoded
            yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), encoded)
        for digits in (sent.hex(), sent.hex().upper()):
            yield digits
            yield "".join([f"%{digits[place : place + 2]}" for place in range(0, len(digits), 2)])
        if len(value) >= ENCODED:
            yield from _base64_forms(sent)


def _as_bytes(value: str) -> Iterator[bytes]:
    """The bytes of a text, also those of a service that knows no UTF-8."""
    yield value.encode()
    if not value.isascii():
        with suppress(UnicodeEncodeError):
            yield value.encode("latin-1")


def _misread(value: str) -> Iterator[str]:
    """Spellings of a text from a service that reads UTF-8 as Latin-1, as most read headers, or that
    answers in Latin-1 without a word, where every letter that is not ASCII is lost."""
    for sent in () if value.isascii() else _as_bytes(value):
        for encoding in ("latin-1", "utf-8", "ascii"):
            text = sent.decode(encoding, "replace")
            if text != value and len(text.replace(_LOST, "")) >= _LEGIBLE:
                yield text


def _base64_forms(value: bytes) -> Iterator[str]:
    """Spellings of a secret within the base64 of something longer: it may begin at any of three places."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + value).decode()
        first = (0, 2, 3)[before]  # the characters before depend on what stands before the secret
        last = (before + len(value)) * 8 // 6  # and the rest on what stands behind it
        core = text[first:last]
        yield core
        yield core.replace("+", "-").replace("/", "_")


_LAYERS = 4  # JSON within JSON within JSON, and one more
_LONGEST = 6  # characters of an escape; one of two halves has a backslash in its middle
_SLACK = 64  # characters, so that what was cut through is not among those that matter
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH, _LOW = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}"
_BEGUN = "(?:u[0-9a-fA-F]{0,3})?"  # of an escape, what is there before it is whole
_PART = "|".join(re.escape(CUT[:length]) for length in range(len(CUT) - 1, 0, -1))
_ESCAPE = re.compile(
    r"\\(?:"
    rf"u(?P<high>{_HIGH})\\u(?P<low>{_LOW})"
    rf"|(?P<open>(?:u{_HIGH}(?:\\{_BEGUN}(?:{_PART})?)?|{_BEGUN}(?:{_PART})?)\Z)"
    r"|u(?P<code>[0-9a-fA-F]{4})"
    r'|(?P<letter>["\\/bfnrt])'
    rf"|{_BEGUN}(?={re.escape(CUT)})"
    r")"
)


class Unescaped:
    """A text with one layer of escapes undone; an escape that is not whole at its end is left away.

    `whole` is where that one begins, in the text as it was, or the end of it.
    """

    __slots__ = ("_inner", "_outer", "text", "whole")

    def __init__(self, escaped: str) -> None:
        parts: list[str] = []
        self._inner, self._outer = [0], [0]  # places behind escapes: in the text, and in what it was
        length = done = 0
        self.whole = len(escaped)
        for escape in _ESCAPE.finditer(escaped):
            plain = escaped[done : escape.start()]
            character = _character(escape)
            parts += (plain, character)
            length, done = length + len(plain) + len(character), escape.end()
            self._inner.append(length)
            self._outer.append(done)
            if escape["open"] is not None:
                self.whole = escape.start()
        parts.append(escaped[done:])
        self.text = "".join(parts)

    def place(self, inner: int) -> int:
        """Index in the original text."""
        last = bisect_right(self._inner, inner) - 1
        return min(self._outer[last] + inner - self._inner[last], self.whole)


def layers(text: str) -> Iterator[tuple[str, Callable[[int], int]]]:
    """The text with one layer of escapes undone, with two, and so on, each with the way from its places to ours."""
    way: list[Unescaped] = []

    def place(inner: int) -> int:
        for each in reversed(way):
            inner = each.place(inner)
        return inner

    while "\\" in text and len(way) < _LAYERS:
        way.append(Unescaped(text))
        if way[-1].text == text:
            return
        text = way[-1].text
        yield text, place


def recent(text: str, length: int) -> int:
    """A place at least so far before the end at which no escape is cut through, but perhaps one within JSON in JSON."""
    place = max(0, len(text) - length - _SLACK)
    while place and (slash := text.rfind("\\", max(0, place - _LONGEST), place)) >= 0:
        place = slash
    return place


def _character(escape: re.Match[str]) -> str:
    if escape["high"] is not None:
        high, low = int(escape["high"], 16), int(escape["low"], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if escape["code"] is not None:
        return chr(int(escape["code"], 16))
    letter = escape["letter"]
    return "" if letter is None else _LETTERS.get(letter, letter)
