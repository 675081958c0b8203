"""New keys for old secrets: what another key has sealed is sealed anew by the first one."""

from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Reseal
from toolwright.core.ports import Clock, NewId
from toolwright.runtime.env.env import Environment

BATCH = 500


class Keys:
    """The keys that secrets are sealed with."""

    def __init__(self, store: Store, environment: Environment, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._environment = environment
        self._clock = clock
        self._new_id = new_id

    async def renew(self) -> int:
        """Seal with the first key what others have sealed; how many secrets that were.

        Afterwards the other keys are needed no more. A secret that none of the keys can read stays as it is.
        """
        key, total, unreadable = self._environment.key, 0, 0
        while key is not None:
            rows = await self._store.sealed_otherwise(key, BATCH + unreadable)
            pairs = [(row, self._environment.resealed(row)) for row in rows]
            readable = tuple([(was, now) for was, now in pairs if now is not None])
            unreadable = len(pairs) - len(readable)
            if not readable:
                break
            unit = Reseal(token=self._new_id("unit"), at=self._clock.now(), rows=readable)
            answer = await self._store.commit(unit)
            total += answer.count if isinstance(answer, Committed) else 0
        return total
