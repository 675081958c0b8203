"""Nested calls: the conversations of prompt tools, and calls that handlers make with `invoke_tool`.

Their ids are derived from the id of the call that made them, and they are not part of the thread's conversation. A call
that is restarted after a crash finds their rows, and continues from there.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.files import FileDrafts
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef, ToolResult
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.compaction import refers
from toolwright.core.threads.message import Message
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.relations import PromptCall, SubpromptConfig
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame, as_read_by_side
from toolwright.runtime.state.state import RunState
from toolwright.wire.result import result_from_json, s3_pending
from toolwright.wire.text import readable


class Nested:
    """Reads the messages and nested calls of a call."""

    def __init__(self, store: Store, with_reader: Callable[[ActiveAgent, bool], ActiveAgent]) -> None:
        self._store = store
        self._with_reader = with_reader

    async def frame(self, context: RunContext, call: Call, prepared: PreparedCall) -> Frame | ToolResult:
        """Return the conversation within this call of a prompt tool, new or resumed.

        Return an error result if it cannot start.
        """
        tool = prepared.tool
        config = config_of(tool)
        try:
            files = await self._files(context, paths(prepared.arguments, config.init_attachments_property))
        except (InvalidRequest, NotFound) as error:
            return ToolResult.fail(error.message, error_code=error.code)
        stored_messages = await context.retry_until_available(lambda: self._store.children.within(call.id))
        nested_rows = await context.retry_until_available(lambda: self._store.children.nested(call.id))
        last = next((m for m in reversed(stored_messages) if m.role == "assistant"), None)
        call_ids = set[str]() if last is None else {each.id for each in last.calls}
        active = context.active.nested[tool.name]
        calls = [each for each in nested_rows if each.id in call_ids]
        frame = Frame.create(active, stored_messages, calls, call)
        if context.thread.compacted:
            rows = await context.retry_until_available(
                lambda: self._store.compactions(context.thread.id, call.id)
            )
            if rows:
                frame.compactions = {each.side: each for each in rows}
                frame.active = self._with_reader(active, refers(rows))
        frame.opening = opening(active, config, call, prepared.arguments, _chat(context), files)
        return frame

    async def _files(self, context: RunContext, file_paths: Sequence[str]) -> list[AttachmentRef]:
        if not file_paths:
            return []
        drafts = FileDrafts(context.files)
        return [(await drafts.get(path)).ref for path in file_paths]

    async def answer(self, context: RunContext, frame: Frame) -> ToolResult:
        """Return the result of a prompt tool's call after its model's last answer."""
        assert frame.call is not None, "only a prompt tool's conversation has an answer"
        call_id, prepared = frame.call.id, context.prepared.get(frame.call.id)
        assert prepared is not None, "the call goes on"
        nested_rows = await context.retry_until_available(lambda: self._store.children.nested(call_id))
        results = {
            each.id: result
            for each in nested_rows
            if (
                result := result_as_read(each, frame)
                if each.result is None
                else result_from_json(each.result)
            )
        }
        return prompt_result(config_of(prepared.tool), frame, nested_rows, results)

    async def next_call(
        self, context: RunContext, state: RunState, name: str, arguments: str
    ) -> tuple[str, int, Call | None]:
        """Return the id and the number of the next call that a handler makes, and its row if it already exists."""
        while True:
            state.number += 1
            call_id = f"{state.call_id}.{state.number}"
            call = await context.retry_until_available(lambda one=call_id: self._store.call(one))
            if call is None:
                return call_id, state.number, None
            if call.name == name and call.as_requested == arguments:
                return call_id, state.number, call

    async def unfinished_below(self, context: RunContext, parent: Call) -> list[Call]:
        """Return the open nested calls of a finished call, the deepest first."""
        calls: list[Call] = []
        for each in await context.retry_until_available(lambda: self._store.children.nested(parent.id)):
            if not is_over(each.status) and each.status != "pending":
                calls += [*await self.unfinished_below(context, each), each]
        return calls

    async def open_nested_calls(self, context: RunContext) -> list[Call]:
        """Return `unfinished_below` of all running calls of the step."""
        at_work = [call for call in context.root.unanswered() if call.status == "running"]
        return [each for call in at_work for each in await self.unfinished_below(context, call)]


def _chat(context: RunContext) -> list[Message]:
    """Return the messages before a prompt tool's call, as sent to the caller's model."""
    frame = context.conversation
    if frame.call is not None:
        return frame.shown(None)
    active = context.active
    if len(active.sides) < 2:
        return context.root.shown(None)
    return as_read_by_side(active.side, context.root.shown(context.side), active.agent.sides)


def config_of(tool: Tool) -> SubpromptConfig:
    """Return the configuration of a prompt that is called as a tool."""
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
    """Return the first messages of a prompt tool: the part of the chat that it includes, then its arguments."""
    past = chat_for(active, chat)
    text = message_in(arguments, config.init_user_message_property)
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
    """Return the conversation before the open step, with the messages and tool calls that the prompt includes."""
    with_text, with_tools = active.prompt.include_chat, active.prompt.include_past_tools
    if not with_text and not with_tools:
        return []
    past: list[Message] = []
    for message in _closed(chat):
        if message.role == "tool" or message.calls:
            if with_tools:
                past.append(
                    message if with_text else changed(message, content=_content_without_chat(message))
                )
            elif message.role == "assistant" and message.content and with_text:
                past.append(changed(message, calls=(), native=None))
        elif with_text:
            past.append(message)
    return past


def _closed(chat: Sequence[Message]) -> Sequence[Message]:
    """Return the messages before the first message whose calls are not all answered."""
    answered = {message.call_id for message in chat}
    for place, message in enumerate(chat):
        if any(call.id not in answered for call in message.calls):
            return chat[:place]
    return chat


def message_in(arguments: Mapping[str, JSON], property_: str | None) -> str:
    """Return the message in the arguments: the given property, `message`, or all arguments as JSON."""
    for name in (property_, "message"):
        value = None if name is None else arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if value is not None and value != "" and name == property_:
            return readable(value)
    return readable({**arguments})


def paths(arguments: Mapping[str, JSON], property_: str | None) -> list[str]:
    """Return the paths of files in the arguments: the property is a string, or a list of strings."""
    value = None if property_ is None else arguments.get(property_)
    if isinstance(value, str):
        return [value] if value else []
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def prompt_result(
    config: SubpromptConfig, frame: Frame, calls: Sequence[Call], results: Mapping[str, ToolResult]
) -> ToolResult:
    """Return the result of a prompt tool: its text, with calls and errors if there are any."""
    text = frame.messages[-1].content
    errors_too = config.include_errors
    nested: Mapping[str, ActiveAgent] = {} if frame.active is None else frame.active.nested
    tool_calls: list[JSON] = [
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
        more["toolCalls"] = tool_calls
    if errors_too:
        more["errors"] = errors
    if config.include_text_response and not more.get("toolCalls") and not more.get("errors"):
        return ToolResult.ok(text, files)
    return ToolResult.ok(more, files)


def result_as_read(call: Call, frame: Frame) -> ToolResult | None:
    """Return the result of a pending call as the prompt's model has read it: an error, or the pending notice.

    None if the model has read nothing of the call.
    """
    message = next((each for each in frame.messages if each.call_id == call.id), None)
    if message is None:
        return None
    if message.status != "error":
        return ToolResult.ok(s3_pending(call.id))
    return ToolResult.fail(_error_in(message.content))


def _error_in(text: str) -> str:
    """Return the error in a tool message, as `model_text` writes it."""
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
    """Return the result of a prompt called within a prompt, without the errors of its calls."""
    if not isinstance(result, dict):
        return result
    errors, tool_calls = result.get("errors"), result.get("toolCalls")
    error_results: list[JSON] = [{"error": each} for each in errors] if isinstance(errors, list) else []
    cleaned: JSONObject = {name: each for name, each in result.items() if name != "errors"}
    if isinstance(tool_calls, list):
        cleaned["toolCalls"] = [_call_without_errors(each, error_results, active) for each in tool_calls]
    return cleaned


def _call_without_errors(call: JSON, error_results: Sequence[JSON], active: ActiveAgent) -> JSON:
    if not isinstance(call, dict):
        return call
    result, nested = call.get("result"), active.nested.get(str(call.get("name")))
    if result in error_results:
        return {**call, "result": None}
    return call if nested is None else {**call, "result": _without_errors(result, nested)}


def _content_without_chat(message: Message) -> str:
    return message.content if message.role == "tool" else ""
