"""Executor of HTTP tools: a call becomes one request, its response the result (D13)."""

import asyncio
import codecs
import re
import ssl
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from email.message import Message
from functools import partial
from http import HTTPStatus

import httpcore2
import httpx2

from toolwright.adapters.executors.request import (
    AllowedNetwork,
    Exchange,
    HttpFailure,
    OutgoingRequest,
    ToolResponse,
    ask_of,
    pool,
    resolve,
)
from toolwright.adapters.system import check_certificates
from toolwright.core.errors import InvalidRequest
from toolwright.core.files import clean_mime_type, safe_name
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.json_text import NotJson, TooManyValues, parse_json
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ATTACHMENT, MAX_HTTP_ANSWER, MAX_JSON_VALUES
from toolwright.core.results import (
    Attachment,
    AttachmentRef,
    ImageContent,
    ToolResult,
    as_result,
    attached_text,
    media_name,
)
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief, quantity, sentence
from toolwright.core.tools.http.addresses import Allowed, Resolve, anywhere, public_or
from toolwright.core.tools.http.execution import (
    FileContent,
    HttpExecution,
    HttpRequest,
    read_fields,
    request_for,
    trimmed,
)
from toolwright.core.tools.http.url_template import Unfillable
from toolwright.core.tools.pipeline import PreparedCall, missing_variables_error

_HEAD_FIELDS = ("content-type", "content-length", "last-modified", "etag")
MAX_ERROR_BODY = 2_048  # bytes of a body that an error result shows
_JSON = re.compile(r"(application|text)/(json|[\w.+-]+\+json)")
_TEXT = re.compile(
    r"text/.*|application/(xml|[\w.+-]+\+xml|yaml|x-yaml|javascript|x-www-form-urlencoded|x-ndjson)"
)
_FILE = re.compile(
    r"(audio|video|font)/.*|application/(pdf|zip|gzip|x-tar|x-7z-compressed|msword|vnd\.(ms-|openxmlformats).*)"
)
"""Types of answers that are files, also if their bytes can be read as text."""
_CHARSETS = re.compile(
    r"utf-8(-sig)?|utf-(16|32)(-[lb]e)?|ascii|iso8859-\d+|cp\d+|shift_jis|euc_\w+|gb\w+|big5|koi8-[ru]"
)
# bytes of an answer that are parsed within a millisecond; larger answers are parsed in a thread
_LARGE = 64 * 1024


def result_of(answer: ToolResponse, most: int, values: int, fields: Sequence[str] = ()) -> ToolResult:
    """Return the result of a call. A JSON result is trimmed to the given fields; an answer without text is a file.

    Raises `HttpFailure` for an unreadable answer.
    """
    if not 200 <= answer.status < 300:
        return _error(answer, most)
    if answer.method == "HEAD":
        headers: JSONObject = {name: answer.headers[name] for name in _HEAD_FIELDS if name in answer.headers}
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
    text = None if _FILE.fullmatch(kind) else _text(content, kind, charset)
    if text is None:
        mime_type = clean_mime_type(kind)
        file = Attachment(name=_file_name(answer, mime_type), mime_type=mime_type, data=content)
        return ToolResult.ok(attached_text([file]), (file,))
    if kind and not _JSON.fullmatch(kind):
        return ToolResult.ok(text)
    return ToolResult.ok(trimmed(_value(text, values), read_fields(fields)))


def _error(answer: ToolResponse, most: int) -> ToolResult:
    try:
        kind, charset = _content_type(answer)
        text = (
            (_text(unpacked(answer, most), kind, charset) or "").strip()
            if answer.whole or not _encoding(answer)
            else ""
        )
    except HttpFailure:
        text = ""
    shown_body = text.encode("utf-8", "replace")[:MAX_ERROR_BODY].decode("utf-8", "ignore")
    status_line = f"HTTP {answer.status}{_phrase(answer.status)}"
    return ToolResult.fail(
        f"{status_line}: {brief(text, len(shown_body))}" if text else status_line,
        error_code="http_error",
        error_data={"status": answer.status},
    )


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _value(text: str, values: int) -> JSON:
    """Parse the text as JSON. Returns the text itself if it is not JSON or cannot be stored."""
    try:
        return parse_json(text, values=values)
    except TooManyValues as error:
        raise HttpFailure("http_too_large", sentence(f"The service's answer is too large: {error}")) from None
    except NotJson:
        return text


def _text(content: bytes, kind: str, charset: str) -> str | None:
    """Return the content as text, or None if it is not text."""
    if _JSON.fullmatch(kind) or _TEXT.fullmatch(kind) or charset:
        return content.decode(_codec(charset), "replace").removeprefix("\ufeff")
    try:
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def _content_type(answer: ToolResponse) -> tuple[str, str]:
    message = Message()
    message["content-type"] = answer.headers.get("content-type", "").replace("\n", " ").replace("\r", " ")
    content_type = answer.headers.get("content-type", "").strip()
    charset = message.get_param("charset") if content_type else None
    return content_type.partition(";")[0].strip().lower(), charset if isinstance(charset, str) else ""


def _file_name(answer: ToolResponse, kind: str) -> str:
    """Return the name of an answer that is a file: the one that the service gives it, or one for its type."""
    message = Message()
    disposition = answer.headers.get("content-disposition", "").replace("\n", " ").replace("\r", " ")
    message["content-disposition"] = disposition
    name = message.get_filename() if disposition.strip() else None
    return safe_name(name) if name and name.strip() else media_name(kind, kind="file")


def _codec(charset: str) -> str:
    """Return a text codec used on the web. Python's other codecs are not allowed."""
    try:
        name = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if _CHARSETS.fullmatch(name) else "utf-8"


def _encoding(answer: ToolResponse) -> str:
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def unpacked(answer: ToolResponse, most: int) -> bytes:
    """Return the decompressed content, up to the limit."""
    encoding = _encoding(answer)
    if not encoding or not answer.content:
        return answer.content
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpFailure(
            "http_unreadable", "The service's answer has a content encoding that was not requested."
        )
    unpacking = zlib.decompressobj(wbits=47)  # gzip or zlib, detected by its header
    try:
        content = unpacking.decompress(answer.content, most + 1)
    except zlib.error as error:
        raise HttpFailure("http_unreadable", "The service's answer cannot be decompressed.") from error
    if len(content) > most:
        raise _too_large(most)
    if not unpacking.eof:
        raise HttpFailure(
            "http_unreadable", "The service's answer cannot be decompressed: its end is missing."
        )
    return content


def _too_large(most: int) -> HttpFailure:
    return HttpFailure("http_too_large", f"The service's answer is larger than {quantity(most, 'byte')}.")


class HttpExecutor:
    """Executes calls over HTTP. Any failure becomes an error result.

    `allow` are non-public hosts, hosts with a port and networks that are allowed. `resolve`, `network` and `tls` are
    replaced in tests. Requests carry the trace context that `telemetry` provides. Connections are kept alive briefly;
    `aclose` closes them.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        max_answer: int = MAX_HTTP_ANSWER,
        max_values: int = MAX_JSON_VALUES,
        resolve: Resolve = resolve,
        network: httpcore2.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._max_answer = max_answer
        self._max_values = max_values
        self._exchange = open_exchange(
            allow=allow, most=max_answer, resolve=resolve, network=network, tls=tls
        )

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> ToolResult:
        """Return the result of the call's request."""
        tool = prepared.tool
        if tool.execution is None:
            return ToolResult.fail(f"Tool {tool.name!r} has no URL to call.", error_code="no_executor")
        env = await _variables(tool.execution, state)
        missing = [name for name, text in env.items() if text is None]
        if missing:
            return missing_variables_error(tool.name, missing)
        values = {name: text for name, text in env.items() if text is not None}
        try:
            files = await _files(tool.execution.file_paths(prepared.arguments, tool.parameters), state)
            request = request_for(tool.execution, prepared.arguments, values, tool.parameters, files)
            answer = await self._answer(tool.execution, request, state.call_id)
            read = partial(result_of, answer, self._max_answer, self._max_values, tool.execution.fields)
            return await asyncio.to_thread(read) if len(answer.content) > _LARGE else read()
        except Unfillable as error:
            return ToolResult.fail(str(error), error_code="invalid_arguments")
        except HttpFailure as failure:
            return ToolResult.fail(failure.message, error_code=failure.code)

    async def _answer(self, execution: HttpExecution, request: HttpRequest, call_id: str) -> ToolResponse:
        if self._telemetry is None:
            return await self._exchange(_ask(request, call_id), execution.trusted)
        with self._telemetry.request(request.method, _template(execution.url)) as span:
            answer = await self._exchange(_ask(request, call_id, span.headers), execution.trusted)
            span.answered(answer.status)
            return answer

    async def aclose(self) -> None:
        """Close all connections."""
        await self._exchange.aclose()


def open_exchange(
    *,
    allow: Iterable[str],
    most: int,
    resolve: Resolve = resolve,
    network: httpcore2.AsyncNetworkBackend | None = None,
    tls: ssl.SSLContext | None = None,
) -> Exchange:
    """Open connection pools for requests with answers of limited size. `aclose` closes them.

    Raises `DefinitionError` if the trusted certificates cannot be read.
    """
    if tls is None:
        check_certificates()
    context = tls or httpx2.create_ssl_context()
    return Exchange(
        pool(AllowedNetwork(resolve, anywhere, network), context),
        pool(AllowedNetwork(resolve, public_or(Allowed.read(allow)), network), context),
        most,
    )


def _ask(request: HttpRequest, call_id: str, traced: Sequence[tuple[str, str]] = ()) -> OutgoingRequest:
    """Return the call's request with default headers, which the tool's own headers override."""
    ours = (
        ("Accept", "application/json"),
        ("Accept-Encoding", "gzip, deflate"),
        ("User-Agent", "toolwright"),
        ("Idempotency-Key", call_id),
        *traced,
    )
    return ask_of(request, ours, call_id)


def _template(url: str) -> str:
    """Return the tool's URL with its placeholders, without its password and query, which can be secret."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


async def _files(paths: Sequence[str], state: ThreadState) -> dict[str, FileContent]:
    """Return the files of the thread that a request sends.

    Raises `HttpFailure` if a file does not exist or there are too many.
    """
    refs: dict[str, AttachmentRef] = {}
    for path in paths:
        try:
            ref = await state.stat_file(path)
        except InvalidRequest as error:
            raise HttpFailure("invalid_arguments", error.message) from error
        if ref is None:
            raise HttpFailure("file_not_found", f"There is no file {brief(repr(path), 200)} in this thread.")
        refs[path] = ref
    if sum(ref.size or 0 for ref in refs.values()) > MAX_ATTACHMENT:
        raise HttpFailure(
            "too_large", f"The files of one request must have at most {quantity(MAX_ATTACHMENT, 'byte')}."
        )
    return {
        path: FileContent(name=ref.name, mime_type=ref.mime_type, content=await state.read_file(path))
        for path, ref in refs.items()
    }


async def _variables(execution: HttpExecution, state: ThreadState) -> dict[str, str | None]:
    return {name: await state.env(name) for name in execution.variables}
