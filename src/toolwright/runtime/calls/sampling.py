"""Sampling: a handler sends a request to its agent's model outside the conversation."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolwright.core.errors import ModelError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelRequest, ModelSettings
from toolwright.core.results import ToolResult
from toolwright.core.state.state import Sampled, sampling
from toolwright.core.threads.message import Message, Role
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.model.ask import ModelAnswers
from toolwright.runtime.state.state import RunState


class Sampling:
    """The handler of calls that send a request to the agent's model."""

    def __init__(self, model_answers: ModelAnswers) -> None:
        self._model_answers = model_answers

    async def answer(self, state: RunState, arguments: Mapping[str, JSON]) -> ToolResult:
        """Return the model's answer: its text, the model's name, and why it is not whole. Raises `ModelError`."""
        context = state.run_context
        response = await self._model_answers.sample(context, _request(context, arguments))
        if response is None:
            return ToolResult.fail("The run was cancelled.", error_code="cancelled")
        state.execution.count(response.usage, response.cost)
        state.is_builtin = True
        answer: JSONObject = {"text": response.text, "model": response.model}
        return ToolResult.ok(answer if response.cut is None else {**answer, "stopReason": response.cut})

    async def for_hook(
        self,
        context: RunContext,
        messages: Sequence[tuple[str, str]] | str,
        model: object,
        system: str | None,
        max_tokens: int | None,
    ) -> Sampled:
        """Answer `HookEvent.sample`. The run pays for the answer with its next unit."""
        request = _request(context, sampling(messages, system, max_tokens, None, None))
        response = await self._model_answers.ask_beside(context, request, model)
        if response is None:
            raise ModelError("The run was cancelled.")
        context.unpaid.append(response)
        return Sampled(text=response.text, model=response.model, stop_reason=response.cut)


def _request(context: RunContext, arguments: Mapping[str, JSON]) -> ModelRequest:
    active = context.active
    messages = [
        Message(
            id=context.new_id("msg"),
            role=cast("Role", message["role"]),
            content=str(message["content"]),
            run_id=context.run.id,
            step=context.run.step_count,
            created_at=context.clock.now(),
        )
        for message in cast("list[JSONObject]", arguments["messages"])
    ]
    request: Mapping[str, Any] = arguments  # built by `core/state/state.py`
    return ModelRequest(
        messages=tuple(messages),
        system=str(request.get("system") or ""),
        step=max(context.run.step_count, 1),
        who=active.who,
        settings=ModelSettings(max_tokens=request.get("maxTokens"), temperature=request.get("temperature")),
    )
