"""Plan of calls: the first move of each, decided by a pure function, and made in the unit of a step.

Calls of every door start here. Nothing commits: what happens is added to `Changes`, which the loop commits as one unit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Protocol, TypeAlias

from toolwright.core.hooks import HookPoints
from toolwright.core.journal.child_effects import change_call
from toolwright.core.json_value import dumps
from toolwright.core.limits import CALLS_PER_UNIT
from toolwright.core.results import Outcome, Pending, ToolResult
from toolwright.core.schemas.state_paths import may_refer
from toolwright.core.threads.approval import terms_to_json
from toolwright.core.threads.call import Call
from toolwright.core.tools.pipeline import Decision, PreparedCall, answer_by_model, internal_result, prepare
from toolwright.core.tools.tool import Kind, Tool
from toolwright.core.value import Value
from toolwright.runtime.calls.decide import approval_terms, asks_hooks, excludes_requester, is_outdated
from toolwright.runtime.calls.request_state import resolver, written_size
from toolwright.runtime.calls.settle import CallSettler, move_call
from toolwright.runtime.calls.variables import changed_for, missing_for
from toolwright.runtime.calls.visible import outside_space, show
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.hooks import CallVerdicts, record
from toolwright.runtime.mcp import pin
from toolwright.wire.event import tool_event

STATE_PER_UNIT = 1024 * 1024
"""Maximum characters of JSON that one unit writes to the state and reads from it: some tens of milliseconds."""


class InlineExecutor(Protocol):
    """Decides a call of its kind without waiting and without I/O."""

    def __call__(self, prepared: PreparedCall) -> Outcome: ...


def wait_outside(prepared: PreparedCall) -> Outcome:
    """Return the pending outcome of a call that a service or a person executes and submits (S3 `isAsync`)."""
    tool = prepared.tool
    return Pending(wait=None if tool.is_async else tool.timeout, expires_in=tool.expires_in)


INLINE_EXECUTORS: Mapping[Kind, InlineExecutor] = {
    "internal": internal_result,
    "latent": answer_by_model,
    "external": wait_outside,
    "space": wait_outside,
}
"""The decision order of a call (S3, D8). Executors that use HTTP are not listed: `Tool.carrier` names them."""


class RefuseCall(Value):
    """Settle the call with an error. It does not start."""

    result: ToolResult


class SettleCall(Value):
    """Start the call and settle it at once with the result of its executor, which does no I/O."""

    prepared: PreparedCall
    result: ToolResult


class AskForApproval(Value):
    """Suspend the call until it is approved."""

    prepared: PreparedCall


class WaitForResult(Value):
    """Start the call, whose result is submitted from outside."""

    prepared: PreparedCall
    pending: Pending


class RunCall(Value):
    """Start the call. It is executed after the unit is committed."""

    prepared: PreparedCall


class NotYet(Value):
    """Leave the call to a later unit, and the following calls too if it `holds` them."""

    holds: bool


Move: TypeAlias = RunCall | SettleCall | WaitForResult | RefuseCall | AskForApproval | NotYet
LATER, HELD = NotYet(holds=False), NotYet(holds=True)


@dataclass(slots=True)
class EarlierCalls:
    """The earlier calls of a step: how many run, and whether any `is_open`, which means that it has no result yet.

    At most `limit` calls run concurrently. `size` counts the characters of JSON that they read from the state and write
    to it in the same unit.
    """

    limit: int
    running: int = 0
    is_open: bool = False
    size: int = 0

    def add_running(self, tool: Tool | None) -> None:
        """Count a call that runs: alone, unless calls of its tool can run concurrently."""
        self.running, self.is_open = self.running + 1, True
        if self.limit > 1 and not can_run_concurrently(tool):
            self.limit = 1


def first_move(
    prepared: PreparedCall | ToolResult,
    earlier: EarlierCalls,
    decision: Decision | None,
    inline_executors: Mapping[Kind, InlineExecutor],
    outside: ToolResult | None = None,
) -> Move:
    """Return the first move of a call: `prepared`, or the error of its name or its arguments.

    `decision` is None until everything is known that decides whether the call may start. `outside` is the error of a
    visible call whose agent must enter a space first. A call that is settled immediately waits for the results of the
    earlier calls that run; the following calls need not wait for it.
    """
    if isinstance(prepared, ToolResult):
        return LATER if earlier.running else RefuseCall(result=prepared)
    tool = prepared.tool
    if earlier.is_open and not (earlier.running < earlier.limit and can_run_concurrently(tool)):
        return HELD
    if decision is None:
        return HELD
    error = decision if isinstance(decision, ToolResult) else outside
    executor = inline_executors.get(tool.carrier) if error is None and decision == "start" else None
    outcome = None if executor is None else executor(prepared)
    is_immediate = isinstance(outcome, ToolResult) or (outcome is not None and outcome.wait is None)
    if earlier.running and (error is not None or is_immediate):
        return LATER
    if error is not None:
        return RefuseCall(result=error)
    if decision == "ask":
        return AskForApproval(prepared=prepared)
    if outcome is None:
        return RunCall(prepared=prepared)
    if isinstance(outcome, ToolResult):
        return SettleCall(prepared=prepared, result=outcome)
    return WaitForResult(prepared=prepared, pending=outcome)


def can_run_concurrently(tool: Tool | None) -> bool:
    """Return whether calls of the tool can run concurrently. The conversation of a prompt tool cannot."""
    return tool is not None and tool.read_only and tool.carrier not in ("prompt", "agent")


class CallPlanner:
    """Makes the first moves of calls, in order. `inline_executors` answer without I/O."""

    def __init__(self, inline_executors: Mapping[Kind, InlineExecutor], settler: CallSettler) -> None:
        self._inline_executors = inline_executors
        self._settler = settler

    def begin(self, context: RunContext, calls: Iterable[Call], changes: Changes) -> None:
        """Settle the calls that need no executor, in order, and start the first of the others.

        With `parallel`, following calls of read-only tools are started as well, while earlier ones run or wait; every
        other call runs alone. The unit ends before a call that is not decided yet (see `decide`), after 100 calls, and
        after a large state, because the unit is built without yielding. While the process stops, only the calls that a
        running handler waits for are started.
        """
        if context.stopping and context.holder is None:
            return
        tools = context.frame.tools or context.active.by_name
        earlier = EarlierCalls(1 if context.active.parallel == 1 else max_concurrent(context))
        for call in islice(calls, CALLS_PER_UNIT):
            if (earlier.is_open and earlier.limit == 1) or earlier.size > STATE_PER_UNIT:
                return
            if call.status != "created":
                earlier.is_open = True
                if _status_after(changes, call) == "running":
                    earlier.add_running(tools.get(call.name))
                continue
            resolve = None if context.values is None else resolver(context, changes, call)
            verdicts, inline = None, self._inline_executors
            if context.active.hooks is not None:
                verdicts, inline = context.verdicts.get(call.id), self._inline_for(context.active.hooks)
            if verdicts is None or verdicts.prepared is None:
                prepared = prepare(tools, call.name, call.arguments, call.id, resolve)
            else:
                prepared = verdicts.prepared
            decision = outside = None
            if isinstance(prepared, PreparedCall):
                decision = decided(context, changes, call, prepared.tool)
                outside = outside_space(context, tools, changes, call) if prepared.tool.visible else None
            move = first_move(prepared, earlier, decision, inline, outside)
            if move is HELD:
                return
            if verdicts is not None and not isinstance(move, NotYet):
                call = _with_verdicts(changes, call, verdicts)
            if isinstance(move, RefuseCall):
                self._settler.settle(context, changes, call, move.result)
            elif not isinstance(move, NotYet):
                self._start(context, tools, changes, call, move, earlier)

    def _inline_for(self, hooks: HookPoints) -> Mapping[Kind, InlineExecutor]:
        """Return the executors that answer without I/O: only those that wait, if hooks are asked about results."""
        if not hooks.after_call:
            return self._inline_executors
        return {kind: each for kind, each in self._inline_executors.items() if each is wait_outside}

    def _start(
        self,
        context: RunContext,
        tools: Mapping[str, Tool],
        changes: Changes,
        call: Call,
        move: RunCall | SettleCall | WaitForResult | AskForApproval,
        earlier: EarlierCalls,
    ) -> None:
        """Make the first move of a call that is not refused, and count it among the `earlier` calls."""
        tool = move.prepared.tool
        if tool.visible:
            show(context, tools, changes, call, tool, asks=isinstance(move, AskForApproval))
        if not isinstance(move, AskForApproval):
            changes.events.append(tool_event("tool.started", call.id, call.name))
        match move:
            case RunCall():
                if tool.kind == "mcp":
                    changes.effects += pin(call.agent, tool, call.created_at)
                context.prepared[call.id] = move.prepared
                move_call(changes, call, "running", context.clock.now())
                earlier.add_running(tool)
            case SettleCall():
                before = changes.effects
                self._settler.settle(context, changes, call, move.result)
                if context.values is not None:
                    read = len(dumps(move.prepared.arguments)) if may_refer(call.arguments) else 0
                    earlier.size += read + written_size(before, changes)
            case WaitForResult():
                self._settler.wait(context, changes, call, move.pending)
                earlier.is_open = earlier.is_open or move.pending.wait is not None
            case AskForApproval():
                verdicts = context.verdicts.get(call.id)
                _ask(context, changes, call, tool, verdicts)
                earlier.is_open = True

    def restart(self, context: RunContext, changes: Changes, call: Call) -> bool:
        """Start a call again that a crashed process had started. Return False if it is not repeatable (D14)."""
        tools = context.frame.tools or context.active.by_name
        prepared = prepare(tools, call.name, call.arguments, call.id, resolver(context, Changes(), call))
        if isinstance(prepared, ToolResult) or not prepared.tool.repeatable:
            return False
        context.prepared[call.id] = prepared
        move_call(changes, call, "running", context.clock.now())
        changes.events.append(tool_event("tool.started", call.id, call.name))
        return True


def decided(context: RunContext, changes: Changes, call: Call, tool: Tool) -> Decision | None:
    """Return what is decided about the start of the call, or None if it cannot start in this unit.

    It cannot start while a variable is missing or set by this unit, or before `decide` was called.
    """
    decision = context.decided.get(call.id)
    if isinstance(decision, ToolResult):
        return decision
    if (tool.variables or context.active.nested) and missing_for(context, tool):
        return None
    if changes.env and changed_for(context, tool, changes):
        return None
    hooks = context.active.hooks
    asks = hooks is not None and bool(hooks.before_call) and asks_hooks(context, call)
    if asks and decision is None:
        return None
    if call.approval is not None and is_outdated(call, tool):
        decision = "ask"
    elif not asks and (tool.approval is None or call.approval is not None):
        return "start"
    elif not asks and tool.approval is not None and tool.approval.when is None:
        decision = "ask"
    is_unknown = context.requesters is None and excludes_requester(context, call, tool)
    return None if decision == "ask" and is_unknown else decision


def max_concurrent(context: RunContext) -> int:
    """Return the maximum number of concurrent calls: 1 if they can refer to each other, or if a handler waits."""
    return 1 if context.values is not None or context.holder is not None else context.active.parallel


def _with_verdicts(changes: Changes, call: Call, verdicts: CallVerdicts) -> Call:
    """Record the verdicts about a call in the unit that starts or settles it. Return it with replaced arguments."""
    record(changes, verdicts.rows)
    if verdicts.text is None:
        return call
    call = call.with_arguments(verdicts.text)
    changes.effects += (change_call(call, "arguments", "requested"),)
    return call


def _ask(
    context: RunContext, changes: Changes, call: Call, tool: Tool, verdicts: CallVerdicts | None
) -> None:
    """Suspend the call until it is approved, as the `verdicts` of its hooks require or as its tool declares."""
    terms, now = approval_terms(context, changes, call, tool, verdicts), context.clock.now()
    expires_at = None if terms.seconds is None else now + timedelta(seconds=terms.seconds)
    move_call(changes, call, "waiting", now, expires_at=expires_at, terms=terms_to_json(terms))


def _status_after(changes: Changes, call: Call) -> str:
    """Return the status of the call after these changes."""
    return next(
        (each.after for each in reversed(changes.call_changes) if each.after.id == call.id), call
    ).status
