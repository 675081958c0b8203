"""Family of a thread for a handler: parent and child threads, and effects committed with the call's result."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from toolwright.core.errors import InvalidRequest, NotFound, ThreadTerminated
from toolwright.core.files import File, FileDrafts
from toolwright.core.journal.child_effects import Notify, Speak, Terminate
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Store
from toolwright.core.results import AttachmentRef
from toolwright.core.state import checks as given
from toolwright.core.text import brief
from toolwright.core.threads.child import Child, ChildStatus
from toolwright.core.threads.inbox import ORIGIN_CALL
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.execution import RunExecution
from toolwright.runtime.files import FileKeeper, StoredFiles
from toolwright.runtime.threads.thread_tree import copy_files, first_run, message_for, notice_for
from toolwright.wire.event import run_event

Make = Callable[[], Awaitable[Effect]]
"""Builds an effect when the result is committed, again if something has changed in the meantime."""


class Relative:
    """A parent or child thread; a `RelatedThread`."""

    def __init__(self, thread: Thread, family: "Family") -> None:
        self._thread = thread
        self._family = family

    @property
    def thread_id(self) -> str:
        return self._thread.id

    @property
    def name(self) -> str | None:
        return self._thread.name

    @property
    def agent_id(self) -> str:
        return self._thread.answering

    @property
    def status(self) -> ChildStatus:
        return self._family.status_of(self._thread)

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        return await self._family.messages(self._thread, limit, offset)

    def queue_message(self, text: str) -> None:
        self._family.speak(self._thread, text)


class Family:
    """The effects of one call on the family of its thread. `makers` build them at the commit."""

    def __init__(
        self,
        context: RunContext,
        call_id: str,
        store: Store,
        children: Sequence[Thread],
        execution: RunExecution,
        files: FileKeeper,
    ) -> None:
        self._context = context
        self._call_id = call_id
        self._store = store
        self._keeper = files
        self._children = children
        self._execution = execution
        self._terminated_ids: set[str] = set()
        self._last_number = 0
        self.makers: list[Make] = []

    @property
    def children(self) -> tuple[Child, ...]:
        """The child threads, oldest first, as of the call's start, or as terminated by it."""
        return tuple(
            [
                Child(reference=each.id, name=each.name, agent_id=each.agent, status=self.status_of(each))
                for each in self._children
            ]
        )

    async def child(self, reference: str) -> Relative | None:
        """Return the child with that reference, or None."""
        child_id = given.text("The reference of a child", reference)
        thread = await self._context.retry_until_available(lambda: self._store.thread(child_id))
        if thread is None or thread.parent_id != self._context.thread.id:
            return None
        return Relative(thread, self)

    async def parent(self) -> Relative | None:
        """Return the parent thread, or None."""
        parent_id = self._context.thread.parent_id
        thread = (
            None
            if parent_id is None
            else await self._context.retry_until_available(lambda: self._store.thread(parent_id))
        )
        return None if thread is None else Relative(thread, self)

    def status_of(self, thread: Thread) -> ChildStatus:
        """Return the status of a thread of the family, including the effects of this call."""
        return "terminated" if thread.id in self._terminated_ids else thread.child_status

    async def messages(self, thread: Thread, limit: int, offset: int) -> Sequence[Message]:
        """Return messages of a thread of the family."""
        given.page(limit, offset)
        return await self._context.retry_until_available(
            lambda: self._store.messages(thread.id, limit, offset)
        )

    def speak(self, thread: Thread, text: str, files: Callable[[], Sequence[AttachmentRef]] = tuple) -> None:
        """Send a message to a thread. `files` returns the files' references when it is sent."""
        checked = self.may_speak(thread, text)
        self.makers.append(
            partial(self._speak, thread, self._context.redactor.text(checked), files, self._next())
        )

    def may_speak(self, thread: Thread, text: str) -> str:
        """Return the checked text of a message to the thread. Raises `InvalidRequest` or `ThreadTerminated`."""
        self._execution.check()
        if thread.id in self._terminated_ids:
            raise _terminated(thread)
        _check_open(thread)
        return given.message(text)

    async def _speak(
        self, thread: Thread, text: str, files: Callable[[], Sequence[AttachmentRef]], number: int
    ) -> Effect:
        context = self._context
        _check_open(await self._store.thread(thread.id) or thread)
        depth, clock = context.run.chain_depth, context.clock
        run = first_run(thread, context.new_id("run"), depth, clock)
        message_id = f"msg_{self._call_id}-{number}"
        drafts = FileDrafts(StoredFiles(self._store, thread.id))
        name = f"message-{self._call_id}-{number}"
        message, whole = await self._keeper.value_within_limit(thread.id, drafts, text, name)
        event = message_for(thread, message_id, str(message), [*files(), *whole], depth, clock)
        return Speak(thread_id=thread.id, event=event, run=run, queued=run_event(run), files=drafts.changes)

    def notify(self, text: str, files: Sequence[File]) -> None:
        """Send a notification to the parent's inbox, with copies of files."""
        checked = self.may_notify(text)
        self.makers.append(partial(self._notify, self._context.redactor.text(checked), files, self._next()))

    def may_notify(self, text: str) -> str:
        """Return the text if it can be sent to the parent. Raises `InvalidRequest` otherwise."""
        if self._context.thread.parent_id is None:
            raise InvalidRequest("This thread has no parent to notify.")
        return given.message(text)

    async def _notify(self, text: str, files: Sequence[File], number: int) -> Effect:
        context, thread = self._context, self._context.thread
        parent = await self._store.thread(str(thread.parent_id))
        if parent is None:
            raise NotFound("The parent of this thread no longer exists.")
        drafts = FileDrafts(StoredFiles(self._store, parent.id))
        refs = await copy_files(parent.id, drafts, files, context.clock, context.new_id)
        message = (await context.redactor_of(parent)).text(text)
        content = {"reference": thread.id, "name": thread.name, "status": "running", "message": message}
        content[ORIGIN_CALL] = context.answered_call
        event_id = f"sub:{self._call_id}.{number}"
        notice = notice_for(
            parent, event_id, {**content}, refs, context.run.chain_depth, context.clock, context.new_id
        )
        return Notify(thread_id=parent.id, notice=notice, files=drafts.changes)

    async def terminate(self, reference: str) -> None:
        """Terminate a child permanently and stop its open run."""
        if await self.child(reference) is None:
            raise NotFound(f"There is no child {brief(repr(reference), 200)} of this thread.")
        self._execution.check()
        self.ends(reference)

        async def effect() -> Effect:
            return Terminate(thread_id=reference)

        self.makers.append(effect)

    def ends(self, thread_id: str) -> None:
        """Treat the thread as terminated within this call."""
        self._terminated_ids.add(thread_id)

    def _next(self) -> int:
        self._last_number += 1
        return self._last_number


def _check_open(thread: Thread) -> None:
    """Raise `ThreadTerminated` if the thread no longer accepts messages."""
    if thread.is_over:
        raise _terminated(thread)


def _terminated(thread: Thread) -> ThreadTerminated:
    return ThreadTerminated(f"The thread {thread.id!r} is terminated.")
