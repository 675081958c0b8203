"""Tasks that MCP servers execute: how far they are, in both revisions, their questions and their ends."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast, get_args

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from toolwright.adapters.mcp.http import OF_OURS, SESSION_GONE
from toolwright.adapters.mcp.peer import within
from toolwright.adapters.mcp.resources import with_linked_files
from toolwright.adapters.mcp.results import judged, parsed_answer
from toolwright.adapters.mcp.session import REQUEST_TIMEOUT, OpenSession
from toolwright.adapters.mcp.task_messages import (
    Answer,
    AnswerParams,
    CancelTask,
    GetTask,
    TaskParams,
    TaskResult,
    UpdateTask,
)
from toolwright.core.env.logs import logger
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.servers import McpTaskGone, McpTaskState, McpUnavailable, TaskStatus
from toolwright.core.results.result import ToolResult
from toolwright.core.text import brief, sentence
from toolwright.core.value import changed

log = logger("toolwright.mcp")

_RESULT_TIMEOUT = 60.0  # seconds for the result of a task that is over
_ELICITED: TypeAdapter[types.ElicitRequest] = TypeAdapter(types.ElicitRequest)


async def task_state(
    session: OpenSession,
    task_id: str,
    output: JSONObject | None,
    by_nobody: AbstractAsyncContextManager[None],
) -> McpTaskState:
    """The state of a task, whose structured result must fit `output`. Raises `McpUnavailable` or `McpTaskGone`.

    While its result is fetched the server may ask something: within `by_nobody` no other call is taken for the asker.
    """
    told = await _asked(session, GetTask(params=TaskParams(task_id=task_id)))
    status = told.get("status")
    if status not in get_args(TaskStatus):
        raise McpUnavailable("it tells no status of the task")
    message = told.get("statusMessage")
    state = McpTaskState(
        status=cast("TaskStatus", status),
        poll=_poll(told),
        message=message if isinstance(message, str) else None,
    )
    match status:
        case "completed" if session.modern:
            return changed(state, result=await _result(session, told.get("result"), output))
        case "completed" | "failed" | "input_required" if not session.modern:
            result = await _fetched(session, task_id, output, by_nobody)
            return changed(state, status="completed", result=result)
        case "failed":
            return changed(state, result=_failure(told.get("error"), state.message))
        case "input_required" if session.modern:
            return changed(state, questions=_questions(told.get("inputRequests")))
        case _:
            return state


async def answer_task(session: OpenSession, task_id: str, answers: Mapping[str, JSON]) -> None:
    """Hand in the answers to its questions, by their keys."""
    await _asked(session, UpdateTask(params=AnswerParams(task_id=task_id, input_responses=dict(answers))))


async def cancel_task(session: OpenSession, task_id: str) -> None:
    """Ask the server to stop; one that refuses has the last word. Raises `McpUnavailable` or `McpTaskGone`."""
    try:
        await _asked(session, CancelTask(params=TaskParams(task_id=task_id)))
    except _Refused as error:
        log.info("An MCP server does not cancel a task: %s", error)


def _poll(told: Mapping[str, Any]) -> float | None:
    interval = told.get("pollIntervalMs", told.get("pollInterval"))
    fits = isinstance(interval, int | float) and not isinstance(interval, bool) and 0 < interval < 1e9
    return interval / 1000 if fits else None


async def _fetched(
    session: OpenSession,
    task_id: str,
    output: JSONObject | None,
    by_nobody: AbstractAsyncContextManager[None],
) -> ToolResult:
    """The result of a task that is over, or that asks something first (2025-11-25).

    What it asks then comes as a request of its own, and nobody can be asked: no run waits for the call in memory.
    """
    try:
        async with by_nobody:
            request = TaskResult(params=TaskParams(task_id=task_id))
            return await _result(session, await _asked(session, request, _RESULT_TIMEOUT), output)
    except _Refused as error:
        return ToolResult.fail(sentence(f"The task failed: {error}"), error_code="mcp_task_failed")


async def _result(session: OpenSession, answer: object, output: JSONObject | None) -> ToolResult:
    try:
        parsed = parsed_answer(cast("Mapping[str, Any]", answer))
        return await judged(await with_linked_files(session, parsed, REQUEST_TIMEOUT), output)
    except (ValidationError, TypeError, ValueError, AttributeError):
        return ToolResult.fail(
            "The MCP server gave a task a result that is none.", error_code="mcp_bad_answer"
        )


def _failure(error: object, message: str | None) -> ToolResult:
    match error:
        case {"message": str(why)}:
            message = why
        case _:
            pass
    said = f"The task failed: {brief(message, 2_000)}" if message else "The task failed."
    return ToolResult.fail(sentence(said), error_code="mcp_task_failed")


def _questions(requests: object) -> Mapping[str, JSONObject]:
    """What people are asked, by its key: a message with the schema of the answer, or with a URL. No other requests."""
    questions: dict[str, JSONObject] = {}
    for key, request in cast("Mapping[str, Any]", requests if isinstance(requests, dict) else {}).items():
        try:
            params = _ELICITED.validate_python(request, by_name=False).params
        except ValidationError:
            continue
        asked: JSONObject = {"message": params.message}
        if isinstance(params, types.ElicitRequestURLParams):
            asked["url"] = params.url
        else:
            asked["requestedSchema"] = cast("JSONObject", params.requested_schema)
        questions[key] = asked
    return questions


class _Refused(McpUnavailable):
    """The server has answered with an error of its own."""


async def _asked(session: OpenSession, request: Any, seconds: float = REQUEST_TIMEOUT) -> dict[str, Any]:
    """The fields of the answer to a request about a task."""
    try:
        answer = await session.client.send_request(request, Answer, seconds)
    except MCPError as error:
        if error.error.code == SESSION_GONE:  # the server may know the task in another session
            with within(None):
                return await _asked(session, request, seconds)
        words = brief(error.error.message, 500)
        if error.error.code == types.INVALID_PARAMS:
            raise McpTaskGone(words) from error
        if error.error.code in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, *OF_OURS):
            raise McpUnavailable(words) from error
        raise _Refused(words) from error
    except (ValidationError, RuntimeError, ValueError) as error:
        raise McpUnavailable(f"it answers with what is no answer: {brief(str(error), 500)}") from error
    return answer.fields
