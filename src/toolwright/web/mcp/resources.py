"""Resources for MCP hosts: the app's own, files of calls, and those that a tool reads."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import NotFound, StoreError
from toolwright.core.files import File
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.offered import OWN_FILES, FixedResource, ResourceTemplate
from toolwright.core.results import AttachmentRef
from toolwright.core.tools.tool import Tool
from toolwright.web.mcp.calls import ToolCalls
from toolwright.web.mcp.content import MAX_BYTES, contents, declared_values, from_text, is_empty, uri_of
from toolwright.web.mcp.tools import Context, McpParts, is_modern
from toolwright.wire.result import model_text

TEMPLATE = f"{OWN_FILES}{{threadId}}/files/{{+path}}"
_VARIABLES = ("threadId", "path")
NOT_FOUND = -32002
"""The error code of 2025-11-25 for an unknown resource."""

_URI = re.compile(rf"{OWN_FILES}([^/]{{1,200}})/files(/.{{1,4000}})")


@dataclass(frozen=True, slots=True)
class ToolResource:
    """A resource of a template: the tool that reads it, and its arguments."""

    template: ResourceTemplate
    tool: Tool
    arguments: JSONObject


class Resources:
    """The methods of resources. Fixed resources are listed. URIs of files are sent in the results of calls."""

    def __init__(self, parts: McpParts, calls: ToolCalls) -> None:
        self._parts = parts
        self._calls = calls

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Handle `resources/list`."""
        listed = [
            types.Resource(
                name=each.name, uri=each.uri, description=each.description, mime_type=each.mime_type
            )
            for each in self._parts.permissions.resources
            if self._parts.offers(context, each.name)
        ]
        return types.ListResourcesResult(resources=listed, ttl_ms=0, cache_scope="private")

    async def templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Handle `resources/templates/list`."""
        listed = [
            types.ResourceTemplate(
                name="file", description="A file returned by a call.", uri_template=TEMPLATE
            )
        ]
        for each in self._parts.permissions.templates:
            tool = self._parts.pages.require(each.tool)
            if await self._parts.allows(context, tool):
                listed.append(
                    types.ResourceTemplate(
                        name=each.tool,
                        uri_template=each.uri,
                        description=each.description or tool.description or None,
                        mime_type=each.mime_type,
                    )
                )
        return types.ListResourceTemplatesResult(resource_templates=listed, ttl_ms=0, cache_scope="private")

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Handle `resources/read`."""
        resource = await self.find(context, params.uri)
        if isinstance(resource, FixedResource):
            return await _read_fixed(resource)
        if isinstance(resource, ToolResource):
            return await self._read_by_tool(context, resource, params.uri)
        if resource.size > MAX_BYTES:
            raise MCPError(types.INVALID_PARAMS, "The file is too large for MCP", {"uri": params.uri})
        try:
            content = await self._parts.runtime.files.content(resource)
        except NotFound:
            raise _not_found(context, params.uri) from None
        uri = uri_of(resource.thread_id, resource.path)
        result = await asyncio.to_thread(contents, uri, resource.mime_type, content)
        return types.ReadResourceResult(contents=[result], ttl_ms=0, cache_scope="private")

    async def find(self, context: Context, uri: str) -> FixedResource | File | ToolResource:
        """Return the resource that the URI names. Raises the protocol's error if the caller has none."""
        for each in self._parts.permissions.resources:
            if each.uri == uri and self._parts.offers(context, each.name):
                return each
        for template in self._parts.permissions.templates:
            variables = template.match(uri)
            tool = self._parts.pages.require(template.tool)
            if variables is not None and await self._parts.allows(context, tool):
                properties = tool.offered.get("properties")
                schemas = properties if isinstance(properties, dict) else {}
                arguments: JSONObject = {
                    name: from_text(schemas.get(name), text) for name, text in variables.items()
                }
                return ToolResource(template, tool, arguments)
        match = _URI.fullmatch(uri)
        try:
            if match is None:
                raise NotFound
            thread_id = unquote(match[1])
            await self._check_thread(context, thread_id)
            return await self._parts.runtime.files.get(thread_id, unquote(match[2]))
        except NotFound:
            raise _not_found(context, uri) from None

    async def values(
        self, context: Context, template: str, variable: str, chosen: Mapping[str, str]
    ) -> Iterable[str]:
        """Return values for a variable of a template. Threads are named in results, and are not listed.

        Raises the protocol's error for an unknown template or variable.
        """
        for each in self._parts.permissions.templates:
            tool = self._parts.pages.require(each.tool)
            if (
                each.uri == template
                and variable in each.variables
                and await self._parts.allows(context, tool)
            ):
                return declared_values(tool.offered, variable)
        if template != TEMPLATE or variable not in _VARIABLES:
            unknown = "variable" if template == TEMPLATE else "resource template"
            raise MCPError(types.INVALID_PARAMS, f"Unknown {unknown}", {"uri": template[:1000]})
        thread_id = chosen.get("threadId")
        if variable == "threadId" or thread_id is None:
            return []
        try:
            await self._check_thread(context, thread_id)
            return [file.path[1:] for file in await self._parts.runtime.files.list(thread_id)]
        except NotFound:
            return []

    async def _read_by_tool(
        self, context: Context, resource: ToolResource, uri: str
    ) -> types.ReadResourceResult:
        """Return the result of the tool: its text or JSON, then its files."""
        thread_id, result = await self._calls.read(context, resource.tool, resource.arguments)
        if result.status != "success":
            if result.error_code == "not_found":
                raise _not_found(context, uri)
            code = types.INVALID_PARAMS if result.error_code == "invalid_arguments" else types.INTERNAL_ERROR
            raise MCPError(code, result.error or "The tool failed.", {"uri": uri[:1000]})
        items: list[types.TextResourceContents | types.BlobResourceContents] = []
        if not is_empty(result):
            kind = "text/plain" if isinstance(result.result, str) else "application/json"
            text = await in_thread_if_large(result.result, model_text, result)
            items.append(
                types.TextResourceContents(uri=uri, mime_type=resource.template.mime_type or kind, text=text)
            )
        refs = [each for each in result.attachments if isinstance(each, AttachmentRef)]
        if sum(ref.size for ref in refs) > MAX_BYTES:
            raise MCPError(types.INVALID_PARAMS, "The resource is too large for MCP", {"uri": uri[:1000]})
        for ref in refs:
            try:
                content = await self._parts.runtime.files.read(thread_id, ref.path)
            except (NotFound, StoreError):
                raise MCPError(
                    types.INTERNAL_ERROR, "The resource cannot be read", {"uri": uri[:1000]}
                ) from None
            place = uri if not items else uri_of(thread_id, ref.path)
            items.append(await asyncio.to_thread(contents, place, ref.mime_type, content))
        return types.ReadResourceResult(contents=items, ttl_ms=0, cache_scope="private")

    async def _check_thread(self, context: Context, thread_id: str) -> None:
        await self._parts.runtime.app_calls.check_thread(thread_id, self._parts.caller(context).users)


def _not_found(context: Context, uri: str) -> MCPError:
    code = types.INVALID_PARAMS if is_modern(context) else NOT_FOUND
    return MCPError(code, "Resource not found", {"uri": uri[:1000]})


async def _read_fixed(resource: FixedResource) -> types.ReadResourceResult:
    content = resource.content
    if isinstance(content, Path):
        try:
            content = await asyncio.to_thread(_beginning, content)
        except OSError as error:
            raise MCPError(
                types.INTERNAL_ERROR, "The resource cannot be read", {"uri": resource.uri}
            ) from error
    raw = content.encode() if isinstance(content, str) else content
    if len(raw) > MAX_BYTES:
        raise MCPError(types.INVALID_PARAMS, "The resource is too large for MCP", {"uri": resource.uri})
    result = await asyncio.to_thread(contents, resource.uri, resource.mime_type, raw)
    return types.ReadResourceResult(contents=[result], ttl_ms=0, cache_scope="private")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
