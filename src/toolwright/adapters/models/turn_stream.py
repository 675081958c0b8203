"""The stream of a turn that was written down: its deltas, its fault or its response."""

from collections.abc import AsyncGenerator, Awaitable, Callable

from toolwright.adapters.models.script import Turn
from toolwright.core.errors import ContextTooLong, ModelRefused, ModelUnavailable
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.run import Usage

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 20


async def stream_turn(
    turn: Turn,
    request: ModelRequest,
    model: str,
    sleep: Callable[[float], Awaitable[object]],
    new_id: Callable[[], str],
) -> AsyncGenerator[ModelEvent]:
    """Say the turn as the answer of the model of that name.

    Raises:
        ContextTooLong, ModelRefused, ModelUnavailable: the turn says so.
    """
    for delta in turn.deltas:
        if turn.form.delay:
            await sleep(turn.form.delay)
        yield delta
    match turn.form.fail:
        case "unavailable":
            raise ModelUnavailable(turn.form.message)
        case "refused":
            raise ModelRefused(turn.form.message)
        case "too_long":
            raise ContextTooLong(turn.form.message)
        case None:
            pass
    yield _response(turn, request, model, new_id)


def _response(turn: Turn, request: ModelRequest, model: str, new_id: Callable[[], str]) -> ModelResponse:
    last = request.messages[-1].content if request.messages else ""
    read = (len(request.system) + len(last)) // _CHARACTERS_PER_TOKEN
    answer = new_id() if turn.calls else ""
    return ModelResponse(
        text=turn.text,
        calls=tuple(
            ModelCall(id=f"call_{answer}_{index}", name=call.name, arguments=call.arguments)
            for index, call in enumerate(turn.calls)
        ),
        usage=turn.usage
        or Usage(
            input_tokens=read + _TOKENS_PER_MESSAGE * len(request.messages),
            output_tokens=turn.output_tokens,
        ),
        finish_reason="tool_call" if turn.calls else "stop",
        model=model,
    )
