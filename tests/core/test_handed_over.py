"""Values that handlers pass to the state, and events that they emit, are checked field by field."""

import base64
import binascii
import enum
import random
import re
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.marks import requirement

from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.results import (
    LARGE,
    Attachment,
    AttachmentRef,
    ImageContent,
    TextContent,
    ToolResult,
    as_result,
    decoded,
    unchecked,
)
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.tool import tool
from toolwright.core.tools.toolset import Toolset

NUMBER: Any = 7
WRONG: Any = b"raw"  # a value that a user can pass anyway


class Code(enum.Enum):
    MISSING = "missing"


class Loud(enum.StrEnum):
    MISSING = "missing"


WRONG_FILES: list[tuple[dict[str, Any], str]] = [
    ({"data": NUMBER}, "data must be base64 text, not 7."),
    ({"data": "not base64!"}, "data must be base64 text, not 'not base64!'."),
    ({"data": "QUJ"}, "data must be base64 text"),
    ({"data": None}, "data must be base64 text"),
    ({"name": WRONG}, "name must be text"),
    ({"name": ""}, "name must be text"),
    ({"name": "a\x00"}, "name must be text"),
    ({"mime_type": WRONG}, "mime_type must be text"),
    ({"width": -1}, "width must be a whole number"),
    ({"width": 800.5}, "width must be a whole number, not 800.5."),
    ({"width": True}, "width must be a whole number"),
    ({"height": WRONG}, "height must be a whole number"),
]


@requirement("S2-5.1-3")
@pytest.mark.anyio
@pytest.mark.parametrize(("wrong", "words"), WRONG_FILES)
async def test_a_wrong_attachment_is_refused_where_it_is_built(wrong: dict[str, Any], words: str) -> None:
    fields: dict[str, Any] = {"name": "a", "mime_type": "image/png", "data": "AA==", **wrong}
    with pytest.raises(InvalidRequest, match=re.escape(words)):
        Attachment(**fields)

    @tool(name="draw", description="Draw.")
    async def draw() -> ToolResult:
        return ToolResult.ok("drawn", (Attachment(**fields),))

    result = await Toolset([draw]).call("draw", {})
    assert result.status == "error"
    assert words in (result.error or "")
    assert "in draw" in (result.stack or ""), "its author sees the line"


@pytest.mark.parametrize(("wrong", "words"), WRONG_FILES)
def test_a_wrong_attachment_from_outside_is_an_error_that_names_its_place(
    wrong: dict[str, Any], words: str
) -> None:
    fields: dict[str, Any] = {"name": "a", "mime_type": "image/png", "data": "AA==", "width": 8.0, **wrong}
    good = Attachment(name="a", mime_type="image/png", data="AA==")
    result = as_result(ToolResult.ok("x", (good, unchecked(**fields))))
    assert result.status == "error"
    assert f"Attachment 2: {words}" in (result.error or "")


@requirement("S2-5.3-7")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (AttachmentRef(id="f", path=WRONG, name="a", mime_type="x/y", size=1), "path must be text"),
        (AttachmentRef(id="f", path="/a", name="a", mime_type="x/y", size=WRONG), "size must be a whole"),
        (
            AttachmentRef(id="f", path="/a", name="a", mime_type="x/y", size=1, description=WRONG),
            "description must be text",
        ),
    ],
)
def test_an_invalid_field_of_a_reference_is_named(given: AttachmentRef, words: str) -> None:
    good = Attachment(name="a", mime_type="image/png", data="AA==")
    result = as_result(ToolResult.ok("x", (good, given)))
    assert result.status == "error"
    assert f"Attachment 2: {words}" in (result.error or "")


@requirement("S2-6.3-1")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ImageContent(data=WRONG, mime_type="image/png"), "data must be base64 text"),
        (ImageContent(data="AA==", mime_type=WRONG), "mime_type must be text"),
        (TextContent(text=WRONG), "text must be text"),
    ],
)
def test_an_invalid_field_of_content_is_named(given: ImageContent | TextContent, words: str) -> None:
    for value in (given, [given]):
        result = as_result(value)
        assert result.status == "error"
        assert f"Content 1: {words}" in (result.error or "")


def test_attachments_that_are_no_list_are_an_error_result() -> None:
    assert "attachments must be a list" in (as_result(ToolResult.ok("x", WRONG.__len__)).error or "")


@pytest.mark.parametrize(
    ("given", "text"), [(Code.MISSING, "missing"), (Loud.MISSING, "missing"), (404, "404"), (None, None)]
)
def test_the_words_of_an_error_become_text(given: Any, text: str | None) -> None:
    result = as_result(ToolResult.fail("no", error_code=given, stack=given))
    assert (result.error, result.error_code, result.stack) == ("no", text, text)
    assert type(result.error_code) in (str, type(None))
    assert as_result(ToolResult.fail(given)).error == (text or "The tool failed.")


def test_an_error_that_has_no_text_is_named_by_its_type() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError

    odd: Any = Odd()
    assert as_result(ToolResult.fail("no", stack=odd)).stack == "Odd"


@pytest.mark.parametrize("event_type", [None, "", "  ", "a\x00", "bad\ud800", 3, "x" * 300])
def test_an_event_needs_a_type_that_the_journal_can_keep(event_type: Any) -> None:
    state = MemoryState()
    with pytest.raises(InvalidRequest, match="type of an event"):
        state.emit(event_type, 1)
    assert state.events == []


def test_what_is_emitted_cannot_be_changed_afterwards() -> None:
    state, said = MemoryState(), {"a": [1]}
    state.emit("mine", said)  # type: ignore[arg-type]  # a dict of lists is JSON
    said["a"].append(2)
    assert state.events[0].payload == {"data": {"a": [1]}}
    with pytest.raises(InvalidJSON):
        state.emit("mine", float("nan"))


@requirement("S2-5.1-3")
def test_a_size_that_is_a_whole_float_is_taken_as_the_number_that_it_is() -> None:
    new = Attachment(name="a", mime_type="image/png", data="AA==", width=800.0, height=6e2)  # type: ignore[arg-type]  # arguments that are floats
    old = AttachmentRef(id="f", path="/a", name="a", mime_type="x/y", size=3.0, width=1.0)  # type: ignore[arg-type]  # the same
    one, two = as_result(ToolResult.ok("x", (new, old))).attachments
    assert repr((one.width, one.height, two.width, getattr(two, "size", None))) == "(800, 600, 1, 3)"


@requirement("S2-5.1-3")
@pytest.mark.parametrize("width", [800.5, float("nan"), float("inf"), -1.0, 1e300, True])
def test_a_size_that_is_no_whole_number_is_one_clear_error(width: Any) -> None:
    words = f"width must be a whole number, not {width!r}."
    with pytest.raises(InvalidRequest) as refused:
        Attachment(name="a", mime_type="x/y", data="AA==", width=width)
    assert refused.value.message == f"Attachment 'a': {words}"
    given = unchecked(name="a", mime_type="x/y", data="AA==", width=width)
    result = as_result(ToolResult.ok("x", (given,)))
    assert result.error == f"The tool returned an invalid result. Attachment 1: {words}"


@pytest.mark.anyio
@requirement("S2-5.1-3")
async def test_a_width_that_the_model_gave_is_the_width_of_the_image() -> None:
    @tool(description="Draw.")
    async def draw(width: float, height: float = 512) -> ToolResult:
        image = Attachment(name="a.png", mime_type="image/png", data="AA==", width=width, height=height)  # type: ignore[arg-type]  # S2 11.4
        return ToolResult.ok("Drawn.", (image,))

    [image] = (await Toolset([draw]).call("draw", {"width": 800})).attachments
    assert repr((image.width, image.height)) == "(800, 512)"


@pytest.mark.parametrize(
    "size", [0, 1, LARGE * 3 // 4, LARGE * 3 // 4 + 1, LARGE * 9 // 4 - 1, LARGE * 9 // 4]
)
def test_a_large_file_is_decoded_in_pieces_as_it_is_in_one(size: int) -> None:
    content = random.Random(size).randbytes(size)
    assert decoded(base64.b64encode(content).decode()) == content


@pytest.mark.parametrize(
    "data",
    [
        "A" * (LARGE - 2) + "==" + "AAAA",  # padding at the end of a piece, but not of the text
        "A" * LARGE + "A",
        "A" * (LARGE - 1) + "\n" + "AAAA",
        "A" * LARGE + "é",
    ],
)
def test_a_large_file_that_is_not_base64_is_refused_wherever_it_is_invalid(data: str) -> None:
    with pytest.raises(ValueError):
        binascii.a2b_base64(data, strict_mode=True)
    with pytest.raises(ValueError):
        decoded(data)


@pytest.mark.anyio
async def test_an_attachment_is_made_of_bytes_or_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "chart.svg"
    path.write_bytes(b"<svg/>")
    named = Attachment.from_path(path)
    assert (named.name, named.mime_type, named.read()) == ("chart.svg", "image/svg+xml", b"<svg/>")
    given = [
        named,
        Attachment.from_path(str(path), name="chart.svg", mime_type="image/svg+xml"),
        *[
            Attachment(name="chart.svg", mime_type="image/svg+xml", data=data)
            for data in (b"<svg/>", bytearray(b"<svg/>"), memoryview(b"<svg/>"), "PHN2Zy8+")
        ],
    ]
    assert given == [named] * len(given)
    unknown = tmp_path / "unknown"
    unknown.write_bytes(b"")
    assert Attachment.from_path(unknown).mime_type == "application/octet-stream"

    @tool(name="draw", description="Draw.")
    async def draw() -> ToolResult:
        return ToolResult.ok("drawn", (Attachment(name="a.bin", mime_type="a/b", data=b"\x00\xff"),))

    [made] = (await Toolset([draw]).call("draw", {})).attachments
    assert isinstance(made, Attachment)
    assert made.read() == b"\x00\xff"
    with pytest.raises(FileNotFoundError):
        Attachment.from_path(tmp_path / "none")
