"""Any order of events in the life of a call: exactly one final status, exactly one delivery."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.play import change, said
from tests.store.life import Life

from toolwright.core.journal.approvals import Refuse
from toolwright.core.journal.units import (
    Advance,
    Answer,
    CancelCall,
    Claim,
    Finish,
    Park,
    Result,
    SubmitResult,
)
from toolwright.core.threads.call import MOVES, Call, CallStatus

KINDS: st.SearchStrategy[type[Advance]] = st.sampled_from([Answer, Result, Park, Finish, Claim])
STATUSES: st.SearchStrategy[CallStatus] = st.sampled_from(["created", "running", "waiting", "pending"])
MOVED: st.SearchStrategy[CallStatus] = st.sampled_from(["running", "waiting", "pending", "done", "error"])


class LifeOfACall(RuleBasedStateMachine):
    """Rules act as owners, services, clocks and crashes do."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life()

    def teardown(self) -> None:
        self.life.end()

    def _chosen(self, choice: int) -> Call:
        calls = list(self.life.calls.values())
        return calls[choice % len(calls)]

    @rule(status=STATUSES, expires=st.booleans())
    def the_model_calls(self, status: CallStatus, expires: bool) -> None:
        self.life.create(status, expires)

    @precondition(lambda self: self.life.calls)
    @rule(choice=st.integers(0, 99), now=MOVED)
    def the_owner_moves_it(self, choice: int, now: CallStatus) -> None:
        call = self._chosen(choice)
        if now in MOVES[call.status]:
            self.life.move(call, now)

    @precondition(lambda self: self.life.calls)
    @rule(choice=st.integers(0, 99), late=st.booleans())
    def somebody_submits(self, choice: int, late: bool) -> None:
        call = self._chosen(choice)
        self.life.settle(SubmitResult, call, self.life.late(call) if late else 50)

    @precondition(lambda self: self.life.calls)
    @rule(choice=st.integers(0, 99))
    def its_approval_is_asked_for(self, choice: int) -> None:
        call = self._chosen(choice)
        if call.status == "created" and call.approval is None:
            self.life.ask(call)

    @precondition(lambda self: self.life.calls)
    @rule(choice=st.integers(0, 99), late=st.booleans(), arguments=st.sampled_from([None, '{"a":1}']))
    def somebody_approves_it(self, choice: int, late: bool, arguments: str | None) -> None:
        call = self._chosen(choice)
        self.life.approve(call, arguments, self.life.late(call) if late else 50)

    @precondition(lambda self: self.life.calls)
    @rule(choice=st.integers(0, 99), late=st.booleans())
    def somebody_refuses_it(self, choice: int, late: bool) -> None:
        call = self._chosen(choice)
        self.life.settle(Refuse, call, self.life.late(call) if late else 50)

    @precondition(lambda self: self.life.calls)
    @rule(choice=st.integers(0, 99))
    def it_expires(self, choice: int) -> None:
        self.life.expire(self._chosen(choice))

    @precondition(lambda self: self.life.calls)
    @rule(choice=st.integers(0, 99))
    def its_service_cancels_it(self, choice: int) -> None:
        self.life.settle(CancelCall, self._chosen(choice), 50)

    @precondition(lambda self: self.life.calls)
    @rule(
        choice=st.integers(0, 99),
        worker=st.sampled_from(["ann", "bob"]),
        seconds=st.sampled_from([50, 61, 99]),
    )
    def a_worker_claims_it(self, choice: int, worker: str, seconds: float) -> None:
        self.life.claim(self._chosen(choice), worker, seconds)

    @rule()
    def the_timers_fire(self) -> None:
        self.life.fire(100)

    @rule()
    def the_owner_dies_and_another_takes_over(self) -> None:
        self.life.crash()

    @precondition(lambda self: self.life.stale is not None)
    @rule(kind=KINDS, choice=st.integers(0, 99))
    def the_stale_owner_tries(self, kind: type[Advance], choice: int) -> None:
        stale = self.life.stale
        assert stale is not None
        moves = ()
        if self.life.calls and MOVES[(call := self._chosen(choice)).status]:
            moves = (change(call, min(MOVES[call.status])),)
        status = "failed" if kind is Finish else "running"
        self.life.stale_tries(stale.unit(kind, {"status": status}, changes=moves, messages=(said("late"),)))

    @rule()
    def the_run_ends(self) -> None:
        self.life.finish()

    @rule()
    def the_process_restarts(self) -> None:
        self.life.reopen()

    @invariant()
    def each_call_has_one_end_and_one_delivery(self) -> None:
        self.life.check()


TestLifeOfACall = LifeOfACall.TestCase
TestLifeOfACall.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
