"""Runs and their steps on the wire: shapes and JSON (API §3)."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import PlainValidator

from toolwright.core.hooks import HookVerdict
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.compaction import SentPrompt as SentPromptRow
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import OVER, CutReason, RunStatus, Side, StopReason
from toolwright.core.threads.run import Run as RunRow
from toolwright.core.threads.run import Step as StepRow
from toolwright.core.threads.run import Usage as UsageRow
from toolwright.core.threads.state_report import is_report
from toolwright.core.value import changed
from toolwright.wire.call import arguments_json
from toolwright.wire.decision import Decision, decisions_fields
from toolwright.wire.message import Message as MessageShape
from toolwright.wire.rendering import ABSENT, COMPUTED, Absent, From, WrittenBy
from toolwright.wire.shape import Json, JsonObject, Shape, documented_as, wire_name
from toolwright.wire.thread import Compaction

PARTS = ("system", "changing", "tools", "summary", "messages", "results")


class Usage(Shape, title="UsageShape"):
    """Tokens read and written."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


def usage_from_json(usage: JSONObject) -> UsageRow:
    """Parse the JSON of `Usage`. Raises `ValueError` for anything else."""
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
    `tokens` is our estimate, `counted` the provider's count, `budget` the maximum of the request.
    """

    compaction: int
    version: int
    tokens: int | None = None
    counted: int | None = None
    budget: int | None = None


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


def _finite(cost: float | None) -> float | None:
    return cost if cost is None or math.isfinite(cost) else None


def _waiting(run: RunRow) -> JSONObject | None:
    return None if run.status == "running" else run.waiting


class ListedRun(Shape, title="RunShape"):
    """A run. `waiting` is present while it is suspended, with the reason.

    `decision` is who has cancelled or retried it; `decisions` are all of them if there are several, oldest first.

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
    cost: Annotated[float | None, WrittenBy(_finite)] = None
    created_at: Annotated[datetime | None, documented_as(datetime)] = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    waiting: Annotated[Absent[JsonObject], From(_waiting)] = None
    decision: Annotated[Absent[Decision], COMPUTED] = None
    decisions: Annotated[tuple[Decision, ...], ABSENT, COMPUTED] = ()

    @classmethod
    def of(cls, row: RunRow, **given: Any) -> JSONObject:
        """Render a run."""
        return super().of(row, **given) | decisions_fields(row.decisions)

    @property
    def over(self) -> bool:
        """Return whether the run has finished."""
        return self.status in OVER


class Verdict(Shape, title="VerdictShape"):
    """A verdict of a hook, as recorded. `details` names what a request was changed in."""

    hook: str
    point: str
    ruling: Annotated[str, wire_name("verdict")]
    reason: Absent[str] = None
    call_id: Annotated[Absent[str], wire_name("toolCallId")] = None
    step: Annotated[int, wire_name("stepNumber")]
    details: Absent[JsonObject] = None
    created_at: datetime


class Run(ListedRun, title="RunWithSteps"):
    """A run with its steps, which lists of runs do not include.

    `deps` are the values that the caller passed to its tools. They are only shown to services, if the run has any.
    `verdicts` of hooks are absent if there are none.
    """

    deps: Absent[JsonObject] = None
    steps: tuple[Step, ...] = ()
    verdicts: Absent[tuple[Verdict, ...]] = None


class RunProgress(Shape, title="RunStatusShape"):
    """Status of a run that a person's message caused in a thread of someone else."""

    id: str
    status: RunStatus
    agent: Annotated[str, wire_name("agentId")]
    started_at: datetime | None
    completed_at: datetime | None


def run_with_steps(
    run: RunRow,
    steps: Sequence[StepRow],
    messages: Sequence[Message],
    verdicts: Sequence[HookVerdict] = (),
    *,
    for_service: bool = False,
) -> JSONObject:
    """Render a run with its steps and their messages, and the verdicts of its hooks.

    Only `for_service` it has `deps`, and the verdicts their details.
    """
    by_number: dict[int, list[Message]] = {}
    for message in messages:
        by_number.setdefault(message.step, []).append(message)
    numbered = {step.number: step for step in steps}
    step_entries: list[JSON] = [
        _step_json(number, numbered.get(number), by_number.get(number, []))
        for number in sorted({*by_number, *numbered})
    ]
    deps: JSONObject = {"deps": run.deps} if for_service and run.deps is not None else {}
    fields: JSONObject = {**ListedRun.of(run), **deps, "steps": step_entries}
    if verdicts:
        shown = verdicts if for_service else [changed(each, details=None) for each in verdicts]
        fields["verdicts"] = [Verdict.of(each) for each in shown]
    return fields


def _step_json(number: int, step: StepRow | None, messages: list[Message]) -> JSON:
    sent = next(
        (each.sent for each in reversed(messages) if each.within is None and each.sent is not None), None
    )
    return {
        "stepNumber": number,
        "modelId": step.model if step else None,
        "usage": Usage.of(step.usage) if step else None,
        **({} if step is None or step.cut is None else {"stopReason": step.cut}),
        **({} if sent is None else {"context": PromptContext.of(sent)}),
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


def _all_parts(parts: Mapping[str, int]) -> JSON:
    return {name: parts.get(name, 0) for name in PARTS}


def _tools(tools: Sequence[JSON] | None) -> JSON:
    return None if tools is None else [*tools]


class SentPrompt(Shape, title="SentPromptShape"):
    """The request that a model answered with the message `message_id`.

    A step recorded by a version without such records has no `context` and no contents. `messages` are rebuilt by the
    rules of the agent's present configuration. `changing` is the report of the agent's state at the end of the request.
    The system text, the tools and these reports are only shown to services; for a person they are null, or left out.
    """

    step: Annotated[int, wire_name("stepNumber")]
    message_id: str | None = None
    within: Annotated[Absent[str], wire_name("parentCallId")] = None
    prompt: Annotated[Absent[str], From("by")] = None
    side: Absent[Side] = None
    context: Annotated[PromptContext | None, From("sent")] = None
    parts: Annotated[PromptParts, WrittenBy(_all_parts)] = PromptParts()
    compaction: Compaction | None = None
    system: str | None = None
    changing: str | None = None
    tools: Annotated[tuple[PromptTool, ...] | None, WrittenBy(_tools)] = None
    messages: tuple[MessageShape, ...] = ()
    created_at: datetime


def shown_prompt(
    prompt: SentPromptRow, message: Callable[[Message], Message], *, include_contents: bool = True
) -> SentPromptRow:
    """Return a sent prompt as shown to a reader, with each message as returned by `message`.

    The system text, the tools and the reports of the agent's state are only included with `include_contents`.
    """
    is_included = include_contents and prompt.sent is not None
    shown = tuple([message(each) for each in prompt.messages if is_included or not is_report(each)])
    if is_included:
        return changed(prompt, messages=shown)
    return changed(prompt, messages=shown, system=None, changing=None, tools=None)
