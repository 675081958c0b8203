"""Stored configurations: hidden values are restored, unless new ones are entered."""

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.prompt import Prompt
from toolwright.core.env.env import EnvVar
from toolwright.core.json_value import JSONObject
from toolwright.web.console.agents.configuration import with_values

AGENT = Agent(
    "poet",
    Prompt("poet"),
    env={"KEY": EnvVar(value="agent-secret"), "TONE": {"value": "dark", "type": "text"}},
    tenvs={"limit": 3},
    tool_env={"search": {"INDEX": EnvVar(value="tool-secret")}},
    key="1",
)
ENV: JSONObject = {
    "KEY": {"value": "agent-secret", "type": "secret"},
    "TONE": {"value": "dark", "type": "text"},
}


def test_values_that_are_left_out_stay() -> None:
    assert with_values({"agent": {"system": "Rhyme."}}, AGENT) == {
        "agent": {"system": "Rhyme."},
        "env": ENV,
        "tenvs": {"limit": 3},
    }


def test_values_that_are_written_take_the_place_of_all() -> None:
    whole = with_values({"env": {"OTHER": "new"}, "tenvs": {}}, AGENT)
    assert whole == {"env": {"OTHER": "new"}, "tenvs": {}}


def test_tools_keep_their_own_values_by_their_names() -> None:
    tools = with_values({"tools": ["a", {"name": "search", "env": {}}, {"name": "add", "env": {}}]}, AGENT)[
        "tools"
    ]
    search: JSONObject = {"name": "search", "env": {"INDEX": {"value": "tool-secret", "type": "secret"}}}
    assert tools == ["a", search, {"name": "add", "env": {}}]


def test_a_tool_with_values_of_its_own_written_has_these() -> None:
    entry: JSONObject = {"name": "search", "env": {"INDEX": "new"}}
    assert with_values({"tools": [entry]}, AGENT)["tools"] == [entry]


def test_an_invalid_list_of_tools_is_left_to_the_validator() -> None:
    assert with_values({"tools": 7}, AGENT)["tools"] == 7
