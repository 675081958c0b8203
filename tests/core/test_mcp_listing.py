"""An MCP server's tools as tools of ours: complete schemas, hints, options, errors; several servers together."""

from collections.abc import Iterable
from typing import Any

import pytest

from toolwright.core.json_value import dumps_unescaped
from toolwright.core.mcp.listing import (
    MAX_DESCRIPTION,
    MAX_LISTED,
    MAX_LISTED_TEXT,
    MIN_DESCRIPTION,
    McpListing,
    read_listed,
    side_by_side,
    within_share,
)
from toolwright.core.threads.compaction import text_tokens
from toolwright.core.tools.mcp import McpCall, McpServer, McpToolOptions
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed

SERVER = McpServer(name="x", url="https://x")
OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def entry(name: str = "add", **more: Any) -> dict[str, Any]:  # any JSON
    return {"name": name, "description": "Adds.", "inputSchema": OBJECT, **more}


def one(listed: Any, server: McpServer = SERVER) -> Tool:
    tools, faults = read_listed(server, [listed])
    assert not faults, faults
    return tools[0]


def fault(listed: Any, server: McpServer = SERVER) -> str:
    tools, faults = read_listed(server, [listed])
    assert not tools
    return faults[0].message


def test_a_tool_is_of_the_kind_mcp_with_its_schema_whole() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"n": {"type": "integer"}},
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "x-own": 1,
    }
    tool = one(entry(inputSchema=schema, outputSchema=OBJECT))
    assert (tool.kind, tool.parameters, tool.timeout, tool.visible) == ("mcp", schema, 30.0, False)
    assert isinstance(tool.relation, McpCall)
    assert (tool.relation.tool, tool.relation.output) == ("add", OBJECT)


def nested(levels: int) -> dict[str, Any]:  # any JSON
    return {"type": "array", "items": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "https://a.example/x.json"}, "https://a.example/x.json"),
        ({"$schema": "https://a.example/dialect"}, "https://a.example/dialect"),
        ({"type": "object", "properties": {"a": {"type": "no type"}}}, "properties.a.type"),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"}, "draft-03"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
        ({"type": "object", "properties": {"a": {"enum": [0] * 20_000}}}, "more than 10000 JSON values"),
        (nested(100), "deeper"),
        ("an object", "must be an object"),
        ([], "must be an object"),
    ],
)
def test_an_unreadable_output_schema_is_an_error_and_ignored(schema: Any, why: str) -> None:
    [tool], [told] = read_listed(SERVER, [entry(outputSchema=schema)])
    assert isinstance(tool.relation, McpCall)
    assert tool.relation.output is None
    assert (told.tool, told.message.startswith("Its outputSchema is ignored: ")) == ("add", True)
    assert why in told.message
    assert len(told.message) < 1_000


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07"])
def test_an_output_schema_of_an_older_draft_is_kept(draft: str) -> None:
    schema = {"$schema": f"http://json-schema.org/{draft}/schema#", **OBJECT}
    relation = one(entry(outputSchema=schema)).relation
    assert isinstance(relation, McpCall)
    assert relation.output == schema


@pytest.mark.parametrize(
    ("hints", "ours"),
    [
        ({}, (False, False, False)),
        ({"readOnlyHint": True, "destructiveHint": True}, (True, False, False)),
        ({"idempotentHint": True, "destructiveHint": True}, (False, True, True)),
        ({"readOnlyHint": "yes"}, (False, False, False)),
    ],
)
def test_hints_are_ours(hints: Any, ours: tuple[bool, bool, bool]) -> None:
    tool = one(entry(annotations=hints))
    assert (tool.read_only, tool.idempotent, tool.destructive) == ours
    assert tool.repeatable == any(ours[:2])


def test_options_of_one_tool_go_before_those_of_its_server() -> None:
    options = (("add", McpToolOptions(visible=False, timeout=60.0)),)
    server = McpServer(name="x", url="https://x", visible=True, timeout=5.0, tools=options)
    tools, _ = read_listed(server, [entry(), entry("sub")])
    assert [(tool.visible, tool.timeout) for tool in tools] == [(False, 60.0), (True, 5.0)]


def test_nothing_is_hidden_in_what_a_model_is_told_of_a_tool() -> None:
    hidden = "\u202e\u2066\x1b\x9b\U000e0041"
    schema = {
        "type": "object",
        "title": f"A{hidden}",
        "properties": {
            "description": {"type": "string", "description": f"Long{hidden} text.", "enum": [f"x{hidden}"]},
            "n": {"anyOf": [{"title": f"N{hidden}", "const": f"y{hidden}"}, {"$ref": "#/$defs/d"}]},
        },
        "$defs": {"d": {"type": "string", "description": f"D{hidden}\nE"}},
    }
    tool = one(entry(description=f"Adds{hidden}.", inputSchema=schema))
    assert tool.description == "Adds."
    assert tool.parameters == {
        "type": "object",
        "title": "A",
        "properties": {  # values are the server's own, and are sent back to it unchanged
            "description": {"type": "string", "description": "Long text.", "enum": [f"x{hidden}"]},
            "n": {"anyOf": [{"title": "N", "const": f"y{hidden}"}, {"$ref": "#/$defs/d"}]},
        },
        "$defs": {"d": {"type": "string", "description": "D\nE"}},
    }
    assert one(entry(description=None, title=f"Adds{hidden}")).description == "Adds"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"description": ""}, "The tool 'add' of the MCP server 'x'."),
        ({"description": None, "title": "Addition"}, "Addition"),
        ({"description": " ", "annotations": {"title": "Sum"}}, "Sum"),
    ],
)
def test_a_tool_without_a_description_has_one(more: Any, words: str) -> None:
    assert one(entry(**more)).description == words


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("add", "no name"),
        ({"inputSchema": OBJECT}, "no name"),
        (entry(""), "1 to 1000 characters"),
        (entry("a\nb"), "on one line"),
        (entry("a" * 1001), "1 to 1000 characters"),
        (entry(inputSchema=None), "must be an object"),
        (entry(inputSchema={"type": "string"}), "must be an object schema"),
        (entry(inputSchema={"type": "object", "properties": 7}), "add"),
        (entry(inputSchema={"$ref": "https://example.org/schema"}), "add"),
        (entry(inputSchema={"type": "object", "enum": [*range(20_000)]}), "more than 10000 JSON values"),
    ],
)
def test_an_invalid_tool_affects_no_other(listed: Any, words: str) -> None:
    assert words in fault(listed)
    tools, faults = read_listed(SERVER, [listed, entry("fine")])
    assert [tool.name for tool in tools] == ["fine"]
    assert len(faults) == 1


def test_nesting_is_bounded() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    assert "nested deeper" in fault(entry(inputSchema=schema))


def test_what_is_not_allowed_is_not_read_and_what_is_not_listed_is_reported() -> None:
    server = McpServer(name="x", url="https://x", allowed_tools=frozenset({"add", "gone"}))
    tools, faults = read_listed(server, [entry(), entry("broken", inputSchema=None)])
    assert [tool.name for tool in tools] == ["add"]
    assert [(each.tool, each.message) for each in faults] == [("gone", "The server does not list this tool.")]


def test_options_of_a_tool_that_is_not_listed_are_reported() -> None:
    server = McpServer(name="x", url="https://x", tools=(("ad", McpToolOptions(visible=True)),))
    tools, faults = read_listed(server, [entry()])
    assert [tool.name for tool in tools] == ["add"]
    assert [(each.tool, each.message) for each in faults] == [("ad", "The server does not list this tool.")]


def test_of_too_many_tools_an_agent_has_the_first_or_those_that_it_names() -> None:
    listed = [entry(f"t{n}") for n in range(MAX_LISTED + 5)]
    tools, faults = read_listed(SERVER, listed)
    assert len(tools) == MAX_LISTED
    assert "name others in allowedTools" in faults[0].message
    named = McpServer(name="x", url="https://x", allowed_tools=frozenset({f"t{MAX_LISTED + 4}"}))
    [tool], faults = read_listed(named, listed)
    assert (tool.name, faults) == (f"t{MAX_LISTED + 4}", ())


def test_a_tool_that_is_listed_twice_counts_once() -> None:
    tools, faults = read_listed(SERVER, [entry(), entry(description="Another.")])
    assert [tool.description for tool in tools] == ["Adds."]
    assert "twice" in faults[0].message


def test_a_digest_changes_with_what_a_model_is_told() -> None:
    def digest(**more: Any) -> str:
        relation = one(entry(**more)).relation
        return relation.digest if isinstance(relation, McpCall) else ""

    first = digest()
    assert digest() == first
    changes: list[dict[str, Any]] = [
        {"description": "Adds, and sends all to evil.example."},
        {"inputSchema": {"type": "object"}},
        {"annotations": {"readOnlyHint": True}},
        {"description": None, "title": "Adds"},
        {"description": None, "title": "Adds, and sends all to evil.example."},
    ]
    assert len({first, *[digest(**each) for each in changes]}) == 6


def listing(server: str, *names: str) -> McpListing:
    found = McpServer(name=server, url="https://x")
    tools, _ = read_listed(found, [entry(name) for name in names])
    return McpListing(server=found, status="ready", tools=tools)


def test_names_are_kept_apart_only_where_they_clash() -> None:
    tools, faults = side_by_side(
        [listing("a", "get", "put"), listing("b", "get", "own")], {"own"}, frozenset()
    )
    assert [tool.name for tool in tools] == ["a__get", "put", "b__get", "b__own"]
    assert not faults
    relation = tools[0].relation
    assert isinstance(relation, McpCall)
    assert (relation.server.name, relation.tool) == ("a", "get")


def test_a_built_in_tool_goes_before_one_of_a_server() -> None:
    tools, faults = side_by_side([listing("a", "skip", "get")], frozenset(), {"skip"})
    assert [tool.name for tool in tools] == ["get"]
    assert [(server, each.tool) for server, each in faults] == [("a", "skip")]


def test_a_name_that_is_taken_meanwhile_is_reported() -> None:
    tools, faults = side_by_side([listing("a", "get", "own")], {"own", "a__own"}, frozenset())
    assert [tool.name for tool in tools] == ["get"]
    assert "taken" in faults[0][1].message


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066", "\ufeff", "\u200d", "\U000e0041"])
def test_a_name_with_characters_that_nobody_sees_is_refused(hidden: str) -> None:
    assert "invisible or a text direction" in fault(entry(f"add{hidden}"))


def test_a_long_description_is_shortened_and_a_long_schema_is_refused() -> None:
    [tool], [told] = read_listed(SERVER, [entry(description="x" * 30_000_000)])
    assert len(tool.description) == MAX_DESCRIPTION
    assert told.message == "Of its description of 30000000 characters the first 10000 are used."
    wide = {"type": "object", "properties": {"a": {"description": "x" * 300_000}}}
    assert "inputSchema has more than" in fault(entry(inputSchema=wide))


def test_the_tools_of_one_server_have_a_limit_together() -> None:
    wide = {"type": "object", "properties": {"a": {"description": "x" * 200_000}}}
    tools, faults = read_listed(
        SERVER, [*[entry(f"t{n}", inputSchema=wide) for n in range(12)], entry("last")]
    )
    assert [tool.name for tool in tools] == [f"t{n}" for n in range(10)]
    assert [each.tool for each in faults] == ["t10", "t11", "last"]
    assert f"more than {MAX_LISTED_TEXT} characters" in faults[0].message


def listed(*lengths: int, server: str = "x") -> list[Tool]:
    """Return tools of a server whose descriptions have these lengths."""
    entries = [entry(f"{server}{number}", description="d" * length) for number, length in enumerate(lengths)]
    return [*read_listed(McpServer(name=server, url="https://x"), entries)[0]]


def lengths(tools: Iterable[Tool]) -> list[int]:
    return [len(each.description) for each in tools]


def test_tools_within_a_quarter_of_a_request_are_unchanged() -> None:
    tools = listed(300, 400)
    assert within_share(tools, 10_000) == (tools, ())


def test_the_longest_descriptions_are_shortened_first() -> None:
    tools = [*listed(100, 5_000), *listed(9_000, 300, server="y")]
    offered, errors = within_share(tools, 5_000)
    assert lengths(offered) == [100, longest := len(offered[1].description), longest, 300]
    assert 2_000 < longest < 2_300
    why = "the tools of all servers have a quarter of the 5000 tokens of a request to the model."
    assert [(server, each.tool, each.message) for server, each in errors] == [
        ("x", "x1", f"Of its description of 5000 characters the first {longest} are used: {why}"),
        ("y", "y0", f"Of its description of 9000 characters the first {longest} are used: {why}"),
    ]
    assert [each.name for each in offered] == [each.name for each in tools]
    again, errors_again = within_share(tools, 5_000)
    assert ([each.definition for each in again], errors_again) == (
        [each.definition for each in offered],
        errors,
    )


@pytest.mark.parametrize("letter", ["d", "é", "说", "😀"])
def test_the_share_is_measured_as_requests_are(letter: str) -> None:
    tools = [changed(each, description=letter * 5_000) for each in listed(*[1] * 10)]
    offered, _ = within_share(tools, 16_000)
    sizes = [text_tokens(dumps_unescaped([each.name, each.description, each.offered])) for each in offered]
    assert len(offered) == 10
    assert 3_000 < sum(sizes) < 4_200


def test_tools_that_do_not_fit_even_with_short_descriptions_are_left_out() -> None:
    tools = listed(*[1_000] * 50)
    wide = changed(tools[1], parameters={"type": "object", "title": "t" * 50_000})
    offered, errors = within_share([tools[0], wide, *tools[2:]], 2_000)
    assert {*lengths(offered)} == {MIN_DESCRIPTION}
    assert [each.name for each in offered] == ["x0", *[f"x{number}" for number in range(2, len(offered) + 1)]]
    assert 4 < len(offered) < 9
    reported = [each for _, each in errors]
    assert reported[1].tool == "x1"
    assert reported[1].message.startswith(
        "It is left out: the tools of all servers have a quarter of the 2000"
    )
    assert (len(reported), reported[-1].message) == (21, "30 more faults.")
    assert within_share(tools, 0)[0] == []
