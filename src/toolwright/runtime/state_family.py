"""The family of a thread as a handler sees it: what it does there is committed with the call's result."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from toolwright.core.child import Child, ChildStatus
from toolwright.core.content import AttachmentRef
from toolwright.core.drafts import FileDrafts, by_path
from toolwright.core.effects import Effect
from toolwright.core.effects_children import Notify, Speak, Terminate
from toolwright.core.errors import InvalidRequest, NotFound, ThreadTerminated
from toolwright.core.file import File
from toolwright.core.message import Message
from toolwright.core.plain import unwritable
from toolwright.core.ports import Store
from toolwright.core.thread import Thread
from toolwright.runtime.family import copied, first_run, message_for, notice_for
from toolwright.runtime.hold import Hold
from toolwright.wire.event import run_event

Make = Callable[[], Awaitable[Effect]]
"""Makes an effect when the result is committed, anew if something has changed meanwhile."""


class Relative:
    """Another thread of the family; a `Kin`."""

    def __init__(self, thread: Thread, store: Store, speak: Callable[[Thread, str], None]) -> None:
        self._thread = thread
        self._store = store
        self._speak = speak

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
        return self._thread.child_status

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        return await self._store.messages(self._thread.id, limit, offset)

    def queue_message(self, text: str) -> None:
        self._speak(self._thread, text)


class Family:
    """What one call does in the family of its thread. `makers` are its effects, made at the commit."""

    def __init__(self, hold: Hold, call_id: str, store: Store, children: Sequence[Thread]) -> None:
        self._hold = hold
        self._call_id = call_id
        self._store = store
        self._children = children
        self._said = 0
        self._terminated: set[str] = set()
        self.makers: list[Make] = []

    @property
    def children(self) -> tuple[Child, ...]:
        """The threads that this one has made, the oldest first, as they stood when the call began."""
        return tuple(
            [
                Child(reference=each.id, name=each.name, agent_id=each.agent, status=each.child_status)
                for each in self._children
            ]
        )

    async def child(self, reference: str) -> Relative | None:
        """The child of that reference, None if there is none."""
        found = await self._hold.insist(lambda: self._store.thread(reference))
        if found is None or found.parent_id != self._hold.thread.id:
            return None
        return Relative(found, self._store, self.speak)

    async def parent(self) -> Relative | None:
        """The thread that has made this one, None if none has."""
        parent_id = self._hold.thread.parent_id
        found = None if parent_id is None else await self._hold.insist(lambda: self._store.thread(parent_id))
        return None if found is None else Relative(found, self._store, self.speak)

    def speak(self, thread: Thread, text: str, files: Sequence[AttachmentRef] = ()) -> None:
        """A message for a thread; `files` are its own already."""
        self._check(text)
        self._check_open(thread)
        self.makers.append(partial(self._speak, thread, self._hold.redactor.text(text), files, self._next()))

    def _check_open(self, thread: Thread) -> None:
        """Raise `ThreadTerminated` if nobody may speak to the thread any more, be it by this very call."""
        if thread.state == "terminated" or thread.id in self._terminated:
            raise ThreadTerminated(f"The thread {thread.id!r} is terminated.")

    async def _speak(self, thread: Thread, text: str, files: Sequence[AttachmentRef], number: int) -> Effect:
        hold = self._hold
        self._check_open(await self._store.thread(thread.id) or thread)
        depth, clock = hold.run.chain_depth, hold.clock
        run = first_run(thread, hold.new_id("run"), depth, clock)
        message_id = f"msg_{self._call_id}-{number}"
        event = message_for(thread, message_id, text, files, depth, clock)
        return Speak(thread_id=thread.id, event=event, run=run, queued=run_event(run))

    def notify(self, text: str, files: Sequence[File]) -> None:
        """Word for the parent's inbox, with copies of files."""
        self._check(text)
        if self._hold.thread.parent_id is None:
            raise InvalidRequest("This thread has no parent to notify.")
        self.makers.append(partial(self._notify, self._hold.redactor.text(text), files, self._next()))

    async def _notify(self, text: str, files: Sequence[File], number: int) -> Effect:
        hold, thread = self._hold, self._hold.thread
        parent = await self._store.thread(str(thread.parent_id))
        if parent is None:
            raise NotFound("The parent of this thread is not there.")
        drafts = FileDrafts(by_path(await self._store.files(parent.id)) if files else {})
        refs = copied(parent.id, drafts, files, hold.clock, hold.new_id)
        said = {"reference": thread.id, "name": thread.name, "status": "running", "message": text}
        event_id = f"sub:{self._call_id}.{number}"
        notice = notice_for(parent, event_id, {**said}, refs, hold.run.chain_depth, hold.clock, hold.new_id)
        return Notify(thread_id=parent.id, notice=notice, files=drafts.changes)

    async def terminate(self, reference: str) -> None:
        """A child is never spoken to again, and its open run stops."""
        if await self.child(reference) is None:
            raise NotFound(f"There is no child {reference!r} of this thread.")

        async def effect() -> Effect:
            return Terminate(thread_id=reference)

        self._terminated.add(reference)
        self.makers.append(effect)

    def _next(self) -> int:
        self._said += 1
        return self._said

    def _check(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise InvalidRequest(f"A message is text, not {type(text).__name__}.")
        if not text.strip() or unwritable(text):
            raise InvalidRequest("A message is text that is not empty, without NUL or lone surrogates.")
