"""Every provider's models, through `pydantic_ai.direct`."""

import asyncio
import random as chances
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition as NativeTool

from toolwright.adapters.models.providers.answer import Reader, read_response
from toolwright.adapters.models.providers.faults import PROVIDER_FAULTS, check_whole, pause_before, translate
from toolwright.adapters.models.providers.images import Pictures
from toolwright.adapters.models.providers.provider import Aliases, model_named
from toolwright.adapters.models.providers.settings import default_settings, settings_for
from toolwright.adapters.models.providers.tool_schemas import leaving_schemas, schema_for, strictness
from toolwright.adapters.models.providers.transcript import NOTHING_SEEN, Recent, Transcript
from toolwright.core.errors import ModelError, ModelUnavailable
from toolwright.core.model import AttemptStarted, ModelEvent, ModelRequest, ToolDefinition

MAX_ATTEMPTS = 3
KEPT_TOOLSETS = 64
_FLAGS_ERRORS = frozenset({"anthropic", "bedrock"})


class PydanticAIModel:
    """A model by name (`openai:gpt-5`, `anthropic:…`) or a pydantic-ai model, behind our seam.

    A passing fault (rate limit, overload, network, a stream that breaks off) is tried again, `max_attempts`
    in all; `AttemptStarted` then says that the answer begins anew. A model by name imports its provider's SDK
    here and belongs to this object: `aclose` closes its connections. `sleep` and `random` are for tests.
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
        self._model = leaving_schemas(model_named(model) if isinstance(model, str) else model)
        self._name = name or (model if isinstance(model, str) else self._model.model_id)
        self._max_attempts = max_attempts
        self._sleep = sleep
        self._random = random
        self._settings = default_settings(self._model)
        self._sees = self._model.profile.get("supports_image_input", True)
        self._pictures = Pictures()
        self._aliases = Aliases()
        self._transcript = Transcript(self._aliases, flags_errors=self._model.system in _FLAGS_ERRORS)
        self._tools: Recent[tuple[ToolDefinition, ...], list[NativeTool]] = Recent(self._tell, KEPT_TOOLSETS)

    @property
    def name(self) -> str:
        """The model's name, as in `openai:gpt-5`."""
        return self._name

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the answer; the last item is the `ModelResponse`. Closing the iterator cancels the request.

        Raises:
            ModelUnavailable: every attempt failed by a passing fault.
            ModelRefused: the provider will not answer this request.
        """
        number = 1
        while True:
            try:
                async with aclosing(self._attempt(request)) as events:
                    async for event in events:
                        yield event
                return
            except PROVIDER_FAULTS as error:
                fault = translate(self._name, error)
                if not self._worth_another(fault, number):
                    raise fault from error
            number += 1
            await self._sleep(pause_before(number, _retry_after(fault), self._random()))
            yield AttemptStarted(number=number)

    async def aclose(self) -> None:
        """Close the connections of a model that was made from its name."""
        if self._owned:
            async with self._model:
                pass

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        reader = Reader(self._aliases)
        seen = await self._pictures.of(request) if self._sees else NOTHING_SEEN
        async with model_request_stream(
            self._model,
            self._transcript.convert(request.messages, seen),
            model_settings=settings_for(request, self._settings),
            model_request_parameters=self._parameters(request),
        ) as stream:
            async for event in stream:
                for read in reader.read(event):
                    yield read
            response = stream.get()
        check_whole(response)
        yield read_response(response, self._aliases)

    def _worth_another(self, fault: ModelError, number: int) -> bool:
        return isinstance(fault, ModelUnavailable) and number < self._max_attempts

    def _parameters(self, request: ModelRequest) -> ModelRequestParameters:
        return ModelRequestParameters(
            function_tools=self._tools.get(request.tools),
            instruction_parts=[InstructionPart(content=request.system)] if request.system else [],
        )

    def _tell(self, tools: tuple[ToolDefinition, ...]) -> list[NativeTool]:
        strict = strictness(self._model)
        return [
            NativeTool(
                name=self._aliases.wire(tool.name),
                description=tool.description,
                parameters_json_schema=schema_for(self._model, tool.parameters),
                strict=strict,
            )
            for tool in tools
        ]


def _retry_after(fault: ModelError) -> float | None:
    return fault.retry_after if isinstance(fault, ModelUnavailable) else None
