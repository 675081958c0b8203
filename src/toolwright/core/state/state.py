"""The state of a thread and run, as a tool's handler is given it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from toolwright.core.env.env import EnvType, Tenvs
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import Attachment, AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.state.questions import Elicited, Sampled
from toolwright.core.state.sandbox import CodeHandle
from toolwright.core.threads.child import Child, RelatedThread
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Side


class AbortSignal(Protocol):
    """Says that the run is being cancelled, so that a long handler can stop by itself."""

    @property
    def aborted(self) -> bool:
        """Return whether the run is being cancelled."""
        ...

    async def wait(self) -> None:
        """Return once the run is being cancelled."""
        ...


class Execution(Protocol):
    """The place of a call in its run (S2 §7.2)."""

    @property
    def step_count(self) -> int:
        """The number of the step whose call this is, from 1."""
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
        """End the turn of the side that speaks once this call's result is recorded."""
        ...

    def stop_session(self) -> None:
        """End the run as `session_stop` once this call's result is recorded."""
        ...


class ThreadState(Protocol):
    """The thread as a tool's handler sees it. What it writes is committed together with the call's result."""

    @property
    def thread_id(self) -> str:
        """The thread that calls."""
        ...

    @property
    def agent_id(self) -> str:
        """The agent whose thread it is."""
        ...

    @property
    def user_id(self) -> str | None:
        """The user whose thread it is, if it is somebody's."""
        ...

    @property
    def call_id(self) -> str:
        """This call: stable over retries, and so a key for idempotent effects."""
        ...

    @property
    def created_at(self) -> datetime:
        """Time of the thread's creation."""
        ...

    @property
    def arguments(self) -> JSONObject | None:
        """Arguments of the thread's creation."""
        ...

    @property
    def tenvs(self) -> Tenvs:
        """Tenvs of the thread's creation (S2 §9.6): `state.tenvs.vector_store_id`."""
        ...

    @property
    def execution(self) -> Execution:
        """Place of the call in its run."""
        ...

    @property
    def context(self) -> dict[str, Any]:  # whatever handlers put there
        """Values that the calls of one run share in this process; recorded nowhere, and gone after a restart."""
        ...

    @property
    def lifespan(self) -> Any:  # whatever it has yielded
        """What the app's `lifespan` has yielded, None without one; recorded nowhere."""
        ...

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """The thread's messages, oldest first, those of the running step included."""
        ...

    async def get_message(self, message_id: str) -> Message | None:
        """One message of the thread, None if there is none of that id."""
        ...

    def inject_message(self, content: str, role: str = "user") -> str:
        """Say something in the thread with the call's result, as `user` or `assistant`; the new message's id."""
        ...

    def update_message(self, message_id: str, content: str) -> None:
        """Change the text of a message with the call's result; `NotFound` if there is none of that id."""
        ...

    async def queue_message(
        self, content: str, attachments: Sequence[Attachment | AttachmentRef] = ()
    ) -> None:
        """Send the thread a message with the call's result, which the next step reads."""
        ...

    def queue_tool(self, name: str, arguments: JSONObject | str | None = None) -> None:
        """Have a tool of this prompt called once this step is over, before the model is asked again."""
        ...

    async def invoke_tool(self, name: str, arguments: JSONObject | str | None = None) -> ToolResult:
        """Call a tool of this prompt from within this call, one after another; its failure is an error result."""
        ...

    async def elicit(
        self, message: str, schema: object = None, *, url: str | None = None, source: str | None = None
    ) -> Elicited:
        """Ask a person, and wait for the answer for up to an hour, in which the time of the call stands still.

        `schema` is the JSON Schema of an object of plain fields, or a pydantic model; with `url` they are sent there.
        `source` is who asks, where it is not the tool itself.
        The question is a pending call below this one; a person answers it in the space, a service over the API, in a
        call over MCP the host's user. Raises `InvalidRequest` for an invalid question.
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
        """Ask the agent's model, beside the conversation; in a call over MCP the host's model.

        `messages` is what a user says, or pairs of `user` or `assistant` and what is said. Raises `ModelError` where
        there is no answer, `InvalidRequest` for what cannot be asked.
        """
        ...

    @property
    def children(self) -> Sequence[Child]:
        """The threads that this one has made, as they stood when the call began, or were ended in it."""
        ...

    async def get_child_thread(self, reference: str) -> RelatedThread | None:
        """The child of that reference, None if there is none."""
        ...

    async def get_parent_thread(self) -> RelatedThread | None:
        """The thread that has made this one, None if none has."""
        ...

    async def notify_parent(self, text: str, attachments: Sequence[Attachment | AttachmentRef] = ()) -> None:
        """Tell the parent something with the call's result, with copies of files, by its inbox.

        Raises `InvalidRequest` where there is no parent.
        """
        ...

    async def terminate(self, reference: str | None = None) -> None:
        """End this thread permanently once the call's result is recorded; or a child of it, by its reference."""
        ...

    async def get_value(self, key: str) -> JSON:
        """A value that this thread has kept, None if it has none of that name."""
        ...

    def set_value(self, key: str, value: JSON) -> None:
        """Keep a JSON value in this thread with the call's result; None takes it away.

        Raises `InvalidRequest` for a key of more than 200 characters, or over 1 MiB of JSON.
        """
        ...

    async def env(self, name: str) -> str | None:
        """The value of a name, None if no layer has it: thread, user, app, agent, prompt (D5)."""
        ...

    async def env_type(self, name: str) -> EnvType | None:
        """Return the type of the value, `text` or `secret`, None if there is none."""
        ...

    def set_env(self, name: str, value: str | None, type: EnvType | None = None) -> None:
        """Set a name for this thread with the call's result, or take it away; a secret unless said otherwise.

        Raises `InvalidRequest` for an invalid name or value.
        """
        ...

    async def read_file(self, path: str) -> bytes:
        """The bytes of a file of this thread; `NotFound` if there is none."""
        ...

    async def write_file(
        self, path: str, content: bytes | str, mime_type: str | None = None
    ) -> AttachmentRef:
        """Write a file with the call's result, over one that is there; text is kept as UTF-8.

        Raises `InvalidRequest` for a path that is not safe, `TooLarge` over the limit of an attachment.
        """
        ...

    async def list_files(self, folder: str = "/") -> Sequence[AttachmentRef]:
        """The files in a folder and below, by path."""
        ...

    async def find_files(self, pattern: str) -> Sequence[AttachmentRef]:
        """The files whose path, or name if the pattern has no slash, matches: `*.png`, `/attachments/*`."""
        ...

    async def stat_file(self, path: str) -> AttachmentRef | None:
        """Metadata of a file, None if there is none."""
        ...

    async def delete_file(self, path: str) -> bool:
        """Take a file away with the call's result; whether there was one."""
        ...

    def run_code(self, source: str, options: object = None, **more: object) -> CodeHandle:
        """Run code that nobody trusts in a sandbox; await the handle, or `terminate` it.

        Options: `language` (`typescript`, `javascript`, `python`), `filename`, `execute`, `imports`, `globals`,
        `modules`, `memory_limit_bytes`, `timeout`. Raises `InvalidRequest` for invalid ones, `MissingExtra` without
        the extra `sandbox`.
        """
        ...

    def emit(self, event_type: str, data: JSON = None) -> None:
        """Record an event of your own with the call's result; followers of the thread see it then.

        Raises `InvalidRequest` for an invalid type, also for the types of the runtime's own events.
        """
        ...

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Tell live followers how far the call is. Progress is not recorded."""
        ...
