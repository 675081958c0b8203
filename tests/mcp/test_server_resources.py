"""Files of calls as resources: readable by the caller of the call only."""

import base64
from typing import Any

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError

import toolwright as tw
from tests.mcp.server_rig import REVISIONS, Revision, hosting
from toolwright.web.auth.access import TokenIdentity
from toolwright.web.mcp.content import ALONG, MAX_BYTES

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("revision", REVISIONS)]


def attachment(name: str, mime_type: str, content: bytes) -> tw.Attachment:
    return tw.Attachment(name=name, mime_type=mime_type, data=base64.b64encode(content).decode())


@tw.tool(description="Hand over files.")
def report() -> tw.ToolResult:
    text = attachment("a b.txt", "text/plain", "Grüße".encode())
    return tw.ToolResult.ok("See.", (text, attachment("a.bin", "application/zip", b"\x00\xff")))


@tw.tool(description="Hand over much.")
def much() -> tw.ToolResult:
    half = b"x" * (ALONG // 2 + 1)
    large = attachment("large.bin", "application/zip", b"x" * (MAX_BYTES + 1))
    files = [attachment(f"{name}.bin", "application/zip", half) for name in ("one", "two")]
    return tw.ToolResult.ok("See.", (*files, large))


APP = tw.App(tools=[report, much], mcp_server={"people": "all"})


async def test_a_file_of_a_result_can_be_read_again(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        _, text, binary = (await client.call_tool("report", {})).content
        assert isinstance(text, mcp_types.EmbeddedResource)
        assert isinstance(binary, mcp_types.EmbeddedResource)
        for embedded in (text.resource, binary.resource):
            assert (await client.read_resource(embedded.uri)).contents == [embedded]
        assert (await client.list_resources()).resources == []
        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "toolwright://threads/{threadId}/files/{+path}"
        assert (await client.list_prompts()).prompts == []


async def test_what_is_too_much_for_one_result_is_linked(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        _, first, second, large = (await client.call_tool("much", {})).content
        assert isinstance(first, mcp_types.EmbeddedResource)
        assert isinstance(second, mcp_types.ResourceLink)
        assert (second.name, second.size) == ("two.bin", ALONG // 2 + 1)
        [read] = (await client.read_resource(second.uri)).contents
        assert isinstance(read, mcp_types.BlobResourceContents)
        assert isinstance(large, mcp_types.TextContent)
        with pytest.raises(MCPError):
            await client.read_resource(second.uri.replace("two.bin", "large.bin"))


async def test_what_is_not_theirs_is_as_if_it_were_not_there(revision: Revision) -> None:
    async def verify(token: str) -> TokenIdentity:
        return TokenIdentity(external_id=token, until=None)

    options: dict[str, Any] = {"public_keys": ("pk",), "verify_token": verify}
    async with hosting(APP, **options) as host:
        for name in ("ada", "bob"):
            await host.rt.entities.create(external_id=name)
        headers = {"x-public-key": "pk", "authorization": "Bearer ada"}
        async with host.client(revision, headers) as client:
            _, text, _ = (await client.call_tool("report", {})).content
            assert isinstance(text, mcp_types.EmbeddedResource)
            uri = text.resource.uri
            assert (await client.read_resource(uri)).contents
        async with host.client(revision, {**headers, "authorization": "Bearer bob"}) as client:
            for wrong in (uri, "toolwright://threads/x/files/y", "file:///etc/passwd", "toolwright://", "x"):
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(wrong)
                expected = -32002 if revision == "legacy" else mcp_types.INVALID_PARAMS
                assert refused.value.code == expected
