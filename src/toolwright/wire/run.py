"""Runs and their steps on the wire: shapes and JSON (API §3)."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import PlainValidator

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.compaction import SentPrompt as SentPromptRow
from toolwright.core.threads.message import Message, Sent
from toolwright.core.threads.run import OVER, CutReason, RunStatus, Side, StopReason
from toolwright.core.threads.run import Run as RunRow
from toolwright.core.threads.run import Step as StepRow
from toolwright.core.threads.run import Usage as UsageRow
from toolwright.core.threads.state_report import is_report
from toolwright.wire.call import arguments_json
from toolwright.wire.message import Message as MessageShape
from toolwright.wire.shape import (
    Absent,
    Json,
    JsonObject,
    Shape,
    documented_as,
    timestamp,
    wire_name,
)
from toolwright.wire.thread import Compaction, compaction_json

PARTS = ("system", "changing", "tools", "summary", "messages", "results")


class Usage(Shape, title="UsageShape"):
    """Tokens read and written."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


def usage_json(usage: UsageRow) -> JSONObject:
    """Render numbers of tokens read and written."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    }


def usage_from_json(usage: JSONObject) -> UsageRow:
    """Parse the output of `usage_json`. Raises `ValueError` for anything else."""
    try:
        return UsageRow(
            input_tokens=_count(usage["inputTokens"]),
            output_tokens=_count(usage["outputTokens"]),
            cache_read_tokens=_count(usage["cacheReadTokens"]),
            cache_write_tokens=_count(usage["cacheWriteTokens"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError("this is not a usage of tokens") from error


_Usage = Annotated[UsageRow, PlainValidator(usage_from_json), documented_as(Usage)]


class PromptContext(Shape):
    """Record of a request to a model.

    `compaction` is the number of the compaction in force, or 0. `version` is the version of the compaction rules.
    `tokens` is our estimate, `counted` the provider's count, `budget` the maximum of the request. `hash` is the hash of
    its messages.
    """

    hash: str
    compaction: int
    version: int
    tokens: int | None = None
    counted: int | None = None
    budget: int | None = None


def context_json(sent: Sent) -> JSONObject:
    """Render `{hash, compaction, version, tokens, counted, budget}`."""
    return {
        "hash": sent.hash,
        "compaction": sent.compaction,
        "version": sent.version,
        "tokens": sent.tokens,
        "counted": sent.counted,
        "budget": sent.budget,
    }


class PromptTool(Shape):
    """A tool, as it was offered to the model."""

    name: str
    description: str
    parameters: JsonObject


class PromptParts(Shape):
    """Estimated tokens of a request, by part."""

    system: int = 0
    changing: int = 0
    tools: int = 0
    summary: int = 0
    messages: int = 0
    results: int = 0


class StepEntry(Shape):
    """A message of a step, or one call of an answer.

    `arguments` are a call's arguments. If they are not a JSON object, they are empty and `text` is the model's text.
    `status` is the status of a call's result.
    """

    type: Annotated[
        Literal[
            "system_message", "user_message", "assistant_message", "tool_call_message", "tool_return_message"
        ],
        wire_name("messageType"),
    ]
    content: str
    tool_name: Absent[str] = None
    call_id: Annotated[Absent[str], wire_name("toolCallId")] = None
    arguments: Annotated[Absent[JsonObject], wire_name("toolInput")] = None
    text: Annotated[Absent[str], wire_name("toolInputText")] = None
    status: Annotated[Absent[Literal["success", "error"]], wire_name("toolStatus")] = None
    created_at: datetime


class Step(Shape, title="StepShape"):
    """One model call and its tool calls.

    `number` counts 1, 2, 3 … within the run. `stop_reason` is present if the answer is not whole. `context` is the
    record of the request, absent for steps of versions without such records.
    """

    number: Annotated[int, wire_name("stepNumber")]
    model: Annotated[str | None, wire_name("modelId")] = None
    usage: _Usage | None = None
    stop_reason: Absent[CutReason] = None
    context: Absent[PromptContext] = None
    messages: tuple[StepEntry, ...] = ()


class ListedRun(Shape, title="RunShape"):
    """A run. `waiting` is present while it is suspended, with the reason.

    A person who does not own the run's thread gets only the fields of `RunProgress`.
    """

    id: str
    agent: Annotated[str, wire_name("agentId")]
    thread_id: Annotated[str | None, documented_as(str)] = None
    status: RunStatus
    stop_reason: StopReason | None = None
    error: str | None = None
    error_code: Annotated[Absent[str], wire_name("error_code")] = None
    output: Json = None
    chain_depth: int = 0
    usage: _Usage = UsageRow()
    cost: float | None = None
    created_at: Annotated[datetime | None, documented_as(datetime)] = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    waiting: Absent[JsonObject] = None

    @property
    def over(self) -> bool:
        """Return whether the run has finished."""
        return self.status in OVER


class Run(ListedRun, title="RunWithSteps"):
    """A run with its steps, which lists of runs do not include."""

    steps: tuple[Step, ...] = ()


class RunProgress(Shape, title="RunStatusShape"):
    """Status of a run that a person's message caused in a thread of someone else."""

    id: str
    status: RunStatus
    agent: Annotated[str, wire_name("agentId")]
    started_at: datetime | None
    completed_at: datetime | None


def run_json(run: RunRow) -> JSONObject:
    """Render a run without its steps."""
    fields: JSONObject = {
        "id": run.id,
        "agentId": run.agent,
        "threadId": run.thread_id,
        "status": run.status,
        "stopReason": run.stop_reason,
        "error": run.error,
        "output": run.output,
        "chainDepth": run.chain_depth,
        "usage": usage_json(run.usage),
        "cost": run.cost if run.cost is None or math.isfinite(run.cost) else None,
        "createdAt": run.created_at.isoformat(),
        "startedAt": timestamp(run.started_at),
        "completedAt": timestamp(run.completed_at),
    }
    if run.error_code is not None:
        fields["error_code"] = run.error_code
    if run.waiting is not None and run.status != "running":
        fields["waiting"] = run.waiting
    return fields


def run_status_json(run: RunRow) -> JSONObject:
    """Render the status of a run for a person who does not own its thread (D24)."""
    return {
        "id": run.id,
        "status": run.status,
        "agentId": run.agent,
        "startedAt": timestamp(run.started_at),
        "completedAt": timestamp(run.completed_at),
    }


def run_with_steps(run: RunRow, steps: Sequence[StepRow], messages: Sequence[Message]) -> JSONObject:
    """Render a run with its steps and their messages."""
    by_number: dict[int, list[Message]] = {}
    for message in messages:
        by_number.setdefault(message.step, []).append(message)
    numbered = {step.number: step for step in steps}
    step_entries: list[JSON] = [
        _step_json(number, numbered.get(number), by_number.get(number, []))
        for number in sorted({*by_number, *numbered})
    ]
    fields: JSONObject = {**run_json(run), "steps": step_entries}
    return fields


def _step_json(number: int, step: StepRow | None, messages: list[Message]) -> JSON:
    sent = next(
        (each.sent for each in reversed(messages) if each.within is None and each.sent is not None), None
    )
    return {
        "stepNumber": number,
        "modelId": step.model if step else None,
        "usage": usage_json(step.usage) if step else None,
        **({} if step is None or step.cut is None else {"stopReason": step.cut}),
        **({} if sent is None else {"context": context_json(sent)}),
        "messages": [entry for message in messages for entry in _entries(message)],
    }


def _entries(message: Message) -> list[JSON]:
    at = message.created_at.isoformat()
    if message.role == "user":
        return [{"messageType": "user_message", "content": message.content, "createdAt": at}]
    if message.role == "tool":
        return [
            {
                "messageType": "tool_return_message",
                "content": message.content,
                "toolName": message.tool_name,
                "toolCallId": message.call_id,
                "toolStatus": message.status,
                "createdAt": at,
            }
        ]
    entries: list[JSON] = []
    if message.content:
        entries.append({"messageType": "assistant_message", "content": message.content, "createdAt": at})
    entries.extend(
        {
            "messageType": "tool_call_message",
            "content": "",
            "toolName": call.name,
            "toolCallId": call.id,
            **_input(call.arguments),
            "createdAt": at,
        }
        for call in message.calls
    )
    return entries


def _input(text: str) -> JSONObject:
    """Return a call's arguments as an object, or an empty object and their text if they are not an object."""
    arguments = arguments_json(text)
    return (
        {"toolInput": arguments} if isinstance(arguments, dict) else {"toolInput": {}, "toolInputText": text}
    )


def _count(value: JSON) -> int:
    if type(value) is not int:
        raise TypeError("a count must be a whole number")
    return value


class SentPrompt(Shape, title="SentPromptShape"):
    """The request that a model answered with the message `message_id`.

    A step recorded by a version without such records has no `context` and no contents. `exact` is true if `messages`
    match the hash of the sent messages. `changing` is the report of the agent's state at the end of the request. The
    system text, the tools and these reports are only shown to services; for a person they are null, or left out.
    """

    step: Annotated[int, wire_name("stepNumber")]
    message_id: str | None = None
    within: Annotated[Absent[str], wire_name("parentCallId")] = None
    prompt: Absent[str] = None
    side: Absent[Side] = None
    exact: bool = False
    context: PromptContext | None = None
    parts: PromptParts = PromptParts()
    compaction: Compaction | None = None
    system: str | None = None
    changing: str | None = None
    tools: tuple[PromptTool, ...] | None = None
    messages: tuple[MessageShape, ...] = ()
    created_at: datetime


def sent_prompt_json(
    prompt: SentPromptRow, message: Callable[[Message], JSONObject], *, include_contents: bool = True
) -> JSONObject:
    """Render a sent prompt, with each message rendered by `message`.

    The system text, the tools and the reports of the agent's state are only included with `include_contents`.
    """
    fields: JSONObject = {"stepNumber": prompt.step, "messageId": prompt.message_id}
    if prompt.within is not None:
        fields["parentCallId"] = prompt.within
    if prompt.by is not None:
        fields["prompt"] = prompt.by
    if prompt.side is not None:
        fields["side"] = prompt.side
    is_included = include_contents and prompt.sent is not None
    shown = [each for each in prompt.messages if is_included or not is_report(each)]
    messages: list[JSON] = [message(each) for each in shown]
    return {
        **fields,
        "exact": prompt.exact,
        "context": None if prompt.sent is None else context_json(prompt.sent),
        "parts": {name: prompt.parts.get(name, 0) for name in PARTS},
        "compaction": None if prompt.compaction is None else compaction_json(prompt.compaction),
        "system": prompt.system if is_included else None,
        "changing": prompt.changing if is_included else None,
        "tools": [*prompt.tools] if is_included else None,
        "messages": messages,
        "createdAt": prompt.created_at.isoformat(),
    }
