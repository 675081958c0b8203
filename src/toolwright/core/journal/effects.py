"""Effects of a unit of work outside its thread: records, spaces, other inboxes, timers, memory, thread trees, MCP.

A call's effects are values that are committed with its result (JOURNAL, "What a call may do to the database"). Units
from outside a run use the same values, so each kind of row is written by one piece of code.
"""

from collections.abc import Sequence
from typing import TypeAlias

from toolwright.core.journal import child_effects
from toolwright.core.journal.agent_effects import FirePlan
from toolwright.core.journal.rows import Add, Delete, Put, RowEffect
from toolwright.core.journal.space_effects import Post, SpaceEffect
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery
from toolwright.core.value import Value, changed


class AddNestedCall(Value):
    """Create a waiting call from outside any run, as a child of another call of its thread.

    The other call is its `parent_id`. The thread's subscribers receive the `events`. Conflict: `call`, if a call with
    this id exists, or if the parent does not exist, belongs to another thread or has ended; `thread`, if the thread
    does not exist.
    """

    call: Call
    events: tuple[EventDraft, ...] = ()


class Deliver(Value):
    """Deliver an event to an agent's inbox."""

    delivery: Delivery


Effect: TypeAlias = RowEffect | SpaceEffect | Deliver | AddNestedCall | Put | Add | Delete


def deliveries_of(effects: Sequence[Effect]) -> list[Delivery]:
    """Return all deliveries, by thread."""
    deliveries = [each.delivery for each in effects if isinstance(each, Deliver | FirePlan)]
    deliveries += [each for post in effects if isinstance(post, Post) for each in post.deliveries]
    return sorted(deliveries, key=lambda each: each.thread.id)


def traced(effects: Sequence[Effect], traceparent: str | None) -> Sequence[Effect]:
    """Return the effects with their new runs assigned to that W3C trace context."""
    return effects if traceparent is None else [_traced(each, traceparent) for each in effects]


def _traced(effect: Effect, traceparent: str) -> Effect:
    match effect:
        case child_effects.Spawn() | child_effects.Speak():
            return changed(effect, run=changed(effect.run, traceparent=traceparent))
        case Deliver():
            return changed(effect, delivery=_delivery(effect.delivery, traceparent))
        case Post() if effect.deliveries:
            return changed(
                effect, deliveries=tuple([_delivery(each, traceparent) for each in effect.deliveries])
            )
        case child_effects.Notify():
            return changed(effect, notice=_delivery(effect.notice, traceparent))
        case child_effects.Report() if effect.notice is not None:
            return changed(effect, notice=_delivery(effect.notice, traceparent))
        case _:
            return effect


def _delivery(delivery: Delivery, traceparent: str) -> Delivery:
    return changed(delivery, run=changed(delivery.run, traceparent=traceparent))
