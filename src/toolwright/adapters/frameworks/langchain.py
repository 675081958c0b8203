"""LangChain's tools: ours as theirs, theirs as ours."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException
from pydantic import BaseModel

from toolwright.adapters.frameworks.content import images, shown_text
from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import ImageContent, TextContent, ToolContent
from toolwright.core.results.result import ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset

Shown = tuple[str | list[dict[str, Any]], ToolResult]
"""What a model is shown, and the artifact of LangChain's message: our result."""


def native_tools(toolset: Toolset, state: ThreadState | None) -> list[StructuredTool]:
    """A `StructuredTool` for each of ours: `create_agent(…, tools=toolset.for_langchain())`.

    Arguments are judged here; a failure is a message with the status `error`, images are shown to the model, and the
    artifact of a message is the `ToolResult`. `invoke` works where no event loop runs and where one does.
    """
    return [_native(toolset, tool, state) for tool in toolset]


def _native(toolset: Toolset, tool: Tool, state: ThreadState | None) -> StructuredTool:
    async def call(**arguments: JSON) -> Shown:
        result = await toolset.call(tool.name, arguments, state)
        if result.status == "error":
            raise ToolException(shown_text(result))
        pictures = [_image_block(each.mime_type, each.data) for each in images(result)]
        text = shown_text(result)
        return ([{"type": "text", "text": text}, *pictures] if pictures else text), result

    def call_at_once(**arguments: JSON) -> Shown:
        """In a thread of its own: where this is called an event loop may run."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(copy_context().run, lambda: asyncio.run(call(**arguments))).result()

    return StructuredTool.from_function(
        call_at_once,
        call,
        name=tool.name,
        description=tool.description,
        args_schema=json.loads(json.dumps(tool.offered)),
        infer_schema=False,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _image_block(mime_type: str, data: str) -> dict[str, Any]:
    return {"type": "image", "base64": data, "mime_type": mime_type}


def tool_of(native: object) -> Tool:
    """The tool that calls a LangChain tool. Raises `DefinitionError` for anything else."""
    if not isinstance(native, BaseTool):
        raise DefinitionError(f"A tool of LangChain is a langchain_core BaseTool, not {brief_value(native)}.")

    _check_injected(native)

    async def call(state: ThreadState, arguments: JSONObject) -> object:
        asked = {"type": "tool_call", "name": native.name, "args": arguments, "id": state.call_id or "call"}
        answer = await native.ainvoke(cast("Any", asked))  # a dict is a call to it
        if not isinstance(answer, ToolMessage):
            return answer
        if answer.status == "error":
            return ToolResult.fail(str(answer.text))
        content: Any = answer.content  # typed as a list that is generic in nothing
        return content if isinstance(content, str) else _parts(content)

    return Tool(name=native.name, description=native.description, parameters=_schema_of(native), handler=call)


def _check_injected(native: BaseTool) -> None:
    """Refuse a tool that needs arguments which only LangChain's own agents inject, such as `InjectedState`."""
    form = cast("object", native.get_input_schema())
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        return
    told = _schema_of(native).get("properties")
    names = told if isinstance(told, dict) else {}
    for name, field in form.model_fields.items():
        if name in names or field.alias in names or not field.is_required() or _is_call_id(field.metadata):
            continue
        raise DefinitionError(
            f"The tool {native.name!r} of LangChain needs {name!r}, which only LangChain's own agents inject: "
            "write a function of your own around it."
        )


def _is_call_id(notes: list[Any]) -> bool:
    """Whether the notes of a field say that it is the id of the call, which is always given."""
    return any(each is InjectedToolCallId or isinstance(each, InjectedToolCallId) for each in notes)


def _schema_of(native: BaseTool) -> JSONObject:
    """The schema of the arguments that a model may give: without those that LangChain injects."""
    schema = cast(
        "object", native.tool_call_schema
    )  # a model of pydantic's, of its first version, or a schema
    if isinstance(schema, dict):
        return {"type": "object", "properties": {}, **cast("JSONObject", schema)}
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return cast("JSONObject", schema.model_json_schema())
    raise DefinitionError(f"The tool {native.name!r} of LangChain has arguments of pydantic's first version.")


def _parts(content: list[Any]) -> object:
    """The blocks of a message as texts and images; as they are where one of them is neither."""
    read = [_part(each) for each in content]
    return content if None in read else read


def _part(block: object) -> ToolContent | None:
    if isinstance(block, str):
        return TextContent(text=block)
    match block:
        case {"type": "text", "text": str(text)}:
            return TextContent(text=text)
        case {"type": "image", "base64": str(data), "mime_type": str(kind)}:
            return ImageContent(data=data, mime_type=kind)
        case {"type": "image", "source_type": "base64", "data": str(data), "mime_type": str(kind)}:
            return ImageContent(data=data, mime_type=kind)
        case {"type": "image_url", "image_url": {"url": str(url)}} if url.startswith("data:"):
            head, _, data = url.removeprefix("data:").partition(";base64,")
            return ImageContent(data=data, mime_type=head)
        case _:
            return None
