"""The embedder of OpenAI over the wire: its requests, its results, and its names."""

import math
from collections.abc import AsyncGenerator, Sequence

import pytest

import toolwright as tw
from tests.models.wire_server import WireServer
from toolwright.adapters.models.embeddings import OpenAIEmbedder
from toolwright.core.agents.memory import PlacedVector
from toolwright.core.errors import ModelRefused, ModelUnavailable
from toolwright.core.ports import Embedder
from toolwright.runtime.agents.semantics import nearest, shortened, vector_of
from toolwright.testing import ScriptedModel, TrigramEmbedder
from toolwright.wiring.lazy import open_embedder

pytestmark = pytest.mark.anyio

NAME = "openai:text-embedding-3-small"
MODEL = ScriptedModel([{"text": "x"}])
APP = tw.App(agents=[tw.Agent("host", tw.Prompt("host", "x", model=MODEL), toolkits=["memory"])])


@pytest.fixture(autouse=True)
def variables(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the provider's environment variables to the wire server."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.base_url}/v1/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.fixture
async def embedder() -> AsyncGenerator[OpenAIEmbedder]:
    """Yield the embedder for the name and the environment."""
    made = open_embedder(NAME)
    yield made
    await made.aclose()


async def test_the_texts_are_asked_for_together_and_the_vectors_come_in_their_order(
    server: WireServer, embedder: OpenAIEmbedder
) -> None:
    server.answer(vectors=[[1, 0], [0.5, -0.25]])
    assert await embedder.embed(["one", "two"]) == [[1.0, 0.0], [0.5, -0.25]]
    [request] = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["one", "two"],
        "encoding_format": "float",
    }
    assert embedder.name == NAME


@pytest.mark.parametrize("texts", [["one"], ["garden", "Gardener", ""], ["half \ud800", "茶"]])
@pytest.mark.parametrize("kind", ["openai", "trigrams"])
async def test_every_embedder_gives_each_text_a_vector_of_one_size(
    server: WireServer, embedder: OpenAIEmbedder, kind: str, texts: list[str]
) -> None:
    server.answer(vectors=[[n, 1.0, 0.0] for n in range(len(texts))])
    made: Embedder = embedder if kind == "openai" else TrigramEmbedder()
    vectors = await made.embed([shortened(text) for text in texts])
    assert len(vectors) == len(texts)
    assert len({len(vector) for vector in vectors}) == 1
    assert all(math.isfinite(number) for vector in vectors for number in vector)
    assert made.name.partition(":")[0] == kind


async def test_words_that_share_letters_are_alike_without_a_model() -> None:
    texts = ["gardens", "GARDENER", "flower", "gardens"]
    first, *others = [vector_of("x", each) for each in await TrigramEmbedder().embed(texts)]
    assert first is not None
    rows = [
        PlacedVector(place=n, id=text, embedder="x", floats=vector and vector.floats)
        for n, (text, vector) in enumerate(zip(texts[1:], others, strict=True))
    ]
    assert [each.id for each in nearest(first, rows)] == ["gardens", "GARDENER"]


@pytest.mark.parametrize(("status", "kind"), [
    (400, ModelRefused), (401, ModelRefused), (404, ModelRefused),
    (408, ModelUnavailable), (429, ModelUnavailable), (500, ModelUnavailable), (503, ModelUnavailable),
])  # fmt: skip
async def test_errors_say_whether_another_try_is_worth_it(
    server: WireServer, embedder: OpenAIEmbedder, status: int, kind: type[Exception]
) -> None:
    server.fail(status, "no such thing")
    with pytest.raises(kind, match=rf"{NAME} \({status}\).*no such thing"):
        await embedder.embed(["one"])


@pytest.mark.parametrize("vectors", [[], [[1.0]], [["x"], [1.0]]])
async def test_answers_that_hold_other_things_than_vectors_are_errors(
    server: WireServer, embedder: OpenAIEmbedder, vectors: Sequence[Sequence[float]]
) -> None:
    server.answer(vectors=vectors)
    with pytest.raises(ModelUnavailable, match="did not return vectors"):
        await embedder.embed(["one", "two"])


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:1/v1", "nowhere", "http://[/v1"])
async def test_a_server_that_is_not_there_is_an_error(base_url: str) -> None:
    embedder = OpenAIEmbedder("text-embedding-3-small", key="sk-test", base_url=base_url)
    with pytest.raises(ModelUnavailable, match=f"{NAME} is unavailable"):
        await embedder.embed(["one"])
    await embedder.aclose()


async def test_the_setting_names_the_embedder_of_an_app(server: WireServer) -> None:
    server.answer(vectors=[[1.0, 0.0]])
    server.answer(vectors=[[0.9, 0.1]])
    async with tw.testing.runtime(APP, tw.Settings(embedder=NAME)) as rt:
        await rt.passages.add("host", "The dog.")
        [passage] = await rt.passages.search("host", "hound")
        assert passage.content == "The dog."
    assert [request.body["input"] for request in server.requests] == [["The dog."], ["hound"]]


async def test_an_embedder_without_a_key_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    with pytest.raises(ModelRefused, match=f"{NAME}.*OPENAI_API_KEY"):
        async with tw.testing.runtime(APP, tw.Settings(embedder=NAME)):
            pass
