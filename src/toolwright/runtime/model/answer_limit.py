"""How long a model's answer may take: an answer that never ends must not hold its run for ever."""

import asyncio
from typing import Any

from toolwright.core.errors import ModelUnavailable
from toolwright.core.supervision import Supervision
from toolwright.runtime.hold.abort import Abort

SLACK = 0.01  # of the silence that is allowed: the timer is set anew no more often, and rings so much later


class AnswerLimit:
    """Ends an answer after so many seconds of silence, when the whole of it takes too long, or by an abort."""

    __slots__ = ("_abort", "_again", "_end", "_loop", "_reading", "_ring", "_silence", "_whole")

    def __init__(self, silence: float, whole: float, abort: Abort) -> None:
        self._reading: Supervision[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._silence, self._whole = silence, whole
        self._abort = abort
        self._ring = silence * (1 + SLACK)
        now = self._loop.time()
        self._end = now + whole
        self._again = now + silence * SLACK

    def begin(self, reading: "Supervision[Any]") -> None:
        """What is limited is this."""
        self._reading = reading
        reading.limit(min(self._loop.time() + self._ring, self._end))
        self._abort.within(reading)

    def progress(self) -> bool:
        """The model has said something; whether anybody still hears it."""
        assert self._reading is not None, "what makes progress has begun"
        if self._reading.cut_off is not None:
            return False
        now = self._loop.time()
        if now >= self._again and not self._abort.aborted:
            self._again = now + self._silence * SLACK
            self._reading.limit(min(now + self._ring, self._end))
        return True

    def over(self) -> None:
        """The answer is there, or will not be."""
        if self._reading is not None:
            self._abort.left(self._reading)

    def check(self) -> None:
        """Raise `ModelUnavailable` if the answer has taken too long, and was not aborted."""
        if self._abort.aborted:
            return
        if self._loop.time() >= self._end:
            raise ModelUnavailable(f"The model's answer was not complete after {self._whole:g} s.")
        raise ModelUnavailable(f"The model was silent for {self._silence:g} s within its answer.")
