"""Native parts that only the provider understands (thinking, signatures): kept as JSON, replayed later."""

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
)
from pydantic_core import to_json

from toolwright.adapters.models.providers.provider import Aliases
from toolwright.core.json_value import JSON
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.value import changed

_NEVER_REPLAYED = {"usage", "timestamp", "run_id", "conversation_id", "metadata", "failed_attempts"}


def dump_native(response: ModelResponse) -> JSON:
    """The response as JSON, or None where text and calls say all of it."""
    if all(_is_plain(part) for part in response.parts):
        return None
    dumped: list[JSON] = ModelMessagesTypeAdapter.dump_python(
        [response], mode="json", exclude_none=True, exclude={0: _NEVER_REPLAYED}
    )
    return dumped[0]


def replay_native(message: Message, aliases: Aliases) -> ModelResponse | None:
    """The provider's own form of an assistant message; None if it has none that still fits the message.

    The journal decides what was said and called: ids, names, arguments and text are the message's.
    """
    try:
        [response] = ModelMessagesTypeAdapter.validate_json(to_json([message.native]))
    except ValidationError:  # another adapter's, or another version's
        return None
    if not isinstance(response, ModelResponse) or len(response.tool_calls) != len(message.calls):
        return None
    parts = response.parts if (response.text or "") == message.content else _retold(response, message)
    return changed(response, parts=_recalled(parts, message.calls, aliases))


def _is_plain(part: ModelResponsePart) -> bool:
    if not isinstance(part, TextPart | ToolCallPart):
        return False
    return part.id is None and not part.provider_details


def _recalled(
    parts: Sequence[ModelResponsePart], calls: Sequence[MessageCall], aliases: Aliases
) -> list[ModelResponsePart]:
    left = iter(calls)
    return [_recall(part, next(left), aliases) if isinstance(part, ToolCallPart) else part for part in parts]


def _recall(part: ModelResponsePart, call: MessageCall, aliases: Aliases) -> ModelResponsePart:
    assert isinstance(part, ToolCallPart)
    return changed(
        part,
        tool_name=aliases.wire(call.name),
        args=call.arguments,
        tool_call_id=call.model_call_id,
    )


def _retold(response: ModelResponse, message: Message) -> list[ModelResponsePart]:
    """The parts with the message's text where its first text stood, or before the calls."""
    parts = list(response.parts)
    place = next((i for i, part in enumerate(parts) if isinstance(part, TextPart | ToolCallPart)), len(parts))
    others: list[ModelResponsePart] = [part for part in parts[place:] if not isinstance(part, TextPart)]
    text: list[ModelResponsePart] = [TextPart(message.content)] if message.content else []
    return [*parts[:place], *text, *others]
