"""Our tools in the OpenAI Agents SDK: its real runner, over the wire of OpenAI's Responses."""

import dataclasses
import json
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.tool import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from openai import AsyncOpenAI

import toolwright as tw
from tests.frameworks.tools import BAD, DOT, GOOD, TOOLS
from tests.models.wire_server import WireCall, WireServer
from toolwright.core.errors import DefinitionError

pytestmark = pytest.mark.anyio


async def outputs(server: WireServer, calls: list[tuple[str, Any]]) -> list[Any]:
    """Return the results of calls made one after another, as the model reads them."""
    for number, (name, arguments) in enumerate(calls):
        server.answer(calls=[WireCall(id=f"c{number}", name=name, arguments=(json.dumps(arguments),))])
    server.answer(text=["done"])
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k") as client:
        model = OpenAIResponsesModel("gpt-6.1-terra", client)
        agent = Agent[None]("guide", model=model, tools=TOOLS.for_openai_agents())
        streamed = Runner.run_streamed(agent, "go", run_config=RunConfig(tracing_disabled=True))
        async for _ in streamed.stream_events():
            pass
    assert streamed.final_output == "done"
    items = server.requests[-1].body["input"]
    assert isinstance(items, list)
    return [
        each["output"]
        for each in items
        if isinstance(each, dict) and each.get("type") == "function_call_output"
    ]


async def test_our_tools_are_called_by_its_runner_with_validated_arguments() -> None:
    async with WireServer() as server:
        good, bad, failed = await outputs(server, [("book", GOOD), ("book", BAD), ("fails", {"why": "rain"})])
        assert json.loads(good) == {"place": "Inn", "nights": [1, 2], "thread": "thread"}
        assert "place.rooms" in bad
        assert "nights.0" in bad
        assert "It fails: rain" in failed
        tools = server.requests[0].body["tools"]
        assert isinstance(tools, list)
        told: dict[str, Any] = {each["name"]: each for each in tools if isinstance(each, dict)}  # type: ignore[misc]
        for each in TOOLS:
            assert told[each.name]["parameters"] == each.parameters
            assert told[each.name]["strict"] is False


async def test_an_image_of_ours_is_shown_to_its_model() -> None:
    async with WireServer() as server:
        [drawn] = await outputs(server, [("draw", {})])
        assert [each["type"] for each in drawn] == ["input_text", "input_image"]
        assert drawn[0]["text"] == "A dot."
        assert drawn[1]["image_url"] == f"data:image/png;base64,{DOT}"


@function_tool
def greet(context: RunContextWrapper[str], name: str, times: int = 1) -> str:
    """Greet somebody.

    Args:
        name: Whom to greet.
    """
    return f"{context.context}, {name}" * times


async def test_a_function_tool_of_theirs_is_taken() -> None:
    taken = tw.Tool.from_openai_agents(greet, context="Good day")
    assert (taken.name, taken.description) == ("greet", "Greet somebody.")
    tools = tw.Toolset([taken])
    assert (await tools.call("greet", {"name": "Ann", "times": 1})).result == "Good day, Ann"
    refused = await tools.call("greet", {"name": 3, "times": 1})
    assert refused.error == "Invalid arguments: name: must be a string, not a number."


def test_one_among_ours_names_what_takes_it_and_nothing_else_is_taken() -> None:
    foreign: Any = [greet]  # as users do
    with pytest.raises(DefinitionError, match=r"'greet' .*tw\.Tool\.from_openai_agents"):
        tw.Agent("desk", instructions="", tools=foreign)
    with pytest.raises(DefinitionError, match="FunctionTool, not 3"):
        tw.Tool.from_openai_agents(3)


async def cuts(context: RunContextWrapper[str], arguments: dict[str, Any], _: str) -> bool:
    return context.context == "Ann" and arguments["name"] != "Bob"


def deleting(**options: Any) -> Any:
    def delete(context: RunContextWrapper[str], name: str) -> str:
        """Delete somebody."""
        return f"{context.context} deleted {name}"

    return function_tool(delete, **options)


@pytest.mark.parametrize(
    ("rule", "name", "outcome"),
    [
        (True, "Bob", "approval_required"),
        (False, "Eve", "Ann deleted Eve"),
        (cuts, "Eve", "approval_required"),
        (cuts, "Bob", "Ann deleted Bob"),
    ],
)
async def test_an_approval_that_a_tool_of_theirs_needs_is_needed_here(
    rule: Any, name: str, outcome: str
) -> None:
    tool = tw.Tool.from_openai_agents(deleting(needs_approval=rule), context="Ann")
    result = await tw.Toolset([tool]).call("delete", {"name": name})
    assert (result.error_code or result.result) == outcome


def test_a_timeout_of_theirs_is_the_timeout_here() -> None:
    async def wait() -> None:
        """Wait."""

    assert (
        tw.Tool.from_openai_agents(dataclasses.replace(function_tool(wait), timeout_seconds=7)).timeout == 7
    )


@tool_input_guardrail
def never(_: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.reject_content("no")


@tool_output_guardrail
def secret(_: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.reject_content("no")


def _enabled(*_: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"is_enabled": False}, r"is disabled \(is_enabled=False\): leave it out"),
        ({"is_enabled": _enabled}, "has an is_enabled function"),
        ({"tool_input_guardrails": [never]}, "has guardrails"),
        ({"tool_output_guardrails": [secret]}, "has guardrails"),
    ],
)
def test_a_tool_of_theirs_with_rules_of_their_runner_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(DefinitionError, match=f"The OpenAI Agents SDK tool 'delete' {why}"):
        tw.Tool.from_openai_agents(deleting(**options))


@pytest.mark.parametrize("listed", [False, True])
async def test_an_image_of_theirs_is_an_attachment(listed: bool) -> None:
    @function_tool
    def draw() -> Any:
        """Draw."""
        image = ToolOutputImage(image_url=f"data:image/png;base64,{DOT}")
        return [ToolOutputText(text="A dot."), image, {"type": "text", "text": "Small."}] if listed else image

    result = await tw.Toolset([tw.Tool.from_openai_agents(draw)]).call("draw", {})
    assert result.result == ("A dot.\nSmall." if listed else "Attached: image.png")
    [image] = result.attachments
    assert isinstance(image, tw.Attachment)
    assert (image.mime_type, image.data) == ("image/png", DOT)


async def test_a_file_of_theirs_is_an_attachment_and_a_reference_is_text() -> None:
    @function_tool
    def files() -> Any:
        """Files."""
        whole = ToolOutputFileContent(file_data=f"data:text/csv;base64,{DOT}", filename="a.csv")
        return [whole, ToolOutputImage(image_url="https://example.org/x.png")]

    result = await tw.Toolset([tw.Tool.from_openai_agents(files)]).call("files", {})
    assert ([each.name for each in result.attachments], result.result) == (
        ["a.csv"],
        "File: https://example.org/x.png",
    )
