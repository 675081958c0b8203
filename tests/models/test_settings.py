"""Settings of a request on the wire."""

import pytest
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings as NativeSettings

from tests.models.asking import MakeModel, ask, user
from tests.models.wire_server import WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.json_value import JSON
from toolwright.core.model import Model, ModelRequest, ModelSettings

pytestmark = pytest.mark.anyio

CHOSEN = ModelSettings(temperature=0.0, top_p=0.5, max_tokens=77, seed=3)


async def sent(model: Model, server: WireServer, settings: ModelSettings | None) -> dict[str, JSON]:
    """Return the settings that the provider received."""
    server.answer(text=("Hi",))
    await ask(model, ModelRequest(messages=(user("Hello"),), settings=settings))
    names = {"temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed"}
    return {name: value for name, value in server.requests[-1].body.items() if name in names}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "openai-chat:gpt-4o",
            {"temperature": 0.0, "top_p": 0.5, "max_completion_tokens": 77, "seed": 3},
        ),
        ("openai:gpt-4o", {"temperature": 0.0, "top_p": 0.5, "max_output_tokens": 77}),
        ("anthropic:claude-sonnet-4-6", {"temperature": 0.0, "top_p": 0.5, "max_tokens": 77}),
    ],
)
async def test_settings_reach_the_provider_under_its_names(
    make_model: MakeModel, server: WireServer, name: str, wanted: dict[str, JSON]
) -> None:
    assert await sent(make_model(name), server, CHOSEN) == wanted


async def test_what_is_not_set_is_left_to_the_provider(model: PydanticAIModel, server: WireServer) -> None:
    kept = {"max_tokens": 16_384} if model.name.startswith("anthropic") else {}
    assert await sent(model, server, None) == kept
    assert await sent(model, server, ModelSettings()) == kept


async def test_settings_of_a_request_lie_over_those_of_the_model(server: WireServer) -> None:
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k") as client:
        own = NativeSettings(temperature=0.9, max_tokens=5)
        native = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client), settings=own)
        received = await sent(PydanticAIModel(native), server, ModelSettings(temperature=0.1))
        assert received == {"temperature": 0.1, "max_completion_tokens": 5}


@pytest.mark.parametrize("name", ["openai-chat:o3", "openai:o3", "anthropic:claude-sonnet-5-5"])
async def test_a_model_that_takes_no_temperature_is_sent_none(
    make_model: MakeModel, server: WireServer, name: str
) -> None:
    with pytest.warns(UserWarning, match="Sampling parameters"):
        received = await sent(make_model(name), server, ModelSettings(temperature=0.1, max_tokens=77))
    assert [*received.values()] == [77]
