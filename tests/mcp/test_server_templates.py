"""Resource templates of an app: a tool reads the resource, with the variables of the URI as its arguments."""

import base64
import json
from typing import Any, Literal

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, ResourceTemplateReference, TextResourceContents

import toolwright as tw
from tests.mcp.server_rig import REVISIONS, Revision, hosting
from toolwright.core.errors import DefinitionError
from toolwright.web.auth.access import TokenIdentity

pytestmark = pytest.mark.anyio
each_revision = pytest.mark.parametrize("revision", REVISIONS)


@tw.tool(description="Show an order.", read_only=True)
def show_order(number: int, part: Literal["all", "price"] = "all") -> tw.ToolResult:
    if number == 404:
        return tw.ToolResult.fail("There is no such order.", error_code="not_found")
    if number == 500:
        return tw.ToolResult.fail("The shop is closed.")
    return tw.ToolResult.ok({"number": number, "part": part})


@tw.tool(description="Show a picture.", read_only=True)
def picture(name: str) -> tw.ToolResult:
    data = base64.b64encode(name.encode()).decode()
    return tw.ToolResult.ok(attachments=(tw.Attachment(name="a.png", mime_type="image/png", data=data),))


@tw.tool(description="Ask.", read_only=True)
async def ask(state: tw.ThreadState, topic: str) -> str:
    return (await state.elicit(f"What of {topic}?", {"type": "object", "properties": {}})).action


@tw.tool(description="Wait for a person.", read_only=True, requires_approval=True)
def approved(topic: str) -> str:
    return topic


@tw.tool(description="Write.")
def write(text: str) -> str:
    return text


CATALOG = [{"id": number, "name": "Zürich"} for number in range(20_000)]


@tw.tool(description="List a catalog.", read_only=True)
def catalog(number: int) -> Any:
    return CATALOG


TOOLS = [show_order, picture, ask, approved, write, catalog]
TEMPLATES: dict[str, Any] = {
    "orders://{number}/parts/{part}": {"tool": "show_order", "description": "An order."},
    "orders://{number}": {"tool": "show_order", "mime_type": "application/vnd.order+json"},
    "pictures://{name}": {"tool": "picture"},
    "questions://{topic}": {"tool": "ask"},
    "approved://{topic}": {"tool": "approved"},
    "catalogs://{number}": {"tool": "catalog"},
}
APP = tw.App(tools=TOOLS, mcp_server={"resources": {"orders://1": "The first.", **TEMPLATES}})


@each_revision
async def test_the_tool_of_a_template_reads_its_resources(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        listed = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in listed[1:]] == [*TEMPLATES]
        assert (listed[1].name, listed[1].description, listed[2].description) == (
            "show_order",
            "An order.",
            "Show an order.",
        )
        read = {
            "orders://7": ("application/vnd.order+json", '{"number":7,"part":"all"}'),
            "orders://7/parts/price": ("application/json", '{"number":7,"part":"price"}'),
            "orders://1": ("text/plain", "The first."),
            "questions://rain%20or%2Fand%20sun": ("text/plain", "cancel"),
        }
        for uri, (mime_type, text) in read.items():
            [content] = (await client.read_resource(uri)).contents
            assert content == TextResourceContents(uri=uri, mime_type=mime_type, text=text)
        [content] = (await client.read_resource("pictures://gr%C3%BCn")).contents
        assert isinstance(content, BlobResourceContents)
        assert (content.uri, content.mime_type) == ("pictures://gr%C3%BCn", "image/png")
        assert base64.b64decode(content.blob).decode() == "grün"


@each_revision
async def test_a_long_result_is_read_whole(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        [content] = (await client.read_resource("catalogs://1")).contents
        assert isinstance(content, TextResourceContents)
        assert (content.mime_type, json.loads(content.text)) == ("application/json", CATALOG)


@each_revision
async def test_what_cannot_be_read_is_an_error_of_the_protocol(revision: Revision) -> None:
    absent = mcp_types.INVALID_PARAMS if revision != "legacy" else -32002
    wrong = [
        ("orders://404", absent, "Resource not found"),
        ("orders://500", mcp_types.INTERNAL_ERROR, "The shop is closed."),
        ("orders://x", mcp_types.INVALID_PARAMS, "Invalid arguments: number: must be an integer"),
        ("orders://7/parts/none", mcp_types.INVALID_PARAMS, "Invalid arguments: part"),
        ("orders://", absent, "Resource not found"),
        ("orders://7/parts", absent, "Resource not found"),
        ("orders://7/parts/price/more", absent, "Resource not found"),
        ("approved://x", mcp_types.INTERNAL_ERROR, "The tool 'approved' needs an approval."),
    ]
    async with hosting(APP) as host, host.client(revision) as client:
        for uri, code, said in wrong:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert (refused.value.code, said in str(refused.value)) == (code, True), (uri, str(refused.value))
        assert not await host.rt.calls.list()


@each_revision
async def test_variables_are_completed_and_changes_are_not_followed(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        reference = ResourceTemplateReference(uri="orders://{number}/parts/{part}")
        answer = await client.complete(reference, {"name": "part", "value": "p"})
        assert answer.completion.values == ["price"]
        if revision == "legacy":
            params = mcp_types.SubscribeRequestParams(uri="orders://7")
            with pytest.raises(MCPError, match="its changes are not known"):
                await client.session.send_request(
                    mcp_types.SubscribeRequest(params=params), mcp_types.EmptyResult
                )
        else:
            async with client.listen(resource_subscriptions=["orders://7"]) as changes:
                assert not changes.honored.resource_subscriptions


@each_revision
async def test_a_template_needs_the_permission_of_its_tool(revision: Revision) -> None:
    async def verify(token: str) -> TokenIdentity:
        return TokenIdentity(external_id=token, until=None)

    options: dict[str, Any] = {"public_keys": ("pk",), "verify_token": verify}
    app = tw.App(tools=TOOLS, mcp_server={"resources": TEMPLATES, "people": ["picture"]})
    async with hosting(app, **options) as host:
        await host.rt.entities.create(external_id="ada")
        headers = {"x-public-key": "pk", "authorization": "Bearer ada"}
        async with host.client(revision, headers) as client:
            listed = (await client.list_resource_templates()).resource_templates
            assert [each.uri_template for each in listed[1:]] == ["pictures://{name}"]
            assert (await client.read_resource("pictures://a")).contents
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource("orders://7")
            with pytest.raises(MCPError, match="Unknown resource template"):
                await client.complete(
                    ResourceTemplateReference(uri="orders://{number}"), {"name": "number", "value": ""}
                )


@pytest.mark.parametrize(
    ("uri", "entry", "error"),
    [
        ("orders://{number}", "text", "has variables: give it the name of a tool"),
        (
            "orders://{number}",
            {"tool": "show_order", "content": "x"},
            "has variables: give it the name of a tool",
        ),
        ("orders://{number}", {"tool": 5}, "has variables: give it the name of a tool"),
        ("orders://all", {"tool": "show_order"}, "each variable is a whole segment"),
        ("orders://x{number}", {"tool": "show_order"}, "each variable is a whole segment"),
        ("orders://{+number}", {"tool": "show_order"}, "each variable is a whole segment"),
        ("orders", {"tool": "show_order"}, "each variable is a whole segment"),
        ("orders://{number}/{number}", {"tool": "show_order"}, "names a variable twice"),
        ("orders://{number}", {"tool": "nope"}, "names the tool 'nope', which the app does not have"),
        ("texts://{text}", {"tool": "write"}, "names the tool 'write', which is not marked read_only"),
        (
            "orders://{part}",
            {"tool": "show_order"},
            "must have the required arguments of the tool 'show_order'",
        ),
        ("orders://{number}/{x}", {"tool": "show_order"}, "must have the required arguments of the tool"),
    ],
)
def test_a_template_that_no_tool_can_read_is_refused(uri: str, entry: object, error: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        tw.App(tools=TOOLS, mcp_server={"resources": {uri: entry}})
    assert error in str(refused.value)
