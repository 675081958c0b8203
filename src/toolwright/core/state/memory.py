"""A `ThreadState` in memory, for calls outside a run and for tests."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeAlias
from uuid import uuid4

from toolwright.core.checks import brief_value, check_kind
from toolwright.core.env.env import EnvType, EnvVar, Tenvs, checked_name, read_env, stored_only
from toolwright.core.errors import InvalidRequest, ModelError, NotFound
from toolwright.core.files import FileDrafts, NoFiles, as_bytes, written_file
from toolwright.core.json_value import JSON, JSONObject, plain
from toolwright.core.limits import MAX_ATTACHMENT
from toolwright.core.results import Attachment, AttachmentRef, ToolResult
from toolwright.core.state import checks as given
from toolwright.core.state.sandbox import CodeHandle, Sandbox, on_a_loop, read_options
from toolwright.core.state.state import Elicited, Sampled, question, sampling
from toolwright.core.text import brief
from toolwright.core.threads.child import Child, RelatedThread
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import QueuedCall, Side
from toolwright.core.value import changed

Invoke: TypeAlias = Callable[[str, "JSONObject | str"], Awaitable[ToolResult]]
"""Calls a tool by name."""
Ask: TypeAlias = Callable[[JSONObject], Awaitable[Elicited]]
"""Answers a question: an object with a `message`, and a `requestedSchema` or a `url`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress that a call reported."""

    done: float
    total: float | None = None
    text: str | None = None


class MemorySignal:
    """An abort signal that `abort` sets."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def aborted(self) -> bool:
        """Return whether `abort` was called."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return once `abort` is called."""
        await self._event.wait()

    def abort(self) -> None:
        """Set the signal: the run is being cancelled."""
        self._event.set()


class MemoryExecution:
    """Execution of a call outside a run. `stopped` is true after a handler has ended the session."""

    __slots__ = ("_signal", "current_side", "side_stopped", "step_count", "stopped")

    def __init__(self, *, step_count: int = 1, current_side: Side = "side_a") -> None:
        self.step_count = step_count
        self.current_side: Side = current_side
        self.stopped = False
        self.side_stopped = False
        self._signal: MemorySignal | None = None

    @property
    def abort_signal(self) -> MemorySignal:
        """The signal, which a test sets with `abort()`."""
        if self._signal is None:
            self._signal = MemorySignal()
        return self._signal

    def stop_side(self) -> None:
        """Record that the turn of the side has to end."""
        self.side_stopped = True

    def stop_session(self) -> None:
        """Record that the session has to end."""
        self.stopped = True


class MemoryState:
    """A thread in memory. Emitted events are in `events`, reports of progress in `reports`."""

    __slots__ = (
        "_ask", "_bytes", "_call_id", "_created_at", "_drafts", "_env", "_execution", "_invoke", "_sandbox", "_tenvs",
        "agent_id", "arguments", "children", "context", "deps", "events", "lifespan", "messages", "queued", "reports",
        "terminated", "thread_id", "user_id", "values",
    )  # fmt: skip

    def __init__(
        self,
        *,
        thread_id: str = "thread",
        agent_id: str = "agent",
        user_id: str | None = None,
        call_id: str | None = None,
        arguments: JSONObject | None = None,
        messages: Sequence[Message] = (),
        execution: MemoryExecution | None = None,
        created_at: datetime | None = None,
        tenvs: Mapping[str, JSON] | None = None,
        env: Mapping[str, EnvVar | str | Mapping[str, JSON]] | None = None,
        invoke: Invoke | None = None,
        sandbox: Sandbox | None = None,
        ask: Ask | None = None,
        lifespan: object = None,
        deps: object = None,
    ) -> None:
        self.deps: Any = deps  # any value, as a run's caller passes it
        self.lifespan: Any = lifespan  # any value, as from an app's lifespan
        self._sandbox = sandbox
        self._ask = ask
        self._invoke = invoke
        self.children: Sequence[Child] = ()
        self.context: dict[str, Any] = {}  # any values set by handlers
        self.queued: list[QueuedCall | str] = []
        self.terminated = False
        self.values: JSONObject = {}
        self.thread_id = thread_id
        self.agent_id = agent_id
        self.user_id = user_id
        self._call_id = call_id
        self.arguments = arguments
        self.messages = messages
        self.events: list[EventDraft] = []
        self.reports: list[Progress] = []
        self._execution = execution
        self._created_at = created_at
        self._tenvs: Tenvs | None = None
        if tenvs is not None:
            check_kind("The tenvs of a state", tenvs, Mapping, "a dict of names and values")
            self._tenvs = Tenvs(tenvs)
        self._env: dict[str, EnvVar] | None = None if env is None else stored_only(read_env(env))
        self._drafts: FileDrafts | None = None
        self._bytes: dict[str, bytes] = {}

    @property
    def call_id(self) -> str:
        """The id of the call, generated unless given."""
        if self._call_id is None:
            self._call_id = f"call_{uuid4().hex}"
        return self._call_id

    @property
    def created_at(self) -> datetime:
        """The thread's creation time; defaults to the time of the first access."""
        if self._created_at is None:
            self._created_at = datetime.now(UTC)
        return self._created_at

    @property
    def execution(self) -> MemoryExecution:
        """The execution of the call."""
        if self._execution is None:
            self._execution = MemoryExecution()
        return self._execution

    @property
    def tenvs(self) -> Tenvs:
        """The given tenvs."""
        if self._tenvs is None:
            self._tenvs = Tenvs()
        return self._tenvs

    async def env(self, name: str) -> str | None:
        """Return a variable's value, or None."""
        var = (self._env or {}).get(given.text("The name of a value", name))
        return None if var is None else var.value

    async def env_type(self, name: str) -> EnvType | None:
        """Return the type of the variable, `text` or `secret`, or None."""
        var = (self._env or {}).get(given.text("The name of a value", name))
        return None if var is None else var.type

    def set_env(self, name: str, value: str | None, type: EnvType | None = None) -> None:
        """Set or delete (`None`) a variable."""
        changes = read_env(
            {checked_name(name): None if value is None else {"value": value, "type": type or "secret"}}
        )
        encoded_value = {**(self._env or {}), **changes}
        self._env = {each: var for each, var in encoded_value.items() if var is not None}

    @property
    def files(self) -> FileDrafts:
        """The files that were written."""
        if self._drafts is None:
            self._drafts = FileDrafts(NoFiles())
        return self._drafts

    async def read_file(self, path: str) -> bytes:
        """Return the bytes of a file. Raises `NotFound` if there is none."""
        return self._bytes[(await self.files.get(path)).digest]

    async def write_file(
        self, path: str, content: bytes | str, mime_type: str | None = None
    ) -> AttachmentRef:
        """Store a file in memory."""
        data = as_bytes(content, MAX_ATTACHMENT)
        digest = sha256(data).hexdigest()
        file = written_file(
            self.thread_id,
            path,
            len(data),
            digest,
            mime_type,
            new_id=lambda prefix: f"{prefix}_{digest[:20]}",
            at=datetime.now(UTC),
        )
        self._bytes[digest] = data
        self.files.put(file)
        return file.ref

    async def list_files(self, folder: str = "/") -> Sequence[AttachmentRef]:
        """Return the files in a folder and its subfolders, by path."""
        return await self.files.below(folder)

    async def find_files(self, pattern: str) -> Sequence[AttachmentRef]:
        """Return the files whose path or name matches the pattern."""
        return await self.files.matching(pattern)

    async def stat_file(self, path: str) -> AttachmentRef | None:
        """Return the metadata of a file, or None."""
        file = await self.files.at(path)
        return None if file is None else file.ref

    async def delete_file(self, path: str) -> bool:
        """Delete a file and return whether it existed."""
        return await self.files.drop(path)

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """Return the messages passed to the constructor, oldest first."""
        given.page(limit, offset)
        return self.messages[offset : offset + limit]

    async def get_message(self, message_id: str) -> Message | None:
        """Return one of the thread's messages, or None."""
        return self._message(message_id)

    def inject_message(self, content: str, role: str = "user") -> str:
        """Append a message to the thread's messages and return its id."""
        if role not in ("user", "assistant"):
            raise InvalidRequest(
                f"The role of a message must be 'user' or 'assistant', not {brief_value(role)}."
            )
        message_id = f"msg_{uuid4().hex}"
        message = Message(
            id=message_id,
            role="user" if role == "user" else "assistant",
            content=given.message(content),
            created_at=datetime.now(UTC),
        )
        self.messages = (*self.messages, message)
        return message_id

    def update_message(self, message_id: str, content: str) -> None:
        """Change the text of a message. Raises `NotFound` if it does not exist."""
        if self._message(message_id) is None:
            raise NotFound(f"There is no message {brief(repr(message_id), 200)} in this thread.")
        text = given.text("A message", content)
        self.messages = [changed(m, content=text) if m.id == message_id else m for m in self.messages]

    def _message(self, message_id: str) -> Message | None:
        id_ = given.text("The id of a message", message_id)
        return next((each for each in self.messages if each.id == id_), None)

    async def queue_message(
        self, content: str, attachments: Sequence[Attachment | AttachmentRef] = ()
    ) -> None:
        """Add a message to `queued`."""
        message = given.message(content)
        given.files(attachments)
        self.queued.append(message)

    def queue_tool(self, name: str, arguments: JSONObject | str | None = None) -> None:
        """Add a call to `queued`."""
        name, arguments_json = given.tool_call(name, arguments)
        self.queued.append(QueuedCall(name=name, arguments=arguments_json))

    async def invoke_tool(self, name: str, arguments: JSONObject | str | None = None) -> ToolResult:
        """Call another tool of the toolset that made this call. Without a toolset no tool exists."""
        name, arguments_json = given.tool_call(name, arguments)
        if self._invoke is None:
            return ToolResult.fail("No tools can be called here.", error_code="unknown_tool")
        return await self._invoke(name, arguments_json)

    async def elicit(
        self, message: str, schema: object = None, *, url: str | None = None, source: str | None = None
    ) -> Elicited:
        """Ask the question with the given `ask`. Without `ask`, the answer is `cancel`."""
        arguments = question(message, schema, url, source)
        if self._ask is None:
            return Elicited(action="cancel", reason="There is nobody to ask here.")
        return await self._ask(arguments)

    async def sample(
        self,
        messages: Sequence[tuple[str, str]] | str,
        *,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        source: str | None = None,
    ) -> Sampled:
        """Raise `ModelError`: without a runtime there is no model."""
        sampling(messages, system, max_tokens, temperature, source)
        raise ModelError("No model is available here.")

    async def get_child_thread(self, reference: str) -> RelatedThread | None:
        """Return None: the thread has no children."""
        given.text("The reference of a child", reference)
        return None

    async def get_parent_thread(self) -> RelatedThread | None:
        """Return None: the thread has no parent."""
        return None

    async def notify_parent(self, text: str, attachments: Sequence[Attachment | AttachmentRef] = ()) -> None:
        """Raise `InvalidRequest`: the thread has no parent."""
        raise InvalidRequest("This thread has no parent to notify.")

    async def terminate(self, reference: str | None = None) -> None:
        """Record that the thread has to end. Raises `NotFound` for a child."""
        if reference is not None:
            child = given.text("The reference of a child", reference)
            raise NotFound(f"There is no child {brief(repr(child), 200)} of this thread.")
        self.terminated = True

    async def get_value(self, key: str) -> JSON:
        """Return a value that was set."""
        return self.values.get(given.key(key))

    def set_value(self, key: str, value: JSON) -> None:
        """Set or delete (`None`) a value in memory."""
        name, copy = given.key(key), plain(value)
        given.encoded_value(name, copy)
        self.values[name] = copy

    def run_code(self, source: str, options: object = None, **more: object) -> CodeHandle:
        """Run code in the given sandbox. Raises `InvalidRequest` if there is none."""
        if self._sandbox is None:
            raise InvalidRequest("This state runs no code: give it a sandbox.")
        on_a_loop()
        return self._sandbox.start(source, read_options(options, **more))

    def emit(self, event_type: str, data: JSON = None) -> None:
        """Record an event. Raises `InvalidRequest` for an invalid type, `InvalidJSON` for data that is not JSON."""
        event_type, data = given.event(event_type, data)
        self.events.append(EventDraft(event_type, {"data": data}))

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Record a report of progress."""
        given.progress(done, total, text)
        self.reports.append(Progress(done=done, total=total, text=text))
