"""How a thread is left alone whose model or journal has failed, until its next try is due (D21)."""

from dataclasses import replace
from datetime import datetime, timedelta

from toolwright.core import backoff
from toolwright.core.journal.child_effects import BackOff
from toolwright.core.journal.store import ThreadView
from toolwright.core.journal.units import Leaving
from toolwright.core.ports import Clock
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.move import Move


def back_off_end(view: ThreadView, clock: Clock) -> datetime | None:
    """Until when the thread is left alone, whatever has come; None if it is not, or its run is to be cancelled."""
    until = view.thread.not_before
    if until is None or until <= clock.now() or view.thread.is_over:
        return None
    return None if view.run is not None and view.run.cancel_requested_at is not None else until


def back_off(hold: Hold, move: Move) -> Move:
    """The move, after which the thread is left alone for a while: the longer, the more often its model has failed."""
    faults = hold.thread.faults + 1
    until = hold.clock.now() + timedelta(seconds=backoff.nth(faults - 1))
    effect = BackOff(thread_id=hold.thread.id, faults=faults, until=until)
    return replace(move, effects=[*move.effects, effect], leaving=Leaving(gen=hold.gen, due=until))


def keep_back_off(hold: Hold, move: Move) -> Move:
    """The move that ends a cancelled run: what else waits in a thread that is left alone waits as long as before."""
    until = hold.thread.not_before
    if until is None or until <= hold.clock.now() or move.leaving is None or move.leaving.due is None:
        return end_back_off(hold, move)
    return replace(move, leaving=Leaving(gen=hold.gen, due=until))


def end_back_off(hold: Hold, move: Move) -> Move:
    """The move, after which nothing is put off any more."""
    if not hold.thread.faults:
        return move
    over = BackOff(thread_id=hold.thread.id, faults=0, until=None)
    return replace(move, effects=[*move.effects, over])
