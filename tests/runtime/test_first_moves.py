"""The first move of a call: one row for each way in which it can go, and properties of all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolwright as tw
from toolwright.core.results import Pending
from toolwright.core.tools.pipeline import Decision, PreparedCall
from toolwright.runtime.calls.plan import (
    HELD,
    INLINE_EXECUTORS,
    LATER,
    AskForApproval,
    EarlierCalls,
    Move,
    NotYet,
    RefuseCall,
    RunCall,
    SettleCall,
    WaitForResult,
    first_move,
)

ERROR = tw.ToolResult.fail("There is no such tool.", error_code="unknown_tool")
MISSING = tw.ToolResult.fail("A variable is missing.", error_code="variables_required")
OUTSIDE = tw.ToolResult.fail("Call enter_space first.")


def call_of(kind: str, *, reads: bool = False, **fields: Any) -> PreparedCall:  # of a configuration
    config = {"name": "ask", "description": "Ask.", "inputSchema": {"type": "object"}, "executionType": kind}
    tool = tw.Tool.from_config({**config, "readOnly": reads, **fields})
    return PreparedCall(tool=tool, arguments={}, call_id="call_1")


HTTP = call_of("gateway", execution={"url": "https://api.example.com/"})
READ = call_of("gateway", reads=True, execution={"url": "https://api.example.com/"})
INTERNAL = call_of("internal")
EXTERNAL = call_of("external", timeout=5_000, expiresIn=60_000)
ASYNC = call_of("external", isAsync=True)
ANSWER = tw.ToolResult.ok({"success": True, "args": {}})
FIRST = (1, 0, False)
ONE_RUNS, ONE_OF_FOUR_RUNS, FOUR_RUN, ONE_WAITS = (1, 1, True), (4, 1, True), (4, 4, True), (4, 0, True)


@pytest.mark.parametrize(
    ("prepared", "earlier", "decision", "outside", "move"),
    [
        # the name or the arguments are wrong
        (ERROR, FIRST, None, None, RefuseCall(result=ERROR)),
        (ERROR, ONE_OF_FOUR_RUNS, None, None, LATER),
        (ERROR, ONE_WAITS, None, None, RefuseCall(result=ERROR)),
        # the calls before it
        (HTTP, ONE_RUNS, "start", None, HELD),
        (HTTP, ONE_OF_FOUR_RUNS, "start", None, HELD),
        (READ, FOUR_RUN, "start", None, HELD),
        (READ, ONE_OF_FOUR_RUNS, "start", None, RunCall(prepared=READ)),
        (READ, ONE_WAITS, "start", None, RunCall(prepared=READ)),
        # variables and approvals
        (HTTP, FIRST, None, None, HELD),
        (INTERNAL, FIRST, None, None, HELD),
        (HTTP, FIRST, MISSING, None, RefuseCall(result=MISSING)),
        (READ, ONE_OF_FOUR_RUNS, MISSING, None, LATER),
        (HTTP, FIRST, "ask", None, AskForApproval(prepared=HTTP)),
        (INTERNAL, FIRST, "ask", None, AskForApproval(prepared=INTERNAL)),
        # a visible call whose agent must enter a space first
        (HTTP, FIRST, "start", OUTSIDE, RefuseCall(result=OUTSIDE)),
        (HTTP, FIRST, "ask", OUTSIDE, RefuseCall(result=OUTSIDE)),
        (READ, ONE_OF_FOUR_RUNS, "start", OUTSIDE, LATER),
        (HTTP, FIRST, MISSING, OUTSIDE, RefuseCall(result=MISSING)),
        # its executor
        (HTTP, FIRST, "start", None, RunCall(prepared=HTTP)),
        (INTERNAL, FIRST, "start", None, SettleCall(prepared=INTERNAL, result=ANSWER)),
        (EXTERNAL, FIRST, "start", None, WaitForResult(prepared=EXTERNAL, pending=Pending(wait=5, expires_in=60))),
        (ASYNC, FIRST, "start", None, WaitForResult(prepared=ASYNC, pending=Pending(wait=None))),
    ],
)  # fmt: skip
def test_the_first_move_of_a_call(
    prepared: PreparedCall | tw.ToolResult,
    earlier: tuple[int, int, bool],
    decision: Decision | None,
    outside: tw.ToolResult | None,
    move: Move,
) -> None:
    assert first_move(prepared, EarlierCalls(*earlier), decision, INLINE_EXECUTORS, outside) == move


prepared_calls = st.sampled_from([ERROR, HTTP, READ, INTERNAL, EXTERNAL, ASYNC])
decisions = st.sampled_from(["start", "ask", MISSING, None])
outsides = st.sampled_from([None, OUTSIDE])


@given(prepared_calls, decisions, outsides, st.integers(1, 8), st.integers(0, 8), st.booleans())
def test_no_call_starts_undecided_beside_more_than_the_limit_or_where_it_is_not_allowed(
    prepared: PreparedCall | tw.ToolResult,
    decision: Decision | None,
    outside: tw.ToolResult | None,
    limit: int,
    running: int,
    is_open: bool,
) -> None:
    earlier = EarlierCalls(limit, running, is_open or running > 0)
    move = first_move(prepared, earlier, decision, INLINE_EXECUTORS, outside)
    if isinstance(move, RunCall | SettleCall | WaitForResult):
        assert (decision, outside) == ("start", None)
    if isinstance(move, RunCall) and running:
        assert running < limit
        assert move.prepared.tool.read_only
    if isinstance(move, RefuseCall | SettleCall):
        assert running == 0  # the results of the earlier calls come first
    if decision is None and prepared is not ERROR:
        assert isinstance(move, NotYet)
        assert move.holds
