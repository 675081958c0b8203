"""Late results of calls, which an agent that was deleted will never read: its calls are cancelled instead."""

from dataclasses import replace

from toolwright.core.journal.units import Advance
from toolwright.core.threads.call import Call, CallChange


def awaits_late_results(unit: Advance) -> bool:
    """Whether calls become pending with this unit."""
    for change in unit.changes:
        if change.now == "pending":
            return True
    if not (unit.calls or unit.nested):
        return False
    return any(call.status == "pending" for call in (*unit.calls, *unit.nested))


def without_late_results(unit: Advance) -> Advance:
    """The unit, where every call that would become pending is cancelled at once."""
    pending = [change.id for change in unit.changes if change.now == "pending"]
    over = [CallChange(id=each, was="pending", now="cancelled", at=unit.at) for each in pending]
    return replace(
        unit,
        changes=(*unit.changes, *over),
        calls=tuple([_cancelled(call, unit) for call in unit.calls]),
        nested=tuple([_cancelled(call, unit) for call in unit.nested]),
    )


def _cancelled(call: Call, unit: Advance) -> Call:
    if call.status != "pending":
        return call
    return replace(call, status="cancelled", completed_at=unit.at)
