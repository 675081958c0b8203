"""The spans of a run: the run, its steps and its calls, as the journal is told of them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from time import time_ns
from typing import TypeVar

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from toolwright.adapters.telemetry.call_span import CallSpan
from toolwright.adapters.telemetry.instruments import Instruments, suppress_errors
from toolwright.adapters.telemetry.model_span import WatchedModel
from toolwright.adapters.telemetry.trace_context import Waiting, context_of, traceparent_of
from toolwright.core.journal.units import Advance, Claim
from toolwright.core.model import Model
from toolwright.core.text import brief
from toolwright.core.threads.call import Call, CallChange
from toolwright.core.threads.run import Run
from toolwright.core.value import changed

T = TypeVar("T")


class OpenSpan:
    """An open span of a run or of a step, with what its commits have cost."""

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
        """A commit has taken so long."""
        self._commits += 1
        self._seconds += seconds

    def end(self) -> float:
        """End it; the seconds that it took."""
        self.span.set_attributes(
            {"toolwright.commits": self._commits, "toolwright.commit.seconds": self._seconds}
        )
        self.span.end()
        return (time_ns() - self.began) / 1e9


class RunSpans:
    """The `RunTrace` of OpenTelemetry.

    The spans of all processes that execute the run share one parent: the span of the run's cause, else a root span
    `run`. The root ends at once, so that it is exported even if the process dies.
    """

    def __init__(
        self,
        instruments: Instruments,
        waiting: Waiting,
        run: Run,
        agent: str,
        calls: Sequence[Call],
        redact: Callable[[str], str],
    ) -> None:
        self._instruments = instruments = replace(instruments, agent=instruments.metrics.agent(agent))
        self._waiting = waiting
        self._redact = redact
        self._run_row = run
        self._counted = run.opened_again
        self._known = {call.id: call for call in calls}
        self._traceparent = run.traceparent or _root(instruments, run, agent)
        self._led = OpenSpan(instruments, f"invoke_agent {agent}", context_of(self._traceparent))
        self._led.span.set_attributes(_attributes(run, agent))
        self._step: OpenSpan | None = None
        self._steps_within: dict[str, OpenSpan] = {}
        self._calls: dict[str, CallSpan] = {}
        self._since = self._led.began
        self._token = attach(self._led.context)

    @property
    def traceparent(self) -> str | None:
        """The context of the parent of the run's spans."""
        return self._traceparent

    def parent_of(self, changes: Sequence[CallChange]) -> str | None:
        """The context of the call that the changes answer, else the run's."""
        answered = [self._calls.get(change.id) for change in changes if not change.runs]
        span = next((each for each in reversed(answered) if each is not None), None)
        return traceparent_of(self._led.context if span is None else span.context)

    def committed(self, unit: Advance, seconds: float) -> None:
        """Begin and end what begins and ends with the unit."""
        with suppress_errors():
            self._follow(unit, seconds)

    def _follow(self, unit: Advance, seconds: float) -> None:
        self._led.committed(seconds)
        for step in (self._step, *self._steps_within.values()):
            if step is not None:
                step.committed(seconds)
        if unit.read or (unit.inbox and isinstance(unit, Claim)):
            self._read_inbox(unit)
        calls = [*unit.calls, *unit.nested, *[each.after for each in unit.changes if each.after is not None]]
        for call in calls:
            self._moved(call)
        self._deliver(unit)
        for event in unit.events:
            if event.type == "step.done":
                self._end_step()
            elif event.type == "step.started" and not unit.run.over:
                self._end_step()
                self._begin_step(unit.run.step_count + 1)
            elif event.type == "context.compacted":
                self._instruments.metrics.compaction(event.payload, self._instruments.agent)
        for call in calls:
            if call.status == "running":
                self._begin(call)
        self._run_row = unit.run
        self._since = time_ns()

    def model(self, model: Model, within: str | None, compacted: bool) -> Model:
        """The model with a span for its answer; what came before that since the last commit made its prompt."""
        with suppress_errors():
            return self._watched(model, within, compacted)
        return model

    def _watched(self, model: Model, within: str | None, compacted: bool) -> Model:
        span = None if within is None else self._calls.get(within)
        step = self._step_for(self._run_row.step_count + 1) if span is None else self._next_within(span)
        parent = step.context
        self._instruments.tracer.start_span("build_prompt", parent, start_time=self._since).end()
        return WatchedModel(model, self._instruments, parent, self._redact, compacted)

    def summarizer(self, model: Model) -> Model:
        """The model with a span of the run for its answer."""
        return WatchedModel(model, self._instruments, self._led.context, self._redact, compacted=False)

    async def carry_out(self, call_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """The work, with the call's span as the current one."""
        span = self._calls.get(call_id)
        token = attach(self._led.context if span is None else span.context)
        try:
            return await work()
        finally:
            detach(token)

    def end(self, run: Run) -> None:
        """End all spans that are open."""
        detach(self._token)
        with suppress_errors():
            self._end(run)

    def _end(self, run: Run) -> None:
        for span in [*self._calls.values()]:
            self._end_call(span.call, "waiting")
        self._end_step()
        self._led.span.set_attributes(_result(run))
        if run.status == "failed":
            self._led.span.set_status(Status(StatusCode.ERROR, brief(self._redact(run.error or ""))))
            self._led.span.set_attribute("error.type", "run_failed")
        self._led.end()
        if self._counted:
            return  # its duration was told at its first end
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
        """Calls that somebody else has ended, and whose results the model reads now."""
        moved = {change.id for change in unit.changes} | {call.id for call in unit.calls}
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
        self._calls[call.id] = CallSpan(self._instruments, parent, call, self._redact)

    def _end_call(self, call: Call, outcome: str | None = None) -> None:
        """End its span, and those of calls within it that nobody has ended."""
        self._begin(call)
        for below in [each.call for each in self._calls.values() if each.call.parent_id == call.id]:
            self._end_call(below, "waiting")
        self._end_within(call.id)
        self._calls.pop(call.id).end(call, outcome)

    def _next_within(self, span: CallSpan) -> OpenSpan:
        """The next step in the conversation of a prompt tool, which this call is."""
        last = self._end_within(span.call.id)
        step = OpenSpan(self._instruments, "step", span.context, 1 if last is None else last + 1)
        self._steps_within[span.call.id] = step
        return step

    def _end_within(self, call_id: str) -> int | None:
        """End the last step within the call; its number, None if there is none."""
        step = self._steps_within.pop(call_id, None)
        if step is None:
            return None
        self._instruments.metrics.step(step.end(), self._instruments.agent)
        return step.number

    def _step_for(self, number: int) -> OpenSpan:
        """The step in progress; one that was begun in another process has another span here."""
        return self._begin_step(number) if self._step is None else self._step

    def _begin_step(self, number: int) -> OpenSpan:
        self._step = OpenSpan(self._instruments, "step", self._led.context, number)
        return self._step

    def _end_step(self) -> None:
        if self._step is not None:
            self._instruments.metrics.step(self._step.end(), self._instruments.agent)
            self._step = None

    def _read_inbox(self, unit: Advance) -> None:
        parent = self._led if self._step is None else self._step
        span = self._instruments.tracer.start_span("read_inbox", parent.context, start_time=self._since)
        span.set_attribute("toolwright.inbox.events", len(unit.read) + len(unit.inbox))
        span.end()


def _root(instruments: Instruments, run: Run, agent: str) -> str | None:
    """Export the root span of a run that nothing traced has caused; return its context."""
    span = instruments.tracer.start_span(f"run {agent}", Context(), SpanKind.INTERNAL)
    span.set_attributes({"toolwright.run.id": run.id, "gen_ai.conversation.id": run.thread_id})
    span.end()
    return traceparent_of(set_span_in_context(span, Context()))


def _attributes(run: Run, agent: str) -> dict[str, str | int]:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.agent.id": run.agent,
        "gen_ai.conversation.id": run.thread_id,
        "toolwright.run.id": run.id,
        "toolwright.run.resumed": run.started_at is not None,
    }


def _result(run: Run) -> dict[str, str | int]:
    """What has become of a run, with its tokens over all processes."""
    return {
        "toolwright.run.status": run.status,
        "toolwright.run.steps": run.step_count,
        "gen_ai.usage.input_tokens": run.usage.input_tokens,
        "gen_ai.usage.output_tokens": run.usage.output_tokens,
    }
