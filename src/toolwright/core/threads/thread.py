"""Threads: a conversation of an agent, as stored in the journal."""

from datetime import datetime
from typing import Literal

from toolwright.core.json_value import JSONObject, dumps
from toolwright.core.threads.child import ENDED, ChildEnd, ChildStatus, Link
from toolwright.core.threads.run import Side
from toolwright.core.value import Record, Stored


class Thread(Record):
    """A thread as stored in the journal.

    `run_id` is its open run, if any. `epoch` is incremented with each claim of the thread. `seq` counts its messages,
    `ev` its events, and `posted` all events ever added to its inbox. `begun` is true once the open run has read its
    inbox: later events are for the run `next_run_id`. `space_id` is the active space.

    `agent` owns the thread. After a handover `active_agent` answers in its place; `activated` are the sides whose
    prompts have been activated since the handover. A child thread has a `link` to its parent. `report` is the parent's
    call that waits for its end, and `state` is the outcome of its last session. `faults` counts the failures of its
    model since the last answer; no request is sent before `not_before` (D21). `compacted` counts the compactions of its
    conversations; messages at positions up to `cut` are omitted from all requests. `hides` counts how often its owner
    has hidden messages or shown them again. No two threads of a user, or of no user, have the same `key`. With a key,
    `created` tells whether `create` has created the thread now; it is not stored.
    """

    STORED = Stored(key=("id",), owner="parent_id", unique=("owner_key",))

    id: str
    agent: str
    user_id: str | None = None
    parent_id: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    arguments: JSONObject | None = None
    run_id: str | None = None
    epoch: int = 0
    seq: int = 0
    ev: int = 0
    posted: int = 0
    begun: bool = False
    next_run_id: str | None = None
    space_id: str | None = None
    active_agent: str | None = None
    activated: tuple[Side, ...] = ()
    link: Link | None = None
    report: str | None = None
    state: ChildEnd | None = None
    faults: int = 0
    not_before: datetime | None = None
    cut: int = 0
    compacted: int = 0
    hides: int = 0
    key: str | None = None
    created: bool | None = None
    created_at: datetime

    @property
    def owner_key(self) -> str | None:
        """The key together with its owner, or None without a key."""
        return None if self.key is None else owner_key(self.user_id, self.key)

    @property
    def answering(self) -> str:
        """The id of the agent that answers in the thread."""
        return self.active_agent or self.agent

    @property
    def status(self) -> Literal["running", "idle", "terminated"]:
        """Return the status: `running` with an open run, `terminated` if no run can start any more, or `idle`."""
        if self.is_over:
            return "terminated"
        return "idle" if self.run_id is None else "running"

    @property
    def is_over(self) -> bool:
        """Return whether the thread has ended and accepts no more messages."""
        return self.state in ENDED

    @property
    def child_status(self) -> ChildStatus:
        """The thread's status as a child."""
        if self.state == "failed_for_good":
            return "failed"
        if self.state == "terminated":
            return "terminated"
        return "running" if self.run_id is not None else self.state or "idle"


def owner_key(user_id: str | None, key: str) -> str:
    """Return the key of a thread together with its owner, a user or no one."""
    return dumps([user_id, key])


class Wake(Record):
    """Wake-up of a thread at `due`; `gen` distinguishes it from earlier ones.

    `node` is the node of a cluster that has leased the thread, or None.
    """

    STORED = Stored(key=("thread_id",), kept=("node",))

    thread_id: str
    due: datetime
    gen: int = 0
    node: str | None = None


class ThreadValue(Record):
    """A stored value of a thread, as JSON text."""

    STORED = Stored(key=("thread_id", "key"), owner="thread_id")

    thread_id: str
    key: str
    value: str
