"""Models by name, and the errors of invalid names."""

from contextlib import suppress
from importlib.metadata import metadata
from pathlib import Path

import pytest
from pydantic_ai.providers import infer_provider_class

from toolwright.adapters.executors.request import resolve as resolve_host
from toolwright.adapters.mcp.servers import McpConnections
from toolwright.adapters.models.providers.provider import PROVIDERS, missing_sdk
from toolwright.adapters.models.resolve import Resolver, resolve
from toolwright.core.errors import DefinitionError, MissingExtra, ModelRefused
from toolwright.core.tools.mcp import McpServer, target_of
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.wiring.executors import HttpTools
from toolwright.wiring.lazy import open_embedder
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["gpt-6.1-terra", "", ":gpt-6.1-terra", "test"])
def test_a_name_without_a_provider_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match=r"needs a provider, as in 'openai:gpt-6\.1-terra'"):
        resolve(name)


def test_a_provider_without_a_model_is_refused() -> None:
    with pytest.raises(DefinitionError, match="The model 'openai:' has no name"):
        resolve("openai:")


def test_a_provider_is_suggested_only_if_it_is_nearly_the_same() -> None:
    with pytest.raises(DefinitionError, match="Did you mean 'anthropic'"):
        resolve("antropic:claude")
    with pytest.raises(DefinitionError) as raised:
        resolve("nope:x")
    assert "Did you mean" not in raised.value.message


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(DefinitionError, match=r"'nobody:gpt-6\.1-terra' has an unknown provider: 'nobody'"):
        resolve("nobody:gpt-6.1-terra")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("opnai:gpt-6.1-terra", "openai"), ("anthropi:claude", "anthropic"), ("olama:llama3", "ollama")],
)
def test_an_unknown_provider_is_answered_with_the_nearest_and_all_others(name: str, meant: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        resolve(name)
    assert f"Did you mean {meant!r}? Providers: anthropic, azure, " in refused.value.message


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each != "scripted"])
def test_each_provider_that_an_error_names_exists(provider: str) -> None:
    with suppress(ImportError):  # its library is not installed
        infer_provider_class(provider)


WEATHER = Tool.from_config(
    {
        "name": "weather",
        "description": "Get the weather.",
        "inputSchema": {"type": "object", "properties": {}},
        "executionType": "gateway",
        "execution": {"url": "https://weather.example/today", "method": "GET"},
    }
)
CERTIFICATES = [
    ("SSL_CERT_FILE", "nowhere.pem", "'nowhere.pem': No such file or directory."),
    ("SSL_CERT_FILE", __file__, "it holds no certificates in PEM format."),
    ("SSL_CERT_DIR", "nowhere", "'nowhere': it is not a folder."),
]


@pytest.mark.parametrize(("variable", "path", "end"), CERTIFICATES)
async def test_certificates_that_cannot_be_read_are_named_with_their_variable(
    variable: str, path: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv(variable, path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    beginning = f"The certificates that {variable} names cannot be read: "
    for call in (
        lambda: resolve("openai:gpt-6.1-terra"),
        lambda: open_embedder("openai:text-embedding-3-small"),
    ):
        with pytest.raises(DefinitionError) as refused:
            call()
        assert beginning in refused.value.message and refused.value.message.endswith(end)
    http_tools = HttpTools(Settings())
    result = await Toolset([WEATHER], executors={"gateway": http_tools}).call("weather", {})
    assert (result.error or "").startswith(beginning) and (result.error or "").endswith(end)
    servers = McpConnections(resolve=resolve_host)
    listing = await servers.listing(target_of(McpServer(name="docs", url="https://docs.example/mcp"), {}), 10)
    await servers.aclose()
    assert beginning in str(listing.faults)


def test_a_variable_that_is_no_key_is_not_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    with pytest.raises(ModelRefused) as refused:
        resolve("ollama:llama3")
    wanted = "The model 'ollama:llama3' is not set up: set the environment variable OLLAMA_BASE_URL."
    assert refused.value.message == wanted


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai:gpt-6.1-terra", "OPENAI_API_KEY"), ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_names_its_environment_variable(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(other, raising=False)
    with pytest.raises(ModelRefused, match=f"{name!r} has no key: set the environment variable {variable}"):
        resolve(name)


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai:gpt-6.1-terra", "OPENAI_API_KEY"), ("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY")],
)
def test_an_empty_key_is_a_missing_one(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv(variable, "")
    with pytest.raises(ModelRefused, match=f"{name!r} has no key: set the environment variable {variable}"):
        resolve(name)


def test_a_provider_whose_sdk_is_not_installed_says_what_to_install() -> None:
    with pytest.raises(MissingExtra, match=r": pip install 'pydantic-ai-slim\[huggingface\]'\.$"):
        resolve("huggingface:llama-4")


@pytest.mark.parametrize("extra", ["openai", "anthropic", "google", "bedrock", "groq", "mistral", "cohere"])
def test_our_own_extras_are_named_by_our_name(extra: str) -> None:
    assert extra in (metadata("toolwright-agents").get_all("Provides-Extra") or ())
    error = ImportError(f'Please install … `pip install "pydantic-ai-slim[{extra}]"`')
    assert missing_sdk(f"{extra}:some-model", error).message.endswith(
        f"needs pydantic-ai-slim[{extra}], which is not installed: pip install 'toolwright-agents[{extra}]'."
    )


async def test_a_resolver_makes_each_model_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    script = tmp_path / "demo.yaml"
    script.write_text("- text: Hi\n")
    resolver = Resolver()
    assert resolver.resolve("openai:gpt-6.1-terra") is resolver.resolve("openai:gpt-6.1-terra")
    assert resolver.resolve("openai:gpt-6.1-terra").name == "openai:gpt-6.1-terra"
    assert resolver.resolve(f"scripted:{script}").name == f"scripted:{script}"
    await resolver.aclose()
