"""Pending calls: their results handed in from outside, exactly once (D9)."""

from collections.abc import Callable, Sequence
from typing import Literal

from toolwright.core.call import Call, CallStatus
from toolwright.core.drafts import FileDrafts, by_path
from toolwright.core.effects import Effect, Source
from toolwright.core.entity import entity_of
from toolwright.core.errors import (
    CallCancelled,
    CallExpired,
    CallResolved,
    Forbidden,
    NotFound,
    ToolwrightError,
)
from toolwright.core.inbox import InboxEvent
from toolwright.core.json_value import JSON
from toolwright.core.plain import plain
from toolwright.core.ports import Clock, Motor, NewId, Sight, Store
from toolwright.core.redact import Redactor
from toolwright.core.result import ToolResult
from toolwright.core.units import Conflict, Submit
from toolwright.core.value import changed
from toolwright.runtime.agents import Agents
from toolwright.runtime.asked import by_list, by_text, can_be_id, page
from toolwright.runtime.env import Environment
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.visible import finished
from toolwright.wire.event import outcome_event
from toolwright.wire.result import error_object, result_to_json


class PendingCalls:
    """Open calls, and what becomes of them from outside their runs."""

    def __init__(
        self,
        store: Store,
        motor: Motor,
        agents: Agents,
        environment: Environment,
        known: Callable[[str], Redactor],
        files: FileKeeper,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._store = store
        self._motor = motor
        self._agents = agents
        self._environment = environment
        self._known = known
        self._files = files
        self._clock = clock
        self._new_id = new_id

    async def get(self, call_id: str) -> Call:
        """The call, whatever its status."""
        call = await self._store.call(call_id) if can_be_id(call_id) else None
        if call is None:
            raise NotFound("Pending tool call not found")
        return call

    async def list(
        self,
        *,
        status: Sequence[CallStatus] | None = ("waiting", "pending"),
        run_id: str | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        sees: Sight | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Sequence[Call]:
        """Calls, the oldest first; the open ones unless asked otherwise, those that `sees` may see if it is given.

        `agent` is an agent's id.
        """
        page(limit, offset)
        by_text("run_id", run_id)
        by_list("status", status, str, "statuses")
        by_text("space_id", space_id)
        return await self._store.calls(
            status=status,
            run_id=run_id,
            agent=agent,
            space_id=space_id,
            sees=sees,
            limit=limit,
            offset=offset,
        )

    async def submit(
        self, run_id: str, call_id: str, result: JSON | ToolResult
    ) -> Literal["inline", "inbox"]:
        """Hand in a result; whether the waiting run takes it `inline` or the agent's `inbox` gets it.

        Any JSON value is a result, also null, false and 0. Raises `NotFound`, `Forbidden` (a call of another
        run), `CallResolved`, `CallExpired`, `CallCancelled`; then nothing has changed.
        """
        call = await self.get(call_id)
        if call.run_id != run_id:
            raise Forbidden("This tool call belongs to another run.")
        outcome = result if isinstance(result, ToolResult) else ToolResult.ok(result)
        plain(outcome.result)
        outcome = await self._clean(call, outcome)
        while True:
            answer = await self._store.commit(await self._submission(call, outcome))
            if not isinstance(answer, Conflict):
                self._motor.wake(call.thread_id)
                return answer.route or "inline"
            if answer.guard != "file":  # else a path was taken meanwhile: the file gets another name
                raise _why(await self.get(call_id))

    async def _clean(self, call: Call, outcome: ToolResult) -> ToolResult:
        """The result without the secrets of its thread, and those that a run at work in it has known before."""
        thread = await self._store.thread(call.thread_id)
        assert thread is not None, "a thread is never deleted"
        rows = await self._store.env(thread.id)
        env = self._environment.of(thread, await self._agents.find(thread.agent), rows)
        redactor = env.redactor.with_secrets(self._known(thread.id).secrets)
        return self._files.recordable(redactor.result(outcome))

    async def _submission(self, call: Call, outcome: ToolResult) -> Submit:
        now, files = self._clock.now(), ()
        if outcome.attachments or self._files.too_long(outcome):
            drafts = FileDrafts(by_path(await self._store.files(call.thread_id)))
            refs = await self._files.attach(call.thread_id, drafts, outcome.attachments)
            outcome = changed(outcome, attachments=refs)
            outcome = await self._files.within_limit(call.thread_id, drafts, outcome, call.name)
            files = drafts.changes
        run = await self._store.run(call.run_id)
        shown: JSON = error_object(outcome) if outcome.status == "error" else outcome.result
        return Submit(
            token=self._new_id("unit"),
            at=now,
            thread_id=call.thread_id,
            call_id=call.id,
            result=result_to_json(outcome),
            event=outcome_event(call.id, call.name, outcome),
            notice=InboxEvent(
                thread_id=call.thread_id,
                event_id=f"tr:{call.id}",
                type="tool_result",
                content={
                    "toolCallId": call.id,
                    "toolName": call.name,
                    "originRunId": call.run_id,
                    "result": shown,
                },
                depth=0 if run is None else run.chain_depth,
                created_at=now,
            ),
            files=files,
            effects=tuple(await self._shown(call, outcome)),
        )

    async def _shown(self, call: Call, outcome: ToolResult) -> Sequence[Effect]:
        """What is seen of it in a space."""
        if call.space_id is None:
            return ()
        agent = None if call.agent is None else await self._agents.find(call.agent)
        author = None if agent is None else entity_of(agent.agent)
        source = Source(thread_id=call.thread_id, run_id=call.run_id, agent=call.agent)
        return finished(call, outcome, author, source)


def _why(call: Call) -> ToolwrightError:
    match call.status:
        case "resolved":
            return CallResolved()
        case "cancelled":
            return CallCancelled()
        case "expired" | "waiting" | "pending":
            return CallExpired()
        case _:
            return NotFound("Pending tool call not found")
