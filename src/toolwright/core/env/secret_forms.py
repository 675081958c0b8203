"""Forms in which a secret may stand in a text: as it is, in JSON, percent-encoded, in base64 and misread (D6)."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote, quote_plus

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
        if len(value) >= ENCODED:
            yield from _base64_forms(sent)


def _as_bytes(value: str) -> Iterator[bytes]:
    """The bytes of a text, also those of a service that knows no UTF-8."""
    yield value.encode()
    if not value.isascii():
        with suppress(UnicodeEncodeError):
            yield value.encode("latin-1")


def _misread(value: str) -> Iterator[str]:
    """What becomes of a text in the hands of a service that reads UTF-8 as Latin-1, as most read headers, or that
    answers in Latin-1 without a word, where every letter that is not ASCII is lost."""
    for sent in () if value.isascii() else _as_bytes(value):
        for encoding in ("latin-1", "utf-8", "ascii"):
            text = sent.decode(encoding, "replace")
            if text != value and len(text.replace(_LOST, "")) >= _LEGIBLE:
                yield text


def _base64_forms(value: bytes) -> Iterator[str]:
    """What a secret looks like within the base64 of something longer: it may begin at any of three places."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + value).decode()
        first = (0, 2, 3)[before]  # the characters before depend on what stands before the secret
        last = (before + len(value)) * 8 // 6  # and the rest on what stands behind it
        core = text[first:last]
        yield core
        yield core.replace("+", "-").replace("/", "_")
