"""Requests that nobody can answer any more are taken away, with the values that were given in part."""

from collections.abc import Sequence

from toolwright.core.env.env import EnvChange, EnvRow
from toolwright.core.env.request import VariablesRequest
from toolwright.core.journal.child_effects import TakeRequest
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, SetEnv
from toolwright.core.ports import Clock, NewId
from toolwright.runtime.children.births import birth_from_json

BATCH = 100


async def drop_expired(store: Store, clock: Clock, new_id: NewId) -> int:
    """Take away all whose time is over; how many that were."""
    total = 0
    while True:
        expired = await store.children.expired(clock.now(), BATCH)
        answers = [await store.commit(await _end(each, store, clock, new_id("unit"))) for each in expired]
        dropped = len([answer for answer in answers if isinstance(answer, Committed)])
        total += dropped
        if dropped < BATCH:  # what another process has taken away is not among them
            return total


async def _end(request: VariablesRequest, store: Store, clock: Clock, token: str) -> SetEnv:
    """It is taken once, so nothing is given to it afterwards. A child that never begins has no values."""
    child_id = None if request.child is None else birth_from_json(request.child, clock).thread_id
    rows: Sequence[EnvRow] = [] if child_id is None else await store.env_of(child_id)
    return SetEnv(
        token=token,
        at=clock.now(),
        thread_id=request.thread_id,
        env=tuple([EnvChange(owner=row.owner, kind=row.kind, name=row.name) for row in rows]),
        effects=(TakeRequest(thread_id=request.thread_id, id=request.id),),
    )
