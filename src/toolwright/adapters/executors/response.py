"""Tool results of HTTP answers: JSON, text, an image, or an error (D13)."""

import codecs
import re
import zlib
from base64 import b64encode
from collections.abc import Sequence
from email.message import Message
from http import HTTPStatus

from toolwright.adapters.executors.request import Answer, HttpFailure
from toolwright.core.json_text import NotJson, TooManyValues, parse_json
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import ImageContent
from toolwright.core.results.result import ToolResult
from toolwright.core.results.returned import as_result
from toolwright.core.text import brief, quantity, sentence
from toolwright.core.tools.http.fields import read_fields, trimmed

_OF_A_HEAD = ("content-type", "content-length", "last-modified", "etag")
MOST_OF_AN_ERROR = 2_048  # bytes of a body that an error result shows
_JSON = re.compile(r"(application|text)/(json|[\w.+-]+\+json)")
_TEXT = re.compile(
    r"text/.*|application/(xml|[\w.+-]+\+xml|yaml|x-yaml|javascript|x-www-form-urlencoded|x-ndjson)"
)
_CHARSETS = re.compile(
    r"utf-8(-sig)?|utf-(16|32)(-[lb]e)?|ascii|iso8859-\d+|cp\d+|shift_jis|euc_\w+|gb\w+|big5|koi8-[ru]"
)


def result_of(answer: Answer, most: int, values: int, fields: Sequence[str] = ()) -> ToolResult:
    """The result of a call, of JSON these fields alone. Raises `HttpFailure` for an answer that nobody can read."""
    if not 200 <= answer.status < 300:
        return _error(answer, most)
    if answer.method == "HEAD":
        headers: JSONObject = {name: answer.headers[name] for name in _OF_A_HEAD if name in answer.headers}
        return ToolResult.ok({"status": answer.status, "headers": headers})
    if answer.status in (204, 205):
        return ToolResult.ok()
    if not answer.whole:
        raise _too_large(most)
    content = unpacked(answer, most)
    kind, charset = _content_type(answer)
    if not content:
        return ToolResult.ok()
    if kind.startswith("image/"):
        return as_result(ImageContent(data=b64encode(content).decode(), mime_type=kind))
    text = _text(content, kind, charset)
    if text is None:
        shown = brief(repr(kind), 100) if kind else "no content type"
        raise HttpFailure(
            "http_binary", f"The service answered with what is neither text nor an image ({shown})."
        )
    if kind and not _JSON.fullmatch(kind):
        return ToolResult.ok(text)
    return ToolResult.ok(trimmed(_value(text, values), read_fields(fields)))


def _error(answer: Answer, most: int) -> ToolResult:
    try:
        kind, charset = _content_type(answer)
        text = (
            (_text(unpacked(answer, most), kind, charset) or "").strip()
            if answer.whole or not _encoding(answer)
            else ""
        )
    except HttpFailure:
        text = ""
    shown = text.encode("utf-8", "replace")[:MOST_OF_AN_ERROR].decode("utf-8", "ignore")
    said = f"HTTP {answer.status}{_phrase(answer.status)}"
    return ToolResult.fail(
        f"{said}: {brief(text, len(shown))}" if text else said,
        error_code="http_error",
        error_data={"status": answer.status},
    )


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _value(text: str, values: int) -> JSON:
    """The JSON that a text is; the text where it is none, or none that can be kept."""
    try:
        return parse_json(text, values=values)
    except TooManyValues as error:
        raise HttpFailure("http_too_large", sentence(f"The service's answer is too large: {error}")) from None
    except NotJson:
        return text


def _text(content: bytes, kind: str, charset: str) -> str | None:
    """The content as text, None if it is none."""
    if _JSON.fullmatch(kind) or _TEXT.fullmatch(kind) or charset:
        return content.decode(_codec(charset), "replace").removeprefix("\ufeff")
    try:
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def _content_type(answer: Answer) -> tuple[str, str]:
    message = Message()
    message["content-type"] = answer.headers.get("content-type", "").replace("\n", " ").replace("\r", " ")
    given = answer.headers.get("content-type", "").strip()
    charset = message.get_param("charset") if given else None
    return given.partition(";")[0].strip().lower(), charset if isinstance(charset, str) else ""


def _codec(charset: str) -> str:
    """A codec of texts that are sent over the web; not one of the others that Python has."""
    try:
        name = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if _CHARSETS.fullmatch(name) else "utf-8"


def _encoding(answer: Answer) -> str:
    named = answer.headers.get("content-encoding", "").strip().lower()
    return "" if named == "identity" else named


def unpacked(answer: Answer, most: int) -> bytes:
    """The content unpacked, never more of it than the limit."""
    encoding = _encoding(answer)
    if not encoding or not answer.content:
        return answer.content
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpFailure(
            "http_unreadable", "The service's answer is packed in a way that was not asked for."
        )
    unpacking = zlib.decompressobj(wbits=47)  # either of the two, by its head
    try:
        content = unpacking.decompress(answer.content, most + 1)
    except zlib.error as error:
        raise HttpFailure("http_unreadable", "The service's answer cannot be unpacked.") from error
    if len(content) > most:
        raise _too_large(most)
    if not unpacking.eof:
        raise HttpFailure("http_unreadable", "The service's answer cannot be unpacked: its end is missing.")
    return content


def _too_large(most: int) -> HttpFailure:
    return HttpFailure("http_too_large", f"The service's answer is larger than {quantity(most, 'byte')}.")
