"""Where in its run a call stands, and what its handler wants to become of the run."""

from dataclasses import dataclass

from toolwright.core.errors import InvalidRequest
from toolwright.core.threads.run import QueuedCall, Side
from toolwright.runtime.hold.abort import Abort


@dataclass(frozen=True, slots=True)
class Skipped:
    """The run is to end without a word."""

    reason: str | None


@dataclass(slots=True)
class RunExecution:
    """Where in its run a call stands. What it asks for happens once the call's result is recorded."""

    step_count: int
    current_side: Side
    abort_signal: Abort
    stopped: bool = False
    side_stopped: bool = False
    terminated: bool = False
    skipped: Skipped | None = None
    queued: tuple[QueuedCall, ...] = ()
    over: bool = False

    def stop_side(self) -> None:
        """End the turn of the side that speaks once this call's result is recorded."""
        self.check()
        self.side_stopped = True

    def stop_session(self) -> None:
        """End the run as `session_stop` once this call's result is recorded."""
        self.check()
        self.stopped = True

    def check(self) -> None:
        """Raise `InvalidRequest` once the call is over: what is done in it then is lost."""
        if self.over:
            raise InvalidRequest("This call is over: nothing can be done in its thread any more.")

    @property
    def ends(self) -> bool:
        """Whether the turn or the run is to end."""
        return self.stopped or self.side_stopped or self.skipped is not None

    def hear(self, below: "RunExecution") -> None:
        """What a call within this one has asked for, this one asks for too."""
        self.stopped |= below.stopped
        self.side_stopped |= below.side_stopped
        self.terminated |= below.terminated
        self.skipped = self.skipped or below.skipped
