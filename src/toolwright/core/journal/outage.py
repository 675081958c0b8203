"""Outages of the journal in the log: one line at the start, one at the end, and a few in between."""

import math

from toolwright.core import backoff
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError
from toolwright.core.ports import Clock
from toolwright.core.text import quantity

SELDOM = 300.0  # seconds between two log lines about a continuing outage
FLAPPING = 60.0  # seconds after a log line within which no other outage is logged, unless it lasts longer
UNSEEN = 2 * backoff.LONGEST  # seconds without a failure after which an outage counts as ended

log = logger("toolwright.journal")


class Outage:
    """Record of an outage of the journal. Callers that retry report each failure, and the first success after it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._is_logged = False
        self._last_failure = self._last_line = -math.inf

    @property
    def lasts(self) -> bool:
        """Return whether the journal has failed and has not answered since."""
        return self._since is not None

    def failed(self, error: StoreError) -> None:
        """Record that the journal could not be read or written."""
        now = self._clock.monotonic()
        if self._since is None or now - self._last_failure > UNSEEN:
            self._since, self._is_logged = now, False
        self._last_failure = now
        if not self._is_logged and now - self._last_line >= FLAPPING:
            self._is_logged, self._last_line = True, now
            log.warning("The journal is unavailable. Work that needs it waits: %s", error)
        elif self._is_logged and now - self._last_line >= SELDOM:
            self._last_line = now
            log.warning("The journal did not answer for %s: %s", _seconds(now - self._since), error)

    def over(self) -> None:
        """Record that the journal has answered after a failure."""
        if self._since is None:
            return
        now = self._clock.monotonic()
        if self._is_logged:
            self._last_line = now
            log.warning("The journal is available again after %s.", _seconds(now - self._since))
        self._since = None


def _seconds(duration: float) -> str:
    return quantity(round(duration), "second")
