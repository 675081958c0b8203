"""MCP tasks: tasks that MCP servers execute for calls, polled until they finish, also after a restart.

A call whose server has created a task is pending, or waits until its timeout. A row stores the task; a timer polls the
server for its status. A task's question to a person is a nested call of the call.
"""

import hashlib
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from zlib import crc32

from toolwright.core import errors
from toolwright.core.env.logs import logger
from toolwright.core.journal.agent_effects import DropTimer, SetTimer
from toolwright.core.journal.effects import AddNestedCall, Effect
from toolwright.core.journal.rows import Delete, Put
from toolwright.core.journal.space_effects import Source
from toolwright.core.journal.units import Apply, Conflict
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.mcp.questions import check_question, elicited
from toolwright.core.mcp.servers import (
    McpServers,
    McpTask,
    McpTaskState,
    McpTaskUnknown,
    McpUnavailable,
    task_timer,
)
from toolwright.core.results import ToolResult
from toolwright.core.spaces import Entity, entity_of
from toolwright.core.state.state import ELICIT, ELICIT_TIMEOUT, question, question_of
from toolwright.core.text import sentence
from toolwright.core.threads.call import Call, is_over, timer_of
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.calls.visible import call_message
from toolwright.runtime.journal import Services
from toolwright.runtime.mcp import next_check, target_in
from toolwright.runtime.pending.pending import PendingCalls
from toolwright.runtime.spaces.membership import Membership
from toolwright.runtime.threads.thread_tree import Lineages
from toolwright.wire.event import tool_event
from toolwright.wire.result import result_from_json

log = logger("toolwright.mcp")

DOWN = 30.0
"""Seconds until an unreachable server is polled again."""
AT_ONCE = 100
"""Concurrent polls of one server's tasks: more would delay the runs of others."""
CROWDED = 10.0
"""Seconds by which a poll is delayed while so many are in progress; up to twice as many, different for each task."""
MAX_QUESTIONS = 20
"""Maximum number of questions that one task may ask."""
PATIENCE = 0.1
"""Factor of a task's age after which it is polled again, so that long tasks are polled less often."""
_UNANSWERED: JSONObject = {"action": "cancel"}


class McpTasks:
    """Polls servers for the tasks of calls, submits their results, and answers their questions."""

    def __init__(
        self,
        services: Services,
        servers: McpServers,
        agents: Agents,
        lineages: Lineages,
        pending: PendingCalls,
        membership: Membership,
    ) -> None:
        self._store = services.store
        self._servers = servers
        self._agents = agents
        self._lineages = lineages
        self._pending = pending
        self._membership = membership
        self._clock = services.clock
        self._new_id = services.new_id
        self._looks = Counter[str]()  # polls in progress, by the keys of targets

    async def poll(self, call_id: str) -> None:
        """Poll the task of the call. Called by the task's timer."""
        task, call = await self._store.records.one(McpTask, call_id), await self._store.call(call_id)
        if task is None or call is None:
            return
        thread = await self._store.thread(task.thread_id)
        is_awaited = call.status == "waiting" or (
            call.status == "pending" and thread is not None and not thread.is_over
        )
        try:
            target = None if thread is None else await self._target(task, thread)
            if target is not None and task.place not in (None, target.place):
                await self._end(task, call, _lost("its server is now configured at another place"))
            elif target is not None and self._looks[target.key] >= AT_ONCE:
                await self._again(task, CROWDED * (1 + crc32(call_id.encode()) % 100 / 100))
            elif not is_awaited:
                await self._forget(task, target)
            elif target is None:
                await self._end(task, call, _lost("its agent no longer has this MCP server"))
            else:
                await self._follow(task, call, target, await self._state(task, target))
        except McpUnavailable as error:
            log.info("The server of the task of the call %s cannot be reached: %s", call_id, error)
            if is_awaited or (call.expires_at is not None and call.expires_at > self._clock.now()):
                await self._again(task, DOWN)
            else:
                await self._drop(task)
        except McpTaskUnknown as error:
            await self._end(task, call, _lost(f"its server no longer knows it: {error}"))

    async def _state(self, task: McpTask, target: McpTarget) -> McpTaskState:
        with self._count_poll(target):
            return await self._servers.task(target, task.task_id, task.output, task.session)

    @contextmanager
    def _count_poll(self, target: McpTarget) -> Generator[None]:
        """Count a poll of the server in progress."""
        self._looks[target.key] += 1
        try:
            yield
        finally:
            self._looks[target.key] -= 1
            if not self._looks[target.key]:
                del self._looks[target.key]

    async def _follow(self, task: McpTask, call: Call, target: McpTarget, state: McpTaskState) -> None:
        match state.status:
            case "completed" | "failed":
                await self._end(task, call, state.result or ToolResult.fail("The task failed."))
            case "cancelled":
                await self._end(
                    task, call, ToolResult.fail("The task was cancelled.", error_code="cancelled")
                )
            case "input_required":
                await self._ask(task, call, target, state)
            case "working":
                await self._take_back(task.questions.values())
                age = (self._clock.now() - task.created_at).total_seconds()
                await self._again(task, max(state.poll or 0.0, age * PATIENCE) or None)

    async def _end(self, task: McpTask, call: Call, result: ToolResult) -> None:
        """Submit the result, then delete the task. The result is submitted once even if the process stops."""
        try:
            await self._hand_in(call, result)
        except (
            errors.InvalidRequest,
            errors.TooLarge,
            errors.Unwritable,
        ) as error:  # the result cannot be stored
            await self._hand_in(call, ToolResult.fail(error.message, error_code=error.code))
        await self._drop(task)

    async def _hand_in(self, call: Call, result: ToolResult) -> None:
        try:
            await self._pending.submit(call.run_id, call.id, result)
        except (errors.AlreadyOver, errors.CallExpired, errors.NotFound) as error:
            log.info("The result of the task of the call %s was rejected: %s", call.id, error.message)

    async def _forget(self, task: McpTask, target: McpTarget | None) -> None:
        """Cancel the task at its server, because no run waits for it. Raises `McpUnavailable`."""
        if target is not None:
            try:
                with self._count_poll(target):
                    await self._servers.cancel_task(target, task.task_id, task.session)
            except McpTaskUnknown as error:
                log.info("The task of the call %s could not be cancelled: %s", task.call_id, error)
        await self._drop(task)

    async def _drop(self, task: McpTask) -> None:
        """Delete a task and cancel its open questions."""
        await self._take_back(task.questions.values())
        await self._commit(
            Delete(kind=McpTask, key=(task.call_id,)), DropTimer(name=task_timer(task.call_id))
        )

    # ── questions of a task ─────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, task: McpTask, call: Call, target: McpTarget, state: McpTaskState) -> None:
        """Ask new questions and submit answers, until the server no longer requests input."""
        questions, question_ids = state.questions or {}, dict(task.questions)
        if not questions or len({*question_ids, *questions}) > MAX_QUESTIONS:
            error = "asks too many questions" if questions else "asks for input that no one here can give"
            await self._hand_in(call, ToolResult.fail(f"The task {error}.", error_code="mcp_task_failed"))
            await self._forget(task, target)
            return
        await self._take_back([each for key, each in question_ids.items() if key not in questions])
        answers: JSONObject = {}
        author = await self._author(task)
        new: list[Effect] = []
        for key, each in questions.items():
            question_ids[key] = call_id = _question_id(call, key)
            row = await self._store.call(call_id)
            if row is not None:
                if is_over(row.status):
                    answers[key] = _answer_of(row)
                continue
            space_id = None if author is None else task.space_id
            question = self._question(call, task, each, call_id, len(question_ids), space_id)
            if question is None:
                answers[key] = _UNANSWERED
                del question_ids[key]
            else:
                new += [question, SetTimer(name=timer_of(call_id), due=_expiry(question.call))]
                new += _shown(question, author)
        effect = Put(record=changed(task, questions=question_ids))
        if isinstance(await self._commit(*new, effect, self._timer(task, state.poll)), Conflict):
            await self._again(task, state.poll)  # the call has ended, or another process has asked
        elif answers:
            await self._answer(task, target, answers)

    async def _answer(self, task: McpTask, target: McpTarget, answers: JSONObject) -> None:
        """Submit answers. If the task no longer accepts any, the next poll finds its status."""
        try:
            await self._servers.answer_task(target, task.task_id, answers, task.session)
        except McpTaskUnknown as error:
            log.info("The task of the call %s rejected an answer: %s", task.call_id, error)

    async def _author(self, task: McpTask) -> Entity | None:
        """Return the agent as the author in the task's space, or None if the task or the agent is in no space."""
        active = None if task.space_id is None else await self._agents.usable(task.agent_id)
        author = None if active is None else entity_of(active.agent)
        if task.space_id is None or author is None:
            return None
        return None if await self._membership.open_to(task.space_id, author.id) is None else author

    def _question(
        self,
        call: Call,
        task: McpTask,
        asked: Mapping[str, JSON],
        call_id: str,
        number: int,
        space_id: str | None,
    ) -> AddNestedCall | None:
        """Return the call that asks the question, or None if the question is invalid."""
        now = self._clock.now()
        try:
            arguments = question(
                asked["message"], asked.get("requestedSchema"), asked.get("url"), task.server
            )
            check_question(arguments)
        except errors.InvalidRequest as error:
            log.info("The task of the call %s asks an invalid question: %s", call.id, error.message)
            return None
        row = Call(
            id=call_id,
            thread_id=call.thread_id,
            run_id=call.run_id,
            agent=call.agent,
            step=call.step,
            position=number,
            name=ELICIT,
            kind="space",
            arguments=dumps(arguments),
            model_call_id=call.id,
            status="waiting",
            visible=True,
            space_id=space_id,
            parent_id=call.id,
            created_at=now,
            started_at=now,
            expires_at=now + timedelta(seconds=ELICIT_TIMEOUT),
        )
        return AddNestedCall(call=row, events=(tool_event("tool.started", row.id, row.name),))

    async def _take_back(self, questions: Iterable[JSON]) -> None:
        """Cancel the questions with these ids that are still open."""
        for call_id in questions:
            call = await self._store.call(str(call_id))
            if call is not None and not is_over(call.status):
                try:
                    await self._pending.cancel(call.id)
                except (errors.AlreadyOver, errors.NotFound):
                    continue  # answered at the same time

    # ── the journal ─────────────────────────────────────────────────────────────────────────────────────────

    async def _target(self, task: McpTask, thread: Thread) -> McpTarget | None:
        """Return the current connection settings of the task's server, or None if the agent no longer has it."""
        active = await self._agents.usable(task.agent_id)
        if active is None:
            return None
        server = next((each for each in active.mcp if each.name == task.server), None)
        if server is None:
            return None
        target = target_in(server, await self._lineages.env(thread, active))
        if isinstance(target, McpTarget):
            return target
        raise McpUnavailable(target.message)

    def _timer(self, task: McpTask, seconds: float | None) -> SetTimer:
        return SetTimer(name=task_timer(task.call_id), due=next_check(self._clock.now(), seconds))

    async def _again(self, task: McpTask, seconds: float | None) -> None:
        await self._commit(self._timer(task, seconds))

    async def _commit(self, *effects: Effect) -> object:
        unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=effects)
        return await self._store.commit(unit)


def _shown(question: AddNestedCall, author: Entity | None) -> Sequence[Effect]:
    """Return the message of a question, in the space in which it is shown."""
    call = question.call
    if call.space_id is None:
        return ()
    source = Source(thread_id=call.thread_id, run_id=call.run_id, agent=call.agent)
    return (call_message(call, call.space_id, "requires_action", author, source, question.events),)


def _expiry(call: Call) -> datetime:
    assert call.expires_at is not None, "a question has a time to expire"
    return call.expires_at


def _question_id(call: Call, key: str) -> str:
    """Return the id of the call that asks this question. The same question has the same id."""
    return f"{call.id}.q_{hashlib.sha256(key.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _answer_of(call: Call) -> JSONObject:
    """Return the answer to a question in the protocol's form."""
    question = question_of(call)
    if question is None or call.result is None:
        return _UNANSWERED
    answer = elicited(question, result_from_json(call.result))
    return {"action": answer.action, **({} if answer.content is None else {"content": answer.content})}


def _lost(why: str) -> ToolResult:
    return ToolResult.fail(sentence(f"The task of this call is lost: {why}"), error_code="mcp_task_lost")
