"""`ThreadState`: the interface between a tool's handler and its thread, run and call; and its questions."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, cast

from pydantic import BaseModel, PydanticUserError
from typing_extensions import TypeVar

from toolwright.core.checks import brief_value
from toolwright.core.env.env import EnvType, Tenvs
from toolwright.core.errors import InvalidRequest, ModelError
from toolwright.core.json_value import JSON, JSONObject, plain
from toolwright.core.results import Attachment, AttachmentRef, ToolResult
from toolwright.core.state import checks as given
from toolwright.core.state.sandbox import CodeHandle
from toolwright.core.text import pydantic_reason
from toolwright.core.threads.call import Call
from toolwright.core.threads.child import Child, RelatedThread
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import CutReason, Side, cut_reason
from toolwright.core.value import Value

Action: TypeAlias = Literal["accept", "decline", "cancel"]

Deps = TypeVar("Deps", covariant=True, default=Any)
"""The type of a run's deps, `Any` unless it is named."""

ELICIT = "elicit"
"""Name of the calls that represent questions."""

ELICIT_TIMEOUT = 3600.0
"""Seconds within which a question must be answered."""
SAMPLE = "sample"
"""Name of the calls that the agent's model answers."""
MAX_MESSAGES = 1_000
_SPEAKERS = ("user", "assistant")


class Elicited(Value):
    """The answer to a question. `content` is the input of an accepted form, otherwise None.

    `cancel` is also the answer to a question that was not answered in time; `reason` says why.
    """

    action: Action
    content: JSONObject | None = None
    reason: str | None = None


def question(
    message: object, schema: object = None, url: object = None, source: str | None = None
) -> JSONObject:
    """Return the arguments of the call that represents a question. Raises `InvalidRequest` for an invalid question."""
    arguments: JSONObject = {"message": given.message(message)}
    if schema is not None and url is not None:
        raise InvalidRequest("A question must have either a schema or a URL, not both.")
    if url is not None:
        arguments["url"] = given.text("The URL of a question", url)
    else:
        arguments["requestedSchema"] = form_of(schema)
    if source is not None:
        arguments["source"] = given.text("The source of a question", source)
    return arguments


def form_of(schema: object) -> JSONObject:
    """Return the JSON Schema of the requested input: an object of plain fields. Raises `InvalidRequest`."""
    if schema is None:
        return {"type": "object", "properties": {}}
    model = model_of(schema)
    if model is not None:
        try:
            schema = model.model_json_schema()
        except PydanticUserError as error:
            raise InvalidRequest(
                f"The schema of a question cannot be used: {pydantic_reason(error)}"
            ) from error
    copy = plain(schema)
    if not isinstance(copy, dict) or copy.get("type") != "object":
        raise InvalidRequest(
            f"The schema of a question must be an object schema or a pydantic model, not {brief_value(schema)}."
        )
    return copy


def model_of(schema: object) -> type[BaseModel] | None:
    """Return the pydantic model that a handler gave as the form of a question, or None for a JSON Schema."""
    if isinstance(schema, type) and issubclass(cast("type[object]", schema), BaseModel):
        return cast("type[BaseModel]", schema)
    return None


def question_of(call: Call) -> JSONObject | None:
    """Return the question asked by a nested call, or None if the call is not a question."""
    if call.name != ELICIT or call.kind != "space" or call.parent_id is None:
        return None
    arguments = json.loads(call.arguments)
    return arguments if "requestedSchema" in arguments or "url" in arguments else None


class Sampled(Value):
    """The model's answer, and its name. `stop_reason` says why the answer is not whole; None if it is."""

    text: str
    model: str = ""
    stop_reason: CutReason | None = None


def sampling(
    messages: object, system: object, max_tokens: object, temperature: object, source: object
) -> JSONObject:
    """Return the arguments of a sampling call. Raises `InvalidRequest` if they are invalid."""
    arguments: JSONObject = {"messages": _messages(messages)}
    if system is not None:
        arguments["system"] = given.text("The system prompt", system)
    if max_tokens is not None:
        if type(max_tokens) is not int or max_tokens < 1:
            raise InvalidRequest(f"max_tokens must be a whole number from 1, not {brief_value(max_tokens)}.")
        arguments["maxTokens"] = max_tokens
    if temperature is not None:
        if isinstance(temperature, bool) or not isinstance(temperature, int | float) or temperature < 0:
            raise InvalidRequest(f"temperature must be a number from 0, not {brief_value(temperature)}.")
        arguments["temperature"] = temperature
    if source is not None:
        arguments["source"] = given.text("The source of a question", source)
    return arguments


def _messages(messages: object) -> list[JSON]:
    if isinstance(messages, str):
        return [{"role": "user", "content": given.message(messages)}]
    if not isinstance(messages, Sequence) or not 0 < len(cast("Sequence[object]", messages)) <= MAX_MESSAGES:
        raise InvalidRequest(f"The messages must be a text, or 1 to {MAX_MESSAGES} pairs of role and text.")
    checked: list[JSON] = []
    for each in cast("Sequence[object]", messages):
        if not isinstance(each, tuple) or len(cast("tuple[object, ...]", each)) != 2:
            raise InvalidRequest(
                f"A message must be a pair of role and text, not {brief_value(cast('object', each))}."
            )
        role, content = cast("tuple[object, object]", each)
        if role not in _SPEAKERS:
            raise InvalidRequest(f"The role must be 'user' or 'assistant', not {brief_value(role)}.")
        checked.append({"role": cast("str", role), "content": given.text("A message", content)})
    return checked


def sampling_of(call: Call) -> JSONObject | None:
    """Return the request of a nested sampling call that waits for a host, or None for any other call."""
    if call.name != SAMPLE or call.kind != "space" or call.parent_id is None:
        return None
    return cast("JSONObject", json.loads(call.arguments))


def sampled(result: ToolResult) -> Sampled:
    """Return the model's answer in a call's result. Raises `ModelError` for a failed call."""
    answer = result.result
    if result.status == "error" or not isinstance(answer, dict):
        raise ModelError(result.error or "The model gave no answer.")
    return Sampled(
        text=str(answer.get("text", "")),
        model=str(answer.get("model", "")),
        stop_reason=cut_reason(answer.get("stopReason")),
    )


class AbortSignal(Protocol):
    """Signal that the run is being cancelled, so that a long handler can stop early."""

    @property
    def aborted(self) -> bool:
        """Return whether the run is being cancelled."""
        ...

    async def wait(self) -> None:
        """Return once the run is being cancelled."""
        ...


class Execution(Protocol):
    """The execution of a call: its step, its side, and the abort signal (S2 §7.2)."""

    @property
    def step_count(self) -> int:
        """The number of the step that made this call, from 1."""
        ...

    @property
    def current_side(self) -> Side:
        """The side that made the call."""
        ...

    @property
    def abort_signal(self) -> AbortSignal:
        """Set when the run is being cancelled."""
        ...

    def stop_side(self) -> None:
        """End the turn of the active side once this call's result is recorded."""
        ...

    def stop_session(self) -> None:
        """End the run as `session_stop` once this call's result is recorded."""
        ...


class ThreadState(Protocol[Deps]):
    """The thread as a tool's handler sees it. All writes are committed together with the call's result.

    Annotate the parameter as `ThreadState[Customer]` to have `deps` typed.
    """

    @property
    def thread_id(self) -> str:
        """The id of the calling thread."""
        ...

    @property
    def agent_id(self) -> str:
        """The id of the thread's agent."""
        ...

    @property
    def user_id(self) -> str | None:
        """The id of the thread's user, or None."""
        ...

    @property
    def call_id(self) -> str:
        """The id of the call. It is the same if the call runs again: use it as an idempotency key."""
        ...

    @property
    def created_at(self) -> datetime:
        """Time of the thread's creation."""
        ...

    @property
    def arguments(self) -> JSONObject | None:
        """Arguments passed at the thread's creation."""
        ...

    @property
    def tenvs(self) -> Tenvs:
        """Tenvs of the thread (S2 §9.6), set at its creation: `state.tenvs.vector_store_id`."""
        ...

    @property
    def execution(self) -> Execution:
        """The execution of the call: its step, its side, and the abort signal."""
        ...

    @property
    def context(self) -> dict[str, Any]:  # any values set by handlers
        """Values that the calls of one run share in this process; not recorded, and lost at a restart."""
        ...

    @property
    def deps(self) -> Deps:
        """The value that the caller of the run passed as `deps=`, or None. Changes to it are not recorded."""
        ...

    @property
    def lifespan(self) -> Any:  # any value yielded by it
        """The value that the app's `lifespan` yields, or None. It is not recorded."""
        ...

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """Return the thread's messages, oldest first, including the current step's."""
        ...

    async def get_message(self, message_id: str) -> Message | None:
        """Return a message of the thread, or None if it does not exist."""
        ...

    def inject_message(self, content: str, role: str = "user") -> str:
        """Add a message as `user` or `assistant`, committed with the call's result; return its id."""
        ...

    def update_message(self, message_id: str, content: str) -> None:
        """Change a message's text, committed with the call's result. Raises `NotFound` if it does not exist."""
        ...

    async def queue_message(
        self, content: str, attachments: Sequence[Attachment | AttachmentRef] = ()
    ) -> None:
        """Send the thread a message, committed with the call's result; the next step reads it."""
        ...

    def queue_tool(self, name: str, arguments: JSONObject | str | None = None) -> None:
        """Queue a call of a tool of this prompt. It is executed after this step, before the next model request."""
        ...

    async def invoke_tool(self, name: str, arguments: JSONObject | str | None = None) -> ToolResult:
        """Call a tool of this prompt from within this call and wait for it. Its failure is an error result."""
        ...

    async def elicit(
        self, message: str, schema: object = None, *, url: str | None = None, source: str | None = None
    ) -> Elicited:
        """Ask a person and wait for the answer for up to an hour. The call's timeout is paused in the meantime.

        `schema` is the JSON Schema of an object of plain fields, or a pydantic model, whose validators apply too. With
        `url` the person is sent to that page. `source` names the asking party if it is not the tool itself. The
        question is a pending call, a child of this one. It is answered by a person in the space, by a service over the
        API, or by the host's user in a call over MCP. Raises `InvalidRequest` for an invalid question.
        """
        ...

    async def sample(
        self,
        messages: Sequence[tuple[str, str]] | str,
        *,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        source: str | None = None,
    ) -> Sampled:
        """Send a request to the agent's model outside the conversation; in a call over MCP, to the host's model.

        `messages` is a string, or pairs of a role (`user`, `assistant`) and a string. Raises `ModelError` if there is
        no answer, `InvalidRequest` for invalid arguments.
        """
        ...

    @property
    def children(self) -> Sequence[Child]:
        """The child threads, with their status at the start of the call, or after the call terminated them."""
        ...

    async def get_child_thread(self, reference: str) -> RelatedThread | None:
        """Return the child with that reference, or None."""
        ...

    async def get_parent_thread(self) -> RelatedThread | None:
        """Return the parent thread, or None."""
        ...

    async def notify_parent(self, text: str, attachments: Sequence[Attachment | AttachmentRef] = ()) -> None:
        """Send a message to the parent's inbox, with copies of files, committed with the call's result.

        Raises `InvalidRequest` if the thread has no parent.
        """
        ...

    async def terminate(self, reference: str | None = None) -> None:
        """Permanently end this thread, or the child with that reference, after the call's result is recorded."""
        ...

    async def get_value(self, key: str) -> JSON:
        """Return a stored value of this thread, or None if it does not exist."""
        ...

    def set_value(self, key: str, value: JSON) -> None:
        """Store a JSON value in this thread, committed with the call's result; None deletes it.

        Raises `InvalidRequest` for a key of more than 200 characters, or over 1 MiB of JSON.
        """
        ...

    async def env(self, name: str) -> str | None:
        """Return a variable's value, or None if no layer has it. Lookup: thread, user, app, agent, prompt (D5)."""
        ...

    async def env_type(self, name: str) -> EnvType | None:
        """Return the type of the variable, `text` or `secret`, or None if it does not exist."""
        ...

    def set_env(self, name: str, value: str | None, type: EnvType | None = None) -> None:
        """Set or delete (None) a variable of this thread, committed with the call's result; by default a secret.

        Raises `InvalidRequest` for an invalid name or value.
        """
        ...

    async def read_file(self, path: str) -> bytes:
        """Return the bytes of a file of this thread. Raises `NotFound` if it does not exist."""
        ...

    async def write_file(
        self, path: str, content: bytes | str, mime_type: str | None = None
    ) -> AttachmentRef:
        """Write or replace a file, committed with the call's result; text is stored as UTF-8.

        Raises `InvalidRequest` for an unsafe path, `TooLarge` if it exceeds the maximum size of an attachment.
        """
        ...

    async def list_files(self, folder: str = "/") -> Sequence[AttachmentRef]:
        """Return the files in a folder and its subfolders, by path."""
        ...

    async def find_files(self, pattern: str) -> Sequence[AttachmentRef]:
        """Return the files whose path, or name if the pattern has no slash, matches: `*.png`, `/attachments/*`."""
        ...

    async def stat_file(self, path: str) -> AttachmentRef | None:
        """Return metadata of a file, or None if it does not exist."""
        ...

    async def delete_file(self, path: str) -> bool:
        """Delete a file, committed with the call's result; return whether it existed."""
        ...

    def run_code(self, source: str, options: object = None, **more: object) -> CodeHandle:
        """Run untrusted code in a sandbox; await the handle, or `terminate` it.

        Options: `language` (`typescript`, `javascript`, `python`), `filename`, `execute`, `imports`, `globals`,
        `modules`, `memory_limit_bytes`, `timeout`. Raises `InvalidRequest` for invalid options, `MissingExtra` without
        the extra `sandbox`.
        """
        ...

    def emit(self, event_type: str, data: JSON = None) -> None:
        """Record a custom event with the call's result; followers of the thread receive it then.

        Raises `InvalidRequest` for an invalid type, including the types of the runtime's own events.
        """
        ...

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Send the call's progress to live subscribers. It is not recorded."""
        ...
