"""Sessions: in a lost one no received call is repeated; silent calls and abandoned calls."""

import asyncio
import socket
from collections.abc import AsyncIterable, Generator
from contextlib import contextmanager

import httpx2
import pytest

from tests.mcp.client_rig import calling, hosting, meeting
from tests.mcp.peers.bare import Answer, Bare, HttpLine, JSONObject, Line, encoded, error, polite
from tests.mcp.peers.serving import Served
from toolwright.adapters.executors.request import AllowedNetwork, resolve
from toolwright.adapters.mcp.peer import CALLER, NoPeer
from toolwright.adapters.mcp.transport import client
from toolwright.core.tools.http.addresses import anywhere

pytestmark = pytest.mark.anyio


def with_sessions(**more: Answer) -> Bare:
    """Return a server of 2025-11-25 over HTTP with sessions, and without a stream: every GET is answered with 404."""

    async def greet(message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        session = ("content-type: application/json", "mcp-session-id: s1")
        await line.status(200, polite(message), *session)

    async def unknown(message: JSONObject, line: Line) -> None:
        await line.answer(error(message, -32601, "Method not found"))

    named = {name.replace("_", "/"): each for name, each in more.items() if name != "answer"}
    answers = {"initialize": greet, "server/discover": unknown, **named}
    if "answer" in more:
        answers["(answer)"] = more["answer"]
    return Bare(answers=answers, get=404)


@contextmanager
def at_work(peer: Bare) -> Generator[str]:
    """Run that peer on a port. Yields its URL."""
    served = Served(peer)
    served.start()
    try:
        yield served.url
    finally:
        served.stop()


async def test_a_server_that_answers_404_to_every_get_is_used() -> None:
    peer = with_sessions()
    with at_work(peer) as url:
        async with hosting({"url": url}, calling("plain")) as host:
            assert (await host.run()).results["plain"] == "fine"
            assert await host.status() == "ready"
    assert len(peer.hearing.of("initialize")) == 1


async def test_a_call_whose_stream_breaks_off_is_not_made_again_where_its_session_is_lost() -> None:
    async def begin(message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        head = b"HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        await line.raw(head + b"id: e1\nretry: 1\ndata:\n\n")
        line.break_off()

    peer = with_sessions(tools_call=begin)
    with at_work(peer) as url:
        async with hosting({"url": url}, calling("plain")) as host:
            assert "the effect of the call is unknown" in (await host.run()).results["plain"]
    assert len(peer.hearing.of("tools/call")) == 1


async def test_a_call_is_not_made_again_where_the_answer_to_its_server_finds_no_session() -> None:
    answered = asyncio.Event()

    async def ask(message: JSONObject, line: Line) -> None:
        async def question() -> AsyncIterable[bytes]:
            yield encoded({"jsonrpc": "2.0", "id": "q1", "method": "ping"})
            await answered.wait()

        assert isinstance(line, HttpLine)
        await line.stream(question())

    async def forget(message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        await line.status(404)
        answered.set()

    peer = with_sessions(tools_call=ask, answer=forget)
    with at_work(peer) as url:
        async with hosting({"url": url}, calling("plain")) as host:
            assert "the effect of the call is unknown" in (await host.run()).results["plain"]
    assert len(peer.hearing.of("tools/call")) == 1


async def test_a_call_that_finds_no_session_is_made_in_a_new_one() -> None:
    async def once(message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        if len(peer.hearing.of("tools/call")) == 1:
            await line.status(404)
        else:
            await line.answer(polite(message))

    peer = with_sessions(tools_call=once)
    with at_work(peer) as url:
        async with hosting({"url": url}, calling("plain")) as host:
            assert (await host.run()).results["plain"] == "fine"
    assert len(peer.hearing.of("initialize")) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 410, 503])
async def test_a_server_that_refuses_a_lost_session_in_its_own_way_is_greeted_again(status: int) -> None:
    async def in_the_second(message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        if len(peer.hearing.of("initialize")) == 1:
            await line.status(status)
        else:
            await line.answer(polite(message))

    peer = with_sessions(tools_call=in_the_second, ping=in_the_second)
    with at_work(peer) as url:
        async with hosting({"url": url}, calling("plain")) as host:
            assert (await host.run()).results["plain"] == "fine"
            assert await host.status() == "ready"
    assert (len(peer.hearing.of("initialize")), len(peer.hearing.of("tools/call"))) == (2, 2)


async def test_a_refusal_of_one_request_keeps_the_session() -> None:
    async def refuse(message: JSONObject, line: Line) -> None:
        assert isinstance(line, HttpLine)
        await line.status(400, error(message, -32602, "No such city"), "content-type: application/json")

    peer = with_sessions(tools_call=refuse)
    with at_work(peer) as url:
        async with hosting({"url": url}, calling("plain")) as host:
            assert "No such city" in (await host.run()).results["plain"]
    assert (len(peer.hearing.of("initialize")), len(peer.hearing.of("tools/call"))) == (1, 1)


async def test_an_error_of_the_code_that_the_sdk_uses_for_itself_keeps_its_words() -> None:
    async def fail(message: JSONObject, line: Line) -> None:
        await line.answer(error(message, -32000, "Quota used up until Monday"))

    with at_work(with_sessions(tools_call=fail, prompts_get=fail)) as url:
        async with hosting({"url": url}, calling("plain")) as host:
            told = (await host.run()).results["plain"]
    assert "The MCP server refused the call: Quota used up until Monday." in told
    assert "unknown" not in told


async def test_a_call_may_keep_silent_for_longer_than_a_stream_that_no_call_waits_for() -> None:
    began, over = asyncio.Event(), asyncio.Event()

    async def silent(message: JSONObject, line: Line) -> None:
        began.set()
        await over.wait()
        await line.answer(b"{}")

    peer = Bare(always=silent)
    listener, stop = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    serving = asyncio.create_task(peer.over_http(listener, stop, "http"))
    network = AllowedNetwork(resolve, anywhere)
    async with client(network, httpx2.create_ssl_context(), (), lambda _: None, silence=0.05) as http:
        token = CALLER.set(NoPeer())
        call = asyncio.create_task(http.post(url, json={"method": "tools/call"}))
        CALLER.reset(token)
        await began.wait()
        other = await http.post(url, json={"method": "ping"})
        assert other.json()["error"]["message"] == "it does not answer in time."
        over.set()
        assert (await call).json() == {}
    stop.set()
    await serving


async def test_no_approval_is_requested_for_an_abandoned_call_of_another_thread() -> None:
    turns = [*calling("plain"), *calling("plain")]
    async with meeting("asks_late", turns, "stdio", settings={"timeout": 500}) as host:
        assert "timed out" in (await host.run()).results["plain"]
        ran = await host.run()
    assert "The call has ended: no one can be asked." in ran.results["plain"]


HEADERS = [("Authorization", "Bearer é…")]


async def test_a_header_of_a_server_can_have_any_letter() -> None:
    network = AllowedNetwork(resolve, anywhere)
    async with client(network, httpx2.create_ssl_context(), HEADERS, lambda _: None) as http:
        assert (b"Authorization", "Bearer é…".encode()) in http.headers.raw
