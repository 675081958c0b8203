"""S2 §5: files that tools create and refer to, stored, linked and downloaded."""

import base64
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.doors import app_of, carried_out, ended, error_of, over_http, turns
from tests.behaviour.marks import requirement
from toolwright.core.results import AttachmentRef
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def attached(name: Any = "chart.png", **more: Any) -> tw.Attachment:  # additional or other fields
    fields: dict[str, Any] = {"mime_type": "image/png", "data": encoded(b"\x89PNG"), **more}
    return tw.Attachment(name=name, **fields)


def referring(path: str, **more: Any) -> tw.AttachmentRef:  # additional or other fields
    fields: dict[str, Any] = {"id": "mine", "name": "mine.txt", "mime_type": "text/x-mine", "size": 1, **more}
    return tw.AttachmentRef(path=path, **fields)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def handing(name: str, *files: tw.Attachment | tw.AttachmentRef) -> tw.Tool:
    """Return a tool of that name that returns these files."""

    async def hand() -> tw.ToolResult:
        return tw.ToolResult.ok("Here.", files)

    return tw.tool(name=name, description="Hand over.")(hand)


@requirement("S2-5.4-1", "S2-4.2-3")
async def test_5_4_a_chart_of_numbers() -> None:
    @tw.tool(description="Generate chart")
    async def generate_chart(state: tw.ThreadState, data: list[float]) -> tw.ToolResult:
        chart = attached(data=encoded(repr(data).encode()), width=800, height=600)
        return tw.ToolResult.ok("Chart generated successfully", (chart,))

    async with carried_out([generate_chart], ("generate_chart", {"data": [1, 2.5]})) as seen:
        [result] = seen.results
        [file] = result.attachments
        assert result.content == "Chart generated successfully"
        assert (file.name, file.mime_type, file.width, file.height) == ("chart.png", "image/png", 800, 600)
        assert await seen.rt.files.read(seen.run.thread_id, file.path) == b"[1.0, 2.5]"


@requirement("S2-5.1-1", "S2-5.1-2", "S2-5.1-3", "S2-5.1-4", "S2-5.1-5", "S2-4.1-6", "S2-5.2-1", "S2-5.2-2")
async def test_new_files_are_stored_linked_and_downloaded(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    wide = attached("chart.png", width=8, height=6)
    plain = attached("notes.txt", mime_type="text/plain", data=encoded(b"hello"))
    app = app_of(ScriptedModel(turns(("draw", {}))), [handing("draw", wide, plain)])
    async with app.runtime(settings) as rt, over_http(rt) as http:
        thread = await rt.threads.create("tester")
        await ended(rt, thread.id)
        said = (await http.get(f"/api/threads/{thread.id}/messages")).json()["messages"]
        linked = said[2]["attachments"]
        assert [message.get("attachments") is None for message in said] == [True, True, False, True]
        shown = [
            [file.get(key) for key in ("path", "name", "mimeType", "size", "width", "height")]
            for file in linked
        ]
        assert shown == [
            ["/attachments/chart.png", "chart.png", "image/png", 4, 8, 6],
            ["/attachments/notes.txt", "notes.txt", "text/plain", 5, None, None],
        ]
        for file, content in zip(linked, (b"\x89PNG", b"hello"), strict=True):
            answer = await http.get(f"/api/threads/{thread.id}/files{file['path']}")
            assert (answer.status_code, answer.content) == (200, content)
    async with app_of(ScriptedModel(turns()), []).runtime(settings) as rt:  # the files outlive the process
        assert await rt.files.read(thread.id, "/attachments/notes.txt") == b"hello"


@requirement("S2-5.1-1", "S2-5.1-2", "S2-5.1-3", "S2-5.1-4", "S2-5.1-5", "S2-5.3-7")
@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": 7}, {"mime_type": None}, {"data": 7}, {"data": "no base64!"}, {"width": "8"},
        {"width": -1}, {"height": 1.5}, {"path": "/x", "size": "1"}, {"path": "/x", "description": 7},
    ],
)  # fmt: skip
async def test_a_file_with_an_invalid_field_is_an_error_and_none_is_stored(wrong: dict[str, Any]) -> None:
    @tw.tool(description="Draw.")
    async def draw() -> tw.ToolResult:
        made = referring(**wrong) if "path" in wrong else attached(**wrong)
        return tw.ToolResult.ok("Here.", (attached(), made))

    async with carried_out([draw], ("draw", {})) as seen:
        error = error_of(seen.results[0])["error"]
        assert "Attachment" in error
        assert f"{[*wrong][-1]} must be" in error
        assert await seen.rt.files.list(seen.run.thread_id) == []


@requirement("S2-5.2-3")
async def test_a_large_image_keeps_every_byte_and_its_size() -> None:
    image = b"\x89PNG\r\n\x1a\n" + random.Random(7).randbytes(6_000_000)
    large = attached("large.png", data=encoded(image), width=12_000, height=9_000)
    async with carried_out([handing("draw", large)], ("draw", {})) as seen:
        [file] = seen.results[0].attachments
        assert (file.size, file.width, file.height) == (len(image), 12_000, 9_000)
        kept = await seen.rt.files.read(seen.run.thread_id, file.path)
        assert sha256(kept).digest() == sha256(image).digest()


@requirement("S2-5.2-4", "S2-5.2-1")
async def test_no_name_leads_out_of_the_attachments_and_no_path_out_of_the_thread(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("not yours", encoding="utf-8")
    names = ["../../outside.txt", "..\\..\\outside.txt", str(outside), "/etc/passwd", "..", "a\u202e/../../b"]
    tools = [
        handing("draw", *[attached(name) for name in names]),
        handing("refer", referring("/../outside.txt")),
        handing("absolute", referring(str(outside))),
    ]
    calls = turns(("draw", {}), ("refer", {}), ("absolute", {}))
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'db' / 'journal.db'}")
    (tmp_path / "db").mkdir()
    async with app_of(ScriptedModel(calls), tools).runtime(settings) as rt, over_http(rt) as http:
        thread = await rt.threads.create("tester")
        await ended(rt, thread.id)
        drawn, refused, absolute = [m for m in await rt.threads.messages(thread.id) if m.role == "tool"]
        assert len({file.path for file in drawn.attachments}) == len(names)
        for file in drawn.attachments:
            assert file.path == f"/attachments/{file.name}"
            assert "/" not in file.name
            assert ".." not in Path(file.path).parts
        assert "cannot be used" in error_of(refused)["error"]
        assert "There is no file" in error_of(absolute)["error"]
        for path in ("..%2f..%2foutside.txt", "%2e%2e/%2e%2e/outside.txt", str(outside)):
            answer = await http.get(f"/api/threads/{thread.id}/files/{path}")
            assert (answer.status_code, "not yours" in answer.text) == (404, False)
    assert outside.read_text(encoding="utf-8") == "not yours"
    assert names_in(tmp_path) == ["db", "outside.txt"]


@requirement(
    "S2-5.3-1", "S2-5.3-2", "S2-5.3-3", "S2-5.3-4", "S2-5.3-5", "S2-5.3-6", "S2-5.3-7", "S2-5.3-8", "S2-5.3-9",
    "S2-5.3-10", "S2-5.3-11", "S2-10-4",
)  # fmt: skip
async def test_a_file_of_another_call_is_passed_on_without_being_stored_again() -> None:
    tools = [
        handing("draw", attached(width=8, height=6)),
        handing("pass_on", referring("/attachments/chart.png", description="A chart"), attached("new.png")),
    ]
    async with carried_out(tools, ("draw", {}), ("pass_on", {})) as seen:
        thread = seen.run.thread_id
        [first] = seen.results[0].attachments
        passed, new = seen.results[1].attachments
        assert passed == AttachmentRef(
            id=first.id, path="/attachments/chart.png", name="chart.png", mime_type="image/png", size=4,
            width=8, height=6, description="A chart", digest=first.digest,
        )  # fmt: skip
        assert passed.type == "file"
        assert len({first.id, new.id}) == 2
        kept = await seen.rt.files.list(thread)
        assert [file.path for file in kept] == ["/attachments/chart.png", "/attachments/new.png"]
        assert kept[0].id == first.id
        async with over_http(seen.rt) as http:
            shown = (await http.get(f"/api/threads/{thread}/messages")).json()["messages"][4]["attachments"][
                0
            ]
            assert shown == {
                "id": first.id, "type": "file", "path": "/attachments/chart.png", "name": "chart.png",
                "mimeType": "image/png", "size": 4, "width": 8, "height": 6, "description": "A chart",
            }  # fmt: skip


@requirement("S2-5.3-1", "S2-5.3-4")
async def test_a_reference_to_what_is_not_there_is_an_error_and_nothing_is_stored() -> None:
    async with carried_out(
        [handing("draw", attached(), referring("/attachments/none.png"))], ("draw", {})
    ) as seen:
        assert "There is no file '/attachments/none.png'" in error_of(seen.results[0])["error"]
        assert await seen.rt.files.list(seen.run.thread_id) == []
