"""Prompts that are called as tools (S0 §4): what they are told, and what becomes of their answer."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.tools.relations import PromptCall, SubpromptConfig
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.context.frame import Frame
from toolwright.wire.result import s3_pending
from toolwright.wire.text import readable


def config_of(tool: Tool) -> SubpromptConfig:
    """The configuration of a prompt that is called as a tool."""
    assert isinstance(tool.relation, PromptCall), "a tool of the kind `prompt` calls a prompt"
    return tool.relation.config


def opening(
    active: ActiveAgent,
    config: SubpromptConfig,
    call: Call,
    arguments: JSONObject,
    chat: Sequence[Message],
    files: Sequence[AttachmentRef],
) -> tuple[Message, ...]:
    """The first messages of a prompt tool: of the chat what it asks for, then its arguments as the user's message."""
    past = chat_for(active, chat)
    text = spoken(arguments, config.init_user_message_property)
    message = Message(
        id=f"msg_{call.id}",
        role="user",
        content=text,
        run_id=call.run_id,
        step=call.step,
        attachments=tuple(files),
        created_at=call.created_at,
    )
    return (*past, message)


def chat_for(active: ActiveAgent, chat: Sequence[Message]) -> list[Message]:
    """The conversation before the step that is open, with its words, with its calls, with both or neither."""
    words, tools = active.prompt.include_chat, active.prompt.include_past_tools
    if not words and not tools:
        return []
    past: list[Message] = []
    for message in _closed(chat):
        if message.role == "tool" or message.calls:
            if tools:
                past.append(message if words else changed(message, content=_silent(message)))
            elif message.role == "assistant" and message.content and words:
                past.append(changed(message, calls=(), native=None))
        elif words:
            past.append(message)
    return past


def _closed(chat: Sequence[Message]) -> Sequence[Message]:
    """The messages before the first whose calls are not all answered."""
    answered = {message.call_id for message in chat}
    for place, message in enumerate(chat):
        if any(call.id not in answered for call in message.calls):
            return chat[:place]
    return chat


def spoken(arguments: Mapping[str, JSON], property_: str | None) -> str:
    """The message within arguments: the property that is one, `message`, or all of them as JSON."""
    for name in (property_, "message"):
        value = None if name is None else arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if value is not None and value != "" and name == property_:
            return readable(value)
    return readable({**arguments})


def paths(arguments: Mapping[str, JSON], property_: str | None) -> list[str]:
    """The paths of files within arguments: one text, or a list of texts."""
    value = None if property_ is None else arguments.get(property_)
    if isinstance(value, str):
        return [value] if value else []
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def answer_of(
    config: SubpromptConfig, frame: Frame, calls: Sequence[Call], results: Mapping[str, ToolResult]
) -> ToolResult:
    """The result for the caller of a prompt: its text, with its calls and their errors where there are any."""
    text = frame.messages[-1].content
    errors_too = config.include_errors
    nested: Mapping[str, ActiveAgent] = {} if frame.active is None else frame.active.nested
    made: list[JSON] = [
        _call_json(call, results[call.id], errors_too, nested) for call in calls if call.id in results
    ]
    errors: list[JSON] = [
        results[call.id].error for call in calls if call.id in results and results[call.id].error
    ]
    files = tuple([each for call in calls if call.id in results for each in results[call.id].attachments])
    more: JSONObject = {}
    if config.include_text_response:
        more["text"] = text
    if config.include_tool_calls:
        more["toolCalls"] = made
    if errors_too:
        more["errors"] = errors
    if config.include_text_response and not more.get("toolCalls") and not more.get("errors"):
        return ToolResult.ok(text, files)
    return ToolResult.ok(more, files)


def as_heard(call: Call, frame: Frame) -> ToolResult | None:
    """Return the result of a pending call as the prompt's model has read it: an error, or that it is pending.

    None if the model has read nothing of the call.
    """
    message = next((each for each in frame.messages if each.call_id == call.id), None)
    if message is None:
        return None
    if message.status != "error":
        return ToolResult.ok(s3_pending(call.id))
    return ToolResult.fail(_error_in(message.content))


def _error_in(text: str) -> str:
    """The error in a tool message, as `model_text` writes it."""
    try:
        written: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    error = cast("Mapping[str, object]", written).get("error") if isinstance(written, Mapping) else None
    return error if isinstance(error, str) else text


def _call_json(call: Call, result: ToolResult, errors_too: bool, nested: Mapping[str, ActiveAgent]) -> JSON:
    failed: JSON = {"error": result.error} if errors_too else None
    result_json = result.result if result.status == "success" else failed
    if not errors_too and call.name in nested:
        result_json = _without_errors(result_json, nested[call.name])
    return {"name": call.name, "args": json.loads(call.arguments or "{}"), "result": result_json}


def _without_errors(result: JSON, active: ActiveAgent) -> JSON:
    """The result of a prompt that is called within a prompt, without the errors of its calls."""
    if not isinstance(result, dict):
        return result
    errors, made = result.get("errors"), result.get("toolCalls")
    told: list[JSON] = [{"error": each} for each in errors] if isinstance(errors, list) else []
    kept: JSONObject = {name: each for name, each in result.items() if name != "errors"}
    if isinstance(made, list):
        kept["toolCalls"] = [_call_without_errors(each, told, active) for each in made]
    return kept


def _call_without_errors(call: JSON, told: Sequence[JSON], active: ActiveAgent) -> JSON:
    if not isinstance(call, dict):
        return call
    result, below = call.get("result"), active.nested.get(str(call.get("name")))
    if result in told:
        return {**call, "result": None}
    return call if below is None else {**call, "result": _without_errors(result, below)}


def _silent(message: Message) -> str:
    return message.content if message.role == "tool" else ""
