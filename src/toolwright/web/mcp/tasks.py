"""MCP tasks in both revisions, and questions of handlers to the host's user and model."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, Field, ValidationError

from toolwright.core import errors
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.state.state import SAMPLE, question_of, sampling_of
from toolwright.core.text import brief, sentence
from toolwright.core.threads.approval import terms_from_json
from toolwright.core.threads.call import OPEN, Call, is_over
from toolwright.core.threads.decision import Decider
from toolwright.core.value import Value, changed
from toolwright.runtime.pending.app_calls import call_of
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import Caller
from toolwright.web.auth.permits import check_approver
from toolwright.web.mcp.content import call_result
from toolwright.web.mcp.tools import TASKS, Context, McpParts, capabilities_of, is_modern, knows_tasks

MANY = 200  # maximum number of questions per call
MAX_TOKENS = 1_000  # maximum tokens of a model's answer, unless the handler sets another number
CANNOT_ASK = "The host does not support elicitation."
NO_MODEL = "The host does not support sampling."
MAX_SHOWN = 2_000  # characters of a call's arguments in the question whether it may start
APPROVAL: JSONObject = {
    "type": "object",
    "title": "Approval",
    "properties": {"approved": {"type": "boolean", "title": "Approve this call"}},
    "required": ["approved"],
}
NO_TEXT = "The model's answer must be a text message."
POLL = 500  # milliseconds between two polls of a host
PAGE = 100
RELATED = "io.modelcontextprotocol/related-task"


class Question(Value):
    """An open question. `key` identifies it to the host, unique per call; `by` is who answers it.

    With `approves` the host's user is asked to approve the call itself.
    """

    key: str
    call: Call
    params: JSONObject
    by: Decider
    approves: bool = False

    @property
    def is_sampling(self) -> bool:
        """Return whether a model is asked instead of a person."""
        return self.call.name == SAMPLE

    @property
    def missing_capability(self) -> JSONObject:
        """The capability that a host needs to be asked the question."""
        return {"sampling": {}} if self.is_sampling else {"elicitation": {}}


def approval_question(call: Call, caller: Caller) -> Question | None:
    """Return the question whether the call may start, or None if it needs no approval or not this caller's."""
    if not call.awaits_approval:
        return None
    try:
        check_approver(caller, terms_from_json(call.terms))
    except errors.Forbidden:
        return None
    message = f"Approve this call of {call.name!r}? {brief(call.arguments, MAX_SHOWN)}"
    params: JSONObject = {"message": message, "requestedSchema": APPROVAL}
    return Question(key="approval", call=call, params=params, by=caller.through("mcp"), approves=True)


def approval_notice(call: Call) -> str:
    """Return the error of a call that waits for an approval which its host cannot give."""
    return (
        f"Tool {call.name!r} needs an approval before it starts, which cannot be given here. "
        f"The call {call.id!r} waits for it: answer it in the console, or with POST "
        f"/api/runs/{call.run_id}/tool-results. Do not call the tool again."
    )


async def open_questions(runtime: Runtime, call: Call, caller: Caller) -> Sequence[Question]:
    """Return the open questions of the call that the caller may answer, oldest first."""
    approval = approval_question(call, caller)
    if approval is not None:
        return [approval]
    seen: dict[str, int] = {}
    questions: list[Question] = []
    for each in await runtime.app_calls.nested_calls(call, MANY):
        question = question_of(each) or sampling_of(each)
        if question is None:
            continue
        name = _name(question) or each.id
        seen[name] = number = seen.get(name, 0) + 1
        if each.status in OPEN:
            key = name if number == 1 else f"{name}_{number}"
            by = caller.through("mcp")
            if sampling_of(each) is not None:  # the host's model answers
                by = changed(by, kind="host")
            questions.append(Question(key=key, call=each, params=question, by=by))
    return questions


def _name(arguments: JSONObject) -> str:
    """Convert the title of the requested input to a name: `UserName` to `user_name`."""
    schema = arguments.get("requestedSchema")
    title = schema.get("title") if isinstance(schema, dict) else None
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", title) if isinstance(title, str) else []
    return "_".join(words).lower()[:100]


def request_of(question: Question, context: Context) -> types.InputRequest | None:
    """Return the question as a protocol request, or None if the host does not support asking its user or model."""
    if question.is_sampling:
        return None if capabilities_of(context).sampling is None else _sampling(question.params)
    able = capabilities_of(context).elicitation
    message, url = str(question.params["message"]), question.params.get("url")
    if able is None:
        return None
    if isinstance(url, str):
        if able.url is None:
            return None
        params = types.ElicitRequestURLParams(message=message, url=url, elicitation_id=question.call.id)
        return types.ElicitRequest(params=params)
    if able.form is None and able.url is not None:
        return None
    schema: Any = question.params["requestedSchema"]
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampling(arguments: JSONObject) -> types.CreateMessageRequest:
    written: Any = arguments
    messages = [
        types.SamplingMessage(role=each["role"], content=types.TextContent(text=each["content"]))
        for each in written["messages"]
    ]
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=messages,
            system_prompt=written.get("system"),
            max_tokens=written.get("maxTokens", MAX_TOKENS),
            temperature=written.get("temperature"),
        )
    )


async def ask(runtime: Runtime, question: Question, context: Context) -> None:
    """Ask the user of a host with a session and submit the answer. An invalid answer is reported to the handler."""
    request = request_of(question, context)
    if request is None or not context.session.can_send_request:
        await refuse(runtime, question)
        return
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    try:
        form = types.CreateMessageResult if question.is_sampling else types.ElicitResult
        response = await context.session.send_request(request, form, metadata=metadata)
        await answer(runtime, question, response)
    except (MCPError, ValidationError, errors.InvalidRequest) as error:
        why = error.message if isinstance(error, MCPError | errors.InvalidRequest) else "it is none"
        await refuse(runtime, question, sentence(f"The host's answer is invalid: {why}"))


async def refuse(runtime: Runtime, question: Question, why: str | None = None) -> None:
    """Report to the handler why there is no answer. By default: the host cannot be asked.

    An approval then stays open for others; with a reason the call is rejected.
    """
    if question.approves:
        if why is not None:
            await _submit(runtime, question, {"approved": False})
        return
    if why is None:
        why = NO_MODEL if question.is_sampling else CANNOT_ASK
    await _submit(runtime, question, ToolResult.fail(why, error_code="not_asked"))


async def answer(runtime: Runtime, question: Question, response: object) -> None:
    """Submit the host's answer. Raises `InvalidRequest` if it does not match the question."""
    result = _sampled(response) if question.is_sampling else _elicited(response)
    await _submit(runtime, question, _approved(result) if question.approves else result)


async def answer_all(runtime: Runtime, questions: Sequence[Question], responses: Mapping[str, Any]) -> bool:
    """Submit the matching answers. Returns whether there are any. Other questions stay open."""
    is_any_answered = False
    for question in questions:
        if question.key in responses:
            try:
                await answer(runtime, question, responses[question.key])
                is_any_answered = True
            except errors.InvalidRequest:
                continue  # the question is asked again
    return is_any_answered


def _elicited(response: object) -> JSON:
    if not isinstance(response, types.ElicitResult):
        return cast("JSON", response)  # from a task update; validated against the question
    content: Any = response.content
    return {"action": response.action, **({} if content is None else {"content": content})}


def _approved(answer: JSON) -> JSON:
    """Return the answer to an approval. Raises `InvalidRequest` for an answer that says neither yes nor no."""
    match answer:
        case {"action": "decline" | "cancel"}:
            return {"approved": False}
        case {"action": "accept", "content": {"approved": bool(approved)}}:
            return {"approved": approved}
        case _:
            raise errors.InvalidRequest(
                "The answer to an approval must have a field approved, true or false."
            )


def _sampled(response: object) -> JSON:
    written = response.model_dump(by_alias=True) if isinstance(response, BaseModel) else response
    try:
        read = types.CreateMessageResult.model_validate(written, by_name=False)
    except ValidationError:
        raise errors.InvalidRequest(NO_TEXT) from None
    if not isinstance(read.content, types.TextContent):
        raise errors.InvalidRequest(NO_TEXT)
    answer: JSONObject = {"text": read.content.text, "model": read.model}
    return {**answer, "stopReason": "max_tokens"} if read.stop_reason == "maxTokens" else answer


async def _submit(runtime: Runtime, question: Question, result: JSON | ToolResult) -> None:
    try:
        await runtime.calls.submit(question.call.run_id, question.call.id, result, by=question.by)
    except (errors.CallResolved, errors.CallExpired, errors.CallCancelled, errors.AlreadyOver):
        return  # another answer was submitted first
    except errors.DefinitionChanged:
        return  # it is asked again


_FAILED = frozenset({"interrupted", "not_begun"})
"""Error codes that mean that the call itself failed, not the tool."""

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskParams(types.RequestParams):
    """Parameters that identify a task."""

    task_id: str = Field(alias="taskId", max_length=1000)


class UpdateParams(TaskParams):
    """Parameters with the answers to a task's questions."""

    input_responses: dict[str, Any] = Field(alias="inputResponses")


class Tasks:
    """The methods of tasks, based on rows of calls. Tasks survive a restart and belong to the caller that made them."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts

    async def get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Handle `tasks/get`, in both revisions."""
        _check_extension(context)
        call = await self._find(context, params.task_id)
        if not is_modern(context):
            return legacy_task(call, await self._status(context, call), self._result(call))
        return await self._detailed(context, call)

    async def update(self, context: Context, params: UpdateParams) -> dict[str, Any]:
        """Handle `tasks/update` of 2026-07-28: submit answers to the questions of a task."""
        _modern_only(context)
        _check_extension(context)
        call = await self._find(context, params.task_id)
        runtime = self._parts.runtime
        questions = await open_questions(runtime, call, self._parts.caller(context))
        await answer_all(runtime, questions, params.input_responses)
        return {}

    async def cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Handle `tasks/cancel`. A finished task is unchanged, which is an error in 2025-11-25."""
        _check_extension(context)
        call = await self._find(context, params.task_id)
        if is_over(call.status) and not is_modern(context):
            raise MCPError(types.INVALID_PARAMS, "Cannot cancel task: already in terminal status")
        if not is_over(call.status):
            by = self._parts.caller(context).through("mcp")
            await self._parts.runtime.app_calls.cancel(call, by=by)
        return {} if is_modern(context) else legacy_task(call, "cancelled", None)

    async def list(self, context: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        """Handle `tasks/list` of 2025-11-25: return the caller's calls, oldest first."""
        _legacy_only(context)
        caller = self._parts.caller(context)
        first = _offset(params.cursor)
        calls = await self._parts.runtime.app_calls.list(caller.sight, PAGE, first)
        tasks = [
            legacy_task(each, status_of(each, self._result(each)), self._result(each))
            for each in calls
            if each.parent_id is None and self._parts.permits(context, each.name)
        ]
        next_page = {"nextCursor": str(first + PAGE)} if len(calls) == PAGE else {}
        return {"tasks": tasks, **next_page}

    async def result(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Handle `tasks/result` of 2025-11-25: wait for the result of the call and return it."""
        _legacy_only(context)
        call = await self._find(context, params.task_id)
        app_calls = self._parts.runtime.app_calls
        with app_calls.watch(call_of(call)) as watch:
            while not is_over(call.status):
                await self._ask(context, call)
                await watch.next(1.0)
                call = await self._find(context, params.task_id)
        result = self._result(call)
        if result is None:
            raise MCPError(types.INTERNAL_ERROR, f"The task is {call.status}.")
        answer = await self._protocol_result(call, result)
        written = _written(answer)
        return {**written, "_meta": {**written.get("_meta", {}), RELATED: {"taskId": call.id}}}

    async def _ask(self, context: Context, call: Call) -> None:
        """Ask the host's user the task's open questions while waiting for its result."""
        runtime = self._parts.runtime
        for question in await open_questions(runtime, call, self._parts.caller(context)):
            await ask(runtime, question, context)

    async def _find(self, context: Context, task_id: str) -> Call:
        """Return the caller's call with the id, of a tool that they may use. Raises the protocol's error otherwise."""
        check_name(context, task_id)
        caller = self._parts.caller(context)
        try:
            call = await self._parts.runtime.app_calls.find(task_id, caller.users)
        except errors.NotFound:
            raise _unknown(task_id) from None
        if not self._parts.permits(context, call.name):
            raise _unknown(task_id)
        return call

    def _result(self, call: Call) -> ToolResult | None:
        return self._parts.runtime.app_calls.result(call) if is_over(call.status) else None

    async def _protocol_result(self, call: Call, result: ToolResult) -> types.CallToolResult:
        """Return the result in the protocol's format."""
        tool = self._parts.pages.find(call.name)
        return await call_result(self._parts.runtime.files, call.thread_id, result, tool)

    async def _status(self, context: Context, call: Call) -> Status:
        if not is_over(call.status) and await open_questions(
            self._parts.runtime, call, self._parts.caller(context)
        ):
            return "input_required"
        return status_of(call, self._result(call))

    async def _detailed(self, context: Context, call: Call) -> dict[str, Any]:
        """Return the task with its result, its error, or its open questions."""
        result = self._result(call)
        task = task_json(call, status_of(call, result))
        if not is_over(call.status):
            questions = await open_questions(self._parts.runtime, call, self._parts.caller(context))
            input_requests = {each.key: request_of(each, context) for each in questions}
            for each in questions:
                if input_requests[each.key] is None:
                    await refuse(self._parts.runtime, each)
            requests = {key: _written(each) for key, each in input_requests.items() if each is not None}
            return {**task, "status": "input_required", "inputRequests": requests} if requests else task
        if task["status"] == "completed" and result is not None:
            return {**task, "result": _written(await self._protocol_result(call, result))}
        if task["status"] == "failed":
            why = f"The call is {call.status}." if result is None or result.error is None else result.error
            return {**task, "error": {"code": types.INTERNAL_ERROR, "message": why}}
        return task


def _unknown(task_id: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, f"Unknown task: {task_id[:200]}")


def _written(message: BaseModel) -> dict[str, Any]:
    return message.model_dump(by_alias=True, mode="json", exclude_none=True)


def status_of(call: Call, result: ToolResult | None) -> Status:
    """Return the status of a task from its row. A failure reported by the tool counts as a result."""
    if not is_over(call.status):
        return "working"
    code = None if result is None else result.error_code
    if call.status == "cancelled" or code == "cancelled":
        return "cancelled"
    return "failed" if call.status == "expired" or code in _FAILED else "completed"


def task_json(call: Call, status: Status) -> JSONObject:
    """Return a task in the format of 2026-07-28."""
    return {
        "taskId": call.id,
        "status": status,
        "createdAt": call.created_at.isoformat(),
        "lastUpdatedAt": (call.completed_at or call.started_at or call.created_at).isoformat(),
        "ttlMs": None,
        "pollIntervalMs": POLL,
    }


def legacy_task(call: Call, status: Status, result: ToolResult | None) -> dict[str, Any]:
    """Return a task in the format of 2025-11-25, where a tool's failure is a failure of the task."""
    failed = status == "completed" and result is not None and result.status == "error"
    written: dict[str, Any] = {
        "taskId": call.id,
        "status": "failed" if failed else status,
        "createdAt": call.created_at.isoformat(),
        "lastUpdatedAt": (call.completed_at or call.started_at or call.created_at).isoformat(),
        "ttl": None,
        "pollInterval": POLL,
    }
    return {**written, "statusMessage": (result.error or "")[:1000]} if failed and result else written


def is_task_request(context: Context) -> bool:
    """Return whether a host of 2025-11-25 requests a task instead of a result."""
    params: Mapping[str, Any] = context.params or {}
    return context.method == "tools/call" and not is_modern(context) and isinstance(params.get("task"), dict)


def check_name(context: Context, task_id: str) -> None:
    """Reject an HTTP request whose header and body name different tasks, because it could have been misrouted."""
    if context.request is None or not is_modern(context):
        return
    if decode_header_value(context.request.headers.get(MCP_NAME_HEADER)) != task_id:
        raise MCPError(
            types.HEADER_MISMATCH, "Mcp-Name header does not match the request body's 'taskId' parameter"
        )


def _check_extension(context: Context) -> None:
    if is_modern(context) and not knows_tasks(context):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "Missing required client capability",
            {"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


def _modern_only(context: Context) -> None:
    if not is_modern(context):
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)


def _legacy_only(context: Context) -> None:
    if is_modern(context):
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 12:
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor")
    return int(cursor)
