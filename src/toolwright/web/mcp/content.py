"""Content for MCP hosts: results of calls, and prompts."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import Prompt as McpPrompt

from toolwright.core.agents.prompt import Prompt
from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.errors import NotFound, StoreError
from toolwright.core.json_text import NotJson, read_json
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.offered import ERROR, FILE_NAME, OWN_FILES
from toolwright.core.results import Attachment, AttachmentRef, ToolResult
from toolwright.core.text import brief, clean_text, quantity
from toolwright.core.tools.tool import Tool
from toolwright.runtime.calls.nested import message_in
from toolwright.runtime.files import ThreadFiles
from toolwright.web.mcp.tools import Context, McpParts, output_of
from toolwright.wire.result import error_object, model_text
from toolwright.wire.text import clean_json

_MAX_ERROR = 1_000  # characters
ALONG = 256 * 1024
"""Bytes of files embedded in one result. Hosts accept messages of 1 MiB, including the text twice and base64."""
_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "application/javascript")
MAX_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a file that can be read."""


async def call_result(
    files: ThreadFiles, thread_id: str, result: ToolResult, tool: Tool | None
) -> types.CallToolResult:
    """Return the result of a call in a thread, with its files. `tool` None means that the tool no longer exists.

    A truncated result is an error if the tool promises an object, because it does not match the schema.
    """
    blocks: list[types.ContentBlock] = []
    succeeded = result.status == "success"
    if not succeeded:
        blocks.append(types.TextContent(text=clean_text(result.error or "The tool failed.")))
    elif not is_empty(result):
        blocks.append(types.TextContent(text=model_text(result)))
    blocks += await _files(files, thread_id, result.attachments)
    output = None if tool is None else output_of(tool)
    structured = clean_json(result.result) if succeeded else None
    error = None
    if succeeded and output is not None:
        structured = output.structured(structured)
        error = await output.error(structured)
    if error is not None:
        why = f"The tool was executed, but its result does not match its outputSchema: {brief(error, _MAX_ERROR)}"
        blocks.append(types.TextContent(text=why))
    return types.CallToolResult(
        content=blocks or [types.TextContent(text="")],
        structured_content=structured if error is None and isinstance(structured, dict) else None,
        is_error=not succeeded or error is not None,
        _meta=None if succeeded else _error_meta(result),
    )


def _error_meta(result: ToolResult) -> dict[str, Any] | None:
    """Return the code and the data of an error, for hosts that need more than its message."""
    meta = {key: each for key, each in error_object(result).items() if key != "error"}
    return {ERROR: clean_json(meta)} if meta else None


def error_result(text: str) -> types.CallToolResult:
    """Return the error result of a call without a result of its own."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def is_empty(result: ToolResult) -> bool:
    """Return whether the result consists only of files, so that there is no text."""
    return result.status == "success" and bool(result.attachments) and result.result in (None, "", [])


async def _files(
    files: ThreadFiles, thread_id: str, attachments: Sequence[Attachment | AttachmentRef]
) -> list[types.ContentBlock]:
    blocks: list[types.ContentBlock] = []
    remaining = ALONG
    for each in attachments:
        if not isinstance(each, AttachmentRef):
            continue  # recorded results contain only references
        if each.size > remaining:
            blocks.append(_linked(thread_id, each))
            continue
        remaining -= each.size
        try:
            content = await files.read(thread_id, each.path)
        except (NotFound, StoreError):
            blocks.append(types.TextContent(text=_file_note(each, "cannot be read")))
            continue
        blocks.append(await asyncio.to_thread(_block, thread_id, each, content))
    return blocks


def _block(thread_id: str, ref: AttachmentRef, content: bytes) -> types.ContentBlock:
    """Return a file as a content block for its type."""
    kind = ref.mime_type.partition(";")[0].strip().lower()
    meta = {FILE_NAME: ref.name}
    if kind.startswith("image/"):
        return types.ImageContent(data=b64encode(content).decode(), mime_type=ref.mime_type, _meta=meta)
    if kind.startswith("audio/"):
        return types.AudioContent(data=b64encode(content).decode(), mime_type=ref.mime_type, _meta=meta)
    return types.EmbeddedResource(resource=contents(uri_of(thread_id, ref.path), ref.mime_type, content))


def _linked(thread_id: str, ref: AttachmentRef) -> types.ContentBlock:
    """Return a link to a file that is not embedded. It can be read separately unless it is too large."""
    if ref.size > MAX_BYTES:
        return types.TextContent(text=_file_note(ref, "is too large to send"))
    return types.ResourceLink(
        name=ref.name, uri=uri_of(thread_id, ref.path), mime_type=ref.mime_type, size=ref.size
    )


def _file_note(ref: AttachmentRef, why: str) -> str:
    return f"The file {ref.path} ({ref.mime_type}, {quantity(ref.size, 'byte')}) {why}; it is kept in the thread."


class PromptMethods:
    """The methods of prompts. A prompt is rendered as two user messages: its text and its arguments."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Handle `prompts/list`: return the prompts that the caller has permission to use."""
        listed = [_prompt_definition(each) for each in self._offered(context)]
        return types.ListPromptsResult(prompts=listed, ttl_ms=0, cache_scope="private")

    async def get(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Handle `prompts/get`. Raises the protocol's error for an unknown prompt and for invalid arguments."""
        prompt = self._require(context, params.name)
        arguments = params.arguments or {}
        texts = [prompt.text]
        if arguments or (prompt.required_schema is not None and _schema(prompt)[1]):
            texts.append(message_in(_validated(prompt, arguments), None))
        messages = [
            types.PromptMessage(role="user", content=types.TextContent(text=text)) for text in texts if text
        ]
        return types.GetPromptResult(description=prompt.tool_description or None, messages=messages)

    def parameters(self, context: Context, name: str, argument: str) -> Mapping[str, JSON]:
        """Return the schema of the prompt's arguments. Raises the protocol's error for an unknown argument."""
        prompt = self._require(context, name)
        if argument not in _schema(prompt)[0]:
            raise MCPError(types.INVALID_PARAMS, f"Unknown argument: {argument[:200]}")
        return prompt.parameters()

    def _require(self, context: Context, name: str) -> Prompt:
        prompt = next((each for each in self._offered(context) if each.name == name), None)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name[:200]}")
        return prompt

    def _offered(self, context: Context) -> Iterable[Prompt]:
        names = self._parts.permissions.prompts
        for name, prompt in self._parts.runtime.app_calls.prompts.items():
            if (names is None or name in names) and self._parts.offers(context, name):
                yield prompt


def _schema(prompt: Prompt) -> tuple[Mapping[str, JSON], frozenset[str]]:
    """Return the schemas of the arguments and the names of the required ones. A message is never required."""
    schema = prompt.parameters()
    required = () if prompt.required_schema is None else cast("Iterable[str]", schema.get("required", ()))
    return cast("Mapping[str, JSON]", schema.get("properties", {})), frozenset(required)


def _prompt_definition(prompt: Prompt) -> McpPrompt:
    schemas, required = _schema(prompt)
    arguments = [
        types.PromptArgument(name=name, description=_description(schema), required=name in required)
        for name, schema in schemas.items()
    ]
    return McpPrompt(name=prompt.name, description=prompt.tool_description or None, arguments=arguments)


def _description(schema: JSON) -> str | None:
    described = schema.get("description") if isinstance(schema, dict) else None
    return described if isinstance(described, str) else None


def _validated(prompt: Prompt, arguments: Mapping[str, str]) -> JSONObject:
    """Return the validated arguments. Hosts send texts; a text that its schema rejects is parsed as JSON."""
    schemas, _ = _schema(prompt)
    read: JSONObject = {name: from_text(schemas.get(name), text) for name, text in arguments.items()}
    parameters = prompt.parameters()
    try:
        return (prompt.argument_validator(parameters) or ArgumentValidator(parameters, prompt.name)).read(
            read
        )
    except InvalidArguments as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error


def from_text(schema: JSON, text: str) -> JSON:
    """Return the value that a host has sent as text: parsed as JSON if the schema rejects texts."""
    if isinstance(schema, dict) and _takes_no_text(schema):
        try:
            return read_json(text.encode())
        except NotJson:
            pass  # validation by the schema reports the error
    return text


def _takes_no_text(schema: JSONObject) -> bool:
    branches = schema.get("anyOf", [schema])
    kinds = (
        [each.get("type") for each in branches if isinstance(each, dict)]
        if isinstance(branches, list)
        else []
    )
    return all(kind is not None and kind != "string" for kind in kinds)


def declared_values(schema: Mapping[str, JSON], name: str) -> list[str]:
    """Return the values that the schema of an object declares for a property: its enum, or its examples."""
    properties = cast("Mapping[str, JSON]", schema.get("properties", {}))
    definitions = cast("Mapping[str, JSON]", schema.get("$defs", {}))
    return [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in _values(properties.get(name), definitions, set())
        if value is not None
    ]


def _values(schema: JSON, definitions: Mapping[str, JSON], followed: set[str]) -> Iterator[JSON]:
    if not isinstance(schema, dict):
        return
    match schema:
        case {"const": value}:
            yield value
        case {"enum": list(values)} | {"examples": list(values)}:
            yield from values
        case {"type": "boolean"}:
            yield from (True, False)
        case {"$ref": str(ref)} if ref not in followed:
            followed.add(ref)
            yield from _values(definitions.get(ref.removeprefix("#/$defs/")), definitions, followed)
        case {"anyOf": list(branches)} | {"oneOf": list(branches)}:
            for branch in branches:
                yield from _values(branch, definitions, followed)
        case _:
            return


def uri_of(thread_id: str, path: str) -> str:
    """Return the URI of a file of a call's thread."""
    return f"{OWN_FILES}{quote(thread_id, safe='')}/files{quote(path)}"


def contents(
    uri: str, mime_type: str, content: bytes
) -> types.TextResourceContents | types.BlobResourceContents:
    """Return the file, as text if its type is a text type."""
    kind = mime_type.partition(";")[0].strip().lower()
    if kind.startswith(_TEXTS) or kind.endswith(("+json", "+xml")):
        try:
            return types.TextResourceContents(uri=uri, mime_type=mime_type, text=content.decode())
        except UnicodeDecodeError:
            pass  # the content is not valid text
    return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=b64encode(content).decode())
