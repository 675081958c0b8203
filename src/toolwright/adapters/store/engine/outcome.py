"""Outcome of a unit: its result, or the precondition that failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeAlias

from toolwright.core.journal.space_effects import UNCHANGED, Edit, SpaceEffect
from toolwright.core.journal.units import Committed, Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Event, EventDraft, RunEvents

Publish: TypeAlias = Callable[[Sequence[Event]], None]  # hands committed events to the bus


NO_EVENTS: Sequence[Event] = ()


class UnitResult(NamedTuple):  # a tuple, because every commit creates one
    """Result of a unit: the answer for the caller, and the events for the bus."""

    answer: Committed
    events: Sequence[Event] = NO_EVENTS


def numbered(
    drafts: tuple[EventDraft, ...], last: int, unit: Unit, thread_id: str, run_id: str | None, agent: str
) -> RunEvents:
    """Return the drafts as consecutively numbered events; the last one gets the number `last`."""
    return RunEvents(drafts, last, unit.at, thread_id, run_id, agent)


def placed(effect: SpaceEffect, seq: int | None, at: datetime) -> list[Event]:
    """Return the events of an effect, not numbered yet. Empty if it changed nothing (`seq` is `UNCHANGED`).

    A message in the events gets the position `seq`.
    """
    if seq == UNCHANGED:
        return []
    source = effect.source
    return [
        Event(
            thread_id=source.thread_id,
            run_id=source.run_id,
            agent=source.agent,
            space_id=effect.space_id,
            type=draft.type,
            payload=_with_place(draft.payload, seq),
            at=at,
        )
        for draft in effect.events
    ]


def _with_place(payload: JSONObject, seq: int | None) -> JSONObject:
    message = payload.get("message")
    if seq is None or not isinstance(message, dict):
        return payload
    return {**payload, "message": {**message, "seq": seq}}


@dataclass(slots=True)
class EffectResult:
    """Result of a unit's effects. `shown` are edits of space messages that show calls ended by the effects."""

    events: list[Event] = field(default_factory=list[Event])
    runs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    shown: list[Edit] = field(default_factory=list[Edit])
    seq: int | None = None
    count: int = 0


NOTHING = EffectResult()  # the result of no effects
