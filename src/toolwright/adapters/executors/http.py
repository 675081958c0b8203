"""The executor of HTTP tools: a call becomes one request, its answer the result (D13)."""

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from functools import partial

import httpcore
import httpx

from toolwright.adapters.executors.connection import Dialer, pool, resolve
from toolwright.adapters.executors.request import Answer, Ask, Exchange, HttpFailure, ask_of
from toolwright.adapters.executors.response import result_of
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.limits import MAX_ATTACHMENT, MAX_HTTP_ANSWER, MAX_JSON_VALUES
from toolwright.core.results.content import AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief, quantity
from toolwright.core.tools.http.addresses import Allowed, Resolve, anywhere, public_or
from toolwright.core.tools.http.body import FileContent
from toolwright.core.tools.http.execution import HttpExecution, HttpRequest, request_for
from toolwright.core.tools.http.url_template import Unfillable
from toolwright.core.tools.pipeline import PreparedCall, lacks_variables

_LARGE = 64 * 1024  # bytes of an answer that are parsed in a millisecond; more of them leave the loop


class HttpExecutor:
    """Carries calls out over HTTP; a failure of any kind is an error result.

    `allow` are hosts, hosts with a port and networks that may be reached although they are not public. `resolve`,
    `network` and `tls` are the outside world, for tests. Requests carry the trace context that `telemetry` gives them.
    Connections are kept for a moment; `aclose` ends them.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        max_answer: int = MAX_HTTP_ANSWER,
        max_values: int = MAX_JSON_VALUES,
        resolve: Resolve = resolve,
        network: httpcore.AsyncNetworkBackend | None = None,
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
        """The result of the call's request."""
        tool = prepared.tool
        if tool.execution is None:
            return ToolResult.fail(f"Tool {tool.name!r} has no URL to call.", error_code="no_executor")
        env = await _variables(tool.execution, state)
        missing = [name for name, text in env.items() if text is None]
        if missing:
            return lacks_variables(tool.name, missing)
        known = {name: text for name, text in env.items() if text is not None}
        try:
            files = await _files(tool.execution.file_paths(prepared.arguments, tool.parameters), state)
            request = request_for(tool.execution, prepared.arguments, known, tool.parameters, files)
            answer = await self._answer(tool.execution, request, state.call_id)
            read = partial(result_of, answer, self._max_answer, self._max_values, tool.execution.fields)
            return await asyncio.to_thread(read) if len(answer.content) > _LARGE else read()
        except Unfillable as error:
            return ToolResult.fail(str(error), error_code="invalid_arguments")
        except HttpFailure as failure:
            return ToolResult.fail(failure.message, error_code=failure.code)

    async def _answer(self, execution: HttpExecution, request: HttpRequest, call_id: str) -> Answer:
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
    network: httpcore.AsyncNetworkBackend | None = None,
    tls: ssl.SSLContext | None = None,
) -> Exchange:
    """Pools of connections for requests whose answers have so many bytes at most; `aclose` ends them."""
    inner: httpcore.AsyncNetworkBackend = network or httpcore.AnyIOBackend()  # type: ignore[assignment]  # typed as if anyio were not there
    context = tls or httpx.create_ssl_context()
    return Exchange(
        pool(Dialer(resolve, anywhere, inner), context),
        pool(Dialer(resolve, public_or(Allowed.read(allow)), inner), context),
        most,
    )


def _ask(request: HttpRequest, call_id: str, traced: Sequence[tuple[str, str]] = ()) -> Ask:
    """The call's request with headers of ours, which the tool's own replace."""
    ours = (
        ("Accept", "application/json"),
        ("Accept-Encoding", "gzip, deflate"),
        ("User-Agent", "toolwright"),
        ("Idempotency-Key", call_id),
        *traced,
    )
    return ask_of(request, ours, call_id)


def _template(url: str) -> str:
    """The tool's URL with its places unfilled, without what may be a secret in it: password and query."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


async def _files(paths: Sequence[str], state: ThreadState) -> dict[str, FileContent]:
    """The files of the thread that a request sends. Raises `HttpFailure` for one that is not there, or for too many."""
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
            "too_large", f"The files of one request may have {quantity(MAX_ATTACHMENT, 'byte')} at most."
        )
    return {
        path: FileContent(name=ref.name, mime_type=ref.mime_type, content=await state.read_file(path))
        for path, ref in refs.items()
    }


async def _variables(execution: HttpExecution, state: ThreadState) -> dict[str, str | None]:
    return {name: await state.env(name) for name in execution.variables}
