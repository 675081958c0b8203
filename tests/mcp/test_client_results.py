"""Answers to calls as results: text, structured content and files together, and answers that take long to read."""

import base64
from typing import Any

import mcp_types as types
import pytest

from toolwright.adapters.mcp.messages import readable_answer, result_of, takes_long
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.offered import FILE_NAME
from toolwright.core.results import LARGE, Attachment
from toolwright.wire.result import model_text

LONG = "A" * (LARGE + 4)


@pytest.mark.parametrize(
    ("content", "large"),
    [
        ([types.TextContent(text="fine")], False),
        ([types.ImageContent(data="AAAA", mime_type="image/png")], False),
        ([types.ImageContent(data=LONG, mime_type="image/png")], True),
        ([types.AudioContent(data=LONG, mime_type="audio/wav")], True),
        ([types.EmbeddedResource(resource=types.BlobResourceContents(uri="x:///a", blob=LONG))], True),
        ([types.TextContent(text="fine")] * 101, True),
    ],
)
def test_an_answer_with_a_large_file_or_many_parts_takes_long_to_look_at(
    content: list[types.ContentBlock], large: bool
) -> None:
    assert takes_long(types.CallToolResult(content=content)) is large


def test_so_does_one_whose_object_is_large() -> None:
    assert not takes_long(types.CallToolResult(content=[], structured_content={"a": 1}))
    assert takes_long(types.CallToolResult(content=[], structured_content={"a": [0] * 100_000}))
    assert takes_long(types.CallToolResult(content=[], structured_content={"a": "x" * 10_000_000}))


PIXEL = base64.b64encode(bytes(range(250, 256)) * 8).decode()
IMAGE = types.ImageContent(data=PIXEL, mime_type="image/png")
FILE = types.EmbeddedResource(
    resource=types.BlobResourceContents(uri="file:///a.pdf", blob=PIXEL, mime_type="application/pdf")
)
URL_SAFE = PIXEL.replace("+", "-").replace("/", "_")
"""Base64 as pydantic encodes bytes."""


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


@pytest.mark.parametrize(
    ("content", "structured", "value", "names"),
    [
        (
            [text("A pixel."), IMAGE],
            {
                "result": [
                    {"type": "text", "text": "A pixel."},
                    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                ]
            },
            "A pixel.",
            ["image.png"],
        ),
        ([IMAGE], {"result": {"data": PIXEL, "mimeType": "image/png"}}, "Attached: image.png", ["image.png"]),
        ([IMAGE], {"result": URL_SAFE}, "Attached: image.png", ["image.png"]),
        (
            [FILE],
            {"result": [{"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": PIXEL}}]},
            "Attached: a.pdf",
            ["a.pdf"],
        ),
        ([IMAGE], {"width": 2, "png": PIXEL}, {"width": 2, "png": "[file image.png]"}, ["image.png"]),
        ([text("Two rows."), IMAGE], {"rows": 2}, {"rows": 2, "text": "Two rows."}, ["image.png"]),
        ([text("Two rows.")], {"text": "x"}, {"result": {"text": "x"}, "text": "Two rows."}, []),
        ([text("Two rows.")], [1, 2], {"result": [1, 2], "text": "Two rows."}, []),
        ([text('{"rows": 2}')], {"rows": 2}, {"rows": 2}, []),
        ([text("sunny")], {"result": "sunny"}, "sunny", []),
        ([text('{"a": "b"}')], {"result": '{"a": "b"}'}, '{"a": "b"}', []),
        ([text("one"), text("two")], {"result": "one\ntwo"}, "one\ntwo", []),
        ([text("a\x00b")], None, "a\x00b", []),
        ([text("sunny")], {"result": "rainy"}, {"result": "rainy", "text": "sunny"}, []),
        ([text("[1, 2]")], {"result": [1, 2]}, {"result": [1, 2]}, []),
        ([], {"result": []}, {"result": []}, []),
    ],
)
def test_nothing_that_a_server_answers_is_lost_or_said_twice(
    content: list[types.ContentBlock], structured: Any, value: object, names: list[str]
) -> None:
    result = result_of(types.CallToolResult(content=content, structured_content=structured), None)
    assert (result.status, result.result, [each.name for each in result.attachments]) == (
        "success",
        value,
        names,
    )


def test_a_long_text_beside_an_object_takes_long_to_look_at() -> None:
    assert takes_long(types.CallToolResult(content=[text("x" * (LARGE + 1))], structured_content={"a": 1}))


SUM: JSONObject = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
MAIL: JSONObject = {"type": "object", "properties": {"to": {"type": "string", "format": "email"}}}


@pytest.mark.parametrize(
    ("content", "more", "output", "value"),
    [
        (
            [text('{"sum":"3"}')],
            {"structured_content": {"sum": "3"}},
            SUM,
            {
                "sum": "3",
                "text": "The result does not match the outputSchema of the tool: sum: must be a number, not a string.",
            },
        ),
        (
            [text("3")],
            {},
            SUM,
            "3\nThe result does not match the outputSchema of the tool: there is no structured content.",
        ),
        (
            [text("See.")],
            {"structured_content": [1]},
            SUM,
            {
                "result": [1],
                "text": "See.\nThe result does not match the outputSchema of the tool: "
                "must be an object, not an array.",
            },
        ),
        ([], {"structured_content": {"to": "no address"}}, MAIL, {"to": "no address"}),
        ([], {"structured_content": {"sum": "3"}}, {"$ref": "https://a.example/x"}, {"sum": "3"}),
        ([], {"structured_content": {"sum": "3"}}, {"$schema": "https://a.example/d"}, {"sum": "3"}),
    ],
    ids=["wrong", "none", "array", "format", "remote", "dialect"],
)
def test_a_result_that_does_not_match_is_delivered_with_one_line_that_says_so(
    content: list[types.ContentBlock], more: dict[str, Any], output: JSONObject, value: Any
) -> None:
    result = result_of(types.CallToolResult(content=content, **more), output)
    assert (result.status, result.result) == ("success", value)


def test_base64_with_line_breaks_or_without_padding_is_a_file() -> None:
    broken = "\r\n".join(PIXEL[at : at + 20] for at in range(0, len(PIXEL), 20))
    bare = base64.b64encode(b"\xff\xfeab").decode().rstrip("=").replace("/", "_").replace("+", "-")
    blocks: list[types.ContentBlock] = [
        types.ImageContent(data=broken, mime_type="image/png"),
        types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///a.bin", blob=bare)),
    ]
    result = result_of(types.CallToolResult(content=blocks), None)
    assert result.status == "success"
    assert [each.read() for each in result.attachments if isinstance(each, Attachment)] == [
        base64.b64decode(PIXEL),
        b"\xff\xfeab",
    ]


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (
            types.ImageContent(data="%%%", mime_type="image/png"),
            "[The file image.png is left out: it is not base64.]",
        ),
        (
            types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///a.pdf", blob="===")),
            "[The file a.pdf is left out: it is not base64.]",
        ),
    ],
)
def test_a_file_that_cannot_be_read_costs_itself_alone(block: types.ContentBlock, line: str) -> None:
    result = result_of(types.CallToolResult(content=[text("Done."), block, IMAGE]), None)
    assert (result.status, result.result) == ("success", f"Done.\n{line}")
    assert [each.name for each in result.attachments] == ["image.png"]


@pytest.mark.parametrize(
    ("uri", "kind"), [("file:///a%00b.pdf", "application/pdf"), ("x:///a.pdf", ""), ("", "a\x00/b")]
)
def test_an_odd_name_or_type_costs_no_file(uri: str, kind: str) -> None:
    resource = types.BlobResourceContents(uri=uri, blob=PIXEL, mime_type=kind)
    blocks: list[types.ContentBlock] = [
        types.EmbeddedResource(resource=resource),
        types.ImageContent(data=PIXEL, mime_type=kind),
    ]
    result = result_of(types.CallToolResult(content=blocks), None)
    assert (result.status, len(result.attachments)) == ("success", 2)


def test_structured_content_that_no_json_carries_costs_itself_alone() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    for odd in (float("nan"), 10**5000, deep):
        result = result_of(types.CallToolResult(content=[text("Paid.")], structured_content={"a": odd}), None)
        assert result.status == "success"
        assert str(result.result).startswith("Paid.\n[The structured content is left out: ")


def test_an_error_keeps_its_pictures_and_its_structure() -> None:
    content: list[types.ContentBlock] = [text("No seat."), IMAGE]
    result = result_of(
        types.CallToolResult(content=content, structured_content={"free": 0, "png": PIXEL}, is_error=True),
        SUM,
    )
    assert (result.status, result.error) == ("error", "No seat.")
    assert [each.name for each in result.attachments] == ["image.png"]
    assert result.error_data == {"structuredContent": {"free": 0, "png": "[file image.png]"}}
    same = types.CallToolResult(content=[text('{"free": 0}')], structured_content={"free": 0}, is_error=True)
    assert (result_of(same, None).error, result_of(same, None).error_data) == ('{"free": 0}', None)
    alone = result_of(types.CallToolResult(content=[IMAGE], is_error=True), None)
    assert (alone.error, len(alone.attachments)) == ("The tool failed.", 1)


def test_an_embedded_text_file_is_told_with_its_uri() -> None:
    file = types.TextResourceContents(uri="file:///notes.txt", text="Tea at four.")
    result = result_of(types.CallToolResult(content=[types.EmbeddedResource(resource=file)]), None)
    assert result.result == "file:///notes.txt:\nTea at four."


def test_a_name_that_a_server_of_ours_gives_is_kept() -> None:
    blocks: list[types.ContentBlock] = [
        types.ImageContent(data=PIXEL, mime_type="image/png", _meta={FILE_NAME: "chart.png"}),
        types.AudioContent(data=PIXEL, mime_type="audio/wav", _meta={FILE_NAME: "a\x00b"}),
        types.AudioContent(data=PIXEL, mime_type="audio/wav", _meta={FILE_NAME: 7}),
    ]
    result = result_of(types.CallToolResult(content=blocks), None)
    assert [each.name for each in result.attachments] == ["chart.png", "audio.wav", "audio-2.wav"]


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (
            {"type": "hologram", "data": "x"},
            "[Content of the kind 'hologram' is left out: it cannot be read.]",
        ),
        ({"type": "text", "text": 5}, "[Content of the kind 'text' is left out: it cannot be read.]"),
        ({"type": "image", "data": "AAAA"}, "[Content of the kind 'image' is left out: it cannot be read.]"),
        ({"type": ["x"]}, "[Content of an unknown kind is left out: it cannot be read.]"),
        (None, "[Content of an unknown kind is left out: it cannot be read.]"),
        (
            {"type": "x" * 5000},
            f"[Content of the kind {'x' * 60 + ' … (5000 characters)'!r} is left out: it cannot be read.]",
        ),
    ],
)
def test_a_block_that_is_not_known_costs_itself_alone(block: Any, line: str) -> None:
    answer = readable_answer(
        {"content": [{"type": "text", "text": "Paid."}, block, {"type": "text", "text": "Bye."}]}
    )
    result = result_of(types.CallToolResult.model_validate(answer, by_name=False), None)
    assert result.result == f"Paid.\n{line}\nBye."


def test_structured_content_needs_no_content_beside_it() -> None:
    for more in ({}, {"content": None}):
        answer = readable_answer({"structuredContent": {"sum": 3}, **more})
        result = result_of(types.CallToolResult.model_validate(answer, by_name=False), SUM)
        assert (result.status, result.result) == ("success", {"sum": 3})
    assert readable_answer({}) == {}
    assert readable_answer({"content": "words"}) == {"content": "words"}


@pytest.mark.parametrize(
    "answer",
    [
        types.CallToolResult(content=[text("a\x00b")]),
        types.CallToolResult(content=[], structured_content={"rows": ["a\x00b"]}),
        types.CallToolResult(content=[text("Two")], structured_content={"a\x00b": 1}),
        types.CallToolResult(content=[text("a\x00b")], is_error=True),
        types.CallToolResult(content=[text("No")], structured_content={"rows": ["\x00"]}, is_error=True),
    ],
)
def test_the_model_is_told_of_left_out_characters(answer: types.CallToolResult) -> None:
    assert model_text(result_of(answer, None)).count("[NUL characters of this result are left out.]") == 1
