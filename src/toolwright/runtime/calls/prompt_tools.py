"""Prompts that are called as tools (S0 §4): what they are told, and what becomes of their answer."""

import json
from collections.abc import Mapping, Sequence

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
    made: list[JSON] = [
        _call_json(call, results[call.id], errors_too) for call in calls if call.id in results
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


def _call_json(call: Call, result: ToolResult, errors_too: bool) -> JSON:
    failed: JSON = {"error": result.error} if errors_too else None
    result_json = result.result if result.status == "success" else failed
    return {"name": call.name, "args": json.loads(call.arguments or "{}"), "result": result_json}


def _silent(message: Message) -> str:
    return message.content if message.role == "tool" else ""
