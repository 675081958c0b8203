"""The shapes of answers, for the OpenAPI document; `wire` renders them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from toolwright.core.call import CallStatus
from toolwright.core.inbox import InboxStatus, InboxType
from toolwright.core.run import RunStatus, StopReason


class Shape(BaseModel):
    """A part of an answer: camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


class Detail(Shape):
    """What is wrong at one path of a body or query."""

    path: str
    message: str


class ErrorShape(Shape):
    """Every error: a sentence, and a code that stays the same; `details` for a faulty body or query."""

    error: str
    code: str
    details: list[Detail] | None = None


class InvalidTenv(Shape):
    """A tenv of a wrong type; its value is not repeated."""

    name: str
    message: str


class ThreadRefused(ErrorShape):
    """A thread that would not bring what its tools need: every missing name, and every one of a wrong type."""

    missing: list[str] | None = None
    invalid: list[InvalidTenv] | None = None


class HealthShape(Shape):
    """Whether the server can work."""

    status: Literal["ok", "unavailable"]
    version: str
    error: str | None = None


class AgentShape(Shape):
    """An agent."""

    id: str
    agent_id: str
    entity_id: str
    name: str
    description: str
    type: str
    config: dict[str, JsonValue] | None = Field(
        None, description="Of an agent that was configured as JSON, without any values."
    )


class AgentAnswer(Shape):
    """One agent."""

    agent: AgentShape
    agent_id: str
    entity_id: str


class AgentSaved(AgentAnswer):
    """An agent, and whether it is a new one."""

    created: bool


class AgentList(Shape):
    """The agents that the app declares, in their order, then the configured ones, the oldest first."""

    agents: list[AgentShape]


class Triggered(Shape):
    """An agent that was woken."""

    success: Literal[True]
    agent_entity_id: str


class PromptSection(Shape):
    """A part of a prompt."""

    name: str
    text: str


class PromptShape(Shape):
    """What an agent is told, whole and in its parts."""

    prompt: str
    sections: list[PromptSection]


class ThreadShape(Shape):
    """A thread; `running` while a run is open in it."""

    id: str
    agent_id: str
    parent_thread_id: str | None
    name: str | None
    user_id: str | None
    tags: list[str]
    status: Literal["running", "idle"]
    created_at: datetime


class ThreadCreated(Shape):
    """A new thread."""

    thread: ThreadShape
    thread_id: str


class ThreadAnswer(Shape):
    """One thread."""

    thread: ThreadShape


class ThreadList(Shape):
    """Threads, the oldest first."""

    threads: list[ThreadShape]


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


class MessageList(Shape):
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


class FileList(Shape):
    """A thread's files, by path."""

    files: list[FileShape]


class UsageShape(Shape):
    """Tokens read and written."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


class StepEntry(Shape):
    """Something said within a step."""

    message_type: Literal[
        "system_message", "user_message", "assistant_message", "tool_call_message", "tool_return_message"
    ]
    content: str
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_input: JsonValue = None
    created_at: datetime


class StepShape(Shape):
    """One model call and its tool calls."""

    step_number: int
    model_id: str | None
    usage: UsageShape | None
    messages: list[StepEntry]


class RunShape(Shape):
    """A run; `waiting` says what a parked one waits for."""

    id: str
    agent_id: str
    thread_id: str
    status: RunStatus
    stop_reason: StopReason | None
    error: str | None
    output: JsonValue
    chain_depth: int
    usage: UsageShape
    cost: float | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    waiting: dict[str, JsonValue] | None = None


class RunWithSteps(RunShape):
    """A run with its steps."""

    steps: list[StepShape]


class RunAnswer(Shape):
    """One run."""

    run: RunShape


class RunStatusShape(Shape):
    """What a person sees of a run that their message caused in a thread that is not theirs."""

    id: str
    status: RunStatus
    agent_id: str
    started_at: datetime | None
    completed_at: datetime | None


class FullRunAnswer(Shape):
    """One run, whole, or what the caller may see of it."""

    run: RunWithSteps | RunStatusShape


class RunList(Shape):
    """Runs, the newest first."""

    runs: list[RunShape]


class EventShape(Shape):
    """An event; live ones have no `id` and `seq`."""

    id: str | None = None
    seq: int | None = None
    type: str
    ts: datetime
    thread_id: str
    run_id: str | None = None
    agent_entity_id: str | None = None
    data: dict[str, JsonValue] = Field(description="What happened; its form depends on the type.")


class EventList(Shape):
    """Recorded events, in order."""

    events: list[EventShape]


class CallShape(Shape):
    """A tool call."""

    call_id: str
    tool_name: str
    args: JsonValue
    status: CallStatus
    visible: bool
    space_id: str | None
    thread_id: str
    run_id: str
    agent_entity_id: str | None
    created_at: datetime
    expires_at: datetime | None
    deadline: datetime | None
    result: JsonValue = None
    resolved_at: datetime | None = None


class CallAnswer(Shape):
    """One tool call."""

    call: CallShape


class CallList(Shape):
    """Calls, the oldest first."""

    calls: list[CallShape]


class EntityShape(Shape):
    """An entity; agents have no instants."""

    id: str
    type: Literal["human", "agent"]
    external_id: str | None
    display_name: str | None
    metadata: dict[str, JsonValue]
    created_at: datetime | None
    updated_at: datetime | None


class EntityAnswer(Shape):
    """One entity."""

    entity: EntityShape


class EntityList(Shape):
    """Entities: the agents, then the humans, the oldest first."""

    entities: list[EntityShape]


class ClientShape(Shape):
    """A registered front-end."""

    id: str
    entity_id: str
    name: str | None
    metadata: dict[str, JsonValue]
    created_at: datetime


class ClientAnswer(Shape):
    """One client."""

    client: ClientShape


class ClientList(Shape):
    """Clients, the oldest first."""

    clients: list[ClientShape]


class Deleted(Shape):
    """It is gone."""

    success: Literal[True]


class ResultTaken(Shape):
    """A result that was handed in."""

    success: Literal[True]
    agent_entity_id: str | None


class InboxEventShape(Shape):
    """An event of an inbox; `processing` while the run that reads it is open, `failed` once it is parked."""

    event_id: str
    type: InboxType
    status: InboxStatus
    attempts: int
    data: dict[str, JsonValue] = Field(description="What came; its form depends on the type.")
    timestamp: datetime


class InboxEventList(Shape):
    """Events of an inbox, the oldest first."""

    events: list[InboxEventShape]


class InboxEventAnswer(Shape):
    """One event of an inbox."""

    event: InboxEventShape


class StreamTokenShape(Shape):
    """A token that opens one stream."""

    token: str
    expires_at: datetime


Responses = dict[int | str, dict[str, Any]]  # as FastAPI spells them

_WORDS: dict[int | str, str] = {
    400: "A faulty body or query.",
    401: "No key or token, or a wrong or expired one.",
    403: "Not allowed.",
    404: "Not there.",
    409: "Already over, or taken.",
    410: "Expired.",
    413: "The body is too large.",
    416: "None of the bytes is in that range.",
    503: "The journal, or the keys of tokens, are unavailable; try again.",
    "default": "Any other error.",
}


def answers(
    shape: type[Shape], description: str, status: int = 200, errors: tuple[int, ...] = ()
) -> Responses:
    """A route's answers: the good one, and the errors that it shares with others."""
    good: Responses = {status: {"model": shape, "description": description}}
    return good | failures(*errors)


def failures(*errors: int) -> Responses:
    """The error answers of a route behind authentication."""
    statuses: list[int | str] = [*sorted({400, 401, 403, 503, *errors}), "default"]
    return {status: {"model": ErrorShape, "description": _WORDS[status]} for status in statuses}
