"""Units of work that delete threads, sweep their rows in batches and track the contents of their files.

A deleted thread and its descendants disappear at once: their rows are deleted, so every unit of work that would write
to them fails a precondition. Their other rows are unreachable until they are swept, in batches small enough that no
writer waits for long. The same holds for the messages of a deleted space and the passages of a deleted agent.
"""

from datetime import datetime

from toolwright.core.journal.units import Unit
from toolwright.core.value import value


@value
class Prune(Unit):
    """Delete old events and commit tokens, at most `limit` rows.

    Deletes events older than `before`, except those of threads with an open run, so that a thread's oldest events are
    deleted first and none is skipped. Deletes tokens older than `tokens_before`. None keeps all.
    """

    before: datetime | None
    tokens_before: datetime | None = None
    limit: int = 1000


@value
class DropThread(Unit):
    """Delete a thread and its descendants. Conflict: `busy`, while one of them has an open run.

    Calls that still accept a late result are cancelled, as by `CancelCall`, so that spaces which show them are updated.
    With `idle_since` the conflict is also `busy` if anything has happened in the threads since then, or anything in
    them is waiting. Answers with `count`: the number of deleted threads.
    """

    thread_id: str
    idle_since: datetime | None = None


@value
class SweepThreads(Unit):
    """Delete up to `limit` rows of deleted threads, spaces and agents.

    Answers with `count`, 0 if none is left. Until then a space cannot have the id of a deleted one.
    """

    limit: int = 1000


@value
class DroppedBytes:
    """File contents of a deleted thread, recorded at the time `at`. `needed` is true if another thread has them."""

    digest: str
    at: datetime
    needed: bool


@value
class ForgetBytes(Unit):
    """Delete the records of contents that are deleted, or needed by another thread.

    Records that were written again since are kept.
    """

    dropped: tuple[DroppedBytes, ...]
