"""Trace contexts of runs that effects start: each run belongs to the trace of its cause."""

from collections.abc import Sequence

from toolwright.core.journal.child_effects import Notify, Report, Spawn, Speak
from toolwright.core.journal.effects import Deliver, Effect, Post
from toolwright.core.threads.inbox import Delivery
from toolwright.core.value import changed


def traced(effects: Sequence[Effect], traceparent: str | None) -> Sequence[Effect]:
    """Return the effects with their new runs assigned to that W3C trace context."""
    return effects if traceparent is None else [_traced(each, traceparent) for each in effects]


def _traced(effect: Effect, traceparent: str) -> Effect:
    match effect:
        case Spawn() | Speak():
            return changed(effect, run=changed(effect.run, traceparent=traceparent))
        case Deliver():
            return changed(effect, delivery=_delivery(effect.delivery, traceparent))
        case Post() if effect.deliveries:
            return changed(
                effect, deliveries=tuple([_delivery(each, traceparent) for each in effect.deliveries])
            )
        case Notify():
            return changed(effect, notice=_delivery(effect.notice, traceparent))
        case Report() if effect.notice is not None:
            return changed(effect, notice=_delivery(effect.notice, traceparent))
        case _:
            return effect


def _delivery(delivery: Delivery, traceparent: str) -> Delivery:
    return changed(delivery, run=changed(delivery.run, traceparent=traceparent))
