"""`toolwright mcp`: the official client starts the real command, in both revisions."""

import sys
from pathlib import Path
from typing import Any

import mcp_types
import pytest

import mcp
from mcp import StdioServerParameters
from tests.mcp.server_rig import REVISIONS, Revision

pytestmark = pytest.mark.anyio

APP = """
import asyncio, os
import toolwright as tw
from pydantic import BaseModel

print("printed while the app is loaded")

class UserName(BaseModel):
    name: str

@tw.tool(description="Add.")
def add(a: int, b: int) -> int:
    print("printed by a tool")
    os.system("echo printed by a child")
    return a + b

@tw.tool(description="Ask.")
async def hello(state: tw.ThreadState) -> str:
    state.progress(1, 2)
    return str((await state.elicit("Who are you?", UserName)).content)

app = tw.App(tools=[add, hello])
"""


def server(folder: Path) -> StdioServerParameters:
    (folder / "app.py").write_text(APP, encoding="utf-8")
    source = str(Path(__file__).parents[2] / "src")
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolwright.cli", "mcp", "app:app"],
        cwd=folder,
        env={"PYTHONPATH": source, "TOOLWRIGHT_DATABASE_URL": "memory://"},
    )


async def _answer(context: Any, params: Any) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_apps_tools_are_called_on_stdio(revision: Revision, tmp_path: Path) -> None:
    async with mcp.Client(server(tmp_path), mode=revision, elicitation_callback=_answer) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "hello"]
        [added] = (await client.call_tool("add", {"a": 1, "b": 2})).content
        [asked] = (await client.call_tool("hello", {})).content
    assert isinstance(added, mcp_types.TextContent)
    assert isinstance(asked, mcp_types.TextContent)
    assert (added.text, asked.text) == ("3", "{'name': 'Ada'}")
