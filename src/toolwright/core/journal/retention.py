"""Units that delete threads, their rows in pieces, and what is known of the bytes of their files.

A deleted thread is gone at once, with all below it: its row is, and so every unit that would write to it fails a guard.
Its other rows lie where nobody finds them until they are swept up, so many at a time that no writer waits for long.
So do the messages of a deleted space, and the passages of a deleted agent.
"""

from datetime import datetime

from toolwright.core.journal.units import Unit
from toolwright.core.value import value


@value
class Prune(Unit):
    """Old events and commit tokens are deleted, `limit` rows at the most.

    Events that are older than `before`, but for those of threads with an open run, so that a thread's oldest events go
    first and none is left out. Tokens go that are older than `tokens_before`. None keeps them all.
    """

    before: datetime | None
    tokens_before: datetime | None = None
    limit: int = 1000


@value
class DropThread(Unit):
    """A thread is deleted with all below it: the guard `busy` fails while a run of one of them is not over.

    Calls that hoped for a late result are cancelled, as by `CancelCall`, so that spaces which show them say so. With
    `idle_since` it is deleted only if nothing has happened in it since then and nothing there is waited for, else
    `busy` fails too. Answers with `count`: how many threads that were.
    """

    thread_id: str
    idle_since: datetime | None = None


@value
class SweepThreads(Unit):
    """Rows of deleted threads, spaces and agents are swept up, `limit` at the most.

    Answers with `count`, 0 when nothing is left. A space cannot have the id of a deleted one before that.
    """

    limit: int = 1000


@value
class DroppedBytes:
    """Bytes that a deleted thread had, noted `at` that instant; `needed` says whether another one still has them."""

    digest: str
    at: datetime
    needed: bool


@value
class ForgetBytes(Unit):
    """These bytes are gone, or needed by another thread: their notes go, but for those that were made again since."""

    dropped: tuple[DroppedBytes, ...]
