"""Composed requests (S1): repeated until there is an output, with calls executed like those of any run."""

import json
from typing import Any

import pytest

import toolwright as tw
from tests.kit import Watched
from tests.printed import COMPOSED, SENTIMENT
from tests.runtime.solving import (
    DONE,
    SUMMARY,
    TEXT,
    TOOL,
    Raw,
    greet,
    greeting,
    said,
    solved,
)
from toolwright.core.errors import (
    DefinitionError,
    InvalidConfiguration,
    InvalidRequest,
    SolutionError,
)
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.threads.run import Usage
from toolwright.testing import runtime

pytestmark = pytest.mark.anyio


async def test_the_documents_example_is_asked_called_and_solved() -> None:
    solution, model = await solved([said(None, greet("Ada")), said(DONE)])
    first, second = model.requests
    assert first.answer is not None
    assert first.answer.schema == COMPOSED
    assert second.answer is first.answer
    assert (first.tools, second.tools) == ((), ())
    assert [(m.role, m.content) for m in first.messages] == [("user", "some prompt here")]
    assert [(m.role, m.content) for m in second.messages[1:]] == [
        ("assistant", said(None, greet("Ada"))["text"]),
        ("user", "Results of the calls:\n1. greetUser: Hello Ada"),
    ]
    assert not any(message.calls for message in second.messages)
    [call] = solution.calls
    assert (call.tool, call.args, call.meta, call.reasoning) == ("greetUser", {"userName": "Ada"}, {}, None)
    assert call.result == tw.ToolResult.ok("Hello Ada")
    assert (solution.output, solution.steps, solution.stop_reason) == (DONE, 2, "end_turn")
    assert (solution.state, solution.states) == ({}, {})
    assert solution.usage.input_tokens > 0
    assert solution.run_id
    assert solution.thread_id


async def test_an_output_alone_ends_it_with_the_first_answer() -> None:
    solution, model = await solved([said(DONE)])
    assert (solution.output, solution.calls, solution.steps) == (DONE, (), 1)
    assert len(model.requests) == 1


async def test_an_answer_with_both_is_the_last_and_its_calls_are_executed() -> None:
    solution, model = await solved([said(DONE, greet("Ada"), greet("Bob"))])
    assert (solution.output, len(model.requests), solution.steps) == (DONE, 1, 1)
    assert [call.result for call in solution.calls] == [
        tw.ToolResult.ok("Hello Ada"),
        tw.ToolResult.ok("Hello Bob"),
    ]


async def test_an_answer_with_neither_is_asked_on() -> None:
    solution, model = await solved([said(None), said(DONE)])
    assert (solution.output, solution.steps) == (DONE, 2)
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "user"]


async def test_the_steps_of_a_request_are_bounded() -> None:
    solution, model = await solved([said(None, greet("Ada"))] * 9, config={"max_steps": 3})
    assert (solution.output, solution.stop_reason, solution.steps) == (None, "max_steps", 3)
    assert (len(solution.calls), len(model.requests)) == (3, 3)


async def test_the_calls_of_one_answer_are_made_one_after_another_in_its_order() -> None:
    names = ["Ada", "Bob", "Cy"]
    solution, model = await solved([said(None, *map(greet, names)), said(None, greet("Dee")), said(DONE)])
    assert [call.args["userName"] for call in solution.calls] == [*names, "Dee"]
    assert model.requests[1].messages[-1].content.splitlines() == [
        "Results of the calls:",
        *(f"{number}. greetUser: Hello {name}" for number, name in enumerate(names, 1)),
    ]


async def test_a_call_that_fails_is_reported_as_failed() -> None:
    registry = tw.Registry()

    @registry.handler("greetUser")
    def refuse(userName: str) -> str:  # noqa: N803 - as S1 spells it
        raise ValueError(f"{userName} is out")

    assert refuse
    solution, model = await solved([said(None, greet("Ada")), said(DONE)], app=tw.App(registry=registry))
    assert '1. greetUser failed: {"error":"Ada is out"}' in model.requests[1].messages[-1].content
    assert solution.calls[0].result is not None
    assert solution.calls[0].result.status == "error"


async def test_the_providers_own_calls_are_taken_and_shown_as_an_answer_from_then_on() -> None:
    made = ModelCall(id="c1", name="greetUser", arguments='{"userName": "Ada"}')
    model = Raw(ModelResponse(calls=(made,), native={"any": 1}), said(DONE)["text"])
    async with runtime(tw.App(registry=greeting())) as rt:
        solution = await rt.request({"model": model}, SUMMARY, [TOOL, TEXT])
    assert [call.result for call in solution.calls] == [tw.ToolResult.ok("Hello Ada")]
    _, answer, results = model.requests[1].messages
    assert json.loads(answer.content) == {"calls": [greet("Ada")], "output": None}
    assert (answer.calls, answer.native) == ((), None)
    assert results.content == "Results of the calls:\n1. greetUser: Hello Ada"


async def test_every_field_of_the_config_reaches_the_model() -> None:
    config = {
        "system": "Be brief.",
        "temperature": 0,
        "topP": 0.5,
        "max_tokens": 100,
        "seed": 7,
        "reasoning": "low",
        "maxSteps": 4,
    }
    _, model = await solved([said(DONE)], config=config)
    [request] = model.requests
    settings = request.settings
    assert settings is not None
    assert (settings.temperature, settings.top_p, settings.max_tokens, settings.seed) == (0, 0.5, 100, 7)
    assert request.reasoning == "low"
    assert request.system.startswith("Be brief.\n\nAnswer with one JSON object")


async def test_a_model_is_named_too() -> None:
    async with runtime(tw.App()) as rt:
        with pytest.raises(SolutionError, match=r"nowhere\.yaml"):
            await rt.request({"model": "scripted:nowhere.yaml"}, SUMMARY, "Go")
        with pytest.raises(InvalidRequest, match="must not begin with 'object:'"):
            await rt.request({"model": "object:gpt"}, SUMMARY, "Go")
        with pytest.raises(SolutionError, match="no model"):
            await rt.request({}, SUMMARY, "Go")


async def test_a_request_says_why_each_call_is_made_if_that_is_asked_for() -> None:
    @tw.tool(description="Greet.")
    def hail(name: str) -> str:
        return f"Hail {name}"

    reason = {"_reasoningForCall": "They are new."}
    solution, model = await solved(
        [said(None, greet("Ada", **reason), {"_tool": "hail", "name": "Bob", **reason}), said(DONE)],
        [TOOL, {"type": "tool", "tool": "hail"}, TEXT],
        config={"call_reasoning": True},
        app=tw.App(tools=[hail], registry=greeting()),
    )
    assert [call.reasoning for call in solution.calls] == ["They are new."] * 2
    assert [call.args for call in solution.calls] == [{"userName": "Ada"}, {"name": "Bob"}]
    schema = model.requests[0].answer
    assert schema is not None
    assert "_reasoningForCall" in json.dumps(schema.schema)


async def test_functions_of_the_app_are_called_by_their_names() -> None:
    @tw.tool(description="Add.")
    def add(a: int, b: int = 1) -> int:
        return a + b

    solution, model = await solved(
        [said(None, {"_tool": "add", "a": 1}), said({"sum": 2})],
        [{"type": "tool", "tool": ["add"]}, TEXT],
        {"type": "object", "properties": {"sum": {"type": "integer"}}},
        app=tw.App(tools=[add]),
    )
    [call] = solution.calls
    assert (call.tool, call.args, call.meta, call.result) == ("add", {"a": 1}, {}, tw.ToolResult.ok(2))
    assert model.requests[0].tools == ()


POSITIVE: JSONObject = {"sentiment": "positive", "confidence": 0.99}
ASKED: JSONObject = {"_tool": "sentimentAnalysis", "text": "This is the best!", "_output": POSITIVE}


def sentiment(text: str) -> JSONObject:
    return {"sentiment": f"of {text}"}


@pytest.mark.parametrize("explicit", [False, True])
async def test_who_carries_a_tool_out_is_a_matter_of_the_registry_alone(explicit: bool) -> None:
    registry = tw.Registry()
    if explicit:
        registry.handler("sentimentAnalysis", sentiment)
    context = [{"type": "tool", "tool": {"sentimentAnalysis": SENTIMENT}}, TEXT]
    model = Watched([said(None, ASKED), said(DONE)])
    async with runtime(tw.App(registry=registry)) as rt:
        solution = await rt.request({"model": model}, SUMMARY, context)
        [row] = await rt.calls.list(run_id=solution.run_id, status=())
    assert row.kind == ("function" if explicit else "latent")
    [call] = solution.calls
    result = sentiment("This is the best!") if explicit else POSITIVE
    assert call.result == tw.ToolResult.ok(result)
    assert call.meta == ({} if explicit else {"_output": POSITIVE})
    assert call.args == {"text": "This is the best!"}
    assert model.requests[0].answer is not None
    offered = "_output" in json.dumps(model.requests[0].answer.schema)
    assert offered is not explicit
    assert ("carried out by you" in model.requests[0].system) is not explicit


async def test_calls_that_a_handler_queues_are_made_and_told_of_in_the_same_form() -> None:
    @tw.tool(description="Greet later.")
    def later(state: tw.ThreadState) -> str:
        state.queue_tool("greetUser", {"userName": "Ada"})
        return "Later."

    solution, model = await solved(
        [said(None, {"_tool": "later"}), said(DONE)],
        [TOOL, {"type": "tool", "tool": "later"}, TEXT],
        app=tw.App(tools=[later], registry=greeting()),
    )
    assert [call.tool for call in solution.calls] == ["later", "greetUser"]
    answer, results = model.requests[1].messages[-2:]
    assert json.loads(answer.content) == {"output": None, "calls": [greet("Ada")]}
    assert results.content == "Results of the calls:\n1. greetUser: Hello Ada"


REFUSED_TOOLS: list[tuple[list[Any], str]] = [
    (
        [{"type": "tool", "tool": "hale"}],
        "names the tool 'hale', which the app does not have. Did you mean 'hail'",
    ),
    ([TOOL, {"type": "tool", "tool": {"greetUser": {"type": "object"}}}], "greetUser"),
    ([TOOL, {"type": "tool", "tool": ["hail"]}, {"type": "tool", "tool": {"hail": {}}}], "hail"),
]


@pytest.mark.parametrize(("context", "words"), REFUSED_TOOLS)
async def test_tools_that_are_not_there_or_there_twice_are_refused(context: list[Any], words: str) -> None:
    @tw.tool(description="Hail.")
    def hail(name: str) -> str:
        return name

    async with runtime(tw.App(tools=[hail])) as rt:
        with pytest.raises(DefinitionError, match=words):
            await rt.request({"model": Watched([])}, SUMMARY, context)
        assert await rt.threads.list() == []


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"temprature": 1}, "config.temprature"),
        ({"temperature": "hot"}, "config.temperature"),
        ({"max_steps": True}, "config.max_steps"),
        ({"model": 5}, "config.model"),
        ({"reasoning": "much"}, "config.reasoning"),
    ],
)
async def test_an_invalid_config_is_refused_with_the_path(config: dict[str, Any], path: str) -> None:
    async with runtime(tw.App()) as rt:
        with pytest.raises(InvalidConfiguration) as caught:
            await rt.request(config, SUMMARY, "Go")
        assert [each["path"] for each in caught.value.details] == [path]
        assert await rt.threads.list() == []


async def test_the_usage_of_a_request_is_that_of_all_its_answers() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2}
    turns = [{**said(None), "usage": usage}, {"text": "No.", "usage": usage}, {**said(DONE), "usage": usage}]
    solution, _ = await solved(turns)
    assert solution.usage == Usage(input_tokens=9, output_tokens=6)
