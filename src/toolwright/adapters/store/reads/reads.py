"""What is read of the journal, as programs: like units, they do not know their driver."""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import TypeVar

from toolwright.adapters.store.engine.codecs import Params
from toolwright.adapters.store.engine.instants import instant_or_none, micros
from toolwright.adapters.store.engine.program import Op, Reading
from toolwright.adapters.store.reads.readers import (
    CALLS,
    ENTITIES,
    ENV,
    EVENTS,
    FILES,
    INBOX,
    MESSAGES,
    RUNS,
    SHOWN_CALLS,
    SPACE_EVENTS,
    STEPS,
    THREADS,
    WAKES,
    each_event,
)
from toolwright.adapters.store.reads.threads import Queries
from toolwright.core.env.env import EnvRow
from toolwright.core.files.file import File
from toolwright.core.journal.store import Sight, ThreadView
from toolwright.core.journal.units import Wake
from toolwright.core.spaces.entity import Entity
from toolwright.core.threads.call import Call, CallStatus
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, RunStatus, Step
from toolwright.core.threads.thread import Thread

T = TypeVar("T")


class Reads:
    """The journal's readings over one dialect's queries."""

    def __init__(self, queries: Queries) -> None:
        self._sql = queries

    def thread(self, thread_id: str) -> Reading[Thread | None]:
        found = yield Op(self._sql.thread, {"thread_id": thread_id})
        return THREADS.first(found)

    def threads(self, users: Sequence[str] | None, limit: int, offset: int) -> Reading[Sequence[Thread]]:
        if users is not None and not users:
            return []
        params: Params = {"limit": limit, "offset": offset, **_numbered("user", users)}
        found = yield Op(self._sql.threads(len(users or ())), params)
        return THREADS.each(found)

    def view(self, thread_id: str) -> Reading[ThreadView | None]:
        here: Params = {"thread_id": thread_id}
        found = yield Op(self._sql.thread, here)
        if not found:
            return None
        thread = THREADS.all(found)[0]
        run, calls = None, ()
        if thread.run_id is not None:
            run = yield from self.run(thread.run_id)
        if run is not None and (run.step_count or run.started_at is not None):
            made = yield Op(self._sql.step_calls, {"run_id": run.id, "step": run.step_count})
            calls = tuple(CALLS.all(made))
        said = yield Op(self._sql.kept_messages, {**here, "kept": True})
        opened = yield Op(self._sql.open_inbox, here)
        waiting = INBOX.all(opened)
        wake = yield from self.wake(thread_id)
        env = yield from self.env(thread_id)
        return ThreadView(
            thread=thread,
            run=run,
            messages=tuple(MESSAGES.all(said)),
            calls=calls,
            inbox=tuple([event for event in waiting if event.status == "pending"]),
            wake=wake,
            env=tuple(env),
            reading=tuple([event for event in waiting if event.status == "processing"]),
        )

    def env(self, thread_id: str) -> Reading[Sequence[EnvRow]]:
        found = yield Op(self._sql.env, {"thread_id": thread_id})
        return ENV.all(found)

    def env_of(self, owner: str) -> Reading[Sequence[EnvRow]]:
        found = yield Op(self._sql.env_of, {"owner": owner})
        return ENV.all(found)

    def sealed_otherwise(self, key: str, limit: int) -> Reading[Sequence[EnvRow]]:
        found = yield Op(self._sql.sealed_otherwise, {"key": key, "limit": limit})
        return ENV.each(found)

    def files(self, thread_id: str) -> Reading[Sequence[File]]:
        found = yield Op(self._sql.files, {"thread_id": thread_id})
        return FILES.each(found)

    def file(self, thread_id: str, folded: str) -> Reading[File | None]:
        found = yield Op(self._sql.file, {"thread_id": thread_id, "folded": folded})
        return FILES.first(found)

    def files_at(self, thread_id: str, folded: Sequence[str]) -> Reading[Set[str]]:
        params: Params = {"thread_id": thread_id, **_numbered("path", folded)}
        found = yield Op(self._sql.files_at(len(folded)), params)
        return {row[0] for row in found}

    def unread(self, thread_id: str) -> Reading[Sequence[InboxEvent]]:
        found = yield Op(self._sql.unread, {"thread_id": thread_id})
        return INBOX.all(found)

    def inbox(self, thread_id: str, limit: int, offset: int) -> Reading[Sequence[InboxEvent]]:
        found = yield Op(self._sql.inbox, {"thread_id": thread_id, "limit": limit, "offset": offset})
        return INBOX.each(found)

    def inbox_event(self, thread_id: str, event_id: str) -> Reading[InboxEvent | None]:
        found = yield Op(self._sql.inbox_event, {"thread_id": thread_id, "event_id": event_id})
        return INBOX.first(found)

    def messages(self, thread_id: str, limit: int, offset: int) -> Reading[Sequence[Message]]:
        found = yield Op(self._sql.messages, {"thread_id": thread_id, "limit": limit, "offset": offset})
        return MESSAGES.each(found)

    def run_messages(self, run_id: str) -> Reading[Sequence[Message]]:
        found = yield Op(self._sql.run_messages, {"run_id": run_id})
        return MESSAGES.each(found)

    def run(self, run_id: str) -> Reading[Run | None]:
        found = yield Op(self._sql.run, {"run_id": run_id})
        return RUNS.first(found)

    def runs(
        self, status: RunStatus | None, agent: str | None, thread_id: str | None, limit: int, offset: int
    ) -> Reading[Sequence[Run]]:
        filters: Params = {"status": status, "agent": agent, "thread_id": thread_id}
        given = {name: value for name, value in filters.items() if value is not None}
        found = yield Op(self._sql.runs(tuple(given)), {**given, "limit": limit, "offset": offset})
        return RUNS.each(found)

    def steps(self, run_id: str) -> Reading[Sequence[Step]]:
        found = yield Op(self._sql.steps, {"run_id": run_id})
        return STEPS.each(found)

    def call(self, call_id: str) -> Reading[Call | None]:
        found = yield Op(self._sql.call, {"call_id": call_id})
        return CALLS.first(found)

    def calls(
        self,
        status: Sequence[CallStatus] | None,
        asked: Mapping[str, str | None],
        sees: Sight | None,
        limit: int,
        offset: int,
    ) -> Reading[Sequence[Call]]:
        given: Params = {name: value for name, value in asked.items() if value is not None}
        params: Params = {"limit": limit, "offset": offset, **given, **_numbered("status", status)}
        users = None
        if sees is not None:
            users = len(sees.users)
            params |= {"seen_by": sees.entity_id, **_numbered("user", sees.users)}
        found = yield Op(self._sql.calls(tuple(given), len(status or ()), users), params)
        return SHOWN_CALLS.each(found)

    def events(self, topic: Topic, after: int, limit: int, offset: int) -> Reading[Sequence[Event]]:
        page: Params = {"topic": topic.id, "after": after, "limit": limit, "offset": offset}
        found = yield Op(self._sql.events[topic.kind], page)
        return each_event(EVENTS if topic.kind in ("thread", "run") else SPACE_EVENTS, found)

    def bounds(self, topic: Topic) -> Reading[tuple[int, int]]:
        [(oldest, newest)] = yield Op(self._sql.bounds[topic.kind], {"topic": topic.id})
        return oldest, newest

    def entity(self, entity_id: str) -> Reading[Entity | None]:
        found = yield Op(self._sql.entity, {"entity_id": entity_id})
        return ENTITIES.first(found)

    def entity_named(self, external_id: str) -> Reading[Entity | None]:
        found = yield Op(self._sql.entity_named, {"external_id": external_id})
        return ENTITIES.first(found)

    def entities(self, limit: int, offset: int) -> Reading[Sequence[Entity]]:
        found = yield Op(self._sql.entities, {"limit": limit, "offset": offset})
        return ENTITIES.each(found)

    def wake(self, thread_id: str) -> Reading[Wake | None]:
        found = yield Op(self._sql.wake, {"thread_id": thread_id})
        return WAKES.first(found)

    def due(self, now: datetime, limit: int) -> Reading[Sequence[Wake]]:
        found = yield Op(self._sql.due, {"at": micros(now), "limit": limit})
        return WAKES.each(found)

    def next_due(self, after: datetime) -> Reading[datetime | None]:
        [(due,)] = yield Op(self._sql.next_due, {"at": micros(after)})
        return instant_or_none(due)


def _numbered(name: str, values: Sequence[str] | None) -> Params:
    return {f"{name}_{i}": one for i, one in enumerate(values or ())}
