"""Redaction: secrets, in each form they can take, are removed before text or JSON is recorded, shown or sent (D6).

A secret of 8 or more characters is found anywhere: literally, in a JSON string with any escapes (also in JSON within
JSON), percent- and form-encoded, in Python's `repr`, decoded or encoded as Latin-1, and from 12 characters on in base64
at every alignment. A shorter secret is found only as a whole word. If a text was cut by `brief`, the beginning of a
secret is treated as the secret.
"""

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import quote, quote_plus

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.results import Attachment, AttachmentRef, ToolResult
from toolwright.core.text import CUT
from toolwright.core.value import changed

ENCODED = 12  # minimum characters of a secret to search for in base64
_LOST, _LEGIBLE = "\ufffd", 4  # minimum characters of a text that are legible for it to be searched


def encodings(value: str) -> Iterator[str]:
    """Yield all forms of a secret that are searched literally.

    JSON escapes are decoded before the search (`layers`).
    """
    for text in (value, *_misread(value)):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield json.dumps(json.dumps(text))[3:-3]  # JSON within JSON, as tools often return it
    for sent in _as_bytes(value):
        for encoded in (quote(sent), quote(sent, safe=""), quote_plus(sent)):
            yield encoded
            yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
        for digits in (sent.hex(), sent.hex().upper()):
            yield digits
            yield "".join([f"%{digits[place : place + 2]}" for place in range(0, len(digits), 2)])
        if len(value) >= ENCODED:
            yield from _base64_forms(sent)


def _as_bytes(value: str) -> Iterator[bytes]:
    """Yield the text in several encodings, including those of services without UTF-8."""
    yield value.encode()
    if not value.isascii():
        with suppress(UnicodeEncodeError):
            yield value.encode("latin-1")


def _misread(value: str) -> Iterator[str]:
    """Yield the text as garbled by services that read UTF-8 as Latin-1, or that replace non-ASCII letters."""
    for sent in () if value.isascii() else _as_bytes(value):
        for encoding in ("latin-1", "utf-8", "ascii"):
            text = sent.decode(encoding, "replace")
            if text != value and len(text.replace(_LOST, "")) >= _LEGIBLE:
                yield text


def _base64_forms(value: bytes) -> Iterator[str]:
    """Yield the forms of a secret within longer base64, in which it can begin at any of three alignments."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + value).decode()
        first = (0, 2, 3)[before]  # the first characters depend on the text before the secret
        last = (before + len(value)) * 8 // 6  # and the last ones on the text after the secret
        core = text[first:last]
        yield core
        yield core.replace("+", "-").replace("/", "_")


_LAYERS = 4  # JSON within JSON within JSON, and one more
_LONGEST = 6  # characters of an escape; a surrogate pair has a backslash in its middle
_SLACK = 64  # characters, so that an escape that was cut is outside the relevant part
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH, _LOW = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}"
_BEGUN = "(?:u[0-9a-fA-F]{0,3})?"  # of an escape, the part that precedes its completion
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
    """A text with one layer of escapes decoded. An incomplete escape at its end is omitted.

    `whole` is the position in the original text at which that escape begins, or the end of the text.
    """

    __slots__ = ("_inner", "_outer", "text", "whole")

    def __init__(self, escaped: str) -> None:
        parts: list[str] = []
        self._inner, self._outer = [0], [0]  # positions after escapes: in the text, and in the decoded text
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
        """Return the position in the original text."""
        last = bisect_right(self._inner, inner) - 1
        return min(self._outer[last] + inner - self._inner[last], self.whole)


def layers(text: str) -> Iterator[tuple[str, Callable[[int], int]]]:
    """Yield the text with one layer of escapes decoded, then with two, and so on.

    Each is returned with a function that maps its positions to positions in the original text.
    """
    decoded: list[Unescaped] = []

    def place(inner: int) -> int:
        for each in reversed(decoded):
            inner = each.place(inner)
        return inner

    while "\\" in text and len(decoded) < _LAYERS:
        decoded.append(Unescaped(text))
        if decoded[-1].text == text:
            return
        text = decoded[-1].text
        yield text, place


def recent(text: str, length: int) -> int:
    """Return a position at least `length` before the end that does not split an escape (except of JSON within JSON)."""
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


_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')


def clean_strings(text: str, clean: Callable[[JSON], JSON]) -> str | None:
    """Return the JSON text of an object or list with all strings and numbers cleaned, or None for other text.

    `clean` is called for each of them. If two keys become equal, the whole value is cleaned again, with distinct keys.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = _read(text)
        cleaned_text = _SCALAR.sub(lambda match: _scalar(match[0], clean), text)
        cleaned = clean(value)
        # Replacing texts in place keeps the formatting, but fails if keys become equal.
        return cleaned_text if _read(cleaned_text) == cleaned else dumps_unescaped(cleaned)
    except (ValueError, RecursionError, InvalidJSON):
        return None


def _scalar(text: str, clean: Callable[[JSON], JSON]) -> str:
    value: JSON = json.loads(text)
    new = clean(value)
    return text if new == value else dumps_unescaped(new)


def _read(text: str) -> JSON:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> JSON:
    raise ValueError(f"{constant} is not JSON")


_SEED = 8  # characters used to search for the beginning of a secret
_TRIES = 16  # failed attempts after which every character is compared


def open_end(text: str, secret: str) -> int:
    """Return the length of the longest suffix of the text that is a proper prefix of the secret."""
    tail = text[max(0, len(text) - len(secret) + 1) :]
    place = tail.find(secret[:_SEED])
    for _ in range(_TRIES):
        if place < 0:
            return _short_end(tail, secret)
        if secret.startswith(tail[place:]):
            return len(tail) - place
        place = tail.find(secret[:_SEED], place + 1)
    return _counted(tail, secret)


def _short_end(tail: str, secret: str) -> int:
    """Return `open_end` for a tail that is shorter than the seed."""
    for length in range(min(_SEED - 1, len(tail)), 0, -1):
        if tail.endswith(secret[:length]):
            return length
    return 0


def _counted(tail: str, secret: str) -> int:
    """Return `open_end` by comparing characters, in linear time (Knuth, Morris and Pratt)."""
    both = [*secret, None, *tail]
    ends = [0]  # for each position, the length of the prefix that ends there
    for each in both[1:]:
        length = ends[-1]
        while length and both[length] != each:
            length = ends[length - 1]
        ends.append(length + (both[length] == each))
    return ends[-1]


LONG = 8  # characters from which on a secret is found within other text
_SPELLED = 12  # maximum characters with which JSON within JSON can escape one character
_WORD = re.compile(r"\w")
_RESPELLED = re.compile('["\\\\\x00-\x1f]')  # characters that JSON must escape

Hit: TypeAlias = tuple[int, int, str]
"""Start and end of a secret in a text, and its name."""


class Redactor:
    """Replaces the values of secrets by `[redacted:NAME]`. Without secrets it returns its input."""

    __slots__ = ("_long", "_longest", "_respelled", "_short", "_shortest", "secrets")

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self.secrets = frozenset((name, value) for name, value in secrets if value.strip())
        self._long: dict[str, str] = {}
        self._short: dict[str, str] = {}
        for name, value in sorted(self.secrets):
            if len(value) < LONG:
                self._short.setdefault(value, name)
                continue
            for form in encodings(value):
                self._long.setdefault(form, name)
        least = LONG + len(CUT)  # the beginning of a long secret where a text was cut
        self._shortest = min(
            [*map(len, self._short), *[min(len(form), least) for form in self._long]], default=0
        )
        self._longest = max(map(len, (*self._short, *self._long)), default=0)
        self._respelled = bool(self._short) or any(_RESPELLED.search(value) for _, value in self.secrets)

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def with_secrets(self, secrets: Iterable[tuple[str, str]]) -> "Redactor":
        """Return a redactor that also knows these secrets, or the same one if it knows them already."""
        more = self.secrets.union(secrets)
        return self if more == self.secrets else Redactor(more)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        hits = self._hits(text) if self.secrets else None
        return _without(text, hits) if hits else text

    def document(self, text: str) -> str:
        """Return the text without secrets. A JSON object or list stays valid JSON, with its numbers and literals."""
        hits = self._hits(text) if self.secrets else None
        if not hits:
            return text
        clean = clean_strings(text, self.json)
        return _without(text, hits) if clean is None else clean

    def attachment(self, part: Attachment | AttachmentRef) -> Attachment | AttachmentRef:
        """Return a file with its description redacted. Its bytes are not changed."""
        return self.new_file(part) if isinstance(part, Attachment) else self._reference(part)

    def new_file(self, file: Attachment) -> Attachment:
        """Return a new file with its name and type redacted."""
        return changed(file, name=self.text(file.name), mime_type=self.text(file.mime_type))

    def _reference(self, ref: AttachmentRef) -> AttachmentRef:
        return changed(ref, name=self.text(ref.name), description=self.optional(ref.description))

    def so_far(self, text: str) -> tuple[str, int]:
        """Return the part of a growing text that can be shown without secrets, and the number of characters held back.

        The returned part is a prefix of all later ones, regardless of how the text continues.
        """
        cut = self._open_start(text, 0)
        pieces: list[str] = []
        done = 0
        for start, end, name in self._hits(text):
            if start >= cut:
                break
            if end > cut:  # a complete secret ends there, so the part before it starts no other
                cut = self._open_start(text, end)
            pieces += (text[done:start], f"[redacted:{name}]")
            done = end
        return "".join((*pieces, text[done:cut])), len(text) - cut

    def _hits(self, text: str) -> list[Hit]:
        """Return the positions of secrets in the text, in order, excluding secrets within another one."""
        hits = self._as_they_are(text)
        if "\\" not in text or not (self._respelled or "\\u" in text or "\\/" in text):
            return hits
        for plain, place in layers(text):
            hits += [(place(start), place(end), name) for start, end, name in self._as_they_are(plain)]
        return _apart(hits)

    def _as_they_are(self, text: str) -> list[Hit]:
        search = self._search(text)
        if search is None:
            return []
        pattern, names = search
        return [(*hit.span(), names[hit[0]]) for hit in pattern.finditer(text)]

    def _search(self, text: str) -> tuple[re.Pattern[str], dict[str, str]] | None:
        """Return a pattern of the forms in the text, and the secret of each form, or None if there are none."""
        if len(text) < self._shortest:
            return None
        hits = {form: name for form, name in self._long.items() if form in text}
        short_forms = {form: name for form, name in self._short.items() if form in text}
        prefixes = self._cut_off(text) if CUT in text else {}
        if not hits and not short_forms and not prefixes:
            return None
        return re.compile("|".join(_alternatives(hits, short_forms, prefixes))), {
            **prefixes,
            **short_forms,
            **hits,
        }

    def _cut_off(self, text: str) -> dict[str, str]:
        """Return the prefixes of secrets at which the text was cut off."""
        prefixes: dict[str, str] = {}
        likely = [(form, name) for form, name in self._long.items() if form[:LONG] in text]
        *cut, _ = text.split(CUT) if likely else ("",)
        for before in cut:
            for form, name in likely:
                length = open_end(before, form)
                if length >= LONG:
                    prefixes.setdefault(form[:length], name)
        return prefixes

    def optional(self, text: str | None) -> str | None:
        """Return the text without secrets, or None."""
        return None if text is None else self.text(text)

    def json(self, value: JSON) -> JSON:
        """Return the value with redacted strings and keys, or the same object if nothing changed."""
        if isinstance(value, str):
            return self.document(value)
        if isinstance(value, dict):
            return self.object(value)
        if isinstance(value, list):
            items = [self.json(item) for item in value]
            return value if all(map(_same, items, value)) else items
        if value is None or isinstance(value, bool) or not self._long:
            return value
        name = self._long.get(repr(value))  # a long number can be a secret; a short number is not redacted
        return value if name is None else f"[redacted:{name}]"

    def object(self, value: JSONObject) -> JSONObject:
        """Return the object without secrets. If two keys become equal, the later key is numbered."""
        items = {name: self.json(item) for name, item in value.items()}
        keys = {name: self.text(name) for name in value}
        if all(_same(items[name], item) and keys[name] == name for name, item in value.items()):
            return value
        clean: JSONObject = {}
        for name, key in keys.items():
            number, free = 2, key
            while free in clean:
                free, number = f"{key}-{number}", number + 1
            clean[free] = items[name]
        return clean

    def result(self, result: ToolResult) -> ToolResult:
        """Return a tool's result without secrets. The bytes of files are not changed."""
        if not self.secrets:
            return result
        more = result.error_data
        return changed(
            result,
            result=self.json(result.result),
            error=None if result.error is None else self.text(result.error),
            stack=None if result.stack is None else self.text(result.stack),
            error_code=None if result.error_code is None else self.text(result.error_code),
            error_data=None if more is None else self.object(more),
            attachments=tuple([self.attachment(each) for each in result.attachments]),
        )

    def _open_start(self, text: str, since: int) -> int:
        """Return the earliest position, not before `since`, from which the text could be the start of a secret."""
        tail = text[since:]
        place = len(tail) - self._open_end(tail)
        if "\\" in tail:
            start = recent(tail, self._longest * _SPELLED)
            for plain, outer in layers(tail[start:]):
                place = min(place, start + outer(len(plain) - self._open_end(plain)))
        return since + place

    def _open_end(self, text: str) -> int:
        """Return the number of characters at the end of a text that could start a secret, or a secret that was cut."""
        longest = max([open_end(text, form) for form in (*self._long, *self._short)], default=0)
        longest = max([longest, *[len(form) for form in self._short if text.endswith(form)]])
        for prefix_length in range(1, len(CUT)):
            if text.endswith(CUT[:prefix_length]):
                ends = [open_end(text[:-prefix_length], form) for form in self._long]
                longest = max([longest, *[prefix_length + length for length in ends if length >= LONG]])
        return longest


NOTHING = Redactor()
"""A redactor without secrets."""


def _without(text: str, hits: Iterable[Hit]) -> str:
    parts: list[str] = []
    done = 0
    for start, end, name in hits:
        parts += (text[done:start], f"[redacted:{name}]")
        done = end
    return "".join((*parts, text[done:]))


def _apart(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits in order, without overlaps: the longest of the hits with the same start."""
    apart: list[Hit] = []
    done = 0
    for hit in sorted(hits, key=lambda hit: (hit[0], -hit[1])):
        if hit[0] >= done:
            apart.append(hit)
            done = hit[1]
    return apart


def _same(new: object, old: object) -> bool:
    return new is old or (isinstance(new, str) and new == old)


def _alternatives(
    hits: Mapping[str, str], short_forms: Mapping[str, str], prefixes: Mapping[str, str]
) -> Iterator[str]:
    """Yield regular expressions of the forms, longest first, so that no part of a longer form remains."""
    for form in sorted({*hits, *short_forms, *prefixes}, key=len, reverse=True):
        escaped = re.escape(form)
        if form in hits:
            yield escaped
            continue
        if form in prefixes:
            yield f"{escaped}(?={re.escape(CUT)})"
            continue
        before = r"(?<!\w)" if _WORD.match(form[0]) else ""
        after = r"(?!\w)" if _WORD.match(form[-1]) else ""
        yield f"{before}{escaped}{after}"
