"""Approval settings of tools, in Python and as JSON, and calls that no one can approve."""

from functools import partial
from typing import Any

import pytest

import toolwright as tw
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.config import read_servers
from toolwright.core.mcp.listing import read_tool
from toolwright.core.state.memory import MemoryState
from toolwright.core.threads.approval import Terms, terms_from_json, terms_to_json, unanswered
from toolwright.core.tools.approval import approval_from_json
from toolwright.core.tools.mcp import McpServer

pytestmark = pytest.mark.anyio


def over_ten(arguments: JSONObject) -> bool:
    return int(str(arguments["n"])) > 10


def counting(requirement: Any) -> tw.Tool:
    @tw.tool(requires_approval=requirement)
    async def count(n: int) -> int:
        """Count."""
        return n

    return count


@pytest.mark.parametrize(
    ("requirement", "approval"),
    [
        (True, tw.Approval()),
        (over_ten, tw.Approval(when=over_ten)),
        (tw.Approval(by=["ann"], expires_in=5), tw.Approval(by=("ann",), expires_in=5)),
        (False, None),
        (None, None),
    ],
)
def test_a_tool_declares_it_in_any_of_these_ways(requirement: Any, approval: tw.Approval | None) -> None:
    assert counting(requirement).approval == approval
    assert counting(requirement).stands_alone == (approval is None)


@pytest.mark.parametrize("requirement", ["always", 1, [], {"by": "person"}, dict])
def test_anything_else_is_refused(requirement: object) -> None:
    with pytest.raises(DefinitionError, match="Tool 'count': requires_approval must be True, a function"):
        counting(requirement)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"when": 1}, "when must be a function"),
        ({"by": "nobody"}, "by must be"),
        ({"by": []}, "by must be"),
        ({"by": [1]}, "by must be"),
        ({"by": None}, "by must be"),
        ({"by": ["role:"]}, "by must name a role after 'role:'"),
        ({"not_by": "owner"}, "not_by must be 'requester', not 'owner'"),
        ({"not_by": ["ann"]}, "not_by must be 'requester'"),
        ({"expires_in": 0}, "expires_in must be a positive number"),
        ({"expires_in": True}, "expires_in must be a positive number"),
        ({"expires_in": float("nan")}, "expires_in must be a positive number"),
        ({"edit": "no"}, "edit must be true or false"),
        ({"reason": 1}, "reason must be true or false"),
    ],
)
def test_invalid_terms_are_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        tw.Approval(**fields)


def of_nothing() -> bool:
    return True


def of_two(to: str, amount: int) -> bool:
    return bool(to) and amount > 10


def of_a_name(*, amount: int) -> bool:
    return amount > 10


def of_three(arguments: JSONObject, state: tw.ThreadState, least: int) -> bool:
    return len(arguments) > least


def of_a_named_state(arguments: JSONObject, *, state: tw.ThreadState) -> bool:
    return bool(arguments) and state.deps is None


@pytest.mark.parametrize("when", [of_nothing, of_two, of_a_name, of_three, of_a_named_state])
def test_a_function_that_does_not_take_the_arguments_is_refused_where_it_is_given(when: Any) -> None:
    with pytest.raises(DefinitionError, match="when must accept one parameter, a dict"):
        counting(when)


def of_many(*arguments: JSONObject) -> bool:
    return len(arguments) == 1


def of_one_and_more(arguments: JSONObject, least: int = 10) -> bool:
    return len(arguments) > least


@pytest.mark.parametrize("when", [bool, len, max, of_many, of_one_and_more])
def test_whatever_can_be_called_with_the_arguments_says_when(when: Any) -> None:
    assert tw.Approval(when=when).when is when


def config(requirement: object) -> dict[str, object]:
    return {
        "name": "count",
        "description": "Count.",
        "inputSchema": {"type": "object"},
        "executionType": "internal",
        "requiresApproval": requirement,
    }


@pytest.mark.parametrize(
    ("requirement", "approval"),
    [
        (True, tw.Approval()),
        (False, None),
        (None, None),
        ({}, tw.Approval()),
        (
            {"by": ["ann"], "expiresIn": 1_500, "edit": False, "reason": None},
            tw.Approval(by=["ann"], expires_in=1.5, edit=False),
        ),
    ],
)
def test_a_configuration_says_the_same_in_json(requirement: object, approval: tw.Approval | None) -> None:
    assert tw.Tool.from_config(config(requirement)).approval == approval


@pytest.mark.parametrize(
    ("requirement", "path"),
    [
        ("yes", "requiresApproval"),
        ({"when": "x"}, "requiresApproval.when"),
        ({"by": 7}, "requiresApproval.by"),
        ({"expiresIn": "soon"}, "requiresApproval.expiresIn"),
        ({"expiresIn": -1}, "requiresApproval.expiresIn"),
        ({"edit": 1}, "requiresApproval.edit"),
    ],
)
def test_an_invalid_configuration_names_the_path(requirement: object, path: str) -> None:
    with pytest.raises(InvalidConfiguration) as faulty:
        tw.Tool.from_config(config(requirement))
    assert [each["path"] for each in faulty.value.details] == [path]


def test_an_approval_that_is_no_json_is_an_error() -> None:
    assert approval_from_json(7)[1] == [("", "must be true, false or an object, not 7")]


def test_a_toolset_puts_its_tools_behind_an_approval() -> None:
    @tw.tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    tools = tw.Toolset([look, counting(None)])
    assert [each.approval for each in tools.requiring_approval()] == [tw.Approval()] * 2
    some = tools.requiring_approval(lambda tool: not tool.read_only, tw.Approval(by="person"))
    assert [each.approval for each in some] == [None, tw.Approval(by="person")]
    by_arguments = tools.requiring_approval(approval=over_ten)
    assert by_arguments["count"].approval == tw.Approval(when=over_ten)
    assert [each.approval for each in by_arguments.requiring_approval(approval=False)] == [None, None]
    assert [each.approval for each in tools] == [None, None]
    with pytest.raises(DefinitionError, match="function of a tool"):
        tools.requiring_approval(True)  # type: ignore[arg-type]  # an invalid value


async def test_outside_a_run_nothing_is_asked_and_nothing_is_called() -> None:
    result = await tw.Toolset([counting(True)]).call("count", {"n": 1})
    assert (result.status, result.error_code) == ("error", "approval_required")
    assert result.error == "Tool 'count' needs an approval, and only a run can wait for it."


class Rule:
    def applies(self, arguments: JSONObject, state: tw.ThreadState[int]) -> bool:
        return over(arguments, state)


def over(arguments: JSONObject, state: tw.ThreadState[int]) -> bool:
    return int(str(arguments["n"])) > state.deps


async def over_later(arguments: JSONObject, state: tw.ThreadState[int]) -> bool:
    return over(arguments, state)


@pytest.mark.parametrize("when", [over, over_later, Rule().applies, partial(over)])
async def test_a_second_parameter_of_the_function_is_the_state_of_the_call(when: Any) -> None:
    assert tw.Approval(when=when).asks_state
    assert not tw.Approval(when=of_one_and_more).asks_state
    tools = tw.Toolset([counting(when)])
    state = MemoryState(deps=5)
    assert [(await tools.call("count", {"n": n}, state)).status for n in (5, 6)] == ["success", "error"]


async def test_an_argument_that_a_call_omits_is_not_among_those_of_the_function() -> None:
    seen: list[JSONObject] = []

    def several(arguments: JSONObject) -> bool:
        seen.append(arguments)
        return int(str(arguments.get("copies", 1))) > 1

    @tw.tool(requires_approval=several)
    async def order(title: str, copies: int = 1) -> str:
        """Order a book."""
        return f"{copies} of {title}"

    assert (await tw.Toolset([order]).call("order", {"title": "Dune"})).result == "1 of Dune"
    assert seen == [{"title": "Dune"}]


async def test_outside_a_run_a_call_that_needs_none_is_made() -> None:
    tools = tw.Toolset([counting(over_ten)])
    assert (await tools.call("count", {"n": 10})).result == 10
    assert (await tools.call("count", {"n": 11})).error_code == "approval_required"
    assert (await tools.call("count", {"n": "x"})).error_code == "invalid_arguments"


@pytest.mark.parametrize(
    ("own", "of_tool", "approval"),
    [
        (True, None, tw.Approval()),
        (True, False, None),
        (False, True, tw.Approval()),
        ({"by": "person", "expiresIn": 2_000}, None, tw.Approval(by="person", expires_in=2)),
        (None, None, None),
    ],
)
def test_a_server_of_mcp_puts_its_tools_behind_an_approval(own: Any, of_tool: Any, approval: Any) -> None:
    tools = {} if of_tool is None else {"add": {"requiresApproval": of_tool}}
    entry = {"name": "math", "url": "http://host/mcp", "tools": tools}
    [server] = read_servers(
        [entry if own is None else {**entry, "requiresApproval": own}], "mcp", trusted=True
    )
    assert isinstance(server, McpServer)
    tool = read_tool(server, "add", {"inputSchema": {"type": "object"}, "description": "Add."})
    assert tool.approval == approval


def test_an_invalid_requirement_of_a_server_names_its_path() -> None:
    entry = {"name": "math", "url": "http://host/mcp", "requiresApproval": {"by": "nobody"}}
    with pytest.raises(InvalidConfiguration) as faulty:
        read_servers([entry], "mcp", trusted=True)
    assert all(each["path"].startswith("mcp.0.requiresApproval") for each in faulty.value.details)


@pytest.mark.parametrize(
    "terms",
    [
        Terms(),
        Terms(by=("ann", "bob"), seconds=1.5, edit=False, reason=False),
        Terms(by="service", schema={"type": "object"}),
    ],
)
def test_terms_lie_in_a_row_as_json(terms: Terms) -> None:
    assert terms_from_json(terms_to_json(terms)) == terms


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "in time"),
        (1, "within 1 second"),
        (90, "within 90 seconds"),
        (300, "within 5 minutes"),
        (3_600.0, "within 1 hour"),
        (0.5, "within 0.5 seconds"),
    ],
)
def test_the_system_says_how_long_it_has_waited(seconds: float | None, words: str) -> None:
    assert unanswered(Terms(seconds=seconds)).error == f"The call was not approved: nobody answered {words}."
