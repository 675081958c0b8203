"""The journal's in-memory tables: dictionaries of values."""

from collections import defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from toolwright.adapters.store.engine.codecs import micros
from toolwright.adapters.store.engine.outcome import GuardFailed
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, Vector
from toolwright.core.agents.mind import Plan, plan_timer
from toolwright.core.env.env import EnvChange, EnvRow, VariablesRequest
from toolwright.core.files import File, FileChange
from toolwright.core.journal.units import Leaving, Wake
from toolwright.core.mcp.servers import McpDefinition
from toolwright.core.spaces import Entity, Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.core.threads.child import ENDED, ChildEnd
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import Event, RunEvents
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageVersion
from toolwright.core.threads.run import Run, Side, Step
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Record, changed, key_of

R = TypeVar("R", bound=Record)


@dataclass(slots=True)
class ThreadRow:
    """A thread with all its data. `born` is its value when it was created; `events` are grouped by unit."""

    born: Thread
    run_id: str | None
    epoch: int
    seq: int
    ev: int
    posted: int
    begun: bool = False
    next_run_id: str | None = None
    space_id: str | None = None
    active_agent: str | None = None
    activated: tuple[Side, ...] = ()
    report: str | None = None
    state: ChildEnd | None = None
    faults: int = 0
    not_before: datetime | None = None
    cut: int = 0
    compacted: int = 0
    hides: int = 0
    versions: tuple[MessageVersion, ...] = ()
    messages: list[Message] = field(default_factory=list[Message])
    inbox: dict[str, InboxEvent] = field(default_factory=dict[str, InboxEvent])
    unread: dict[str, InboxEvent] = field(default_factory=dict[str, InboxEvent])
    reading: dict[str, InboxEvent] = field(default_factory=dict[str, InboxEvent])
    events: list[RunEvents] = field(default_factory=list[RunEvents])
    files: dict[str, File] = field(default_factory=dict[str, File])
    digests: set[str] = field(default_factory=set[str])  # of all files that the thread ever had

    @property
    def is_over(self) -> bool:
        """Return whether the thread has ended and accepts no more messages."""
        return self.state in ENDED

    @property
    def answering(self) -> str:
        """The id of the agent that answers in the thread."""
        return self.active_agent or self.born.agent

    @classmethod
    def born_as(cls, thread: Thread) -> "ThreadRow":
        """Return the row of a new thread."""
        row = cls(thread, thread.run_id, thread.epoch, thread.seq, thread.ev, thread.posted)
        row.report = thread.report
        return row

    def value(self) -> Thread:
        """Return the current thread."""
        return changed(
            self.born,
            run_id=self.run_id,
            epoch=self.epoch,
            seq=self.seq,
            ev=self.ev,
            posted=self.posted,
            begun=self.begun,
            next_run_id=self.next_run_id,
            space_id=self.space_id,
            active_agent=self.active_agent,
            activated=self.activated,
            report=self.report,
            state=self.state,
            faults=self.faults,
            not_before=self.not_before,
            cut=self.cut,
            compacted=self.compacted,
            hides=self.hides,
        )

    def promise(self, new_run: str) -> str:
        """Return the run that reads new events: the queued run, or `new_run`, which is then queued."""
        if self.run_id is None:
            self.run_id = new_run
        if not self.begun:
            return self.run_id
        self.next_run_id = self.next_run_id or new_run
        return self.next_run_id

    def check_files(self, changes: Sequence[FileChange]) -> None:
        """Check that the paths of new files are unused."""
        if any(change.new and change.folded in self.files for change in changes):
            raise GuardFailed("file")

    def write(self, changes: Sequence[FileChange]) -> None:
        """Write or delete files, keyed by their case-folded paths."""
        for change in changes:
            if change.file is None:
                self.files.pop(change.folded, None)
            else:
                self.files[change.folded] = change.file
                self.digests.add(change.file.digest)

    def post(self, event: InboxEvent) -> None:
        """Insert an event into the inbox."""
        self.posted += 1
        event = changed(event, n=self.posted)
        self.inbox[event.event_id] = event
        if event.status == "pending":
            self.unread[event.event_id] = event

    def change(self, changed: InboxEvent) -> None:
        """Replace an inbox event."""
        self.inbox[changed.event_id] = changed
        self.unread.pop(changed.event_id, None)
        self.reading.pop(changed.event_id, None)
        if changed.status == "processing":
            self.reading[changed.event_id] = changed
        elif changed.status == "pending":
            self.unread[changed.event_id] = changed
            self.unread = dict(sorted(self.unread.items(), key=lambda item: item[1].n or 0))


@dataclass(slots=True)
class Tables:
    """All tables of the journal. Change a thread only through its id, so that the change can be rolled back."""

    threads: MutableMapping[str, ThreadRow] = field(default_factory=dict[str, ThreadRow])
    runs: MutableMapping[str, Run] = field(default_factory=dict[str, Run])
    steps: MutableMapping[str, list[Step]] = field(default_factory=lambda: defaultdict[str, list[Step]](list))
    calls: MutableMapping[str, Call] = field(default_factory=dict[str, Call])
    sign_outs: MutableMapping[str, tuple[datetime, datetime]] = field(
        default_factory=dict[str, tuple[datetime, datetime]]
    )
    calls_in: MutableMapping[str, list[str]] = field(
        default_factory=lambda: defaultdict[str, list[str]](list)
    )
    calls_of: MutableMapping[tuple[str, int], list[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, int], list[str]](list)
    )
    entities: MutableMapping[str, Entity] = field(default_factory=dict[str, Entity])
    wakes: MutableMapping[str, Wake] = field(default_factory=dict[str, Wake])
    spaces: MutableMapping[str, Space] = field(default_factory=dict[str, Space])
    members: MutableMapping[tuple[str, str], Member] = field(default_factory=dict[tuple[str, str], Member])
    space_messages: MutableMapping[str, SpaceMessage] = field(default_factory=dict[str, SpaceMessage])
    reactions: MutableMapping[tuple[str, str, str], Reaction] = field(
        default_factory=dict[tuple[str, str, str], Reaction]
    )
    agents: MutableMapping[str, ConfiguredAgent] = field(default_factory=dict[str, ConfiguredAgent])
    revisions: MutableMapping[tuple[str, int], ConfiguredAgent] = field(
        default_factory=dict[tuple[str, int], ConfiguredAgent]
    )
    blocks: MutableMapping[tuple[str, str], Block] = field(default_factory=dict[tuple[str, str], Block])
    block_links: MutableMapping[tuple[str, str, str], None] = field(
        default_factory=dict[tuple[str, str, str], None]
    )
    passages: MutableMapping[tuple[str, str], Passage] = field(default_factory=dict[tuple[str, str], Passage])
    places: MutableMapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    vectors: MutableMapping[tuple[str, str], Vector] = field(default_factory=dict[tuple[str, str], Vector])
    mcp_definitions: MutableMapping[tuple[str, str, str], McpDefinition] = field(
        default_factory=dict[tuple[str, str, str], McpDefinition]
    )
    compactions: MutableMapping[tuple[str, int], Compaction] = field(
        default_factory=dict[tuple[str, int], Compaction]
    )
    sent_texts: MutableMapping[tuple[str, str], SentText] = field(
        default_factory=dict[tuple[str, str], SentText]
    )
    records: Mapping[type[Record], MutableMapping[tuple[str, ...], Any]] = field(  # values of their class
        default_factory=lambda: defaultdict[type[Record], MutableMapping[tuple[str, ...], Any]](dict)
    )
    dropped_bytes: MutableMapping[str, datetime] = field(default_factory=dict[str, datetime])
    space_events: list[Event] = field(default_factory=list[Event])
    counters: MutableMapping[str, int] = field(default_factory=dict[str, int])
    values: MutableMapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    requests: MutableMapping[str, VariablesRequest] = field(default_factory=dict[str, VariablesRequest])
    env: MutableMapping[tuple[str, str, str], EnvRow] = field(
        default_factory=dict[tuple[str, str, str], EnvRow]
    )

    def thread(self, thread_id: str) -> ThreadRow:
        """Return the thread's row. Conflict: `thread`."""
        thread = self.threads.get(thread_id)
        if thread is None:
            raise GuardFailed("thread")
        return thread

    def open_run(self, run_id: str, thread_id: str) -> Run:
        """Return the run if it has not finished. Conflict: `run`."""
        run = self.runs.get(run_id)
        if run is None or run.thread_id != thread_id or run.over:
            raise GuardFailed("run")
        return run

    def space(self, space_id: str) -> Space:
        """Return the space. Conflict: `space`."""
        space = self.spaces.get(space_id)
        if space is None:
            raise GuardFailed("space")
        return space

    def set_env(self, changes: Sequence[EnvChange]) -> None:
        """Set or delete environment values."""
        for change in changes:
            key = (change.owner, change.kind, change.name)
            if change.row is None:
                self.env.pop(key, None)
            else:
                self.env[key] = change.row

    def env_of(self, *owners: str | None) -> list[EnvRow]:
        """Return all values of the given owners, by owner and name."""
        return [row for key, row in sorted(self.env.items()) if key[0] in owners]

    def children(self, thread_id: str) -> list[ThreadRow]:
        """Return the children of the thread, oldest first."""
        rows = [row for row in self.threads.values() if row.born.parent_id == thread_id]
        return sorted(rows, key=lambda row: (row.born.created_at, row.born.id))

    def below(self, thread_id: str) -> list[ThreadRow]:
        """Return all descendants of the thread."""
        children = self.children(thread_id)
        return [*children, *[each for child in children for each in self.below(child.born.id)]]

    def lineage(self, thread_id: str) -> list[ThreadRow]:
        """Return the ancestors of the thread, nearest first."""
        above: list[ThreadRow] = []
        row = self.threads.get(thread_id)
        while row is not None and row.born.parent_id is not None:
            row = self.threads.get(row.born.parent_id)
            above += [] if row is None else [row]
        return above

    def compactions_of(self, thread_id: str, within: str | None = None) -> list[Compaction]:
        """Return the compactions of the thread, or of a call's conversation, oldest first."""
        rows = [
            row
            for row in self.compactions.values()
            if row.thread_id == thread_id and within in (None, row.within)
        ]
        return sorted(rows, key=lambda row: row.number)

    def wake_askers(self, changes: Sequence[EnvChange], at: datetime) -> None:
        """Wake the threads that wait for one of the given variables."""
        names = {change.name for change in changes if change.kind == "env"}
        for request in self.requests.values():
            if request.kind == "run" and names & {each.name for each in request.required}:
                self.wake(request.thread_id, at)

    def entity_by_external_id(self, external_id: str) -> Entity | None:
        """Return the entity with the given external id."""
        return next((one for one in self.entities.values() if one.external_id == external_id), None)

    def wake(self, thread_id: str, at: datetime) -> None:
        """Schedule the thread: keep the earlier due time, increment the generation."""
        stored = self.wakes.get(thread_id)
        if stored is None:
            self.wakes[thread_id] = Wake(thread_id=thread_id, due=at, gen=micros(at))
        else:
            due = min(stored.due, at)
            self.wakes[thread_id] = changed(stored, due=due, gen=stored.gen + 1)

    def leased_by(self, thread_id: str) -> str | None:
        """Return the node that holds the thread's lease."""
        wake = self.wakes.get(thread_id)
        return None if wake is None else wake.node

    def set_timer(self, name: str, due: datetime) -> None:
        """Set a timer, replacing an existing one."""
        stored = self.wakes.get(name)
        gen = micros(due) if stored is None else stored.gen + 1
        self.wakes[name] = Wake(thread_id=name, due=due, gen=gen)

    def records_of(self, kind: type[R]) -> MutableMapping[tuple[str, ...], R]:
        """Return the records of a class, by key."""
        return self.records[kind]

    def put(self, record: Record) -> None:
        """Insert or update a record."""
        rows, key = self.records_of(type(record)), key_of(record)
        stored, kept = rows.get(key), record.STORED.kept
        if stored is not None and kept:
            record = changed(record, **{name: getattr(stored, name) for name in kept})
        rows[key] = record

    def owned_by(self, owner: str) -> list[MutableMapping[tuple[str, ...], Any]]:  # values of their class
        """Return the records of each class whose owner is that field."""
        return [self.records[kind] for kind in self.records if kind.STORED.owner == owner]

    def drop_owned(self, owner: str, owner_id: str) -> None:
        """Delete all records of an owner."""
        for rows in self.owned_by(owner):
            for key in [key for key, record in rows.items() if getattr(record, owner) == owner_id]:
                del rows[key]

    def set_plan(self, plan: Plan) -> None:
        """Write a plan and its timer."""
        self.put(plan)
        self.set_timer(plan.timer, plan.next_run_at)

    def move_plan(self, plan: Plan, due: datetime) -> None:
        """Set the next time of an existing plan, and its timer."""
        rows = self.records_of(Plan)
        rows[key_of(plan)] = changed(rows[key_of(plan)], next_run_at=due)
        self.set_timer(plan.timer, due)

    def drop_plan(self, agent_id: str, plan_id: str) -> None:
        """Delete a plan and its timer."""
        self.records_of(Plan).pop((agent_id, plan_id), None)
        self.wakes.pop(plan_timer(agent_id, plan_id), None)

    def drop_mind(self, agent_id: str) -> None:
        """Delete all of an agent's state, including its memory and plans."""
        for _, plan_id in [key for key in self.records_of(Plan) if key[0] == agent_id]:
            self.drop_plan(agent_id, plan_id)
        self.drop_owned("agent_id", agent_id)
        for table in (self.blocks, self.passages, self.places, self.vectors):
            for key in [key for key in table if key[0] == agent_id]:
                del table[key]
        for tool in [key for key in self.mcp_definitions if key[0] == agent_id]:
            del self.mcp_definitions[tool]
        for key in [key for key in self.block_links if agent_id in (key[0], key[2])]:
            del self.block_links[key]

    def is_deleted(self, agent_id: str) -> bool:
        """Return whether the agent was configured and has been deleted."""
        return agent_id not in self.agents and any(each == agent_id for each, _ in self.revisions)

    def pending_threads_of(self, agent_id: str) -> list[ThreadRow]:
        """Return the threads in which the agent answers and calls still accept late results, by id."""
        rows = [row for row in self.threads.values() if row.answering == agent_id]
        return sorted([row for row in rows if self.pending_in(row.born.id)], key=lambda row: row.born.id)

    def pending_in(self, thread_id: str) -> list[Call]:
        """Return the thread's calls that still accept a late result, oldest first."""
        calls = [self.calls[call_id] for call_id in self.calls_in.get(thread_id, ())]
        pending = [call for call in calls if call.status == "pending"]
        return sorted(pending, key=lambda call: (call.created_at, call.id))

    def revise(self, space_id: str) -> None:
        """Increment the revision of a space's membership."""
        space = self.space(space_id)
        self.spaces[space_id] = changed(space, revision=space.revision + 1)

    def drop_message(self, message_id: str) -> None:
        """Delete a message of a space, with its reactions."""
        del self.space_messages[message_id]
        for key in [key for key in self.reactions if key[0] == message_id]:
            del self.reactions[key]

    def drop_space(self, space_id: str) -> None:
        """Delete a space with its contents."""
        del self.spaces[space_id]
        for key in [key for key in self.members if key[0] == space_id]:
            del self.members[key]
        for message in [each for each in self.space_messages.values() if each.space_id == space_id]:
            self.drop_message(message.id)

    def leave(self, thread_id: str, leaving: Leaving) -> bool:
        """Delete or postpone the wake-up if its generation is unchanged."""
        stored = self.wakes.get(thread_id)
        if stored is None or stored.gen != leaving.gen:
            return False
        if leaving.due is None:
            del self.wakes[thread_id]
        else:
            self.wakes[thread_id] = changed(stored, due=leaving.due)
        return True
