"""`FallbackModel` of pydantic-ai: each model gets the request in its own form, and answers if the previous fails."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai.exceptions import FallbackExceptionGroup, ModelHTTPError
from pydantic_ai.models import Model as NativeModel
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.instrumented import InstrumentedModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import toolwright as tw
from tests.models.asking import SEARCH, answer_of, ask, only, request
from tests.models.conftest import Pauses
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.providers.model import FallbackModels, PydanticAIModel
from toolwright.adapters.models.providers.provider import translate
from toolwright.adapters.models.resolve import ProviderGuard
from toolwright.core.errors import ContextTooLong, ModelRefused, ModelUnavailable
from toolwright.core.model import AttemptStarted
from toolwright.core.value import changed

pytestmark = pytest.mark.anyio


class Weather(BaseModel):
    """The weather of a place."""

    celsius: float


def weather(place: str, day: str | None = None) -> str:
    """Tell the weather of a place."""
    return f"18 degrees in {place}"


@asynccontextmanager
async def providers(server: WireServer) -> AsyncGenerator[tuple[OpenAIChatModel, AnthropicModel]]:
    """Yield a model of OpenAI and one of Anthropic, at the same server."""
    async with (
        AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="sk-test") as first,
        AsyncAnthropic(base_url=server.base_url, api_key="sk-test") as second,
    ):
        yield (
            OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=first)),
            AnthropicModel("claude-sonnet-5-5", provider=AnthropicProvider(anthropic_client=second)),
        )


@asynccontextmanager
async def fallback(
    server: WireServer, pauses: Pauses | None = None, **options: Any
) -> AsyncGenerator[FallbackModels]:
    """Yield our port over OpenAI, then Anthropic."""
    sleep = (pauses or Pauses()).sleep
    async with providers(server) as models:
        yield FallbackModels(FallbackModel(*models, **options), sleep=sleep, random=lambda: 1.0)


def paths(server: WireServer) -> list[str]:
    return [request.path.rpartition("/")[2] for request in server.requests]


async def test_the_second_model_answers_when_the_first_is_overloaded(
    server: WireServer, pauses: Pauses
) -> None:
    async with fallback(server, pauses) as model:
        server.fail(503, "Overloaded")
        server.answer(text=("Hi",))
        assert (await answer_of(model)).text == "Hi"
    assert paths(server) == ["completions", "messages"]
    assert pauses.seconds == []


async def test_each_model_is_sent_tools_and_the_answers_schema_in_its_own_form(server: WireServer) -> None:
    async with providers(server) as models:
        agent = tw.Agent("forecaster", model=FallbackModel(*models), tools=[weather], output=Weather)
        server.fail(429, "Slow down")
        server.answer(calls=[WireCall(id="toolu_1", name="weather", arguments=('{"place": "Oslo"}',))])
        server.fail(429, "Slow down")
        server.answer(text=('{"celsius": 18}',))
        result = await tw.run(agent, "The weather in Oslo?")
    assert result.output == Weather(celsius=18)
    assert paths(server) == ["completions", "messages"] * 2
    openai, anthropic = server.requests[2].body, server.requests[3].body
    assert openai["tools"][0]["function"]["name"] == anthropic["tools"][0]["name"] == "weather"  # type: ignore[index,call-overload]
    assert openai["messages"][-1]["role"] == "tool"  # type: ignore[index,call-overload]
    assert anthropic["messages"][-1]["content"][0]["tool_use_id"] == "toolu_1"  # type: ignore[index,call-overload]


async def test_the_request_is_retried_only_after_all_models_have_failed(
    server: WireServer, pauses: Pauses
) -> None:
    async with fallback(server, pauses) as model:
        server.fail(503, "Overloaded")
        server.fail(429, "Slow down", retry_after="7")
        server.answer(text=("Hi",))
        events = await ask(model)
    assert [each.number for each in only(events, AttemptStarted)] == [2]
    assert paths(server) == ["completions", "messages", "completions"]
    assert len(pauses.seconds) == 1


async def test_an_outage_of_one_model_counts_more_than_the_refusal_of_another(server: WireServer) -> None:
    async with fallback(server) as model:
        for _ in range(3):
            server.fail(401, "Unknown key")
            server.fail(503, "Overloaded")
        with pytest.raises(
            ModelUnavailable, match=r"^anthropic:claude-sonnet-5-5 is unavailable \(503\): Overloaded\."
        ):
            await ask(model)
    assert len(server.requests) == 6


async def test_the_error_is_that_of_the_first_model_if_all_refuse(server: WireServer) -> None:
    async with fallback(server) as model:
        server.fail(400, "Not this")
        server.fail(400, "Nor that")
        with pytest.raises(ModelRefused, match=r"^openai:gpt-4o refused .*Not this\."):
            await ask(model)


async def test_fallback_on_decides_which_errors_go_to_the_next_model(server: WireServer) -> None:
    def is_rate_limit(error: Exception) -> bool:
        return isinstance(error, ModelHTTPError) and error.status_code == 429

    async with fallback(server, fallback_on=is_rate_limit) as model:
        server.fail(400, "Not this")
        with pytest.raises(ModelRefused, match=r"Not this\."):
            await ask(model)
        server.fail(429, "Slow down")
        server.answer(text=("Hi",))
        assert (await answer_of(model)).text == "Hi"
    assert paths(server) == ["completions", "completions", "messages"]


async def test_a_tool_that_a_provider_rejects_is_withheld_from_its_model(server: WireServer) -> None:
    server.dislikes = {"search"}
    async with fallback(server) as model:
        server.answer(text=("Hi",))
        assert (await answer_of(model)).text == "Hi"
    assert paths(server) == ["completions"] * 2, "the same model is asked without the tool"
    assert "tools" not in server.requests[1].body


async def test_the_smallest_window_counts() -> None:
    async def answers(messages: object, info: object) -> AsyncGenerator[str]:
        yield "Hi"

    models = [
        FunctionModel(stream_function=answers, profile={"context_window": size}) for size in (9_000, 5_000)
    ]
    assert FallbackModels(FallbackModel(*models)).window == 5_000


async def test_a_test_without_providers_asks_none_of_them(server: WireServer) -> None:
    async with fallback(server) as model:
        with ProviderGuard().on(), pytest.raises(ModelRefused, match="allows no request to a provider"):
            await ask(model)
    assert server.requests == []


@pytest.mark.parametrize("nest", [FallbackModel, WrapperModel], ids=["within another", "wrapped"])
async def test_a_fallback_model_within_another_model_is_refused(nest: type[NativeModel]) -> None:
    async def answers(messages: object, info: object) -> AsyncGenerator[str]:
        yield "Hi"

    nested: Any = nest(FallbackModel(FunctionModel(stream_function=answers)))  # type: ignore[call-arg]
    with pytest.raises(tw.errors.RunFailed, match="A FallbackModel cannot"):
        await tw.run(tw.Agent("helper", model=nested), "Hi")


async def test_a_request_that_is_too_long_for_one_model_counts_more_than_the_failure_of_another(
    server: WireServer,
) -> None:
    async with fallback(server) as model:
        server.fail(
            400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded"
        )
        server.fail(529, "Overloaded")
        with pytest.raises(ContextTooLong):
            await ask(model)
    assert len(server.requests) == 2


async def test_a_defect_is_raised_as_it_is_although_fallback_on_takes_every_error(server: WireServer) -> None:
    async def defective(messages: object, info: object) -> AsyncGenerator[str]:
        raise ValueError("a bug")
        yield ""

    models = [FunctionModel(stream_function=defective)] * 2
    with pytest.raises(ValueError, match="a bug"):
        await ask(FallbackModels(FallbackModel(*models, fallback_on=Exception)))


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_a_lost_connection_is_an_outage_whichever_http_library_a_provider_uses(library: Any) -> None:
    async def lost(messages: object, info: object) -> AsyncGenerator[str]:
        raise library.ReadError("the connection was closed")
        yield ""

    with pytest.raises(ModelUnavailable):
        await ask(PydanticAIModel(FunctionModel(stream_function=lost), sleep=Pauses().sleep))


@pytest.mark.parametrize("wrapper", [WrapperModel, InstrumentedModel])
async def test_models_of_providers_can_be_wrapped(server: WireServer, wrapper: type[WrapperModel]) -> None:
    async with providers(server) as (first, second):
        model = FallbackModels(FallbackModel(wrapper(first), wrapper(second)))
        server.fail(503, "Overloaded")
        server.answer(text=("Hi",))
        assert (await answer_of(model)).text == "Hi"
        server.answer(text=("Hello",))
        assert (await answer_of(PydanticAIModel(wrapper(second)))).text == "Hello"
    assert paths(server) == ["completions", "messages", "messages"]


async def test_requests_at_once_whose_tool_is_rejected_withhold_that_tool_alone(server: WireServer) -> None:
    server.dislikes = {"search"}
    tools = (SEARCH, changed(SEARCH, name="find"))
    async with providers(server) as (first, _):
        model = PydanticAIModel(first)
        for _ in range(2):
            server.answer(text=("Hi",))
        await asyncio.gather(*[ask(model, request(tools=tools)) for _ in range(2)])
        assert [error.tool for error in model.tool_faults(tools)] == ["search"]


def test_an_error_names_the_model_of_the_chain_if_that_is_certain() -> None:
    chain, failed = ("openai:gpt-4o", "azure:gpt-4o", "openai:o9"), ModelHTTPError(503, "gpt-4o", "Down.")
    both = FallbackExceptionGroup("all", [ModelHTTPError(400, "gpt-4o", "No."), failed])
    assert str(translate("all", both, chain[:2])).startswith("azure:gpt-4o is unavailable (503)")
    assert str(translate("all", failed, chain)).startswith("all is unavailable (503)")
    assert str(translate("all", failed, chain[1:])).startswith("azure:gpt-4o is unavailable (503)")


async def test_the_errors_of_all_models_are_logged_once_for_a_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(name: str, status: int) -> FunctionModel:
        async def fail(_: object, __: object) -> AsyncGenerator[str]:
            raise ModelHTTPError(status, name, "No.")
            yield ""  # a generator

        return FunctionModel(stream_function=fail, model_name=name)

    chain = FallbackModel(failing("first", 401), failing("second", 429))
    with pytest.raises(ModelUnavailable):
        await ask(FallbackModels(chain, sleep=Pauses().sleep, random=lambda: 1.0), request())
    [said] = [each for each in caplog.messages if each.startswith("All models of a chain")]
    assert "first refused the request (401)" in said
    assert "second is unavailable (429)" in said
