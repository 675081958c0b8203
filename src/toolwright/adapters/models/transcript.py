"""Our messages as pydantic-ai's, in the shape that every provider accepts."""

from collections.abc import Iterable

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from toolwright.adapters.models.aliases import Aliases
from toolwright.adapters.models.native import replay_native
from toolwright.adapters.models.recent import Recent
from toolwright.core.message import Message

KEPT_MESSAGES = 4096


class Transcript:
    """Converts messages, assistant messages once each: a step then costs what it adds.

    With `flags_errors` a failed tool's result has the provider's own error flag; elsewhere its text says so.
    """

    def __init__(self, aliases: Aliases, *, flags_errors: bool) -> None:
        self._aliases = aliases
        self._flags_errors = flags_errors
        self._answers: Recent[Message, ModelResponse] = Recent(self._answer, KEPT_MESSAGES)

    def convert(self, messages: Iterable[Message]) -> list[ModelMessage]:
        """The conversation. What stands between two answers is one request, tool results first in it."""
        converted: list[ModelMessage] = []
        results: list[ModelRequestPart] = []
        prompts: list[ModelRequestPart] = []
        for message in messages:
            match message.role:
                case "tool":
                    results.append(self._result(message))
                case "user":
                    prompts.append(UserPromptPart(message.content, timestamp=message.created_at))
                case "assistant":
                    if results or prompts:
                        converted.append(ModelRequest([*results, *prompts]))
                        results, prompts = [], []
                    converted.append(self._answers.get(message))
        if results or prompts:
            converted.append(ModelRequest([*results, *prompts]))
        return converted

    def _result(self, message: Message) -> ModelRequestPart:
        """A tool's result as text; images of a result would join `content` here."""
        failed = self._flags_errors and message.status == "error"
        return ToolReturnPart(
            tool_name=self._aliases.wire(message.tool_name or "tool"),
            content=message.content,
            tool_call_id=message.model_call_id or message.call_id or message.id,
            timestamp=message.created_at,
            outcome="failed" if failed else "success",
        )

    def _answer(self, message: Message) -> ModelResponse:
        replayed = None if message.native is None else replay_native(message, self._aliases)
        if replayed is not None:
            return replayed
        parts: list[ModelResponsePart] = [TextPart(message.content)] if message.content else []
        parts += [
            ToolCallPart(self._aliases.wire(call.name), call.arguments, call.model_call_id)
            for call in message.calls
        ]
        return ModelResponse(parts, timestamp=message.created_at)
