"""Prompts and resources of MCP servers."""

import asyncio
import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Annotated, Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter, ValidationError

from toolwright.adapters.mcp.connection import MOST_PAGES, Connection
from toolwright.adapters.mcp.http import OF_OURS
from toolwright.adapters.mcp.peer import NoPeer, said
from toolwright.adapters.mcp.results import content_of
from toolwright.adapters.mcp.session import OpenSession
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON
from toolwright.core.mcp.listing import MOST_LISTED, McpFault, McpPrompts, read_prompts
from toolwright.core.mcp.offered import FILE_NAME, OWN_FILES
from toolwright.core.mcp.servers import McpPromptMessage, McpPromptText, McpRefused, McpUnavailable
from toolwright.core.results.content import Faulty, checked_parts
from toolwright.core.text import sentence

_FAULTS = (MCPError, ValidationError, RuntimeError, ValueError)
"""The errors that the SDK raises when a server refuses or its answer is invalid."""


async def listed_prompts(connection: Connection, seconds: float) -> McpPrompts:
    """The prompts that the server lists now; none if it does not declare that it has prompts."""
    try:
        async with asyncio.timeout(seconds), connection.calling(NoPeer()):
            session = await connection.session()
            if getattr(session.client.server_capabilities, "prompts", None) is None:
                return McpPrompts()
            entries = await asyncio.to_thread(connection.redactor.json, await _entries(session))
            return await asyncio.to_thread(read_prompts, cast("list[JSON]", entries))
    except (*_FAULTS, TimeoutError, McpUnavailable) as error:
        why = connection.redactor.text(said(error))
        return McpPrompts(faults=(McpFault(message=sentence(f"Its prompts cannot be listed: {why}")),))


async def _entries(session: OpenSession) -> list[JSON]:
    """The entries of the list page by page, at most one more than are read."""
    entries: list[JSON] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        page = await session.client.list_prompts(params=params)
        room = MOST_LISTED + 1 - len(entries)
        entries += [each.model_dump(mode="json", exclude_none=True) for each in page.prompts[:room]]
        cursor = page.next_cursor
        if not cursor or len(entries) > MOST_LISTED:
            break
    return entries


async def written_prompt(connection: Connection, name: str, arguments: Mapping[str, str]) -> McpPromptText:
    """The prompt as the server writes it with these arguments. Raises `McpUnavailable` and `McpRefused`."""
    async with connection.calling(NoPeer()):
        session = await connection.session()
        try:
            answer = await session.client.get_prompt(name, dict(arguments))
            assert isinstance(answer, types.GetPromptResult), "no other answer was allowed"
            return await asyncio.to_thread(_text_of, connection, answer)
        except MCPError as error:
            words = connection.redactor.text(said(error))
            if error.error.code in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, *OF_OURS):
                raise McpUnavailable(words) from error
            raise McpRefused(words) from error
        except (*_FAULTS, InvalidJSON, Faulty) as error:
            why = connection.redactor.text(said(error))
            raise McpUnavailable(f"it answers with what is no prompt: {why}") from error


def _text_of(connection: Connection, answer: types.GetPromptResult) -> McpPromptText:
    messages: list[McpPromptMessage] = []
    for each in answer.messages:
        texts, files = content_of([each.content])
        content = connection.redactor.text("\n".join(texts))
        parts = tuple(checked_parts(files, "Attachment"))
        messages.append(McpPromptMessage(role=each.role, content=content, attachments=parts))
    described = answer.description
    return McpPromptText(
        messages=tuple(messages),
        description=None if described is None else connection.redactor.text(described),
    )


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
