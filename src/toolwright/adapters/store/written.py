"""What comes of a unit: it is written, or one of its guards failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolwright.core.event import Event, EventDraft
from toolwright.core.units import Committed, Guard, Unit

Publish: TypeAlias = Callable[[Sequence[Event]], None]  # hands committed events to the bus


@dataclass(frozen=True, slots=True)
class Written:
    """What a unit did: the answer for the caller, and the events for the bus."""

    answer: Committed
    events: tuple[Event, ...] = ()


class GuardFailed(Exception):
    """A guard does not hold: the unit must leave no trace."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard)
        self.guard: Guard = guard


def numbered(
    drafts: tuple[EventDraft, ...], last: int, unit: Unit, thread_id: str, run_id: str, agent: str
) -> tuple[Event, ...]:
    """The drafts as events, the last of which gets the number `last`."""
    first = last - len(drafts) + 1
    return tuple(
        [
            Event(
                thread_id=thread_id,
                run_id=run_id,
                agent=agent,
                type=draft.type,
                payload=draft.payload,
                at=unit.at,
                n=n,
            )
            for n, draft in enumerate(drafts, first)
        ]
    )
