"""Requests that nobody can answer any more are taken away, with the values that were given in part."""

from toolwright.core.effects_children import TakeRequest
from toolwright.core.env import EnvChange
from toolwright.core.ports import Clock, NewId, Store
from toolwright.core.request import VariablesRequest
from toolwright.core.units import Committed, SetEnv
from toolwright.runtime.births import birth_from_json

BATCH = 100


async def drop_expired(store: Store, clock: Clock, new_id: NewId) -> int:
    """Take away all whose time is over; how many that were."""
    total = 0
    while True:
        expired = await store.children.expired(clock.now(), BATCH)
        answers = [await store.commit(_end(each, clock, new_id("unit"))) for each in expired]
        dropped = len([answer for answer in answers if isinstance(answer, Committed)])
        total += dropped
        if dropped < BATCH:  # what another process has taken away is not among them
            return total


def _end(request: VariablesRequest, clock: Clock, token: str) -> SetEnv:
    """It is taken once, so nothing is given to it afterwards; only what it asked for can have been given."""
    owner = None if request.child is None else birth_from_json(request.child, clock).thread_id
    names = [] if owner is None else [(owner, each.name) for each in request.required]
    return SetEnv(
        token=token,
        at=clock.now(),
        thread_id=request.thread_id,
        env=tuple([EnvChange(owner=owner, kind="env", name=name, row=None) for owner, name in names]),
        effects=(TakeRequest(thread_id=request.thread_id, id=request.id),),
    )
