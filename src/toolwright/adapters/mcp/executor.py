"""The executor of MCP tools: a call goes to its server, what the server asks meanwhile to whoever can answer."""

import asyncio
import math
from collections.abc import Mapping
from typing import Annotated, Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter, ValidationError

from toolwright.adapters.mcp.dispatcher import CREATED
from toolwright.adapters.mcp.http import BROKEN_OFF, NOT_SENT
from toolwright.adapters.mcp.peer import SILENCE
from toolwright.adapters.mcp.results import judged
from toolwright.adapters.mcp.servers import McpConnections
from toolwright.adapters.mcp.session import OpenSession
from toolwright.adapters.mcp.task_messages import CreatedTask
from toolwright.adapters.mcp.words import said
from toolwright.core.errors import InvalidRequest, ToolwrightError
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_ID, OUTSIDE_TIMEOUT
from toolwright.core.mcp.servers import McpUnavailable
from toolwright.core.plain import unwritable
from toolwright.core.results.result import Outcome, Pending, RemoteTask, ToolResult
from toolwright.core.state.elicitation import ELICIT_TIMEOUT
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief, sentence
from toolwright.core.tools.http.url_template import Unfillable
from toolwright.core.tools.mcp import McpCall, McpServer, McpTarget, target_of
from toolwright.core.tools.pipeline import PreparedCall, lacks_variables
from toolwright.core.value import changed

PROGRESS_PAUSE = 0.05  # seconds between two reports of one call
MOST_ROUNDS = 20  # in which a server may ask something before it answers
TASK_KEPT = 24 * 3600 * 1000  # milliseconds that a server is asked to keep a task
TASK_LASTS = (
    7 * 24 * 3600.0
)  # seconds until a task is given up whose server does not say how long it keeps it
CALL_ID = "toolwright/callId"
"""Where in the metadata of a call its id is, by which a server knows a call that comes again after a crash."""
NO_WAY_BACK = "no back-channel"
"""What servers of the SDK say whose tools ask by requests of their own: in 2026-07-28 there are none."""
ASKS_IN_2025 = 'The option revision of the server, set to "2025-11-25", lets its tools ask.'
_UNKNOWN = "the effect of the call is unknown"


_ANSWER: TypeAdapter[CreatedTask | types.InputRequiredResult | types.CallToolResult] = TypeAdapter(
    Annotated[
        CreatedTask | types.InputRequiredResult | types.CallToolResult, Field(union_mode="left_to_right")
    ]
)


class McpExecutor:
    """Carries calls out on MCP servers; a failure of any kind is an error result."""

    def __init__(self, connections: McpConnections) -> None:
        self._connections = connections

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        """The result of the call, or the task that the server has made of it."""
        relation, tool = prepared.tool.relation, prepared.tool
        if not isinstance(relation, McpCall):
            return ToolResult.fail(f"Tool {tool.name!r} has no MCP server.", error_code="no_executor")
        server = relation.server
        if not server.allows(relation.tool):
            return ToolResult.fail(f"Tool {tool.name!r} is not allowed here.", error_code="not_allowed")
        values = {name: await state.env(name) for name in server.variables}
        missing = [name for name, text in values.items() if text is None]
        if missing:
            return lacks_variables(tool.name, missing)
        try:
            known = {name: text for name, text in values.items() if text is not None}
            secret = {name for name in known if await state.env_type(name) == "secret"}
            target = target_of(server, known, secret)
            call = _Call(relation, prepared.arguments, state, tool.timeout)
            return await call.carry_out(self._connections, target)
        except Unfillable as error:
            return ToolResult.fail(str(error), error_code="invalid_arguments")
        except McpUnavailable as error:
            return ToolResult.fail(
                sentence(f"The MCP server {server.name!r} cannot be used: {error}"),
                error_code="mcp_unavailable",
            )


class _Call:
    """One call of one tool, and who answers what its server asks: the `Peer` of its requests."""

    def __init__(
        self, relation: McpCall, arguments: JSONObject, state: ThreadState, timeout: float | None
    ) -> None:
        self._relation = relation
        self._arguments = arguments
        self._state = state
        self._timeout = timeout
        self._reported = -math.inf
        self._at_end = False
        self.unheard = False
        self.silence = (timeout or OUTSIDE_TIMEOUT) + ELICIT_TIMEOUT + SILENCE  # it may wait for a person
        self.thread_id: str | None = state.thread_id

    async def carry_out(self, connections: McpConnections, target: McpTarget) -> Outcome:
        connection = connections.of(target)
        async with connection.calling(self):
            try:
                try:
                    answer = await self._answer(await connection.session())
                except MCPError:
                    if not self.unheard:
                        raise
                    answer = await self._answer(await connection.session())
            except MCPError as error:
                return _failed(error, self._relation.server)
            except (ValidationError, RuntimeError) as error:
                return ToolResult.fail(
                    sentence(f"The MCP server answered with what is no result: {said(error)}"),
                    error_code="mcp_bad_answer",
                )
        if isinstance(answer, RemoteTask):
            return self._pending(changed(answer, output=self._relation.output, place=target.place))
        return await judged(answer, self._relation.output)

    async def _answer(self, session: OpenSession) -> types.CallToolResult | RemoteTask:
        """The server's answer, after all that it has asked before."""
        answers: dict[str, Any] | None = None
        state: str | None = None
        for _ in range(MOST_ROUNDS):
            answer = await self._send(session, answers, state)
            if not isinstance(answer, types.InputRequiredResult):
                return answer
            state = answer.request_state
            if answer.input_requests:
                answers = {key: await self._input(each) for key, each in answer.input_requests.items()}
            else:
                answers = None
                await asyncio.sleep(0.25)
        raise RuntimeError("it asks again and again")

    async def _send(
        self, session: OpenSession, answers: dict[str, Any] | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult | RemoteTask:
        as_task = self._relation.as_task and _makes_tasks(session)
        meta: types.RequestParamsMeta = {CALL_ID: self._state.call_id}
        params = types.CallToolRequestParams(
            name=self._relation.tool,
            arguments=self._arguments,
            input_responses=answers,
            request_state=state,
            task=types.TaskMetadata(ttl=TASK_KEPT) if as_task else None,
            _meta=meta,
        )
        # Not by `call_tool`, which would judge the result, and read the server's list anew to do so.
        answer = await session.client.send_request(
            types.CallToolRequest(params=params), _ANSWER, math.inf, progress_callback=self._progress
        )
        if isinstance(answer, CreatedTask):
            return RemoteTask(
                id=_task_id(answer.task_id),
                server=self._relation.server.name,
                poll=_seconds(answer.poll_interval_ms),
                kept=_seconds(answer.ttl_ms),
            )
        created = (answer.meta or {}).get(CREATED)
        if as_task and isinstance(created, dict):
            return _legacy_task(self._relation.server.name, cast("dict[str, Any]", created))
        return answer

    def _pending(self, task: RemoteTask) -> Pending:
        return Pending(wait=self._timeout, expires_in=task.kept or TASK_LASTS, task=task)

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        now = asyncio.get_running_loop().time()
        is_first_end = progress == total and not self._at_end
        if now - self._reported < PROGRESS_PAUSE and not is_first_end:
            return
        self._reported, self._at_end = now, self._at_end or is_first_end
        try:
            self._state.progress(progress, total, message)
        except InvalidRequest:
            return  # no number that could be shown

    # ── what the server asks ────────────────────────────────────────────────────────────────────────────────

    async def _input(self, request: types.InputRequest) -> Any:  # what the SDK takes as an answer
        match request:
            case types.ElicitRequest(params=params):
                answer = await self.elicit(params)
            case types.CreateMessageRequest(params=params):
                answer = await self.sample(params)
            case _:
                answer = types.ListRootsResult(roots=[])
        if isinstance(answer, types.ErrorData):
            raise MCPError(answer.code, answer.message)
        return answer

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """A person's answer."""
        source = self._relation.server.name
        try:
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
        """The answer of the agent's model, if the server's configuration allows that."""
        if not self._relation.server.sampling:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Sampling is not allowed here.")
        said = [_spoken(each) for each in params.messages]
        if any(each is None for each in said) or params.tools:
            return types.ErrorData(code=types.INVALID_PARAMS, message="Only text can be answered here.")
        try:
            answer = await self._state.sample(
                [each for each in said if each is not None],
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
            stop_reason="endTurn",
        )


def _spoken(message: types.SamplingMessage) -> tuple[str, str] | None:
    """Who says what; None for what is not text."""
    blocks = message.content if isinstance(message.content, list) else [message.content]
    texts = [block.text for block in blocks if isinstance(block, types.TextContent)]
    return (message.role, "\n".join(texts)) if len(texts) == len(blocks) else None


def _failed(error: MCPError, server: McpServer) -> ToolResult:
    """The error result of a protocol error; one that an older revision may not have says so."""
    code = error.error.code
    if code == types.CONNECTION_CLOSED:
        return ToolResult.fail(
            f"The MCP server broke off without an answer; {_UNKNOWN}.", error_code="mcp_broken_off"
        )
    if code == BROKEN_OFF:
        broken = sentence(
            f"No answer of the MCP server: {brief(error.error.message, 2_000).rstrip('.')}; {_UNKNOWN}"
        )
        return ToolResult.fail(broken, error_code="mcp_broken_off")
    if code == NOT_SENT:
        unused = sentence(
            f"The MCP server {server.name!r} cannot be used: {brief(error.error.message, 2_000)}"
        )
        return ToolResult.fail(unused, error_code="mcp_unavailable")
    if code == types.PARSE_ERROR:
        unread = sentence(f"The MCP server's answer cannot be read: {said(error)}")
        return ToolResult.fail(unread, error_code="mcp_bad_answer")
    refused = sentence(f"The MCP server refused the call: {brief(error.error.message, 2_000)}")
    if server.revision is None and NO_WAY_BACK in error.error.message:
        refused = f"{refused} {ASKS_IN_2025}"
    return ToolResult.fail(refused, error_code="mcp_error")


def _makes_tasks(session: OpenSession) -> bool:
    """Whether the server carries calls out as tasks, in the revision of 2025-11-25."""
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


def _task_id(given: object) -> str:
    """The id that a server gives a task. Raises `RuntimeError` for one that the journal cannot keep."""
    if not isinstance(given, str) or not given:
        raise RuntimeError("it has made a task without an id")
    if len(given) > MAX_ID or unwritable(given):
        raise RuntimeError(f"the id of a task is at most {MAX_ID} characters without NUL or lone surrogates")
    return given


def _seconds(milliseconds: object) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return milliseconds / 1000 if 0 < milliseconds < 1e12 else None
