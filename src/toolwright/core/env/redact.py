"""Redaction: the values of secrets are removed from the outcome of a call before it is recorded (D6).

Only whole values are found. A secret of 8 or more characters is found anywhere: literally, escaped in a JSON string,
percent- and form-encoded, and from 12 characters on in base64 at every alignment. A shorter secret is found only as a
whole word. Texts that callers, people, models and apps write are never compared with secrets: a comparison whose
outcome can be seen tells the secret to the author of the text.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.results import Attachment, AttachmentRef, ToolResult
from toolwright.core.value import changed

LONG = 8  # characters from which on a secret is found within other text
ENCODED = 12  # characters from which on a secret is found in base64
_WORD = re.compile(r"\w")
_HEX = re.compile("%[0-9A-F]{2}")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')


def encodings(value: str) -> Iterator[str]:
    """Yield all forms in which a long secret is found."""
    sent = value.encode()
    yield value
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped)[1:-1]  # JSON within JSON, as tools often return it
    for encoded in (quote(sent), quote(sent, safe=""), quote_plus(sent)):
        yield encoded
        yield _HEX.sub(lambda match: match[0].lower(), encoded)
    if len(value) >= ENCODED:
        yield from _base64_forms(sent)


def _base64_forms(value: bytes) -> Iterator[str]:
    """Yield the forms of a secret within longer base64, in which it can begin at any of three alignments."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + value).decode()
        first = (0, 2, 3)[before]  # the first characters depend on the text before the secret
        last = (before + len(value)) * 8 // 6  # and the last ones on the text after the secret
        core = text[first:last]
        yield core
        yield core.replace("+", "-").replace("/", "_")


class Redactor:
    """Replaces the values of secrets by `[redacted:NAME]`. Without secrets it returns its input."""

    __slots__ = ("_names", "_patterns", "secrets")

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self.secrets = frozenset((name, value) for name, value in secrets if value.strip())
        self._names: dict[str, str] = {}
        for name, value in sorted(self.secrets):
            for form in (value,) if len(value) < LONG else encodings(value):
                self._names.setdefault(form, name)
        forms = sorted(self._names, key=len, reverse=True)  # so that no part of a longer form remains
        self._patterns = {form: _word(form) if len(form) < LONG else re.escape(form) for form in forms}

    def __bool__(self) -> bool:
        return bool(self.secrets)

    def with_secrets(self, secrets: Iterable[tuple[str, str]]) -> "Redactor":
        """Return a redactor that also knows these secrets, or the same one if it knows them already."""
        more = self.secrets.union(secrets)
        return self if more == self.secrets else Redactor(more)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        present = [pattern for form, pattern in self._patterns.items() if form in text]
        if not present:
            return text
        return re.sub("|".join(present), lambda match: f"[redacted:{self._names[match[0]]}]", text)

    def optional(self, text: str | None) -> str | None:
        """Return the text without secrets, or None."""
        return None if text is None else self.text(text)

    def json(self, value: JSON) -> JSON:
        """Return the value with redacted strings and keys, or the same object if nothing changed.

        A string that is the JSON of an object or list stays valid JSON.
        """
        if isinstance(value, str):
            return self._document(value)
        if isinstance(value, dict):
            return self.object(value)
        if isinstance(value, list):
            items = [self.json(item) for item in value]
            return value if all(map(_same, items, value)) else items
        if value is None or isinstance(value, bool):
            return value
        text = repr(value)  # a long number can be a secret; a short number is not redacted
        return value if len(text) < LONG or text not in self._names else f"[redacted:{self._names[text]}]"

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
            error=self.optional(result.error),
            stack=self.optional(result.stack),
            error_code=self.optional(result.error_code),
            error_data=None if more is None else self.object(more),
            attachments=tuple([self._attachment(each) for each in result.attachments]),
        )

    def _attachment(self, part: Attachment | AttachmentRef) -> Attachment | AttachmentRef:
        """Return a file with its description redacted. Its bytes are not changed."""
        if isinstance(part, Attachment):
            return changed(part, name=self.text(part.name), mime_type=self.text(part.mime_type))
        return changed(part, name=self.text(part.name), description=self.optional(part.description))

    def _document(self, text: str) -> str:
        """Return the text without secrets. In a JSON object or list any spelling of a string is found."""
        clean = self.text(text)
        if text.lstrip()[:1] not in ("{", "["):
            return clean
        try:
            value = _read(text)
            redacted = self.json(value)
            if redacted is value and clean == text:  # a duplicate key hides its first value
                return text
            # Replacing strings in place keeps all other text as it was, but fails if keys become equal.
            replaced = _SCALAR.sub(self._scalar, text)
            return replaced if _read(replaced) == redacted else dumps_unescaped(redacted)
        except (ValueError, RecursionError, InvalidJSON):
            return clean

    def _scalar(self, match: re.Match[str]) -> str:
        value: JSON = json.loads(match[0])
        redacted = self.json(value)
        return match[0] if redacted == value else dumps_unescaped(redacted)


NOTHING = Redactor()
"""A redactor without secrets."""


def _word(form: str) -> str:
    """Return the pattern of a short secret, which is found only as a whole word."""
    before = r"(?<!\w)" if _WORD.match(form[0]) else ""
    after = r"(?!\w)" if _WORD.match(form[-1]) else ""
    return f"{before}{re.escape(form)}{after}"


def _read(text: str) -> JSON:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> JSON:
    raise ValueError(f"{constant} is not JSON")


def _same(new: object, old: object) -> bool:
    return new is old or (isinstance(new, str) and new == old)
