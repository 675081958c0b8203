"""`toolwright mcp`: the official client starts the real command, in both revisions."""

import asyncio
import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp.shared.subscriptions import ResourceUpdated

import mcp
import toolwright as tw
from mcp import StdioServerParameters
from tests.mcp.server_rig import REVISIONS, Revision
from toolwright import testing
from toolwright.core.mcp.offered import McpPermissions
from toolwright.web.mcp.server import serve_stdio

pytestmark = pytest.mark.anyio

APP = """
import asyncio, os
from pathlib import Path
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

app = tw.App(tools=[add, hello], mcp_server={"resources": {"docs://app": Path("app.py")}})
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


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_changed_file_is_reported_on_stdio(revision: Revision, tmp_path: Path) -> None:
    changed = asyncio.Event()

    async def heard(message: object) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            changed.set()

    async with mcp.Client(server(tmp_path), mode=revision, message_handler=heard) as client:
        if revision == "legacy":
            params = mcp_types.SubscribeRequestParams(uri="docs://app")
            request = mcp_types.SubscribeRequest(params=params)
            await client.session.send_request(request, mcp_types.EmptyResult)
            (tmp_path / "app.py").write_text("# changed", encoding="utf-8")
            await changed.wait()
            return
        async with client.listen(resource_subscriptions=["docs://app"]) as changes:
            (tmp_path / "app.py").write_text("# changed", encoding="utf-8")
            assert await anext(aiter(changes)) == ResourceUpdated("docs://app")


@tw.tool(description="Count.", read_only=True)
def count(text: str) -> int:
    return len(text)


class Written(BytesIO):
    """A stdout whose content remains readable."""

    def close(self) -> None:
        """Keep the content."""


async def answers_to(*lines: str) -> list[Any]:
    """Return the answers of a server whose stdin consists of these lines."""
    stdin, stdout = BytesIO("".join(f"{line}\n" for line in lines).encode()), Written()
    async with testing.runtime(tw.App(tools=[count])) as rt:
        await serve_stdio(rt, stdin, stdout, McpPermissions())
    return [json.loads(line) for line in stdout.getvalue().splitlines()]


CALL = '{"jsonrpc": "2.0", "id": ID, "method": "tools/call", "params": {"name": "count", "arguments": {"text": TEXT}}}'


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        ("junk", -32700, None),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/list"', -32700, None),
        (CALL.replace("ID", "7").replace("TEXT", r'"\ud800"'), -32700, 7),
        (CALL.replace("ID", '"seven"').replace("TEXT", "NaN"), -32700, "seven"),
        (CALL.replace("ID", "7").replace("TEXT", "[" * 100 + "]" * 100), -32700, 7),
        (CALL.replace("ID", "7").replace("TEXT", "[" * 20_000), -32700, None),
        (CALL.replace("ID", "7").replace("TEXT", '"a", "text": "b"'), -32700, 7),
        (CALL.replace("ID", r'"\ud800"').replace("TEXT", '"a"'), -32700, None),
        ("[]", -32600, None),
        ('{"id": 7, "method": "tools/list"}', -32600, 7),
        ('{"jsonrpc": "2.0", "id": 7}', -32600, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": 5}', -32600, 7),
        ('{"jsonrpc": "2.0", "id": null, "method": "tools/list"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": 7, "result": null}', -32600, None),
    ],
)
async def test_a_line_that_is_no_message_is_answered_with_an_error(
    line: str, code: int, request_id: object
) -> None:
    [answer] = await answers_to(line, "")
    assert (answer["error"]["code"], answer["id"]) == (code, request_id)


async def test_a_notification_and_an_empty_line_are_not_answered() -> None:
    assert await answers_to("", '{"jsonrpc": "2.0", "method": "notifications/initialized"}') == []
