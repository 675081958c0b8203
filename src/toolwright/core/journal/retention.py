"""Units of work that delete threads, sweep their rows in batches and track the contents of their files.

A deleted thread and its descendants disappear immediately: their thread rows are deleted, so every unit of work that
would write to them fails a precondition. Their other rows are unreachable and are swept later, in batches small enough
that no writer waits long. The same applies to the messages of a deleted space and the passages of a deleted agent.
"""

from datetime import datetime

from toolwright.core.journal.units import Unit
from toolwright.core.value import Record, Stored


class Prune(Unit):
    """Delete old events and commit tokens, at most `limit` rows.

    Deletes events older than `before`, except events of threads with an open run. A thread's oldest events are deleted
    first, without gaps. Deletes tokens older than `tokens_before`. None keeps all.
    """

    before: datetime | None
    tokens_before: datetime | None = None
    limit: int = 1000


class DropThread(Unit):
    """Delete a thread and its descendants. Conflict: `busy`, while one of them has an open run.

    Calls that still accept a late result are cancelled, as by `CancelCall`, so that the spaces that show them are
    updated. With `idle_since` the conflict is also `busy` if there was any activity in the threads since then, or
    anything in them is waiting. Returns `count`: the number of deleted threads.
    """

    thread_id: str
    idle_since: datetime | None = None


class SweepThreads(Unit):
    """Delete up to `limit` rows of deleted threads, spaces and agents.

    Returns `count`, which is 0 if no rows are left. Until then a new space cannot have the id of a deleted one.
    """

    limit: int = 1000


class DroppedBytes(Record):
    """File contents of a deleted thread, recorded at the time `at`. `needed` is true if another thread uses them."""

    STORED = Stored(key=("digest",))

    digest: str
    at: datetime
    needed: bool = False


class ForgetBytes(Unit):
    """Delete the records of file contents that are deleted, or needed by another thread.

    Records that were written again in the meantime are kept.
    """

    dropped: tuple[DroppedBytes, ...]
