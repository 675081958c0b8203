"""Runs and what they wait for as JSON on the wire (API §3)."""

import math
from collections.abc import Sequence
from datetime import datetime

from toolwright.core.env.variable import Variable
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Step, Usage
from toolwright.core.threads.thread import Thread


def usage_json(usage: Usage) -> JSONObject:
    """Tokens read and written."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    }


def usage_from_json(shown: JSONObject) -> Usage:
    """The usage that `usage_json` shows; raises `ValueError` for anything else."""
    try:
        return Usage(
            input_tokens=_count(shown["inputTokens"]),
            output_tokens=_count(shown["outputTokens"]),
            cache_read_tokens=_count(shown["cacheReadTokens"]),
            cache_write_tokens=_count(shown["cacheWriteTokens"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError("this is no usage of tokens") from error


def run_json(run: Run) -> JSONObject:
    """A run without its steps."""
    shown: JSONObject = {
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
        "startedAt": _instant(run.started_at),
        "completedAt": _instant(run.completed_at),
    }
    if run.waiting is not None:
        shown["waiting"] = run.waiting
    return shown


def run_status_json(run: Run) -> JSONObject:
    """What somebody sees of a run that is not in a thread of theirs (D24)."""
    return {
        "id": run.id,
        "status": run.status,
        "agentId": run.agent,
        "startedAt": _instant(run.started_at),
        "completedAt": _instant(run.completed_at),
    }


def run_with_steps(run: Run, steps: Sequence[Step], messages: Sequence[Message]) -> JSONObject:
    """A run with its steps, each with what was said in it."""
    by_number: dict[int, list[Message]] = {}
    for message in messages:
        by_number.setdefault(message.step, []).append(message)
    numbered = {step.number: step for step in steps}
    shown: list[JSON] = [
        _step_json(number, numbered.get(number), by_number.get(number, []))
        for number in sorted({*by_number, *numbered})
    ]
    whole: JSONObject = {**run_json(run), "steps": shown}
    return whole


def _step_json(number: int, step: Step | None, messages: list[Message]) -> JSON:
    return {
        "stepNumber": number,
        "modelId": step.model if step else None,
        "usage": usage_json(step.usage) if step else None,
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
            "toolInput": call.arguments,
            "createdAt": at,
        }
        for call in message.calls
    )
    return entries


def thread_json(thread: Thread) -> JSONObject:
    """A thread; `status` is `running` while a run is open in it, and `terminated` once none can be any more.

    `activeAgentId` is the agent that answers since it was handed over, null while that is its own.
    """
    return {
        "id": thread.id,
        "agentId": thread.agent,
        "activeAgentId": thread.active_agent,
        "parentThreadId": thread.parent_id,
        "name": thread.name,
        "userId": thread.user_id,
        "tags": list(thread.tags),
        "status": thread.status,
        "createdAt": thread.created_at.isoformat(),
    }


def child_json(thread: Thread) -> JSONObject:
    """A thread as its parent knows it."""
    return {**thread_json(thread), "reference": thread.id, "childStatus": thread.child_status}


def _count(shown: JSON) -> int:
    if type(shown) is not int:
        raise TypeError("a count is a whole number")
    return shown


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def required_json(variables: Sequence[Variable]) -> list[JSON]:
    """`[{name, type, description}]`."""
    return [{"name": each.name, "type": each.type, "description": each.description} for each in variables]
