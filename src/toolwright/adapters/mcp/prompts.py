"""Prompts of MCP servers: listed for people, and fetched by code."""

import asyncio
from collections.abc import Mapping
from typing import cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolwright.adapters.mcp.connection import MOST_PAGES, Connection
from toolwright.adapters.mcp.http import OF_OURS
from toolwright.adapters.mcp.peer import Nobody
from toolwright.adapters.mcp.results import content_of
from toolwright.adapters.mcp.session import OpenSession
from toolwright.adapters.mcp.words import said
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON
from toolwright.core.mcp.listing import MOST_LISTED, McpFault, McpPrompts, read_prompts
from toolwright.core.mcp.servers import McpPromptMessage, McpPromptText, McpRefused, McpUnavailable
from toolwright.core.results.content import Faulty, checked_parts
from toolwright.core.text import sentence

_FAULTS = (MCPError, ValidationError, RuntimeError, ValueError)
"""The errors that the SDK raises when a server refuses or its answer is invalid."""


async def listed_prompts(connection: Connection, seconds: float) -> McpPrompts:
    """The prompts that the server lists now; none if it does not declare that it has prompts."""
    try:
        async with asyncio.timeout(seconds), connection.calling(Nobody()):
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
    async with connection.calling(Nobody()):
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
