"""Tools between Toolwright and pydantic-ai: its real agent, with a model that is a function."""

import base64
import dataclasses
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from pydantic_ai import Agent, BinaryContent, ModelRetry, RunContext, Tool, ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import toolwright as tw
from tests.frameworks.tools import BAD, DOT, GOOD, TOOLS
from toolwright.core.errors import DefinitionError
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def run_with(calls: list[tuple[str, Any]]) -> list[ModelMessage]:
    """Return the messages in a run of an agent that makes these calls, one after another."""
    left = [*calls]

    def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        if left:
            name, arguments = left.pop(0)
            return ModelResponse([ToolCallPart(name, arguments)])
        return ModelResponse([TextPart("done")])

    agent = Agent(FunctionModel(answer), tools=TOOLS.for_pydantic_ai())
    result = await agent.run("go")
    assert result.output == "done"
    return result.all_messages()


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for each in messages for part in each.parts if isinstance(part, ToolReturnPart)]


async def test_our_tools_are_called_by_its_agent_with_validated_arguments() -> None:
    good, bad, failed = returns(await run_with([("book", GOOD), ("book", BAD), ("fails", {"why": "rain"})]))
    assert good.content == {"place": "Inn", "nights": [1, 2], "thread": "thread"}
    assert (good.outcome, bad.outcome, failed.outcome) == ("success", "failed", "failed")
    assert "place.rooms" in str(bad.content)
    assert "nights.0" in str(bad.content)
    assert "It fails: rain" in str(failed.content)


async def test_it_is_told_our_schemas_whole() -> None:
    told: list[AgentInfo] = []

    def answer(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told.append(info)
        return ModelResponse([TextPart("done")])

    await Agent(FunctionModel(answer), tools=TOOLS.for_pydantic_ai()).run("go")
    by_name = {each.name: each for each in told[0].function_tools}
    assert by_name.keys() == {"book", "fails", "draw"}
    for each in TOOLS:
        told_of = by_name[each.name]
        assert (told_of.description, told_of.parameters_json_schema) == (each.description, each.parameters)


async def test_an_image_of_ours_is_shown_to_its_model() -> None:
    messages = await run_with([("draw", {})])
    [drawn] = returns(messages)
    assert drawn.content == "A dot."
    shown = [part for each in messages for part in each.parts if isinstance(part, UserPromptPart)][-1]
    [image] = [each for each in shown.content if isinstance(each, BinaryContent)]
    assert (image.media_type, image.data) == ("image/png", base64.b64decode(DOT))


@dataclasses.dataclass
class Deps:
    """The context that their tools receive."""

    town: str


class Visit(BaseModel):
    """A visit."""

    day: date

    @field_validator("day")
    @classmethod
    def look_up(cls, day: date) -> date:
        if day.isoweekday() == 7:
            raise ValueError("we are closed on Sundays")
        return day


async def weather(ctx: RunContext[Deps], visit: Visit, hours: int = 1) -> dict[str, Any]:
    """The weather on a day."""
    return {"town": ctx.deps.town, "day": visit.day, "hours": hours, "call": ctx.tool_call_id is not None}


def retry(again: bool) -> str:
    """Ask for another try."""
    raise ModelRetry("Say more.") if again else ToolFailed("Never.")


def picture() -> ToolReturn:
    """A picture."""
    return ToolReturn(
        "Look.", content=["It is small.", BinaryContent(base64.b64decode(DOT), media_type="image/png")]
    )


async def test_its_tools_are_ours_with_their_dependencies_and_types() -> None:
    theirs = tw.Tool.from_pydantic_ai(Tool(weather), deps=Deps(town="Ulm"))
    assert theirs.description == "The weather on a day."
    model = ScriptedModel(
        [
            {"calls": [{"name": "weather", "args": {"visit": {"day": "2026-11-23"}}}]},
            {"calls": [{"name": "weather", "args": {"visit": {"day": "tomorrow"}}}]},
            {"calls": [{"name": "weather", "args": {"visit": {"day": "2026-11-22"}}}]},
            {"calls": [{"name": "weather", "args": {"hours": 2}}]},
            {"text": "done"},
        ]
    )
    result = await tw.run(tw.Agent("guide", model=model, tools=[theirs]), "How is it?")
    good, no_day, sunday, missing = [call.result for call in result.calls]
    assert good == tw.ToolResult.ok({"town": "Ulm", "day": "2026-11-23", "hours": 1, "call": True})
    assert no_day is not None
    assert (no_day.status, no_day.error_code) == ("error", "invalid_arguments")
    assert no_day.error == "Invalid arguments: visit.day: must be text in the format date."
    assert sunday is not None
    assert sunday.error == "Invalid arguments: visit.day: we are closed on Sundays."
    assert missing is not None
    assert "visit" in str(missing.error)


async def test_its_ways_to_fail_and_its_bytes_are_results_of_ours() -> None:
    tools = tw.Toolset([tw.Tool.from_pydantic_ai(Tool(retry)), tw.Tool.from_pydantic_ai(Tool(picture))])
    assert (await tools.call("retry", {"again": True})).error == "Say more."
    assert (await tools.call("retry", {"again": False})).error == "Never."
    shown = await tools.call("picture", {})
    assert shown.result == ["Look.", "It is small."]
    assert shown.attachments == (tw.Attachment(name="file.png", mime_type="image/png", data=DOT),)


async def test_what_is_no_tool_of_theirs_is_refused_in_a_sentence() -> None:
    with pytest.raises(DefinitionError, match=r"A pydantic-ai tool must be a pydantic_ai\.Tool, not"):
        tw.Tool.from_pydantic_ai(weather)
    with pytest.raises(DefinitionError, match="has a `prepare` function"):
        tw.Tool.from_pydantic_ai(Tool(weather, prepare=lambda _, each: each))  # type: ignore[arg-type, return-value]  # an async function, which is allowed


class Node(BaseModel):
    n: int
    below: list["Node"] = []


def tree(root: Node) -> int:
    return 1 + sum(tree(each) for each in root.below)


def count_nodes(**root: Any) -> int:  # the fields of a node
    return tree(Node.model_validate(root))


async def test_a_tool_with_a_recursive_model_at_its_root_is_taken_and_offered_to_every_provider() -> None:
    native = Tool.from_schema(count_nodes, "count", "Count the nodes.", Node.model_json_schema())
    toolset = tw.Toolset([tw.Tool.from_pydantic_ai(native)])
    assert not toolset.faults("openai")
    assert not toolset.faults("anthropic")
    result = await toolset.call("count", {"n": 1, "below": [{"n": 2}, {"n": 3, "below": [{"n": 4}]}]})
    assert (result.status, result.result) == ("success", 4)


async def test_what_a_tool_of_theirs_asks_of_its_agent_while_it_runs_is_an_error_in_words() -> None:
    def careful(ctx: RunContext[None], name: str) -> str:
        """Delete somebody."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return f"deleted {name}"

    def later() -> str:
        """Later."""
        raise CallDeferred

    tools = tw.Toolset([tw.Tool.from_pydantic_ai(Tool(careful)), tw.Tool.from_pydantic_ai(Tool(later))])
    asked = await tools.call("careful", {"name": "Ann"})
    assert asked.error_code == "approval_required"
    assert (
        asked.error
        == "The tool 'careful' asks for an approval while it runs: declare it with requires_approval=True."
    )
    deferred = await tools.call("later", {})
    assert (
        deferred.error is not None and "defers its call, which only pydantic-ai's own agent" in deferred.error
    )
    declared = tw.Tool.from_pydantic_ai(Tool(careful, requires_approval=True))
    assert (await tw.Toolset([declared]).call("careful", {"name": "Ann"})).error_code == "approval_required"
    approved = tw.Toolset([dataclasses.replace(declared, requires_approval=None)])
    assert (await approved.call("careful", {"name": "Ann"})).result == "deleted Ann"
