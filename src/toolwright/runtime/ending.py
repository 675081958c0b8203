"""How a run ends: with what status, and what its unanswered calls read last."""

from dataclasses import dataclass, replace
from typing import Literal

from toolwright.core.run import Run, RunStatus, StopReason
from toolwright.runtime.calls import CANCELLED, INTERRUPTED, LastWords
from toolwright.runtime.hold import Hold, Move
from toolwright.runtime.poison import give_back
from toolwright.wire.event import run_event


@dataclass(frozen=True, slots=True)
class End:
    """How a run is to end. `fault` tells what made it fail: the model, or anything else, which may be what it read."""

    status: RunStatus
    stop_reason: StopReason | None = None
    error: str | None = None
    fault: Literal["model", "batch"] = "batch"


def ended(hold: Hold, move: Move, run: Run, end: End) -> tuple[Move, Run]:
    """The move and the run's row that end it, and leave the thread."""
    over = replace(
        run,
        status=end.status,
        stop_reason=end.stop_reason,
        error=end.error,
        waiting=None,
        completed_at=hold.clock.now(),
    )
    move = replace(move, events=[*move.events, run_event(over)])
    if end.status == "failed":
        return give_back(hold, move, failed=end.fault == "batch"), over
    inbox = [event.processed() for event in hold.reading.values()]
    return replace(move, inbox=inbox, leaving=hold.leaving()), over


def last_words(end: End) -> LastWords:
    """What the calls that have no answer yet read when the run ends so."""
    match end.status:
        case "cancelled":
            return LastWords(what="Run cancelled", running=CANCELLED)
        case "failed":
            return LastWords(what="The run failed", running=INTERRUPTED)
        case _:
            return LastWords(what="The session was stopped", running=INTERRUPTED)
