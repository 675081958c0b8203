"""Child threads: their start, at once or after missing variables are provided; their end (S0 §5, §6)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvRow, Variable, VariablesRequest, merged
from toolwright.core.files import File, FileDrafts, NoFiles
from toolwright.core.journal.child_effects import Report, Spawn
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import cut_answer
from toolwright.core.ports import Clock
from toolwright.core.results import AttachmentRef, ToolResult
from toolwright.core.threads.child import ChildStatus, Link, link_from_json, link_json
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import ORIGIN_CALL, Delivery, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, cut_reason
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Value, changed
from toolwright.runtime.calls.variables import missing_of, with_effective_types
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env import Environment, redacted
from toolwright.runtime.files import FileKeeper, StoredFiles
from toolwright.runtime.journal import Services
from toolwright.runtime.pending.pending import late_result
from toolwright.runtime.threads.thread_tree import (
    NAME_TAG,
    copy_files,
    described,
    first_run,
    message_for,
    notice_for,
)
from toolwright.wire.event import outcome_event, run_event, subagent_event
from toolwright.wire.result import model_text, result_to_json

REQUEST_LIFE = timedelta(hours=24)
FAILED, CANCELLED = "The session failed.", "The session was cancelled."
NO_ANSWER = "The session reached its step limit without an answer."
NO_TIME = "The session reached its time limit without an answer."


class NewChildRows(Value):
    """The initial rows of a child. `files` are the parent's files to copy.

    `most` is the maximum number of concurrent children of its agent, or None. `deps` are those of its first run.
    """

    thread_id: str
    parent_id: str
    agent_id: str
    name: str | None
    message: str
    arguments: JSONObject
    user_id: str | None
    depth: int
    link: Link
    most: int | None = None
    files: tuple[File, ...] = ()
    deps: JSONObject | None = None


class ChildStart:
    """Finds missing variables of children, and builds the effects that start them."""

    def __init__(self, services: Services, environment: Environment) -> None:
        self._store = services.store
        self._environment = environment
        self._clock = services.clock
        self._new_id = services.new_id

    async def unresolved_variables(
        self, birth: NewChildRows, agent: ActiveAgent, added: Sequence[EnvRow] = ()
    ) -> tuple[Variable, ...]:
        """Return the scoped variables that would not resolve in the child: they do not come from its parent (D5)."""
        if not any(each.scoped for side in agent.sides.values() for each in side.variables):
            return ()
        stored = [*await self._store.env_of(birth.thread_id), *added]
        own = {(row.kind, row.name): row for row in stored}
        threads = {
            birth.parent_id,
            *[each.id for each in await self._store.children.lineage(birth.parent_id)],
        }
        users = [row for row in await self._store.env(birth.parent_id) if row.owner not in threads]
        thread, rows = self._thread(birth), [*own.values(), *users]
        sides = [
            missing_of(lambda each: self._environment.for_agent(thread, each, rows), side)
            for side in agent.sides.values()
        ]
        return merged([each for missing in sides for each in missing if each.scoped])

    async def spawn(self, birth: NewChildRows, report: str | None) -> Spawn:
        """Return the effect that starts the child; `report` is the call that waits for its end."""
        drafts = FileDrafts(NoFiles())
        refs = await copy_files(birth.thread_id, drafts, birth.files, self._clock, self._new_id)
        run = first_run(
            self._thread(birth), f"run_{birth.thread_id.removeprefix('thr_')}", birth.depth, self._clock
        )
        if birth.deps is not None:
            run = changed(run, deps=birth.deps)
        thread = self._thread(birth, run_id=run.id, report=report)
        message_id = f"msg_{birth.thread_id.removeprefix('thr_')}"
        return Spawn(
            thread_id=birth.thread_id,
            thread=thread,
            event=message_for(thread, message_id, birth.message, refs, birth.depth, self._clock),
            run=run,
            queued=run_event(run),
            files=drafts.changes,
        )

    def request(
        self, birth: NewChildRows, agent: ActiveAgent, missing: Sequence[Variable], request_id: str
    ) -> VariablesRequest:
        """Return the request for the child's missing variables."""
        now = self._clock.now()
        return VariablesRequest(
            id=request_id,
            thread_id=birth.parent_id,
            kind="child",
            agent=agent.agent.name,
            required=with_effective_types(agent.types, missing),
            child=birth_json(birth),
            expires_at=now + REQUEST_LIFE,
            created_at=now,
        )

    def _thread(self, birth: NewChildRows, run_id: str | None = None, report: str | None = None) -> Thread:
        begins = run_id is not None
        return Thread(
            id=birth.thread_id,
            agent=birth.agent_id,
            user_id=birth.user_id,
            parent_id=birth.parent_id,
            name=birth.name,
            tags=() if birth.name is None else (f"{NAME_TAG}{birth.name}",),
            arguments=birth.arguments,
            run_id=run_id,
            ev=int(begins),
            posted=int(begins),
            link=birth.link,
            report=report,
            created_at=self._clock.now(),
        )


def birth_json(birth: NewChildRows) -> JSONObject:
    """Return a deferred child as JSON, for the journal."""
    files: list[JSON] = [
        [each.path, each.name, each.mime_type, each.size, each.digest, each.width, each.height]
        for each in birth.files
    ]
    return {
        "threadId": birth.thread_id,
        "parentId": birth.parent_id,
        "agentId": birth.agent_id,
        "name": birth.name,
        "message": birth.message,
        "arguments": birth.arguments,
        "userId": birth.user_id,
        "depth": birth.depth,
        "link": link_json(birth.link),
        "most": birth.most,
        "files": files,
        "deps": birth.deps,
    }


def birth_from_json(written: JSONObject, clock: Clock) -> NewChildRows:
    """Return the child that `birth_json` serialized."""
    stored = cast("dict[str, Any]", written)  # as serialized by `birth_json`
    return NewChildRows(
        thread_id=stored["threadId"],
        parent_id=stored["parentId"],
        agent_id=stored["agentId"],
        name=stored["name"],
        message=stored["message"],
        arguments=stored["arguments"],
        user_id=stored["userId"],
        depth=stored["depth"],
        link=link_from_json(stored["link"]),
        most=stored.get("most"),
        files=tuple([_file(stored["parentId"], each, clock) for each in stored["files"]]),
        deps=stored.get("deps"),
    )


def _file(thread_id: str, stored: Sequence[Any], clock: Clock) -> File:  # as serialized by `birth_json`
    path, name, mime_type, size, digest, width, height = stored
    return File(
        thread_id=thread_id,
        path=path,
        id="",
        name=name,
        mime_type=mime_type,
        size=size,
        digest=digest,
        width=width,
        height=height,
        created_at=clock.now(),
    )


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
        redactor = await context.retry_until_available(lambda: context.redactor_of(parent))
        answer = await redacted(redactor, _answer(run))
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
    cut = cut_reason(run.stop_reason)
    if cut is not None:
        return cut_answer(cut, model_text(ToolResult.ok("" if run.output is None else run.output)))
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
    notice[ORIGIN_CALL] = context.answered_call
    notice |= {"result": answer.result} if answer.status == "success" else {"error": answer.error}
    event_id = f"sub:{run.id}.{context.seq}"  # a reopened run can end again
    return notice_for(parent, event_id, notice, files, run.chain_depth, context.clock, context.new_id)
