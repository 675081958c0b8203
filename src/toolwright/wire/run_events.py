"""Converter from wire events to the values of `tw.stream`: text deltas, calls with their results, steps."""

from collections.abc import AsyncGenerator
from typing import Protocol, cast

from toolwright.core.agents.run_result import (
    CallDone,
    CallProgress,
    CallStarted,
    CallWaiting,
    ReasoningDelta,
    RunDone,
    RunEvent,
    RunResult,
    StepDone,
    TextDelta,
    TextReset,
)
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.threads.message import SENT_BACK
from toolwright.core.threads.run import OVER, Usage, cut_reason
from toolwright.core.value import Value
from toolwright.wire.call import arguments_json
from toolwright.wire.result import reference_from_json
from toolwright.wire.run import usage_from_json

_ENDS = frozenset(f"run.{status}" for status in OVER)


class RecordedCall(Value):
    """A call with its whole result, for an event that cannot contain them. `result` is None while it is open."""

    name: str
    arguments: JSON
    result: ToolResult | None = None


class RunRecords(Protocol):
    """Source of the records that events only refer to."""

    async def call(self, call_id: str) -> RecordedCall:
        """Return the call. Raises `NotFound`."""
        ...

    async def text(self, thread_id: str, seq: int) -> str:
        """Return the text of the thread's message at that position, or an empty text."""
        ...

    async def result(self, run_id: str) -> RunResult:
        """Return the result of the run. Raises `NotFound`."""
        ...


class _StreamedText:
    """A streamed text, of which each event has the new part, and mostly the text so far."""

    def __init__(self) -> None:
        self.text = ""

    def grow(self, payload: JSONObject) -> str:
        """Return the part that is new."""
        text, delta = payload.get("text"), str(payload.get("delta", ""))
        if isinstance(text, str):  # otherwise the text is long, and the event has only the new part
            delta = text.removeprefix(self.text) if text.startswith(self.text) else delta
        self.text += delta
        return delta


class RunEvents:
    """Converts the events of one thread, or of one run, to values. Pass each event to `values`, in order.

    The texts of all `TextDelta` of an answer since its last `TextReset`, joined, are the answer: missed parts are taken
    from the complete message. An answer that broke off is yielded again from its beginning, after a `TextReset`. So is
    its reasoning, unless it is too long for the event of the message.
    """

    def __init__(self, records: RunRecords) -> None:
        self._records = records
        self._attempt = ""
        self._answer, self._reasoning = _StreamedText(), _StreamedText()  # of the attempt, as yielded
        self._arguments: dict[str, JSON] = {}  # by call id, of calls that have not started
        self._started_calls: set[str] = set()
        self._reported_approvals: set[str] = set()  # calls whose wait for an approval was yielded

    async def values(
        self, thread_id: str, run_id: str | None, type_: str, payload: JSONObject
    ) -> AsyncGenerator[RunEvent]:
        """Yield the values of one event: none for most types, several if events were missed."""
        match type_:
            case "message.delta":
                if self._begins_again(payload):
                    yield TextReset()
                if delta := self._answer.grow(payload):
                    yield TextDelta(delta)
            case "message.reasoning":
                if self._begins_again(payload):
                    yield TextReset()
                if delta := self._reasoning.grow(payload):
                    yield ReasoningDelta(delta)
            case "message":
                yielded, reasoned = self._answer.text, self._reasoning.text
                if _is_sent_back(payload):
                    if yielded or reasoned:
                        yield TextReset()
                    await self._answer_text(thread_id, payload)
                    return
                reasoning = self._whole_reasoning(payload)
                content = await self._answer_text(thread_id, payload)
                if not (content.startswith(yielded) and reasoning.startswith(reasoned)):
                    yield TextReset()
                    yielded = reasoned = ""
                if len(reasoning) > len(reasoned):
                    yield ReasoningDelta(reasoning.removeprefix(reasoned))
                if len(content) > len(yielded):
                    yield TextDelta(content.removeprefix(yielded))
            case "tool.started":
                yield await self._started(payload)
            case "tool.progress":
                yield _progress(payload)
            case "tool.done" | "tool.error":
                if payload["toolCallId"] not in self._started_calls:
                    yield await self._started(payload)
                yield await self._done(type_, payload)
            case "tool.waiting":
                yield await self._approval_needed(payload)
            case "tool.approved":
                self._arguments.pop(str(payload["toolCallId"]), None)  # they might have been edited
            case "run.waiting":
                for waiting in await self._waiting(payload):
                    yield waiting
            case "step.done":
                yield StepDone(_number(payload), _usage(payload), cut_reason(payload.get("stopReason")))
            case _ if type_ in _ENDS and run_id is not None:
                self._arguments.clear()
                self._started_calls.clear()
                self._reported_approvals.clear()
                result = await self._records.result(run_id)
                if type_ == f"run.{result.status}":  # otherwise the run was retried since this event
                    yield RunDone(result)
            case _:
                pass

    def _begins_again(self, payload: JSONObject) -> bool:
        """Return whether the event is of another attempt than what was yielded of the answer, which is void then."""
        attempt = str(payload.get("streamId")).rpartition(".")[0]
        if attempt == self._attempt:
            return False
        is_void = bool(self._answer.text or self._reasoning.text)
        self._attempt, self._answer.text, self._reasoning.text = attempt, "", ""
        return is_void

    def _whole_reasoning(self, payload: JSONObject) -> str:
        """Return the reasoning of a complete answer; if the event has no room for it, what was yielded of it."""
        message = cast("JSONObject", payload["message"])
        is_answer = message.get("role") == "assistant" and "parentCallId" not in message
        if not is_answer or "content" not in message or message.get("reasoningTruncated"):
            return self._reasoning.text
        return str(message.get("reasoning", ""))

    async def _answer_text(self, thread_id: str, payload: JSONObject) -> str:
        """Return the text of a complete answer, or for another message the text yielded so far."""
        message = cast("JSONObject", payload["message"])
        if message.get("role") != "assistant" or "parentCallId" in message:
            return self._answer.text
        for each in cast("list[JSONObject]", message.get("toolCalls", [])):
            self._arguments[str(each["id"])] = arguments_json(str(each["arguments"]))
        content, seq = message.get("content"), message.get("seq")
        if not isinstance(content, str):
            content = await self._records.text(thread_id, seq) if isinstance(seq, int) else self._answer.text
        self._answer.text = self._reasoning.text = self._attempt = ""
        return content

    async def _started(self, payload: JSONObject) -> CallStarted:
        call_id, name = str(payload["toolCallId"]), str(payload["toolName"])
        self._started_calls.add(call_id)
        if call_id in self._arguments:
            return CallStarted(call_id, name, self._arguments.pop(call_id))
        call = await self._records.call(call_id)  # a nested call, or its message was too large
        return CallStarted(call_id, call.name, call.arguments)

    async def _approval_needed(self, payload: JSONObject) -> CallWaiting:
        """Return the value for a call that waits for an approval before it starts."""
        call_id, name = str(payload["toolCallId"]), str(payload["toolName"])
        self._reported_approvals.add(call_id)
        if call_id not in self._arguments:
            call = await self._records.call(call_id)
            name, self._arguments[call_id] = call.name, call.arguments
        why = payload.get("why")
        return CallWaiting(
            call_id,
            name,
            self._arguments[call_id],
            str(payload.get("reason")),
            why=why if isinstance(why, str) else None,
        )

    async def _done(self, type_: str, payload: JSONObject) -> CallDone:
        call_id, name = str(payload["toolCallId"]), str(payload["toolName"])
        is_part = payload.get("truncated") or payload.get("resultTruncated")
        result = None if is_part else _result(type_, payload)
        if result is None:
            call = await self._records.call(call_id)
            name, result = call.name, call.result or ToolResult.fail("The result of this call was deleted.")
        return CallDone(call_id, name, result)

    async def _waiting(self, payload: JSONObject) -> list[CallWaiting]:
        waiting = payload.get("waiting")
        call_ids = waiting.get("callIds") if isinstance(waiting, dict) else None
        if not isinstance(waiting, dict) or not isinstance(call_ids, list):
            return []
        if waiting.get("reason") == "approval":  # tool.waiting has yielded it
            return []
        unreported = [str(each) for each in call_ids if each not in self._reported_approvals]
        calls = [(each, await self._records.call(each)) for each in unreported]
        reason = str(waiting.get("reason"))
        return [CallWaiting(call_id, call.name, call.arguments, reason) for call_id, call in calls]


def _progress(payload: JSONObject) -> CallProgress:
    done, total, text = payload.get("done"), payload.get("total"), payload.get("text")
    return CallProgress(
        str(payload["toolCallId"]),
        done if isinstance(done, int | float) else 0,
        total if isinstance(total, int | float) else None,
        text if isinstance(text, str) else None,
    )


def _result(type_: str, payload: JSONObject) -> ToolResult | None:
    """Return the result in the event, or None."""
    if type_ == "tool.error":
        return error_result(payload)
    if "result" not in payload:
        return None
    attachments = cast("list[JSONObject]", payload.get("attachments", []))
    files = tuple([reference_from_json(each) for each in attachments])
    return ToolResult(status="success", result=payload["result"], attachments=files)


_IDS = frozenset({"streamId", "toolCallId", "toolName", "error", "error_code"})


def error_result(payload: JSONObject) -> ToolResult:
    """Return the error result in an event, without its stack."""
    code, more = payload.get("error_code"), {name: each for name, each in payload.items() if name not in _IDS}
    return ToolResult.fail(
        str(payload.get("error", "The tool failed.")),
        error_code=code if isinstance(code, str) else None,
        error_data=more or None,
    )


def _number(payload: JSONObject) -> int:
    number = payload.get("stepNumber")
    return number if isinstance(number, int) else 0


def _usage(payload: JSONObject) -> Usage:
    usage = payload.get("usage")
    try:
        return usage_from_json(usage) if isinstance(usage, dict) else Usage()
    except ValueError:  # an event of a newer version must not end the stream
        return Usage()


def _is_sent_back(payload: JSONObject) -> bool:
    """Return whether the message is an answer that a hook has sent back, which is void."""
    message = cast("JSONObject", payload["message"])
    return str(message.get("id")).startswith(SENT_BACK) and "parentCallId" not in message
