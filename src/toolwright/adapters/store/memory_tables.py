"""The journal's tables in memory: dictionaries of the values themselves."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime

from toolwright.adapters.store.instants import micros
from toolwright.core.call import Call
from toolwright.core.event import Event
from toolwright.core.inbox import InboxEvent
from toolwright.core.message import Message
from toolwright.core.run import Run, Step
from toolwright.core.thread import Thread
from toolwright.core.units import Leaving, Wake


@dataclass(slots=True)
class ThreadRow:
    """A thread with all that is kept by thread. `born` is its value when it was created."""

    born: Thread
    run_id: str | None
    epoch: int
    seq: int
    ev: int
    posted: int
    messages: list[Message] = field(default_factory=list[Message])
    inbox: dict[str, InboxEvent] = field(default_factory=dict[str, InboxEvent])
    unread: dict[str, InboxEvent] = field(default_factory=dict[str, InboxEvent])
    events: list[Event] = field(default_factory=list[Event])

    def value(self) -> Thread:
        """The thread as it is now."""
        return replace(
            self.born, run_id=self.run_id, epoch=self.epoch, seq=self.seq, ev=self.ev, posted=self.posted
        )

    def post(self, event: InboxEvent) -> None:
        """Put an event into the inbox."""
        self.posted += 1
        event = replace(event, n=self.posted)
        self.inbox[event.event_id] = event
        if event.status == "pending":
            self.unread[event.event_id] = event


@dataclass(slots=True)
class Tables:
    """All of the journal."""

    threads: dict[str, ThreadRow] = field(default_factory=dict[str, ThreadRow])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    steps: dict[str, list[Step]] = field(default_factory=lambda: defaultdict[str, list[Step]](list))
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    calls_of: dict[tuple[str, int], list[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, int], list[str]](list)
    )
    wakes: dict[str, Wake] = field(default_factory=dict[str, Wake])

    def wake(self, thread_id: str, at: datetime) -> None:
        """Word that the thread has work to do: the earlier due stays, the generation rises."""
        known = self.wakes.get(thread_id)
        if known is None:
            self.wakes[thread_id] = Wake(thread_id=thread_id, due=at, gen=micros(at))
        else:
            due = min(known.due, at)
            self.wakes[thread_id] = Wake(thread_id=thread_id, due=due, gen=known.gen + 1)

    def leave(self, thread_id: str, leaving: Leaving) -> bool:
        """Take the wake away or set it to later, if it is the one that was seen."""
        known = self.wakes.get(thread_id)
        if known is None or known.gen != leaving.gen:
            return False
        if leaving.due is None:
            del self.wakes[thread_id]
        else:
            self.wakes[thread_id] = replace(known, due=leaving.due)
        return True
