"""Messages about tasks: the extension of the revision 2026-07-28, and the core's own of 2025-11-25."""

from typing import Any, Literal

import mcp_types as types
from pydantic import ConfigDict

TASKS = "io.modelcontextprotocol/tasks"


class CreatedTask(types.Result):
    """The answer to a call that goes on as a task (2026-07-28)."""

    model_config = ConfigDict(extra="ignore")

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: float | None = None
    ttl_ms: float | None = None


class TaskParams(types.RequestParams):
    """Names a task."""

    task_id: str


class AnswerParams(TaskParams):
    """Answers to what a task asks for."""

    input_responses: dict[str, Any]


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    """Asks how far a task is."""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class TaskResult(types.Request[TaskParams, Literal["tasks/result"]]):
    """Asks for the result of a task that is over (2025-11-25)."""

    method: Literal["tasks/result"] = "tasks/result"
    params: TaskParams
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    """Asks to stop a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class UpdateTask(types.Request[AnswerParams, Literal["tasks/update"]]):
    """Answers what a task asks for (2026-07-28)."""

    method: Literal["tasks/update"] = "tasks/update"
    params: AnswerParams
    name_param = "taskId"


class Answer(types.Result):
    """An answer as the server sent it."""

    model_config = ConfigDict(extra="allow")

    @property
    def fields(self) -> dict[str, Any]:
        """All fields, with the metadata as `_meta` if there is some."""
        fields = dict(self.model_extra or {})
        return {**fields, "_meta": self.meta} if self.meta else fields
