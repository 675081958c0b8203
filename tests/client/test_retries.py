"""Retries: which requests are retried, how often and when; and which are not, because they could be executed twice."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.client.rig import Pauses, Stub, answer, client_of
from toolwright.client import Client
from toolwright.core.errors import (
    AnswerLost,
    BadAnswer,
    InvalidRequest,
    NotFound,
    StoreError,
    ToolwrightError,
    TooManyRequests,
    Unreachable,
)

pytestmark = pytest.mark.anyio

BUSY = answer(503, '{"error": "Not now.", "code": "store_unavailable"}', retry_after="3")
THREAD = (
    '"id": "t", "agentId": "a", "parentThreadId": null, "name": null, "userId": null, "tags": [], '
    '"status": "idle", "createdAt": "2026-01-01T00:00:00+00:00"'
)
MISSING = answer(404, '{"error": "There is none.", "code": "not_found"}')
DELETED = answer(200, '{"success": true}')
LIMITED = answer(429, "slow down", "text/plain", retry_after="7")
ONE = answer(200, f'{{"thread": {{{THREAD}}}}}')
ENV = answer(200, '{"env": {"A": {"type": "secret"}}}')
TOKEN = answer(200, '{"token": "x", "expiresAt": "2026-01-01T00:00:00+00:00"}')
Attempt = Callable[[Client], Awaitable[object]]

ONCE: dict[str, Attempt] = {
    "create": lambda client: client.threads.create("a"),
    "send": lambda client: client.threads.send("t", "Hi"),
    "submit": lambda client: client.calls.submit("r", "c", 1),
    "cancel": lambda client: client.runs.cancel("r"),
    "retry run": lambda client: client.runs.retry("r"),
    "retry": lambda client: client.inboxes.retry("a", "e"),
}
GONE: dict[str, Attempt] = {
    "agent": lambda client: client.agents.delete("a"),
    "entity": lambda client: client.entities.delete("e"),
    "space": lambda client: client.spaces.delete("s"),
    "member": lambda client: client.spaces.remove_member("s", "e"),
    "message": lambda client: client.spaces.erase("m"),
    "reaction": lambda client: client.spaces.unreact("m", "+1"),
    "front-end": lambda client: client.clients.delete("c"),
}
TWICE: dict[str, tuple[Attempt, bytes]] = {
    "get": (lambda client: client.threads.get("t"), ONE),
    "rename": (lambda client: client.threads.rename("t", "x"), ONE),
    "set_env": (lambda client: client.threads.set_env("t", {"A": "x"}), ENV),
    "stream_token": (lambda client: client.stream_token(), TOKEN),
}


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize(("fault", "pauses"), [(BUSY, [3.0, 3.0, 4.0]), (None, [1.0, 2.0, 4.0])])
async def test_what_may_be_done_twice_is_tried_four_times(
    name: str, fault: bytes | None, pauses: list[float]
) -> None:
    attempt, good = TWICE[name]
    waited = Pauses()
    async with Stub(fault, fault, fault, good) as stub, client_of(stub.port, pause=waited) as client:
        await attempt(client)
    assert (len(stub.asked), waited.asked) == (4, pauses)
    kind = AnswerLost if fault is None else StoreError
    async with Stub(fault) as stub, client_of(stub.port) as client:
        with pytest.raises(kind):
            await attempt(client)
    assert len(stub.asked) == 4


@pytest.mark.parametrize("name", GONE)
async def test_what_was_deleted_when_the_answer_was_lost_is_deleted(name: str) -> None:
    async with Stub(None, MISSING) as stub, client_of(stub.port) as client:
        await GONE[name](client)
    assert len(stub.asked) == 2
    async with Stub(None, DELETED) as stub, client_of(stub.port) as client:
        await GONE[name](client)
    assert len(stub.asked) == 2
    async with Stub(MISSING) as stub, client_of(stub.port) as client:
        with pytest.raises(NotFound):
            await GONE[name](client)
    assert len(stub.asked) == 1


@pytest.mark.parametrize("name", ONCE)
async def test_what_was_refused_before_it_was_read_is_sent_again_whatever_it_is(name: str) -> None:
    async with Stub(LIMITED) as stub, client_of(stub.port, pause=(pauses := Pauses())) as client:
        with pytest.raises(TooManyRequests):
            await ONCE[name](client)
    assert (len(stub.asked), pauses.asked) == (4, [7.0, 7.0, 7.0])


async def test_a_connection_that_ends_when_it_is_used_again_costs_a_reader_nothing_and_repeats_no_message() -> (
    None
):
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for kept in (True, False):
            asked.append((await reader.readuntil(b"\r\n\r\n")).split(b" ", 1)[0])
            if kept:
                writer.write(ONE)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, client_of(server.sockets[0].getsockname()[1]) as client:
        for _ in range(3):
            await client.threads.get("t")
        with pytest.raises(AnswerLost):
            await client.runs.cancel("r")
    assert asked == [b"GET", b"GET", b"GET", b"GET", b"GET", b"POST"]


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [(BUSY, StoreError), (None, AnswerLost), (answer(503, "busy", "text/plain"), Unreachable),
     (answer(502, "gone", "text/plain"), AnswerLost)],
)  # fmt: skip
async def test_what_might_be_done_twice_is_sent_once(
    name: str, fault: bytes | None, kind: type[ToolwrightError]
) -> None:
    async with Stub(fault) as stub, client_of(stub.port) as client:
        with pytest.raises(kind) as caught:
            await ONCE[name](client)
    assert type(caught.value) is kind
    assert len(stub.asked) == 1


@pytest.mark.parametrize("name", ONCE)
async def test_a_refused_connection_is_tried_again_whatever_was_to_be_sent(name: str) -> None:
    async with Stub(None) as stub:
        port = stub.port
    pauses = Pauses()
    async with client_of(port, pause=pauses) as client:
        with pytest.raises(Unreachable, match="cannot be reached") as caught:
            await ONCE[name](client)
    assert type(caught.value) is Unreachable
    assert pauses.asked == [1.0, 2.0, 4.0]


async def test_a_server_that_comes_up_meanwhile_gets_the_request_once() -> None:
    async with Stub(None) as stub:
        port = stub.port
    asked: list[bytes] = []
    servers: list[asyncio.Server] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(201, f'{{"thread": {{{THREAD}}}, "threadId": "t"}}'))
        writer.close()

    async def come_up() -> None:
        servers.append(await asyncio.start_server(serve, "127.0.0.1", port))

    async with client_of(port, pause=Pauses(come_up)) as client:
        assert (await client.threads.create("a")).id == "t"
    assert len(asked) == 1
    servers[0].close()


async def test_an_answer_that_takes_too_long_is_lost() -> None:
    never = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await never.wait()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with server, client_of(server.sockets[0].getsockname()[1], timeout=0.05) as client:
        with pytest.raises(AnswerLost, match="whether the request took effect is unknown"):
            await client.threads.send("t", "Hi")
        never.set()


async def test_a_server_that_asks_for_very_long_pauses_is_not_waited_for_longer_than_half_a_minute() -> None:
    pauses = Pauses()
    later = answer(503, "busy", "text/plain", retry_after="86400")
    async with Stub(later, ONE) as stub, client_of(stub.port, pause=pauses) as client:
        await client.threads.get("t")
    assert pauses.asked == [30.0]


async def test_a_proxys_page_for_404_does_not_count_as_a_deletion() -> None:
    page = answer(404, "<html>Not here</html>", "text/html")
    async with Stub(None, page) as stub, client_of(stub.port) as client:
        with pytest.raises(BadAnswer, match="not an answer of a Toolwright server: check the base URL"):
            await client.threads.delete("t")


async def test_a_client_that_is_closed_says_so() -> None:
    client = client_of(1)
    await client.aclose()
    with pytest.raises(InvalidRequest, match="This client is closed"):
        await client.threads.get("t")
    with pytest.raises(InvalidRequest, match="This client is closed"):
        async for _ in client.threads.follow("t"):
            pass


@pytest.mark.parametrize(
    ("http", "kind"), [(httpx2.Client(), "httpx2.Client"), ("http://127.0.0.1", "str"), (httpx2, "module")]
)
def test_a_client_that_is_not_async_is_refused_at_once(http: Any, kind: str) -> None:
    with pytest.raises(InvalidRequest, match=f"http must be an AsyncClient of httpx2 or httpx, not {kind}"):
        Client("http://127.0.0.1:8000", http=http)
