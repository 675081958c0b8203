"""S2 §11: its five examples in Python, each within a run."""

import asyncio
import base64
import io
import json
import socket
import traceback
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import httpx2
import pytest
from PIL import Image, ImageDraw
from pydantic import BaseModel, Field

import toolwright as tw
from tests import journals
from tests.behaviour.doors import app_of, carried_out, ended, error_of, over_http, turns
from tests.behaviour.marks import requirement
from toolwright.core.errors import TenvsRequired
from toolwright.core.state.state import AbortSignal
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class SearchArgs(BaseModel):
    query: str = Field(description="Search query")
    limit: int = Field(default=10, description="Max results")


@requirement("S2-11.1-1")
async def test_11_1_a_tool_with_arguments() -> None:
    @tw.tool(description="Search the knowledge base for relevant information", args=SearchArgs)
    async def search_knowledge_base(state: tw.ThreadState, args: SearchArgs) -> tw.ToolResult:
        return tw.ToolResult.ok(json.dumps([args.query, args.limit]))

    calls = [
        ("search_knowledge_base", each) for each in ({"query": "q"}, {"query": "q", "limit": 3}, {"limit": 3})
    ]
    async with carried_out([search_knowledge_base], *calls) as seen:
        unlimited, limited, faulty = seen.results
        assert (unlimited.content, limited.content) == ('["q", 10]', '["q", 3]')
        assert error_of(faulty)["error"] == "Invalid arguments: query: is missing."
        assert seen.requests[0].tools[0].parameters["properties"] == {
            "query": {"type": "string", "description": "Search query"},
            "limit": {"type": "integer", "default": 10, "description": "Max results"},
        }


@requirement("S2-11.2-1", "S2-3.5-1")
async def test_11_2_a_tool_without_arguments() -> None:
    @tw.tool(description="Get the current server time in ISO format")
    async def get_server_time(state: tw.ThreadState) -> tw.ToolResult:
        return tw.ToolResult(status="success", result=datetime.now(UTC).isoformat())

    async with carried_out([get_server_time], ("get_server_time", {})) as seen:
        [result] = seen.results
        assert datetime.fromisoformat(result.content).utcoffset() == timedelta(0)


@dataclass
class Service:
    """An HTTP service on this machine: `/good`, `/bad`, `/html`, and `/slow`, which never answers."""

    url: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        if path == b"/slow":
            self.asked.set()
            await reader.read()  # until the caller disconnects
            self.left.set()
        else:
            status, body = {
                b"/good": ("200 OK", b'{"items": [1, 2]}'),
                b"/bad": ("500 Internal Server Error", b"no"),
            }.get(path, ("200 OK", b"<p>no JSON</p>"))
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                + body
            )
        writer.close()


@asynccontextmanager
async def serving() -> AsyncGenerator[Service]:
    service = Service()
    async with await asyncio.start_server(service.answer, "127.0.0.1", 0) as server:
        service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield service


async def unless_aborted(
    signal: AbortSignal, request: Coroutine[object, object, httpx2.Response]
) -> httpx2.Response:
    """Return the answer as `fetch(url, {signal})` does, or raise an error as soon as the run is cancelled."""
    fetching, aborted = asyncio.ensure_future(request), asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait([fetching, aborted], return_when=asyncio.FIRST_COMPLETED)
        if not fetching.done():
            raise ConnectionAbortedError("This operation was aborted")
        return await fetching
    finally:
        fetching.cancel()
        aborted.cancel()
        await asyncio.wait([fetching, aborted])


@tw.tool(description="Fetch data from external API")
async def fetch_data(state: tw.ThreadState, endpoint: str) -> tw.ToolResult:
    try:
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            response = await unless_aborted(state.execution.abort_signal, client.get(endpoint))
        if response.is_error:
            return tw.ToolResult(
                status="error", error=f"HTTP {response.status_code}: {response.reason_phrase}"
            )
        return tw.ToolResult(status="success", result=json.dumps(response.json()))
    except Exception as error:
        return tw.ToolResult(
            status="error", error=str(error) or "Unknown error", stack=traceback.format_exc()
        )


@requirement("S2-11.3-1", "S2-11.3-2", "S2-11.3-3", "S2-4.3-3")
async def test_11_3_a_tool_that_handles_errors() -> None:
    async with serving() as service:
        endpoints = [f"{service.url}/{path}" for path in ("good", "bad", "html")]
        with socket.create_server(("127.0.0.1", 0)) as unused:
            nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        calls = [("fetch_data", {"endpoint": each}) for each in (*endpoints, nobody)]
        async with carried_out([fetch_data], *calls) as seen:
            good, bad, html, refused = seen.results
            assert (good.status, json.loads(good.content)) == ("success", {"items": [1, 2]})
            assert (error_of(bad), bad.stack) == ({"error": "HTTP 500: Internal Server Error"}, None)
            assert error_of(html) == {"error": "Expecting value: line 1 column 1 (char 0)"}
            assert "JSONDecodeError" in (html.stack or "")
            assert error_of(refused) == {"error": "All connection attempts failed"}
            assert "ConnectError" in (refused.stack or "")
            assert all("Traceback" not in message.content for message in seen.messages)


@requirement("S2-11.3-4", "S2-7.2-4")
async def test_11_3_a_request_that_hangs_ends_when_the_run_is_cancelled() -> None:
    async with serving() as service:
        model = ScriptedModel(turns(("fetch_data", {"endpoint": f"{service.url}/slow"})))
        async with journals.runtime(app_of(model, [fetch_data])) as rt, over_http(rt) as http:
            thread = await rt.threads.create("tester")
            run = await rt.threads.send(thread.id, "Go")
            async with asyncio.timeout(10):
                await service.asked.wait()
                cancelled = await http.post(f"/api/runs/{run.id}/cancel")
                assert cancelled.status_code == 200
                await service.left.wait()
            assert (await rt.runs.wait(run.id, 10)).status == "cancelled"
            [result] = [m for m in await rt.threads.messages(thread.id) if m.role == "tool"]
            assert error_of(result) == {"error": "This operation was aborted"}
            assert "ConnectionAbortedError" in (result.stack or "")


def drawn(prompt: str, width: int, height: int) -> bytes:
    """Return an image of one colour that contains these words."""
    image = Image.new("RGB", (width, height), "navy")
    ImageDraw.Draw(image).text((4, 4), prompt)
    kept = io.BytesIO()
    image.save(kept, "PNG")
    return kept.getvalue()


@requirement("S2-11.4-1", "S2-5.1-4", "S2-5.1-5", "S2-5.2-1", "S2-5.2-2", "S2-5.2-3")
async def test_11_4_a_tool_with_attachments(tmp_path: Path) -> None:
    @tw.tool(description="Generate a PNG image from the given prompt")
    async def generate_image(
        state: tw.ThreadState,
        prompt: Annotated[str, Field(description="Image generation prompt")],
        width: int = 512,
        height: int = 512,
    ) -> tw.ToolResult:
        image = tw.Attachment(
            name=f"generated-{state.execution.step_count}.png",
            mime_type="image/png",
            data=base64.b64encode(drawn(prompt, width, height)).decode(),
            width=width,
            height=height,
        )
        return tw.ToolResult.ok(f'Generated image for: "{prompt}"', (image,))

    calls = (("generate_image", {"prompt": "a cat"}), ("generate_image", {"prompt": "a dog", "width": 64}))
    app = app_of(ScriptedModel(turns(*calls)), [generate_image])
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    async with app.runtime(settings) as rt, over_http(rt) as http:
        thread = await rt.threads.create("tester")
        await ended(rt, thread.id)
        said = (await http.get(f"/api/threads/{thread.id}/messages")).json()["messages"]
        for message, number, words, width in ((said[2], 1, "a cat", 512), (said[4], 2, "a dog", 64)):
            assert message["content"] == f'Generated image for: "{words}"'
            [file] = message["attachments"]
            assert file["path"] == f"/attachments/generated-{number}.png"
            assert (file["mimeType"], file["width"], file["height"]) == ("image/png", width, 512)
            answer = await http.get(f"/api/threads/{thread.id}/files{file['path']}")
            assert answer.headers["content-type"] == "image/png"
            assert answer.content == drawn(words, width, 512)
            assert Image.open(io.BytesIO(answer.content)).size == (width, 512)


class VectorTenvs(BaseModel):
    vectorStoreId: str = Field(description="OpenAI Vector Store ID")  # noqa: N815 - as the document spells it


@requirement("S2-11.5-1", "S2-9.3-3", "S2-9.6-1")
async def test_11_5_a_tool_with_thread_environment_variables(tmp_path: Path) -> None:
    stores = {"vs_1": ["shelf B4"], "vs_2": ["shelf A1"]}

    @tw.tool(description="Search through uploaded files using vector embeddings", tenvs=VectorTenvs)
    async def file_search(
        state: tw.ThreadState, query: Annotated[str, Field(description="Search query")]
    ) -> tw.ToolResult:
        return tw.ToolResult.ok(json.dumps([query, *stores[state.tenvs.vectorStoreId]]))

    app = app_of(ScriptedModel(turns(("file_search", {"query": "Dune"}))), [file_search])
    async with app.runtime(tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")) as rt:
        with pytest.raises(TenvsRequired, match="vectorStoreId"):
            await rt.threads.create("tester")
        for store, (shelf,) in stores.items():
            thread = await rt.threads.create("tester", tenvs={"vectorStoreId": store})
            await ended(rt, thread.id)
            assert (await rt.threads.messages(thread.id))[2].content == json.dumps(["Dune", shelf])
