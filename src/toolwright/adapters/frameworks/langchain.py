"""Tool conversion to and from LangChain."""

import asyncio
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import Tool as SingleInputTool
from pydantic import BaseModel

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ImageContent, TextContent, ToolContent, ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.wire.result import images, text_with_files

Shown = tuple[str | list[dict[str, Any]], ToolResult]
"""Content for the model, and the artifact of LangChain's message, which is the `ToolResult`."""


class _NativeTool(StructuredTool):
    """A tool whose function receives the arguments as one object, so that `config` and `self` are ordinary names."""

    def _run(self, /, **arguments: JSON) -> Any:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # LangChain passes the arguments in the signature
        assert self.func is not None, "as it was made"
        return self.func(arguments)

    async def _arun(self, /, **arguments: JSON) -> Any:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        assert self.coroutine is not None, "as it was made"
        return await self.coroutine(arguments)


def native_tools(toolset: Toolset, state: ThreadState | None) -> list[StructuredTool]:
    """Return a `StructuredTool` for each tool: `create_agent(…, tools=toolset.for_langchain())`.

    Arguments are validated here. A failure is a message with the status `error`. Images are shown to the model. The
    artifact of a message is the `ToolResult`. `invoke` works with and without a running event loop.
    """
    return [_native(toolset, tool, state) for tool in toolset]


def _native(toolset: Toolset, tool: Tool, state: ThreadState | None) -> StructuredTool:
    async def call(arguments: JSONObject) -> Shown:
        result = await toolset.call(tool.name, arguments, state)
        if result.status == "error":
            raise ToolException(text_with_files(result))
        pictures = [_image_block(each.mime_type, each.data) for each in images(result)]
        text = text_with_files(result)
        return ([{"type": "text", "text": text}, *pictures] if pictures else text), result

    def call_at_once(arguments: JSONObject) -> Shown:
        """Execute the call in a separate thread, because the caller can have a running event loop."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(copy_context().run, lambda: asyncio.run(call(arguments))).result()

    return _NativeTool.from_function(
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
    """Return a tool that calls a LangChain tool. Raises `DefinitionError` for anything else."""
    if not isinstance(native, BaseTool):
        raise DefinitionError(
            f"A LangChain tool must be a langchain_core BaseTool, not {brief_value(native)}."
        )

    _check_arguments(native)
    _check_injected(native)
    _check_names(native)

    async def call(state: ThreadState, arguments: JSONObject) -> object:
        tool_call = {
            "type": "tool_call",
            "name": native.name,
            "args": arguments,
            "id": state.call_id or "call",
        }
        answer = await native.ainvoke(cast("Any", tool_call))  # a dict is passed as a tool call
        if not isinstance(answer, ToolMessage):
            return answer
        if answer.status == "error":
            return ToolResult.fail(str(answer.text))
        content: Any = answer.content  # typed as a list that is generic in nothing
        return content if isinstance(content, str) else _parts(content)

    return Tool(name=native.name, description=native.description, parameters=_schema_of(native), handler=call)


def _check_arguments(native: BaseTool) -> None:
    """Reject a tool that LangChain always calls without arguments because its form has no field for them."""
    form = native.args_schema
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        return
    invented = _invented(native)
    is_open = bool(invented) or form.model_config.get("extra") == "allow"
    if is_open and not form.model_fields.keys() - invented:
        raise DefinitionError(
            f"The LangChain tool {native.name!r} accepts any arguments, but LangChain would call it without them. "
            "Give it an args_schema that names them."
        )


def _invented(native: BaseTool) -> set[str]:
    """Return the fields that LangChain derives from `*args` and `**kwargs` in a signature but does not pass."""
    form = cast("object", native.get_input_schema())
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        return set()
    function = (native.func or native.coroutine) if isinstance(native, StructuredTool) else native._run  # pyright: ignore[reportPrivateUsage]  # checked by LangChain
    parameters = inspect.signature(function).parameters.values() if function is not None else ()
    return {each.name for each in parameters if each.kind in _VARIABLE} & {
        name for name, field in form.model_fields.items() if not field.is_required() and field.default is None
    }


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_single(native: BaseTool) -> bool:
    """Return whether the tool takes a single text, as LangChain's original tools do."""
    return isinstance(native, SingleInputTool) and native.args_schema is None


def _check_injected(native: BaseTool) -> None:
    """Reject a tool that needs arguments which only LangChain's own agents inject, such as `InjectedState`."""
    form = cast("object", native.get_input_schema())
    if isinstance(native.args_schema, dict) or not (isinstance(form, type) and issubclass(form, BaseModel)):
        return
    if _is_single(native):
        return
    properties = _schema_of(native).get("properties")
    names = properties if isinstance(properties, dict) else {}
    for name, field in form.model_fields.items():
        if name in names or field.alias in names or not field.is_required() or _is_call_id(field.metadata):
            continue
        raise DefinitionError(
            f"The LangChain tool {native.name!r} needs {name!r}, which only LangChain's own agents inject. "
            "Wrap it in a function of your own."
        )


def _check_names(native: BaseTool) -> None:
    """Reject a tool with arguments whose names LangChain uses itself, so that their values are lost."""
    if isinstance(native, _NativeTool):
        return
    properties = _schema_of(native).get("properties")
    names = {*properties} if isinstance(properties, dict) else set[str]()
    if isinstance(native, StructuredTool):
        function = native.func or native.coroutine
        names |= (
            {*inspect.signature(function).parameters} & {"run_manager"} if function is not None else set()
        )
    else:
        names -= {"config"}  # passed to a `_run` that takes it
    if lost := names & {"config", "run_manager", "self"}:
        raise DefinitionError(
            f"The LangChain tool {native.name!r} has an argument {min(lost)!r}, which LangChain does not pass on. "
            "Rename it."
        )


def _is_call_id(notes: list[Any]) -> bool:
    """Return whether a field's annotations mark it as the call's id, which is always passed."""
    return any(each is InjectedToolCallId or isinstance(each, InjectedToolCallId) for each in notes)


def _schema_of(native: BaseTool) -> JSONObject:
    """Return the schema of the model's arguments, without those that LangChain injects."""
    if _is_single(native):
        text: JSONObject = {"tool_input": {"type": "string"}}
        return {
            "type": "object",
            "properties": text,
            "required": [*text],
            "additionalProperties": False,
        }
    schema = cast("object", native.tool_call_schema)  # a pydantic model, a pydantic v1 model, or a schema
    if isinstance(schema, dict):
        return {"type": "object", "properties": {}, **cast("JSONObject", schema)}
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        json_schema = cast("JSONObject", schema.model_json_schema())
        properties = cast("JSONObject", json_schema.get("properties", {}))
        invented = _invented(native)
        return {
            **json_schema,
            "properties": {name: each for name, each in properties.items() if name not in invented},
        }
    raise DefinitionError(
        f"The LangChain tool {native.name!r} has an args_schema of pydantic 1. Port it to pydantic 2."
    )


def _parts(content: list[Any]) -> object:
    """Convert the blocks of a message to texts and images. Returns them unchanged if one block is neither."""
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
