"""Pending calls: claimed by workers, ended from outside exactly once: by a result, a cancellation, expiry (D9)."""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeVar, get_args

from toolwright.core import errors
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.arguments.errors import InvalidArguments, details_of, join_errors, within
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.checks import by_list
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.files import FileChange, FileDrafts
from toolwright.core.journal import units
from toolwright.core.journal.agent_effects import DropTimer, SetTimer
from toolwright.core.journal.approvals import Approve, AskAgain, Refuse
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.space_effects import Source
from toolwright.core.journal.store import CallVisibility
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped, plain
from toolwright.core.limits import MAX_NAME
from toolwright.core.mcp.questions import OpenForms, read_answer
from toolwright.core.results import CALL_CANCELLED, AttachmentRef, ToolResult
from toolwright.core.spaces import entity_of
from toolwright.core.state.state import question_of
from toolwright.core.text import quantity, sentence
from toolwright.core.threads.approval import (
    ApprovalAnswer,
    Terms,
    hash_of_terms,
    is_answer,
    read_approval,
    refused,
    terms_from_json,
    terms_to_json,
    unanswered,
)
from toolwright.core.threads.call import OPEN, Call, CallStatus, timer_of
from toolwright.core.threads.decision import Action, Decider, decision
from toolwright.core.threads.inbox import ORIGIN, InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.calls.visible import result_message
from toolwright.runtime.carried import Carried
from toolwright.runtime.env import redacted
from toolwright.runtime.files import FileKeeper, StoredAttachment, StoredFiles, WholeResults
from toolwright.runtime.journal import (
    Services,
    by_choice,
    by_kind,
    by_text,
    can_be_id,
    page,
    read_decider,
    refuse_object,
)
from toolwright.runtime.threads.thread_tree import Lineages
from toolwright.wire.event import approved_event, outcome_event
from toolwright.wire.result import error_object, is_cut, result_to_json

S = TypeVar("S", bound=units.Settle)

EXPIRED = ToolResult.fail("Tool call expired")
log = logging.getLogger("toolwright.runtime")
LEASES = (1.0, 3600.0)
"""Minimum and maximum seconds for which a worker can claim a call. A worker renews the lease of a longer one."""
APPROVED = "Tool call already approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The facts of a settling unit in addition to the call.

    `depth` is that of the call's run in a chain of agents, `shown` the effects on its message in a space, `decisions`
    are those about the call, unless no one has decided.
    """

    token: str
    at: datetime
    depth: int = 0
    shown: Sequence[Effect] = ()
    decisions: tuple[JSONObject, ...] = ()


def settlement(
    kind: type[S], call: Call, outcome: ToolResult, settling: Settling, files: Sequence[FileChange] = ()
) -> S:
    """Return the unit that ends the call. It includes the event for the agent's inbox, in case the call is pending."""
    return kind(
        token=settling.token,
        at=settling.at,
        thread_id=call.thread_id,
        call_id=call.id,
        result=result_to_json(outcome),
        event=outcome_event(call.id, call.name, outcome),
        notice=late_result(call, outcome, settling.depth, settling.at),
        files=tuple(files),
        effects=(*settling.shown, *dropped_timers(call)),
        decisions=settling.decisions,
    )


def late_result(call: Call, outcome: ToolResult, depth: int, at: datetime) -> InboxEvent:
    """Return the inbox event for the result of a call whose run has continued."""
    content: JSON = error_object(outcome) if outcome.status == "error" else outcome.result
    cut: JSONObject = {"resultTruncated": True} if is_cut(outcome) else {}
    return InboxEvent(
        thread_id=call.thread_id,
        event_id=f"tr:{call.id}",
        type="tool_result",
        content={
            "toolCallId": call.id,
            "toolName": call.name,
            ORIGIN: call.run_id,
            "result": content,
            **cut,
        },
        depth=depth,
        created_at=at,
    )


def dropped_timers(call: Call) -> tuple[Effect, ...]:
    """Return the effect that drops the timer of a call with an expiry, if it has one."""
    return () if call.expires_at is None else (DropTimer(name=timer_of(call.id)),)


async def edited_arguments(call: Call, terms: Terms, answer: ApprovalAnswer, tool: Tool | None) -> str | None:
    """Return the approver's edited arguments, or None if they were not edited.

    Raises `InvalidRequest` if the call's schema rejects them, or the types of the `tool`, if this process knows it.
    """
    arguments = answer.arguments
    if arguments is None:
        return None
    return await in_thread_if_large(
        [arguments, call.arguments], _validated, call, terms.schema, arguments, tool
    )


def _validated(call: Call, schema: JSONObject | None, arguments: JSONObject, tool: Tool | None) -> str | None:
    if schema is not None:
        try:
            validated = ArgumentValidator(schema, call.name).read(arguments)
            if tool is not None and tool.signature is not None:
                tool.signature.binding.bind(validated)
        except InvalidArguments as error:
            listed = join_errors(error.faults)
            raise errors.InvalidRequest(
                sentence(f"The tool does not take these arguments: {listed}"),
                details_of(within(error.faults, "result", "args")),
            ) from error
    written = dumps_unescaped(arguments)
    return None if json.loads(written) == json.loads(call.arguments or "{}") else written


def decided(
    call: Call, action: Action, by: Decider, at: datetime, arguments: str | None = None
) -> tuple[JSONObject, ...]:
    """Return the call's decisions with this one. An approval is about these arguments, or about the call's own."""
    if action == "approved" or call.awaits_approval:
        terms = terms_from_json(call.terms)
        new = decision(
            action,
            by,
            at,
            arguments=call.arguments if arguments is None else arguments,
            definition=terms.definition,
            terms=hash_of_terms(call.terms),
        )
    else:
        new = decision(action, by, at)
    return (*call.decisions, new)


def approval(
    call: Call, answer: ApprovalAnswer, arguments: str | None, by: Decider, token: str, at: datetime
) -> Approve:
    """Return the unit that approves the call, with the edited arguments if there are any."""
    decisions = decided(call, "approved", by, at, arguments)
    return Approve(
        token=token,
        at=at,
        thread_id=call.thread_id,
        call_id=call.id,
        arguments=arguments,
        requested=None if arguments is None else call.as_requested,
        event=approved_event(call.id, call.name, decisions[-1], answer.reason, edited=arguments is not None),
        decisions=decisions,
        effects=dropped_timers(call),
    )


class PendingCalls(Carried):
    """Open calls: list, answer, claim and cancel them from outside their runs."""

    def __init__(
        self,
        services: Services,
        agents: Agents,
        lineages: Lineages,
        files: FileKeeper,
        whole: WholeResults,
        forms: OpenForms,
    ) -> None:
        self._telemetry = services.telemetry
        self._store = services.store
        self._motor = services.motor
        self._agents = agents
        self._lineages = lineages
        self._files = files
        self._whole = whole
        self._forms = forms
        self._clock = services.clock
        self._new_id = services.new_id

    async def get(self, call_id: str) -> Call:
        """Return the call, whatever its status, with its whole result if that has at most 4 MiB.

        A longer result is cut as for the model; it names the file of the thread that has the whole.
        """
        return (await self._whole.of_calls([await self.row(call_id)]))[0]

    async def row(self, call_id: str) -> Call:
        """Return the call as it is stored, with a result that was cut for the model if it is long."""
        refuse_object("call", call_id)
        call = await self._store.call(call_id) if can_be_id(call_id) else None
        if call is None:
            raise errors.NotFound("Pending tool call not found")
        return call

    async def list(
        self,
        *,
        status: Sequence[CallStatus] | None = ("waiting", "pending"),
        run_id: str | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        sees: CallVisibility | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Sequence[Call]:
        """Return calls, oldest first: by default the open ones; with `sees`, only those that it may see.

        `agent` is an agent's name or id. Results are whole as long as they have at most 4 MiB together.
        """
        page(limit, offset)
        by_text("run_id", run_id)
        by_list("status", status, str, "statuses")
        by_choice("status", status, get_args(CallStatus))
        by_text("space_id", space_id)
        by_text("agent", agent)
        rows = await self._store.calls(
            status=status,
            run_id=run_id,
            agent=None if agent is None else await self._agents.id_of(agent),
            space_id=space_id,
            sees=sees,
            limit=limit,
            offset=offset,
        )
        return await self._whole.of_calls(rows)

    async def submit(
        self,
        run_id: str,
        call_id: str,
        result: JSON | ToolResult,
        may: Callable[[Call], Awaitable[None]] | None = None,
        *,
        by: Decider | str | None = None,
    ) -> Literal["inline", "inbox"]:
        """Submit a result. Return whether it is delivered to the waiting run (`inline`) or to the agent's `inbox`.

        Any JSON value is a result, including null, false and 0. A call that waits for an approval is answered with
        `{approved, args?, reason?}`. `may` raises if the caller may not answer the call as it is; if the call has
        changed by then, the answer is rejected. `by` is who answers, such as the id of a user: the call records it as
        what your code says, and the answer is stored as written. Without it, secrets are redacted from results.

        Raises `DefinitionChanged` for an approval of a tool that has another definition by then: the call asks again.
        Raises `NotFound`, `Forbidden` (a call of another run), `CallResolved`, `CallExpired`, `CallCancelled`,
        `InvalidRequest` for an invalid answer to a question, and `AlreadyOver` if no agent is left to read it; nothing
        has changed then.
        """
        refuse_object("run", run_id)
        refuse_object("call", call_id)
        scope = await self._store.call_scope(call_id) if can_be_id(call_id) else None
        if scope is None:
            raise errors.NotFound("Pending tool call not found")
        call = scope.call
        if may is not None:
            await may(call)
        if call.run_id != run_id:
            raise errors.Forbidden("This tool call belongs to another run.")
        run, thread = scope.run, await self._checked_thread(call, scope.thread)
        decider = read_decider(by)
        outcome = result if isinstance(result, ToolResult) else ToolResult.ok(result)
        await in_thread_if_large(outcome.result, plain, outcome.result)
        agent = await self._agent_of(call, thread, run)
        if call.awaits_approval:
            await self._answer(call, run, outcome, agent, decider)
            return "inline"
        if _was_approved(call) and (call.status not in OPEN or is_answer(outcome)):
            raise errors.CallResolved(APPROVED)
        question = question_of(call)
        if question is not None and outcome.status == "success":
            read_answer(question, outcome.result, self._forms.model(call, question))
        is_written = isinstance(by, str) or decider.kind == "person"
        if question is None and not is_written:
            env = await self._lineages.env(thread, agent, scope.env)
            outcome = await redacted(env.redactor, outcome)
        return await self._submit(units.SubmitResult, call, run, self._files.recordable(outcome), decider)

    async def _submit(
        self, kind: type[units.Settle], call: Call, run: Run | None, outcome: ToolResult, by: Decider
    ) -> Literal["inline", "inbox"]:
        stored = await self._files.store(outcome.attachments)
        async with self._files.turn(call.thread_id, stored):
            while True:
                unit = await self._submission(kind, call, run, outcome, stored, by)
                answer = await self._store.commit(unit)
                if not isinstance(answer, units.Conflict):
                    self._over(call, outcome.status, answer)
                    return answer.route or "inline"
                # otherwise a path was taken in the meantime: the file gets another name
                if answer.guard != "file":
                    raise _too_late(kind, await self.row(call.id))

    async def _answer(
        self, call: Call, run: Run | None, outcome: ToolResult, agent: ActiveAgent | None, by: Decider
    ) -> None:
        """Approve or reject a call of the agent that waits for an approval."""
        terms = terms_from_json(call.terms)
        answer = read_approval(terms, outcome)
        if not answer.approved:
            await self._submit(Refuse, call, run, refused(answer.reason), by)
            return
        if terms.returned != terms.definition and _has_changed(call, terms, agent):
            await self._ask_again(call, terms)
        arguments = await edited_arguments(call, terms, answer, _tool_of(call, agent))
        unit = approval(call, answer, arguments, by, self._new_id("unit"), self._clock.now())
        if isinstance(await self._store.commit(unit), units.Conflict):
            raise _too_late(Approve, await self.row(call.id))
        self._motor.wake(call.thread_id)

    async def _ask_again(self, call: Call, terms: Terms) -> None:
        """Return a call whose tool has changed to its run, which asks again. Raises `DefinitionChanged`.

        If the process that executes the run has the definition that the answer is for, the next answer is accepted.
        """
        unit = AskAgain(
            token=self._new_id("unit"),
            at=self._clock.now(),
            thread_id=call.thread_id,
            call_id=call.id,
            terms=terms_to_json(changed(terms, returned=terms.definition)),
            effects=dropped_timers(call),
        )
        if isinstance(await self._store.commit(unit), units.Conflict):
            raise _too_late(Approve, await self.row(call.id))
        log.warning("The tool %r has changed since the call %s asked for approval.", call.name, call.id)
        self._motor.wake(call.thread_id)
        raise errors.DefinitionChanged

    async def cancel(self, call_id: str, *, by: Decider | str | None = None) -> Call:
        """Cancel an open call, so that the agent reads the error `Tool call cancelled`. Return the cancelled call.

        `by` is who cancels it, as in `submit`. Raises `NotFound` for a call that is not pending, and `AlreadyOver`,
        `CallResolved` or `CallCancelled`.
        """
        decider = read_decider(by)
        call = await self.row(call_id)
        run = await self._store.run(call.run_id)
        settling = await self._settling(call, run, CALL_CANCELLED, self._clock.now(), ("cancelled", decider))
        unit = settlement(units.CancelCall, call, CALL_CANCELLED, settling)
        answer = await self._store.commit(unit)
        if isinstance(answer, units.Conflict):
            raise _why_not_cancelled(await self.row(call_id))
        self._over(call, unit.outcome, answer)
        return await self.row(call_id)

    async def expire(self, call_id: str) -> None:
        """End a call that has expired, if it is still open. Called by its timer. The agent is notified once."""
        call = await self._store.call(call_id)
        if call is None:
            return
        result = unanswered(terms_from_json(call.terms)) if call.awaits_approval else EXPIRED
        run = await self._store.run(call.run_id)
        unit = settlement(
            units.Expire, call, result, await self._settling(call, run, result, self._clock.now())
        )
        answer = await self._store.commit(unit)
        if not isinstance(answer, units.Conflict):
            self._over(call, unit.outcome, answer)
        elif (
            call.expires_at is not None and call.expires_at > unit.at
        ):  # the clock was set back: the timer is kept
            timer = SetTimer(name=timer_of(call.id), due=call.expires_at)
            await self._store.commit(units.Apply(token=self._new_id("unit"), at=unit.at, effects=(timer,)))

    async def claim(self, call_id: str, worker: str, lease: float) -> Call:
        """Claim an open call for a worker, for `lease` seconds from now. Return the call.

        The same worker may claim it again, which renews its lease. After a lease has expired, others may claim the call
        only if its tool is `read_only` or `idempotent` (D25). Raises `CallClaimed` while another worker has it, and the
        errors of `submit`.
        """
        _claimable(worker, lease)
        call, now = await self.row(call_id), self._clock.now()
        await self._checked_thread(call, await self._store.thread(call.thread_id))
        if call.awaits_approval:
            raise errors.CallClaimed("Tool call waits for an approval: it cannot be executed yet")
        if call.status in OPEN and call.free_for(worker, now):  # otherwise it is rejected without a commit
            until, renewed = now + timedelta(seconds=lease), call.worker == worker
            token = self._new_id("unit")
            unit = units.LeaseCall(token=token, at=now, call_id=call.id, worker=worker, until=until)
            refused = isinstance(await self._store.commit(unit), units.Conflict)
            call = await self.row(call_id)
            if not refused:
                level = logging.DEBUG if renewed else logging.INFO
                log.log(level, "The worker %r has claimed the call %s for %.0f s.", worker, call.id, lease)
                return call
        if call.status in OPEN and (call.expires_at is None or call.expires_at > now):
            raise errors.CallClaimed
        raise _refusal(call)

    def _over(self, call: Call, outcome: str, answer: units.Committed) -> None:
        """Finish a settled call: notify telemetry and wake its run."""
        self._motor.wake(call.thread_id)
        if self._telemetry is not None and answer.route == "inbox":
            self._telemetry.settled(call, outcome)

    async def _checked_thread(self, call: Call, thread: Thread | None) -> Thread:
        """Return the call's thread. Raises if no agent will read a result: its run, thread or agent is gone."""
        if thread is None or (call.status == "pending" and thread.is_over):
            raise errors.CallCancelled
        if call.status == "pending" and not await self._agents.exists(thread.answering):
            raise errors.AlreadyOver("The agent of this tool call was deleted")
        return thread

    async def _agent_of(self, call: Call, thread: Thread, run: Run | None) -> ActiveAgent | None:
        """Return the agent that made the call, as its run uses it, if this process knows it."""
        caller = call.agent or thread.agent
        revision = run.revision if run is not None and run.agent == caller else None
        return await self._agents.usable(caller, revision)

    async def _submission(
        self,
        kind: type[S],
        call: Call,
        run: Run | None,
        outcome: ToolResult,
        stored: Sequence[AttachmentRef | StoredAttachment],
        by: Decider,
    ) -> S:
        now, files = self._clock.now(), tuple[FileChange, ...]()
        if stored or self._files.too_long(outcome):
            drafts = FileDrafts(StoredFiles(self._store, call.thread_id))
            refs = await self._files.attach(call.thread_id, drafts, stored)
            outcome = changed(outcome, attachments=refs)
            outcome = await self._files.within_limit(call.thread_id, drafts, outcome, call.name)
            files = drafts.changes
        action: Action = "rejected" if kind is Refuse else "submitted"
        settling = await self._settling(call, run, outcome, now, (action, by))
        return settlement(kind, call, outcome, settling, files)

    async def _settling(
        self,
        call: Call,
        run: Run | None,
        outcome: ToolResult,
        at: datetime,
        who: tuple[Action, Decider] | None = None,
    ) -> Settling:
        """Return the other facts of the settling unit: depth of the call's run, message in a space, who decides."""
        agent = None if call.agent is None or call.space_id is None else await self._agents.usable(call.agent)
        author = None if agent is None else entity_of(agent.agent)
        source = Source(thread_id=call.thread_id, run_id=call.run_id, agent=call.agent)
        return Settling(
            token=self._new_id("unit"),
            at=at,
            depth=0 if run is None else run.chain_depth,
            shown=result_message(call, outcome, author, source),
            decisions=() if who is None else decided(call, *who, at),
        )


def _was_approved(call: Call) -> bool:
    return call.approval in ("approved", "edited")


def _too_late(kind: type[units.Unit], call: Call) -> errors.ToolwrightError:
    """Return the error for a unit that no longer fits the call's current status."""
    if kind is units.SubmitResult and call.awaits_approval:
        return errors.NotFound(
            "Pending tool call not found"
        )  # it did not wait for an approval when it was read
    if kind is not units.SubmitResult and _was_approved(call):
        return errors.CallResolved(APPROVED)
    return _refusal(call)


def _refusal(call: Call) -> errors.ToolwrightError:
    match call.status:
        case "created" | "running" | "done" | "error" if _was_approved(call):
            return errors.CallResolved(APPROVED)
        case "resolved":
            return errors.CallResolved()
        case "cancelled":
            return errors.CallCancelled()
        case "expired" | "waiting" | "pending":
            return errors.CallExpired()
        case _:
            return errors.NotFound("Pending tool call not found")


def _why_not_cancelled(call: Call) -> errors.ToolwrightError:
    match call.status:
        case "done" | "error":
            return errors.CallResolved()
        case "expired":
            return errors.AlreadyOver("Tool call expired")
        case _:
            return _refusal(call)


def _tool_of(call: Call, agent: ActiveAgent | None) -> Tool | None:
    """Return the call's tool, whichever side of the agent has it."""
    return next(iter(_tools_of(call, agent)), None)


def _tools_of(call: Call, agent: ActiveAgent | None) -> Sequence[Tool]:
    sides = [] if agent is None else [agent, *agent.sides.values()]
    return [each.by_name[call.name] for each in sides if call.name in each.by_name]


def _has_changed(call: Call, terms: Terms, agent: ActiveAgent | None) -> bool:
    """Return whether the tool has another definition in this process than the one that the approval is for.

    Unknown tools, and those of a prompt tool's conversation, are compared only when the call starts.
    """
    if terms.definition is None or call.parent_id is not None:
        return False
    tools = _tools_of(call, agent)
    return bool(tools) and all(each.definition_hash != terms.definition for each in tools)


def _claimable(worker: str, lease: float) -> None:
    by_text("worker", worker)
    by_kind("worker", worker, str, "text")
    if not worker.strip() or len(worker) > MAX_NAME:
        raise errors.InvalidRequest(
            f"worker must be a name of 1 to {MAX_NAME} characters.",
            [{"path": "worker", "message": f"must be a name of 1 to {MAX_NAME} characters"}],
        )
    by_kind("lease", lease, (int, float), "a number of seconds")
    if isinstance(lease, bool) or not LEASES[0] <= lease <= LEASES[1]:
        least, most = LEASES
        error = f"must be from {least:g} to {quantity(most, 'second')}, not {lease!r}"
        raise errors.InvalidRequest(f"lease {error}.", [{"path": "lease", "message": error}])
