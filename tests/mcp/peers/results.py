"""Peers with unusual answers to calls: content of all kinds, huge, invalid, late, missing; with progress."""

import asyncio
import base64
import os
from functools import partial

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.mcp.peers.peer import Answer, Asked, JSONObject, Peer, text, tool

MEGABYTE = 1024 * 1024
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""One pixel."""
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)).decode()
FLOOD = 3_000
SUM: JSONObject = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}


def image(data: str, mime_type: str = "image/png") -> JSONObject:
    """Return an image's content."""
    return {"type": "image", "data": data, "mimeType": mime_type}


def resource(**fields: str) -> JSONObject:
    """Return an embedded resource's content."""
    return {"type": "resource", "resource": {"uri": "file:///notes.txt", **fields}}


def blob(data: str) -> JSONObject:
    """Return an embedded resource of bytes."""
    return {
        "type": "resource",
        "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": data},
    }


def link(uri: str) -> JSONObject:
    """Return a link to a resource."""
    return {"type": "resource_link", "uri": uri, "name": "report", "mimeType": "text/plain", "size": 12}


def of(*content: object, **more: object) -> JSONObject:
    """Return a result with that content."""
    return {"content": list(content), **more}


RESULTS: dict[str, JSONObject] = {
    "text": text("It is sunny."),
    "two_texts": text("It is", "sunny."),
    "no_content": of(),
    "only_structured": of(structuredContent={"sum": 3}),
    "structured": text('{"sum": 3}', structuredContent={"sum": 3}),
    "structured_with_schema": text('{"sum": 3}', structuredContent={"sum": 3}),
    "structured_against_schema": text('{"sum": "three"}', structuredContent={"sum": "three"}),
    "schema_without_structured": text("3"),
    "structured_array": text("[1]", structuredContent=[1]),
    "structured_null": text("null", structuredContent=None),
    "error": text("The city is unknown.", isError=True),
    "structured_error": text("The city is unknown.", isError=True, structuredContent={"sum": "?"}),
    "empty_error": of(isError=True),
    "structured_alone": {"structuredContent": {"sum": 3}},
    "error_with_picture": of(
        {"type": "text", "text": "No seat."}, image(PNG), isError=True, structuredContent={"free": 0}
    ),
    "image": of(image(PNG)),
    "image_and_text": of({"type": "text", "text": "A pixel."}, image(PNG)),
    "image_bad_base64": of(image("%%% not base64 %%%")),
    "image_empty": of(image("")),
    "image_wrong_type": of(image(PNG, "text/html")),
    "audio": of({"type": "audio", "data": WAV, "mimeType": "audio/wav"}),
    "embedded_text": of(resource(mimeType="text/plain", text="Tea at four.")),
    "embedded_html": of(resource(mimeType="text/html", text="<script>alert(1)</script>")),
    "embedded_blob": of(blob(base64.b64encode(b"%PDF-1.4 ...").decode())),
    "embedded_bad_base64": of(blob("=== not base64")),
    "embedded_odd_uri": of({"type": "resource", "resource": {"uri": "../../etc/passwd", "text": "root"}}),
    "embedded_nothing": of(resource()),
    "link": of(link("https://shop.example/report")),
    "local_link": of(link("file:///etc/passwd")),
    "unknown_kind": of({"type": "hologram", "data": "x"}, {"type": "text", "text": "beside"}),
    "content_is_text": {"content": "It is sunny."},
    "content_has_null": of(None),
    "text_is_number": of({"type": "text", "text": 5}),
    "no_result": {},
    "annotated": of(
        {"type": "text", "text": "For the user.", "annotations": {"audience": ["user"], "priority": 1}}
    ),
    "control_characters": text("nul\x00 escape\x1b[31m tag\U000e0041"),
}
OUTPUT_SCHEMAS = {
    "structured_with_schema",
    "structured_against_schema",
    "schema_without_structured",
    "structured_error",
}


def results() -> Peer:
    """Each tool answers with the entry of `RESULTS` that has its name."""
    tools = [
        tool(name, "Does it.", **({"outputSchema": SUM} if name in OUTPUT_SCHEMAS else {}))
        for name in RESULTS
    ]
    return Peer(tools=tools, calls={name: _fixed(result) for name, result in RESULTS.items()})


def huge_results() -> Peer:
    """`text`, `structured` and `images` answer with 20 MB, `many_parts` with 100,000 parts."""
    words = "word " * (20 * MEGABYTE // 5)
    made = {
        "text": text(words),
        "structured": text(
            "see there", structuredContent={"rows": [{"n": n, "text": "x" * 80} for n in range(180_000)]}
        ),
        "images": of(*[image(base64.b64encode(bytes(MEGABYTE)).decode()) for _ in range(15)]),
        "many_parts": text(*["x"] * 100_000),
    }
    return Peer(
        tools=[tool(name) for name in made], calls={name: _fixed(result) for name, result in made.items()}
    )


def slow(seconds: float = 0.3) -> Peer:
    """Sends each answer `seconds` late."""

    async def wait(_: Asked) -> None:
        await asyncio.sleep(seconds)

    return Peer(tools=[tool("plain")], before=wait)


def hangs_at_list() -> Peer:
    """Completes the handshake and never lists its tools."""
    return Peer(tools=[tool("plain")], answers={"tools/list": _forever})


def hangs_at_call() -> Peer:
    """Lists its tools; a call of `wait` never ends, its cancellation is recorded as `(cancelled)`; `plain` answers."""
    return Peer(tools=[tool("wait"), tool("plain")], calls={"wait": _forever})


def progress() -> Peer:
    """`with_total`, `without_total`, `with_message` report three steps; `backwards`, `beyond` report invalid ones."""

    async def told(steps: list[tuple[float, float | None, str | None]], asked: Asked) -> JSONObject:
        for each in steps:
            await asked.context.session.report_progress(*each)
        return text("done")

    steps: dict[str, list[tuple[float, float | None, str | None]]] = {
        "with_total": [(n, 3, None) for n in (1, 2, 3)],
        "without_total": [(n, None, None) for n in (1, 2, 3)],
        "with_message": [(n, 3, f"step {n}") for n in (1, 2, 3)],
        "backwards": [(n, 3, None) for n in (3, 2, 1)],
        "beyond": [(5, 3, None), (-1, 3, None), (1e300, 1, "x" * 100_000)],
        "silent": [],
    }
    return Peer(
        tools=[tool(name) for name in steps],
        calls={name: partial(told, each) for name, each in steps.items()},
    )


def progress_flood() -> Peer:
    """`flood` reports 3,000 steps as fast as it can, `ends` reports the last step repeatedly.

    `stranger` reports steps of an unknown call.
    """

    async def flood(asked: Asked) -> JSONObject:
        for n in range(FLOOD):
            await asked.context.session.report_progress(n, FLOOD, f"step {n}")
        return text("done")

    async def ends(asked: Asked) -> JSONObject:
        for n in range(FLOOD):
            await asked.context.session.report_progress(1, 1, f"end {n}")
        return text("done")

    async def stranger(asked: Asked) -> JSONObject:
        session, request = asked.context.session, asked.context.request_id
        for token in ("nobody", 10**12, -1):
            await session.send_progress_notification(token, 1, related_request_id=str(request))
        return text("done")

    calls: dict[str, Answer] = {"flood": flood, "ends": ends, "stranger": stranger}
    return Peer(tools=[tool(name) for name in calls], calls=calls)


def log_flood() -> Peer:
    """`flood` writes 3,000 log messages of 1 KB, `plain` none."""

    async def flood(asked: Asked) -> JSONObject:
        params = types.LoggingMessageNotificationParams(level="info", data="x" * 1024)
        message = types.LoggingMessageNotification(params=params)
        for _ in range(FLOOD):
            await asked.context.session.send_notification(
                message, related_request_id=asked.context.request_id
            )
        return text("done")

    return Peer(tools=[tool("flood"), tool("plain")], calls={"flood": flood})


def protocol_errors() -> Peer:
    """Calls that end in a protocol error instead of a result, each named for its code; `raises` has a bug."""

    async def fail(code: int, _: Asked) -> JSONObject:
        raise MCPError(code, "Not today.", {"why": "no reason", "token": "secret"})

    async def bug(_: Asked) -> JSONObject:
        raise RuntimeError("a bug of the server, with its password")

    codes = {"invalid_params": -32602, "internal": -32603, "not_found": -32601, "unknown_code": 42}
    calls: dict[str, Answer] = {name: partial(fail, code) for name, code in codes.items()}
    calls["raises"] = bug
    return Peer(tools=[tool(name) for name in calls], calls=calls)


def headers() -> Peer:
    """`headers` returns the HTTP headers of its own call, as JSON; `environment` the variables of its process."""

    async def told(asked: Asked) -> JSONObject:
        return text("see there", structuredContent=dict(asked.headers))

    async def environment(_: Asked) -> JSONObject:
        return text("see there", structuredContent=dict(os.environ))

    return Peer(
        tools=[tool("headers"), tool("environment")], calls={"headers": told, "environment": environment}
    )


def counts_calls() -> Peer:
    """`count` returns how many times it was called; with `readOnlyHint` as `read`, with `idempotentHint` as `put`."""
    counts = dict.fromkeys(("count", "read", "put"), 0)

    async def count(asked: Asked) -> JSONObject:
        name = asked.params["name"]
        counts[name] += 1
        return text(str(counts[name]))

    tools = [
        tool("count"),
        tool("read", annotations={"readOnlyHint": True}),
        tool("put", annotations={"idempotentHint": True}),
    ]
    return Peer(tools=tools, calls={each["name"]: count for each in tools})


async def _forever(asked: Asked) -> JSONObject:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        asked.peer.hearing.hear("(cancelled)", asked.params, asked.headers)
        raise
    raise AssertionError("never set")


def _fixed(result: JSONObject) -> Answer:
    async def answer(_: Asked) -> JSONObject:
        return result

    return answer
