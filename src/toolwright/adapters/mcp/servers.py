"""MCP servers of a runtime: their connections, prompts, resources and tasks."""

import asyncio
import itertools
import math
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, cast, get_args

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter, ValidationError

from toolwright.adapters.executors.request import AllowedNetwork
from toolwright.adapters.mcp.connection import MAX_PAGES, McpConnection
from toolwright.adapters.mcp.messages import (
    AnswerParams,
    CancelTask,
    GetTask,
    RawResult,
    TaskParams,
    TaskResult,
    UpdateTask,
    content_of,
    parsed_answer,
    validated_result,
)
from toolwright.adapters.mcp.peer import NoPeer, error_line, within
from toolwright.adapters.mcp.session import REQUEST_TIMEOUT, OpenSession
from toolwright.adapters.mcp.transport import OWN_CODES, SESSION_GONE, Lost, client
from toolwright.adapters.system import check_certificates
from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import MAX_LISTED, ListingError, McpListing, McpPrompts, read_prompts
from toolwright.core.mcp.offered import FILE_NAME, OWN_FILES
from toolwright.core.mcp.servers import (
    McpPromptMessage,
    McpPromptText,
    McpRefused,
    McpTaskState,
    McpTaskUnknown,
    McpUnavailable,
    TaskStatus,
)
from toolwright.core.results import InvalidField, ToolResult, checked_parts
from toolwright.core.text import brief, sentence
from toolwright.core.tools.http.addresses import Allowed, Resolve, anywhere, public_or
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.value import changed

_ERRORS = (MCPError, ValidationError, RuntimeError, ValueError)
"""The errors that the SDK raises when a server rejects a request or its answer is invalid."""
MAX_LINKED = 20
"""Maximum number of linked files read for one result."""
_RESULT_TIMEOUT = 60.0  # seconds for the result of a finished task
MAX_CONNECTIONS = 200
"""Number of connections above which the least recently used one without a call in progress is closed."""
IDLE = 600.0
"""Seconds without a call or a request for its tools after which a connection is closed."""
SWEEP = 60.0


async def listed_prompts(connection: McpConnection, seconds: float) -> McpPrompts:
    """Return the prompts that the server lists. Empty if it does not declare the prompts capability."""
    async with connection.calling(NoPeer()):
        try:
            async with asyncio.timeout(seconds):
                session = await connection.session()
                if getattr(session.client.server_capabilities, "prompts", None) is None:
                    return McpPrompts()
                entries = await asyncio.to_thread(connection.redactor.json, await _entries(session))
                return await asyncio.to_thread(read_prompts, cast("list[JSON]", entries))
        except (*_ERRORS, TimeoutError, McpUnavailable) as error:
            why = connection.redactor.text(error_line(error))
            return McpPrompts(
                faults=(ListingError(message=sentence(f"Its prompts cannot be listed: {why}")),)
            )


async def _entries(session: OpenSession) -> list[JSON]:
    """Return the entries of the list, page by page, at most one more than the limit."""
    entries: list[JSON] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        page = await session.client.list_prompts(params=params)
        room = MAX_LISTED + 1 - len(entries)
        entries += [each.model_dump(mode="json", exclude_none=True) for each in page.prompts[:room]]
        cursor = page.next_cursor
        if not cursor or len(entries) > MAX_LISTED:
            break
    return entries


async def written_prompt(connection: McpConnection, name: str, arguments: Mapping[str, str]) -> McpPromptText:
    """Return the prompt rendered by the server with these arguments. Raises `McpUnavailable` and `McpRefused`."""
    async with connection.calling(NoPeer()):
        session = await connection.session()
        try:
            answer = await session.client.get_prompt(name, dict(arguments))
            assert isinstance(answer, types.GetPromptResult), "no other answer was allowed"
            return await asyncio.to_thread(_text_of, connection, answer)
        except MCPError as error:
            message = connection.redactor.text(error_line(error))
            if error.error.code in (types.REQUEST_TIMEOUT, *OWN_CODES):
                raise McpUnavailable(message) from error
            raise McpRefused(message) from error
        except (*_ERRORS, InvalidJSON, InvalidField) as error:
            why = connection.redactor.text(error_line(error))
            raise McpUnavailable(f"its answer is not a valid MCP prompt: {why}") from error


def _text_of(connection: McpConnection, answer: types.GetPromptResult) -> McpPromptText:
    messages: list[McpPromptMessage] = []
    for each in answer.messages:
        texts, files = content_of([each.content])
        content = connection.redactor.text("\n".join(texts))
        parts = tuple(checked_parts(files, "Attachment"))
        messages.append(McpPromptMessage(role=each.role, content=content, attachments=parts))
    described = answer.description
    return McpPromptText(
        messages=tuple(messages),
        description=None if described is None else connection.redactor.text(described),
    )


_RESOURCE: TypeAdapter[types.InputRequiredResult | types.ReadResourceResult] = TypeAdapter(
    Annotated[types.InputRequiredResult | types.ReadResourceResult, Field(union_mode="left_to_right")]
)


async def read_resource(
    session: OpenSession, uri: str, answers: dict[str, Any] | None = None, state: str | None = None
) -> types.CallToolResult | types.InputRequiredResult:
    """Return the resource as the content of a result: text as text, bytes as a file. Raises `MCPError`."""
    answer = await _answer(session, uri, answers, state)
    if isinstance(answer, types.InputRequiredResult):
        return answer
    content: list[types.ContentBlock] = [
        types.TextContent(text=each.text)
        if isinstance(each, types.TextResourceContents) and each.uri == uri
        else types.EmbeddedResource(resource=each)
        for each in answer.contents
    ]
    return types.CallToolResult(content=content)


async def with_linked_files(
    session: OpenSession, answer: types.CallToolResult, seconds: float
) -> types.CallToolResult:
    """Return the result with its linked files if the server is a Toolwright server, which links to large files only.

    Files that cannot be read in time remain links.
    """
    linked = [each for each in answer.content if _is_own_file(each)][:MAX_LINKED]
    if not linked or seconds <= 0:
        return answer
    read: dict[int, types.ContentBlock] = {}
    try:
        async with asyncio.timeout(seconds):
            for each in linked:
                read[id(each)] = await _file(session, each)
    except (TimeoutError, MCPError, ValidationError, RuntimeError):
        pass  # the link still refers to the file
    content = [read.get(id(each), each) for each in answer.content]
    return answer.model_copy(update={"content": content})


def _is_own_file(block: types.ContentBlock) -> bool:
    return isinstance(block, types.ResourceLink) and block.uri.startswith(OWN_FILES)


async def _file(session: OpenSession, link: types.ContentBlock) -> types.ContentBlock:
    """Return the linked file, or the link itself if it is not a file."""
    assert isinstance(link, types.ResourceLink), "as just chosen"
    answer = await _answer(session, link.uri)
    if isinstance(answer, types.InputRequiredResult) or len(answer.contents) != 1:
        return link
    [held] = answer.contents
    blob = (
        held.blob if isinstance(held, types.BlobResourceContents) else b64encode(held.text.encode()).decode()
    )
    resource = types.BlobResourceContents(
        uri=link.uri, mime_type=link.mime_type or held.mime_type, blob=blob, _meta={FILE_NAME: link.name}
    )
    return types.EmbeddedResource(resource=resource)


async def _answer(
    session: OpenSession, uri: str, answers: dict[str, Any] | None = None, state: str | None = None
) -> types.ReadResourceResult | types.InputRequiredResult:
    params = types.ReadResourceRequestParams(uri=uri, input_responses=answers, request_state=state)
    return await session.client.send_request(types.ReadResourceRequest(params=params), _RESOURCE, math.inf)


log = logger("toolwright.mcp")

_ELICITED: TypeAdapter[types.ElicitRequest] = TypeAdapter(types.ElicitRequest)


async def task_state(
    session: OpenSession,
    task_id: str,
    output: JSONObject | None,
    by_nobody: AbstractAsyncContextManager[None],
) -> McpTaskState:
    """Return the state of a task, whose structured result must fit `output`. Raises the errors of `task`.

    The server can send requests while its result is fetched. Within `by_nobody` they are not assigned to another call.
    """
    reply = await _task_request(session, GetTask(params=TaskParams(task_id=task_id)))
    status = reply.get("status")
    if status not in get_args(TaskStatus):
        raise McpUnavailable("it reports no status for the task")
    message = reply.get("statusMessage")
    state = McpTaskState(
        status=cast("TaskStatus", status),
        poll=_poll(reply),
        message=message if isinstance(message, str) else None,
    )
    match status:
        case "completed" if session.modern:
            return changed(state, result=await _result(session, reply.get("result"), output))
        case "completed" | "failed" | "input_required" if not session.modern:
            result = await _fetched(session, task_id, output, by_nobody)
            return changed(state, status="completed", result=result)
        case "failed":
            return changed(state, result=_failure(reply.get("error"), state.message))
        case "input_required" if session.modern:
            return changed(state, questions=_questions(reply.get("inputRequests")))
        case _:
            return state


async def answer_task(session: OpenSession, task_id: str, answers: Mapping[str, JSON]) -> None:
    """Submit the answers to the task's questions, by key."""
    await _task_request(
        session, UpdateTask(params=AnswerParams(task_id=task_id, input_responses=dict(answers)))
    )


async def cancel_task(session: OpenSession, task_id: str) -> None:
    """Ask the server to cancel the task. A rejection is only logged. Raises `McpUnavailable` or `McpTaskUnknown`."""
    try:
        await _task_request(session, CancelTask(params=TaskParams(task_id=task_id)))
    except _Refused as error:
        log.info("An MCP server does not cancel a task: %s", error)


def _poll(state: Mapping[str, Any]) -> float | None:
    interval = state.get("pollIntervalMs", state.get("pollInterval"))
    fits = isinstance(interval, int | float) and not isinstance(interval, bool) and 0 < interval < 1e9
    return interval / 1000 if fits else None


async def _fetched(
    session: OpenSession,
    task_id: str,
    output: JSONObject | None,
    by_nobody: AbstractAsyncContextManager[None],
) -> ToolResult:
    """Return the result of a task that has finished or that asks questions first (2025-11-25).

    Its questions arrive as separate requests, which cannot be answered: no run waits for the call in memory.
    """
    try:
        async with by_nobody:
            request = TaskResult(params=TaskParams(task_id=task_id))
            return await _result(session, await _task_request(session, request, _RESULT_TIMEOUT), output)
    except _Refused as error:
        return ToolResult.fail(sentence(f"The task failed: {error}"), error_code="mcp_task_failed")


async def _result(session: OpenSession, answer: object, output: JSONObject | None) -> ToolResult:
    try:
        parsed = parsed_answer(cast("Mapping[str, Any]", answer))
        return await validated_result(await with_linked_files(session, parsed, REQUEST_TIMEOUT), output)
    except (ValidationError, TypeError, ValueError, AttributeError):
        return ToolResult.fail(
            "The MCP server returned an invalid result for a task.", error_code="mcp_bad_answer"
        )


def _failure(error: object, message: str | None) -> ToolResult:
    match error:
        case {"message": str(why)}:
            message = why
        case _:
            pass
    text = f"The task failed: {brief(message, 2_000)}" if message else "The task failed."
    return ToolResult.fail(sentence(text), error_code="mcp_task_failed")


def _questions(requests: object) -> Mapping[str, JSONObject]:
    """Return the questions for people, by key: a message with the schema of the answer, or with a URL.

    Other requests are left out.
    """
    questions: dict[str, JSONObject] = {}
    for key, request in cast("Mapping[str, Any]", requests if isinstance(requests, dict) else {}).items():
        try:
            params = _ELICITED.validate_python(request, by_name=False).params
        except ValidationError:
            continue
        question: JSONObject = {"message": params.message}
        if isinstance(params, types.ElicitRequestURLParams):
            question["url"] = params.url
        else:
            question["requestedSchema"] = cast("JSONObject", params.requested_schema)
        questions[key] = question
    return questions


class _Refused(McpUnavailable):
    """The server has answered with an error."""


async def _task_request(
    session: OpenSession, request: Any, seconds: float = REQUEST_TIMEOUT
) -> dict[str, Any]:
    """Return the fields of the answer to a request about a task."""
    try:
        answer = await session.client.send_request(request, RawResult, seconds)
    except MCPError as error:
        if error.error.code == SESSION_GONE:  # the server can know the task in another session
            with within(None):
                return await _task_request(session, request, seconds)
        message = brief(error.error.message, 500)
        if error.error.code == types.INVALID_PARAMS:
            raise McpTaskUnknown(message) from error
        if error.error.code in (types.REQUEST_TIMEOUT, *OWN_CODES):
            raise McpUnavailable(message) from error
        raise _Refused(message) from error
    except (ValidationError, RuntimeError, ValueError) as error:
        raise McpUnavailable(f"its answer is not a valid MCP result: {brief(str(error), 500)}") from error
    return answer.fields


class McpConnections:
    """Connections by target. `resolve` looks up the addresses of a name; `allow` admits non-public addresses."""

    def __init__(
        self,
        *,
        resolve: Resolve,
        allow: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        most: int = MAX_CONNECTIONS,
    ) -> None:
        self._clock = clock
        self._most = most
        self._as_written = AllowedNetwork(resolve, anywhere)
        self._guarded = AllowedNetwork(resolve, public_or(Allowed.read(allow)))
        self._tls: ssl.SSLContext | None = None
        self._numbers = itertools.count(1)
        self._by_key: dict[str, McpConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None

    def connection(self, target: McpTarget) -> McpConnection:
        """Return the connection to the target. Opens it if it does not exist."""
        connection = self._by_key.get(target.key)
        if connection is None:
            if len(self._by_key) >= self._most:
                self._make_room()
            connection = self._by_key[target.key] = McpConnection(
                target, self._client, self._clock, self._numbers
            )
            if self._sweeping is None:
                self._sweeping = start_task(self._sweep(), "mcp-idle-connections")
        return connection

    async def listing(self, target: McpTarget, seconds: float) -> McpListing:
        """Return the tools that the server listed last. Waits up to `seconds` for the first list."""
        return await self.connection(target).listed(target.server, seconds)

    async def prompts(self, target: McpTarget, seconds: float) -> McpPrompts:
        """Return the prompts that the server offers. Waits up to `seconds`."""
        connection = self.connection(target)
        with connection.logging():
            return await listed_prompts(connection, seconds)

    async def prompt(self, target: McpTarget, name: str, arguments: Mapping[str, str]) -> McpPromptText:
        """Return a prompt with these arguments. Raises `McpUnavailable` and `McpRefused`."""
        connection = self.connection(target)
        with connection.logging():
            return await written_prompt(connection, name, arguments)

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        """Return the state of a task. Raises `McpUnavailable`, or `McpTaskUnknown` if the server does not know it."""
        connection = self.connection(target)
        with connection.logging(), within(session):
            nobody = connection.calling(NoPeer())
            return await task_state(await connection.session(), task_id, output, nobody)

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        """Submit the answers to the task's questions, by key. Raises the errors of `task`."""
        connection = self.connection(target)
        with connection.logging(), within(session):
            await answer_task(await connection.session(), task_id, answers)

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        """Ask the server to cancel the task. Raises the errors of `task`."""
        connection = self.connection(target)
        with connection.logging(), within(session):
            await cancel_task(await connection.session(), task_id)

    async def aclose(self) -> None:
        """Close all connections and end the processes of stdio servers."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        connections, self._by_key = [*self._by_key.values()], {}
        await asyncio.gather(*[each.close() for each in connections], *self._closing)

    def _client(self, target: McpTarget, lost: Lost) -> httpx2.AsyncClient:
        if self._tls is None:
            try:
                check_certificates()
            except DefinitionError as error:
                raise McpUnavailable(error.message) from error
            self._tls = httpx2.create_ssl_context()
        network = self._as_written if target.server.trusted else self._guarded
        return client(network, self._tls, target.headers, lost)

    def _make_room(self) -> None:
        free = [each for each in self._by_key.values() if not each.is_busy]
        free.sort(key=lambda each: each.used_at)
        for each in free[: len(self._by_key) - self._most + 1]:
            self._drop(each)

    def _drop(self, connection: McpConnection) -> None:
        self._by_key.pop(connection.target.key, None)
        closing = start_task(connection.close(), "mcp-connection-close")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            for each in [*self._by_key.values()]:
                if each.is_idle(IDLE):
                    self._drop(each)
