"""What those see who look from outside: values with exactly the fields that the wire shows.

The values of the core are rows, with fences and what only the runtime may know; these carry the same names for the
same things, and nothing that a caller was not told. A field is None where the wire has none.
"""

from datetime import datetime
from typing import Annotated, Literal

from toolwright.core.spaces.entity import EntityType
from toolwright.core.threads.call import CallStatus
from toolwright.core.threads.inbox import InboxStatus, InboxType
from toolwright.core.threads.message import Role
from toolwright.core.threads.run import OVER, RunStatus, StopReason, Usage
from toolwright.core.value import value
from toolwright.wire.models.reading import (
    CAMEL,
    BrokenItem,
    Json,
    JsonObject,
    SeenReference,
    SeenUsage,
    spelt,
)


@value
class Health:
    """Whether the server can work."""

    __pydantic_config__ = CAMEL
    status: Literal["ok", "unavailable"]
    version: str
    error: str | None = None


@value
class Entity:
    """Somebody who takes part; an agent has no instants, since it is declared and not made."""

    __pydantic_config__ = CAMEL
    id: str
    type: EntityType
    external_id: str | None = None
    display_name: str | None = None
    metadata: JsonObject
    created_at: datetime | None = None
    updated_at: datetime | None = None


@value
class FrontEnd:
    """A registered front-end of an entity, which the wire calls a client."""

    __pydantic_config__ = CAMEL
    id: str
    entity_id: str
    name: str | None = None
    metadata: JsonObject
    created_at: datetime


@value
class Thread:
    """A thread; `running` while a run is open in it, `terminated` for good. `agent` is the agent's id, `active_agent`
    that of the agent which answers since it was handed over.
    """

    __pydantic_config__ = CAMEL
    id: str
    agent: Annotated[str, spelt("agentId")]
    active_agent: Annotated[str | None, spelt("activeAgentId")] = None
    parent_id: Annotated[str | None, spelt("parentThreadId")] = None
    name: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    status: Literal["running", "idle", "terminated"]
    created_at: datetime


@value
class Child(Thread):
    """A thread that another one has made, and how it stands; `reference` is what that one calls it by."""

    __pydantic_config__ = CAMEL
    reference: str
    child_status: Literal["running", "idle", "terminated", "failed"]


@value
class VariableSeen:
    """A value that is asked for."""

    __pydantic_config__ = CAMEL
    name: str
    type: Literal["text", "secret"]
    description: str = ""


@value
class Wanted:
    """An open request for values: what was asked for, and the names of it that have no value now."""

    __pydantic_config__ = CAMEL
    request_id: str
    agent_name: str
    required: tuple[VariableSeen, ...]
    missing: tuple[str, ...]


@value
class Answered:
    """A request that has all it asked for; the thread of the child that begins with it, if it was for one."""

    __pydantic_config__ = CAMEL
    request_id: str
    child_thread_id: str | None = None


@value
class MessageCall:
    """A tool call of an assistant's message; `arguments` is JSON text as the model wrote it."""

    __pydantic_config__ = CAMEL
    id: str
    name: str
    arguments: str


@value
class Message:
    """A message of a thread. `seq` is its place (1, 2, 3 …), None until it has one."""

    __pydantic_config__ = CAMEL
    id: str
    role: Role
    content: str
    seq: int | None = None
    run_id: str | None = None
    calls: Annotated[tuple[MessageCall, ...], spelt("toolCalls")] = ()
    call_id: Annotated[str | None, spelt("toolCallId")] = None
    tool_name: str | None = None
    status: Annotated[Literal["success", "error"] | None, spelt("toolStatus")] = None
    stack: str | None = None
    attachments: tuple[SeenReference, ...] = ()
    created_at: datetime


@value
class Sent:
    """A message that is in the journal, and the run that reads it."""

    __pydantic_config__ = CAMEL
    message: Message
    run_id: str


@value
class File:
    """A file of a thread; `size` is in bytes, `width` and `height` are pixels."""

    __pydantic_config__ = CAMEL
    id: str
    path: str
    name: str
    mime_type: str
    size: int
    width: int | None = None
    height: int | None = None
    description: str | None = None
    created_at: datetime


@value
class StepEntry:
    """Something said within a step; `type` is such as `tool_call_message`."""

    __pydantic_config__ = CAMEL
    type: Annotated[str, spelt("messageType")]
    content: str
    tool_name: str | None = None
    call_id: Annotated[str | None, spelt("toolCallId")] = None
    arguments: Annotated[Json, spelt("toolInput")] = None
    created_at: datetime


@value
class Step:
    """One model call and its tool calls; `number` counts 1, 2, 3 … within the run."""

    __pydantic_config__ = CAMEL
    number: Annotated[int, spelt("stepNumber")]
    model: Annotated[str | None, spelt("modelId")] = None
    usage: SeenUsage | None = None
    messages: tuple[StepEntry, ...] = ()


@value
class Run:
    """One activation of a thread. `steps` come with a single run, not in lists; `broken` is what these could not show.

    Of a run that a person may only know about, just the first fields and the instants are there.
    """

    __pydantic_config__ = CAMEL
    id: str
    agent: Annotated[str, spelt("agentId")]
    status: RunStatus
    thread_id: str | None = None
    stop_reason: StopReason | None = None
    error: str | None = None
    output: Json = None
    chain_depth: int = 0
    usage: SeenUsage = Usage()
    cost: float | None = None
    waiting: JsonObject | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    steps: tuple[Step, ...] = ()
    broken: tuple[BrokenItem, ...] = ()

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.status in OVER


@value
class Call:
    """A tool call; `result` is there once it has one, and `resolved_at` says that it has.

    One that another call has made, of a prompt tool or a handler, has that as its `parent_id`.
    """

    __pydantic_config__ = CAMEL
    id: Annotated[str, spelt("callId")]
    name: Annotated[str, spelt("toolName")]
    args: Json
    status: CallStatus
    visible: bool
    space_id: str | None = None
    thread_id: str | None = None
    run_id: str
    parent_id: Annotated[str | None, spelt("parentCallId")] = None
    agent_entity_id: str | None = None
    created_at: datetime
    expires_at: datetime | None = None
    deadline: datetime | None = None
    result: Json = None
    resolved_at: datetime | None = None


@value
class Offer:
    """A call that a worker may claim; `args` are its arguments."""

    __pydantic_config__ = CAMEL
    call_id: Annotated[str, spelt("toolCallId")]
    name: Annotated[str, spelt("toolName")]
    args: Json
    run_id: str
    agent_entity_id: str | None = None


@value
class InboxEvent:
    """An event of an inbox; `processing` while the run that reads it is open, `failed` once it is set aside."""

    __pydantic_config__ = CAMEL
    event_id: str
    type: InboxType
    status: InboxStatus
    attempts: int
    content: Annotated[JsonObject, spelt("data")]
    created_at: Annotated[datetime, spelt("timestamp")]


@value
class Event:
    """An event of a thread or a run. `n` is its number; a live event (a delta, progress) has none."""

    __pydantic_config__ = CAMEL
    type: str
    payload: Annotated[JsonObject, spelt("data")]
    at: Annotated[datetime, spelt("ts")]
    n: Annotated[int | None, spelt("id")] = None
    thread_id: str | None = None
    run_id: str | None = None
    agent_entity_id: str | None = None


@value
class StreamToken:
    """A token that opens one stream, as `?token=`, until it expires."""

    __pydantic_config__ = CAMEL
    token: str
    expires_at: datetime
