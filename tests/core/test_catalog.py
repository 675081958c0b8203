"""Declarations that an app rejects: duplicates of a unique name."""

from collections.abc import Callable

import pytest

import toolwright as tw
from toolwright.core.errors import DefinitionError


def look(answer: int) -> tw.Tool:
    """Return a tool `look`, a different one for each answer."""

    async def handler(state: tw.ThreadState) -> int:
        return answer

    return tw.tool(name="look", description="Look.")(handler)


ONE, OTHER = look(1), look(2)


def asks(name: str, *tools: tw.Tool) -> tw.Agent:
    return tw.Agent(name, tw.Prompt(name, tools=tools))


@pytest.mark.parametrize(
    ("declared", "places"),
    [
        (
            lambda: tw.App(tools=[ONE], agents=[asks("x", OTHER)]),
            "the app's tools|the tools of the agent 'x'",
        ),
        (
            lambda: tw.App(agents=[asks("x", ONE), asks("y", OTHER)]),
            "the tools of the agent 'x'|the tools of the agent 'y'",
        ),
        (
            lambda: tw.App(prompts=[tw.Prompt("p", tools=[ONE])], agents=[asks("x", OTHER)]),
            "the tools of the prompt 'p'|the tools of the agent 'x'",
        ),
    ],
)
def test_different_tools_of_one_name_are_refused_with_both_places(
    declared: Callable[[], tw.App], places: str
) -> None:
    first, second = places.split("|")
    with pytest.raises(DefinitionError) as caught:
        declared()
    assert str(caught.value) == (
        f"The app has two different tools named 'look', one in {first}, the other in {second}: rename one."
    )


def test_one_tool_may_be_in_many_places() -> None:
    app = tw.App(tools=[ONE], prompts=[tw.Prompt("p", tools=[ONE])], agents=[asks("x", ONE), asks("y", ONE)])
    assert [tool.name for tool in app.catalog.tools] == ["look"]


def test_no_agent_has_the_id_of_composed_requests() -> None:
    for agent in (tw.Agent("agt_requests", tw.Prompt("p")), tw.Agent("x", tw.Prompt("p"), key="requests")):
        with pytest.raises(DefinitionError, match="has the id of composed requests"):
            tw.App(agents=[agent])
