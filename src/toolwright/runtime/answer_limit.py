"""How long a model's answer may take: an answer that never ends must not hold its run for ever."""

import asyncio

from toolwright.core.errors import ModelUnavailable


class AnswerLimit:
    """A scope that ends after so many seconds of silence, or when the whole answer takes too long."""

    __slots__ = ("_end", "_loop", "_silence", "_whole", "scope")

    def __init__(self, silence: float, whole: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence = silence
        self._whole = whole
        now = self._loop.time()
        self._end = now + whole
        self.scope = asyncio.timeout_at(min(now + silence, self._end))

    def progress(self) -> None:
        """The model has said something."""
        if not self.scope.expired():
            self.scope.reschedule(min(self._loop.time() + self._silence, self._end))

    def check(self) -> None:
        """Raise `ModelUnavailable` if the scope has ended for one of these reasons."""
        if not self.scope.expired():
            return
        if self._loop.time() >= self._end:
            raise ModelUnavailable(f"The model's answer was not complete after {self._whole:g} s.")
        raise ModelUnavailable(f"The model was silent for {self._silence:g} s within its answer.")
