"""Values of a thread for one call. A call of an instance reads and sets the instance's values."""

import json
from collections.abc import Iterable, Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.journal.child_effects import SetValue
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON, plain
from toolwright.core.schemas.meta import read_recorded_call
from toolwright.core.schemas.state_paths import value_key
from toolwright.core.state import checks as given
from toolwright.core.threads.call import Call
from toolwright.runtime.context.context import RunContext


class CallValues:
    """Values that a call reads from the journal, and values that it sets with its result.

    Raises `InvalidRequest` for an invalid key.
    """

    def __init__(
        self, context: RunContext, active: ActiveAgent | None, call: Call | None, thread_id: str, store: Store
    ) -> None:
        self._context = context
        self._thread_id = thread_id
        self._store = store
        self._instance = _instance(active, call)
        self._set: dict[str, str | None] = {}

    async def get(self, key: object) -> JSON:
        """Return a value, or None if it does not exist."""
        own_key = value_key(given.key(key), self._instance)
        if own_key in self._set:
            written = self._set[own_key]
        else:
            written = await self._context.retry_until_available(
                lambda: self._store.children.value(self._thread_id, own_key)
            )
        return None if written is None else json.loads(written)

    def set(self, key: str, value: JSON) -> None:
        """Store a value with the call's result, or delete it with None. `InvalidRequest` for a value over 1 MiB."""
        own_key = value_key(given.key(key), self._instance)
        self._set[own_key] = given.encoded_value(key, self._context.redactor.json(plain(value)))

    def put(self, effects: Iterable[object]) -> None:
        """Store the values written by a nested call, with the call's result."""
        self._set |= {each.key: each.value for each in effects if isinstance(each, SetValue)}

    @property
    def keys(self) -> Iterable[str]:
        """The keys that the call has set."""
        return self._set.keys()

    @property
    def effects(self) -> Sequence[SetValue]:
        """The changes of values by this call."""
        return [
            SetValue(thread_id=self._thread_id, key=key, value=written) for key, written in self._set.items()
        ]


def _instance(active: ActiveAgent | None, call: Call | None) -> str | None:
    """Return the instance of the call, or None for calls without one and for tools that are not schema tools."""
    tool = None if active is None or call is None else active.by_name.get(call.name)
    if call is None or tool is None or tool.meta is None:
        return None
    return read_recorded_call(tool.name, tool.meta, call.arguments).instance
