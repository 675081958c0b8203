"""Executor of MCP tools: sends a call to its server, and forwards the server's requests to a person or the model."""

import asyncio
import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TypeGuard, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter, ValidationError

from toolwright.adapters.mcp.connection import McpConnection
from toolwright.adapters.mcp.messages import CREATED, CreatedTask, validated_result
from toolwright.adapters.mcp.peer import CLOSED, SILENCE, error_line, nobody
from toolwright.adapters.mcp.servers import McpConnections, read_resource, with_linked_files
from toolwright.adapters.mcp.session import OpenSession
from toolwright.adapters.mcp.transport import BROKEN_OFF, NOT_SENT
from toolwright.core.errors import InvalidRequest, ToolwrightError
from toolwright.core.json_value import JSONObject, unwritable
from toolwright.core.limits import MAX_ID, OUTSIDE_TIMEOUT
from toolwright.core.mcp.servers import McpUnavailable
from toolwright.core.results import Outcome, Pending, RemoteTask, ToolResult
from toolwright.core.state.state import ELICIT_TIMEOUT, ThreadState
from toolwright.core.text import brief, sentence
from toolwright.core.tools.http.url_template import Unfillable
from toolwright.core.tools.mcp import McpCall, McpServer, target_of
from toolwright.core.tools.pipeline import PreparedCall, missing_variables_error
from toolwright.core.value import changed

MAX_ROUNDS = 30  # of requests by a server before it answers
MAX_QUESTIONS = 20  # to people and to the model, per call
TASK_TTL = 24 * 3600 * 1000  # milliseconds for which a server is asked to keep a task
# seconds until a task is abandoned if its server does not state how long it keeps it
TASK_LASTS = 7 * 24 * 3600.0
LINKS_TIMEOUT = 10.0
"""Seconds for all files that a result links to."""
_SPARE = 1.0  # seconds of a call's timeout reserved for its result
CALL_ID = "toolwright/callId"
"""Metadata key of a call's id, by which a server recognizes a call that is repeated after a crash."""
CANNOT_ASK = ("no back-channel", "server-initiated requests is unavailable")
"""Errors of SDK and FastMCP tools that send server-initiated requests, which revision 2026-07-28 does not have."""
ASKS_IN_2025 = 'Set the option revision of the server to "2025-11-25" to let its tools ask.'
CALL_AGAIN = (
    "The server is now used in the revision 2025-11-25, in which its tools can ask: call the tool again."
)
_UNKNOWN = "the effect of the call is unknown"


_ANSWER: TypeAdapter[CreatedTask | types.InputRequiredResult | types.CallToolResult] = TypeAdapter(
    Annotated[
        CreatedTask | types.InputRequiredResult | types.CallToolResult, Field(union_mode="left_to_right")
    ]
)


class McpExecutor:
    """Executes calls on MCP servers. Any failure becomes an error result."""

    def __init__(self, connections: McpConnections) -> None:
        self._connections = connections

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        """Return the result of the call, or the task that the server has created for it."""
        relation, tool = prepared.tool.relation, prepared.tool
        if not isinstance(relation, McpCall):
            return ToolResult.fail(f"Tool {tool.name!r} has no MCP server.", error_code="no_executor")
        server = relation.server
        if not (server.resources if relation.reads else server.allows(relation.tool)):
            return ToolResult.fail(f"Tool {tool.name!r} is not allowed here.", error_code="not_allowed")
        values = {name: await state.env(name) for name in server.variables}
        missing = [name for name, text in values.items() if text is None]
        if missing:
            return missing_variables_error(tool.name, missing)
        try:
            env = {name: text for name, text in values.items() if text is not None}
            secret = {name for name in env if await state.env_type(name) == "secret"}
            target = target_of(server, env, secret)
            connection = self._connections.connection(target)
            outcome = await _ToolCall(relation, prepared.arguments, state, tool.timeout).carry_out(connection)
            if not _cannot_ask(outcome, server):
                return outcome
            if not connection.reopen_to_ask():
                return _with_hint(outcome, ASKS_IN_2025)
            if not (tool.read_only or tool.idempotent):  # its effect is unknown, so the model decides
                return _with_hint(outcome, CALL_AGAIN)
            return await _ToolCall(relation, prepared.arguments, state, tool.timeout).carry_out(connection)
        except Unfillable as error:
            return ToolResult.fail(str(error), error_code="invalid_arguments")
        except McpUnavailable as error:
            return ToolResult.fail(
                sentence(f"The MCP server {server.name!r} cannot be used: {error}"),
                error_code="mcp_unavailable",
            )


class _ToolCall:
    """One call of a tool. As the `Peer` of its requests it answers the server's requests."""

    def __init__(
        self, relation: McpCall, arguments: JSONObject, state: ThreadState, timeout: float | None
    ) -> None:
        self._relation = relation
        self._arguments = arguments
        self._state = state
        self._timeout = timeout
        self._began = asyncio.get_running_loop().time()
        self._questions_asked = self._questions_open = 0
        self._asked_at = self._progressed = 0.0
        self._limit = asyncio.timeout(None)  # ends the call when the server asks too many questions
        self.unheard = False
        # the answer can wait for a person
        self.silence = (timeout or OUTSIDE_TIMEOUT) + ELICIT_TIMEOUT + SILENCE
        self.thread_id: str | None = state.thread_id

    async def carry_out(self, connection: McpConnection) -> Outcome:
        async with connection.calling(self):
            try:
                async with self._limit:
                    answer = await self._answered(connection)
            except TimeoutError:
                if self._questions_asked <= MAX_QUESTIONS:
                    raise
                message = f"The MCP server asked more than {MAX_QUESTIONS} questions in one call; {_UNKNOWN}."
                return ToolResult.fail(message, error_code="mcp_too_many_questions")
            except MCPError as error:
                return _failed(error, self._relation.server.name)
            except (ValidationError, RuntimeError) as error:
                return ToolResult.fail(
                    sentence(f"The MCP server's answer is not a valid result: {error_line(error)}"),
                    error_code="mcp_bad_answer",
                )
        if isinstance(answer, RemoteTask):
            return self._pending(changed(answer, output=self._relation.output, place=connection.target.place))
        return await validated_result(answer, self._relation.output)

    async def _answered(self, connection: McpConnection) -> types.CallToolResult | RemoteTask:
        """Return the server's answer.

        The call is sent again only if the server rejected it unread because the session was lost.
        """
        try:
            return await self._answer(await connection.session())
        except MCPError:
            if not self.unheard:
                raise
            return await self._answer(await connection.session())

    async def _answer(self, session: OpenSession) -> types.CallToolResult | RemoteTask:
        """Return the server's answer, after answering its requests."""
        answers: dict[str, Any] | None = None
        state: str | None = None
        for _ in range(MAX_ROUNDS):
            answer = await self._send(session, answers, state)
            if isinstance(answer, types.CallToolResult):
                return await with_linked_files(session, answer, self._remaining())
            if not isinstance(answer, types.InputRequiredResult):
                return answer
            state = answer.request_state
            if answer.input_requests:
                answers = {key: await self._input(each) for key, each in answer.input_requests.items()}
            else:
                answers = None
                await asyncio.sleep(0.25)
        raise RuntimeError("it keeps asking for input")

    async def _send(
        self, session: OpenSession, answers: dict[str, Any] | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult | RemoteTask:
        if self._relation.reads:
            return await read_resource(session, str(self._arguments["uri"]), answers, state)
        as_task = self._relation.as_task and _makes_tasks(session)
        meta: types.RequestParamsMeta = {CALL_ID: self._state.call_id}
        params = types.CallToolRequestParams(
            name=self._relation.tool,
            arguments=self._arguments,
            input_responses=answers,
            request_state=state,
            task=types.TaskMetadata(ttl=TASK_TTL) if as_task else None,
            _meta=meta,
        )
        # `call_tool` is not used: it would validate the result and re-read the server's list for that.
        answer = await session.client.send_request(
            types.CallToolRequest(params=params), _ANSWER, math.inf, progress_callback=self._progress
        )
        if isinstance(answer, CreatedTask):
            session.http.has_tasks = True
            return RemoteTask(
                id=_task_id(answer.task_id),
                server=self._relation.server.name,
                poll=_seconds(answer.poll_interval_ms),
                kept=_seconds(answer.ttl_ms),
            )
        created = (answer.meta or {}).get(CREATED)
        if as_task and isinstance(created, dict):
            session.http.has_tasks = True
            task = _legacy_task(self._relation.server.name, cast("dict[str, Any]", created))
            return changed(task, session=_session_id(session.http.id))
        return answer

    def _remaining(self) -> float:
        """Return the seconds left for reading the files to which the call's result links, since the last progress."""
        spent = asyncio.get_running_loop().time() - max(self._began, self._progressed)
        return min(LINKS_TIMEOUT, (self._timeout or math.inf) - spent - _SPARE)

    def _pending(self, task: RemoteTask) -> Pending:
        return Pending(wait=self._timeout, expires_in=task.kept or TASK_LASTS, task=task)

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._progressed = asyncio.get_running_loop().time()
        try:
            self._state.progress(progress, total, message)
        except InvalidRequest:
            return  # not a number that can be displayed

    # ── requests of the server ──────────────────────────────────────────────────────────────────────────────

    async def _input(self, request: types.InputRequest) -> Any:  # any answer that the SDK accepts
        match request:
            case types.ElicitRequest(params=params):
                answer = await self.elicit(params)
            case types.CreateMessageRequest(params=params):
                answer = await self.sample(params)
            case _:
                answer = types.ListRootsResult(roots=[])
        if isinstance(answer, types.ErrorData):
            await asyncio.sleep(0)  # a call with too many questions ends first
            raise MCPError(answer.code, answer.message)
        return answer

    def _may_ask(self) -> bool:
        """Count a question and return whether it is allowed. One question too many ends the call."""
        self._questions_asked += 1
        if self._questions_asked == MAX_QUESTIONS + 1:
            with suppress(RuntimeError):  # the call has ended
                self._limit.reschedule(asyncio.get_running_loop().time())
        return self._questions_asked <= MAX_QUESTIONS

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Pause the call's time while people are asked, however many questions are open."""
        loop = asyncio.get_running_loop()
        self._questions_open += 1
        if self._questions_open == 1:
            self._asked_at = loop.time()
        try:
            yield
        finally:
            self._questions_open -= 1
            if not self._questions_open:
                self._began += loop.time() - self._asked_at

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Return a person's answer."""
        if not self._may_ask():
            return nobody()
        source = self._relation.server.name
        try:
            with self._asking():
                if isinstance(params, types.ElicitRequestURLParams):
                    answer = await self._state.elicit(params.message, url=params.url, source=source)
                else:
                    schema = params.requested_schema
                    answer = await self._state.elicit(params.message, schema, source=source)
        except ToolwrightError as error:
            return types.ErrorData(code=types.INVALID_PARAMS, message=error.message)
        content = cast("dict[str, Any] | None", answer.content)
        return types.ElicitResult(action=answer.action, content=content)

    async def sample(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Return the answer of the agent's model, if the server's configuration allows sampling."""
        if not self._may_ask():  # also of requests that are rejected: each costs an answer
            return nobody()
        if not self._relation.server.sampling:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Sampling is not allowed here.")
        messages = [_spoken(each) for each in params.messages]
        if any(each is None for each in messages) or params.tools:
            return types.ErrorData(code=types.INVALID_PARAMS, message="Only text content is supported here.")
        try:
            answer = await self._state.sample(
                [each for each in messages if each is not None],
                system=params.system_prompt,
                max_tokens=params.max_tokens,
                temperature=params.temperature,
                source=self._relation.server.name,
            )
        except ToolwrightError as error:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=error.message)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(text=answer.text),
            model=answer.model,
            stop_reason="maxTokens"
            if answer.stop_reason == "max_tokens"
            else answer.stop_reason or "endTurn",
        )


def _spoken(message: types.SamplingMessage) -> tuple[str, str] | None:
    """Return the role and text of a message, or None if it is not text."""
    blocks = message.content if isinstance(message.content, list) else [message.content]
    texts = [block.text for block in blocks if isinstance(block, types.TextContent)]
    return (message.role, "\n".join(texts)) if len(texts) == len(blocks) else None


def _failed(error: MCPError, server: str) -> ToolResult:
    """Return the error result of a protocol error."""
    code = error.error.code
    if code == CLOSED:
        return ToolResult.fail(
            f"The MCP server closed the connection without an answer; {_UNKNOWN}.",
            error_code="mcp_broken_off",
        )
    if code == BROKEN_OFF:
        broken = sentence(
            f"No answer from the MCP server: {brief(error.error.message, 2_000).rstrip('.')}; {_UNKNOWN}"
        )
        return ToolResult.fail(broken, error_code="mcp_broken_off")
    if code == NOT_SENT:
        unused = sentence(f"The MCP server {server!r} cannot be used: {brief(error.error.message, 2_000)}")
        return ToolResult.fail(unused, error_code="mcp_unavailable")
    if code == types.PARSE_ERROR:
        unread = sentence(f"The MCP server's answer cannot be read: {error_line(error)}")
        return ToolResult.fail(unread, error_code="mcp_bad_answer")
    refused = sentence(f"The MCP server refused the call: {brief(error.error.message, 2_000)}")
    return ToolResult.fail(refused, error_code="mcp_error")


def _cannot_ask(outcome: Outcome, server: McpServer) -> TypeGuard[ToolResult]:
    """Return whether a tool failed because it sends requests, which the newest revision does not have."""
    error = outcome.error if isinstance(outcome, ToolResult) else None
    return server.revision is None and error is not None and any(each in error for each in CANNOT_ASK)


def _with_hint(result: ToolResult, hint: str) -> ToolResult:
    return changed(result, error=f"{sentence(result.error or '')} {hint}")


def _makes_tasks(session: OpenSession) -> bool:
    """Return whether the server executes calls as tasks, in the revision 2025-11-25."""
    tasks = getattr(session.client.server_capabilities, "tasks", None)
    requests = getattr(tasks, "requests", None)
    return not session.modern and getattr(getattr(requests, "tools", None), "call", None) is not None


def _legacy_task(server: str, created: Mapping[str, Any]) -> RemoteTask:
    return RemoteTask(
        id=_task_id(created.get("taskId")),
        server=server,
        poll=_seconds(created.get("pollInterval")),
        kept=_seconds(created.get("ttl")),
    )


def _task_id(value: object) -> str:
    """Return the id that a server assigned to a task. Raises `RuntimeError` if the journal cannot store it."""
    if not isinstance(value, str) or not value:
        raise RuntimeError("it created a task without an id")
    if len(value) > MAX_ID or unwritable(value):
        raise RuntimeError(f"the id of a task is at most {MAX_ID} characters without NUL or lone surrogates")
    return value


def _session_id(value: str | None) -> str | None:
    """Return the id of a session, or None if the journal cannot store it."""
    return None if value is None or len(value) > MAX_ID or unwritable(value) else value


def _seconds(milliseconds: object) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return milliseconds / 1000 if 0 < milliseconds < 1e12 else None
