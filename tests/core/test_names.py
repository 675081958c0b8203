"""Names of tools and agents are one line: they are used in lists, in logs, and in prompts."""

from collections.abc import Callable

import pytest

import toolwright as tw
from toolwright.client import Client, Worker
from toolwright.core.errors import DefinitionError, InvalidConfiguration

BROKEN = [
    "a\nb",
    "a\r",
    "\x1b[31mred",
    "a\x00b",
    "a\tb",
    "a\x85b",
    "a\u2028b",
    "a\u2029b",
    "a\x7fb",
    "a\ud800b",
]
FINE = ["ask", "Straße 7", "天気", "👩\u200d💻 team", "a.b/c-d"]


def _tool(name: str) -> tw.Tool:
    return tw.Tool(name=name, description="Ask.", kind="external")


def _agent(name: str) -> object:
    return tw.Agent(name, tw.Prompt("p", "Be brief."))


def _worker(name: str) -> object:
    return Worker(Client("http://127.0.0.1:1")).tool(name, lambda: 1)


@pytest.mark.parametrize("declare", [_tool, _agent, _worker])
@pytest.mark.parametrize("name", BROKEN)
def test_a_name_that_is_not_one_line_is_refused(declare: Callable[[str], object], name: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        declare(name)
    assert refused.value.message.endswith(
        f" name must not hold line breaks or other control characters: {name!r}."
    )
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("name", BROKEN[:-1])  # a lone surrogate is not valid JSON
def test_a_configuration_with_such_a_name_is_refused_by_its_path(name: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        tw.Tool.from_config(
            {"name": name, "description": "Ask.", "inputSchema": {}, "executionType": "external"}
        )
    assert refused.value.details == [
        {"path": "name", "message": "must not hold line breaks or other control characters"}
    ]


@pytest.mark.parametrize("declare", [_tool, _agent, _worker])
@pytest.mark.parametrize("name", FINE)
def test_any_other_name_is_taken(declare: Callable[[str], object], name: str) -> None:
    declare(name)
