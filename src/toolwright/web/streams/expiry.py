"""Expiry of streams: a person follows as long as their token is good and their entity is there."""

from contextlib import suppress

import anyio

from toolwright.core.errors import StoreError
from toolwright.web.auth.access import Caller
from toolwright.web.serving import Serving


async def no_longer_allowed(serving: Serving, caller: Caller) -> None:
    """Return once the caller may follow no longer, which for a service is never.

    Whether the entity is there is asked as often as comments are sent: another process may have deleted it.
    """
    if caller.entity_id is None:
        await anyio.sleep_forever()
        return
    while await _is_registered(serving, caller.entity_id):
        patience = serving.options.keep_alive
        if caller.until is not None:
            left = caller.until - serving.options.clock.now().timestamp()
            if left <= 0:
                return
            patience = min(patience, left)
        await anyio.sleep(patience)


async def _is_registered(serving: Serving, entity_id: str) -> bool:
    """True also while the journal cannot be read: that ends streams in its own way."""
    with suppress(StoreError):
        return await serving.runtime.entities.human(entity_id) is not None
    return True
