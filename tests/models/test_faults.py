"""Failures of a provider: retried, or reported in one sentence."""

import asyncio
import logging
from contextlib import aclosing

import pytest
from openai import AsyncOpenAI
from pydantic_ai.models.instrumented import InstrumentedModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from tests.models.asking import MakeModel, answer_of, ask, only, request
from tests.models.conftest import WIRES, Pauses
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.embeddings import OpenAIEmbedder
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.provider import pause_before
from toolwright.core.errors import ModelRefused, ModelUnavailable
from toolwright.core.model import AttemptStarted, ModelResponse, TextDelta

pytestmark = pytest.mark.anyio


async def test_a_rate_limit_waits_as_long_as_the_provider_asks(
    model: PydanticAIModel, server: WireServer, pauses: Pauses
) -> None:
    server.fail(429, "Slow down", retry_after="7")
    server.answer(text=("Hi",))
    events = await ask(model)
    assert events[:2] == [AttemptStarted(number=2, pause=7.0), TextDelta(text="Hi")]
    assert pauses.seconds == [7.0]
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
async def test_an_overload_is_tried_three_times_with_growing_pauses(
    model: PydanticAIModel, server: WireServer, pauses: Pauses, status: int
) -> None:
    server.fail(status, "Overloaded", times=3)
    with pytest.raises(ModelUnavailable, match=rf"is unavailable \({status}\): Overloaded\."):
        await ask(model)
    assert len(server.requests) == 3
    assert pauses.seconds == [0.5, 1.0]


@pytest.mark.parametrize("seconds", ["8", "60"])
async def test_a_short_retry_after_is_waited_for(
    model: PydanticAIModel, server: WireServer, pauses: Pauses, seconds: str
) -> None:
    server.fail(429, "Soon", retry_after=seconds)
    server.answer(text=("Hi",))
    await ask(model)
    assert pauses.seconds == [float(seconds)]


async def test_a_long_retry_after_is_handed_on_with_the_error_at_once(
    model: PydanticAIModel, server: WireServer, pauses: Pauses
) -> None:
    server.fail(429, "Tomorrow", retry_after="86400")
    with pytest.raises(
        ModelUnavailable, match=r"Tomorrow\. It can be asked again in 86,400 seconds\."
    ) as caught:
        await ask(model)
    assert caught.value.retry_after == 86400
    assert pauses.seconds == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_said_at_once_in_the_providers_words(
    model: PydanticAIModel, server: WireServer, pauses: Pauses, status: int
) -> None:
    server.fail(status, "That will\n not do")
    with pytest.raises(ModelRefused) as caught:
        await ask(model)
    assert caught.value.message == f"{model.name} refused the request ({status}): That will not do."
    assert len(server.requests) == 1
    assert pauses.seconds == []


async def test_exhausted_credit_is_not_tried_again(model: PydanticAIModel, server: WireServer) -> None:
    server.fail(402, "Pay first")
    with pytest.raises(ModelRefused, match="Pay first"):
        await ask(model)
    assert len(server.requests) == 1


async def test_a_stream_that_breaks_off_starts_again(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(text=("Hel",), ending="dropped")
    server.answer(text=("Hel", "lo"), calls=[WireCall(name="search")])
    events = await ask(model)
    restart = events.index(only(events, AttemptStarted)[0])
    assert only(events[:restart], TextDelta) == [TextDelta(text="Hel")]
    assert only(events[restart:], TextDelta) == [TextDelta(text="Hel"), TextDelta(text="lo")]
    response = events[-1]
    assert isinstance(response, ModelResponse)
    assert response.text == "Hello"


@pytest.mark.parametrize("name", ["openai:gpt-4o", "anthropic:claude-sonnet-5-5"])
async def test_a_stream_that_ends_before_its_answer_does_starts_again(
    make_model: MakeModel, server: WireServer, name: str
) -> None:
    server.answer(text=("Hel",), ending="cut")
    server.answer(text=("Hello",))
    events = await ask(make_model(name))
    assert [type(event) for event in events[:2]] == [TextDelta, AttemptStarted]
    assert events[2] == TextDelta(text="Hello")


async def test_a_provider_that_is_not_there_is_unavailable(pauses: Pauses) -> None:
    provider = OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="sk-test")
    native = OpenAIChatModel("gpt-4o", provider=provider)
    model = PydanticAIModel(native, name="local", sleep=pauses.sleep)
    async with native:
        with pytest.raises(ModelUnavailable, match=r"^local is unavailable at 127\.0\.0\.1:9: "):
            await ask(model)
    assert len(pauses.seconds) == 2


async def test_a_timeout_is_tried_again(server: WireServer, pauses: Pauses) -> None:
    provider = OpenAIProvider(base_url=f"{server.base_url}/v1", api_key="sk-test")
    native = OpenAIChatModel("gpt-4o", provider=provider, settings=ModelSettings(timeout=0.05))
    model = PydanticAIModel(native, sleep=pauses.sleep)
    server.answer(ending="stalled")
    server.answer(text=("Hi",))
    async with native:
        assert (await answer_of(model)).text == "Hi"
    assert model.name == "openai:gpt-4o"


async def test_the_sdk_does_not_try_again_by_itself(server: WireServer) -> None:
    client = AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="sk-test", max_retries=5)
    model = PydanticAIModel(
        OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client)), max_attempts=1
    )
    server.fail(503, "Overloaded", times=6)
    async with client:
        with pytest.raises(ModelUnavailable):
            await ask(model)
    assert len(server.requests) == 1


async def test_closing_the_iterator_ends_the_request(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(text=("Hel",), ending="stalled")
    async with aclosing(model.respond(request())) as events:
        assert await anext(events) == TextDelta(text="Hel")
    async with asyncio.timeout(60):
        await server.gone.wait()


async def test_cancelling_the_task_ends_the_request(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(text=("Hel",), ending="stalled")
    task = asyncio.create_task(ask(model))
    async with asyncio.timeout(60):
        await server.stalled.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()
    assert len(server.requests) == 1


def test_pauses_double_up_to_eight_seconds_and_are_half_chance() -> None:
    assert [pause_before(attempt, None, 1.0) for attempt in range(2, 9)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert pause_before(2, None, 0.0) == 0.25
    assert pause_before(2, 0.0, 1.0) == 0.0


KEYS = pytest.mark.parametrize("key", ["sk-…", "sk-é", "sk-secret\n", " sk-secret", "sk\x00", "sk-a\tb"])


@KEYS
@pytest.mark.parametrize("name", WIRES)
def test_a_key_that_no_header_takes_is_refused_when_the_model_is_made(
    monkeypatch: pytest.MonkeyPatch, name: str, key: str
) -> None:
    provider = name.partition(":")[0].partition("-")[0]
    # a process cannot have a NUL in a variable
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", key.replace("\x00", "\x01"))
    with pytest.raises(ModelRefused, match="has a key with characters that no HTTP header takes") as caught:
        PydanticAIModel(name)
    assert key.strip() not in caught.value.message and name in caught.value.message


@KEYS
def test_a_model_object_or_an_embedder_with_such_a_key_is_refused(key: str) -> None:
    native = OpenAIChatModel("m", provider=OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key=key))
    for made in (native, WrapperModel(native), InstrumentedModel(WrapperModel(native))):
        with pytest.raises(ModelRefused, match="no HTTP header takes"):
            PydanticAIModel(made)
    with pytest.raises(ModelRefused, match="no HTTP header takes"):
        OpenAIEmbedder("m", key=key, base_url="http://127.0.0.1:9/v1")


async def test_the_first_retry_is_logged_with_its_cause_and_its_time(
    model: PydanticAIModel, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.fail(503, "Overloaded", times=2)
    server.answer(text=("Hi",))
    with caplog.at_level(logging.WARNING):
        await ask(model)
    [record] = caplog.records
    assert "is unavailable (503): Overloaded. It is asked again in 0.5 s (attempt 2 of 3)." in record.message
