"""S1: its examples over the wire formats of real providers with structured output, and each of its statements."""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.models.wire_server import WireServer
from tests.printed import COMPOSED, GREET, PRINTED_CALL, SENTIMENT, SUMMARY
from toolwright.core.errors import SolutionError
from toolwright.core.json_value import JSON
from toolwright.testing import ScriptedModel, runtime

pytestmark = pytest.mark.anyio

WIRES = ("openai:gpt-6.1-terra", "openai-chat:gpt-6.1-terra", "anthropic:claude-sonnet-5-5")
WEATHER: dict[str, Any] = {
    "type": "object",
    "description": "Looks up the weather of a city",
    "properties": {
        "_activity": {"const": "lookUpWeather"},
        "city": {"type": "string"},
        "_output": {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]},
    },
    "required": ["city"],
}
SUMMED_UP = {"summary": "All is well."}


@dataclass
class Provider:
    """A provider on loopback, and the name of a model that uses it."""

    server: WireServer
    model: str

    def answers(self, *answers: Any) -> None:  # any JSON
        """Set the answers of the provider, one after another."""
        for answer in answers:
            text = json.dumps(answer)
            half = len(text) // 2
            self.server.answer(text=(text[:half], text[half:]))

    def asked(self, number: int) -> dict[str, Any]:
        """Return the schema that the provider was asked to follow."""
        match self.server.requests[number].body:
            case {"text": {"format": {"schema": dict(schema)}}}:  # OpenAI, Responses
                return schema
            case {"response_format": {"json_schema": {"schema": dict(schema)}}}:  # OpenAI, chat completions
                return schema
            case {"output_config": {"format": {"schema": dict(schema)}}}:  # Anthropic
                return schema
            case body:
                raise AssertionError(f"no structured output was asked for: {body}")

    def told(self, number: int) -> str:
        """Return all texts of a request."""
        return json.dumps(self.server.requests[number].body, ensure_ascii=False)


@pytest.fixture(params=WIRES)
async def provider(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Provider]:
    """Each of the three wire formats; the client libraries are the providers' own."""
    async with WireServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.base_url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        yield Provider(server, request.param)


def greet(userName: str) -> str:  # noqa: N803 - as the document spells it
    return f"Hello {userName}!"


def sentiment(text: str) -> dict[str, str]:
    return {"sentiment": "negative" if "worst" in text else "positive"}


def weather(city: str) -> dict[str, int]:
    return {"celsius": 21 if city == "Rome" else 3}


def rate(text: str) -> str:
    return f"rated {text}"


def tools(*names: str) -> dict[str, Any]:
    return {"type": "tool", "tool": list(names)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def solved(
    registry: tw.Registry, model: object, *context: Mapping[str, Any], schema: object = SUMMARY, **config: Any
) -> tw.Solution:
    async with runtime(tw.App(registry=registry)) as rt:
        return await rt.request({"model": model, **config}, schema, context)


def scripted(*answers: Any) -> ScriptedModel:  # any JSON
    return ScriptedModel([{"json": answer} for answer in answers])


def results(solution: tw.Solution) -> list[JSON]:
    return [None if call.result is None else call.result.result for call in solution.calls]


@requirement("S1-1-1", "S1-1-2", "S1-1-3", "S1-3-8", "S1-3-9", "S1-4-1", "S1-7-1")
async def test_the_printed_tool_is_executed_by_the_model_itself(provider: Provider) -> None:
    registry = tw.Registry()
    registry.tool("sentimentAnalysis", SENTIMENT)
    provider.answers({"output": None, "calls": [PRINTED_CALL]}, {"output": SUMMED_UP, "calls": []})
    solution = await solved(
        registry,
        provider.model,
        tools("sentimentAnalysis"),
        text("What is the sentiment of 'This is the best!'?"),
    )
    [call] = solution.calls
    assert (call.tool, call.args) == ("sentimentAnalysis", {"text": "This is the best!"})
    assert call.result is not None and call.result.result == PRINTED_CALL["_output"]
    assert solution.output == SUMMED_UP
    [item] = [provider.asked(0)["properties"]["calls"]["items"]]
    assert {"_tool", "text", "_output"} == set(item["properties"])
    assert "positive" in provider.told(1), "the next request tells the result"


@requirement("S1-1-2", "S1-2-2", "S1-3-3", "S1-7-2", "S1-7-3")
async def test_the_same_tool_with_a_function_is_executed_by_that(provider: Provider) -> None:
    registry = tw.Registry()
    registry.tool("sentimentAnalysis", SENTIMENT)
    registry.handler("sentimentAnalysis", sentiment)
    lies = {**PRINTED_CALL, "text": "The worst", "_output": {"sentiment": "positive"}}
    provider.answers({"output": None, "calls": [lies]}, {"output": SUMMED_UP, "calls": []})
    solution = await solved(registry, provider.model, tools("sentimentAnalysis"), text("And this?"))
    assert results(solution) == [{"sentiment": "negative"}]
    item = provider.asked(0)["properties"]["calls"]["items"]
    assert "_output" not in item["properties"], "what code carries out the model is not asked for"


@requirement("S1-5-1", "S1-5-2", "S1-5-5", "S1-5-6")
async def test_the_printed_request_greets_and_sums_up(provider: Provider) -> None:
    assert tw.compose(SUMMARY, {"greetUser": GREET}) == COMPOSED
    registry = tw.Registry()
    registry.handler("greetUser", greet)
    provider.answers(
        {"output": None, "calls": [{"_tool": "greetUser", "userName": "Ann"}]},
        {"output": SUMMED_UP, "calls": []},
    )
    solution = await solved(
        registry, provider.model, {"type": "tool", "tool": {"greetUser": GREET}}, text("some prompt here")
    )
    assert (solution.output, results(solution), solution.steps) == (SUMMED_UP, ["Hello Ann!"], 2)
    asked = provider.asked(0)
    assert set(asked["properties"]) == {"output", "calls"}
    assert asked["properties"]["calls"]["items"]["properties"]["_tool"]["const"] == "greetUser"
    assert "some prompt here" in provider.told(0) and "Hello Ann!" in provider.told(1)


@requirement("S1-2-1", "S1-2-3", "S1-3-3", "S1-5-4", "S1-7-2")
async def test_the_weather_is_checked_by_code_and_judged_by_the_model_in_one_answer(
    provider: Provider,
) -> None:
    registry = tw.Registry()
    registry.tool("weather", WEATHER)
    registry.tool("sentimentAnalysis", SENTIMENT)
    registry.handler("lookUpWeather", weather)
    calls: list[JSON] = [{"_tool": "weather", "city": "Rome"}, PRINTED_CALL]
    provider.answers({"output": SUMMED_UP, "calls": calls})
    solution = await solved(
        registry, provider.model, tools("weather", "sentimentAnalysis"), text("How is it in Rome?")
    )
    assert results(solution) == [{"celsius": 21}, PRINTED_CALL["_output"]]
    assert (solution.output, solution.steps) == (SUMMED_UP, 1)
    assert len(provider.asked(0)["properties"]["calls"]["items"]["anyOf"]) == 2


@requirement("S1-5-3")
async def test_an_output_without_calls_is_enough(provider: Provider) -> None:
    provider.answers({"output": SUMMED_UP, "calls": []})
    solution = await solved(tw.Registry(), provider.model, text("Sum up."))
    assert (solution.output, solution.calls, solution.steps) == (SUMMED_UP, (), 1)


@requirement("S1-1-3", "S1-1-4")
async def test_what_breaks_the_schema_is_sent_back_with_its_errors(provider: Provider) -> None:
    registry = tw.Registry()
    registry.tool("greetUser", GREET)
    registry.handler("greetUser", greet)
    provider.answers(
        {"output": {"summary": 3}, "calls": [{"_tool": "greetUser"}]}, {"output": SUMMED_UP, "calls": []}
    )
    solution = await solved(registry, provider.model, tools("greetUser"), text("Greet."))
    assert (solution.output, solution.calls) == (SUMMED_UP, ())
    told = provider.told(1)
    assert "output.summary: must be a string, not a number" in told
    assert "calls.0.userName: is missing" in told
    for _ in range(3):
        provider.answers({"output": {"summary": 3}, "calls": []})
    with pytest.raises(SolutionError, match="broke its schema 3 times in a row"):
        await solved(registry, provider.model, text("Sum up."))


@requirement("S1-3-1", "S1-3-2", "S1-3-7", "S1-3-8")
def test_a_tool_is_a_json_schema_whose_fields_with_an_underscore_are_no_parameters() -> None:
    tool = tw.Tool.from_schema("sentimentAnalysis", {**SENTIMENT, "title": "Sentiment"})
    assert list(tool.parameters["properties"]) == ["text"]  # type: ignore[arg-type]  # an object
    assert (tool.description, tool.handler) == ("Analyzes text sentiment", None)
    assert tool.meta is not None and tool.meta.title == "Sentiment"
    assert tw.Tool.from_schema("bare", {"type": "object"}).description == ""


@requirement("S1-3-4")
async def test_a_delegate_sees_nothing_of_the_request_but_the_call() -> None:
    registry = tw.Registry()
    review = {
        **GREET,
        "description": "Reviews",
        "properties": {**GREET["properties"], "_delegate": {"const": "anonymous"}},
    }
    registry.tool("review", review)
    asked: list[str] = []

    class Told(ScriptedModel):
        async def respond(self, request: Any) -> AsyncGenerator[Any]:
            if request.who[-1] == "review":
                asked.extend([request.system, *[message.content for message in request.messages]])
            async for event in super().respond(request):
                yield event

    model = Told(
        {
            "request": [
                {"json": {"output": None, "calls": [{"_tool": "review", "userName": "Ann"}]}},
                {"json": {"output": SUMMED_UP, "calls": []}},
            ],
            "review": [{"json": {"output": "Good.", "calls": []}}],
        }
    )
    solution = await solved(registry, model, tools("review"), text("A secret matter"))
    assert results(solution) == ["Good."]
    assert "Ann" in "\n".join(asked) and "A secret matter" not in "\n".join(asked)


@requirement("S1-3-5", "S1-6-1", "S1-6-2")
async def test_an_output_path_is_written_whether_the_tool_fixes_it_or_the_call_chooses() -> None:
    registry = tw.Registry()
    with_path = {"text": {"type": "string"}, "_output": {"type": "string"}}
    registry.tool(
        "note", {"type": "object", "properties": {**with_path, "_outputPath": {"const": "†state.fixed"}}}
    )
    registry.tool("keep", {"type": "object", "properties": {**with_path, "_outputPath": {}}})
    chosen = {"path": "†state.list", "method": "push"}
    calls: list[Any] = [
        {"_tool": "note", "text": "a", "_output": "A"},
        {
            "_tool": "keep",
            "text": "†state.fixed",
            "_output": "B",
            "_outputPath": chosen,
        },
    ]
    solution = await solved(
        registry, scripted({"output": SUMMED_UP, "calls": calls}), tools("note", "keep"), text("x")
    )
    assert solution.state == {"fixed": "A", "list": ["B"]}
    assert [call.meta.get("_outputPath") for call in solution.calls] == ["†state.fixed", chosen]


@requirement("S1-3-6")
async def test_a_hundred_comments_in_one_request_keep_their_states_apart() -> None:
    registry = tw.Registry()
    registry.tool(
        "rate",
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "_instance": {"type": "string"},
                "_outputPath": {"const": "†state.rating"},
            },
            "required": ["text"],
        },
    )
    registry.handler("rate", rate)
    names = [f"comment {number}" for number in range(100)]
    instances: list[Mapping[str, Any]] = [
        {"type": "state", "state": {"comment": f"text {number}"}, "instance": name}
        for number, name in enumerate(names)
    ]
    calls: list[JSON] = [
        {"_tool": "rate", "text": "†state.comment", "_instance": name} for name in reversed(names)
    ]
    solution = await solved(
        registry, scripted({"output": SUMMED_UP, "calls": calls}), tools("rate"), *instances
    )
    assert solution.states == {
        name: {"comment": f"text {number}", "rating": f"rated text {number}"}
        for number, name in enumerate(names)
    }
    assert solution.state == {}


@requirement("S1-3-10")
async def test_a_call_says_why_it_is_made_where_that_is_asked_for() -> None:
    registry = tw.Registry()
    registry.tool("sentimentAnalysis", SENTIMENT)
    calls = [{**PRINTED_CALL, "_reasoningForCall": "It is about a mood."}]
    answer = {"output": SUMMED_UP, "calls": calls}
    solution = await solved(
        registry, scripted(answer), tools("sentimentAnalysis"), text("x"), call_reasoning=True
    )
    [call] = solution.calls
    assert (call.reasoning, call.args) == ("It is about a mood.", {"text": "This is the best!"})
    composed = tw.compose(SUMMARY, {"sentimentAnalysis": SENTIMENT})
    assert "_reasoningForCall" not in json.dumps(composed)
