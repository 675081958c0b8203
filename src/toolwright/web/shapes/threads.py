"""The shapes of threads, their messages, env and files, for the OpenAPI document; `wire` renders them."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from toolwright.web.answers.shapes import ErrorShape, ListShape, Shape


class InvalidTenv(Shape):
    """A tenv of a wrong type; its value is not repeated."""

    name: str
    message: str


class ThreadRefused(ErrorShape):
    """A thread that would not bring what its tools need: every missing name, and every one of a wrong type."""

    missing: list[str] | None = None
    invalid: list[InvalidTenv] | None = None


class ThreadShape(Shape):
    """A thread; `running` while a run is open in it, `terminated` for good; `activeAgentId` answers since a handoff."""

    id: str
    agent_id: str
    active_agent_id: str | None
    parent_thread_id: str | None
    name: str | None
    user_id: str | None
    tags: list[str]
    status: Literal["running", "idle", "terminated"]
    created_at: datetime


class ThreadCreated(Shape):
    """A new thread."""

    thread: ThreadShape
    thread_id: str


class ThreadAnswer(Shape):
    """One thread."""

    thread: ThreadShape


class ThreadList(ListShape):
    """Threads, the oldest first."""

    threads: list[ThreadShape]


class ChildShape(ThreadShape):
    """A thread that another one has made; `reference` is what that one calls it by."""

    reference: str
    child_status: Literal["running", "idle", "terminated", "failed"]


class ChildList(ListShape):
    """The threads that one has made, the oldest first."""

    children: list[ChildShape]


class VariableShape(Shape):
    """A value that is asked for."""

    name: str
    type: Literal["text", "secret"]
    description: str


class VariablesWanted(Shape):
    """An open request: what was asked for, and the names of it that have no value now."""

    request_id: str
    agent_name: str
    required: list[VariableShape]
    missing: list[str]


class VariablesAnswered(Shape):
    """A request that has all it asked for; the thread of the child that begins with it, if it was for one."""

    request_id: str
    status: Literal["success"]
    child_thread_id: str | None = None


class VariablesMissing(ErrorShape):
    """The names that are still missing."""

    missing: list[str]


class MessageCallShape(Shape):
    """A tool call of an assistant's message; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class MessageShape(Shape):
    """A message; `seq` is its place in the thread, absent until it has one."""

    id: str
    role: Literal["user", "assistant", "tool"]
    content: str
    seq: int | None = None
    run_id: str | None = None
    tool_calls: list[MessageCallShape] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_status: Literal["success", "error"] | None = None
    attachments: list[dict[str, JsonValue]] | None = None
    stack: str | None = None
    created_at: datetime


class MessageSent(Shape):
    """A message that was taken, and the run that reads it."""

    message: MessageShape
    run_id: str


class MessageList(ListShape):
    """Messages, the oldest first."""

    messages: list[MessageShape]


class EnvNames(Shape):
    """The names that were set, and whether each is a secret; never a value."""

    env: dict[str, dict[Literal["type"], Literal["text", "secret"]]]


class FileShape(Shape):
    """A file of a thread; `size` is in bytes, `width` and `height` are pixels."""

    path: str
    name: str
    mime_type: str
    size: int
    id: str
    width: int | None = None
    height: int | None = None
    description: str | None = None
    created_at: datetime


class FileList(ListShape):
    """A thread's files, by path."""

    files: list[FileShape]
