"""The span of a tool call: from the commit that begins it to the one that ends it."""

import re
from collections.abc import Callable
from time import time_ns
from typing import cast

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from toolwright.adapters.telemetry.instruments import Failure, Instruments
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.text import brief
from toolwright.core.threads.call import Call

LONGEST = 8_000  # characters of arguments or of a result in a span
TOOL_ERROR = "tool_error"
OUTCOMES = frozenset(
    {"timeout", "cancelled", "interrupted", "invalid_arguments", "unknown_tool", "not_begun", "not_approved"}
)
"""The codes of errors that are outcomes of their own: figures are kept for each forever, and tools have any codes."""
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)


class CallSpan:
    """An open span of a call; its `context` is that of whatever the call does."""

    def __init__(
        self, instruments: Instruments, parent: Context, call: Call, redact: Callable[[str], str]
    ) -> None:
        self._instruments = instruments
        self._redact = redact
        self.call = call
        self._began = time_ns()
        self._span: Span = instruments.tracer.start_span(
            f"execute_tool {call.name}", parent, SpanKind.INTERNAL, _attributes(call), start_time=self._began
        )
        if instruments.content:
            self._span.set_attribute("gen_ai.tool.call.arguments", self._bounded(call.arguments))
        self.context = set_span_in_context(self._span, parent)

    def end(self, call: Call, outcome: str | None = None) -> None:
        """The call stands so now: its result is in it, or it has none yet, and has come to `outcome`."""
        result = call.result or {}
        code = result.get("error_code")
        if result.get("status") == "error":
            error_type = code if isinstance(code, str) else outcome or TOOL_ERROR
            self._fail(result, error_type)
            outcome = outcome or (error_type if error_type in OUTCOMES else "error")
        elif self._instruments.content and "result" in result:
            self._span.set_attribute("gen_ai.tool.call.result", self._bounded(_text(result["result"])))
        outcome = outcome or "success"
        self._span.set_attribute("toolwright.call.outcome", outcome)
        self._span.end()
        if outcome != "waiting":
            self._instruments.metrics.call(call, outcome, self._seconds(call), self._instruments.agent)

    def _seconds(self, call: Call) -> float | None:
        """How long it took from its start, in whichever process; None if it was never begun."""
        if call.started_at is None:
            return None
        if call.completed_at is None:
            return (time_ns() - self._began) / 1e9
        return (call.completed_at - call.started_at).total_seconds()

    def _fail(self, result: JSONObject, error_type: str) -> None:
        error, stack = self._redact(str(result.get("error"))), result.get("stack")
        if error_type == "http_error" and not self._instruments.content:
            error = error.partition(": ")[0]  # behind the status stands what was answered
        self._span.set_status(Status(StatusCode.ERROR, brief(error)))
        self._span.set_attribute("error.type", error_type)
        if isinstance(stack, str):
            stack = self._redact(stack)
            failure = Failure(type=_type_of(stack), message=error, stack=stack)
            described = {"type": failure.type, "message": brief(error), "stacktrace": brief(stack, LONGEST)}
            self._span.add_event("exception", {f"exception.{key}": text for key, text in described.items()})
            self._report(failure)

    def _report(self, failure: Failure) -> None:
        if self._instruments.report is not None:
            token = attach(self.context)
            try:
                self._instruments.report(failure)
            finally:
                detach(token)

    def _bounded(self, text: str) -> str:
        return brief(self._redact(text), LONGEST)


def _attributes(call: Call) -> dict[str, str | int]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "extension" if call.kind in ("gateway", "mcp") else "function",
        "toolwright.call.kind": call.kind,
        "toolwright.call.attempt": call.attempts,
    }


def _type_of(stack: str) -> str:
    """The type of the exception that a traceback ends with."""
    raised = cast("list[str]", _RAISED.findall(stack))  # one group
    return raised[-1] if raised else "Exception"


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else dumps(value)
