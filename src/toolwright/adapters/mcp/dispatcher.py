"""What servers answer, made safe for the SDK before it looks at it: a faulty tool costs itself, not the whole list."""

import asyncio
from collections.abc import Mapping
from typing import Any

import anyio.abc
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import RequestId

HEADER_MARK = "x-mcp-header"
"""The keyword of a schema that has an argument sent as a header."""
CREATED = "toolwright/task"
"""Where in the metadata of a result the task is that was made in its place (2025-11-25)."""


class ToolsDispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher; `listed` are the tools of the page that came last, as the server sent
    them, `marked` the names of those whose arguments are sent as headers too.

    The SDK is shown what it needs of them, and judges no results: we do. `over` is set when the connection is.
    """

    listed: list[Any]  # whatever the server sent
    marked: set[str]

    def __init__(self, *streams: Any, over: asyncio.Event) -> None:  # as the SDK has them
        super().__init__(*streams)
        self.listed, self.marked = [], set()
        self._over = over

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: RequestId | None = None,
    ) -> dict[str, Any]:
        """The answer to a request."""
        answer = await super().send_raw_request(method, params, opts, _related_request_id=_related_request_id)
        if method == "tools/call" and isinstance(answer.get("task"), dict):
            return {"content": [], "_meta": {CREATED: answer["task"]}}  # what the SDK knows no result of
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
        """Receive until the connection is over."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self._over.set()


def _marked(listed: list[Any]) -> list[dict[str, Any]]:
    """The tools some of whose arguments are sent as headers too: the SDK judges these, and needs no others."""
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
    """The part of a tool from which the SDK learns which arguments are sent as headers too."""
    return {"name": entry["name"], "inputSchema": {"type": "object", **entry["inputSchema"]}}
