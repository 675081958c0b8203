"""Peers whose calls become tasks: as in 2025-11-25, and by the extension `io.modelcontextprotocol/tasks` (SEP-2663)."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.mcp.peers.peer import Answer, Asked, JSONObject, Peer, text, tool
from tests.mcp.peers.questions import form, request

EXTENSION = "io.modelcontextprotocol/tasks"
POLL = 20
"""Milliseconds that a client must wait between two polls."""
TASKS: JSONObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@dataclass(kw_only=True, eq=False)
class Task:
    """One task; it ends after `looks` polls, a number that `finish` reduces."""

    id: str
    tool: str
    looks: int
    status: str = "working"
    message: str = "begun"
    answers: JSONObject = field(default_factory=dict[str, object])
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def result(self) -> JSONObject:
        """The answer of a call without a task."""
        return text(f"{self.tool} done", structuredContent={"task": self.id, **self.answers})

    def look(self) -> None:
        """Advance one step."""
        if self.status != "working":
            return
        self.looks -= 1
        self.message = f"{self.looks} looks left"
        if self.looks > 0 or self.tool == "endless":
            return
        ends = {
            "fails": "failed",
            "gives_up": "cancelled",
            "asks": "completed" if self.answers else "input_required",
        }
        self.end(ends.get(self.tool, "completed"))

    def end(self, status: str) -> None:
        """Set the status."""
        self.status = status
        if status not in ("working", "input_required"):
            self.ended.set()


NAMES = ("work", "endless", "fails", "gives_up", "asks", "is_error", "lost", "required")


def tasks() -> Peer:
    """Each call becomes a task if the client supports it: see `NAMES`. `required` cannot be called without one.

    `work` ends after two polls, `endless` never, `fails` with a protocol error, `gives_up` is cancelled by the
    server, `asks` requests input first, `is_error` has an error as its result, `lost` is unknown at the first poll.
    """
    return _Tasks().peer()


def tasks_of_2025() -> Peer:
    """The same tasks in 2025-11-25 only."""
    peer = _Tasks().peer()
    peer.revision = "2025-11-25"
    return peer


class _Tasks:
    """The tasks of one peer."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self._numbers = count(1)

    def peer(self) -> Peer:
        """Return a server with all of its methods."""
        support = {name: "required" if name == "required" else "optional" for name in NAMES}
        answers: dict[str, Answer] = {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
            "tasks/update": self._update,
        }
        return Peer(
            tools=[tool(name, execution={"taskSupport": each}) for name, each in support.items()],
            calls=dict.fromkeys(NAMES, self._call),
            answers=answers,
            extensions={EXTENSION: {}},
            capabilities={"tasks": TASKS},
        )

    async def _call(self, asked: Asked) -> JSONObject:
        name = str(asked.params["name"])
        if not _can(asked):
            if name == "required":
                code = types.MISSING_REQUIRED_CLIENT_CAPABILITY if asked.modern else types.METHOD_NOT_FOUND
                needs: JSONObject = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
                raise MCPError(code, "This tool needs a task", needs)
            return text(f"{name} done")
        task = Task(id=f"task_{next(self._numbers)}", tool=name, looks=2)
        self.tasks[task.id] = task
        shown = _shown(task, asked)
        return {"resultType": "task", **shown} if asked.modern else {"task": shown}

    def _task(self, asked: Asked) -> Task:
        task = self.tasks.get(str(asked.params.get("taskId")))
        if task is None or task.tool == "lost":
            raise MCPError(types.INVALID_PARAMS, "Task not found")
        return task

    async def _get(self, asked: Asked) -> JSONObject:
        task = self._task(asked)
        task.look()
        shown = _shown(task, asked)
        return {**shown, **_end(task)} if asked.modern else shown

    async def _result(self, asked: Asked) -> JSONObject:
        """2025-11-25: block until the task has ended, and ask its questions in the meantime."""
        task = self._task(asked)
        while not task.ended.is_set():
            task.look()
            if task.status == "input_required":
                task.answers = {"answer": await request(asked, "elicitation/create", form())}
                task.end("completed")
            elif task.tool == "endless":
                await task.ended.wait()
        if task.status == "failed":
            raise MCPError(types.INTERNAL_ERROR, "The work failed")
        if task.status == "cancelled":
            raise MCPError(types.INVALID_REQUEST, "The task was cancelled")
        related = {"io.modelcontextprotocol/related-task": {"taskId": task.id}}
        return {**_result_of(task), "_meta": related}

    async def _list(self, asked: Asked) -> JSONObject:
        return {"tasks": [_shown(task, asked) for task in self.tasks.values()]}

    async def _cancel(self, asked: Asked) -> JSONObject:
        task = self._task(asked)
        if not task.ended.is_set():
            task.end("cancelled")
        return {} if asked.modern else _shown(task, asked)

    async def _update(self, asked: Asked) -> JSONObject:
        task = self._task(asked)
        task.answers = {"answer": dict(asked.params.get("inputResponses") or {}).get("where")}
        task.end("completed")
        return {}


def _can(asked: Asked) -> bool:
    """Return whether the client supports a task for this call."""
    if not asked.modern:
        return asked.params.get("task") is not None
    capabilities = asked.context.session.client_capabilities
    return EXTENSION in ((capabilities and capabilities.extensions) or {})


def _result_of(task: Task) -> JSONObject:
    return text("It was in vain.", isError=True) if task.tool == "is_error" else task.result


def _end(task: Task) -> JSONObject:
    """Return the additional fields of a task's status in 2026-07-28."""
    match task.status:
        case "completed":
            return {"result": _result_of(task)}
        case "failed":
            return {"error": {"code": types.INTERNAL_ERROR, "message": "The work failed"}}
        case "input_required":
            return {"inputRequests": {"where": {"method": "elicitation/create", "params": form()}}}
        case _:
            return {}


def _shown(task: Task, asked: Asked) -> JSONObject:
    now = datetime.now(UTC).isoformat()
    life = (
        {"ttlMs": 60_000, "pollIntervalMs": POLL} if asked.modern else {"ttl": 60_000, "pollInterval": POLL}
    )
    shown = {"taskId": task.id, "status": task.status, "statusMessage": task.message}
    return {**shown, "createdAt": now, "lastUpdatedAt": now, **life}
