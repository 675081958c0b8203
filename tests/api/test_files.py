"""Files and environment values of threads over HTTP."""

import base64
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.api.rig import Api, read, serving
from tests.behaviour.marks import requirement
from tests.runtime.test_env import script
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

PNG = {
    "name": "chart.png",
    "mimeType": "image/png",
    "data": base64.b64encode(b"\x89PNG").decode(),
    "width": 3,
}


async def sent(api: Api, *files: dict[str, Any]) -> str:
    """Return the id of a thread with a message that has these files."""
    thread_id = await api.thread()
    body = {"content": "See", "attachments": list(files)}
    run_id = (await api.post(f"/api/threads/{thread_id}/messages", body, 202))["runId"]
    await api.rig.rt.runs.wait(run_id, 10)
    return thread_id


async def test_a_message_brings_files_that_are_listed_and_downloaded() -> None:
    async with serving(model=script()) as api:
        thread_id = await sent(api, PNG, {**PNG, "name": "../CHART.png"})
        said = (await api.get(f"/api/threads/{thread_id}/messages"))["messages"]
        names = [file["path"] for file in said[0]["attachments"]]
        assert names == ["/attachments/chart.png", "/attachments/CHART-2.png"]
        assert "digest" not in said[0]["attachments"][0]
        files = (await api.get(f"/api/threads/{thread_id}/files"))["files"]
        assert [(file["path"], file["name"], file["mimeType"], file["size"]) for file in files] == [
            ("/attachments/CHART-2.png", "CHART-2.png", "image/png", 4),
            ("/attachments/chart.png", "chart.png", "image/png", 4),
        ]
        for path in ("attachments/chart.png", "/attachments/chart.png", "ATTACHMENTS/Chart.PNG"):
            answer = await api.client.get(f"/api/threads/{thread_id}/files/{path}")
            assert (answer.status_code, answer.content) == (200, b"\x89PNG"), path
        again = await api.client.get(
            f"/api/threads/{thread_id}/files/attachments/chart.png",
            headers={"If-None-Match": answer.headers["etag"]},
        )
        assert (again.status_code, again.content) == (304, b"")


TEXT = {"name": "t.txt", "mimeType": "text/plain", "data": base64.b64encode(b"0123456789").decode()}


async def test_head_says_of_a_file_what_its_download_would() -> None:
    async with serving(model=script()) as api:
        place = f"/api/threads/{await sent(api, TEXT)}/files/attachments"
        head, whole = await api.client.head(f"{place}/t.txt"), await api.client.get(f"{place}/t.txt")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "10")
        assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}
        assert (await api.client.head(f"{place}/none.txt")).status_code == 404


@pytest.mark.parametrize(
    ("asked", "status", "content", "said"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("Bytes=9-99", 206, b"9", "bytes 9-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=5-4", 200, b"0123456789", None),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("lines=0-1", 200, b"0123456789", None),
        ("bytes=²-", 200, b"0123456789", None),
    ],
)
async def test_a_part_of_a_file_is_downloaded_by_its_range(
    asked: str, status: int, content: bytes | None, said: str | None
) -> None:
    async with serving(model=script()) as api:
        place = f"/api/threads/{await sent(api, TEXT)}/files/attachments/t.txt"
        answer = await api.client.get(place, headers={"Range": asked.encode("latin-1")})  # type: ignore[dict-item]  # bytes as sent
        assert (answer.status_code, answer.headers.get("content-range")) == (status, said)
        assert answer.content == content if content is not None else read(answer, 416)["error"]
        changed = await api.client.get(place, headers={"Range": "bytes=0-3", "If-Range": '"older"'})
        assert (changed.status_code, changed.content) == (200, b"0123456789")
        same = await api.client.get(
            place, headers={"Range": "bytes=0-3", "If-Range": changed.headers["etag"]}
        )
        assert (same.status_code, same.content) == (206, b"0123")


@pytest.mark.parametrize(
    ("name", "mime_type", "shown", "kind"),
    [
        ("a.png", "image/png", "inline", "image/png"),
        ("a.html", "text/html", "attachment", "text/html; charset=utf-8"),
        ("a.svg", "image/svg+xml", "attachment", "image/svg+xml"),
        ("ä b.txt", "text/plain", "inline", "text/plain; charset=utf-8"),
        ("x", "text/html\r\nX-Evil: 1", "attachment", "application/octet-stream"),
        ('a"\r\nX-Evil: 1.png', "image/png", "inline", "image/png"),
    ],
)
async def test_a_download_cannot_run_in_a_browser(name: str, mime_type: str, shown: str, kind: str) -> None:
    async with serving(model=script()) as api:
        thread_id = await sent(api, {**PNG, "name": name, "mimeType": mime_type})
        [file] = (await api.get(f"/api/threads/{thread_id}/files"))["files"]
        answer = await api.client.get(f"/api/threads/{thread_id}/files{file['path']}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
        assert answer.headers["content-disposition"].startswith(f"{shown}; filename*=UTF-8''")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert "x-evil" not in answer.headers


@requirement("S2-5.2-4")
@pytest.mark.parametrize(
    "path",
    ["none.png", "..%2f..%2fetc/passwd", "%2e%2e/%2e%2e/etc/passwd", "a%00b", "%ff", "a//b", "attachments"],
)
async def test_a_file_that_is_not_there_is_not_found_however_it_is_named(path: str) -> None:
    async with serving(model=script()) as api:
        thread_id = await sent(api, PNG)
        answer = await api.client.get(f"/api/threads/{thread_id}/files/{path}")
        assert answer.status_code in (400, 404)
        assert answer.json()["error"]
        other = await api.thread()
        read(await api.client.get(f"/api/threads/{other}/files/attachments/chart.png"), 404)


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ([{**PNG, "data": "no base64!"}], 400), ([{**PNG, "data": 5}], 400), ([{"name": "x"}], 400), ("x", 400),
        ([{**PNG, "name": ""}], 400), ([{**PNG, "width": -1}], 400), ([{**PNG, "more": 1}], 400),
        ([PNG, {**PNG, "data": base64.b64encode(b"x" * 2_000).decode()}], 413),
    ],
)  # fmt: skip
async def test_a_message_with_an_invalid_file_is_refused_whole(files: Any, status: int) -> None:
    async with serving(model=script(), settings=Settings(max_attachment=1_000)) as api:
        thread_id = await api.thread()
        await api.post(f"/api/threads/{thread_id}/messages", {"content": "x", "attachments": files}, status)
        assert (await api.get(f"/api/threads/{thread_id}/files"))["files"] == []
        assert (await api.get(f"/api/threads/{thread_id}"))["thread"]["status"] == "idle"


@pytest.mark.parametrize(
    ("files", "path", "said"),
    [
        ([{**PNG, "data": "no base64!"}], "attachments.0.data", "must be base64 text"),
        ([PNG, {**PNG, "data": "YQ"}], "attachments.1.data", "must be base64 text"),
        ([PNG, {**PNG, "mimeType": ""}], "attachments.1.mimeType", "must be text that is not empty"),
        ([PNG, {**PNG, "name": 5}], "attachments.1.name", "must be text"),
        ([PNG] * 101, "attachments", "must be at most 100 files, not 101"),
    ],
)
async def test_an_error_of_an_upload_names_its_place(files: Any, path: str, said: str) -> None:
    async with serving(model=script()) as api:
        place = f"/api/threads/{await api.thread()}/messages"
        answer = await api.client.post(place, json={"content": "x", "attachments": files})
        assert answer.status_code == 400
        [detail] = answer.json()["details"]
        assert detail["path"] == path
        assert said in detail["message"]


async def test_a_file_that_is_too_large_is_named_by_its_place() -> None:
    async with serving(model=script(), settings=Settings(max_attachment=1_000)) as api:
        place = f"/api/threads/{await api.thread()}/messages"
        large = {**PNG, "data": base64.b64encode(b"x" * 2_000).decode()}
        shown = await api.post(place, {"content": "x", "attachments": [PNG, large]}, 413)
        assert shown["error"].startswith("attachments.1.data: the file 'chart.png' is larger than")


async def test_a_message_may_be_files_alone() -> None:
    async with serving(model=script()) as api:
        thread_id = await api.thread()
        body = {"content": "", "attachments": [PNG]}
        await api.post(f"/api/threads/{thread_id}/messages", body, 202)
        await api.post(f"/api/threads/{thread_id}/messages", {"content": ""}, 400)


class Needs(BaseModel):
    store_id: str
    size: int = 1
    key: Annotated[str, tw.Secret] = ""


@tw.tool(description="Search.", tenvs=Needs)
async def search(state: tw.ThreadState) -> str:
    return f"{state.tenvs.store_id} {await state.env('REGION')} {await state.env('TOKEN')}"


@requirement("S2-9.3-3")
async def test_a_thread_without_required_tenvs_is_refused_with_every_name() -> None:
    async with serving(model=script(), tools=[search]) as api:
        body = {"agentId": "tester", "tenvs": {"size": "hunter2", "key": 5}}
        refused = await api.post("/api/threads", body, 400)
        assert refused["missing"] == ["store_id"]
        assert refused["invalid"] == [
            {"name": "size", "message": "must be an integer, not a string"},
            {"name": "key", "message": "must be a string, not a number"},
        ]
        assert "hunter2" not in str(refused)
        assert (await api.get("/api/threads"))["threads"] == []


async def test_values_are_given_with_a_thread_and_changed_later_and_never_shown() -> None:
    async with serving(model=script("search"), tools=[search]) as api:
        body = {
            "agentId": "tester",
            "tenvs": {"store_id": "vs-1"},
            "env": {"TOKEN": "t0ken-of-eleven", "REGION": {"value": "eu", "type": "text"}},
        }
        made = await api.post("/api/threads", body, 201)
        assert "t0ken" not in str(made)
        path = f"/api/threads/{made['threadId']}/env"
        changed = read(
            await api.client.patch(
                path, json={"env": {"REGION": {"value": "us", "type": "text"}, "X": None}}
            ),
            200,
        )
        assert changed == {"env": {"REGION": {"type": "text"}, "TOKEN": {"type": "secret"}}}
        await api.rig.rt.runs.wait(await api.run(made["threadId"]), 10)
        said = (await api.get(f"/api/threads/{made['threadId']}/messages"))["messages"]
        assert said[2]["content"] == "vs-1 us [redacted:TOKEN]"


@pytest.mark.parametrize(
    "env",
    [
        None,
        [],
        "x",
        {"A": 1},
        {"A": {"type": "text"}},
        {"A": {"value": "x", "type": "x"}},
        {"": "x"},
        {"A": "\x00"},
    ],
)
async def test_invalid_values_are_refused_and_not_repeated(env: Any) -> None:
    async with serving(model=script()) as api:
        thread_id = await api.thread()
        read(await api.client.patch(f"/api/threads/{thread_id}/env", json={"env": env}), 400)
        read(await api.client.patch("/api/threads/thr_none/env", json={"env": {"A": "hunter2"}}), 404)
        assert (await api.rig.rt.threads.env(thread_id)) == {}
