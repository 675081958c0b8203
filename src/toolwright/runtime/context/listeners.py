"""Listeners of commits: what is done at once, in this process, for what a commit has opened or woken."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from toolwright.core.journal.effects import Post
from toolwright.core.journal.units import Advance, Committed
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.event import Event
from toolwright.core.threads.run import Run
from toolwright.wire.call import call_shown_by

Opened: TypeAlias = Callable[[Call, str], None]
"""Takes a call that somebody outside may answer from now on, and the id of the agent that made it."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Threads are `woken`, calls `opened` to those who answer them, live events published."""

    woken: Callable[[str], None]
    opened: Opened
    publish: Callable[[Sequence[Event]], None]

    def tell(self, unit: Advance, answer: Committed, begun: Iterable[Call], streamed: dict[str, str]) -> None:
        """Say what the unit has done: the calls `begun`, which others may answer, and the threads that it has woken.

        `streamed` is the space of each call that was shown while a model wrote it; those that end leave it.
        """
        for call in begun:
            self.opened(call, unit.run.agent)
        if streamed:
            self._take_back(unit, streamed)
        for thread_id, _ in answer.runs:
            self.woken(thread_id)

    def _take_back(self, unit: Advance, streamed: dict[str, str]) -> None:
        """What was shown of a call while the model wrote it, and came to nothing, is taken back."""
        for post in [effect for effect in unit.effects if isinstance(effect, Post)]:
            streamed.pop(call_shown_by(post.message.id), None)
        for change in [*unit.calls, *unit.changes]:
            status = change.status if isinstance(change, Call) else change.now
            if is_over(status) and (space_id := streamed.pop(change.id, None)) is not None:
                self.publish([_aborted(unit.run, change.id, space_id, unit.at)])


def _aborted(run: Run, call_id: str, space_id: str, at: datetime) -> Event:
    return Event(
        thread_id=run.thread_id,
        run_id=run.id,
        agent=run.agent,
        space_id=space_id,
        type="space.message.aborted",
        payload={"streamId": call_id},
        at=at,
    )
