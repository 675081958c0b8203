"""Taking secrets out of text before it is recorded, shown or sent to a model (D6).

A secret of 8 characters or more is found wherever it stands: as it is, within a JSON string, also of JSON within
JSON, percent- and form-encoded, as Python spells it, misread as Latin-1 or answered in it, and from 12 characters in
base64 at every alignment. A shorter one counts only as a whole word. Where a text was cut by `brief`, the beginning
of a secret is taken for the whole.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import quote, quote_plus

from toolwright.core.brief import CUT
from toolwright.core.content import Attachment, AttachmentRef
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.open_end import open_end
from toolwright.core.result import ToolResult
from toolwright.core.value import changed

LONG = 8  # characters from which a secret is found within other text
ENCODED = 12  # characters from which its base64 is looked for
_LOST, _LEGIBLE = "\ufffd", 4  # characters that must be left of a text for it to be worth a search
_WORD = re.compile(r"\w")


class Redactor:
    """Replaces the values of secrets by `[redacted:NAME]`. One without secrets costs nothing."""

    __slots__ = ("_long", "_short", "_shortest", "secrets")

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self.secrets = frozenset((name, value) for name, value in secrets if value.strip())
        self._long: dict[str, str] = {}
        self._short: dict[str, str] = {}
        for name, value in sorted(self.secrets):
            if len(value) < LONG:
                self._short.setdefault(value, name)
                continue
            for form in _forms(value):
                self._long.setdefault(form, name)
        least = LONG + len(CUT)  # the beginning of a long one, where a text was cut
        self._shortest = min(
            [*map(len, self._short), *[min(len(form), least) for form in self._long]], default=0
        )

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def with_secrets(self, secrets: Iterable[tuple[str, str]]) -> "Redactor":
        """One that knows these too; the same one if it knows them already."""
        more = self.secrets.union(secrets)
        return self if more == self.secrets else Redactor(more)

    def text(self, text: str) -> str:
        """The text without secrets."""
        if not self.secrets:
            return text
        found = self._search(text)
        return text if found is None else found[0].sub(lambda hit: f"[redacted:{found[1][hit[0]]}]", text)

    def attachment(self, given: Attachment | AttachmentRef) -> Attachment | AttachmentRef:
        """A file without secrets in what is told of it; its bytes are left alone."""
        return self.new_file(given) if isinstance(given, Attachment) else self._reference(given)

    def new_file(self, given: Attachment) -> Attachment:
        """The same for a new one."""
        return changed(given, name=self.text(given.name), mime_type=self.text(given.mime_type))

    def _reference(self, given: AttachmentRef) -> AttachmentRef:
        return changed(given, name=self.text(given.name), description=self.optional(given.description))

    def so_far(self, text: str) -> tuple[str, int]:
        """Of a text that still grows, what can be shown of it without secrets; and how much was held back.

        However it goes on, what is shown now is the beginning of what will be shown then.
        """
        cut = len(text) - self._open_end(text)
        found = self._search(text)
        if found is None:
            return text[:cut], len(text) - cut
        shown: list[str] = []
        done = 0
        for hit in found[0].finditer(text):
            if hit.start() >= cut:
                break
            if hit.end() > cut:  # what begins within a secret that is whole begins no other
                cut = len(text) - self._open_end(text[hit.end() :])
            shown += (text[done : hit.start()], f"[redacted:{found[1][hit[0]]}]")
            done = hit.end()
        return "".join((*shown, text[done:cut])), len(text) - cut

    def _search(self, text: str) -> tuple[re.Pattern[str], dict[str, str]] | None:
        """A pattern of the forms that are in the text, and whose they are; None where there are none."""
        if len(text) < self._shortest:
            return None
        hits = {form: name for form, name in self._long.items() if form in text}
        words = {form: name for form, name in self._short.items() if form in text}
        begun = self._cut_off(text) if CUT in text else {}
        if not hits and not words and not begun:
            return None
        return re.compile("|".join(_alternatives(hits, words, begun))), {**begun, **words, **hits}

    def _cut_off(self, text: str) -> dict[str, str]:
        """The beginnings of secrets that stand where the text was cut."""
        begun: dict[str, str] = {}
        likely = [(form, name) for form, name in self._long.items() if form[:LONG] in text]
        *cut, _ = text.split(CUT) if likely else ("",)
        for before in cut:
            for form, name in likely:
                length = open_end(before, form)
                if length >= LONG:
                    begun.setdefault(form[:length], name)
        return begun

    def optional(self, text: str | None) -> str | None:
        """The text without secrets, if there is one."""
        return None if text is None else self.text(text)

    def json(self, value: JSON) -> JSON:
        """The value with its strings and keys without secrets; the same object where there was nothing to do."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self.object(value)
        if isinstance(value, list):
            items = [self.json(item) for item in value]
            return value if all(map(_same, items, value)) else items
        if value is None or isinstance(value, bool) or not self._long:
            return value
        name = self._long.get(repr(value))  # a long number can be a secret; a short one is left alone
        return value if name is None else f"[redacted:{name}]"

    def object(self, value: JSONObject) -> JSONObject:
        """The same for an object. Of two keys that become equal, both stay: the later one is numbered."""
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
        """A tool's result without secrets; the bytes of files are left alone."""
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

    def _open_end(self, text: str) -> int:
        """How many characters at the end of a text could be the start of a secret, or of one that was cut."""
        longest = max([open_end(text, form) for form in (*self._long, *self._short)], default=0)
        longest = max([longest, *[len(form) for form in self._short if text.endswith(form)]])
        for begun in range(1, len(CUT)):
            if text.endswith(CUT[:begun]):
                ends = [open_end(text[:-begun], form) for form in self._long]
                longest = max([longest, *[begun + length for length in ends if length >= LONG]])
        return longest


NOTHING = Redactor()
"""Knows no secrets."""


def _same(new: object, old: object) -> bool:
    return new is old or (isinstance(new, str) and new == old)


def _alternatives(
    hits: Mapping[str, str], words: Mapping[str, str], begun: Mapping[str, str]
) -> Iterator[str]:
    """Regular expressions, the longest form first, so that nothing is left of one that holds another."""
    for form in sorted({*hits, *words, *begun}, key=len, reverse=True):
        escaped = re.escape(form)
        if form in hits:
            yield escaped
            continue
        if form in begun:
            yield f"{escaped}(?={re.escape(CUT)})"
            continue
        before = r"(?<!\w)" if _WORD.match(form[0]) else ""
        after = r"(?!\w)" if _WORD.match(form[-1]) else ""
        yield f"{before}{escaped}{after}"


def _forms(value: str) -> Iterator[str]:
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
