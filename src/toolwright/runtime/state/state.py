"""State of a thread for a handler within a run: reads are live, writes are committed with the call's result."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from toolwright.core.checks import brief_value
from toolwright.core.env.env import EnvType, Tenvs
from toolwright.core.errors import InvalidRequest
from toolwright.core.files import FileDrafts, as_bytes, checked_path
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.questions import OpenForms
from toolwright.core.ports import Bus
from toolwright.core.results import Attachment, AttachmentRef, ToolResult
from toolwright.core.state import checks as given
from toolwright.core.state.sandbox import CodeHandle, Sandbox, on_a_loop, read_options
from toolwright.core.threads.call import Call
from toolwright.core.threads.child import Child, RelatedThread
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.execution import RunExecution, Skipped, writes, writes_later
from toolwright.runtime.env import Environment
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.state.env import CallEnv
from toolwright.runtime.state.facts import CallMessages, NestedCalls
from toolwright.runtime.state.family import Family
from toolwright.runtime.state.questions import Questions
from toolwright.runtime.state.values import CallValues
from toolwright.runtime.threads.thread_tree import children_of, described
from toolwright.wire.event import bounded, live_event, subagent_event

T = TypeVar("T")
Invoke: TypeAlias = Callable[[RunContext, "RunState", str, str, bool], Awaitable[ToolResult]]
"""Makes a nested call of the tool with that name, with its arguments as JSON text; see `make`."""


class HandlerServices(NamedTuple):
    """The services of a runtime that handlers use through their state."""

    bus: Bus
    files: FileKeeper
    environment: Environment
    store: Store
    sandbox: Sandbox
    forms: OpenForms


class RunState(Questions):
    """The `ThreadState` of one call of a run. Its writes are committed with the call's result.

    Without a call it only reads: for hooks, and for functions that depend on the run. It reads no secrets then.
    """

    __slots__ = (
        "_active",
        "_bus",
        "_calls_or_none",
        "_children",
        "_drafts",
        "_effects",
        "_emitted",
        "_env_or_none",
        "_environment",
        "_family_or_none",
        "_files",
        "_invoke",
        "_makers",
        "_sandbox",
        "_store",
        "_values_or_none",
        "_words_or_none",
        "execution",
        "is_builtin",
        "loop",
        "number",
        "prolong",
    )

    def __init__(
        self,
        context: RunContext,
        call: Call | None,
        services: HandlerServices,
        invoke: Invoke,
        children: Sequence[Thread] = (),
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.prolong: Callable[[], None] | None = None  # called by reports of progress
        self._context = context
        self._call = call
        self._bus, self._files, self._environment, self._store, self._sandbox, self._forms = services
        self._invoke = invoke
        self._children = children
        self._active = context.frame.active
        self._emitted: list[EventDraft] = []
        self._effects: list[Effect] = []
        self._makers: list[Callable[[], Awaitable[Effect]]] = []
        self._drafts: FileDrafts | None = None
        self._words_or_none: CallMessages | None = None  # created on first use
        self._env_or_none: CallEnv | None = None
        self._family_or_none: Family | None = None
        self._calls_or_none: NestedCalls | None = None
        self._values_or_none: CallValues | None = None
        self.number = 0
        self.is_builtin = False
        self.execution = RunExecution(
            step_count=context.run.step_count if call is None else call.step,
            current_side=context.run.side,
            abort=context.abort,
            reads=call is None,
        )

    @property
    def _env(self) -> CallEnv:
        if self._env_or_none is None:
            self._env_or_none = CallEnv(self._context, self._active, self._call, self._environment)
        return self._env_or_none

    @property
    def _words(self) -> CallMessages:
        if self._words_or_none is None:
            self._words_or_none = CallMessages(self._context)
        return self._words_or_none

    @property
    def _family(self) -> Family:
        if self._family_or_none is None:
            call_id = "" if self._call is None else self._call.id
            parts = (self._context, call_id, self._store, self._children, self.execution, self._files)
            self._family_or_none = Family(*parts)
        return self._family_or_none

    @property
    def _calls(self) -> NestedCalls:
        if self._calls_or_none is None:
            self._calls_or_none = NestedCalls(partial(self._invoke, self._context, self), self.execution)
        return self._calls_or_none

    @property
    def values(self) -> CallValues:
        """The thread's values, as read and set by this call."""
        if self._values_or_none is None:
            self._values_or_none = CallValues(
                self._context, self._active, self._call, self.thread_id, self._store
            )
        return self._values_or_none

    @property
    def tenvs(self) -> Tenvs:
        """The tenvs of the thread."""
        return self._env.tenvs

    async def env(self, name: str) -> str | None:
        """Return the current value of a name, or None if no layer has it."""
        var = await self._env.get(given.text("The name of a value", name))
        if var is not None and var.type == "secret" and self._call is None:
            raise InvalidRequest(f"{brief_value(name)} is a secret, which only a tool's handler can read.")
        return None if var is None else var.value

    async def env_type(self, name: str) -> EnvType | None:
        """Return the type of the value, `text` or `secret`."""
        var = await self._env.get(given.text("The name of a value", name))
        return None if var is None else var.type

    @writes
    def set_env(self, name: str, value: str | None, type: EnvType | None = None) -> None:
        """Set or delete (`None`) a name for this thread with the call's result; the type is as declared, or a secret.

        Raises `InvalidRequest` for an invalid name or value, `CannotSeal` for a secret if no keys are configured.
        """
        self._env.set(name, value, type)

    @property
    def deps(self) -> Any:  # an instance of the type that the agent declares
        """The run's deps, or None."""
        return self._context.deps_of(self._active)

    @property
    def call_env(self) -> CallEnv:
        """The variables that the call sets, passes to a child or removes from a child, for built-in tools."""
        return self._env

    @property
    def drafts(self) -> FileDrafts:
        """The thread's files, including the writes of this call."""
        if self._drafts is None:
            self._drafts = FileDrafts(self._context.files)
        return self._drafts

    async def read_file(self, path: str) -> bytes:
        """Return the content of a file of this thread, including this call's writes. Raises `NotFound`."""
        return await self._files.read(await self.drafts.get(path))

    @writes_later
    async def write_file(
        self, path: str, content: bytes | str, mime_type: str | None = None
    ) -> AttachmentRef:
        """Write or overwrite a file with the call's result. Text is stored as UTF-8."""
        data = as_bytes(content, self._files.max_attachment)
        checked = checked_path(path)
        if self._context.redactor.text(checked) != checked:
            raise InvalidRequest("This path contains a secret of the thread. Choose another path.")
        if mime_type is not None:
            mime_type = given.text("A MIME type", mime_type)
        return await self._files.write(self.thread_id, self.drafts, path, data, mime_type)

    async def list_files(self, folder: str = "/") -> Sequence[AttachmentRef]:
        """Return the files in a folder and its subfolders, by path."""
        return await self.drafts.below(folder)

    async def find_files(self, pattern: str) -> Sequence[AttachmentRef]:
        """Return the files whose path, or name for a pattern without a slash, matches."""
        return await self.drafts.matching(pattern)

    async def stat_file(self, path: str) -> AttachmentRef | None:
        """Return the metadata of a file, or None if it does not exist."""
        file = await self.drafts.at(path)
        return None if file is None else file.ref

    @writes_later
    async def delete_file(self, path: str) -> bool:
        """Delete a file with the call's result. Return whether it existed."""
        return await self.drafts.drop(path)

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """Return the thread's messages, oldest first, including those of the running step."""
        await self._context.read_all()
        return self._words.messages(limit, offset)

    async def get_message(self, message_id: str) -> Message | None:
        """Return a message of the thread, or None if it does not exist."""
        await self._context.read_all()
        return self._words.message(message_id)

    @writes
    def inject_message(self, content: str, role: str = "user") -> str:
        """Add a message to the thread with the call's result, as `user` or `assistant`. Return its id."""
        return self._words.inject(content, role)

    @writes
    def update_message(self, message_id: str, content: str) -> None:
        """Change the text of a message with the call's result. Raises `NotFound` if it does not exist."""
        self._words.update(message_id, content)

    @writes_later
    async def queue_message(
        self, content: str, attachments: Sequence[Attachment | AttachmentRef] = ()
    ) -> None:
        """Send a message to the thread with the call's result. The next step reads it."""
        self._family.may_speak(self._context.thread, content)
        parts = given.files(attachments)
        if not parts:
            self._family.speak(self._context.thread, content)
            return
        drafts = self.drafts
        refs = await self._files.attach(self.thread_id, drafts, parts)
        files = [described(await drafts.get(ref.path), ref) for ref in refs]
        self._family.speak(
            self._context.thread,
            content,
            lambda: [described(drafts.now(file), file.ref).ref for file in files],
        )

    @property
    def children(self) -> tuple[Child, ...]:
        """The child threads, as of the call's start, or as terminated by it."""
        return self._family.children

    async def get_child_thread(self, reference: str) -> RelatedThread | None:
        """Return the child with that reference, or None."""
        return await self._family.child(reference)

    async def get_parent_thread(self) -> RelatedThread | None:
        """Return the parent thread, or None."""
        return await self._family.parent()

    @writes_later
    async def notify_parent(self, text: str, attachments: Sequence[Attachment | AttachmentRef] = ()) -> None:
        """Notify the parent's inbox, with copies of files. Raises `InvalidRequest` without a parent."""
        self._family.may_notify(text)
        parts, drafts = given.files(attachments), self.drafts
        refs = await self._files.attach(self.thread_id, drafts, parts) if parts else ()
        self._family.notify(text, [described(await drafts.get(ref.path), ref) for ref in refs])

    @writes_later
    async def terminate(self, reference: str | None = None) -> None:
        """Terminate this thread permanently once the call's result is recorded, or a child of it, by its reference."""
        if reference is not None:
            await self._family.terminate(reference)
            return
        self.execution.stopped = self.execution.terminated = True
        self._family.ends(self.thread_id)

    async def get_value(self, key: str) -> JSON:
        """Return a stored value of this thread, or None if it does not exist."""
        return await self.values.get(key)

    @writes
    def set_value(self, key: str, value: JSON) -> None:
        """Store a JSON value in this thread with the call's result, or delete it with None.

        Raises `InvalidRequest` for an invalid key or over 1 MiB, `InvalidJSON` for a value that JSON cannot represent.
        """
        self.values.set(key, value)

    @writes
    def run_code(self, source: str, options: object = None, **more: object) -> CodeHandle:
        """Run untrusted code in the sandbox; await the handle, or `terminate` it.

        Raises `InvalidRequest` for invalid options, and in a thread: only an async handler can await the handle.
        """
        on_a_loop()
        return self._sandbox.start(source, read_options(options, **more))

    @property
    def context(self) -> dict[str, Any]:  # arbitrary values that handlers store
        """Values that the calls of one run share in this process. They are not recorded, and lost on a restart."""
        return self._context.handler_context

    async def invoke_tool(self, name: str, arguments: JSONObject | str | None = None) -> ToolResult:
        """Call a tool of this prompt from within this call, one call at a time. A failure is an error result.

        Raises `InvalidRequest` after the call has ended or for an invalid name, `InvalidJSON` for invalid JSON.
        """
        return await self._calls.make(name, arguments)

    async def close(self) -> None:
        """End the unfinished calls of the handler."""
        self.execution.over = True
        if self._calls_or_none is not None:
            await self._calls_or_none.close()

    @writes
    def queue_tool(self, name: str, arguments: JSONObject | str | None = None) -> None:
        """Queue a call of a tool of this prompt for the end of the step, before the next call of the model.

        A call that ends the turn or the session drops it. Raises `InvalidRequest` for more than 100 of them.
        """
        self._calls.queue(name, arguments)

    def announce_child(self, reference: str, name: str | None, agent_id: str) -> None:
        """Announce a child thread to followers, with the call's result."""
        self._emitted.append(subagent_event("subagent.created", reference, name, agent_id, "running"))

    @writes
    def emit(self, event_type: str, data: JSON = None) -> None:
        """Record an event with the call's result. The data of an event of more than 8 KiB is dropped.

        Raises `InvalidRequest` for an invalid type, including the types of the runtime's own events, and `InvalidJSON`
        for data that JSON cannot represent.
        """
        event_type, data = given.event(event_type, data)
        redactor = self._context.redactor
        payload: JSONObject = {"toolCallId": self.call.id, "data": redactor.json(data)}
        self._emitted.append(bounded(EventDraft(redactor.text(event_type), payload)))

    async def check(self) -> None:
        """Raise `NotFound` if the call has edited a message that does not exist."""
        if self._words_or_none is not None:
            await self._words_or_none.check()

    def written(self) -> tuple[Changes, FileDrafts | None, bool]:
        """Return the call's changes for its unit, its drafts if it has used files, and whether it has effects."""
        changes = Changes(events=[*self._emitted])
        if self._env_or_none is not None:
            changes.env = self._env_or_none.changes
        if self._words_or_none is not None:
            changes.injected, changes.edited = self._words_or_none.injected, tuple(self._words_or_none.edits)
        makers = () if self._family_or_none is None else self._family_or_none.makers
        has_effects = bool(self._effects or self._values_or_none or self._makers or makers)
        return changes, self._drafts, has_effects

    async def retry_until_available(self, work: Callable[[], Awaitable[T]]) -> T:
        """Read the journal, repeatedly while it is unavailable."""
        return await self._context.retry_until_available(work)

    def effect(self, effect: Effect) -> None:
        """Add an effect on spaces, timers, minds or memory, committed with the call's result."""
        self._effects.append(effect)

    def speak(self, make: Callable[[], Awaitable[Effect]]) -> None:
        """Add an effect that is built when the result is committed, for built-in tools."""
        self._makers.append(make)

    async def effects(self) -> list[Effect]:
        """Return the effects. Raises the errors of the effects that are built now."""
        done = [*self._effects]
        if self._values_or_none is not None:
            done += self._values_or_none.effects
        makers = () if self._family_or_none is None else self._family_or_none.makers
        return done + [await self._context.retry_until_available(make) for make in (*self._makers, *makers)]

    def skip(self, reason: str | None) -> None:
        """End the run as skipped with the call's result, for built-in tools."""
        self.execution.skipped = Skipped(reason)

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Report the call's progress to live followers. It is not recorded.

        Raises `InvalidRequest` for numbers that are not finite, and for a text that is not text.
        """
        call_id, run, report = self.call.id, self._context.run, given.progress(done, total, text)
        if self.prolong is not None:
            self.prolong()
        if self._bus.wanted(run.thread_id, run.id):
            ids: JSONObject = {"streamId": call_id, "toolCallId": call_id}
            payload, now = ids | self._context.redactor.object(report), self._context.clock.now()
            self._bus.publish([live_event("tool.progress", run, payload, now)])


async def view_of(context: RunContext, services: HandlerServices) -> RunState:
    """Return the `reading_state` of the run's thread."""
    children = await read_children(context, services) if context.may_have_children else ()
    return reading_state(context, services, children)


async def read_children(context: RunContext, services: HandlerServices) -> Sequence[Thread]:
    """Return the children of the run's thread."""
    return await context.retry_until_available(lambda: children_of(services.store, context.thread.id))


def reading_state(context: RunContext, services: HandlerServices, children: Sequence[Thread]) -> RunState:
    """Return the state of the run's thread, without a call. Its writes raise `InvalidRequest`, and so do secrets."""
    return RunState(context, None, services, _make_no_call, children)


async def _make_no_call(
    context: RunContext, state: RunState, name: str, arguments: str, built_in: bool
) -> ToolResult:
    """Make no call: `NestedCalls` has refused it, because the state only reads."""
    raise AssertionError("a state without a call makes none")
