"""The app's tools, listed and called by the official client in both revisions."""

import asyncio
import base64
from datetime import date
from typing import Any

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

import toolwright as tw
from tests.kit import hanging
from tests.mcp.server_rig import REVISIONS, Revision, hosting
from toolwright.core.threads.event import Topic

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("revision", REVISIONS)]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


@tw.tool(description="Add numbers.", read_only=True)
def add(a: int, b: int) -> int:
    return a + b


@tw.tool(description="Describe.", destructive=True)
def describe(name: str) -> dict[str, str]:
    return {"name": name}


@tw.tool(description="Fail.")
def fail() -> str:
    raise ValueError("no luck")


@tw.tool(description="Read a key.", variables=[tw.Variable("API_KEY", type="secret", required=True)])
async def keyed(state: tw.ThreadState) -> str:
    return f"{len(await state.env('API_KEY') or '')}"


@tw.tool(description="Hand over files.")
def files() -> tw.ToolResult:
    text = base64.b64encode("Grüße".encode()).decode()
    return tw.ToolResult.ok(
        "See the files.",
        (
            tw.Attachment(name="a.png", mime_type="image/png", data=PNG),
            tw.Attachment(name="a.wav", mime_type="audio/wav", data=PNG),
            tw.Attachment(name="a.txt", mime_type="text/plain", data=text),
            tw.Attachment(name="a.bin", mime_type="application/octet-stream", data=PNG),
        ),
    )


@tw.tool(description="Go on for a while.")
async def progressing(state: tw.ThreadState) -> str:
    for done in (1.0, 2.0, 2.0, 3.0):
        state.progress(done, 3.0, f"step {done:g}")
        await asyncio.sleep(0.01)
    state.emit("log", {"level": "warning", "message": "nearly"})
    state.emit("log", "done")
    return "over"


def count(kind: str = "a", address: object = None) -> dict[str, int]:
    return {"n": len(kind)}


def app(**options: Any) -> tw.App:
    registry = tw.Registry()
    registry.tool(
        "strange",
        {
            "description": "Takes much.",
            "type": "object",
            "$defs": {"address": {"type": "object"}},
            "properties": {
                "address": {"$ref": "#/$defs/address"},
                "kind": {"enum": ["a", "b"]},
                "_output": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            },
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"required": ["address"]},
        },
    )
    registry.handler("strange", count)
    return tw.App(tools=[add, describe, fail, keyed, files, progressing], registry=registry, **options)


async def test_tools_are_listed_with_whole_schemas_and_their_hints(revision: Revision) -> None:
    async with hosting(app()) as host, host.client(revision) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(listed) == ["add", "describe", "fail", "keyed", "files", "progressing", "strange"]
    assert listed["add"].annotations == mcp_types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=False
    )
    assert listed["describe"].annotations is not None
    assert listed["describe"].annotations.destructive_hint is True
    schema = listed["strange"].input_schema
    assert schema["$defs"] == {"address": {"type": "object"}}
    assert schema["properties"]["address"] == {"$ref": "#/$defs/address"}
    assert (schema["if"], schema["then"]) == (
        {"properties": {"kind": {"const": "a"}}},
        {"required": ["address"]},
    )
    assert not [name for name in schema if name.startswith("_")]
    assert listed["strange"].output_schema is not None
    assert listed["strange"].output_schema["required"] == ["n"]
    assert listed["add"].output_schema is not None
    assert listed["add"].output_schema["required"] == ["result"]


async def test_a_long_list_comes_in_pages(revision: Revision) -> None:
    tools = [tw.Tool(name=f"tool_{n}", description="One.", kind="internal") for n in range(450)]
    async with hosting(tw.App(tools=tools)) as host, host.client(revision) as client:
        names: list[str] = []
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert names == [f"tool_{n}" for n in range(450)]
        for wrong in ("x", "MTAwMDA=", "LTE="):
            with pytest.raises(MCPError) as refused:
                await client.list_tools(cursor=wrong)
            assert refused.value.code == mcp_types.INVALID_PARAMS


async def test_a_call_is_answered_and_recorded(revision: Revision) -> None:
    async with hosting(app()) as host, host.client(revision) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.is_error, result.structured_content) == (False, {"result": 3})
        assert [block.text for block in result.content if block.type == "text"] == ["3"]
        described = await client.call_tool("describe", {"name": "Ada"})
        assert described.structured_content == {"name": "Ada"}
        judged = await client.call_tool("strange", {"kind": "b"})
        assert judged.structured_content == {"n": 1}
        calls = await host.rt.calls.list(status=["done"])
        assert [each.name for each in calls] == ["add", "describe", "strange"]
        assert len({each.thread_id for each in calls}) == 3


async def test_what_fails_is_a_result_and_no_error_of_the_protocol(revision: Revision) -> None:
    async with hosting(app()) as host, host.client(revision) as client:
        for name, arguments, code, said in (
            ("fail", {}, None, "no luck"),
            ("add", {"a": "1"}, "invalid_arguments", "a: must be an integer"),
            ("keyed", {}, "variables_required", "API_KEY"),
            ("strange", {"kind": "a"}, "invalid_arguments", "Invalid arguments: "),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            [block] = result.content
            assert block.type == "text"
            assert (said in block.text, block.text.startswith("{")) == (True, False)
            told: dict[str, Any] = (result.meta or {}).get("toolwright/error", {})
            assert told.get("error_code") == code
        assert len(await host.rt.calls.list(status=["error"])) == 4


async def test_an_unknown_tool_is_an_error_of_the_protocol(revision: Revision) -> None:
    async with hosting(app()) as host, host.client(revision) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("nothing", {})
        assert (refused.value.code, refused.value.message) == (
            mcp_types.INVALID_PARAMS,
            "Unknown tool: nothing",
        )


async def test_files_are_content_of_their_kind(revision: Revision) -> None:
    async with hosting(app()) as host, host.client(revision) as client:
        result = await client.call_tool("files", {})
    text, image, audio, document, binary = result.content
    assert text.type == "text"
    assert isinstance(image, mcp_types.ImageContent)
    assert (image.data, image.mime_type) == (PNG, "image/png")
    assert isinstance(audio, mcp_types.AudioContent)
    assert audio.mime_type == "audio/wav"
    assert isinstance(document, mcp_types.EmbeddedResource)
    assert isinstance(document.resource, mcp_types.TextResourceContents)
    assert document.resource.text == "Grüße"
    assert isinstance(binary, mcp_types.EmbeddedResource)
    assert isinstance(binary.resource, mcp_types.BlobResourceContents)
    assert binary.resource.blob == PNG


async def test_progress_rises_and_is_reported_before_the_result(revision: Revision) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with hosting(app()) as host, host.client(revision) as client:
        await client.call_tool("progressing", {}, progress_callback=told)
    assert seen
    assert [each[0] for each in seen] == sorted({each[0] for each in seen})
    assert all(total == 3.0 for _, total, _ in seen)


async def test_log_events_are_log_messages_for_hosts_that_want_them(revision: Revision) -> None:
    seen: list[tuple[str, Any]] = []

    async def logged(params: mcp_types.LoggingMessageNotificationParams) -> None:
        seen.append((params.level, params.data))

    async with hosting(app()) as host:
        async with host.client(revision, logging_callback=logged, log_level="info") as client:
            await client.call_tool("progressing", {})
        assert seen == [("warning", "nearly"), ("info", "done")]


async def test_a_call_that_the_host_cancels_is_cancelled(revision: Revision) -> None:
    wait, begun = hanging("wait")

    async with hosting(tw.App(tools=[wait])) as host, host.client(revision) as client:
        calling = asyncio.create_task(client.call_tool("wait", {}))
        await begun.wait()
        [run] = await host.rt.runs.list()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await host.rt.runs.wait(run.id, 10)).status == "cancelled"
        events = await host.rt.events.list(Topic(kind="run", id=run.id))
        assert events[-1].type == "run.cancelled"


async def test_a_result_that_is_too_long_for_its_schema_is_no_result_of_it(revision: Revision) -> None:
    registry = tw.Registry()
    registry.tool(
        "long",
        {
            "description": "Is long.",
            "type": "object",
            "properties": {"_output": {"type": "object", "required": ["text"]}},
        },
    )
    registry.handler("long", lambda: {"text": "x" * 300_000})
    async with hosting(tw.App(registry=registry)) as host, host.client(revision) as client:
        result = await client.call_tool("long", {})
        assert (result.is_error, result.structured_content) == (True, None)
        assert isinstance(result.content[0], mcp_types.TextContent)
        assert "long-success.json" in result.content[0].text
        assert isinstance(result.content[1], mcp_types.ResourceLink)


class Point(BaseModel):
    x: int
    when: date


@tw.tool
async def point() -> Point:
    """A model."""
    return Point(x=1, when=date(2026, 1, 2))


@tw.tool
def points() -> list[Point]:
    """Models in a list."""
    return [Point(x=1, when=date(2026, 1, 2))]


@tw.tool
def maybe() -> str | None:
    """Perhaps a text."""
    return None


@tw.tool
def sloppy() -> dict[str, int]:
    """Not what its annotation says."""
    return {"n": "three"}  # type: ignore[dict-item]  # pyright: ignore[reportReturnType]  # the error under test


@tw.tool
def failing() -> int:
    """Fails."""
    raise ValueError("No number today.")


@tw.tool
def picture() -> list[tw.ImageContent]:
    """A picture."""
    return [tw.ImageContent(data="AAAA", mime_type="image/png")]


@tw.tool
def anything() -> Any:
    """Whatever."""
    return [1]


async def test_return_annotations_are_output_schemas_that_results_fit(revision: Revision) -> None:
    tools = [point, points, maybe, sloppy, failing, picture, anything]
    async with hosting(tw.App(tools=tools)) as host, host.client(revision) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        results = {name: await client.call_tool(name) for name in schemas}
    assert schemas["picture"] is None
    assert schemas["anything"] is None
    assert schemas["point"] is not None
    assert schemas["point"]["required"] == ["x", "when"]
    assert schemas["points"] is not None
    assert schemas["points"]["properties"]["result"]["type"] == "array"
    assert "Point" in schemas["points"]["$defs"]
    when = {"x": 1, "when": "2026-01-02"}
    assert results["point"].structured_content == when
    assert results["points"].structured_content == {"result": [when]}
    assert results["maybe"].structured_content == {"result": None}
    assert not any(results[name].is_error for name in ("point", "points", "maybe", "picture", "anything"))
    for name, said in (("sloppy", "does not match its outputSchema: n"), ("failing", "No number today.")):
        assert results[name].is_error
        assert results[name].structured_content is None
        told = [each.text for each in results[name].content if isinstance(each, mcp_types.TextContent)]
        assert said in "\n".join(told)
