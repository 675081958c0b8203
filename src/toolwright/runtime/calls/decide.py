"""Decisions about a call before it starts: missing variables, hooks, and the approval of a person."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import DefinitionError, HookFailed
from toolwright.core.journal.agent_effects import SetTimer
from toolwright.core.json_value import JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.state.state import ELICIT_TIMEOUT
from toolwright.core.text import sentence
from toolwright.core.threads.approval import Terms, terms_from_json
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.threads.decision import approved_definition
from toolwright.core.tools.approval import Approval, is_needed, narrower
from toolwright.core.tools.pipeline import PreparedCall, missing_variables_error, prepare
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.calls.request_state import resolver
from toolwright.runtime.calls.variables import missing_for
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.hooks import CallVerdicts, HookRunner
from toolwright.runtime.state.state import view_of
from toolwright.wire.event import tool_event


class CallDecider:
    """Decides about calls before they start. `hooks` asks the hooks of the active agent."""

    def __init__(self, hooks: HookRunner) -> None:
        self._hooks = hooks

    async def decide(self, context: RunContext, call: Call) -> None:
        """Refuse a call whose variables are still missing, ask its hooks, and evaluate its approval predicate."""
        tools = context.frame.tools or context.active.by_name
        tool = tools.get(call.name)
        if tool is None:
            return
        await self._decide(context, tools, call, tool)
        if context.requesters is None and excludes_requester(context, call, tool):
            context.requesters = await context.read_requesters()

    async def _decide(self, context: RunContext, tools: Mapping[str, Tool], call: Call, tool: Tool) -> None:
        missing = missing_for(context, tool)
        if missing:
            context.decided[call.id] = missing_variables_error(call.name, [each.name for each in missing])
            return
        if call.id in context.decided:
            return
        approval = tool.approval if call.approval is None else None
        hooks = context.active.hooks
        asks = hooks is not None and bool(hooks.before_call) and asks_hooks(context, call)
        if not asks and (approval is None or approval.when is None):
            return
        resolve = resolver(context, Changes(), call)
        prepared = await in_thread_if_large(
            call.arguments, prepare, tools, call.name, call.arguments, call.id, resolve
        )
        if not isinstance(prepared, PreparedCall):  # invalid arguments need no approval
            context.decided[call.id] = "start"
            return
        if asks:
            verdicts = await self._ask_hooks(context, tools, call, prepared, approval)
            if isinstance(verdicts, ToolResult):
                context.decided[call.id] = verdicts
                return
            prepared = verdicts.prepared or prepared
            if verdicts.approval is not None:
                context.decided[call.id] = "ask" if call.approval is None else "start"
                return
        context.decided[call.id] = "start" if approval is None else "ask"
        if approval is not None and approval.when is not None:
            await self._evaluate(context, call, approval, prepared)

    async def _ask_hooks(
        self,
        context: RunContext,
        tools: Mapping[str, Tool],
        call: Call,
        prepared: PreparedCall,
        approval: Approval | None,
    ) -> CallVerdicts | ToolResult:
        """Ask the hooks, and keep their verdicts for the unit that starts or settles the call."""
        again = partial(prepare, tools, call.name, call_id=call.id)
        verdicts = await self._hooks.before_call(context, call, prepared, lambda text: again(arguments=text))
        if verdicts.approval is not None and approval is not None:
            try:
                verdicts = changed(verdicts, approval=narrower(approval, verdicts.approval))
            except DefinitionError as error:
                refused = ToolResult.fail(
                    sentence(f"The call is not executed: {error.message}"), error_code=HookFailed.code
                )
                verdicts = changed(verdicts, error=refused)
        context.verdicts[call.id] = verdicts
        return verdicts if verdicts.error is None else verdicts.error

    async def _evaluate(
        self, context: RunContext, call: Call, approval: Approval, prepared: PreparedCall
    ) -> None:
        """Start the call if its tool's predicate says so. It waits for an approval if the run is cancelled before."""
        scope = asyncio.timeout(None)
        with suppress(TimeoutError):
            async with scope:
                context.abort.within(scope)
                state = await view_of(context, self._hooks.services) if approval.asks_state else None
                if not await is_needed(approval, call.name, prepared.arguments, state):
                    context.decided[call.id] = "start"
        context.abort.left(scope)


def asks_hooks(context: RunContext, call: Call) -> bool:
    """Return whether the hooks are asked about a call: not again once it is approved, unless it was edited.

    Questions of handlers are calls of our own, which no hook is asked about.
    """
    return call.approval in (None, "edited") and not context.frame.tools


def approval_terms(
    context: RunContext, changes: Changes, call: Call, tool: Tool, verdicts: CallVerdicts | None
) -> Terms:
    """Return the terms of the call's approval. Adds its timer and its event to the changes.

    The approval in the `verdicts` of its hooks includes the tool's own. A call that is waited for in memory expires
    after at most an hour.
    """
    validator = tool.validator
    assert validator is not None, "set when the tool was made"
    terms = _terms(context, call, tool, None if verdicts is None else verdicts.approval)
    why = terms.why if verdicts is None else verdicts.why
    seconds = terms.seconds
    if context.holder is not None:
        seconds = ELICIT_TIMEOUT if seconds is None else min(seconds, ELICIT_TIMEOUT)
    if seconds is not None:
        due = context.clock.now() + timedelta(seconds=seconds)
        changes.effects += (SetTimer(name=timer_of(call.id), due=due),)
    details: JSONObject = {"reason": "approval"}
    if call.approval is not None:
        details["definitionChanged"] = True
    if why is not None:
        details["why"] = why
    changes.events.append(tool_event("tool.waiting", call.id, call.name, details))
    return changed(
        terms,
        seconds=seconds,
        why=why,
        schema=validator.schema
        if terms.edit and tool.meta is None
        else None,  # references are replaced first
        definition=tool.definition_hash,
        returned=terms_from_json(call.terms).returned,
    )


def _terms(context: RunContext, call: Call, tool: Tool, required: Approval | None) -> Terms:
    """Return the terms that hooks have required, or those of the tool.

    A call that is asked for again keeps what hooks have required, and its terms if the tool has none any more.
    """
    before, approval = terms_from_json(call.terms), required or tool.approval
    if required is None and call.approval is not None and (before.hooked or approval is None):
        if approval is None:
            return before
        with suppress(DefinitionError):
            not_by = None if before.not_by is None else "requester"
            kept = Approval(by=before.by, not_by=not_by, expires_in=before.seconds, edit=before.edit)
            approval = narrower(approval, changed(kept, reason=before.reason))
            return changed(_declared(context, approval), hooked=True, why=before.why)
        return before
    assert approval is not None, "the call needs an approval"
    return changed(_declared(context, approval), hooked=required is not None)


def _declared(context: RunContext, approval: Approval) -> Terms:
    return Terms(
        by=approval.by if isinstance(approval.by, str) else tuple(approval.by),
        not_by=None if approval.not_by is None else context.requesters or (),
        seconds=approval.expires_in,
        edit=approval.edit,
        reason=approval.reason,
    )


def excludes_requester(context: RunContext, call: Call, tool: Tool) -> bool:
    """Return whether an approval of the call would exclude the person who has asked for it."""
    verdicts = context.verdicts.get(call.id)
    approvals = (tool.approval, None if verdicts is None else verdicts.approval)
    return any(each is not None and each.not_by is not None for each in approvals)


def is_outdated(call: Call, tool: Tool) -> bool:
    """Return whether the call's approval is for another definition of its tool, so that it must be asked for again."""
    if call.approval == "asked":  # its answer was returned, see `AskAgain`
        return True
    approved = approved_definition(call.decisions)
    return approved is not None and approved != tool.definition_hash
