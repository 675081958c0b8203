"""Components by the names of tools, and the errors of invalid ones."""

from typing import Any

import pytest

import toolwright as tw
from toolwright.core.errors import DefinitionError
from toolwright.core.tools.tool_ui import COMPONENTS, checked_tool_uis


def draw(call: tw.ShownCall, submit: tw.Submit) -> None:
    """Nothing."""


def test_a_function_is_the_component_of_the_tool_that_it_is_decorated_with() -> None:
    made = tw.tool_ui("pickSeat")(draw)
    assert (made.name, made.component) == ("pickSeat", draw)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_comes_with_the_console_is_named(component: Any) -> None:
    assert tw.tool_ui("pickSeat", component) == tw.ToolUI(name="pickSeat", component=component)


@pytest.mark.parametrize("name", ["", "  ", None, 3, draw])
def test_the_name_must_be_that_of_a_tool(name: Any) -> None:
    with pytest.raises(DefinitionError, match="tool_ui needs the name of a tool"):
        tw.tool_ui(name)


def test_a_component_that_the_console_has_not_is_told_with_those_that_it_has() -> None:
    unknown: Any = "map"
    with pytest.raises(
        DefinitionError, match="no component 'map' for 'pickSeat': it has 'confirmation', 'form'"
    ):
        tw.tool_ui("pickSeat", unknown)


@pytest.mark.parametrize("component", [3, ["chart"], {"a": 1}])
def test_a_component_is_a_function_or_a_name(component: Any) -> None:
    with pytest.raises(DefinitionError, match="must be a function or a name"):
        tw.tool_ui("pickSeat", component)
    with pytest.raises(DefinitionError, match="must be a function or a name"):
        tw.tool_ui("pickSeat")(component)


@pytest.mark.parametrize("tool_uis", [None, "chart", {"pickSeat": "chart"}, 3])
def test_an_app_takes_a_list_of_components(tool_uis: Any) -> None:
    with pytest.raises(DefinitionError, match="must be a list of components"):
        tw.App(tool_uis=tool_uis)


@pytest.mark.parametrize("each", [draw, "chart", None])
def test_an_app_takes_nothing_but_components(each: Any) -> None:
    with pytest.raises(DefinitionError, match="is not a component"):
        tw.App(tool_uis=[each])


def test_a_tool_has_one_component_in_an_app() -> None:
    with pytest.raises(DefinitionError, match="the tool 'pickSeat' has two components"):
        tw.App(tool_uis=[tw.tool_ui("pickSeat", "form"), tw.tool_ui("pickSeat", "choice")])


def test_the_components_of_an_app_are_kept_in_order() -> None:
    uis = [tw.tool_ui("b", "form"), tw.tool_ui("a")(draw)]
    assert checked_tool_uis(uis) == tuple(uis)
