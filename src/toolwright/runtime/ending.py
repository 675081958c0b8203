"""How a run ends: with what status, and what its unanswered calls read last."""

from dataclasses import dataclass, replace

from toolwright.core.run import Run, RunStatus, StopReason
from toolwright.runtime.calls import CANCELLED, INTERRUPTED, LastWords
from toolwright.runtime.hold import Hold, Move
from toolwright.wire.event import run_event


@dataclass(frozen=True, slots=True)
class End:
    """How a run is to end."""

    status: RunStatus
    stop_reason: StopReason | None = None
    error: str | None = None


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
    return replace(move, events=[*move.events, run_event(over)], leaving=hold.leaving()), over


def last_words(end: End) -> LastWords:
    """What the calls that have no answer yet read when the run ends so."""
    match end.status:
        case "cancelled":
            return LastWords(what="Run cancelled", running=CANCELLED)
        case "failed":
            return LastWords(what="The run failed", running=INTERRUPTED)
        case _:
            return LastWords(what="The session was stopped", running=INTERRUPTED)
