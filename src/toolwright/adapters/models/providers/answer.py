"""Answers of a provider: stream, response, the tool for structured output; and its refusals of content."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, cast

from pydantic_ai import messages
from pydantic_ai.exceptions import FallbackExceptionGroup
from pydantic_ai.messages import ModelResponse as NativeResponse
from pydantic_ai.tools import ToolDefinition as NativeTool
from pydantic_core import to_json
from typing_extensions import TypeIs

from toolwright.adapters.models.providers.provider import Aliases, translate
from toolwright.adapters.models.providers.shown_files import can_be_shown
from toolwright.adapters.models.providers.transcript import (
    NOT_SHOWN,
    dump_native,
    text_of,
    with_safe_ids,
)
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import ContextTooLong, ModelError, ModelRefused
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSONObject, dumps_unescaped
from toolwright.core.model import CallDelta, ModelCall, ModelEvent, ModelResponse, ReasoningDelta, TextDelta
from toolwright.core.schemas.provider_rules import PropertyNames
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Usage

FINAL_TOOL = "final_answer"
_DESCRIPTION = (
    "Give the final answer by calling this tool, not by text. Call it alone, after the results of all other calls: "
    "together with other calls it is ignored."
)
_ANSWER = "answer"
_MAX_TRIES = 2
_FILE_TAG = "<pyai:tool_result "  # of pydantic-ai, before a file of a result that is sent in a user's message
_MAX_PLAIN = 10_000


class FinalTool:
    """The tool whose arguments are the answer. An answer that is not an object is its only argument, `answer`."""

    def __init__(self, schema: JSONObject, strict: bool | None) -> None:
        self.is_answer = schema.get("type") == "object"
        parameters = schema if self.is_answer else _with_answer(schema)
        self.native = NativeTool(
            name=FINAL_TOOL, description=_DESCRIPTION, parameters_json_schema=parameters, strict=strict
        )

    def read(self, response: NativeResponse) -> NativeResponse:
        """Return the response with the arguments of the final call as its text, unless it also has other calls.

        The final call itself is removed: it has no result, and providers reject calls without results.
        """
        final = [part for part in response.parts if is_final(part)]
        if not final:
            return response
        others = [part for part in response.parts if not is_final(part)]
        if any(isinstance(part, messages.ToolCallPart) for part in others):
            return replace(response, parts=others)
        return replace(response, parts=[messages.TextPart(self._text(final[0]))])

    def _text(self, call: messages.ToolCallPart) -> str:
        """Return the answer as JSON text. Invalid JSON is unchanged, for the validator."""
        written = call.args if isinstance(call.args, str) else to_json(call.args or {}).decode()
        if self.is_answer:
            return written
        try:
            arguments = parse_json(written)
        except NotJson:
            return written
        if not isinstance(arguments, dict) or _ANSWER not in arguments:
            return written
        return dumps_unescaped(arguments[_ANSWER])


def is_final(part: messages.ModelResponsePart) -> TypeIs[messages.ToolCallPart]:
    """Return whether a part of an answer is a call of the final tool."""
    return isinstance(part, messages.ToolCallPart) and part.tool_name == FINAL_TOOL


def _with_answer(schema: JSONObject) -> JSONObject:
    """Return a schema with the answer as the only argument. Definitions stay at the root, so that references work."""
    answer = {key: each for key, each in schema.items() if key != "$defs"}
    whole: JSONObject = {
        "type": "object",
        "properties": {_ANSWER: answer},
        "required": [_ANSWER],
        "additionalProperties": False,
    }
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


class AnswerReader:
    """Reads the events of one answer. The text deltas add up to the response's text, as the provider wrote it.

    Arguments of a `final` tool are text deltas, unless there was text before: then only the response has them.
    """

    def __init__(self, aliases: Aliases, final: FinalTool | None = None) -> None:
        self._aliases = aliases
        self._final = final
        self._final_index: int | None = None
        self._calls: dict[int, tuple[int, str]] = {}
        self._has_text = False
        self._reasoned, self._separates = False, False

    def read(self, event: messages.ModelResponseStreamEvent) -> Iterator[ModelEvent]:
        """Convert one of the provider's events to events of this project: usually one, often none."""
        match event:
            case messages.PartStartEvent(part=messages.TextPart(content=content)):
                yield from self._text_started(content, adjacent=event.previous_part_kind == "text")
            case messages.PartStartEvent(part=messages.ThinkingPart(content=content)):
                yield from self._reasoning(content, begins=True)
            case messages.PartStartEvent(part=messages.ToolCallPart() as part):
                if self._final is not None and is_final(part):
                    yield from self._final_started(event.index, part)
                else:
                    yield from self._call_started(event.index, part)
            case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=content)) if content:
                yield TextDelta(text=content)
            case messages.PartDeltaEvent(delta=messages.ThinkingPartDelta(content_delta=content)) if content:
                yield from self._reasoning(content, begins=False)
            case messages.PartDeltaEvent(delta=messages.ToolCallPartDelta(args_delta=args)) if args:
                if event.index not in self._calls:
                    if event.index == self._final_index:
                        yield TextDelta(text=_json_text(args))
                    return
                index, name = self._calls[event.index]
                yield CallDelta(index=index, name=name, arguments=_json_text(args))
            case _:
                pass

    def _reasoning(self, content: str, *, begins: bool) -> Iterator[ModelEvent]:
        """Convert reasoning. A blank line separates its parts, as in the whole answer."""
        self._separates |= begins and self._reasoned
        if content:
            yield ReasoningDelta(text=f"\n\n{content}" if self._separates else content)
            self._reasoned, self._separates = True, False

    def _text_started(self, content: str, *, adjacent: bool) -> Iterator[ModelEvent]:
        apart = "\n\n" if self._has_text and not adjacent else ""
        self._has_text = True
        if apart or content:
            yield TextDelta(text=apart + content)

    def _final_started(self, part_index: int, part: messages.ToolCallPart) -> Iterator[ModelEvent]:
        if self._has_text or self._final is None or not self._final.is_answer:
            return
        self._has_text, self._final_index = True, part_index
        if part.args:
            yield TextDelta(text=_json_text(part.args))

    def _call_started(self, part_index: int, part: messages.ToolCallPart) -> Iterator[ModelEvent]:
        index, name = len(self._calls), self._aliases.real(part.tool_name)
        self._calls[part_index] = (index, name)
        yield CallDelta(index=index, name=name, arguments="")
        if part.args:
            yield CallDelta(index=index, name=name, arguments=_json_text(part.args))


def read_response(
    response: NativeResponse, aliases: Aliases, names: Mapping[str, PropertyNames] | None = None
) -> ModelResponse:
    """Return the whole answer. Arguments have the property names of the tools' own schemas: `names`, by tool."""
    return ModelResponse(
        text="".join([response.text or "", *refusal_deltas(response)]),
        calls=tuple(_call(part, aliases.real(part.tool_name), names or {}) for part in response.tool_calls),
        usage=Usage(
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            cache_read_tokens=response.usage.cache_read_tokens,
            cache_write_tokens=response.usage.cache_write_tokens,
        ),
        cost=_cost(response),
        finish_reason="refusal" if is_refusal(response) else response.finish_reason,
        model=response.model_name or "",
        native=dump_native(response),
        reasoning="\n\n".join(
            [
                part.content
                for part in response.parts
                if isinstance(part, messages.ThinkingPart) and part.content
            ]
        ),
    )


def is_refusal(response: NativeResponse) -> bool:
    """Return whether the model has refused to answer; pydantic-ai reports a refusal as filtered content."""
    details = response.provider_details or {}
    return "refusal" in (details.get("finish_reason"), *details)


def refusal_deltas(response: NativeResponse) -> list[str]:
    """Return what follows the answer's text if the model has refused to answer: its explanation, if it gives one."""
    explanation = (response.provider_details or {}).get("refusal")
    if not isinstance(explanation, str) or not explanation:
        return []
    return [f"\n\n{explanation}" if response.text else explanation]


def _call(part: messages.ToolCallPart, name: str, names: Mapping[str, PropertyNames]) -> ModelCall:
    arguments = _json_text(part.args) if part.args else "{}"
    if arguments.strip() == "null":  # as some servers write a call without arguments
        arguments = "{}"
    if name in names:
        arguments = names[name].real(arguments)
    return ModelCall(id=part.tool_call_id, name=name, arguments=arguments)


def _json_text(arguments: str | dict[str, object]) -> str:
    return arguments if isinstance(arguments, str) else to_json(arguments).decode()


def _cost(response: NativeResponse) -> float | None:
    """Return the cost in US dollars, or None if the price is unknown. An error of the price lookup is ignored."""
    try:
        return float(response.cost().total_price)
    except Exception:  # noqa: BLE001  genai-prices raises LookupError, ValueError, AssertionError and others
        return None


_PLACE = re.compile(r"(?:messages|input|contents)(?:\.|\[)(\d+)\]?(?:[.\[]content[.\]\[]+(\d+))?")


class PlainMessages:
    """Ids of the messages that one model is sent without pictures and reasoning, because its provider refused these."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._ids: dict[str, None] = {}

    def trial(self, messages: Sequence[Message]) -> "Trial":
        """Return the tries of one request."""
        return Trial(self._model, messages, self._ids)


class Trial:
    """The tries of one request: after a refusal of content without pictures and reasoning.

    First only the message that the provider names is sent without them, then all are.
    """

    def __init__(self, model: str, messages: Sequence[Message], known: dict[str, None]) -> None:
        self._model = model
        self._messages = messages
        self._known = known
        self._left_out: frozenset[str] = frozenset()
        self._tries = 0

    @property
    def plain(self) -> Set[str]:
        """The ids of the messages that are sent without pictures and reasoning."""
        return self._known.keys() | self._left_out if self._left_out else self._known.keys()

    async def leave_out(self, error: Exception) -> bool:
        """Leave out what the provider may have refused with this error. Returns whether to try again."""
        plain = self.plain
        rest = {message.id for message in self._messages if _has_extras(message)} - plain
        if self._tries == _MAX_TRIES or not rest or not _is_of_content(translate(self._model, error)):
            return False
        named = await named_message(error, self._messages) if self._tries == 0 else None
        self._tries += 1
        self._left_out |= {named} if named is not None and named in rest else rest
        return True

    def accepted(self) -> None:
        """Remember what was left out: it was the cause."""
        self._known.update(dict.fromkeys(self._left_out))
        while len(self._known) > _MAX_PLAIN:
            del self._known[next(iter(self._known))]


def _has_extras(message: Message) -> bool:
    return message.native is not None or any(map(can_be_shown, message.attachments))


def _is_of_content(error: ModelError) -> bool:
    return isinstance(error, ModelRefused) and error.of_content and not isinstance(error, ContextTooLong)


async def with_named_message(error: ModelError, native: Exception, messages: Sequence[Message]) -> ModelError:
    """Return the error of a refusal of content with the message that the provider names; others are unchanged."""
    if not isinstance(error, ModelRefused) or not _is_of_content(error):
        return error
    natives = native.exceptions if isinstance(native, FallbackExceptionGroup) else (native,)
    for each in natives:
        named = await named_message(each, messages) if isinstance(each, Exception) else None
        if named is not None:
            return ModelRefused(
                f"{error.message} It names the message {named!r}; `hide_message` takes it out of what is sent.",
                of_content=True,
                message_id=named,
            )
    return error


async def named_message(error: Exception, messages: Sequence[Message]) -> str | None:
    """Return the id of the message that a provider's error names by its place in the request, or None."""
    place = _PLACE.search(f"{getattr(error, 'body', '')}")
    content = _sent_body(error)
    if place is None or content is None:
        return None
    for texts in await in_thread_if_large(content, _texts_at, content, place):
        named = [message for message in with_safe_ids(messages) if _is_in(message, texts)]
        if named:
            return next((each.id for each in reversed(named) if _has_extras(each)), named[-1].id)
    return None


def _sent_body(error: BaseException) -> str | None:
    """Return the body of the refused request, which the error of a provider's library has."""
    cause: BaseException | None = error
    while cause is not None:
        content: object = getattr(getattr(cause, "request", None), "content", None)
        if isinstance(content, bytes):
            return content.decode(errors="replace")
        cause = cause.__cause__
    return None


def _texts_at(body: str, place: re.Match[str]) -> list[Set[str]]:
    """Return the texts of the named part of a message in the body, those of the part before it, and all of the message.

    The part before a file is the text of its message or, in Chat Completions, a tag with the id of its call.
    """
    try:
        request: Any = json.loads(body)
        sent = next(request[name] for name in ("messages", "input", "contents") if name in request)
        item = sent[int(place[1])]
        parts = [item]
        if place[2] is not None:
            index = int(place[2])
            parts = [item["content"][index], item["content"][:index][-1:], item]
    except (ValueError, KeyError, IndexError, TypeError, StopIteration):
        return []
    return [{*_texts(part)} for part in parts]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in cast("dict[str, object]", value).values() if isinstance(value, dict) else ():
        yield from _texts(each)
    for each in cast("list[object]", value) if isinstance(value, list) else ():
        yield from _texts(each)


def _is_in(message: Message, texts: Set[str]) -> bool:
    """Return whether the texts are of this message: the ids of its calls, or its text."""
    if message.role == "tool":
        tag = f'tool_call_id="{message.model_call_id}"'
        return message.model_call_id in texts or any(
            tag in each for each in texts if each.startswith(_FILE_TAG)
        )
    if any(call.model_call_id in texts for call in message.calls):
        return True
    text = text_of(message)
    with_note = f"{text}\n{NOT_SHOWN}"
    is_one = text in texts or (
        bool(message.attachments) and any(each.startswith(with_note) for each in texts)
    )
    return bool(message.content.strip()) and is_one
