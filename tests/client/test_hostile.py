"""Servers that are not Toolwright servers, or are hostile: a clear error, in bounded memory."""

import asyncio
import tracemalloc
from contextlib import aclosing, suppress
from typing import Any

import httpx
import httpx2
import pytest

from tests.client.rig import Pauses, Stub, answer, client_of, no_pause, stream
from toolwright.client.follow import MAX_EVENT
from toolwright.client.http import CallerHeaders, Http
from toolwright.core.errors import AnswerLost, BadAnswer, ServerFailed, Unreachable

pytestmark = pytest.mark.anyio

PAGE = "<!doctype html><h1>Welcome to our network</h1>"
HEAD = b'data: {"type":"connected","ts":"2026-01-01T00:00:00Z","data":{"after":"0"}}\n\n'


def event(n: int) -> bytes:
    return b'id: %d\ndata: {"id":"%d","type":"x","ts":"2026-01-01T00:00:00Z","data":{}}\n\n' % (n, n)


async def test_a_page_instead_of_an_answer_is_a_bad_answer() -> None:
    async with Stub(answer(200, PAGE, "text/html")) as stub, client_of(stub.port) as client:
        with pytest.raises(BadAnswer, match="not a JSON object"):
            await client.threads.list()
        with pytest.raises(BadAnswer, match="status 200"):
            await client.health()
        with pytest.raises(BadAnswer, match="'text/html', which is not an event stream"):
            await anext(client.threads.follow("t"))


@pytest.mark.parametrize(("status", "kind"), [(500, ServerFailed), (502, AnswerLost), (503, Unreachable)])
async def test_a_page_of_an_error_is_the_error_nearest_to_its_status(
    status: int, kind: type[Exception]
) -> None:
    async with Stub(answer(status, PAGE, "text/html")) as stub, client_of(stub.port) as client:
        for attempt in (client.threads.list, lambda: client.threads.create("a"), client.health):
            with pytest.raises(kind, match="<!doctype html>"):
                await attempt()
        with pytest.raises(kind):
            await anext(client.threads.follow("t"))


async def test_a_redirection_is_not_followed() -> None:
    elsewhere = answer(307, "", location="http://127.0.0.1:9/steal")
    async with Stub(elsewhere) as stub, client_of(stub.port, secret_key="k") as client:
        with pytest.raises(BadAnswer, match="status 307"):
            await client.threads.list()
        assert len(stub.asked) == 1


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"threads": 3}', b'{"threads": [{}]}', b"[" * 200_000])
async def test_json_that_is_not_ours_is_a_bad_answer(body: bytes) -> None:
    async with Stub(answer(200, body)) as stub, client_of(stub.port) as client:
        with pytest.raises(BadAnswer):
            await client.threads.list()


async def test_half_an_event_is_none_and_is_read_again() -> None:
    whole = event(1) + event(2)
    cuts = [stream((HEAD if n == 0 else b"") + whole[:n]) for n in range(0, len(whole), 7)]
    async with Stub(*cuts, stream(event(2) + event(3))) as stub, client_of(stub.port) as client:
        events = client.threads.follow("t")
        assert [(await anext(events)).n for _ in range(3)] == [1, 2, 3]
        await events.aclose()


@pytest.mark.parametrize(
    "data", [b"x", b"[]", b"3", b"{}", b'{"type":"x","ts":"now","data":{}}',
             b'{"type":"x","ts":"2026-01-01T00:00:00Z"}']
)  # fmt: skip
async def test_an_event_that_is_not_ours_ends_the_stream(data: bytes) -> None:
    async with Stub(stream(b"data: " + data + b"\n\n")) as stub, client_of(stub.port) as client:
        with pytest.raises(BadAnswer):
            await anext(client.threads.follow("t"))
        assert len(stub.asked) == 1


async def test_an_endless_line_is_given_up_in_bounded_memory() -> None:
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(stream(b"data: "))
            while sent < 20 * MAX_EVENT:
                writer.write(b"x" * 65_536)
                sent += 65_536
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    async with server, client_of(server.sockets[0].getsockname()[1]) as client:
        tracemalloc.start()
        try:
            with pytest.raises(BadAnswer, match=f"more than {MAX_EVENT} bytes"):
                await anext(client.threads.follow("t"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 * MAX_EVENT
        assert sent < 10 * MAX_EVENT


async def test_an_answer_larger_than_the_limit_is_given_up() -> None:
    async with Stub(answer(200, b"{" + b" " * 5_000)) as stub, httpx2.AsyncClient() as http:
        identity = CallerHeaders(None, None, None)
        url = f"http://127.0.0.1:{stub.port}"
        narrow = Http(url, identity, http, timeout=5, silence=5, pause=no_pause, largest=1_000)
        with pytest.raises(BadAnswer, match="larger than 1000 bytes"):
            await narrow.get("/api/threads")


async def test_a_stream_that_is_packed_is_refused() -> None:
    packed = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b"
    async with Stub(packed) as stub, client_of(stub.port) as client:
        with pytest.raises(BadAnswer):
            await anext(client.threads.follow("t"))
        assert b"accept-encoding: identity\r\n" in stub.asked[0].lower()


async def test_an_answer_that_cannot_be_unpacked_is_a_bad_answer() -> None:
    packed = answer(200, b"not gzip at all", content_encoding="gzip")
    async with Stub(packed) as stub, client_of(stub.port) as client:
        with pytest.raises(BadAnswer, match="cannot be read"):
            await client.threads.list()


@pytest.mark.parametrize(
    "junk", [b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", b"\x00" * 100]
)
async def test_what_is_no_http_is_a_lost_answer(junk: bytes) -> None:
    async with Stub(junk) as stub, client_of(stub.port, pause=Pauses()) as client:
        with pytest.raises(AnswerLost):
            await client.threads.list()


async def test_a_password_in_the_url_is_not_repeated_in_words() -> None:
    async with Stub(None) as stub:
        port = stub.port
    url = f"http://user:hunter2secret@127.0.0.1:{port}"
    async with httpx2.AsyncClient() as http:
        attempt = Http(url, CallerHeaders(None, None, None), http, timeout=5, silence=5, pause=no_pause)
        with pytest.raises(Unreachable) as caught:
            await attempt.get("/api/threads")
    assert "hunter2secret" not in caught.value.message


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_the_errors_of_a_users_own_client_are_converted(library: Any) -> None:
    async with library.AsyncClient() as http:
        async with Stub(b"no HTTP") as stub, client_of(stub.port, http=http) as client:
            with pytest.raises(AnswerLost):
                await client.threads.list()
        junk = answer(200, b"junk", content_encoding="gzip")
        async with Stub(junk) as stub, client_of(stub.port, http=http) as client:
            with pytest.raises(BadAnswer, match="cannot be read"):
                await client.threads.list()
        async with (
            Stub(stream(HEAD + event(1))) as stub,
            client_of(stub.port, http=http) as client,
            aclosing(client.threads.follow("t")) as events,
        ):
            assert (await anext(events)).type == "x"
        pauses = Pauses()
        async with client_of(stub.port, http=http, pause=pauses) as client:  # nothing listens there any more
            with pytest.raises(Unreachable):
                await client.threads.create("shop")
        assert pauses.asked == [1.0, 2.0, 4.0]
