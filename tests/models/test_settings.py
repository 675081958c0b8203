"""Settings of a request on the wire."""

import ast
from pathlib import Path
from typing import Any

import pydantic_ai
import pytest
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings as NativeSettings
from rich.pretty import pretty_repr

import toolwright as tw
from tests.models.asking import MakeModel, ask, request, user
from tests.models.wire_server import WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.agents.model_settings import COMMON, NATIVE
from toolwright.core.errors import DefinitionError, ModelUnavailable
from toolwright.core.json_value import JSON
from toolwright.core.model import Model, ModelRequest, ModelSettings
from toolwright.core.value import changed

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


def declared(settings: dict[str, Any]) -> ModelSettings:
    """Return the settings as a prompt declares them."""
    given = tw.Prompt("p", model_settings=settings).model_settings
    assert isinstance(given, ModelSettings)
    return given


def names_of_pydantic_ai() -> set[str]:
    """Return the names of all settings of the installed version, also of providers whose library is not installed."""
    folder = Path(pydantic_ai.__file__).parent
    names: set[str] = set()
    for path in [folder / "settings.py", *folder.glob("models/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name.endswith("ModelSettings"):
                fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
                names.update(each.id for each in fields if isinstance(each, ast.Name))
    return names


def test_all_settings_of_pydantic_ai_can_be_declared() -> None:
    elsewhere = {"tool_choice", "thinking"}  # options of a prompt
    assert {*COMMON} | NATIVE == names_of_pydantic_ai() - elsewhere


async def test_headers_body_and_a_providers_own_settings_reach_it(
    make_model: MakeModel, server: WireServer
) -> None:
    server.answer(text=("Hi",))
    settings = declared(
        {
            "extra_headers": {"X-Team": "tea"},
            "extra_body": {"metadata": {"shop": "7"}},
            "openai_text_verbosity": "low",
            "service_tier": "flex",
            "parallel_tool_calls": False,
            "timeout": 30,
            "request_timeout": 60,
        }
    )
    await ask(make_model("openai:gpt-5"), changed(request(), settings=settings))
    received = server.requests[-1]
    assert received.headers["x-team"] == "tea"
    assert received.body["metadata"] == {"shop": "7"}
    assert received.body["text"] == {"verbosity": "low"}
    assert (received.body["service_tier"], received.body["parallel_tool_calls"]) == ("flex", False)
    assert "search" in str(received.body["tools"])
    assert not {"timeout", "request_timeout"} & received.body.keys()


@pytest.mark.parametrize("setting", ["timeout", "first_event_timeout"])
async def test_a_provider_that_is_silent_for_the_chosen_time_is_unavailable(
    make_model: MakeModel, server: WireServer, setting: str
) -> None:
    for _ in range(3):
        server.answer(ending="stalled")
    with pytest.raises(ModelUnavailable):
        await ask(make_model("openai:gpt-4o"), changed(request(), settings=declared({setting: 0.05})))


def test_settings_keep_their_values_out_of_logs() -> None:
    prompt = tw.Prompt("p", model_settings={"extra_headers": {"Authorization": "Bearer s3cret"}, "seed": 1})
    assert "s3cret" not in repr(prompt)
    assert "ModelSettings(seed, extra_headers)" in repr(prompt)
    assert "s3cret" not in pretty_repr(prompt)
    with pytest.raises(DefinitionError, match=r"without Content-Length and Host\.$"):
        tw.Prompt("p", model_settings={"extra_headers": "s3cret"})


@pytest.mark.parametrize(
    "headers",
    [{"X A": "b"}, {"X-A": " b"}, {"X-A": "ü"}, {"X-A": "a\r\nB: c"}, {"Content-Length": "3"}, {"X-A": 1}],
)
def test_headers_that_http_cannot_send_are_an_error_of_the_definition(headers: dict[str, Any]) -> None:
    with pytest.raises(
        DefinitionError, match="the model setting 'extra_headers' must be a dict of names and values"
    ):
        tw.Prompt("p", model_settings={"extra_headers": headers})


@pytest.mark.parametrize("body", [{"a": object()}, {"a": float("nan")}])
def test_a_body_that_is_no_json_is_an_error_of_the_definition(body: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="the model setting 'extra_body' must be a dict of JSON values"):
        tw.Prompt("p", model_settings={"extra_body": body})


@pytest.mark.parametrize(
    "name", ["tools", "model", "reasoning_effort", "reasoning", "thinking", "output_config"]
)
def test_the_body_cannot_replace_what_the_definition_says(name: str) -> None:
    with pytest.raises(
        DefinitionError, match=f"extra_body' cannot have '{name}', which is written from the agent's"
    ):
        tw.Prompt("p", model_settings={"extra_body": {name: 1}})
