"""Models of all providers, through `pydantic_ai.direct`."""

import asyncio
import random as chances
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property, partial

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings as NativeSettings
from pydantic_ai.tools import ToolDefinition as NativeTool

from toolwright.adapters.models.providers.answer import FINAL_TOOL, Reader, read_response
from toolwright.adapters.models.providers.errors import (
    PROVIDER_ERRORS,
    check_complete,
    pause_before,
    translate,
)
from toolwright.adapters.models.providers.images import Pictures
from toolwright.adapters.models.providers.provider import Aliases, provider_model
from toolwright.adapters.models.providers.schemas import (
    AnswerForm,
    answer_form,
    final_tool_form,
    is_native_beside_tools,
    leaving_schemas,
    prompted_form,
    read_answer,
    read_final,
)
from toolwright.adapters.models.providers.tools import MOST_REFUSED, ToolOffer, ToolOffers, unchanged_settings
from toolwright.adapters.models.providers.transcript import NO_PICTURES, PromptCache, Recent, Transcript
from toolwright.adapters.models.resolve import check_provider
from toolwright.core.env.logs import internal_errors, logger
from toolwright.core.errors import ModelError, ModelUnavailable
from toolwright.core.json_value import without_surrogates
from toolwright.core.model import (
    AnswerSchema,
    AttemptStarted,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    ToolDefinition,
)
from toolwright.core.schemas.provider_forms import ToolError
from toolwright.core.text import error_text

log = logger("toolwright.models")

MAX_ATTEMPTS = 3
ANTHROPIC_MAX_TOKENS = 16_384
CACHED_ANSWERS = 64
_READING = "reading the model's answer"
_OFFLINE = frozenset({"function", "test"})
"""The test models of pydantic-ai, which send no requests."""
_FLAGS_ERRORS = frozenset({"anthropic", "bedrock"})


class PydanticAIModel:
    """A model by name (`openai:gpt-5`, `anthropic:…`) or a pydantic-ai model, as our `Model` port.

    A transient error (rate limit, overload, network, interrupted stream) is retried, up to `max_attempts` attempts in
    total; `AttemptStarted` then reports that the answer starts again. A model by name imports its provider's SDK here
    and belongs to this object: `aclose` closes its connections. `sleep` and `random` are for tests.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        name: str | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = chances.random,
    ) -> None:
        self._owned = isinstance(model, str)
        self._model = leaving_schemas(provider_model(model) if isinstance(model, str) else model)
        self._name = name or (model if isinstance(model, str) else self._model.model_id)
        self._max_attempts = max_attempts
        self._sleep = sleep
        self._random = random
        self._settings = _default_settings(self._model)
        self._cache = PromptCache(self._model)
        self._sees = self._model.profile.get("supports_image_input", True)
        self._pictures = Pictures()
        self._aliases = Aliases()
        self._offers = ToolOffers(self._model, self._name, self._aliases)
        self._transcript = Transcript(
            self._aliases, self._offers.names, flags_errors=self._model.system in _FLAGS_ERRORS
        )
        self._forms: Recent[AnswerSchema, AnswerForm] = Recent(
            partial(answer_form, self._model), CACHED_ANSWERS
        )
        self._forms_beside_tools = self._forms
        if not is_native_beside_tools(self._model):
            self._forms_beside_tools = Recent(partial(final_tool_form, self._model), CACHED_ANSWERS)
        self._prompted: Recent[AnswerSchema, AnswerForm] = Recent(
            partial(prompted_form, self._model), CACHED_ANSWERS
        )

    @property
    def name(self) -> str:
        """The model's name, e.g. `openai:gpt-5`."""
        return self._name

    @cached_property
    def window(self) -> int | None:
        """Maximum tokens of a request, from the model's profile or genai-prices, or None."""
        try:
            return self._model.context_window
        except Exception as error:  # noqa: BLE001  a user's own model; a refusal of its provider tells the limit then
            log.debug("The context window of %s cannot be read: %s", self._name, error_text(error))
            return None

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the answer; the last item is the `ModelResponse`. Closing the iterator cancels the request.

        Raises:
            ModelUnavailable: every attempt failed with a transient error.
            ContextTooLong: the provider reports that the request exceeds the model's context window.
            ModelRefused: the provider rejects this request.
        """
        if self._model.system not in _OFFLINE:
            check_provider(self._name)
        number, withheld = 1, 0
        while True:
            try:
                async with aclosing(self._attempt(request)) as events:
                    async for event in events:
                        yield event
                return
            except PROVIDER_ERRORS as error:
                offer = await self._offers.get(request.tools)
                if withheld < MOST_REFUSED and self._offers.withhold(error, offer, request.tools):
                    withheld += 1
                    continue
                translated = translate(self._name, error)
                if not self._worth_another(translated, number):
                    raise translated from error
            number += 1
            await self._sleep(pause_before(number, _retry_after(translated), self._random()))
            yield AttemptStarted(number=number)

    def tool_faults(self, tools: tuple[ToolDefinition, ...]) -> Sequence[ToolError]:
        """Return which of these tools are withheld from the model and why, including tools rejected by its provider."""
        return self._offers.faults(tools)

    async def aclose(self) -> None:
        """Close the connections of a model that was created by name."""
        if self._owned:
            async with self._model:
                pass

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        with internal_errors("writing a request to the model", *PROVIDER_ERRORS):
            offer = await self._offers.get(request.tools)
            form = self._form(request)
            reader = Reader(self._aliases, None if form is None else form.tool)
            pictures = await self._pictures.load(request) if self._sees else NO_PICTURES
            messages = self._transcript.convert(request.messages, pictures)
            changing = without_surrogates(request.changing_system)
            if changing:
                messages = self._cache.with_state(messages, changing)
            defaults: NativeSettings = {**self._cache.settings(changing=bool(changing)), **self._settings}
            settings = _settings_for(request, defaults, offer)
            final = [] if form is None or form.tool is None else [form.tool.native]
            natives = [*offer.natives, *final]
            whole = unchanged_settings(offer, self._offers, final, settings)
            if whole is not None:
                settings, natives = whole, natives[:1]  # represents all of them
            parameters = self._parameters(request, form, natives)
        async with model_request_stream(
            self._model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for event in stream:
                with internal_errors(_READING):
                    events = [*reader.read(event)]
                for read in events:
                    yield read
            response = stream.get()
        check_complete(response)
        with internal_errors(_READING):
            response = await read_final(response, form)
            answer = await read_answer(read_response(response, self._aliases, offer.names), form)
        yield answer

    def _worth_another(self, error: ModelError, number: int) -> bool:
        return isinstance(error, ModelUnavailable) and number < self._max_attempts

    def _form(self, request: ModelRequest) -> AnswerForm | None:
        if request.answer is None:
            return None
        form = (self._forms_beside_tools if request.tools else self._forms).get(request.answer)
        if form.tool is None:
            return form
        is_taken = any(tool.name == FINAL_TOOL for tool in request.tools)
        return self._prompted.get(request.answer) if is_taken or request.tool_choice == "none" else form

    def _parameters(
        self, request: ModelRequest, form: AnswerForm | None, natives: list[NativeTool]
    ) -> ModelRequestParameters:
        system = without_surrogates(request.stable_system)
        instructions = [InstructionPart(content=system)] if system else []
        parameters = ModelRequestParameters(function_tools=natives, instruction_parts=instructions)
        if form is None:
            return parameters
        return replace(
            parameters,
            instruction_parts=[*instructions, *form.instructions],
            output_mode=form.mode,
            output_object=form.output,
        )


def _default_settings(model: Model) -> NativeSettings:
    """Return defaults that the model object's settings override: no retries in the SDK, and room for the answer."""
    settings = NativeSettings()
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    if model.system == "anthropic":
        settings["max_tokens"] = ANTHROPIC_MAX_TOKENS  # lowered by pydantic-ai to the model's maximum
    settings.update(model.settings or {})
    return settings


def _settings_for(request: ModelRequest, defaults: NativeSettings, offer: ToolOffer) -> NativeSettings:
    """Return the settings of one request. pydantic-ai omits unsupported ones, with a warning."""
    settings = NativeSettings() if request.settings is None else _native(request.settings)
    if offer.natives and request.tool_choice != "auto":
        settings["tool_choice"] = request.tool_choice
    if request.reasoning is not None:
        settings["thinking"] = request.reasoning
    return {**defaults, **settings} if settings else defaults


def _native(settings: ModelSettings) -> NativeSettings:
    native = NativeSettings()
    if settings.temperature is not None:
        native["temperature"] = settings.temperature
    if settings.top_p is not None:
        native["top_p"] = settings.top_p
    if settings.max_tokens is not None:
        native["max_tokens"] = settings.max_tokens
    if settings.seed is not None:
        native["seed"] = settings.seed
    if settings.stop_sequences is not None:
        native["stop_sequences"] = [*settings.stop_sequences]
    if settings.presence_penalty is not None:
        native["presence_penalty"] = settings.presence_penalty
    if settings.frequency_penalty is not None:
        native["frequency_penalty"] = settings.frequency_penalty
    return native


def _retry_after(error: ModelError) -> float | None:
    return error.retry_after if isinstance(error, ModelUnavailable) else None
