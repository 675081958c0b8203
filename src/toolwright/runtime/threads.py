"""Threads: created, spoken to, read."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from toolwright.core.catalog import Catalog
from toolwright.core.errors import InvalidJSON, InvalidRequest, NotFound
from toolwright.core.inbox import InboxEvent
from toolwright.core.json_value import JSONObject, dumps
from toolwright.core.message import Message
from toolwright.core.ports import Clock, Motor, NewId, Store
from toolwright.core.run import Run
from toolwright.core.thread import Thread
from toolwright.core.units import Committed, Conflict, CreateThread, PostMessage
from toolwright.runtime.runs import Runs
from toolwright.wire.event import run_event

CANCEL_PATIENCE = 15.0  # seconds; a cancelled run is over within ten


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that is in the journal, and the run that reads it: a running one that it joins, or a new one."""

    message: Message
    run_id: str


class Threads:
    """What users do with threads. Ids that lead nowhere raise `NotFound`."""

    def __init__(
        self, store: Store, motor: Motor, catalog: Catalog, runs: Runs, clock: Clock, new_id: NewId
    ) -> None:
        self._store = store
        self._motor = motor
        self._catalog = catalog
        self._runs = runs
        self._clock = clock
        self._new_id = new_id

    async def create(
        self,
        agent: str,
        user_id: str | None = None,
        *,
        tags: Sequence[str] | None = None,
        arguments: JSONObject | None = None,
    ) -> Thread:
        """A new thread of that agent, named by name or id."""
        _check(agent=agent, user_id=user_id, tags=tags)
        _plain("arguments", arguments)
        thread = Thread(
            id=self._new_id("thr"),
            agent=self._catalog.agent(agent).id,
            user_id=user_id,
            tags=tuple(tags or ()),
            arguments=arguments,
            created_at=self._clock.now(),
        )
        unit = CreateThread(token=self._new_id("unit"), at=self._clock.now(), thread=thread)
        await self._store.commit(unit)
        return thread

    async def get(self, thread_id: str) -> Thread:
        """The thread."""
        thread = await self._store.thread(thread_id)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id!r}.")
        return thread

    async def list(self, user_id: str | None = None, limit: int = 50, offset: int = 0) -> Sequence[Thread]:
        """Threads, the oldest first; of one user if named."""
        return await self._store.threads(user_id=user_id, limit=limit, offset=offset)

    async def messages(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """The thread's messages, the oldest first; one that no run has read yet is not among them."""
        await self.get(thread_id)
        return await self._store.messages(thread_id, limit, offset)

    async def send(self, thread_id: str, content: str) -> Run:
        """Send a message; the run that reads it, which may be a running one (D22)."""
        return await self._runs.get((await self.post(thread_id, content)).run_id)

    async def post(self, thread_id: str, content: str) -> Sent:
        """Send a message, as `send` does; what was written."""
        _check(content=content)
        if not content.strip():
            raise _faulty("content", "is empty", "A message needs some text.")
        agent = (await self._settled(thread_id)).agent
        now = self._clock.now()
        message_id = self._new_id("msg")
        run = Run(id=self._new_id("run"), thread_id=thread_id, agent=agent, created_at=now)
        event = InboxEvent(
            thread_id=thread_id,
            event_id=message_id,
            type="message",
            content={"messageId": message_id, "content": content},
            created_at=now,
        )
        answer = await self._store.commit(
            PostMessage(token=self._new_id("unit"), at=now, event=event, run=run, queued=run_event(run))
        )
        if isinstance(answer, Conflict):
            raise NotFound(f"There is no thread {thread_id!r}.")
        self._motor.wake(thread_id)
        return Sent(message=_posted(event, content, answer), run_id=answer.run_id or run.id)

    async def _settled(self, thread_id: str) -> Thread:
        """The thread, once a run that is being cancelled is over: a message after a cancel is for the next run."""
        thread = await self.get(thread_id)
        if thread.run_id is not None:
            run = await self._runs.get(thread.run_id)
            if run.cancel_requested_at is not None:
                with suppress(TimeoutError):
                    await self._runs.wait(run.id, CANCEL_PATIENCE)
        return thread

    async def cancel(self, thread_id: str) -> Run:
        """Ask the thread's open run to stop; `NotFound` if nothing runs in it."""
        thread = await self.get(thread_id)
        if thread.run_id is None:
            raise NotFound(f"Nothing runs in the thread {thread_id!r}.")
        return await self._runs.cancel(thread.run_id)


def _check(*, tags: Sequence[str] | None = None, **texts: str | None) -> None:
    """Texts are text that every database can hold, tags are several."""
    if tags is not None and (isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags)):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise _faulty("tags", "must be a list of texts")
    for path, text in [*texts.items(), *[("tags", tag) for tag in tags or ()]]:
        if text is None and path == "user_id":
            continue
        if not isinstance(text, str):  # user input
            raise _faulty(path, f"must be text, not {type(text).__name__}")
        if "\0" in text or (not text.isprintable() and _has_surrogate(text)):
            raise _faulty(path, "must not contain NUL or lone surrogates")


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _plain(path: str, value: JSONObject | None) -> None:
    try:
        dumps(value)
    except InvalidJSON as error:
        raise _faulty(path, error.message) from error


def _faulty(path: str, fault: str, message: str | None = None) -> InvalidRequest:
    return InvalidRequest(message or f"{path} {fault}.", [{"path": path, "message": fault}])


def _posted(event: InboxEvent, content: str, answer: Committed) -> Message:
    return Message(
        id=event.event_id,
        role="user",
        content=content,
        run_id=answer.run_id,
        created_at=event.created_at,
    )
