"""Units of work for approvals: approve or refuse a call that waits for one, or have it asked for again."""

from typing import Literal

from toolwright.core.journal.effects import Effect
from toolwright.core.journal.units import Settle, Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import EventDraft


class Approve(Unit):
    """Approve a call that waits for an approval, before it expires, by one compare-and-set. Its run then continues.

    `arguments` replace the call's own, which are kept as `requested`, `decisions` its decisions.
    """

    thread_id: str
    call_id: str
    arguments: str | None
    requested: str | None = None
    event: EventDraft
    decisions: tuple[JSONObject, ...] = ()
    effects: tuple[Effect, ...] = ()


class AskAgain(Unit):
    """Return a call that waits for an approval to its run, which asks again, because its tool has changed.

    `terms` are stored with the call until then.
    """

    thread_id: str
    call_id: str
    terms: JSONObject
    effects: tuple[Effect, ...] = ()


class Refuse(Settle):
    """Refuse a call that waits for an approval, before it expires."""

    @property
    def outcome(self) -> Literal["resolved"]:
        return "resolved"
