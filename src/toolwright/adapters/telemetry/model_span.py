"""The span of a model's answer."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from time import time_ns

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, set_span_in_context

from toolwright.adapters.telemetry.instruments import Instruments, suppress_errors
from toolwright.core.model import Model, ModelEvent, ModelRequest, ModelResponse, window_of
from toolwright.core.text import brief, words


class WatchedModel:
    """A model whose answers have a span each."""

    def __init__(
        self,
        model: Model,
        instruments: Instruments,
        parent: Context,
        redact: Callable[[str], str],
        compacted: bool,
    ) -> None:
        self._compacted = compacted
        self._model = model
        self._instruments = instruments
        self._parent = parent
        self._redact = redact

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._model.name

    @property
    def window(self) -> int | None:
        """The most tokens that the model takes in one request, or None."""
        return window_of(self._model)

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The model's own answer."""
        provider, _, named = self.name.partition(":")
        model, began, span = named or provider, time_ns(), INVALID_SPAN
        asked: dict[str, str | bool] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        if self._compacted:
            asked["gen_ai.conversation.compacted"] = True
        with suppress_errors():
            span = self._instruments.tracer.start_span(
                f"chat {model}", self._parent, SpanKind.CLIENT, asked, start_time=began
            )
        response: ModelResponse | None = None
        try:
            async with aclosing(self._model.respond(request)) as events:
                context = set_span_in_context(span, self._parent)
                while (event := await _next(events, context)) is not None:
                    if isinstance(event, ModelResponse):
                        response = event
                    yield event
        except Exception as error:
            self._fail(span, error)
            raise
        finally:
            if response is not None:
                span.set_attributes(_attributes(response, model))
            with suppress_errors():
                span.end()
            usage, cost = (None, None) if response is None else (response.usage, response.cost)
            seconds = (time_ns() - began) / 1e9
            self._instruments.metrics.answer(model, seconds, usage, cost, self._instruments.agent)

    def _fail(self, span: Span, error: Exception) -> None:
        message = brief(self._redact(words(error)))
        span.set_status(Status(StatusCode.ERROR, message))
        code = getattr(error, "code", None)
        span.set_attribute("error.type", code if isinstance(code, str) else type(error).__name__)
        span.add_event("exception", {"exception.type": type(error).__name__, "exception.message": message})


async def _next(events: AsyncGenerator[ModelEvent], context: Context) -> ModelEvent | None:
    """The next event, with the span current only while the model works: between two events others go on."""
    token = attach(context)
    try:
        return await anext(events, None)
    finally:
        detach(token)


def _attributes(response: ModelResponse, asked: str) -> dict[str, str | int | float | list[str]]:
    usage = response.usage
    attributes: dict[str, str | int | float | list[str]] = {
        "gen_ai.response.model": response.model.partition(":")[2] or response.model or asked,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    if response.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = [response.finish_reason]
    if response.cost is not None:
        attributes["toolwright.cost"] = response.cost
    return attributes
