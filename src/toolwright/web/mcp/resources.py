"""Files of calls as MCP resources: each has a URI, and is read by who made the call."""

import asyncio
import re
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from toolwright.core.errors import NotFound
from toolwright.core.mcp.offered import OWN_FILES, FixedResource
from toolwright.web.mcp.parts import Context, McpParts, is_modern

MOST_BYTES = 8 * 1024 * 1024
"""Bytes of a file that can be read."""
TEMPLATE = f"{OWN_FILES}{{threadId}}/files/{{+path}}"
NOT_FOUND = -32002
"""The code of 2025-11-25 for a resource that there is not."""

_URI = re.compile(rf"{OWN_FILES}([^/]{{1,200}})/files(/.{{1,4000}})")
_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "application/javascript")


class Resources:
    """The methods of resources. Fixed ones are listed; a host knows the URIs of files from the results of its calls."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts

    async def list(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """`resources/list`."""
        listed = [
            Resource(name=each.name, uri=each.uri, description=each.description, mime_type=each.mime_type)
            for each in self._parts.permissions.resources
            if self._parts.offers(context, each.name)
        ]
        return ListResourcesResult(resources=listed, ttl_ms=0, cache_scope="private")

    async def templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """`resources/templates/list`."""
        template = ResourceTemplate(
            name="file", description="A file that a call has handed over.", uri_template=TEMPLATE
        )
        return ListResourceTemplatesResult(resource_templates=[template], ttl_ms=0, cache_scope="private")

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """`resources/read`."""
        runtime, caller = self._parts.runtime, self._parts.caller(context)
        fixed = [each for each in self._parts.permissions.resources if each.uri == params.uri]
        if fixed and self._parts.offers(context, fixed[0].name):
            return await _read_fixed(fixed[0])
        match = _URI.fullmatch(params.uri)
        try:
            if match is None:
                raise NotFound
            thread_id, path = unquote(match[1]), unquote(match[2])
            await runtime.app_calls.check_thread(thread_id, caller.users)
            file = await runtime.files.get(thread_id, path)
            if file.size > MOST_BYTES:
                raise MCPError(INVALID_PARAMS, "The file is too large for MCP", {"uri": params.uri})
            content = await runtime.files.content(file)
        except NotFound:
            code = INVALID_PARAMS if is_modern(context) else NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": params.uri[:1000]}) from None
        uri = uri_of(thread_id, path)
        made = await asyncio.to_thread(contents, uri, file.mime_type, content)
        return ReadResourceResult(contents=[made], ttl_ms=0, cache_scope="private")


def uri_of(thread_id: str, path: str) -> str:
    """The URI of a file of a call's thread."""
    return f"{OWN_FILES}{quote(thread_id, safe='')}/files{quote(path)}"


async def _read_fixed(resource: FixedResource) -> ReadResourceResult:
    content = resource.content
    if isinstance(content, Path):
        try:
            content = await asyncio.to_thread(_beginning, content)
        except OSError as error:
            raise MCPError(INTERNAL_ERROR, "The resource cannot be read", {"uri": resource.uri}) from error
    raw = content.encode() if isinstance(content, str) else content
    if len(raw) > MOST_BYTES:
        raise MCPError(INVALID_PARAMS, "The resource is too large for MCP", {"uri": resource.uri})
    made = await asyncio.to_thread(contents, resource.uri, resource.mime_type, raw)
    return ReadResourceResult(contents=[made], ttl_ms=0, cache_scope="private")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def contents(uri: str, mime_type: str, content: bytes) -> TextResourceContents | BlobResourceContents:
    """The file, as text if its type says that it is some."""
    kind = mime_type.partition(";")[0].strip().lower()
    if kind.startswith(_TEXTS) or kind.endswith(("+json", "+xml")):
        try:
            return TextResourceContents(uri=uri, mime_type=mime_type, text=content.decode())
        except UnicodeDecodeError:
            pass  # it only says so
    return BlobResourceContents(uri=uri, mime_type=mime_type, blob=b64encode(content).decode())
