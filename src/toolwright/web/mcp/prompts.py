"""The app's prompts as an MCP host lists and fetches them: templates with the arguments of their schemas."""

from collections.abc import Iterable, Mapping
from typing import cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    PromptArgument,
    PromptMessage,
    TextContent,
)
from mcp_types import Prompt as McpPrompt

from toolwright.core.agents.prompt import Prompt
from toolwright.core.arguments.faults import ArgumentFault
from toolwright.core.arguments.judge import Judge
from toolwright.core.json_text import NotJson, read_json
from toolwright.core.json_value import JSON, JSONObject
from toolwright.runtime.calls.prompt_tools import spoken
from toolwright.web.mcp.parts import Context, McpParts


class Prompts:
    """The methods of prompts. A prompt is its text and its arguments, as two messages of the user."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts

    async def list(self, context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        """`prompts/list`: the prompts that the caller has permission to use."""
        listed = [_told(each) for each in self._offered(context)]
        return ListPromptsResult(prompts=listed, ttl_ms=0, cache_scope="private")

    async def get(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """`prompts/get`. Raises the protocol's error for an unknown prompt and for invalid arguments."""
        prompt = next((each for each in self._offered(context) if each.name == params.name), None)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name[:200]}")
        given = params.arguments or {}
        texts = [prompt.prompt]
        if given or (prompt.required_schema is not None and _schema(prompt)[1]):
            texts.append(spoken(_judged(prompt, given), None))
        messages = [PromptMessage(role="user", content=TextContent(text=text)) for text in texts if text]
        return GetPromptResult(description=prompt.tool_description or None, messages=messages)

    def _offered(self, context: Context) -> Iterable[Prompt]:
        names = self._parts.permissions.prompts
        for name, prompt in self._parts.runtime.app_calls.prompts.items():
            if (names is None or name in names) and self._parts.offers(context, name):
                yield prompt


def _schema(prompt: Prompt) -> tuple[Mapping[str, JSON], frozenset[str]]:
    """Return the schemas of the arguments, and the names of the required ones; a message is never required."""
    schema = prompt.parameters()
    required = () if prompt.required_schema is None else cast("Iterable[str]", schema.get("required", ()))
    return cast("Mapping[str, JSON]", schema.get("properties", {})), frozenset(required)


def _told(prompt: Prompt) -> McpPrompt:
    schemas, required = _schema(prompt)
    arguments = [
        PromptArgument(name=name, description=_description(schema), required=name in required)
        for name, schema in schemas.items()
    ]
    return McpPrompt(name=prompt.name, description=prompt.tool_description or None, arguments=arguments)


def _description(schema: JSON) -> str | None:
    described = schema.get("description") if isinstance(schema, dict) else None
    return described if isinstance(described, str) else None


def _judged(prompt: Prompt, given: Mapping[str, str]) -> JSONObject:
    """Return the validated arguments. A host sends texts: one that its schema refuses is read as JSON."""
    schemas, _ = _schema(prompt)
    read: JSONObject = {name: _read(schemas.get(name), text) for name, text in given.items()}
    parameters = prompt.parameters()
    try:
        return (prompt.judge(parameters) or Judge(parameters, prompt.name)).read(read)
    except ArgumentFault as error:
        raise MCPError(INVALID_PARAMS, f"Invalid arguments: {error}") from error


def _read(schema: JSON, text: str) -> JSON:
    if isinstance(schema, dict) and _takes_no_text(schema):
        try:
            return read_json(text.encode())
        except NotJson:
            pass  # the schema says what is wrong
    return text


def _takes_no_text(schema: JSONObject) -> bool:
    branches = schema.get("anyOf", [schema])
    kinds = (
        [each.get("type") for each in branches if isinstance(each, dict)]
        if isinstance(branches, list)
        else []
    )
    return all(kind is not None and kind != "string" for kind in kinds)
