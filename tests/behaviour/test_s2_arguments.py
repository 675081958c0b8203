"""S2 §3: the types of arguments row by row, nesting depth, validation, no arguments."""

import json
from datetime import datetime
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, create_model

import toolwright as tw
from tests.behaviour.doors import carried_out, error_of, results
from tests.behaviour.marks import requirement
from toolwright.core.errors import DefinitionError

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int


def args_of(annotation: object, default: object = ...) -> type[BaseModel]:
    """Return a model of one field `value`."""
    fields: Any = {"value": (annotation, default)}  # pydantic types this by overloads for literal calls
    made: type[BaseModel] = create_model("Args", **fields)
    return made


def echoing(args: type[BaseModel]) -> tw.Tool:
    """Return a tool that answers with its arguments, as JSON."""

    async def echo(args: BaseModel) -> object:
        return args.model_dump(mode="json")["value"]

    return tw.tool(name="echo", description="Echo.", args=args)(echo)


@pytest.mark.parametrize(
    ("args", "good", "bad"),
    [
        pytest.param(args_of(str), ["", "text", "7"], [7, None, ["x"], ...], marks=requirement("S2-3.2-1")),
        pytest.param(args_of(float), [1.5, -2.0, 0.0], ["1.5", True, None, ...], marks=requirement("S2-3.2-2")),
        pytest.param(args_of(int), [3, -1], ["3", 1.5, True, ...], marks=requirement("S2-3.2-2")),
        pytest.param(args_of(bool), [True, False], ["true", 0, None, ...], marks=requirement("S2-3.2-3")),
        pytest.param(args_of(None), [None], ["null", 0, False, ...], marks=requirement("S2-3.2-4")),
        pytest.param(
            args_of(Literal["a", 3, True]), ["a", 3, True], ["b", 4, "3", False, ...], marks=requirement("S2-3.2-5")
        ),
        pytest.param(args_of(Colour), ["red"], ["RED", "blue", 0, ...], marks=requirement("S2-3.2-6")),
        pytest.param(args_of(str | None, None), ["x"], [7], marks=requirement("S2-3.2-7")),
        pytest.param(args_of(str | None), ["x", None], [7, ...], marks=requirement("S2-3.2-8")),
        pytest.param(args_of(int, 10), [3], ["3", None], marks=requirement("S2-3.2-9")),
        pytest.param(args_of(list[int]), [[], [1, 2]], [[1, "2"], {"0": 1}, ...], marks=requirement("S2-3.2-10")),
        pytest.param(args_of(Point), [{"x": 1}], [{"x": "1"}, {}, {"x": 1, "y": 2}], marks=requirement("S2-3.2-11")),
        pytest.param(args_of(dict[str, int]), [{}, {"a": 1}], [{"a": "1"}, [1], ...], marks=requirement("S2-3.2-12")),
        pytest.param(args_of(int | str), [1, "1"], [True, None, 1.5, ...], marks=requirement("S2-3.2-13")),
    ],
)  # fmt: skip
async def test_a_type_is_taken_as_it_is_and_nothing_else_for_it(
    args: type[BaseModel],
    good: list[Any],
    bad: list[Any],  # any JSON; `...` stands for an absent value
) -> None:
    given = [{} if value is ... else {"value": value} for value in [*good, *bad]]
    answers = await results([echoing(args)], *[("echo", each) for each in given])
    for value, answer in zip(good, answers[: len(good)], strict=True):
        shown = answer.content if isinstance(value, str) else json.loads(answer.content)
        assert (answer.status, shown, type(shown)) == ("success", value, type(value))
    for answer in answers[len(good) :]:
        read = error_of(answer)
        assert read["error_code"] == "invalid_arguments"
        assert read["error"].startswith("Invalid arguments: value")


@requirement("S2-3.2-7", "S2-3.2-9", "S2-3.1-3")
async def test_an_optional_value_may_be_absent_and_a_default_fills_in() -> None:
    for args, filled in ((args_of(str | None, None), "null"), (args_of(int, 10), "10")):
        tool = echoing(args)
        assert "required" not in tool.parameters
        [answer] = await results([tool], ("echo", {}))
        assert (answer.status, answer.content) == ("success", filled)


@requirement("S2-3.2-14")
@pytest.mark.parametrize(
    "annotation", [Any, object, datetime, bytes, tuple[int, ...], set[str], dict[int, str]]
)
def test_any_other_type_is_refused_where_the_tool_is_defined(annotation: object) -> None:
    async def take(value: str) -> str:
        return value

    take.__annotations__["value"] = annotation
    with pytest.raises(DefinitionError, match="Tool 'take': parameter 'value"):
        tw.tool(description="Take.")(take)


def nested(levels: int) -> tuple[object, Any, Any]:
    """Return an annotation with that nesting depth, a valid value, and values that are invalid at the bottom."""
    annotation: Any = int
    good: Any = 1
    bad: Any = "1"
    for level in range(levels):
        if level % 2:
            annotation, good, bad = list[annotation], [good], [bad]
        else:
            fields: Any = {f"level{level}": (annotation, ...)}
            annotation = create_model(f"Level{level}", **fields)
            good, bad = {f"level{level}": good}, {f"level{level}": bad}
    return annotation, good, bad


@requirement("S2-3.3-1")
@pytest.mark.parametrize("levels", [1, 6, 7, 12])
async def test_seven_levels_and_more_are_taken_and_validated_to_the_bottom(levels: int) -> None:
    annotation, good, bad = nested(levels - 1)  # the object of all arguments counts as a level
    taken, refused = await results(
        [echoing(args_of(annotation))], ("echo", {"value": good}), ("echo", {"value": bad})
    )
    assert json.loads(taken.content) == good
    fault = error_of(refused)["error"]
    assert fault.startswith("Invalid arguments: value")
    assert fault.endswith("must be an integer, not a string.")
    assert fault.count("level") == levels // 2


@requirement("S2-3.4-1")
async def test_a_function_does_not_see_arguments_of_which_one_is_wrong() -> None:
    called: list[str] = []

    @tw.tool(description="Send.")
    async def send_email(to: str, copies: int, tags: list[str]) -> str:
        called.append(to)
        return "sent"

    calls: list[Any] = [
        {"to": "ada", "copies": "2", "tags": ["x", 1]},
        {"to": "ada", "copies": 2},
        {"to": "ada", "copies": 2, "tags": [], "more": True},
        '{"to": "ada", ',
        "[]",
        {"to": "bob", "copies": 2, "tags": []},
    ]
    async with carried_out([send_email], *[("send_email", each) for each in calls]) as seen:
        assert [each.status for each in seen.results] == ["error"] * 5 + ["success"]
        assert called == ["bob"]
        first = error_of(seen.results[0])["error"]
        assert "copies: must be an integer" in first
        assert "tags.1: must be a string" in first


@requirement("S2-3.5-1")
async def test_a_tool_that_needs_nothing_has_no_args_and_is_called_with_whatever_comes() -> None:
    @tw.tool(description="Get current time")
    async def get_time(state: tw.ThreadState) -> str:
        return "noon"

    calls: list[Any] = [{}, "", "{}", {"extra": 1}]
    async with carried_out([get_time], *[("get_time", each) for each in calls]) as seen:
        assert seen.requests[0].tools[0].parameters == {"type": "object", "properties": {}}
        assert [each.content for each in seen.results] == ["noon"] * 4
