"""The locks of all threads that a unit writes, in the order of their ids: so no two units wait for each other."""

from collections.abc import Generator, Sequence
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Row
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.statements.threads import Statements
from toolwright.core.journal.child_effects import (
    CancelChildren,
    ChildEffect,
    Close,
    Notify,
    Report,
    Spawn,
    Stop,
    Terminate,
)
from toolwright.core.journal.effects import Effect, deliveries_of

Steps: TypeAlias = Generator[Ops, list[Row], None]
TOGETHER = 50  # threads locked by one statement


def lock(effects: Sequence[Effect], own: str, sql: Statements) -> Steps:
    """Lock them all before the unit's `own` thread is written; nothing, if it writes no other."""
    found = {own, *[each.thread.id for each in deliveries_of(effects)]}
    for effect in effects:
        if not isinstance(effect, ChildEffect):
            continue
        found |= _written(effect)
        if isinstance(effect, CancelChildren | Close | Stop | Terminate):
            below = yield Op(sql.children.below, {"thread_id": effect.thread_id})
            found |= {str(thread_id) for (thread_id,) in below}
    if len(found) < 2:
        return
    ids = sorted(found)
    for first in range(0, len(ids), TOGETHER):
        some = ids[first : first + TOGETHER]
        yield Op(sql.spaces.lock_threads(len(some)), {f"id_{i}": one for i, one in enumerate(some)})


def _written(effect: ChildEffect) -> set[str]:
    """The threads that are there already and that the effect names."""
    match effect:
        case Spawn(thread=thread):
            return set() if thread.parent_id is None else {thread.parent_id}
        case Report(parent=parent):
            return {effect.thread_id, parent.id}
        case Notify(notice=notice):
            return {effect.thread_id, notice.thread.id}
        case _:
            return {effect.thread_id}
