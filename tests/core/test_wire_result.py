"""Results in the form that each consumer needs."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.behaviour.marks import requirement
from tests.counting import calls_of_ours

import toolwright as tw
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef, ToolResult, unchecked
from toolwright.core.text import clean_text
from toolwright.wire import result as wire
from toolwright.wire.text import NO_NUL, clean_json, has_nul, readable

TEXT = st.text(max_size=10)
SIDE = st.none() | st.integers(1, 9999)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FILES = st.builds(unchecked, name=TEXT, mime_type=TEXT, data=TEXT, width=SIDE, height=SIDE) | st.builds(
    AttachmentRef,
    id=TEXT,
    path=TEXT,
    name=TEXT,
    mime_type=TEXT,
    size=st.integers(0),
    width=SIDE,
    description=st.none() | TEXT,
)
RESULTS = st.builds(
    ToolResult,
    status=st.sampled_from(["success", "error"]),
    result=VALUES,
    error=st.none() | TEXT,
    stack=st.none() | TEXT,
    attachments=st.lists(FILES, max_size=2).map(tuple),
    error_code=st.none() | TEXT,
    error_data=st.none() | st.dictionaries(TEXT, VALUES, max_size=2),
)


@settings(max_examples=100, deadline=None)
@given(RESULTS)
def test_a_result_survives_the_journal(result: ToolResult) -> None:
    written = json.loads(json.dumps(wire.result_to_json(result)))
    assert wire.result_from_json(written) == result


@requirement("S2-4.3-6")
@settings(max_examples=100, deadline=None)
@given(RESULTS)
def test_a_model_reads_text_that_can_be_sent(result: ToolResult) -> None:
    wire.model_text(result).encode()


CLEANED = st.sampled_from(
    ["a", "é\n", "\\b", "\b", "\f", "\x00", "\x7f", "\x9b", "\ud800", "\U000e0041", "\u202e", '"', "\u2028"]
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(CLEANED, st.lists(CLEANED | st.floats(allow_nan=False, allow_infinity=False))))
def test_a_structure_reads_as_if_each_text_in_it_were_cleaned(value: JSONObject) -> None:
    text = wire.model_text(ToolResult.ok(value))
    assert text.endswith(f" {NO_NUL}") == has_nul(value)
    assert json.loads(text.removesuffix(f" {NO_NUL}")) == clean_json(value)


def test_keys_that_differ_only_in_invisible_characters_stay_apart() -> None:
    result = ToolResult.ok({"\x00": 1, "": 2, "a": 3, "a\x00": 4, "a\x01": 5, "a (2)": 6})
    apart = {" (2)": 1, "": 2, "a": 3, "a (3)": 4, "a (4)": 5, "a (2)": 6}
    text = wire.model_text(result).removesuffix(f" {NO_NUL}")
    assert json.loads(text) == wire.s3_result(result) == apart


def test_keys_that_differ_only_in_invisible_characters_are_numbered_in_linear_time() -> None:
    class Keys(dict[str, JSON]):
        looked_up = 0

        def __contains__(self, key: object) -> bool:
            self.looked_up += 1
            return super().__contains__(key)

    taken = {f"a ({number})": number for number in range(2, 1_001)}
    value = Keys({"a" + "\x00" * number: number for number in range(1, 1_001)} | taken)
    apart = {"a" if number == 1 else f"a ({number + 999})": number for number in range(1, 1_001)}
    assert clean_json(value) == apart | taken
    assert value.looked_up < 5_000


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\x00b", "ab\n[NUL characters of this result are left out.]"),
        ({"a": ["\x00b"]}, '{"a":["b"]} [NUL characters of this result are left out.]'),
        ({"\x00a": 1}, '{"a":1} [NUL characters of this result are left out.]'),
        ({"a": "\\u0000 \x9b"}, '{"a":"\\\\u0000 "}'),
        ("\\x00 \\u0000", "\\x00 \\u0000"),
    ],
)
async def test_a_reader_is_told_of_characters_that_are_left_out(value: JSON, text: str) -> None:
    @tw.tool
    async def read() -> JSON:
        """Read a file."""
        return value

    result = await tw.Toolset([read]).call("read", {})
    assert wire.model_text(result) == text
    assert wire.openai_message("c", result)["content"] == wire.anthropic_block("c", result)["content"] == text
    assert wire.model_text(ToolResult.fail("a\x00")) == f'{{"error":"a"}} {NO_NUL}'


def test_a_clean_structure_is_written_without_a_walk_in_python() -> None:
    result = ToolResult.ok({"items": [{"name": "ä", "price": 2.0}, {"name": "b\n"}]})
    with calls_of_ours() as calls:
        wire.model_text(result)
    assert calls == ["model_text", "readable_result", "_readable"]


@requirement("S2-4.3-6", "S2-4.1-5")
def test_the_model_reads_text_json_and_errors_without_the_stack() -> None:
    assert wire.model_text(ToolResult.ok("a\x9bb\U000e0041\n\tc\x9b\ud800")) == "ab\n\tc\ufffd"
    assert wire.model_text(ToolResult.ok()) == "null"
    assert wire.model_text(ToolResult.ok({"a": "é"})) == '{"a":"é"}'
    failed = ToolResult.fail(
        "no", stack="secret", error_code="bad", error_data={"error": "x", "missing": ["A"]}
    )
    assert json.loads(wire.model_text(failed)) == {"error": "no", "error_code": "bad", "missing": ["A"]}


def test_each_consumer_gets_its_form() -> None:
    good, bad = ToolResult.ok({"success": True, "args": {}}), ToolResult.fail("no")
    assert wire.openai_message("c", ToolResult.ok("x")) == {
        "role": "tool",
        "tool_call_id": "c",
        "content": "x",
    }
    assert wire.anthropic_block("c", bad)["is_error"] is True
    assert wire.mcp_result(good)["structuredContent"] == {"success": True, "args": {}}
    assert "structuredContent" not in wire.mcp_result(ToolResult.ok([1]))
    assert wire.mcp_result(bad)["isError"] is True
    assert wire.s3_result(good) == {"success": True, "args": {}}
    assert wire.s3_result(bad) == {"error": "no"}
    assert wire.s3_pending("tc") == {"status": "pending", "pendingToolCallId": "tc"}
    assert wire.s4_result(ToolResult.ok({"a": 1})) == {"content": [{"type": "text", "text": '{"a":1}'}]}
    assert wire.s4_result(bad)["is_error"] is True


@pytest.mark.parametrize("control", ["\u202a", "\u202e", "\u2066", "\u2069"])
def test_no_text_for_a_model_or_a_terminal_changes_its_direction(control: str) -> None:
    assert clean_text(f"pay {control}eno") == "pay eno"
    assert readable({f"k{control}": [f"x{control}y"]}) == '{"k":["xy"]}'
    assert clean_text("\u0627\u200f!") == "\u0627\u200f!"  # right-to-left marks are kept
