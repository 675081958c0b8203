"""Hooks of runs: asks each hook of a point in order, and returns the verdicts with the rows that record them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import takewhile
from types import CoroutineType
from typing import Any, TypeVar, cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.prompt import deep_copy
from toolwright.core.arguments.signature import can_wait
from toolwright.core.concurrency import Supervision, in_thread_if_large, is_cancelled
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError, HookFailed, ModelError
from toolwright.core.hooks import (
    AfterCall,
    AfterModel,
    AfterRun,
    Ask,
    BeforeCall,
    BeforeModel,
    BeforeRun,
    Deny,
    HookEvent,
    Hooks,
    HookVerdict,
    ModelRetry,
    Point,
    Purpose,
    Reject,
    Replace,
    Ruling,
    check_verdict,
    name_of,
)
from toolwright.core.journal.rows import Add
from toolwright.core.json_value import JSONObject, dumps
from toolwright.core.model import ModelRequest, ModelResponse, checked_response
from toolwright.core.request_changes import checked
from toolwright.core.results import ToolResult, as_result
from toolwright.core.state.state import Sampled
from toolwright.core.text import brief, error_text, sentence
from toolwright.core.threads.call import Call
from toolwright.core.threads.decision import Decider, caller_of
from toolwright.core.threads.message import CORRECTION, Message
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.approval import Approval, narrower
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Value, changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env import redacted
from toolwright.runtime.state.state import HandlerServices, RunState, read_children, reading_state
from toolwright.wire.event import verdict_event

log = logger("toolwright.hooks")
E = TypeVar("E", bound=HookEvent)
Sampler = Callable[..., Awaitable[Sampled]]
"""Answers `HookEvent.sample`, given the context of the run."""
HELD = "(This answer was not shown.)"
"""Text in place of an answer that a hook which holds texts has sent back."""
ABORTED = ToolResult.fail("The run was cancelled.", error_code="cancelled")


class SentBack(Value, gc=True):
    """An answer that a hook has sent back to the model, with the reason that the model reads."""

    answer: ModelResponse
    reason: str


class CallVerdicts(Value, gc=True):
    """The verdicts of the hooks of a call before it starts.

    `error` is the result of a call that is not executed. `prepared` has the replaced arguments, `text` as JSON, or both
    are None. `approval` is required in addition to the tool's own, `why` says why.
    """

    rows: tuple[HookVerdict, ...] = ()
    error: ToolResult | None = None
    prepared: PreparedCall | None = None
    text: str | None = None
    approval: Approval | None = None
    why: str | None = None


def record(changes: Changes, rows: Sequence[HookVerdict]) -> None:
    """Add verdicts to the unit of the step that they belong to, with their events."""
    if rows:
        changes.effects += tuple([Add(record=each) for each in rows])
        changes.events += [verdict_event(each) for each in rows]


class HookRunner:
    """Asks the hooks of an active agent. Raises `HookFailed` if one fails, except before a call, which it denies."""

    def __init__(self, services: HandlerServices, sampler: Sampler) -> None:
        self.services = services
        self.sampler = sampler

    async def before_run(
        self, context: RunContext, messages: Sequence[Message]
    ) -> tuple[list[Message], str | None, list[HookVerdict]]:
        """Return the rejected messages, the first reason, and the verdicts about these messages."""
        asked = _Asked(self, context, "before_run")
        rejected: list[Message] = []
        reason: str | None = None
        for message in messages:
            event = await self._event(
                BeforeRun, context, message, run=context.run, thread=context.thread, message=message
            )
            for hook in asked.hooks:
                verdict = await asked.ask(hook, event)
                if isinstance(verdict, Reject):
                    asked.add(hook, "rejected", verdict.reason, details={"messageId": message.id})
                    rejected.append(message)
                    reason = reason or context.redactor.text(verdict.reason)
                    break
        return rejected, reason, asked.rows

    async def before_model(
        self, context: RunContext, request: ModelRequest, purpose: Purpose
    ) -> tuple[ModelRequest, list[HookVerdict]]:
        """Return the request as changed by the hooks, and their verdicts without the details of the change."""
        asked = _Asked(self, context, "before_model")
        event = await self._event(BeforeModel, context, request=request, purpose=purpose)
        for hook in asked.hooks:
            verdict = await asked.ask(hook, event)
            if isinstance(verdict, ModelRequest) and verdict is not event.request:
                try:
                    verdict = checked(event.request, verdict)
                except (DefinitionError, TypeError, AttributeError) as error:  # of values of other types
                    asked.failed(hook, error)
                    continue
                asked.add(hook, "changed")
                event = changed(event, request=verdict)
        return event.request, asked.rows

    async def after_model(
        self, context: RunContext, answer: ModelResponse
    ) -> tuple[ModelResponse | SentBack, list[HookVerdict]]:
        """Return the answer as changed by the hooks, or sent back by the first that does, and their verdicts."""
        asked = _Asked(self, context, "after_model")
        event = await self._event(AfterModel, context, answer=answer)
        for hook in asked.hooks:
            verdict = await asked.ask(hook, event)
            if isinstance(verdict, ModelRetry):
                reason = context.redactor.text(verdict.reason)
                asked.add(hook, "retried", reason)
                sent = changed(event.answer, text=HELD, native=None) if hook.hold_text else event.answer
                return SentBack(answer=sent, reason=reason), asked.rows
            if isinstance(verdict, ModelResponse) and verdict is not event.answer:
                try:
                    verdict = checked_response(verdict, "it")
                except ModelError as error:
                    asked.failed(hook, error)
                    continue
                asked.add(hook, "changed")
                event = changed(event, answer=_as_own(context, event.answer, verdict))
        return event.answer, asked.rows

    async def before_call(
        self, context: RunContext, call: Call, prepared: PreparedCall, again: Callable[[str], object]
    ) -> CallVerdicts:
        """Return the verdicts about a call. `again` validates replaced arguments, which are JSON text."""
        asked = _Asked(self, context, "before_call", call.id)
        approval: Approval | None = None
        text: str | None = None
        reasons = list[str]()
        event = await self._event(
            BeforeCall,
            context,
            call=call,
            tool=prepared.tool,
            arguments=_copied(prepared.arguments),
            counter=partial(self._earlier, context, call),
        )
        for hook in asked.hooks:
            try:
                verdict = await asked.ask(hook, event)
                match verdict:
                    case Deny():
                        asked.add(hook, "denied", verdict.reason)
                        reason = context.redactor.text(verdict.reason)
                        error = ToolResult.fail(reason, error_code="denied")
                        return CallVerdicts(rows=tuple(asked.rows), error=error)
                    case Replace():
                        text, prepared = _replaced(verdict, again)
                        asked.add(hook, "replaced", verdict.reason or None)
                        event = changed(event, arguments=_copied(prepared.arguments))
                    case Ask():
                        approval = narrower(approval, verdict.approval)
                        reasons += [context.redactor.text(verdict.reason)] if verdict.reason else []
                        asked.add(hook, "asked", verdict.reason or None)
                    case _:
                        pass
            except DefinitionError as error:
                try:
                    asked.failed(hook, error)
                except HookFailed as failed:
                    return _denied(failed)
            except HookFailed as failed:
                return _denied(failed)
            if context.abort.aborted:
                return CallVerdicts(error=ABORTED)
        replaced = None if text is None else prepared
        why = " ".join(map(sentence, reasons)) or None
        return CallVerdicts(rows=tuple(asked.rows), prepared=replaced, text=text, approval=approval, why=why)

    async def after_call(
        self,
        context: RunContext,
        call: Call,
        tool: Tool | None,
        result: ToolResult,
        active: ActiveAgent | None = None,
    ) -> tuple[ToolResult, list[HookVerdict]]:
        """Return the result as changed by the hooks of `active`, without secrets, and their verdicts."""
        asked = _Asked(self, context, "after_call", call.id, active)
        event = await self._event(AfterCall, context, call=call, tool=tool, result=result)
        for hook in asked.hooks:
            verdict = await asked.ask(hook, event)
            if isinstance(verdict, ToolResult) and verdict is not event.result:
                given = await in_thread_if_large(verdict.result, as_result, verdict)
                if given.status != verdict.status:  # it is none, and `given` says why
                    asked.failed(hook, DefinitionError((given.error or "").replace("The tool", "it", 1)))
                    continue
                asked.add(hook, "changed")
                event = changed(event, result=await redacted(context.redactor, given))
        return event.result, asked.rows

    async def after_run(self, context: RunContext) -> None:
        """Tell the hooks that the run has ended. Failures are logged, as nothing can fail any more."""
        asked = _Asked(self, context, "after_run")
        event = await self._event(AfterRun, context, run=context.run)
        for hook in asked.hooks:
            with suppress(HookFailed):
                await asked.ask(hook, event)

    async def _earlier(self, context: RunContext, call: Call, most: int) -> int:
        """Return how many calls of the same tool precede this one in the run and are not refused, at most `most`."""
        started = await context.retry_until_available(
            lambda: self.services.store.started_calls(context.run.id, call.name, most + 1)
        )
        before = takewhile(lambda each: each.id != call.id, context.frame.open.values())
        coming = [each for each in before if each.name == call.name and each.status == "created"]
        denied = [each for each in coming if isinstance(context.decided.get(each.id), ToolResult)]
        others = [each for each in started if each.id != call.id]
        return min(len(others) + len(coming) - len(denied), most)

    async def _event(
        self, kind: type[E], context: RunContext, about: Message | None = None, **parts: object
    ) -> E:
        children: Sequence[Thread] = ()
        if context.may_have_children:
            children = await read_children(context, self.services)
        return kind(
            source=_EventSource(self, context, children, about),
            agent=context.active.agent.name,
            thread_id=context.thread.id,
            run_id=context.run.id,
            step=context.run.step_count,
            **parts,
        )


class _EventSource:
    """The run behind an event, whose `about` is the message that hooks are asked about, or None."""

    def __init__(
        self, runner: HookRunner, context: RunContext, children: Sequence[Thread], about: Message | None
    ) -> None:
        self._runner, self._context, self._children, self._about = runner, context, children, about

    @property
    def state(self) -> RunState:
        return reading_state(self._context, self._runner.services, self._children)

    @property
    def caller(self) -> Decider | None:
        return _caller(self._context) if self._about is None else caller_of(self._about.sender)

    async def sample(
        self,
        messages: Sequence[tuple[str, str]] | str,
        model: object,
        system: str | None,
        max_tokens: int | None,
        /,
    ) -> Sampled:
        return await self._runner.sampler(self._context, messages, model, system, max_tokens)


class _Asked:
    """The hooks of one point, and the rows of their verdicts so far."""

    def __init__(
        self,
        runner: HookRunner,
        context: RunContext,
        point: Point,
        call_id: str | None = None,
        active: ActiveAgent | None = None,
    ) -> None:
        points = (active or context.active).hooks
        self.hooks: tuple[Hooks, ...] = () if points is None else getattr(points, point)
        self.rows: list[HookVerdict] = []
        self._context = context
        self._point: Point = point
        self._call_id = call_id

    async def ask(self, hook: Hooks, event: HookEvent) -> object:
        """Return the verdict, None also after a failure of a hook that only observes. Raises `HookFailed`."""
        method = getattr(hook, self._point)
        try:
            verdict = copy_context().run(method, event)
            if type(verdict) is CoroutineType:
                work = cast("Coroutine[Any, Any, object]", verdict)
                verdict = await self._wait(hook, work) if can_wait(method) else _returned(work)
            elif isinstance(verdict, Awaitable):
                verdict = await self._wait(hook, _awaited(cast("Awaitable[object]", verdict)))
            check_verdict(self._point, verdict)
            return verdict
        except ModelRetry as retry:
            if self._point == "after_model":
                return retry
            self.failed(hook, retry)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            self.failed(hook, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's hook can raise anything
            self.failed(hook, error)
        return None

    async def _wait(self, hook: Hooks, work: Coroutine[Any, Any, object]) -> object:
        """Return the verdict of a hook that waits, within its time. A cancelled run ends hooks before its next step."""
        supervised = Supervision(_caught(work), name_of(hook), hook.timeout)
        is_before = self._point.startswith("before")
        if is_before:
            self._context.abort.within(supervised)
        try:
            ended = await supervised.end()
            supervised.check_cancelled()
        finally:
            if is_before:
                self._context.abort.left(supervised)
        if ended:
            verdict, error = supervised.result()
            if error is not None:
                raise error
            return verdict
        if is_before and self._context.abort.aborted:
            return None
        raise TimeoutError(f"it took longer than {hook.timeout:g} s")

    def add(
        self, hook: Hooks, ruling: Ruling, reason: str | None = None, details: JSONObject | None = None
    ) -> None:
        """Add a row."""
        context = self._context
        step = context.run.step_count + (self._point in ("before_run", "before_model", "after_model"))
        row = HookVerdict(
            id=context.new_id("vrd"),
            thread_id=context.thread.id,
            run_id=context.run.id,
            step=step,
            hook=name_of(hook),
            point=self._point,
            ruling=ruling,
            reason=context.redactor.optional(reason),
            call_id=self._call_id,
            details=details,
            created_at=context.clock.now(),
        )
        self.rows.append(row)

    def failed(self, hook: Hooks, error: BaseException) -> None:
        """Record the failure of a hook. Raises `HookFailed` unless it only observes."""
        why = self._context.redactor.text(brief(error_text(error)))
        log.error(
            "The hook %r failed at %s of the run %s: %s",
            name_of(hook), self._point, self._context.run.id, why, exc_info=error,
        )  # fmt: skip
        self.add(hook, "failed", why)
        if hook.on_error == "fail":
            raise HookFailed(
                sentence(f"The hook {name_of(hook)!r} failed at {self._point}: {why}"), self.rows
            )


def _caller(context: RunContext) -> Decider | None:
    """Return who has sent the message that the run answers: its newest, which can have joined it."""
    for message in reversed(context.root.messages):
        if (
            message.role == "user"
            and message.run_id == context.run.id
            and not message.id.startswith(CORRECTION)
        ):
            return caller_of(message.sender)
    return None


def _denied(failed: HookFailed) -> CallVerdicts:
    rows = cast("list[HookVerdict]", failed.rows)
    return CallVerdicts(rows=tuple(rows), error=ToolResult.fail(failed.message, error_code=failed.code))


def _copied(arguments: JSONObject) -> JSONObject:
    """Return a copy of the arguments: a hook that changes them in place changes nothing."""
    return cast("JSONObject", deep_copy(arguments))


def _replaced(verdict: Replace, again: Callable[[str], object]) -> tuple[str, PreparedCall]:
    """Return the replaced arguments as JSON text, and the call with them. Raises `DefinitionError` if invalid."""
    text = dumps(verdict.arguments)
    prepared = again(text)
    if isinstance(prepared, PreparedCall):
        return text, prepared
    error = prepared.error if isinstance(prepared, ToolResult) else None
    raise DefinitionError(f"it replaced the arguments by invalid ones: {error}")


def _returned(work: Coroutine[Any, Any, object]) -> object:
    """Return the value of a coroutine that never waits."""
    try:
        copy_context().run(work.send, None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a coroutine without an await never suspends")


async def _caught(work: Coroutine[Any, Any, object]) -> tuple[object, BaseException | None]:
    """Return the verdict, or the exception that would end the event loop if a task raised it."""
    try:
        return await work, None
    except SystemExit as error:
        return None, error


async def _awaited(work: Awaitable[object]) -> object:
    return await work


def _as_own(context: RunContext, before: ModelResponse, after: ModelResponse) -> ModelResponse:
    """Return the changed answer. Its cost is that of the answer, whose replayed parts belong to what it was."""
    text = after.text if after.text == before.text else context.redactor.text(after.text)
    native = before.native if _same(before, after) else None
    return changed(after, text=text, native=native, usage=before.usage, cost=before.cost, model=before.model)


def _same(before: ModelResponse, after: ModelResponse) -> bool:
    return (before.text, before.calls, before.reasoning) == (after.text, after.calls, after.reasoning)
