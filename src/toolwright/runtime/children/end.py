"""The end of a child's session, and the parent's notification (S0 §5)."""

from collections.abc import Sequence

from toolwright.core.files import File, FileDrafts
from toolwright.core.journal.child_effects import Report
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.results import AttachmentRef, ToolResult
from toolwright.core.threads.child import ChildStatus, Link
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.files.files import FileKeeper, StoredFiles
from toolwright.runtime.pending.settlement import late_result
from toolwright.runtime.threads.thread_tree import copy_files, described, notice_for
from toolwright.wire.event import outcome_event, subagent_event
from toolwright.wire.result import model_text, result_to_json

FAILED, CANCELLED = "The session failed.", "The session was cancelled."
NO_ANSWER = "The session reached its step limit without an answer."
NO_TIME = "The session reached its time limit without an answer."


class ChildReports:
    """Builds reports: the effects of the unit that ends a child's session."""

    def __init__(self, store: Store, files: FileKeeper) -> None:
        self._store = store
        self._keeper = files

    async def effects(
        self, context: RunContext, link: Link, changes: Changes, run: Run, *, terminated: bool = False
    ) -> Sequence[Effect]:
        """Return the effects on the parent when this run ends with these changes. Files of the answer are copied."""
        parent_id, thread = context.thread.parent_id, context.thread
        parent = (
            None
            if parent_id is None
            else await context.retry_until_available(lambda: self._store.thread(parent_id))
        )
        if parent is None:
            return []
        files = FileDrafts(StoredFiles(self._store, parent.id, context.retry_until_available))
        # otherwise it passes files on explicitly
        own = await self._files(context, changes, run) if link.implicit else []
        refs = await copy_files(parent.id, files, own, context.clock, context.new_id)
        answer = _answer(run)
        state: ChildStatus = "terminated" if terminated else _state(link, run, answer)
        result = changed(_result(thread, link, state, answer), attachments=refs)
        outcome, late = await self._settling(context, result, run)
        return [
            Report(
                thread_id=thread.id,
                parent=parent,
                state="failed_for_good" if state == "failed" and not link.resumable else state,
                report=thread.report,
                result=result_to_json(result),
                outcome=outcome,
                late=late,
                notice=_notice(context, parent, link, state, answer, refs, run),
                finished=subagent_event("subagent.finished", thread.id, thread.name, thread.answering, state),
                files=files.changes,
            )
        ]

    async def _settling(
        self, context: RunContext, result: ToolResult, run: Run
    ) -> tuple[EventDraft | None, InboxEvent | None]:
        """Return the event of the waiting call, and a late result for the inbox if its run has continued."""
        call_id = context.thread.report
        call = (
            None
            if call_id is None
            else await context.retry_until_available(lambda: self._store.call(call_id))
        )
        if call is None:
            return None, None
        return outcome_event(call.id, call.name, self._keeper.cut(result)), late_result(
            call, result, run.chain_depth, context.clock.now()
        )

    async def _files(self, context: RunContext, changes: Changes, run: Run) -> list[File]:
        """Return the files of the child's last message."""
        refs = _attached([*context.root.messages, *changes.messages], run)
        drafts = FileDrafts(context.files, {change.folded: change for change in changes.files})
        files = [await drafts.at(ref.path) for ref in refs]
        return [described(file, ref) for file, ref in zip(files, refs, strict=True) if file is not None]


def _attached(messages: Sequence[Message], run: Run) -> list[AttachmentRef]:
    """Return the files of the last message and of the results of its step."""
    refs: list[AttachmentRef] = []
    top_level = [each for each in messages if each.within is None]
    last = top_level[-1].side if top_level else None
    for message in reversed(top_level):
        if message.run_id != run.id or message.role == "user" or message.side != last or message.calls:
            break
        refs = [*message.attachments, *refs]
    return list({ref.path: ref for ref in refs}.values())


def _answer(run: Run) -> ToolResult:
    """Return the result of the session as the run's answer."""
    if run.status == "failed":
        return ToolResult.fail(run.error or FAILED, error_code="subagent_failed")
    if run.status == "cancelled":
        return ToolResult.fail(CANCELLED, error_code="subagent_cancelled")
    if run.stop_reason == "session_fail":
        text = model_text(ToolResult.ok(run.output)) if run.output not in (None, "") else FAILED
        return ToolResult.fail(text, error_code="session_fail")
    if run.stop_reason in ("max_steps", "max_seconds") and run.output in (None, ""):
        return ToolResult.fail(
            NO_ANSWER if run.stop_reason == "max_steps" else NO_TIME, error_code=run.stop_reason
        )
    return ToolResult.ok("" if run.output is None else run.output)


def _state(link: Link, run: Run, answer: ToolResult) -> ChildStatus:
    if run.status == "cancelled":
        return "idle" if link.resumable else "terminated"
    if answer.status == "error":
        return "failed"
    return "idle" if link.resumable else "terminated"


def _result(thread: Thread, link: Link, state: ChildStatus, answer: ToolResult) -> ToolResult:
    """Return the result of the waiting call."""
    content: JSONObject = {"reference": thread.id, "name": thread.name, "status": state}
    if answer.status == "error":
        return changed(answer, error_data=content)
    if not link.resumable:
        return answer
    return ToolResult.ok({**content, "result": answer.result} if link.implicit else content)


def _notice(
    context: RunContext,
    parent: Thread,
    link: Link,
    state: ChildStatus,
    answer: ToolResult,
    files: Sequence[AttachmentRef],
    run: Run,
) -> Delivery | None:
    """Return the notification for the parent's inbox, once per session (S0 §5). None if the child is not implicit."""
    if not link.implicit:
        return None
    notice: JSONObject = {"reference": context.thread.id, "name": context.thread.name, "status": state}
    notice |= {"result": answer.result} if answer.status == "success" else {"error": answer.error}
    event_id = f"sub:{run.id}.{context.seq}"  # a reopened run can end again
    return notice_for(parent, event_id, notice, files, run.chain_depth, context.clock, context.new_id)
