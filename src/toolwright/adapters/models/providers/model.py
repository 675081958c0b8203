"""Every provider's models, through `pydantic_ai.direct`."""

import asyncio
import random as chances
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence, Set
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from logging import INFO, WARNING
from typing import Any, TypeAlias, TypedDict

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import FallbackExceptionGroup
from pydantic_ai.messages import InstructionPart, ModelMessage
from pydantic_ai.messages import ModelResponse as NativeResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models import (
    _with_framing_announcement as with_framing_announcement,  # pyright: ignore[reportPrivateUsage]  # as `direct` uses it
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings as NativeSettings
from pydantic_ai.tools import ToolDefinition as NativeTool
from typing_extensions import Unpack

from toolwright.adapters.models.providers.answer import (
    FINAL_TOOL,
    AnswerReader,
    PlainMessages,
    read_response,
    refusal_deltas,
    with_named_message,
)
from toolwright.adapters.models.providers.provider import (
    MAX_RETRY_AFTER,
    Aliases,
    chain_errors,
    check_complete,
    keys_of,
    pause_before,
    provider_errors,
    provider_model,
    translate,
)
from toolwright.adapters.models.providers.shown_files import ReadableFiles, readable_types
from toolwright.adapters.models.providers.tools import (
    MAX_REFUSED,
    AnswerMethod,
    ToolOffer,
    ToolOffers,
    adapted,
    answer_form,
    final_tool_form,
    is_native_beside_tools,
    prompted_form,
    read_answer,
    read_final,
    unchanged_settings,
)
from toolwright.adapters.models.providers.transcript import (
    Recent,
    Transcript,
    cache_settings,
)
from toolwright.adapters.models.resolve import check_key, check_provider
from toolwright.core.env.logs import internal_errors, logger
from toolwright.core.errors import DefinitionError, ModelError, ModelUnavailable
from toolwright.core.json_value import without_surrogates
from toolwright.core.model import (
    AnswerSchema,
    AttemptStarted,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    TextDelta,
    ToolDefinition,
)
from toolwright.core.schemas.provider_forms import ToolError
from toolwright.core.text import error_text
from toolwright.core.value import Value

log = logger("toolwright.models")

MAX_ATTEMPTS = 3
FIRST_RETRY = 2  # the attempt that is announced in the log
ANTHROPIC_MAX_TOKENS = 16_384
CACHED_ANSWERS = 64
_READING = "reading the model's answer"
_OFFLINE = frozenset({"function", "test"})
"""The test models of pydantic-ai, which send no requests."""
_FLAGS_ERRORS = frozenset({"anthropic", "bedrock"})
_NAMES = [name for name in ModelSettings.__struct_fields__ if name not in ("request_timeout", "others")]


class Retries(TypedDict, total=False):
    """Options for retries."""

    max_attempts: int
    sleep: Callable[[float], Awaitable[object]]
    random: Callable[[], float]


class PreparedRequest(Value):
    """A request in pydantic-ai's form for one model, with what is needed to read its answer."""

    messages: Sequence[ModelMessage]
    settings: NativeSettings
    parameters: ModelRequestParameters
    form: AnswerMethod | None
    offer: ToolOffer


Opened: TypeAlias = tuple[StreamedResponse, "PydanticAIModel", PreparedRequest]
"""The stream of an answer, the model that answers, and the request that it was sent."""


class RetryingModel(ABC):
    """Our `Model` port over pydantic-ai: streams answers and retries passing errors.

    A passing error (rate limit, overload, network, a stream that breaks off) is retried, up to `max_attempts` in all;
    `AttemptStarted` then announces that the answer begins again. `sleep` and `random` are for tests.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        max_attempts: int = MAX_ATTEMPTS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = chances.random,
    ) -> None:
        self._name = name
        self._model = model
        self._max_attempts = max_attempts
        self._sleep = sleep
        self._random = random

    @property
    def name(self) -> str:
        """The model's name, as in `openai:gpt-6.1-terra`."""
        return self._name

    @cached_property
    def window(self) -> int | None:
        """The most tokens that the model takes in one request, as its profile or genai-prices has it, or None."""
        try:
            return self._model.context_window
        except Exception as error:  # noqa: BLE001  a user's own model; a refusal of its provider tells the limit then
            log.debug("The context window of %s cannot be read: %s", self._name, error_text(error))
            return None

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the answer; the last item is the `ModelResponse`. Closing the iterator cancels the request.

        Raises:
            ModelUnavailable: every attempt failed by a passing error.
            ContextTooLong: the provider says that the request is longer than the model takes.
            ModelRefused: the provider will not answer this request.
        """
        if not self.is_offline:
            check_provider(self._name)
        number = 1
        while True:
            try:
                async with aclosing(self._attempt(request)) as events:
                    async for event in events:
                        yield event
                return
            except (*provider_errors(), FallbackExceptionGroup) as error:
                if isinstance(error, FallbackExceptionGroup):
                    for each in error.exceptions:
                        if not isinstance(each, provider_errors()):  # a defect, or an error of ours
                            raise each from error
                translated = translate(self._name, error, self._chain)
                if not self._worth_another(translated, number):
                    if isinstance(error, FallbackExceptionGroup):
                        reasons = map(str, chain_errors(self._name, error, self._chain))
                        log.warning("All models of a chain have failed: %s", "; ".join(reasons))
                    raise await with_named_message(translated, error, request.messages) from error
            number += 1
            pause = pause_before(number, _retry_after(translated), self._random())
            log.log(
                WARNING if number == FIRST_RETRY else INFO,
                "%s It is asked again in %.1f s (attempt %d of %d).",
                translated.message,
                pause,
                number,
                self._max_attempts,
            )
            yield AttemptStarted(number=number, pause=pause)
            await self._sleep(pause)

    @property
    def _chain(self) -> Sequence[str]:
        """The names of the models that are asked one after another, or none if there is only this one."""
        return ()

    @abstractmethod
    def tool_faults(self, tools: tuple[ToolDefinition, ...]) -> Sequence[ToolError]:
        """Return which of these tools the model is not offered, and why; also what its provider has refused so far."""

    @property
    @abstractmethod
    def is_offline(self) -> bool:
        """Return whether the model sends no requests."""

    @abstractmethod
    def open_stream(self, request: ModelRequest) -> AbstractAsyncContextManager[Opened]:
        """Send the request. Returns the answer's stream, the model that answers, and the request in its form."""

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        async with self.open_stream(request) as (stream, model, prepared):
            reader = model.reader(prepared)
            async for event in stream:
                with internal_errors(_READING):
                    events = [*reader.read(event)]
                for read in events:
                    yield read
            response = stream.get()
        check_complete(response)
        for explanation in refusal_deltas(response):
            yield TextDelta(explanation)
        with internal_errors(_READING):
            answer = await model.answer(response, prepared)
        yield answer

    def _worth_another(self, error: ModelError, number: int) -> bool:
        """Return whether to try again here. After a longer pause the run does, which is suspended and shows it."""
        is_passing = isinstance(error, ModelUnavailable) and (error.retry_after or 0.0) <= MAX_RETRY_AFTER
        return is_passing and number < self._max_attempts


class PydanticAIModel(RetryingModel):
    """A model by name (`openai:gpt-6.1-terra`, `anthropic:…`), or one pydantic-ai model.

    A model by name imports its provider's SDK here and belongs to this object: `aclose` closes its connections.
    """

    def __init__(self, model: str | Model, *, name: str | None = None, **retries: Unpack[Retries]) -> None:
        self._owned = isinstance(model, str)
        native = adapted(provider_model(model) if isinstance(model, str) else model)
        super().__init__(name or (model if isinstance(model, str) else native.model_id), native, **retries)
        for key in keys_of(native):
            check_key(f"The model {self._name!r}", key)
        self._settings: NativeSettings = {**cache_settings(self._model), **_default_settings(self._model)}
        self._files = ReadableFiles(readable_types(self._model))
        self._plain = PlainMessages(self._name)
        self._aliases = Aliases()
        self._offers = ToolOffers(self._model, self._name, self._aliases)
        self._transcript = Transcript(
            self._aliases, self._offers.names, flags_errors=self._model.system in _FLAGS_ERRORS
        )
        self._forms: Recent[AnswerSchema, AnswerMethod] = Recent(
            partial(answer_form, self._model), CACHED_ANSWERS
        )
        self._forms_beside_tools = self._forms
        if not is_native_beside_tools(self._model):
            self._forms_beside_tools = Recent(partial(final_tool_form, self._model), CACHED_ANSWERS)
        self._prompted: Recent[AnswerSchema, AnswerMethod] = Recent(
            partial(prompted_form, self._model), CACHED_ANSWERS
        )

    def tool_faults(self, tools: tuple[ToolDefinition, ...]) -> Sequence[ToolError]:
        """Return which of these tools the model is not offered, and why; also what its provider has refused so far."""
        return self._offers.faults(tools)

    async def aclose(self) -> None:
        """Close the connections of a model that was made from its name."""
        if self._owned:
            async with self._model:
                pass

    @property
    def native(self) -> Model:
        """The model of pydantic-ai."""
        return self._model

    @property
    def is_offline(self) -> bool:
        """Return whether this is a test model of pydantic-ai."""
        return self._model.system in _OFFLINE

    async def prepare(self, request: ModelRequest, plain: Set[str] = frozenset()) -> PreparedRequest:
        """Return the request in the model's form. `plain` are the messages without files and reasoning."""
        with internal_errors("writing a request to the model", *provider_errors()):
            offer = await self._offers.get(request.tools)
            form = self._form(request)
            files = await self._files.load(request)
            messages, has_system = self._transcript.convert(request.messages, files, plain, request.state)
            settings = _settings_for(request, self._settings, offer)
            final = [] if form is None or form.tool is None else [form.tool.native]
            natives = [*offer.natives, *final]
            whole = unchanged_settings(offer, self._offers, final, settings)
            if whole is not None:
                settings, natives = whole, natives[:1]  # which represents all
            parameters = self._parameters(request, form, natives, offer.instructions)
            if has_system:
                parameters = with_framing_announcement(parameters, settings)
                messages = self._model.prepare_messages(messages, parameters)
        return PreparedRequest(
            messages=messages, settings=settings, parameters=parameters, form=form, offer=offer
        )

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncGenerator[Opened]:
        """Send the request to the model. A tool that the provider rejects is withheld, and the request sent again."""
        async with AsyncExitStack() as stack:
            stream, prepared = await self._opened(request, stack)
            yield stream, self, prepared

    async def _opened(
        self, request: ModelRequest, stack: AsyncExitStack
    ) -> tuple[StreamedResponse, PreparedRequest]:
        withheld, trial = 0, self._plain.trial(request.messages)
        while True:
            prepared = await self.prepare(request, trial.plain)
            opening = model_request_stream(
                self._model,
                prepared.messages,
                model_settings=prepared.settings,
                model_request_parameters=prepared.parameters,
            )
            try:
                stream = await stack.enter_async_context(opening)
            except provider_errors() as error:
                if self._offers.withhold(error, prepared.offer, request.tools):
                    withheld += 1
                    if withheld > MAX_REFUSED and len(prepared.offer.wire) == 1:
                        self._offers.offer_again(request.tools)
                        raise
                elif not await trial.leave_out(error):
                    raise
            else:
                trial.accepted()
                return stream, prepared

    def reader(self, prepared: PreparedRequest) -> AnswerReader:
        """Return a reader of the answer's stream."""
        form = prepared.form
        return AnswerReader(self._aliases, None if form is None else form.tool)

    async def answer(self, response: NativeResponse, prepared: PreparedRequest) -> ModelResponse:
        """Return the complete answer."""
        response = await read_final(response, prepared.form)
        return await read_answer(read_response(response, self._aliases, prepared.offer.names), prepared.form)

    def _form(self, request: ModelRequest) -> AnswerMethod | None:
        if request.answer is None:
            return None
        form = (self._forms_beside_tools if request.tools else self._forms).get(request.answer)
        if form.tool is None:
            return form
        is_taken = any(tool.name == FINAL_TOOL for tool in request.tools)
        return self._prompted.get(request.answer) if is_taken or request.tool_choice == "none" else form

    def _parameters(
        self, request: ModelRequest, form: AnswerMethod | None, natives: list[NativeTool], of_tools: str
    ) -> ModelRequestParameters:
        system = without_surrogates(request.system)
        instructions = [InstructionPart(content=each) for each in (system, of_tools) if each]
        parameters = ModelRequestParameters(function_tools=natives, instruction_parts=instructions)
        if form is None:
            return parameters
        return replace(
            parameters,
            instruction_parts=[*instructions, *form.instructions],
            output_mode=form.mode,
            output_object=form.output,
        )


class FallbackModels(RetryingModel):
    """A `FallbackModel` of pydantic-ai: each of its models is sent the request in its own form.

    Its `fallback_on` decides which errors are answered by the next model. Only after all have failed is the request
    retried or the error raised. Raises `DefinitionError` for a `FallbackModel` within another.
    """

    def __init__(self, model: FallbackModel, **retries: Unpack[Retries]) -> None:
        super().__init__(model.model_id, model, **retries)
        self._fallback = model
        for each in model.models:
            if isinstance(_unwrapped(each), FallbackModel):
                raise DefinitionError("A FallbackModel cannot contain another one: list all models in one.")
        self._models = [PydanticAIModel(each) for each in model.models]

    @property
    def _chain(self) -> Sequence[str]:
        return [model.name for model in self._models]

    @property
    def is_offline(self) -> bool:
        """Return whether all models are test models of pydantic-ai."""
        return all(model.is_offline for model in self._models)

    def tool_faults(self, tools: tuple[ToolDefinition, ...]) -> Sequence[ToolError]:
        """Return which of these tools some of the models are not offered, and why: the first reason for each."""
        errors = [error for model in self._models for error in model.tool_faults(tools)]
        return [*{error.tool: error for error in reversed(errors)}.values()][::-1]

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncGenerator[Opened]:
        """Send the request to the first model, and to the next one if it fails as `fallback_on` says."""
        fallback, candidates = copy(self._fallback), [_Candidate(model, request) for model in self._models]
        fallback.models = [*candidates]
        async with model_request_stream(
            fallback,
            [],
            instrument=False,  # the request of each candidate has a span of its own
        ) as stream:
            candidate = next(each for each in reversed(candidates) if each.prepared is not None)
            assert candidate.prepared is not None, "the one that opened the stream"
            yield stream, candidate.model, candidate.prepared


class _Candidate(WrapperModel):
    """One model of a `FallbackModel`, for one request: it sends the request in its own form, whatever it is given."""

    def __init__(self, model: PydanticAIModel, request: ModelRequest) -> None:
        super().__init__(model.native)
        self.model = model
        self.prepared: PreparedRequest | None = None
        self._request = request

    def prepare_request(
        self, model_settings: NativeSettings | None, model_request_parameters: ModelRequestParameters
    ) -> tuple[NativeSettings | None, ModelRequestParameters]:
        return model_settings, model_request_parameters

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        return messages

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: NativeSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,  # as pydantic-ai declares it
    ) -> AsyncGenerator[StreamedResponse]:
        async with self.model.open_stream(self._request) as (stream, _, prepared):
            self.prepared = prepared
            yield stream


def adapt(model: Model) -> RetryingModel:
    """Return our `Model` port over a model object of pydantic-ai.

    Raises `DefinitionError` for a `FallbackModel` within another model.
    """
    if isinstance(model, FallbackModel):
        return FallbackModels(model)
    if isinstance(_unwrapped(model), FallbackModel):
        raise DefinitionError("A FallbackModel cannot be wrapped: wrap each of its models instead.")
    return PydanticAIModel(model)


def _unwrapped(model: Model) -> Model:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return model


def _default_settings(model: Model) -> NativeSettings:
    """Return our defaults, which the model object's settings override: no retries in the SDK, room for the answer."""
    settings = NativeSettings()
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    if model.system == "anthropic":
        settings["max_tokens"] = ANTHROPIC_MAX_TOKENS  # lowered by pydantic-ai to what the model can do
    settings.update(model.settings or {})
    return settings


def _settings_for(request: ModelRequest, defaults: NativeSettings, offer: ToolOffer) -> NativeSettings:
    """Return the settings of one request. pydantic-ai omits unsupported ones, with a warning."""
    settings = NativeSettings() if request.settings is None else _native(request.settings)
    if offer.natives and request.tool_choice != "auto":
        settings["tool_choice"] = request.tool_choice
    if request.reasoning is not None:
        settings["thinking"] = request.reasoning
    if request.state is not None:
        settings["framing_announcement"] = "always"  # from the first request on: the prefix stays the same
    return {**defaults, **settings} if settings else defaults


def _native(settings: ModelSettings) -> NativeSettings:
    """Return the settings by pydantic-ai's names. The time of the whole answer is limited by the run."""
    own = {name: getattr(settings, name) for name in _NAMES}
    native: Any = {name: value for name, value in own.items() if value is not None} | dict(settings.others)
    if settings.stop_sequences is not None:
        native["stop_sequences"] = [*settings.stop_sequences]
    return native


def _retry_after(error: ModelError) -> float | None:
    return error.retry_after if isinstance(error, ModelUnavailable) else None
