"""How long a model's answer may take: an answer that never ends must not hold its run for ever."""

import asyncio

from toolwright.core.errors import ModelUnavailable
from toolwright.runtime.abort import Abort

SLACK = 0.01  # of the silence that is allowed: the timer is set anew no more often, and rings so much later


class AnswerLimit:
    """A scope that ends after so many seconds of silence, when the whole answer takes too long, or by an abort."""

    __slots__ = ("_abort", "_again", "_end", "_loop", "_ring", "_silence", "_whole", "scope")

    def __init__(self, silence: float, whole: float, abort: Abort) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence, self._whole = silence, whole
        self._abort = abort
        self._ring = silence * (1 + SLACK)
        now = self._loop.time()
        self._end = now + whole
        self._again = now + silence * SLACK
        self.scope = asyncio.timeout_at(min(now + self._ring, self._end))

    def progress(self) -> None:
        """The model has said something."""
        now = self._loop.time()
        if now < self._again or self._abort.aborted or self.scope.expired():
            return
        self._again = now + self._silence * SLACK
        self.scope.reschedule(min(now + self._ring, self._end))

    def check(self) -> None:
        """Raise `ModelUnavailable` if the scope has ended, and not by an abort."""
        if self._abort.aborted or not self.scope.expired():
            return
        if self._loop.time() >= self._end:
            raise ModelUnavailable(f"The model's answer was not complete after {self._whole:g} s.")
        raise ModelUnavailable(f"The model was silent for {self._silence:g} s within its answer.")
