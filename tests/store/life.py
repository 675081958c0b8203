"""The life of calls, played on an SQLite file by two owners, one of which might have lost the thread."""

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tests.databases import sqlite_journal
from tests.play import Drain, change, create_thread, draft, dump, later, post, said, settle, token

from toolwright.core.journal.agent_effects import DropTimer, SetTimer
from toolwright.core.journal.approvals import Approve, Refuse
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Advance,
    Answer,
    Committed,
    Conflict,
    Expire,
    Finish,
    LeaseCall,
    PostMessage,
    Result,
    Settle,
    SubmitResult,
    Takeover,
    Unit,
)
from toolwright.core.threads.call import OPEN, Call, CallStatus, timer_of

T = TypeVar("T")


class Life:
    """The journal, its owners, and the expected state of the calls."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(prefix="toolwright-life-")
        self.store = self._open()
        self.calls: dict[str, Call] = {}
        self.wait(create_thread(self.store))
        self.owner = self._begin(post("th_1"))
        self.stale: Drain | None = None

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def commit(self, unit: Unit) -> Committed | Conflict:
        return self.wait(self.store.commit(unit))

    def end(self) -> None:
        self.wait(self.store.close())
        self._runner.close()
        self.folder.cleanup()

    def reopen(self) -> None:
        """Restart the process."""
        self.wait(self.store.close())
        self.store = self._open()
        for drain in (self.owner, self.stale):
            if drain is not None:
                drain.store = self.store

    def create(self, status: CallStatus, expires: bool) -> None:
        """Create a call. If it is open at once and expires, its timer is set in the same unit."""
        timed = expires and status in OPEN
        call = self.owner.call(status, expires_at=later(100) if timed else None, repeatable=expires)
        timer = SetTimer(name=timer_of(call.id), due=later(100))
        number = self.owner.run.step_count + 1
        made = self.owner.unit(
            Answer, {"step_count": number}, calls=(call,), effects=(timer,) if timed else ()
        )
        self.wait(self.owner.do(made))
        self.calls[call.id] = call

    def move(self, call: Call, now: CallStatus) -> None:
        """Change a call's status as its owner; a result is delivered inline.

        A call that becomes open then can expire.
        """
        was: CallStatus = call.status
        result = {"status": "success", "result": "done"} if now in {"done", "error"} else None
        timed = now in OPEN and was not in OPEN
        move = change(call, now, result=result, expires_at=later(100) if timed else None)
        timer = (SetTimer(name=timer_of(call.id), due=later(100)),) if timed else ()
        unit = self.owner.unit(Result, changes=(move,), messages=(said("x"),), effects=timer)
        self.wait(self.owner.do(unit))
        self.calls[call.id] = move.after

    def settle(self, kind: type[Settle], call: Call, seconds: float) -> None:
        dropped = () if call.expires_at is None else (DropTimer(name=timer_of(call.id)),)
        unit = replace(settle(kind, "th_1", call.id, later(seconds)), effects=dropped)
        late = call.expires_at is not None and call.expires_at <= unit.at
        untimely = (kind in (SubmitResult, Refuse) and late) or (kind is Expire and not late)
        untimely |= kind in (SubmitResult, Refuse) and call.awaits_approval != (kind is Refuse)
        outcome = self.commit(unit)
        if call.status not in OPEN or untimely:
            assert outcome == Conflict(guard="call")
            return
        assert isinstance(outcome, Committed)
        route = "inbox" if call.status == "pending" else "inline"
        assert outcome.route == route
        self.calls[call.id] = replace(
            call, status=unit.outcome, route=route, result=unit.result, completed_at=unit.at
        )

    def ask(self, call: Call) -> None:
        """Request, as the owner, the approval of a call that has not started, for a hundred seconds."""
        move = change(call, "waiting", terms={"by": "anyone"}, expires_at=later(100))
        timer = SetTimer(name=timer_of(call.id), due=later(100))
        self.wait(self.owner.do(self.owner.unit(Result, changes=(move,), effects=(timer,))))
        self.calls[call.id] = move.after

    def approve(self, call: Call, arguments: str | None, seconds: float) -> None:
        """Approve a call, optionally with other arguments."""
        dropped = () if call.expires_at is None else (DropTimer(name=timer_of(call.id)),)
        unit = Approve(
            token=token(),
            at=later(seconds),
            thread_id="th_1",
            call_id=call.id,
            arguments=arguments,
            requested=None if arguments is None else call.as_requested,
            event=draft("tool.approved"),
            effects=dropped,
        )
        outcome = self.commit(unit)
        if not call.awaits_approval or (call.expires_at is not None and call.expires_at <= unit.at):
            assert outcome == Conflict(guard="call")
            return
        assert isinstance(outcome, Committed)
        self.calls[call.id] = call.approved(arguments)

    def claim(self, call: Call, worker: str, seconds: float) -> None:
        """Claim a call for ten seconds, as a worker."""
        at, until = later(seconds), later(seconds + 10)
        unit = LeaseCall(token=token(), at=at, call_id=call.id, worker=worker, until=until)
        held = call.worker not in (None, worker)
        expired_leases = call.repeatable and call.leased_until is not None and call.leased_until <= at
        expired = call.expires_at is not None and call.expires_at <= at
        outcome = self.commit(unit)
        if call.status not in OPEN or expired or (held and not expired_leases):
            assert outcome == Conflict(guard="call")
            return
        assert isinstance(outcome, Committed)
        self.calls[call.id] = replace(call, worker=worker, leased_until=until)

    def fire(self, seconds: float) -> None:
        """Fire, as the motor, the timers that are due by then."""
        for wake in self.wait(self.store.due(later(seconds), 1_000)):
            kind, _, call_id = wake.thread_id.partition(":")
            if kind == "call":
                self.settle(Expire, self.calls[call_id], seconds)
                assert self.calls[call_id].status == "expired"

    def crash(self) -> None:
        """Recover from an owner that is considered dead. The old owner can still try to write."""
        old = self.owner
        self.owner = Drain(self.store, "th_1", old.run, old.epoch, old.seq)
        self.wait(self.owner.do(self.owner.unit(Takeover, {"lives": old.run.lives + 1})))
        self.stale = old

    def finish(self) -> None:
        """End the run: waiting calls become pending, open inner calls are interrupted. Start a new run."""
        taken_back = {"status": "error", "error": "Not approved"}
        moves = [
            change(c, "cancelled", result=taken_back) if c.awaits_approval else change(c, "pending")
            for c in self.calls.values()
            if c.status == "waiting"
        ]
        moves += [
            change(c, "error", result={"status": "error", "error": "Interrupted"})
            for c in self.calls.values()
            if c.status in {"created", "running"}
        ]
        dropped = [
            DropTimer(name=timer_of(move.after.id)) for move in moves if move.after.status == "cancelled"
        ]
        unit = self.owner.unit(Finish, {"status": "failed"}, changes=tuple(moves), effects=tuple(dropped))
        self.wait(self.owner.do(unit))
        for move in moves:
            self.calls[move.after.id] = move.after
        self.owner = self._begin(post("th_1"), self.owner)

    def stale_tries(self, unit: Advance) -> None:
        before = self.wait(dump(self.store))
        assert self.commit(unit) == Conflict(guard="fence")
        assert self.wait(dump(self.store)) == before

    def check(self) -> None:
        """Check that each call is as expected, and was delivered exactly once, or not yet."""
        stored = {call.id: call for call in self.wait(self.store.calls(limit=1_000))}
        assert stored == self.calls
        inbox = [event.event_id for event in self.wait(self.store.inbox("th_1", limit=1_000))]
        for call in self.calls.values():
            notices = inbox.count(f"tr:{call.id}")
            assert notices == (call.route == "inbox")
            over = call.status in {"done", "error", "resolved", "expired", "cancelled"}
            assert (call.result is not None) == over == (call.completed_at is not None)
            wake = self.wait(self.store.wake(timer_of(call.id)))
            timed = call.expires_at is not None and call.status in OPEN
            assert not timed or (wake is not None and wake.due == call.expires_at)
            assert wake is None or call.status not in {"resolved", "expired", "cancelled"}

    def late(self, call: Call) -> float:
        """A timestamp after the call has expired."""
        return 200 if call.expires_at is not None else 50

    def expire(self, call: Call) -> None:
        self.settle(Expire, call, self.late(call))

    def _open(self) -> Store:
        return self.wait(sqlite_journal(Path(self.folder.name) / "journal.db", lambda _: None))

    def _begin(self, first: PostMessage, before: Drain | None = None) -> Drain:
        assert isinstance(self.commit(first), Committed)
        epoch, seq = (before.epoch, before.seq) if before else (0, 0)
        drain = Drain(self.store, "th_1", first.run, epoch, seq)
        self.wait(drain.claim([first.event.event_id]))
        return drain
