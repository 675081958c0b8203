"""S2 §11: its examples in Python (tenvs come with a later issue)."""

import base64
import json
from datetime import UTC, datetime
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from toolwright.core.content import Attachment
from toolwright.core.result import ToolResult
from toolwright.core.state import ThreadState
from toolwright.core.tool import tool
from toolwright.core.toolset import Toolset

pytestmark = pytest.mark.anyio


class SearchArgs(BaseModel):
    query: str = Field(description="Search query")
    limit: int = Field(default=10, description="Max results")


async def test_11_1_basic_tool_with_arguments() -> None:
    @tool(description="Search the knowledge base for relevant information", args=SearchArgs)
    async def search_knowledge_base(state: ThreadState, args: SearchArgs) -> ToolResult:
        return ToolResult.ok(json.dumps([args.query, args.limit]))

    result = await Toolset([search_knowledge_base]).call("search_knowledge_base", '{"query": "q"}')
    assert result.result == '["q", 10]'


async def test_11_2_tool_without_arguments() -> None:
    @tool(description="Get the current server time in ISO format")
    async def get_time(state: ThreadState) -> ToolResult:
        return ToolResult.ok(datetime.now(UTC).isoformat())

    assert (await Toolset([get_time]).call("get_time", "")).status == "success"


async def test_11_3_tool_with_error_handling() -> None:
    @tool(description="Fetch data from external API")
    async def fetch_data(state: ThreadState, endpoint: str) -> ToolResult:
        if not state.execution.abort_signal.aborted and endpoint == "bad":
            return ToolResult.fail("HTTP 503: Service Unavailable")
        raise OSError("Unknown host")

    tools = Toolset([fetch_data])
    assert (await tools.call("fetch_data", {"endpoint": "bad"})).error == "HTTP 503: Service Unavailable"
    failed = await tools.call("fetch_data", {"endpoint": "x"})
    assert failed.error == "Unknown host"
    assert "OSError" in (failed.stack or "")


async def test_11_4_tool_with_attachments() -> None:
    @tool(description="Generate a PNG image from the given prompt")
    async def generate_image(
        prompt: Annotated[str, Field(description="Image generation prompt")],
        width: int = 512,
        height: int = 512,
    ) -> ToolResult:
        data = base64.b64encode(b"png").decode()
        chart = Attachment(name="generated.png", mime_type="image/png", data=data, width=width, height=height)
        return ToolResult.ok(f'Generated image for: "{prompt}"', (chart,))

    result = await Toolset([generate_image]).call("generate_image", {"prompt": "a cat", "width": 64})
    assert result.result == 'Generated image for: "a cat"'
    assert [(each.width, each.height) for each in result.attachments] == [(64, 512)]


async def test_11_5_tool_that_searches_by_query() -> None:
    @tool(description="Search through uploaded files using vector embeddings")
    async def file_search(state: ThreadState, query: str) -> str:
        return f"{state.thread_id}: {query}"

    assert (await Toolset([file_search]).call("file_search", {"query": "x"})).result == "thread: x"
