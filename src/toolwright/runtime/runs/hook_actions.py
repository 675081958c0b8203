"""Hooks in a run's actions: messages that it reads, answers that are sent back, results from elsewhere, its end."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from toolwright.core.errors import HookFailed
from toolwright.core.journal.agent_effects import DropTimer
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Finish, Result
from toolwright.core.threads.call import Call
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.value import changed
from toolwright.runtime.calls.execute import CallExecutor, with_result
from toolwright.runtime.calls.plan import can_run_concurrently, max_concurrent
from toolwright.runtime.context.commit import Changes, End, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.hooks import HookRunner, SentBack, record
from toolwright.runtime.pending.pending import late_result
from toolwright.runtime.runs.ends import RunEnds
from toolwright.runtime.runs.outcomes import Outcomes
from toolwright.runtime.runs.reading import InboxReader
from toolwright.runtime.state.state import RunState
from toolwright.runtime.timers import AFTER_RUN


class HookActions:
    """Asks the hooks of a run, and commits the consequences of their verdicts."""

    def __init__(
        self,
        hooks: HookRunner,
        ends: RunEnds,
        outcomes: Outcomes,
        executor: CallExecutor,
        store: Store,
        reader: InboxReader,
    ) -> None:
        self._reader = reader
        self._hooks = hooks
        self._ends = ends
        self._outcomes = outcomes
        self._executor = executor
        self._store = store

    async def read_inbox(self, context: RunContext) -> bool:
        """Add the inbox events of the run to its conversation, once hooks were asked about the results among them.

        Return whether the run goes on.
        """
        checked, events = Changes(), list[InboxEvent]()
        for event in context.reading.values():
            read = await self._late_result(context, checked, event)
            if isinstance(read, HookFailed):
                await self.fail(context, read)
                return False
            events.append(read)

        async def build() -> Next:
            changes = checked.copy()
            await self._reader.add(context, changes, context.run, events)
            return Next(kind=Result, changes=changes, run=context.run)

        return await context.commit(build) == "done"

    async def _late_result(
        self, context: RunContext, changes: Changes, event: InboxEvent
    ) -> InboxEvent | HookFailed:
        """Return the event with the result of a call as the hooks have changed it."""
        if event.type != "tool_result":
            return event
        call_id = str(event.content["toolCallId"])
        call = await context.retry_until_available(lambda: self._store.call(call_id))
        checked = None if call is None else await self._executor.submitted(context, call, context.root)
        if call is None or checked is None:
            return event
        if checked.failed is not None:
            return checked.failed
        with_result(changes, call, checked)
        late = late_result(call, checked.result, event.depth, event.created_at)
        return changed(event, content=late.content) if checked.rows else event

    async def admit_first(self, context: RunContext) -> None:
        """Ask about the messages that no model has answered yet, once in this process, before the run's first step."""
        if context.is_admitted:
            return
        context.is_admitted = True
        if context.run.step_count == 0 and not context.run.calls_only:
            unanswered = takewhile(lambda each: each.role != "assistant", reversed(context.root.messages))
            first = [each for each in unanswered if each.role == "user"]
            changes = Changes()
            if await self.admit(context, changes, first[::-1]) and changes.effects:
                await context.write(Result, changes, context.run)

    async def admit(self, context: RunContext, changes: Changes, messages: Sequence[Message]) -> bool:
        """Ask about messages that the run reads, those of `changes` included. If one is rejected, end the run.

        Return whether the run goes on.
        """
        try:
            rejected, reason, rows = await self._hooks.before_run(context, messages)
        except HookFailed as failed:
            await self.fail(context, failed)
            return False
        if reason is None:
            record(changes, rows)
            return True
        await context.commit(lambda: self._outcomes.rejected(context, changes, rejected, reason, rows))
        return False

    async def fail(self, context: RunContext, failed: HookFailed) -> None:
        """End the run, with the failure of its hook."""
        changes, end = Changes(), End("failed", error=failed.message, error_code=failed.code)
        record(changes, failed.rows)
        await self._ends.end(context, Finish, changes, end)

    async def send_back(self, context: RunContext, changes: Changes, sent: SentBack) -> str | None:
        """Commit an answer that a hook has sent back, so that the model answers again.

        Return the error of the conversation of a prompt tool whose answers were sent back too often, or None. The run
        fails if they are those of the thread's own.
        """
        error: str | None = None

        def build() -> Next:
            nonlocal error
            following = self._outcomes.correction(context, changes, sent.answer, sent)
            if context.frame.call is None or following.end is None:
                return following
            error = following.end.error
            return changed(following, end=None)

        answered = await context.commit(build)
        return error if answered == "done" else None

    def to_decide(self, context: RunContext, call: Call) -> list[Call]:
        """Return the call, and with hooks the following ones that can run concurrently with it."""
        hooks, frame = context.active.hooks, context.frame
        if hooks is None or not hooks.before_call or max_concurrent(context) == 1:
            return [call]
        tools = frame.tools or context.active.by_name
        waiting = [each for each in frame.unanswered() if each.status == "created"]
        return [*takewhile(lambda each: can_run_concurrently(tools.get(each.name)), waiting)] or [call]

    async def nested_result(self, context: RunContext, call: Call, state: RunState) -> Call:
        """Return the call of a handler with its result as hooks have changed it, if it was submitted from elsewhere.

        A handler that runs again after a crash reads a changed result, which is not changed again.
        """
        if call.status != "resolved":
            return call
        rows = await context.retry_until_available(lambda: self._store.verdicts(context.run.id))
        if any(each.call_id == call.id and each.point == "after_call" for each in rows):
            return call
        checked = await self._executor.submitted(context, call, context.frame)
        if checked is None or not checked.rows:
            return call
        state.execution.failed = checked.failed
        changes = Changes()
        call = with_result(changes, call, checked)
        await context.write(Result, changes, context.run)
        return call

    async def tell_end(self, context: RunContext, new_id: Callable[[str], str]) -> None:
        """Ask about a run that has ended here, and drop the timer that makes up for a process that dies."""
        active = context.root.active
        if not context.run.over or active is None or active.hooks is None or not active.hooks.after_run:
            return
        context.leave_frames(1)
        await self._hooks.after_run(context)
        drop = DropTimer(name=f"{AFTER_RUN}:{context.run.id}")
        unit = Apply(token=new_id("unit"), at=context.clock.now(), effects=(drop,))
        await context.retry_until_available(lambda: self._store.commit(unit))
