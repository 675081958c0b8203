"""Messages of MCP servers: drops invalid tools before the SDK parses them, and defines messages about tasks."""

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import anyio.abc
import mcp_types as types
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import MessageMetadata
from mcp_types import JSONRPCNotification, RequestId
from pydantic import ConfigDict

from toolwright.adapters.mcp.results import MANY_PARTS, readable_answer

TASKS = "io.modelcontextprotocol/tasks"


class CreatedTask(types.Result):
    """The answer to a call that continues as a task (2026-07-28)."""

    model_config = ConfigDict(extra="ignore")

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: float | None = None
    ttl_ms: float | None = None


class TaskParams(types.RequestParams):
    """Parameters that identify a task."""

    task_id: str


class AnswerParams(TaskParams):
    """Parameters with the answers to a task's questions."""

    input_responses: dict[str, Any]


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    """Request for the status of a task."""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class TaskResult(types.Request[TaskParams, Literal["tasks/result"]]):
    """Request for the result of a finished task (2025-11-25)."""

    method: Literal["tasks/result"] = "tasks/result"
    params: TaskParams
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    """Request to cancel a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class UpdateTask(types.Request[AnswerParams, Literal["tasks/update"]]):
    """Request with the answers to a task's questions (2026-07-28)."""

    method: Literal["tasks/update"] = "tasks/update"
    params: AnswerParams
    name_param = "taskId"


class RawResult(types.Result):
    """An answer as the server sent it."""

    model_config = ConfigDict(extra="allow")

    @property
    def fields(self) -> dict[str, Any]:
        """All fields, with the metadata, if any, as `_meta`."""
        fields = dict(self.model_extra or {})
        return {**fields, "_meta": self.meta} if self.meta else fields


HEADER_MARK = "x-mcp-header"
"""Schema keyword of arguments that are also sent as headers."""
CREATED = "toolwright/task"
"""Metadata key, in a result, of the task that was created instead of the result (2025-11-25)."""
PROGRESS_PAUSE = 0.05
"""Seconds between two delivered progress reports of one call."""
MOST_TOKENS = 1_000
"""Calls whose progress is reported within one pause; progress of further calls is dropped."""


class _Progress:
    """Progress of one call in the current pause: the latest report, and whether the end was delivered."""

    __slots__ = ("ended", "latest", "pause")

    def __init__(self, ended: bool, pause: "asyncio.Task[None]") -> None:
        self.ended = ended
        self.pause = pause
        self.latest: Callable[[], None] | None = None


class ToolsDispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher, extended for tool lists, tasks and progress.

    `listed` are the tools of the last page as sent by the server, `marked` the names of the tools whose arguments are
    also sent as headers. The SDK receives only the parts of tools that it needs, and validates no results: this package
    does. `over` is set when the connection has ended.
    """

    listed: list[Any]  # whatever the server sent
    marked: set[str]

    def __init__(self, *streams: Any, over: asyncio.Event) -> None:  # types of the SDK
        super().__init__(*streams)
        self.listed, self.marked = [], set()
        self._over = over
        self._progress: dict[Any, _Progress] = {}  # by call token

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: RequestId | None = None,
    ) -> dict[str, Any]:
        """Return the answer to a request."""
        answer = await super().send_raw_request(method, params, opts, _related_request_id=_related_request_id)
        if method == "tools/call" and isinstance(answer.get("task"), dict):
            return {"content": [], "_meta": {CREATED: answer["task"]}}  # the SDK has no type for this result
        if method == "tools/call":
            return await _readable(answer)
        if method != "tools/list":
            return answer
        listed = answer.get("tools")
        self.listed = listed if isinstance(listed, list) else []
        marked = await asyncio.to_thread(_marked, self.listed)
        self.marked = {each["name"] for each in marked}
        return {**answer, "tools": marked}

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Receive until the connection has ended."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self._over.set()
            for each in self._progress.values():
                each.pause.cancel()

    def _dispatch_notification(
        self,
        msg: JSONRPCNotification,
        metadata: MessageMetadata,
        on_notify: OnNotify,
        sender_ctx: contextvars.Context | None,
    ) -> None:
        """Deliver a notification.

        Of a call's progress only the latest report per pause is delivered, because the SDK starts two tasks for each.
        """
        token = (msg.params or {}).get("progressToken")
        if msg.method != "notifications/progress" or not isinstance(token, str | int):
            return super()._dispatch_notification(msg, metadata, on_notify, sender_ctx)
        params = msg.params or {}
        is_end = params.get("total") is not None and params.get("progress") == params["total"]
        progress = self._progress.get(token)
        if progress is not None and (progress.ended or not is_end):
            progress.latest = lambda: self._dispatch_notification(msg, metadata, on_notify, sender_ctx)
            return None
        if progress is None:
            if len(self._progress) >= MOST_TOKENS:
                return None
            pause = asyncio.create_task(self._pause(token), name="mcp-progress-pause")
            self._progress[token] = _Progress(is_end, pause)
        else:
            progress.ended, progress.latest = True, None
        return super()._dispatch_notification(msg, metadata, on_notify, sender_ctx)

    async def _pause(self, token: str | int) -> None:
        await asyncio.sleep(PROGRESS_PAUSE)
        latest = self._progress.pop(token).latest
        if latest is not None and self._tg is not None:  # None if the session is ending
            latest()


async def _readable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a call in a form that the SDK can read. Many parts are processed in a thread."""
    content: Any = answer.get("content")  # whatever the server sent
    many = isinstance(content, list) and len(cast("list[Any]", content)) > MANY_PARTS
    return dict(await asyncio.to_thread(readable_answer, answer) if many else readable_answer(answer))


def _marked(listed: list[Any]) -> list[dict[str, Any]]:
    """Return the tools with arguments that are also sent as headers. The SDK validates only these."""
    return [_needed(each) for each in listed if _is_usable(each) and _has_mark(each["inputSchema"])]


def _has_mark(schema: Any) -> bool:  # whatever the server sent
    within = [schema]
    while within:
        part = within.pop()
        if isinstance(part, dict):
            if HEADER_MARK in part:
                return True
            within += part.values()
        elif isinstance(part, list):
            within += part
    return False


def _is_usable(entry: Any) -> bool:  # whatever the server sent
    match entry:
        case {"name": str(), "inputSchema": {"type": "object"}}:
            return True
        case {"name": str(), "inputSchema": {"type": _}}:
            return False
        case {"name": str(), "inputSchema": dict()}:
            return True
        case _:
            return False


def _needed(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a tool from which the SDK reads which arguments are also sent as headers."""
    return {"name": entry["name"], "inputSchema": {"type": "object", **entry["inputSchema"]}}
