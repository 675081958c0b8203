"""A wire server, and models by name that use it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest

from tests.models.asking import MakeModel
from tests.models.wire_server import WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel

WIRES = ("openai-chat:gpt-4o", "openai:gpt-4o", "anthropic:claude-sonnet-5-5")


@pytest.fixture
async def server() -> AsyncGenerator[WireServer]:
    """A provider on loopback, without a script yet."""
    async with WireServer() as server:
        yield server


@dataclass
class Pauses:
    """A clock that does not wait: it records the pauses."""

    seconds: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        """Record the pause."""
        self.seconds.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    """The pauses of a model between its attempts."""
    return Pauses()


@pytest.fixture
async def make_model(
    server: WireServer, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[MakeModel]:
    """Creates models by name, whose providers' environment variables point to the wire server."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.base_url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    made: list[PydanticAIModel] = []

    def make(name: str) -> PydanticAIModel:
        made.append(PydanticAIModel(name, sleep=pauses.sleep, random=lambda: 1.0))
        return made[-1]

    yield make
    for model in made:
        await model.aclose()


@pytest.fixture(params=WIRES)
def model(request: pytest.FixtureRequest, make_model: MakeModel) -> PydanticAIModel:
    """The same model over each of the three wire formats."""
    return make_model(request.param)
