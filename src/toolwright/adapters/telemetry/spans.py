"""Spans of a run: the run, its steps, its model requests and its tool calls."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from time import time_ns
from typing import TypeVar, cast

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, set_span_in_context

from toolwright.adapters.telemetry.instruments import (
    Failure,
    Instruments,
    WaitingCalls,
    context_of,
    suppress_errors,
    traceparent_of,
)
from toolwright.core.env.logs import without_secrets
from toolwright.core.journal.units import Advance
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.model import Model, ModelEvent, ModelRequest, ModelResponse, window_of
from toolwright.core.text import brief, error_text
from toolwright.core.threads.call import Call, CallMove
from toolwright.core.threads.run import Run
from toolwright.core.value import changed

MAX_ATTRIBUTE = 8_000  # characters of arguments or of a result in a span
TOOL_ERROR = "tool_error"
OUTCOMES = frozenset(
    {"timeout", "cancelled", "interrupted", "invalid_arguments", "unknown_tool", "not_begun", "not_approved"}
)
"""Error codes that are outcomes of their own. Others are not, because metrics of each outcome are kept forever."""
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
T = TypeVar("T")


class CallSpan:
    """An open span of a call. `context` is the trace context for the work of the call."""

    def __init__(self, instruments: Instruments, parent: Context, call: Call) -> None:
        self._instruments = instruments
        self.call = call
        self._began = time_ns()
        self._span: Span = instruments.tracer.start_span(
            f"execute_tool {call.name}",
            parent,
            SpanKind.INTERNAL,
            _call_attributes(call),
            start_time=self._began,
        )
        if instruments.content:
            self._span.set_attribute("gen_ai.tool.call.arguments", brief(call.arguments, MAX_ATTRIBUTE))
        self.context = set_span_in_context(self._span, parent)

    def end(self, call: Call, outcome: str | None = None) -> None:
        """End the span with the call's current state and `outcome`."""
        result = call.result or {}
        code = result.get("error_code")
        if result.get("status") == "error":
            error_type = code if isinstance(code, str) else outcome or TOOL_ERROR
            self._fail(result, error_type)
            outcome = outcome or (error_type if error_type in OUTCOMES else "error")
        elif self._instruments.content and "result" in result:
            self._span.set_attribute("gen_ai.tool.call.result", brief(_text(result["result"]), MAX_ATTRIBUTE))
        outcome = outcome or "success"
        self._span.set_attribute("toolwright.call.outcome", outcome)
        self._span.end()
        if outcome != "waiting":
            self._instruments.metrics.call(call, outcome, self._seconds(call), self._instruments.agent)

    def _seconds(self, call: Call) -> float | None:
        """Return the call's duration since its start, in any process, or None if it never started."""
        if call.started_at is None:
            return None
        if call.completed_at is None:
            return (time_ns() - self._began) / 1e9
        return (call.completed_at - call.started_at).total_seconds()

    def _fail(self, result: JSONObject, error_type: str) -> None:
        error, stack = str(result.get("error")), result.get("stack")
        if error_type == "http_error" and not self._instruments.content:
            error = error.partition(": ")[0]  # the answer follows the status
        self._span.set_status(Status(StatusCode.ERROR, brief(error)))
        self._span.set_attribute("error.type", error_type)
        if isinstance(stack, str):
            failure = Failure(type=_type_of(stack), message=error, stack=stack)
            described = {
                "type": failure.type,
                "message": brief(error),
                "stacktrace": brief(stack, MAX_ATTRIBUTE),
            }
            self._span.add_event("exception", {f"exception.{key}": text for key, text in described.items()})
            self._report(failure)

    def _report(self, failure: Failure) -> None:
        if self._instruments.report is not None:
            token = attach(self.context)
            try:
                self._instruments.report(failure)
            finally:
                detach(token)


def _call_attributes(call: Call) -> dict[str, str | int]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "extension" if call.kind in ("gateway", "mcp") else "function",
        "toolwright.call.kind": call.kind,
        "toolwright.call.attempt": call.attempts,
    }


def _type_of(stack: str) -> str:
    """Return the exception type from the end of a traceback."""
    raised = cast("list[str]", _RAISED.findall(stack))  # one group
    return raised[-1] if raised else "Exception"


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else dumps(value)


class WatchedModel:
    """A model wrapper that records a span for each answer."""

    def __init__(
        self,
        model: Model,
        instruments: Instruments,
        parent: Context,
        compacted: bool,
    ) -> None:
        self._compacted = compacted
        self._model = model
        self._instruments = instruments
        self._parent = parent

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._model.name

    @property
    def window(self) -> int | None:
        """The model's context window in tokens, or None."""
        return window_of(self._model)

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the model's answer and record its span."""
        provider, _, model_name = self.name.partition(":")
        model, began, span = model_name or provider, time_ns(), INVALID_SPAN
        attributes: dict[str, str | bool] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        if self._compacted:
            attributes["gen_ai.conversation.compacted"] = True
        with suppress_errors():
            span = self._instruments.tracer.start_span(
                f"chat {model}", self._parent, SpanKind.CLIENT, attributes, start_time=began
            )
        response: ModelResponse | None = None
        try:
            async with aclosing(self._model.respond(request)) as events:
                context = set_span_in_context(span, self._parent)
                while (event := await _next(events, context)) is not None:
                    if isinstance(event, ModelResponse):
                        response = event
                    yield event
        except Exception as error:
            self._fail(span, error)
            raise
        finally:
            if response is not None:
                span.set_attributes(_response_attributes(response, model))
            with suppress_errors():
                span.end()
            usage, cost = (None, None) if response is None else (response.usage, response.cost)
            seconds = (time_ns() - began) / 1e9
            self._instruments.metrics.answer(model, seconds, usage, cost, self._instruments.agent)

    def _fail(self, span: Span, error: Exception) -> None:
        message = brief(without_secrets(error_text(error)))
        span.set_status(Status(StatusCode.ERROR, message))
        code = getattr(error, "code", None)
        span.set_attribute("error.type", code if isinstance(code, str) else type(error).__name__)
        span.add_event("exception", {"exception.type": type(error).__name__, "exception.message": message})


async def _next(events: AsyncGenerator[ModelEvent], context: Context) -> ModelEvent | None:
    """Return the next event. The span is current only while the model works, since other tasks run between events."""
    token = attach(context)
    try:
        return await anext(events, None)
    finally:
        detach(token)


def _response_attributes(
    response: ModelResponse, model_name: str
) -> dict[str, str | int | float | list[str]]:
    usage = response.usage
    attributes: dict[str, str | int | float | list[str]] = {
        "gen_ai.response.model": response.model.partition(":")[2] or response.model or model_name,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    if response.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = [response.finish_reason]
    if response.cost is not None:
        attributes["toolwright.cost"] = response.cost
    return attributes


class OpenSpan:
    """An open span of a run or of a step, with the duration of its commits."""

    def __init__(
        self, instruments: Instruments, name: str, parent: Context, number: int | None = None
    ) -> None:
        self.began = time_ns()
        self.number = number
        self.span: Span = instruments.tracer.start_span(
            name, parent, SpanKind.INTERNAL, start_time=self.began
        )
        if number is not None:
            self.span.set_attribute("toolwright.step.number", number)
        self.context = set_span_in_context(self.span, parent)
        self._commits, self._seconds = 0, 0.0

    def committed(self, seconds: float) -> None:
        """Record the duration of a commit."""
        self._commits += 1
        self._seconds += seconds

    def end(self) -> float:
        """End the span and return its duration in seconds."""
        self.span.set_attributes(
            {"toolwright.commits": self._commits, "toolwright.commit.seconds": self._seconds}
        )
        self.span.end()
        return (time_ns() - self.began) / 1e9


class RunSpans:
    """The `RunTrace` of OpenTelemetry.

    The run's span `invoke_agent` is a child of the span that caused the run, if there is one. It ends immediately, so
    that it is exported even if the process dies: the steps of all processes that execute the run are its children. What
    only the end knows is in a span `execute_run` of each process.
    """

    def __init__(
        self,
        instruments: Instruments,
        waiting: WaitingCalls,
        run: Run,
        agent: str,
        calls: Sequence[Call],
    ) -> None:
        self._instruments = instruments = replace(instruments, agent=instruments.metrics.agent(agent))
        self._waiting = waiting
        self._run_row = run
        self._counted = run.is_reopened
        self._known = {call.id: call for call in calls}
        is_first = run.started_at is None or run.traceparent is None
        self._traceparent = _mark(instruments, run, agent) if is_first else run.traceparent
        self._context = context_of(self._traceparent)
        self._led = OpenSpan(instruments, f"execute_run {agent}", self._context)
        self._led.span.set_attribute("toolwright.run.id", run.id)
        self._led.span.set_attribute("toolwright.run.resumed", run.started_at is not None)
        self._step: OpenSpan | None = None
        self._steps_within: dict[str, OpenSpan] = {}
        self._calls: dict[str, CallSpan] = {}
        self._since = self._led.began
        self._token = attach(self._context)

    @property
    def traceparent(self) -> str | None:
        """The trace context of the run's span, the parent of its steps in all processes."""
        return self._traceparent

    def parent_of(self, changes: Sequence[CallMove]) -> str | None:
        """Return the context of the call that the changes answer, or the run's context."""
        answered = [self._calls.get(each.after.id) for each in changes if each.after.status != "running"]
        span = next((each for each in reversed(answered) if each is not None), None)
        return traceparent_of(self._context if span is None else span.context)

    def committed(self, unit: Advance, seconds: float) -> None:
        """Start and end the spans that start and end with the unit."""
        with suppress_errors():
            self._follow(unit, seconds)

    def _follow(self, unit: Advance, seconds: float) -> None:
        self._led.committed(seconds)
        for step in (self._step, *self._steps_within.values()):
            if step is not None:
                step.committed(seconds)
        if unit.read or any(change.now == "processing" for change in unit.inbox):
            self._read_inbox(unit)
        calls = [*unit.calls, *unit.nested, *[each.after for each in unit.changes]]
        for call in calls:
            self._moved(call)
        self._deliver(unit)
        for event in unit.events:
            if event.type == "step.done":
                self._end_step()
            elif event.type == "step.started" and not unit.run.over:
                self._end_step()
                self._begin_step(unit.run.step_count + 1)
            elif event.type == "hook.verdict" and self._step is not None:
                self._step.span.add_event("toolwright.hook.verdict", _hook_attributes(event.payload))
            elif event.type == "context.compacted":
                self._instruments.metrics.compaction(event.payload, self._instruments.agent)
        for call in calls:
            if call.status == "running":
                self._begin(call)
        self._run_row = unit.run
        self._since = time_ns()

    def model(self, model: Model, within: str | None, compacted: bool) -> Model:
        """Return the model with a span for its answer. The time since the last commit is recorded as prompt time."""
        with suppress_errors():
            return self._watched(model, within, compacted)
        return model

    def _watched(self, model: Model, within: str | None, compacted: bool) -> Model:
        span = None if within is None else self._calls.get(within)
        step = self._step_for(self._run_row.step_count + 1) if span is None else self._next_within(span)
        parent = step.context
        self._instruments.tracer.start_span("build_prompt", parent, start_time=self._since).end()
        return WatchedModel(model, self._instruments, parent, compacted)

    def summarizer(self, model: Model) -> Model:
        """Return the model with a span of the run for its answer."""
        return WatchedModel(model, self._instruments, self._context, compacted=False)

    async def carry_out(self, call_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Return the work wrapped so that the call's span is the current span."""
        span = self._calls.get(call_id)
        token = attach(self._context if span is None else span.context)
        try:
            return await work()
        finally:
            detach(token)

    def end(self, run: Run) -> None:
        """End all open spans."""
        detach(self._token)
        with suppress_errors():
            self._end(run)

    def _end(self, run: Run) -> None:
        for span in [*self._calls.values()]:
            self._end_call(span.call, "waiting")
        self._end_step()
        self._led.span.set_attributes(_result(run))
        if run.status == "failed":
            self._led.span.set_status(Status(StatusCode.ERROR, brief(run.error or "")))
            self._led.span.set_attribute("error.type", "run_failed")
        self._led.end()
        if self._counted:
            return  # its duration was recorded at its first end
        if run.over and run.completed_at is not None and run.started_at is not None:
            seconds = (run.completed_at - run.started_at).total_seconds()
            self._instruments.metrics.run(run.status, seconds, self._instruments.agent)

    def _moved(self, call: Call) -> None:
        match call.status:
            case "created" | "running":
                return
            case "waiting":
                self._begin(call)
                self._put_waiting(call)
            case "pending":
                self._begin(call)
                self._put_waiting(call)
                self._end_call(call, "pending")
            case "expired" | "cancelled":
                self._end_call(call, call.status)
            case _:
                self._end_call(call)

    def _put_waiting(self, call: Call) -> None:
        context = traceparent_of(self._calls[call.id].context)
        self._waiting.put(call.id, context, self._instruments.agent)

    def _deliver(self, unit: Advance) -> None:
        """Record calls that were settled elsewhere and whose results the model now reads."""
        moved = {change.after.id for change in unit.changes} | {call.id for call in unit.calls}
        for message in unit.messages:
            if message.call_id is None or message.call_id in moved:
                continue
            call = self._calls[message.call_id].call if message.call_id in self._calls else None
            call = call or self._known.get(message.call_id)
            if call is not None and call.result is None:
                call = changed(call, result={"status": message.status, "error": message.content})
            if call is not None:
                self._end_call(call)

    def _begin(self, call: Call) -> None:
        if call.id in self._calls:
            return
        parent_id = call.parent_id or ""
        above = self._steps_within.get(parent_id) or self._calls.get(parent_id) or self._step_for(call.step)
        parent = above.context
        self._calls[call.id] = CallSpan(self._instruments, parent, call)

    def _end_call(self, call: Call, outcome: str | None = None) -> None:
        """End the call's span, and the open spans of calls within it."""
        self._begin(call)
        for below in [each.call for each in self._calls.values() if each.call.parent_id == call.id]:
            self._end_call(below, "waiting")
        self._end_within(call.id)
        self._calls.pop(call.id).end(call, outcome)

    def _next_within(self, span: CallSpan) -> OpenSpan:
        """Start the next step in the conversation of this call of a prompt tool."""
        last = self._end_within(span.call.id)
        step = OpenSpan(self._instruments, "step", span.context, 1 if last is None else last + 1)
        self._steps_within[span.call.id] = step
        return step

    def _end_within(self, call_id: str) -> int | None:
        """End the last step within the call. Returns its number, or None if no step is open."""
        step = self._steps_within.pop(call_id, None)
        if step is None:
            return None
        self._instruments.metrics.step(step.end(), self._instruments.agent)
        return step.number

    def _step_for(self, number: int) -> OpenSpan:
        """Return the step in progress. A step that was started in another process gets a new span here."""
        return self._begin_step(number) if self._step is None else self._step

    def _begin_step(self, number: int) -> OpenSpan:
        self._step = OpenSpan(self._instruments, "step", self._context, number)
        return self._step

    def _end_step(self) -> None:
        if self._step is not None:
            self._instruments.metrics.step(self._step.end(), self._instruments.agent)
            self._step = None

    def _read_inbox(self, unit: Advance) -> None:
        parent = self._context if self._step is None else self._step.context
        span = self._instruments.tracer.start_span("read_inbox", parent, start_time=self._since)
        span.set_attribute("toolwright.inbox.events", len(unit.read) + len(unit.inbox))
        span.end()


def _mark(instruments: Instruments, run: Run, agent: str) -> str | None:
    """Export the span of a run that begins, and return its context."""
    parent = context_of(run.traceparent)
    span = instruments.tracer.start_span(f"invoke_agent {agent}", parent, SpanKind.INTERNAL)
    span.set_attributes(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.agent.id": run.agent,
            "gen_ai.conversation.id": run.thread_id,
            "toolwright.run.id": run.id,
        }
    )
    span.end()
    return traceparent_of(set_span_in_context(span, parent))


def _result(run: Run) -> dict[str, str | int]:
    """Return the attributes of a run's result, with its token usage over all processes."""
    return {
        "toolwright.run.status": run.status,
        "toolwright.run.steps": run.step_count,
        "gen_ai.usage.input_tokens": run.usage.input_tokens,
        "gen_ai.usage.output_tokens": run.usage.output_tokens,
    }


def _hook_attributes(payload: JSONObject) -> dict[str, str]:
    """Return the attributes of a verdict. Its reason is content, which spans do not have."""
    names = {"hook": "name", "point": "point", "verdict": "verdict", "toolCallId": "call.id"}
    return {f"toolwright.hook.{to}": str(payload[name]) for name, to in names.items() if name in payload}
