"""A call over HTTP: the request, and the result of its answer."""

import asyncio
import base64
import gzip
import json
import subprocess
import sys
import zlib
from typing import Any

import pytest

import toolwright as tw
from tests.executors.rig import Received, answer, as_json, bench
from toolwright.core.state.memory import MemoryState

pytestmark = pytest.mark.anyio


async def test_a_post_carries_the_arguments_as_json() -> None:
    async with bench() as on:
        on.server.replies["/items/7"] = as_json({"ok": [1, None]})
        result = await on.call("/items/{id}", {"id": 7, "a": "ü", "b": None})
        assert (result.status, result.result) == ("success", {"ok": [1, None]})
        [got] = on.server.received
        assert (got.method, got.target) == ("POST", "/items/7")
        assert json.loads(got.body) == {"a": "ü", "b": None}
        assert got.headers["Content-Type"] == "application/json"
        assert got.headers["Accept"] == "application/json"
        assert got.headers["Host"] == f"api.test:{on.server.port}"


async def test_a_get_carries_them_in_the_query_and_the_variables_where_they_belong() -> None:
    async with bench() as on:
        result = await on.call(
            "/v1/{id}?key=${env.KEY}",
            {"id": "a/b", "q": ["x", "y z"], "a": True},
            method="GET",
            headers={"Authorization": "Bearer ${env.KEY}", "Accept": "text/csv"},
            env={"KEY": "s3cret&value"},
        )
        assert result.result == {"path": "/v1/a%2Fb?key=s3cret%26value&q=x&q=y%20z&a=true"}
        [got] = on.server.received
        assert got.body == b""
        assert "Content-Type" not in got.headers
        assert got.headers["Authorization"] == "Bearer s3cret&value"
        assert got.headers["Accept"] == "text/csv"


async def test_user_and_password_of_a_url_become_its_authorization() -> None:
    async with bench() as on:
        await on.call(host="me:p%40ss@api.test")
        token = base64.b64encode(b"me:p@ss").decode()
        assert on.server.received[0].headers["Authorization"] == f"Basic {token}"


async def test_the_key_is_the_call_and_stays_when_it_runs_again() -> None:
    async with bench() as on:
        state = MemoryState(call_id="call_1")
        await on.call(state=state)
        await on.call(state=state)
        await on.call()
        await on.call()
        keys = [got.headers["Idempotency-Key"] for got in on.server.received]
        assert keys[:2] == ["call_1", "call_1"]
        assert len(set(keys)) == 3


async def test_missing_variables_are_named_and_nothing_is_sent() -> None:
    async with bench() as on:
        result = await on.call(
            "/?a=${env.ONE}",
            headers={"X": "${env.TWO} ${env.THREE}"},
            env={"TWO": "here"},
            variables=[{"name": "FOUR", "required": True}, {"name": "FIVE", "required": False}],
        )
        assert result.error_code == "variables_required"
        assert result.error == "Tool 'fetch' needs variables that are not set here: ONE, THREE, FOUR."
        assert result.error_data == {"missing": ["ONE", "THREE", "FOUR"]}
        assert on.server.received == []


async def test_what_cannot_be_filled_is_an_error_without_any_value() -> None:
    async with bench() as on:
        left = await on.call("/{id}", {"id": "../admin"})
        assert (left.error_code, on.server.received) == ("invalid_arguments", [])
        broken = await on.call(headers={"X": "${env.KEY}"}, env={"KEY": "top\nsecret"})
        assert broken.error == "The header 'X' would hold a line break or another control character."
        assert on.server.received == []


async def test_no_cookie_is_kept_and_connections_are() -> None:
    async with bench() as on:
        on.server.replies["/"] = answer(body="{}", Set_Cookie="session=1; Path=/")
        for _ in range(3):
            await on.call()
        assert all("Cookie" not in got.headers for got in on.server.received)
        assert on.server.connections == 1


JSON_TYPE = {"Content_Type": "application/json; charset=utf-8"}


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        ('{"a": 1}', JSON_TYPE, {"a": 1}),
        ('{"a": 1}', {"Content_Type": "application/problem+json"}, {"a": 1}),
        ('{"a": 1}', {}, {"a": 1}),
        ("0", JSON_TYPE, 0),
        ("null", JSON_TYPE, None),
        ('\ufeff"bom"', JSON_TYPE, "bom"),
        ("", JSON_TYPE, None),
        ("", {}, None),
        ("{broken", JSON_TYPE, "{broken"),
        ('{"a": NaN}', JSON_TYPE, '{"a": NaN}'),
        ("1e999", JSON_TYPE, "1e999"),
        ("[" * 100 + "]" * 100, JSON_TYPE, "[" * 100 + "]" * 100),
        ("[" * 90_000, JSON_TYPE, "[" * 90_000),
        ('"\\ud800"', JSON_TYPE, '"\\ud800"'),
        ("9" * 5_000, JSON_TYPE, "9" * 5_000),
        ('{"a": 1}', {"Content_Type": "text/plain"}, '{"a": 1}'),
        ("hello", {}, "hello"),
        ("<p>ü</p>".encode("latin-1"), {"Content_Type": "text/html; charset=iso-8859-1"}, "<p>ü</p>"),
        (b"\xff", {"Content_Type": "text/plain; charset=utf-8"}, "\ufffd"),
        ("a", {"Content_Type": "text/plain; charset=rot13"}, "a"),
        ("a", {"Content_Type": "text/plain; charset=punycode"}, "a"),
        ("a", {"Content_Type": "text/plain; charset=nothing"}, "a"),
        ("a,b", {"Content_Type": "application/octet-stream"}, "a,b"),
        (gzip.compress(b'{"a": 1}', mtime=0), {**JSON_TYPE, "Content_Encoding": "gzip"}, {"a": 1}),
        (zlib.compress(b"text"), {"Content_Type": "text/plain", "Content_Encoding": "deflate"}, "text"),
    ],
)
async def test_an_answer_is_json_or_text(
    body: bytes | str, headers: dict[str, str], expected: object
) -> None:
    async with bench() as on:
        on.server.replies["/"] = answer("200 OK", body, **headers)
        result = await on.call()
        assert (result.error, result.result) == (None, expected)


@pytest.mark.parametrize("status", ["204 No Content", "205 Reset Content"])
async def test_no_content_is_null(status: str) -> None:
    async with bench() as on:
        on.server.replies["/"] = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
        result = await on.call()
        assert (result.status, result.result) == ("success", None)


async def test_an_answer_of_too_many_values_is_an_error() -> None:
    async with bench() as on:
        on.server.replies["/"] = answer(body=f"[{','.join(['1'] * 100_001)}]", **JSON_TYPE)
        refused = await on.call()
        assert refused.error_code == "http_too_large"
        assert refused.error == (
            "The service's answer is too large: it holds more than 100000 JSON values, the most that are taken."
        )
        on.server.replies["/"] = answer(body=f"[{','.join(['1'] * 99_000)}]", **JSON_TYPE)
        assert (await on.call()).result == [1] * 99_000


async def test_an_image_and_any_other_answer_without_text_is_an_attachment() -> None:
    async with bench() as on:
        on.server.replies["/"] = answer(body=b"\x89PNG\x00", Content_Type="image/png")
        image = await on.call()
        assert image.attachments == (
            tw.Attachment(
                name="image.png", mime_type="image/png", data=base64.b64encode(b"\x89PNG\x00").decode()
            ),
        )
        on.server.replies["/"] = answer(body=b"PK\x03\x04\xff", Content_Type="application/zip")
        other = await on.call()
        assert (other.status, other.result) == ("success", "Attached: file.zip")
        assert other.attachments == (
            tw.Attachment(name="file.zip", mime_type="application/zip", data=b"PK\x03\x04\xff"),
        )
        on.server.replies["/"] = answer(body=b"\x00\x01")
        [unknown] = (await on.call()).attachments
        assert unknown.mime_type == "application/octet-stream"


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('attachment; filename="invoice 7.pdf"', "invoice 7.pdf"),
        ("attachment; filename*=UTF-8''r%C3%A9sum%C3%A9.pdf", "résumé.pdf"),
        ("attachment", "file.pdf"),
        ("attachment; filename=", "file.pdf"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ('attachment; filename="  "', "file.pdf"),
    ],
)
async def test_a_file_has_the_name_that_the_service_gives_it(disposition: str, name: str) -> None:
    async with bench() as on:
        on.server.replies["/"] = answer(
            body=b"%PDF-1.4 all of it is ASCII",
            Content_Type="application/pdf",
            Content_Disposition=disposition,
        )
        [file] = (await on.call()).attachments
        assert (file.name, file.mime_type) == (name, "application/pdf")


async def test_anything_but_success_is_an_error_with_its_status_and_the_body() -> None:
    async with bench() as on:
        on.server.replies["/"] = answer("503 Go Away", '{"why": "busy"}', **JSON_TYPE)
        busy = await on.call()
        assert busy.error == 'HTTP 503 Service Unavailable: {"why": "busy"}'
        assert (busy.error_code, busy.error_data) == ("http_error", {"status": 503})
        on.server.replies["/"] = answer("404 Not Found")
        assert (await on.call()).error == "HTTP 404 Not Found"
        on.server.replies["/"] = answer("799 Odd", "x")
        assert (await on.call()).error == "HTTP 799: x"
        on.server.replies["/"] = answer("304 Not Modified")
        assert (await on.call()).error == "HTTP 304 Not Modified"
        on.server.replies["/"] = answer("302 Found", "nowhere")
        assert (await on.call()).error == "HTTP 302 Found: nowhere"
        on.server.replies["/"] = answer("500 Internal Server Error", b"\xff\x00\xfe")
        assert (await on.call()).error == "HTTP 500 Internal Server Error"


async def test_at_most_2_kilobytes_of_an_error_are_shown() -> None:
    async with bench() as on:
        for body in ("x" * 3_000, "ü" * 3_000, "x" * 300_000):
            on.server.replies["/"] = answer("500 Internal Server Error", body, Content_Type="text/plain")
            error = (await on.call()).error or ""
            shown = error.removeprefix("HTTP 500 Internal Server Error: ").split(" … (")[0]
            assert len(shown.encode()) == 2_048


async def test_an_answer_over_the_limit_is_an_error_and_the_connection_is_dropped() -> None:
    endless = asyncio.Event()

    async def pour(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
                await writer.drain()
        except ConnectionError:
            endless.set()
            raise

    async with bench(max_answer=10_000) as on:
        on.server.replies["/"] = answer(body="x" * 10_000, Content_Type="text/plain")
        assert (await on.call()).result == "x" * 10_000
        on.server.replies["/"] = answer(body="x" * 10_001, Content_Type="text/plain")
        over = await on.call()
        assert over.error_code == "http_too_large"
        assert over.error == "The service's answer is larger than 10000 bytes."
        on.server.replies["/"] = pour
        assert (await on.call()).error_code == "http_too_large"
        async with asyncio.timeout(10):
            await endless.wait()


async def test_a_packed_answer_is_unpacked_up_to_the_limit() -> None:
    async with bench(max_answer=10_000) as on:
        bomb = gzip.compress(bytes(5_000_000), mtime=0)
        assert len(bomb) < 10_000
        on.server.replies["/"] = answer(body=bomb, Content_Type="text/plain", Content_Encoding="gzip")
        assert (await on.call()).error_code == "http_too_large"
        half = gzip.compress(b"hello" * 100, mtime=0)[:-10]
        on.server.replies["/"] = answer(body=half, Content_Type="text/plain", Content_Encoding="gzip")
        assert (await on.call()).error_code == "http_unreadable"
        on.server.replies["/"] = answer(body="x", Content_Type="text/plain", Content_Encoding="gzip")
        assert (await on.call()).error_code == "http_unreadable"
        twice = gzip.compress(gzip.compress(b"x", mtime=0))
        on.server.replies["/"] = answer(body=twice, Content_Encoding="gzip, gzip")
        assert (await on.call()).error_code == "http_unreadable"


@pytest.mark.parametrize("kind", ["gateway", "external", "space"])
async def test_a_body_that_drips_is_stopped_by_the_tools_timeout(kind: str) -> None:
    gone = asyncio.Event()

    async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0)  # let the others run
        except ConnectionError:
            gone.set()
            raise

    async with bench() as on:
        on.server.replies["/"] = drip
        result = await on.call(timeout=100, executionType=kind)
        assert (result.error, result.error_code) == ("Tool timed out after 100ms", "timeout")
        async with asyncio.timeout(10):
            await gone.wait()


def _raw(content: bytes) -> Any:  # an answer
    async def reply(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        writer.close()

    return reply


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
    ],
)
async def test_what_breaks_off_or_is_no_http_is_an_error(content: bytes) -> None:
    async with bench() as on:
        on.server.replies["/"] = _raw(content)
        result = await on.call("/?k=${env.KEY}", env={"KEY": "very-secret"})
        assert result.error_code == "http_broken_off"
        assert result.error == (
            "The service at 'api.test' closed the connection before the answer was complete; "
            "the effect of the call is unknown."
        )
        assert result.stack is None


async def test_a_service_that_is_not_there_is_an_error_in_words() -> None:
    async with bench() as on:
        unknown = await on.call(host="nowhere.test")
        assert (
            unknown.error == "The service at 'nowhere.test' cannot be reached: its name cannot be resolved."
        )
        port = on.server.port
    async with bench() as on:
        on.server.port = port
        closed = await on.call()
        assert closed.error_code == "http_unreachable"
        assert (closed.error or "").startswith("The service at 'api.test' cannot be reached: ")
        assert closed.stack is None


async def test_a_url_that_grows_too_long_is_an_error() -> None:
    async with bench() as on:
        result = await on.call("/", {"q": "x" * 100_000}, method="GET")
        assert (result.error_code, on.server.received) == ("http_bad_url", [])
        assert (await on.call("/", {"q": "x" * 100_000})).status == "success"


def test_an_app_without_http_tools_loads_nothing_for_them() -> None:
    script = """
import asyncio, sys
import toolwright as tw

@tw.tool(description="Add.")
def add(a: int) -> int:
    return a

async def main():
    model = tw.testing.ScriptedModel([{"calls": [{"name": "add", "args": {"a": 1}}]}, {"text": "ok"}])
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("a", "A.", model=model, tools=[add]))])
    async with tw.testing.runtime(app) as rt:
        thread = await rt.threads.create("a")
        run = await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 30)
        print(run.output, sorted({"httpx2", "httpcore2", "anyio"} & set(sys.modules)))

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "ok []\n", done.stderr
