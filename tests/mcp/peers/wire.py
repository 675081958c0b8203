"""Peers with errors on the wire, over HTTP and stdio: no answer, no JSON, wrong ids, an end in the middle."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable

from tests.mcp.peers.bare import (
    TOOL,
    Answer,
    Bare,
    HttpLine,
    JSONObject,
    Line,
    each_of,
    encoded,
    error,
    is_modern,
    polite,
    result,
)  # fmt: skip

MEGABYTE = 1024 * 1024
FLOOD = 3_000
DEPTH = 100_000


def polite_bare() -> Bare:
    """Behaves correctly; the base of the others."""
    return Bare()


def refuses() -> Bare:
    """401 to everything; over stdio it says so on stderr and ends with 3 (`exits`)."""

    async def refuse(message: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            await line.status(401, b'{"error": "invalid_token"}', 'www-authenticate: Bearer realm="peer"')
        else:
            line.break_off()

    return Bare(always=refuse)


def tells_token() -> Bare:
    """401 to everything, with the header `authorization` of the request in its message; over stdio as `refuses`."""

    async def refuse(message: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            told = f"invalid token: {line.headers.get('authorization')}".encode()
            await line.status(401, told, "content-type: text/plain")
        else:
            line.break_off()

    return Bare(always=refuse)


def refuses_calls() -> Bare:
    """Lists its tools and answers each call with 403, over stdio with an error."""

    async def refuse(message: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            await line.status(403, b"forbidden")
        else:
            await line.answer(error(message, -32001, "forbidden"))

    return Bare(answers={"tools/call": refuse})


def hangs_at_connect() -> Bare:
    """Accepts connections and never answers."""
    return Bare(always=_hang)


def hangs_at_greeting() -> Bare:
    """Answers neither `initialize` nor `server/discover`."""
    return Bare(answers={"initialize": _hang, "server/discover": _hang})


def server_errors() -> Bare:
    """500 with a page of HTML to everything; over stdio an internal error."""

    async def fail(message: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            await line.status(
                500, b"<html>Internal Server Error: password=hunter2</html>", "content-type: text/html"
            )
        elif "id" in message:
            await line.answer(error(message, -32603, "Internal error: password=hunter2"))

    return Bare(always=fail)


def no_mcp() -> Bare:
    """A web page: 200 and HTML to everything."""

    async def page(_: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            await line.status(200, b"<html>Welcome!</html>", "content-type: text/html")
        else:
            await line.answer(b"Welcome! Type HELP for help.")

    return Bare(always=page)


def redirects(target: str = "http://127.0.0.1:9/secret") -> Bare:
    """307 to another address of this machine, to everything."""

    async def away(_: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            await line.status(307, b"", f"location: {target}")
        else:
            line.break_off()

    return Bare(always=away)


def wrong_json() -> Bare:
    """The list of its tools is 30 MB that are not JSON."""
    return Bare(answers={"tools/list": _body(b'{"jsonrpc": "2.0", "result": ' + b"[" * (30 * MEGABYTE))})


def wrong_json_result() -> Bare:
    """The result of a call is 30 MB that are not JSON."""
    return Bare(answers={"tools/call": _body(b"{" + b"x" * (30 * MEGABYTE))})


def no_utf8() -> Bare:
    """The result of a call is not UTF-8."""
    return Bare(answers={"tools/call": _body(b'{"jsonrpc": "2.0", "id": 1, "result": "\xff\xfe\x80"}')})


def deep_list() -> Bare:
    """The schema of its tool is nested 100,000 deep."""
    deep = b'{"a":' * DEPTH + b"1" + b"}" * DEPTH
    return Bare(answers={"tools/list": _with({"tools": [{**TOOL, "inputSchema": "DEEP"}, TOOL]}, deep)})


def deep_result() -> Bare:
    """The structured content of a call is nested 100,000 deep."""
    deep = b"[" * DEPTH + b"]" * DEPTH
    return Bare(answers={"tools/call": _with({"content": [], "structuredContent": {"a": "DEEP"}}, deep)})


def wrong_id() -> Bare:
    """Calls are answered with an unknown id."""
    return Bare(answers={"tools/call": _as(lambda message: {**message, "id": 987_654})})


def text_id() -> Bare:
    """Calls are answered with their id as a string."""
    return Bare(answers={"tools/call": _as(lambda message: {**message, "id": str(message["id"])})})


def answers_twice() -> Bare:
    """Each call has two answers, with different texts."""

    async def twice(message: JSONObject, line: Line) -> None:
        other = result(message, {"content": [{"type": "text", "text": "another"}]})
        await line.stream(each_of([polite(message), other]))

    return Bare(answers={"tools/call": twice})


def dies_in_call() -> Bare:
    """The connection, over stdio the process, ends in the middle of each call; its list is served again later."""

    async def die(_: JSONObject, line: Line) -> None:
        line.break_off()

    return Bare(answers={"tools/call": die})


def dies_in_answer() -> Bare:
    """The connection, over stdio the process, ends in the middle of an answer to a call."""

    async def die(message: JSONObject, line: Line) -> None:
        await line.raw(b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{")
        line.break_off()

    return Bare(answers={"tools/call": die})


def drips() -> Bare:
    """The answer to a call arrives byte by byte, one per 10 ms, and has no end."""

    async def blanks() -> AsyncIterable[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    async def drip(_: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            await line.raw(
                b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 9999999\r\n\r\n"
            )
        async for each in blanks():
            await line.raw(each)

    return Bare(answers={"tools/call": drip})


def endless_answer() -> Bare:
    """The answer to a call arrives as fast as it is read, and has no end."""

    async def pour(_: JSONObject, line: Line) -> None:
        if isinstance(line, HttpLine):
            await line.raw(b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\n\r\n")
        await line.raw(b'{"jsonrpc": "2.0", "result": "')
        while True:
            await line.raw(b"x" * MEGABYTE)

    return Bare(answers={"tools/call": pour})


def bare_flood() -> Bare:
    """3,000 progress notifications with an unknown token before each answer to a call."""

    async def flood(message: JSONObject, line: Line) -> None:
        params = {"progressToken": "nobody", "progress": 1}
        noise = encoded({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await line.stream(each_of([*[noise] * FLOOD, polite(message)]))

    return Bare(answers={"tools/call": flood})


def unknown_methods() -> Bare:
    """Requests and notifications unknown to all clients, before each answer to a call."""

    async def odd(message: JSONObject, line: Line) -> None:
        strange: list[object] = [
            {"jsonrpc": "2.0", "id": 1, "method": "phone/call", "params": {}},
            {"jsonrpc": "2.0", "method": "notifications/weather", "params": {}},
        ]
        await line.stream(each_of([*map(encoded, strange), polite(message)]))

    return Bare(answers={"tools/call": odd})


def no_messages() -> Bare:
    """JSON that is not a message, before each answer to a call."""

    async def odd(message: JSONObject, line: Line) -> None:
        strange: list[object] = [{"jsonrpc": "1.0"}, [], 5, {"jsonrpc": "2.0", "id": None, "result": {}}]
        await line.stream(each_of([*map(encoded, strange), polite(message)]))

    return Bare(answers={"tools/call": odd})


def unknown_revision() -> Bare:
    """Completes the handshake with an unknown revision of the protocol."""

    async def greet(message: JSONObject, line: Line) -> None:
        if is_modern(message):
            await line.answer(
                result(message, {"supportedVersions": ["2099-01-01"], "capabilities": {"tools": {}}})
            )
        else:
            info = {"name": "bare", "version": "1"}
            told: JSONObject = {
                "protocolVersion": "2099-01-01",
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            await line.answer(result(message, told))

    return Bare(answers={"initialize": greet, "server/discover": greet})


async def _hang(_: JSONObject, line: Line) -> None:
    await asyncio.Event().wait()


def _body(body: bytes) -> Answer:
    async def answer(_: JSONObject, line: Line) -> None:
        await line.answer(body)

    return answer


def _with(value: JSONObject, deep: bytes) -> Answer:
    """Return a result whose `"DEEP"` is replaced."""

    async def answer(message: JSONObject, line: Line) -> None:
        await line.answer(result(message, value).replace(b'"DEEP"', deep))

    return answer


def _as(other: Callable[[JSONObject], JSONObject]) -> Callable[[JSONObject, Line], Awaitable[None]]:
    """Return a valid answer to any other message."""

    async def answer(message: JSONObject, line: Line) -> None:
        await line.answer(polite(other(message)))

    return answer


def asks_late() -> Bare:
    """Answers no first call, and asks a person during the second one, which returns the answer."""
    calls: list[JSONObject] = []

    async def old(message: JSONObject, line: Line) -> None:
        await line.answer(error(message, -32601, "Method not found"))

    async def call(message: JSONObject, line: Line) -> None:
        calls.append(message)
        if len(calls) == 2:
            schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
            asked = {"message": "Delete the note of the first one?", "requestedSchema": schema}
            question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": asked}
            await line.answer(encoded(question))

    async def said(message: JSONObject, line: Line) -> None:
        told = [{"type": "text", "text": str(message.get("error", message.get("result")))}]
        await line.answer(result(calls[1], {"content": told}))

    return Bare(answers={"server/discover": old, "tools/call": call, "(answer)": said})
