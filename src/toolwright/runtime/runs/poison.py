"""What becomes of inbox events when the run that reads them fails: tried again one by one, then parked (D21)."""

from dataclasses import replace
from datetime import datetime, timedelta

from toolwright.core import backoff
from toolwright.core.journal.child_effects import BackOff
from toolwright.core.journal.store import ThreadView
from toolwright.core.journal.units import Leaving
from toolwright.core.ports import Clock
from toolwright.core.threads.inbox import InboxChange
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.threads.inbox import OWN


def give_back(hold: Hold, move: Move, *, failed: bool) -> Move:
    """The move that ends a failed run, with the events that it has read given back; `failed` counts against them.

    What the run said because of them stays in the records only, so that no later model reads an event twice; the
    thread's own messages stay where they are.
    """
    if not hold.reading:
        return replace(move, inbox=[], leaving=hold.leaving())
    back = [event.given_back(int(failed)) for event in hold.reading.values()]
    dropped = [
        message.seq
        for message in hold.root.messages
        if message.seq is not None and not _stays(message, hold.run.id)
    ]
    said = [replace(message, kept=_stays(message, hold.run.id)) for message in move.messages]
    return replace(move, inbox=back, dropped=dropped, messages=said, leaving=_leaving(hold, back))


def refused(hold: Hold, move: Move, back: list[InboxChange]) -> Move:
    """The move of a run that could not even begin, because of what it was to read."""
    return replace(move, inbox=back, leaving=_leaving(hold, back))


def tried_again(hold: Hold, move: Move, run: Run) -> bool:
    """Whether all that this failed run has read is to be read by another: then the session is not over with it."""
    if run.status != "failed" or has_own_message(hold):
        return False
    return any(change.now == "pending" for change in move.inbox)


def has_own_message(hold: Hold) -> bool:
    """Whether the run reads a message of the thread's own, and not only what came by way of the inbox."""
    of_run = [each for each in hold.root.messages if each.run_id == hold.run.id and each.role == "user"]
    return any(each.id.startswith(OWN) for each in of_run) or bool(hold.joined())


def retries(run: Run) -> bool:
    """Whether the model is asked again after a fault of its own: nobody is told of each try."""
    return run.error is not None and not run.over


def _leaving(hold: Hold, back: list[InboxChange]) -> Leaving:
    """Come back at once for what is to be tried again."""
    leaving = hold.leaving()
    if any(change.now == "pending" for change in back):
        return replace(leaving, due=hold.clock.now())
    return leaving


def _stays(message: Message, run_id: str) -> bool:
    own = message.role == "user" and message.id.startswith(OWN)
    return own or message.run_id != run_id


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
