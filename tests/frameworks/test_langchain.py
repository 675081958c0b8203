"""Tools between Toolwright and LangChain: its real tools, and a scripted model of its own."""

import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
    tool,
)
from langchain_core.tools import Tool as LangChainTool
from langchain_core.tools.base import _DirectlyInjectedToolArg  # pyright: ignore[reportPrivateUsage]  # ToolRuntime's
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ConfigDict

import toolwright as tw
from tests.frameworks.tools import BAD, DOT, GOOD, TOOLS, fails
from toolwright.core.errors import DefinitionError
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def named(name: str) -> BaseTool:
    return {each.name: each for each in TOOLS.for_langchain()}[name]


def asked(name: str, arguments: object) -> Any:
    """Make a call as LangChain's agents do."""
    return {"type": "tool_call", "name": name, "args": arguments, "id": "c1"}


async def test_our_tools_are_called_with_validated_arguments() -> None:
    good: ToolMessage = await named("book").ainvoke(asked("book", GOOD))
    assert good.status == "success"
    assert good.artifact == tw.ToolResult.ok({"place": "Inn", "nights": [1, 2], "thread": "thread"})
    assert good.content == '{"place":"Inn","nights":[1,2],"thread":"thread"}'
    bad: ToolMessage = await named("book").ainvoke(asked("book", BAD))
    assert bad.status == "error"
    assert "place.rooms" in str(bad.content)
    assert "nights.0" in str(bad.content)
    failed: ToolMessage = await named("fails").ainvoke(asked("fails", {"why": "rain"}))
    assert (failed.status, "It fails: rain" in str(failed.content)) == ("error", True)


async def test_a_model_of_theirs_is_told_our_schemas() -> None:
    told = {each.name: convert_to_openai_tool(each)["function"] for each in TOOLS.for_langchain()}
    for ours in TOOLS:
        assert told[ours.name]["description"] == ours.description
    assert told["fails"]["parameters"] == fails.parameters
    place = told["book"]["parameters"]["properties"]["place"]  # LangChain inlines definitions
    assert (place["required"], place["properties"]["rooms"]) == (
        ["name", "rooms"],
        {"type": "integer", "minimum": 1},
    )


async def test_our_tools_are_called_at_once_too_with_and_without_a_loop() -> None:
    in_loop: ToolMessage = named("book").invoke(asked("book", GOOD))
    elsewhere: ToolMessage = await asyncio.to_thread(named("book").invoke, asked("book", GOOD))
    assert in_loop.content == elsewhere.content
    assert in_loop.status == "success"


async def test_an_image_of_ours_is_shown_to_their_model() -> None:
    drawn: ToolMessage = await named("draw").ainvoke(asked("draw", {}))
    assert drawn.content == [
        {"type": "text", "text": "A dot."},
        {"type": "image", "base64": DOT, "mime_type": "image/png"},
    ]


@tool
def weather(town: str, days: list[int], tool_call_id: Annotated[str, InjectedToolCallId]) -> dict[str, Any]:
    """The weather of a town."""
    return {"town": town, "days": days, "call": bool(tool_call_id)}


@tool
async def lost(town: str) -> str:
    """Fail."""
    raise ToolException(f"No way to {town}.")


async def test_its_tools_are_ours() -> None:
    theirs = tw.Tool.from_langchain(weather)
    assert theirs.description == "The weather of a town."
    assert theirs.parameters["required"] == ["town", "days"]
    model = ScriptedModel(
        [
            {"calls": [{"name": "weather", "args": {"town": "Ulm", "days": [1]}}]},
            {"calls": [{"name": "weather", "args": {"town": "Ulm", "days": "all"}}]},
            {"text": "done"},
        ]
    )
    result = await tw.run(tw.Agent("guide", model=model, tools=[theirs]), "How is it?")
    good, bad = [call.result for call in result.calls]
    assert good == tw.ToolResult.ok('{"town": "Ulm", "days": [1], "call": true}')
    assert bad is not None
    assert (bad.status, bad.error_code) == ("error", "invalid_arguments")


@pytest.mark.parametrize("handles", [True, False])
async def test_its_errors_are_error_results(handles: bool) -> None:
    lost.handle_tool_error = handles
    result = await tw.Toolset([tw.Tool.from_langchain(lost)]).call("lost", {"town": "Ulm"})
    assert (result.status, result.error) == ("error", "No way to Ulm.")


async def test_its_content_blocks_are_texts_and_images() -> None:
    blocks: list[Any] = [
        "One",
        {"type": "text", "text": "two"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}},
        {"type": "image", "base64": DOT, "mime_type": "image/png"},
    ]
    shown = StructuredTool.from_function(lambda: blocks, name="show", description="Show.")
    result = await tw.Toolset([tw.Tool.from_langchain(shown)]).call("show", {})
    assert (result.result, len(result.attachments)) == ("One\ntwo", 2)
    odd: list[Any] = [{"type": "text", "text": "one"}, {"type": "file", "url": "https://a.example"}]
    shown = StructuredTool.from_function(lambda: odd, name="show", description="Show.")
    assert (await tw.Toolset([tw.Tool.from_langchain(shown)]).call("show", {})).result == odd


async def test_what_is_no_tool_of_theirs_is_refused_in_a_sentence() -> None:
    with pytest.raises(DefinitionError, match="A LangChain tool must be a langchain_core BaseTool, not"):
        tw.Tool.from_langchain(print)


class InjectedState(InjectedToolArg):
    """As LangGraph declares it."""


class ToolRuntime(_DirectlyInjectedToolArg):
    """As LangGraph declares it."""


@tool
def of_state(text: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Look at the state."""
    return text


@tool
def of_runtime(text: str, runtime: ToolRuntime) -> str:
    """Look at the runtime."""
    return text


@tool
def may_have_a_state(text: str, state: Annotated[dict[str, Any] | None, InjectedState] = None) -> str:
    """Look at the state, if there is one."""
    return f"{text}: {state}"


@pytest.mark.parametrize(("native", "name"), [(of_state, "state"), (of_runtime, "runtime")])
def test_a_tool_whose_arguments_langchain_injects_is_refused_where_it_is_declared(
    native: BaseTool, name: str
) -> None:
    with pytest.raises(DefinitionError, match=f"needs '{name}', which only LangChain's own agents inject"):
        tw.Tool.from_langchain(native)


async def test_one_that_can_do_without_is_taken() -> None:
    taken = tw.Tool.from_langchain(may_have_a_state)
    assert (await tw.Toolset([taken]).call(taken.name, {"text": "Hi"})).result == "Hi: None"


@tw.tool
async def odd(config: str, run_manager: int, callbacks: list[str], args: str, kwargs: str) -> list[object]:
    """Take names that LangChain uses itself."""
    return [config, run_manager, callbacks, args, kwargs]


ODD: dict[str, Any] = {"config": "c", "run_manager": 1, "callbacks": ["x"], "args": "a", "kwargs": "k"}
selfish = tw.Tool(
    name="selfish",
    description="Take itself.",
    parameters={"type": "object", "properties": {"self": {"type": "string"}}, "required": ["self"]},
    kind="internal",
)


async def test_a_parameter_may_have_a_name_that_langchain_uses_itself() -> None:
    taken, own = tw.Toolset([odd, selfish]).for_langchain()
    assert convert_to_openai_tool(taken)["function"]["parameters"]["required"] == [*ODD]
    at_once = await asyncio.to_thread(taken.invoke, asked("odd", ODD))
    for answer in (await taken.ainvoke(asked("odd", ODD)), at_once):
        assert answer.content == '["c",1,["x"],"a","k"]'
    given = {"self": "me"}
    for answer in (await own.ainvoke(asked("selfish", given)), own.invoke(asked("selfish", given))):
        assert (answer.status, answer.artifact.result["args"]) == ("success", given)
    refused = await taken.ainvoke(asked("odd", {**ODD, "config": 1}))
    assert (refused.status, "config: must be a string" in str(refused.content)) == ("error", True)


class Open(BaseModel):
    """Any fields."""

    model_config = ConfigDict(extra="allow")


@tool
def any_names(**kwargs: Any) -> str:
    """Take any arguments."""
    return str(kwargs)


@tool
def any_values(*args: int) -> str:
    """Take any values."""
    return str(args)


@tool
def some_names(a: int, **kwargs: Any) -> str:
    """Take some arguments."""
    return str((a, kwargs))


@tool
def now() -> str:
    """Tell the time."""
    return "noon"


def shown(**arguments: Any) -> str:
    return str(arguments)


def echoed(text: str) -> str:
    return f"{text}!"


FORM: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
open_tool = StructuredTool.from_function(shown, name="open", description="Open.", args_schema=Open)
by_schema = StructuredTool.from_function(shown, name="by_schema", description="Show.", args_schema=FORM)


class AnyNames(BaseTool):
    """Without a response format LangChain returns the value unchanged."""

    name: str = "anything"
    description: str = "Take any arguments."

    def _run(self, **kwargs: Any) -> str:
        return str(kwargs)


@pytest.mark.parametrize("native", [any_names, any_values, open_tool])
def test_a_tool_that_langchain_would_call_without_arguments_is_refused(native: BaseTool) -> None:
    with pytest.raises(DefinitionError, match="LangChain would call it without"):
        tw.Tool.from_langchain(native)


@pytest.mark.parametrize(
    ("native", "arguments", "said"),
    [
        (some_names, {"a": 1}, "(1, {})"),
        (now, {}, "noon"),
        (by_schema, {"a": 1}, "{'a': 1}"),
        (AnyNames(), {"a": 1}, "{'a': 1}"),
        (LangChainTool("echo", echoed, "Echo."), {"tool_input": "hi"}, "hi!"),
    ],
)
async def test_a_tool_is_called_with_what_its_schema_names(
    native: BaseTool, arguments: dict[str, Any], said: str
) -> None:
    taken = tw.Tool.from_langchain(native)
    assert set(arguments) >= set(taken.parameters["properties"])  # type: ignore[arg-type]  # an object
    assert (await tw.Toolset([taken]).call(taken.name, arguments)).result == said
    if "a" in taken.parameters.get("required", ()):  # type: ignore[operator]  # a list
        assert (await tw.Toolset([taken]).call(taken.name, {})).error_code == "invalid_arguments"


def test_a_tool_of_langchain_among_ours_names_what_takes_it() -> None:
    foreign: Any = [of_state]  # as users do
    for declare in (
        lambda: tw.Toolset(foreign),
        lambda: tw.Agent("desk", instructions="", tools=foreign),
        lambda: tw.Prompt("desk", "", tools=foreign),
        lambda: tw.App(tools=foreign),
    ):
        with pytest.raises(DefinitionError, match=r"'of_state' .*tw\.Tool\.from_langchain"):
            declare()


class _Named(BaseModel):
    config: str
    x: int


def _all(**values: object) -> str:
    return repr(values)


class _Titled(BaseTool):
    name: str = "titled"
    description: str = "T."
    args_schema: Any = _Named

    def _run(self, config: str, x: int) -> str:
        return f"{config} {x}"


def _managed(run_manager: str) -> str:
    """M."""
    return run_manager


@pytest.mark.parametrize(
    ("native", "name"),
    [
        (StructuredTool.from_function(_all, name="t", description="T.", args_schema=_Named), "config"),
        (
            StructuredTool.from_function(
                _all, name="t", description="T.", args_schema={"type": "object", "properties": {"self": {}}}
            ),
            "self",
        ),
        (StructuredTool.from_function(_managed, name="t"), "run_manager"),
    ],
)
def test_an_argument_whose_name_langchain_uses_itself_is_refused(native: BaseTool, name: str) -> None:
    with pytest.raises(DefinitionError, match=f"has an argument '{name}', which LangChain does not pass on"):
        tw.Tool.from_langchain(native)


async def test_a_name_that_langchain_passes_on_is_taken() -> None:
    result = await tw.Toolset([tw.Tool.from_langchain(_Titled())]).call("titled", {"config": "a", "x": 1})
    assert result.result == "a 1"
