"""Servers that disconnect during a call, or answer with HTTP errors: what the model reads about the call's effect."""

import asyncio
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager

import mcp_types as types
import pytest

from tests.mcp.client_rig import calling, hosting, meeting
from tests.mcp.peers.bare import TOOL, Bare, JSONObject, Line, each_of, encoded, error, result
from tests.mcp.peers.peer import Transport
from tests.mcp.peers.serving import Served, served, started
from toolwright.adapters.mcp.transport import stdio_streams

pytestmark = pytest.mark.anyio


def answered(status: str, body: bytes, kind: str, headers: str = "") -> bytes:
    """Return a complete HTTP answer."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


@contextmanager
def peer_that(answer: bytes | None) -> Generator[Served]:
    """Run a server whose one tool sends that HTTP answer, or disconnects for None."""

    async def call(message: JSONObject, line: Line) -> None:
        if answer is None:
            line.break_off()
        else:
            await line.raw(answer)

    async def tools(message: JSONObject, line: Line) -> None:
        await line.answer(result(message, {"tools": [TOOL]}))

    served = Served(Bare(answers={"tools/list": tools, "tools/call": call}))
    served.start()
    try:
        yield served
    finally:
        served.stop()


async def told(answer: bytes | None) -> dict[str, str]:
    """Return the call's result as the model reads it."""
    with peer_that(answer) as peer:
        async with hosting({"url": peer.url}, calling("plain")) as host:
            await host.until(["plain"])
            ran = await host.run()
    return json.loads(ran.results["plain"])


HTML = (b"<h1>upstream</h1>", "text/html")
JSON = (b'{"message": "upstream is gone"}', "application/json")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        answered("502 Bad Gateway", *HTML),
        answered("502 Bad Gateway", *JSON),
        answered("504 Gateway Timeout", *HTML),
        answered("504 Gateway Timeout", *JSON),
    ],
)
async def test_a_call_whose_effect_is_unknown_is_no_refusal(answer: bytes | None) -> None:
    error = await told(answer)
    assert error["error_code"] == "mcp_broken_off"
    assert "the effect of the call is unknown" in error["error"]
    assert "refused" not in error["error"]


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
async def test_an_error_keeps_its_status_and_its_text(kind: str) -> None:
    body = encoded({"error": "invalid_token", "error_description": "The token has expired"})
    challenge = 'www-authenticate: Bearer error="invalid_token"\r\n'
    error = await told(answered("401 Unauthorized", body, kind, challenge))
    assert error["error_code"] == "mcp_error"
    assert "HTTP 401 Unauthorized" in error["error"]
    assert "The token has expired" in error["error"]


async def test_an_error_of_the_protocol_is_reported_unchanged_whatever_its_status() -> None:
    async def call(message: JSONObject, line: Line) -> None:
        body = error(message, -32602, "no such thing")
        await line.raw(answered("400 Bad Request", body, "application/json"))

    async def tools(message: JSONObject, line: Line) -> None:
        await line.answer(result(message, {"tools": [TOOL]}))

    served = Served(Bare(answers={"tools/list": tools, "tools/call": call}))
    served.start()
    try:
        async with hosting({"url": served.url}, calling("plain")) as host:
            await host.until(["plain"])
            ran = await host.run()
    finally:
        served.stop()
    told = json.loads(ran.results["plain"])
    assert (told["error_code"], "no such thing" in told["error"]) == ("mcp_error", True)
    assert "HTTP" not in told["error"]


async def test_a_server_that_is_gone_before_the_call_was_not_asked() -> None:
    with peer_that(None) as peer:
        async with hosting({"url": peer.url}, calling("plain")) as host:
            await host.until(["plain"])
            peer.stop()
            ran = await host.run()
    assert json.loads(ran.results["plain"])["error_code"] == "mcp_unavailable"


@pytest.mark.parametrize(
    ("way", "revision"),
    [
        *[("http", each) for each in ("2025-11-25", "2026-07-28")],
        *[("json", each) for each in ("2025-11-25", "2026-07-28")],
        ("sse", None),
    ],
)
async def test_a_server_that_is_ended_in_a_call_leaves_its_effect_unknown(
    way: Transport, revision: str | None
) -> None:
    with served("hangs_at_call", revision, way) as peer:
        server = {"url": peer.url, "transport": "sse" if way == "sse" else "http"}
        async with hosting(server, calling("wait")) as host:
            await host.until(["wait", "plain"])
            running = asyncio.create_task(host.run())
            await asyncio.to_thread(peer.hearing.wait_for, "tools/call")
            await asyncio.to_thread(peer.stop)
            error = json.loads((await running).results["wait"])
    assert error["error_code"] == "mcp_broken_off"
    assert "the effect of the call is unknown" in error["error"]


@pytest.mark.parametrize("peer", ["dies_in_call", "dies_in_answer"])
async def test_a_process_that_ends_in_a_call_leaves_its_effect_unknown(peer: str) -> None:
    async with meeting(peer, calling("plain"), "stdio") as host:
        await host.until(["plain"])
        error = json.loads((await host.run()).results["plain"])
    assert error["error_code"] == "mcp_broken_off"
    assert "the effect of the call is unknown" in error["error"]


INVALID = [
    '{"jsonrpc": "2.0", "id": ID, "result": null}',
    '{"jsonrpc": "2.0", "id": ID}',
    '{"jsonrpc": "2.0", "id": ID, "error": "no"}',
    '{"jsonrpc": "2.0", "id": ID, "error": {"message": "no code"}}',
    r'{"jsonrpc": "2.0", "id": ID, "result": {"text": "\ud800"}}',
    '{"jsonrpc": "2.0", "id": ID, "result": ' + '{"a": ' * 250 + "1" + "}" * 251,
]


@pytest.mark.parametrize("line", INVALID)
async def test_an_answer_of_a_process_that_is_no_message_ends_its_request(line: str) -> None:
    message = await first_of(line.replace("ID", "7"))
    assert isinstance(message, types.JSONRPCError)
    assert (message.id, message.error.code) == (7, types.PARSE_ERROR)


@pytest.mark.parametrize("way", ["json", "stream", "sse"])
@pytest.mark.parametrize("body", INVALID)
async def test_an_answer_over_http_that_is_no_message_ends_its_request(way: str, body: str) -> None:
    async def call(message: JSONObject, line: Line) -> None:
        sent = body.replace("ID", str(message["id"])).encode()
        await (line.stream(each_of([sent])) if way == "stream" else line.answer(sent))

    transport: Transport = "sse" if way == "sse" else "http"
    with started(Served(Bare(answers={"tools/call": call}), transport=transport)) as peer:
        server = {"url": peer.url, "transport": transport}
        async with hosting(server, calling("plain")) as host:
            await host.until(["plain"])
            error = json.loads((await host.run()).results["plain"])
    assert error["error_code"] == "mcp_bad_answer"


async def test_a_line_of_a_process_that_answers_nothing_is_passed_over() -> None:
    lines = ["starting", "[7]", '{"id": true}', '{"id": null}', '{"id": 7, "method": "ask"}', "[" * 20_000]
    message = await first_of(*lines, '{"jsonrpc": "2.0", "method": "notifications/message"}')
    assert isinstance(message, types.JSONRPCNotification)


async def first_of(*lines: str) -> object:
    """Return the first message of a process that writes these lines."""
    command = [sys.executable, "-c", "import sys; print(sys.argv[1], flush=True); sys.stdin.read()"]
    async with stdio_streams("peer", [*command, "\n".join(lines)], {}, str) as (received, _):
        message = await received.receive()
    assert not isinstance(message, Exception)
    return message.message
