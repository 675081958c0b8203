"""Schema tools (S1) in runs, by native tool calling: latent ones, and ones with a handler."""

from typing import Any

import pytest

import toolwright as tw
from tests.kit import ran
from toolwright.core.errors import DefinitionError
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Topic
from toolwright.testing import ScriptedModel, runtime

pytestmark = pytest.mark.anyio

SENTIMENT = {
    "type": "object",
    "description": "Analyzes text sentiment",
    "properties": {
        "_tool": {"type": "string", "const": "sentimentAnalysis"},
        "text": {"type": "string", "description": "Text to analyze"},
        "_output": {
            "type": "object",
            "properties": {"sentiment": {"type": "string"}, "confidence": {"type": "number"}},
            "required": ["sentiment"],
        },
    },
    "required": ["text"],
}
ANSWER = {"sentiment": "positive", "confidence": 0.99}


def sure(text: str) -> dict[str, Any]:
    assert text
    return ANSWER


def registered() -> tw.Registry:
    registry = tw.Registry()
    registry.tool("sentimentAnalysis", SENTIMENT)
    return registry


async def called(registry: tw.Registry, args: dict[str, Any]) -> tuple[Call, list[str]]:
    """Return the one call of a run, and the types of its events."""
    model = ScriptedModel([{"calls": [{"name": "sentimentAnalysis", "args": args}]}, {"text": "Done."}])
    app = tw.App(
        agents=[tw.Agent("reader", tw.Prompt("reader", model=model, tools=["sentimentAnalysis"]))],
        registry=registry,
    )
    async with runtime(app) as rt:
        run = await ran(rt, "reader", "This is the best!")
        assert (run.status, run.output) == ("completed", "Done.")
        [call] = await rt.calls.list(run_id=run.id, status=())
        events = await rt.events.list(Topic(kind="run", id=run.id))
        return call, [event.type for event in events if event.type.startswith("tool.")]


async def test_a_latent_tool_has_the_models_own_output_as_its_result() -> None:
    call, events = await called(registered(), {"text": "This is the best!", "_output": ANSWER})
    assert (call.kind, call.status) == ("latent", "done")
    assert call.result == {"status": "success", "result": ANSWER}
    assert events == ["tool.started", "tool.done"]


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ({"text": "Fine."}, "_output"),
        ({"text": "Fine.", "_output": {"confidence": 1}}, "_output.sentiment"),
        ({"text": "Fine.", "_output": {"sentiment": 1}}, "_output.sentiment"),
    ],
)
async def test_an_output_that_its_schema_refuses_is_an_error_that_names_the_place(
    args: dict[str, Any], fault: str
) -> None:
    call, _ = await called(registered(), args)
    assert call.status == "error"
    assert call.result is not None
    assert call.result["error_code"] == "invalid_arguments"
    assert fault in str(call.result["error"])


async def test_a_handler_carries_the_same_tool_out_and_an_output_of_the_model_is_dropped() -> None:
    registry = registered()
    seen: list[tuple[dict[str, Any], tw.Call]] = []

    @registry.handler("sentimentAnalysis")
    async def analyse(args: dict[str, Any], call: tw.Call, state: tw.ThreadState) -> dict[str, Any]:
        assert state.call_id
        seen.append((args, call))
        return ANSWER

    assert analyse
    call, events = await called(registry, {"text": "Good.", "_output": {"sentiment": "made up"}})
    assert (call.kind, call.status, call.result) == (
        "function",
        "done",
        {"status": "success", "result": ANSWER},
    )
    assert events == ["tool.started", "tool.done"]
    [(args, made)] = seen
    assert args == {"text": "Good."} == made.args
    assert "_output" not in made.meta


@pytest.mark.parametrize("count", [1, 2_000])
async def test_a_result_of_a_handler_that_the_output_does_not_allow_is_an_error_result(count: int) -> None:
    registry = registered()

    @registry.handler("sentimentAnalysis")
    def analyse(text: str) -> dict[str, Any]:
        assert text
        return {"confidence": ["much"] * count}

    assert analyse
    call, _ = await called(registry, {"text": "Good."})
    assert call.result is not None
    assert (call.status, call.result["error_code"]) == ("error", "invalid_output")
    assert str(call.result["error"]).startswith(
        "Tool 'sentimentAnalysis' returned a result that its _output does not allow: "
    )
    assert "sentiment" in str(call.result["error"])


async def test_an_error_of_a_handler_is_not_validated_as_a_result() -> None:
    registry = registered()

    @registry.handler("sentimentAnalysis")
    def analyse(text: str) -> tw.ToolResult:
        return tw.ToolResult.fail(f"No idea of {text}", error_code="unsure")

    assert analyse
    call, _ = await called(registry, {"text": "Good."})
    assert call.result is not None
    assert (call.result["error"], call.result["error_code"]) == ("No idea of Good.", "unsure")


async def test_a_latent_tool_without_an_output_gives_its_arguments() -> None:
    registry = tw.Registry()
    registry.tool("sentimentAnalysis", {"type": "object", "properties": {"text": {"type": "string"}}})
    call, _ = await called(registry, {"text": "Good.", "_output": {"sentiment": "made up"}})
    assert call.result == {"status": "success", "result": {"success": True, "args": {"text": "Good."}}}


async def test_the_model_is_asked_for_the_output_of_a_latent_tool_alone() -> None:
    latent = registered()
    explicit = registered()
    explicit.handler("sentimentAnalysis", sure)
    [asked], [told] = (tw.App(registry=each).catalog.tools for each in (latent, explicit))
    assert [*asked.definition.parameters["properties"]] == ["text", "_output"]  # type: ignore[misc]  # JSON
    assert [*told.definition.parameters["properties"]] == ["text"]  # type: ignore[misc]  # the same
    assert asked.parameters == told.parameters


def test_an_activity_without_a_handler_is_an_error_when_the_app_is_made() -> None:
    registry = tw.Registry()
    registry.tool("search", {"type": "object", "properties": {"_activity": {"const": "webSearch"}}})
    with pytest.raises(DefinitionError, match="No handler is registered for the _activity of 'search'"):
        tw.App(registry=registry)
    registry.handler("webSearch", lambda: "found")
    assert [tool.kind for tool in tw.App(registry=registry).catalog.tools] == ["function"]


def test_a_registry_and_the_tools_of_an_app_share_their_names() -> None:
    tool = tw.Tool.from_schema("sentimentAnalysis", SENTIMENT)
    with pytest.raises(DefinitionError, match="sentimentAnalysis"):
        tw.App(tools=[tool], registry=registered())
    with pytest.raises(DefinitionError, match="App: the registry must be a Registry, not"):
        tw.App(registry=[tool])  # type: ignore[arg-type]  # a mistake


async def test_a_toolset_judges_a_handlers_result_too() -> None:
    registry = registered()

    @registry.handler("sentimentAnalysis")
    def analyse(text: str) -> str:
        return text

    assert analyse
    result = await tw.Toolset(registry.tools()).call("sentimentAnalysis", {"text": "Good."})
    assert (result.status, result.error_code) == ("error", "invalid_output")


@pytest.mark.parametrize(
    ("name", "schema"), [("_outputPath", {"const": "†state.a"}), ("_outputPath", {}), ("_instance", {})]
)
def test_a_meta_property_of_the_state_is_taken(name: str, schema: dict[str, Any]) -> None:
    registry = tw.Registry()
    registry.tool("note", {"type": "object", "properties": {name: schema}})
    [tool] = tw.App(registry=registry).catalog.tools
    offered = tool.definition.parameters["properties"]
    assert (offered == {name: schema}) == (schema == {})
