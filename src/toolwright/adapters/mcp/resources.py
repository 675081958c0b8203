"""Resources of MCP servers: read for a tool of their own, and for the files that results of our own servers link to."""

import asyncio
import math
from base64 import b64encode
from typing import Annotated, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter, ValidationError

from toolwright.adapters.mcp.session import OpenSession
from toolwright.core.mcp.offered import FILE_NAME, OWN_FILES

MOST_LINKED = 20
"""Files of one result that are read by their links."""
_RESOURCE: TypeAdapter[types.InputRequiredResult | types.ReadResourceResult] = TypeAdapter(
    Annotated[types.InputRequiredResult | types.ReadResourceResult, Field(union_mode="left_to_right")]
)


async def read_resource(
    session: OpenSession, uri: str, answers: dict[str, Any] | None = None, state: str | None = None
) -> types.CallToolResult | types.InputRequiredResult:
    """The resource as the content of a result: text as text, bytes as a file. Raises `MCPError`."""
    answer = await _answer(session, uri, answers, state)
    if isinstance(answer, types.InputRequiredResult):
        return answer
    content: list[types.ContentBlock] = [
        types.TextContent(text=each.text)
        if isinstance(each, types.TextResourceContents) and each.uri == uri
        else types.EmbeddedResource(resource=each)
        for each in answer.contents
    ]
    return types.CallToolResult(content=content)


async def with_linked_files(
    session: OpenSession, answer: types.CallToolResult, seconds: float
) -> types.CallToolResult:
    """The result with the files that it links to, where the server is one of ours: it links to large ones only.

    What cannot be read within so many seconds stays a link.
    """
    linked = [each for each in answer.content if _is_own_file(each)][:MOST_LINKED]
    if not linked or seconds <= 0:
        return answer
    read: dict[int, types.ContentBlock] = {}
    try:
        async with asyncio.timeout(seconds):
            for each in linked:
                read[id(each)] = await _file(session, each)
    except (TimeoutError, MCPError, ValidationError, RuntimeError):
        pass  # a link says where the file is
    content = [read.get(id(each), each) for each in answer.content]
    return answer.model_copy(update={"content": content})


def _is_own_file(block: types.ContentBlock) -> bool:
    return isinstance(block, types.ResourceLink) and block.uri.startswith(OWN_FILES)


async def _file(session: OpenSession, link: types.ContentBlock) -> types.ContentBlock:
    """The file that a link leads to; the link itself if that is something else."""
    assert isinstance(link, types.ResourceLink), "as just chosen"
    answer = await _answer(session, link.uri)
    if isinstance(answer, types.InputRequiredResult) or len(answer.contents) != 1:
        return link
    [held] = answer.contents
    blob = (
        held.blob if isinstance(held, types.BlobResourceContents) else b64encode(held.text.encode()).decode()
    )
    resource = types.BlobResourceContents(
        uri=link.uri, mime_type=link.mime_type or held.mime_type, blob=blob, _meta={FILE_NAME: link.name}
    )
    return types.EmbeddedResource(resource=resource)


async def _answer(
    session: OpenSession, uri: str, answers: dict[str, Any] | None = None, state: str | None = None
) -> types.ReadResourceResult | types.InputRequiredResult:
    params = types.ReadResourceRequestParams(uri=uri, input_responses=answers, request_state=state)
    return await session.client.send_request(types.ReadResourceRequest(params=params), _RESOURCE, math.inf)
