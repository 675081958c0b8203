"""Transcript of a conversation as pydantic-ai messages, in a form that all providers accept, with its files.

Provider-specific parts of an answer (thinking, signatures) are stored as JSON and replayed. Any stored value is sent as
valid JSON: lone surrogates and numbers that no provider can read are replaced here.

A provider caches the common prefix of requests. So a report of the agent's state stays where it was sent.
"""

import json
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from hashlib import blake2b
from typing import Generic, TypeVar, cast

from pydantic import ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings as NativeSettings
from pydantic_core import from_json, to_json

from toolwright.adapters.models.providers.provider import Aliases
from toolwright.adapters.models.providers.shown_files import NO_FILES, NOTHING_SHOWN, Shown, file_key
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, without_surrogates
from toolwright.core.results import AttachmentRef
from toolwright.core.schemas.provider_rules import PropertyNames
from toolwright.core.text import is_text_type, quantity
from toolwright.core.threads.message import Message, MessageCall, StateReport
from toolwright.core.threads.state_report import OWN, is_notice, quote_envelopes, report_text
from toolwright.core.value import changed

Source = TypeVar("Source")
Converted = TypeVar("Converted")
CACHED_MESSAGES = 4096
MAX_CACHED = 16_384
NOT_SHOWN = "[Not shown here, only named:"
INBOX_OPENS = "Your inbox has new messages."
"""Sent before a conversation that begins with a message of the inbox: providers need a user's message first."""
ANSWER_OPENS = "(The conversation begins with your message.)"
_NEVER_REPLAYED = {"usage", "timestamp", "run_id", "conversation_id", "metadata", "failed_attempts"}
MAX_ID = 40
_BLANKS = {"tool": "(empty result)", "user": "(empty message)"}
_PARTS = ("", "_instructions", "_messages", "_tool_definitions")
_PROVIDERS = ("anthropic", "bedrock", "openrouter")


class Recent(Generic[Source, Converted]):
    """LRU cache of the results of `make`, by identity of the source. Keeps the `size` most recently used results."""

    def __init__(self, make: Callable[[Source], Converted], size: int) -> None:
        self._make = make
        self._size = size
        self._cache: OrderedDict[int, tuple[Source, Converted]] = OrderedDict()

    def get(self, source: Source) -> Converted:
        """Return the result of `make` for this object. The object is kept alive, so its id stays unique."""
        key = id(source)
        entry = self._cache.get(key)
        if entry is not None:
            self._cache.move_to_end(key)
            return entry[1]
        converted = self._make(source)
        self.put(source, converted)
        return converted

    def has(self, source: Source) -> bool:
        """Return whether the result for this object is cached."""
        return id(source) in self._cache

    def put(self, source: Source, converted: Converted) -> None:
        """Cache a result that was created elsewhere."""
        self._cache[id(source)] = (source, converted)
        if len(self._cache) > self._size:
            self._cache.popitem(last=False)

    def forget(self, source: Source) -> None:
        """Remove this object's result, so that the next `get` creates it again."""
        self._cache.pop(id(source), None)


class Transcript:
    """Converts each message once, so that a step costs only its new messages.

    With `flags_errors` a failed tool's result has the provider's own error flag. Otherwise its text reports the error.
    Arguments are sent under the property names that the provider received: `names`, by tool.
    """

    def __init__(
        self, aliases: Aliases, names: Mapping[str, PropertyNames] | None = None, *, flags_errors: bool
    ) -> None:
        self._aliases = aliases
        self._names: Mapping[str, PropertyNames] = {} if names is None else names
        self._flags_errors = flags_errors
        self._pieces: Recent[Message, ModelRequestPart | ModelResponse] = Recent(
            self._convert, CACHED_MESSAGES
        )

    def convert(
        self,
        messages: Iterable[Message],
        files: Shown = NOTHING_SHOWN,
        plain: Set[str] = frozenset(),
        state: StateReport | None = None,
    ) -> tuple[list[ModelMessage], bool]:
        """Return the conversation, and whether it has parts in the role of the system.

        All messages between two answers form one request: tool results, messages, then the report of the agent's state.
        `files` are the files to show. All files are named. An answer without text and calls is left out. The
        messages with the ids `plain` have no files, and no reasoning.
        """
        converted: list[ModelMessage] = []
        results: list[ModelRequestPart] = []
        prompts: list[ModelRequestPart] = []
        has_system = state is not None
        for message in with_safe_ids(messages):
            if state is not None and message.state is not None and message.state.agent == state.agent:
                prompts.append(_report(message.state))
            if message.role == "assistant" and not message.calls and not message.content.strip():
                continue
            shown = files.get(message.id, NO_FILES) if message.attachments else NO_FILES
            if is_notice(message):
                prompts += _notice(message, NO_FILES if message.id in plain else shown)
                has_system = True
                continue
            if plain and message.id in plain:
                piece = self._convert(changed(message, native=None))
            elif message.attachments:
                piece = self._convert(message, shown)
            else:
                piece = self._piece(message)
            if not isinstance(piece, ModelResponse):
                (results if message.role == "tool" else prompts).append(piece)
                continue
            if results or prompts:
                converted.append(ModelRequest([*results, *prompts]))
                results, prompts = [], []
            converted.append(piece)
        if state is not None and state.parts:
            prompts.append(_report(state))
        if results or prompts:
            converted.append(ModelRequest([*results, *prompts]))
        return _beginning_with_user(converted), has_system

    def _piece(self, message: Message) -> ModelRequestPart | ModelResponse:
        """Return the converted part. Long texts are not cached."""
        if self._names and any(
            name in self._names for name in (message.tool_name, *[c.name for c in message.calls])
        ):
            return self._convert(message)
        keep = message.role == "assistant" or len(message.content) <= MAX_CACHED
        return self._pieces.get(message) if keep else self._convert(message)

    def _convert(
        self, message: Message, files: Mapping[str, bytes] = NO_FILES
    ) -> ModelRequestPart | ModelResponse:
        match message.role:
            case "tool":
                return self._result(message, files)
            case "user":
                if message.id.startswith(OWN) and (quoted := quote_envelopes(message.content)) is not None:
                    message = changed(message, content=quoted)
                return UserPromptPart(_content(message, files), timestamp=message.created_at)
            case "assistant":
                return self._answer(message)
            case "system":
                return SystemPromptPart(without_surrogates(message.content), timestamp=message.created_at)

    def _result(self, message: Message, files: Mapping[str, bytes]) -> ModelRequestPart:
        """Return a tool's result as text, with its files. Anthropic rejects an error flag together with files."""
        failed = self._flags_errors and message.status == "error" and not files
        names = self._names.get(message.tool_name or "")
        if names is not None and message.status == "error":
            message = changed(message, content=names.with_model_names(message.content))
        return ToolReturnPart(
            tool_name=self._aliases.wire(message.tool_name or "tool"),
            content=_content(message, files),
            tool_call_id=message.model_call_id or message.call_id or message.id,
            timestamp=message.created_at,
            outcome="failed" if failed else "success",
        )

    def _answer(self, message: Message) -> ModelResponse:
        if self._names and any(call.name in self._names for call in message.calls):
            calls = tuple([self._renamed(call) for call in message.calls])
            message = changed(message, calls=calls)
        replayed = None if message.native is None else _replay_native(message, self._aliases)
        if replayed is not None:
            return replayed
        parts: list[ModelResponsePart] = _text(message)
        parts += [
            ToolCallPart(self._aliases.wire(call.name), readable(call.arguments), call.model_call_id)
            for call in message.calls
        ]
        return ModelResponse(parts, timestamp=message.created_at)

    def _renamed(self, call: MessageCall) -> MessageCall:
        names = self._names.get(call.name)
        return call if names is None else changed(call, arguments=names.wire(call.arguments))


def _notice(message: Message, files: Mapping[str, bytes]) -> list[ModelRequestPart]:
    """Return a message of the inbox in the role of the system, which no caller can write, and its files."""
    content = _content(message, files)
    if isinstance(content, str):
        return [SystemPromptPart(content, timestamp=message.created_at)]
    text, *shown = content
    return [
        SystemPromptPart(cast(str, text), timestamp=message.created_at),
        UserPromptPart(shown, timestamp=message.created_at),
    ]


def _report(state: StateReport) -> ModelRequestPart:
    return SystemPromptPart(without_surrogates(report_text(state)))


def _beginning_with_user(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with a user's message before one of the system or an answer at the beginning.

    pydantic-ai would move the former into the system text, so that the prefix changed when the conversation is cut.
    Providers reject a conversation that begins with an answer, as one from elsewhere can.
    """
    first = messages[0] if messages else None
    if isinstance(first, ModelResponse):
        return [ModelRequest([UserPromptPart(ANSWER_OPENS)]), *messages]
    if isinstance(first, ModelRequest) and isinstance(first.parts[0], SystemPromptPart):
        return [ModelRequest([UserPromptPart(INBOX_OPENS), *first.parts]), *messages[1:]]
    return messages


_UNSAFE_ID = re.compile(r"[^a-zA-Z0-9_-]")


def with_safe_ids(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages with call ids that every provider accepts, each for one call only.

    An id with other characters or of more than 40, and one that an earlier answer has used, is replaced by an id made
    from ours. It stays the same from step to step.
    """
    used: set[str] = set()
    replaced: dict[str | None, str] = {}
    for message in messages:
        for call in message.calls:
            if _is_safe(call.model_call_id) and call.model_call_id not in used:
                used.add(call.model_call_id)
            else:
                digest = blake2b(call.id.encode(), digest_size=12).hexdigest()
                replaced[call.id] = f"call_{digest}"
        if not replaced:
            yield message
        elif message.role == "tool" and message.call_id in replaced:
            yield changed(message, model_call_id=replaced[message.call_id])
        elif any(call.id in replaced for call in message.calls):
            ids = [replaced.get(call.id, call.model_call_id) for call in message.calls]
            calls = [changed(call, model_call_id=new) for call, new in zip(message.calls, ids, strict=True)]
            yield changed(message, calls=tuple(calls))
        else:
            yield message


def _is_safe(model_call_id: str) -> bool:
    return 0 < len(model_call_id) <= MAX_ID and _UNSAFE_ID.search(model_call_id) is None


def text_of(message: Message) -> str:
    """Return the message's text with the names of its files; a blank one, which Anthropic rejects, is named."""
    content = without_surrogates(message.content)
    if not message.attachments:
        return content if content.strip() else _BLANKS.get(message.role, content)
    file_notes = "\n".join(f"[{_named(ref)}]" for ref in message.attachments)
    return f"{content}\n{file_notes}" if content else file_notes


def _named(ref: AttachmentRef) -> str:
    return f"File {ref.path} ({ref.mime_type}, {quantity(ref.size, 'byte')})"


def _content(message: Message, files: Mapping[str, bytes]) -> str | list[str | BinaryContent]:
    """Return the message's text, and the files that are shown. A line tells which of the others cannot be read here."""
    text = text_of(message)
    shown = [ref for ref in message.attachments if file_key(ref) in files]
    hidden = [ref.path for ref in message.attachments if ref not in shown]
    if hidden:
        text = f"{text}\n{NOT_SHOWN} {', '.join(hidden)}]"
    parts: list[str | BinaryContent] = []
    for ref in shown:
        content = files[file_key(ref)]
        if is_text_type(ref.mime_type):
            parts.append(f"[Content of {ref.path}]\n{content.decode()}")
        else:
            parts.append(BinaryContent(content, media_type=ref.mime_type))
    return [text, *parts] if parts else text


def _text(message: Message) -> list[ModelResponsePart]:
    return [TextPart(without_surrogates(message.content))] if message.content.strip() else []


_MAY_BE_UNREADABLE = re.compile(r"[eE]\+?0*[1-9]\d\d|\d{309}|NaN|Infinity|\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def readable(arguments: str) -> str:
    """Return arguments in a form that a provider can read, otherwise unchanged from the model's output.

    Numbers outside the range of a double, NaN and the infinities become their original text. Lone surrogates become
    U+FFFD. Text that is not JSON is unchanged: pydantic-ai sends it as the value of an object.
    """
    if _MAY_BE_UNREADABLE.search(arguments) is None:
        return arguments
    arguments = without_surrogates(arguments)
    try:
        value = json.loads(arguments, parse_constant=str, parse_float=_number, parse_int=_number)
    except (ValueError, RecursionError):
        return arguments
    return without_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _number(written: str) -> int | float | str:
    """Return the number, or its text if a double cannot represent it."""
    read = float(written)
    if not math.isfinite(read):
        return written
    return int(written) if written.lstrip("-").isdecimal() else read


def dump_native(response: ModelResponse) -> JSON:
    """Return the response as JSON, or None if text and calls contain all of it."""
    if all(_is_plain(part) for part in response.parts):
        return None
    # the arguments of calls are taken from the message; a provider's values can be NaN, which is not JSON
    parts = [changed(part, args=None) if isinstance(part, ToolCallPart) else part for part in response.parts]
    dumped: list[JSON] = from_json(
        ModelMessagesTypeAdapter.dump_json(
            [changed(response, parts=parts)], exclude_none=True, exclude={0: _NEVER_REPLAYED}
        )
    )
    return dumped[0]


def _replay_native(message: Message, aliases: Aliases) -> ModelResponse | None:
    """Return the provider's own form of an assistant message, or None if none matches the message.

    The journal is authoritative: ids, names, arguments and text are taken from the message.
    """
    try:
        [response] = ModelMessagesTypeAdapter.validate_json(to_json([message.native]))
    except ValidationError:  # from another adapter or another version
        return None
    if not isinstance(response, ModelResponse) or len(response.tool_calls) != len(message.calls):
        return None
    replayed = _reads_as(response.text or "", message.content)
    parts = response.parts if replayed else _retold(response, message)
    parts = [part for part in parts if not isinstance(part, TextPart) or part.content.strip()]
    return changed(response, parts=_recalled(parts, message.calls, aliases))


def _is_plain(part: ModelResponsePart) -> bool:
    if not isinstance(part, TextPart | ToolCallPart):
        return False
    return part.id is None and not part.provider_details


def _recalled(
    parts: Sequence[ModelResponsePart], calls: Sequence[MessageCall], aliases: Aliases
) -> list[ModelResponsePart]:
    remaining = iter(calls)
    return [
        _recall(part, next(remaining), aliases) if isinstance(part, ToolCallPart) else part for part in parts
    ]


def _recall(part: ModelResponsePart, call: MessageCall, aliases: Aliases) -> ModelResponsePart:
    assert isinstance(part, ToolCallPart)
    return changed(
        part,
        tool_name=aliases.wire(call.name),
        args=readable(call.arguments),
        tool_call_id=call.model_call_id,
    )


def _reads_as(text: str, content: str) -> bool:
    """Return whether the message equals the provider's text, apart from nulls required in a strict answer."""
    if text == content or not content.startswith(("{", "[")):
        return text == content
    try:
        return _omits_only_nulls(parse_json(content), parse_json(text))
    except NotJson:
        return False


def _omits_only_nulls(value: JSON, whole: JSON) -> bool:
    if isinstance(value, dict) and isinstance(whole, dict):
        return value.keys() <= whole.keys() and all(
            _omits_only_nulls(value[name], each) if name in value else each is None
            for name, each in whole.items()
        )
    if isinstance(value, list) and isinstance(whole, list):
        return len(value) == len(whole) and all(map(_omits_only_nulls, value, whole))
    return type(value) is type(whole) and value == whole


def _retold(response: ModelResponse, message: Message) -> list[ModelResponsePart]:
    """Return the parts with the message's text in place of the first text part, or before the calls."""
    parts = list(response.parts)
    place = next((i for i, part in enumerate(parts) if isinstance(part, TextPart | ToolCallPart)), len(parts))
    others: list[ModelResponsePart] = [part for part in parts[place:] if not isinstance(part, TextPart)]
    return [*parts[:place], *_text(message), *others]


_OWN_KEYS = frozenset(
    {f"{provider}_cache{part}" for provider in _PROVIDERS for part in _PARTS}
    | {"openai_prompt_cache_options", "openai_cache_instructions"}
)
"""Provider-specific cache settings, which pydantic-ai does not accept together with `cache`."""


def cache_settings(model: Model) -> NativeSettings:
    """Return the settings that mark the tools, the system text and the last message as ends of the cached prefix.

    The settings of the model object take precedence: they can disable caching or set their own marks.
    """
    own = model.settings or NativeSettings()
    is_own = "cache" in own or not _OWN_KEYS.isdisjoint(own)
    is_implicit = bool(model.profile.get("openai_supports_prompt_cache_breakpoints", False))
    if is_own or is_implicit or not _takes_marks(model):
        return NativeSettings()
    if model.system != "anthropic":
        return NativeSettings(cache=True)
    # per block, which Anthropic's gateways also accept
    marks = ("anthropic_cache_instructions", "anthropic_cache_tool_definitions", "anthropic_cache_messages")
    return cast(
        NativeSettings, dict.fromkeys(marks, True)
    )  # one provider's keys; its SDK need not be installed


def _takes_marks(model: Model) -> bool:
    """Return whether requests have cache marks. Gemini on OpenRouter caches without them and bills marks twice."""
    profile = model.profile
    return bool(profile.get("supports_cache", False)) and bool(
        profile.get("openrouter_supports_trailing_cache_control", True)
    )
