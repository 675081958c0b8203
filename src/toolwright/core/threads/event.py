"""Events of threads, runs and spaces, as subscribers receive them."""

from collections.abc import Callable, Iterator, Sequence, Set
from datetime import UTC, datetime
from operator import attrgetter
from typing import Literal, TypeAlias, get_args, overload

from msgspec import Struct

from toolwright.core.json_value import JSONObject
from toolwright.core.value import Value

EventType: TypeAlias = Literal[
    "run.queued", "run.started", "run.waiting", "run.completed", "run.failed", "run.cancelled", "run.skipped",
    "step.started", "step.done", "variables.required", "variables.set", "subagent.created", "subagent.finished",
    "message", "message.delta", "message.reasoning", "message_updated", "message_deleted",
    "reaction_added", "reaction_removed",
    "tool.started", "tool.streaming", "tool.progress", "tool.done", "tool.error", "tool.call", "tool.held",
    "tool.waiting", "tool.approved", "hook.verdict",
    "agent.active", "agent.inactive", "space.message", "space.message.streaming", "space.message.aborted",
    "space.deleted", "member_added", "member_removed", "context.compacted", "connected", "reset",
]  # fmt: skip
"""The types of the runtime's events, and of a stream's messages about itself."""
BUILT_IN: frozenset[str] = frozenset(get_args(EventType))


class EventDraft(Struct, gc=False):
    """An event before its unit of work is committed; it has no number yet.

    A lazy draft is rendered when its payload is first read: with an in-memory journal few payloads are read.
    """

    type: str
    _payload: JSONObject | None = None
    _render: Callable[..., JSONObject] | None = None
    _of: tuple[object, ...] = ()

    @classmethod
    def lazy(cls, type_: str, render: Callable[..., JSONObject], *of: object) -> "EventDraft":
        """Return a draft whose payload is `render(*of)`."""
        return cls(type_, None, render, of)

    @property
    def payload(self) -> JSONObject:
        """The payload of the event."""
        if self._payload is None:
            assert self._render is not None, "a draft has a payload or renders it"
            self._payload = self._render(*self._of)
        return self._payload


class Event(Value):
    """An event of a thread, or of a space. `n` is its number; a live event (a delta, progress) has none.

    Events of a thread are numbered per thread; events of all spaces share one sequence. `agent` is the id of the agent
    that caused it; in a space it can be None.
    """

    thread_id: str | None
    run_id: str | None
    agent: str | None
    type: str
    payload: JSONObject
    at: datetime
    n: int | None = None
    space_id: str | None = None


GROWN = Event(
    thread_id=None, run_id=None, agent=None, type="reset", payload={}, at=datetime(1970, 1, 1, tzinfo=UTC)
)
"""Placeholder among a follower's events for events that another process committed: they are read from the journal."""

_TYPE = attrgetter("type")


class RunEvents(Sequence[Event]):
    """The events of one unit of work in one run, numbered from `first` to `last`; each is built when first read."""

    __slots__ = ("_agent", "_drafts", "at", "last", "run_id", "thread_id")

    def __init__(
        self,
        drafts: tuple[EventDraft, ...],
        last: int,
        at: datetime,
        thread_id: str,
        run_id: str | None,
        agent: str,
    ) -> None:
        self._drafts = drafts
        self.last = last
        self.at = at
        self.thread_id, self.run_id, self._agent = thread_id, run_id, agent

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self.last - len(self._drafts) + 1

    def has_any(self, types: Set[str | None]) -> bool:
        """Return whether one of the events has one of these types."""
        return not types.isdisjoint(map(_TYPE, self._drafts))

    def without(self, count: int) -> "RunEvents | None":
        """Return the events after the first `count`, or None if there are none."""
        drafts, agent = self._drafts[count:], self._agent
        return RunEvents(drafts, self.last, self.at, self.thread_id, self.run_id, agent) if drafts else None

    def __len__(self) -> int:
        return len(self._drafts)

    def __iter__(self) -> Iterator[Event]:
        return map(self._event, range(len(self._drafts)))

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        places = range(len(self._drafts))[index]
        return self._event(places) if isinstance(places, int) else [self._event(each) for each in places]

    def _event(self, place: int) -> Event:
        draft = self._drafts[place]
        return Event(
            thread_id=self.thread_id,
            run_id=self.run_id,
            agent=self._agent,
            type=draft.type,
            payload=draft.payload,
            at=self.at,
            n=self.first + place,
        )


class Topic(Value):
    """The topic of a follower: a thread, a run, a space, or all spaces (whose id is empty).

    `tools` are the calls for external workers, which are not events of the journal.
    """

    kind: Literal["thread", "run", "space", "spaces", "tools"]
    id: str
