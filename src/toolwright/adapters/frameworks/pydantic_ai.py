"""pydantic-ai's tools: ours as theirs, theirs as ours."""

from typing import Any, NoReturn, cast

from pydantic import ValidationError
from pydantic_ai import BinaryContent, ModelRetry, RunContext, Tool, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import Attachment
from toolwright.core.results.result import ToolResult
from toolwright.core.results.returned import attached_text, media_name
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.tool import FUNCTION_TIMEOUT
from toolwright.core.tools.tool import Tool as OurTool
from toolwright.core.tools.toolset import Toolset
from toolwright.wire.result import images, text_with_files


def native_tools(toolset: Toolset, state: ThreadState | None) -> list[Tool[Any]]:
    """Return a `pydantic_ai.Tool` for each of ours: `Agent(…, tools=toolset.for_pydantic_ai())`.

    Arguments are validated here, and every failure is a failed result that the model reads; images are shown to it.
    """
    return [_native(toolset, tool, state) for tool in toolset]


def _native(toolset: Toolset, tool: OurTool, state: ThreadState | None) -> Tool[Any]:
    async def call(**arguments: JSON) -> object:
        result = await toolset.call(tool.name, arguments, state)
        if result.status == "error":
            raise ToolFailed(text_with_files(result))
        pictures = [_picture(image) for image in images(result)]
        value: object = text_with_files(result) if result.attachments else result.result
        return ToolReturn(return_value=value, content=pictures) if pictures else value

    return Tool.from_schema(call, tool.name, tool.description, dict(tool.offered))


def _picture(image: Attachment) -> BinaryContent:
    return BinaryContent.from_data_uri(f"data:{image.mime_type};base64,{image.data}")


def tool_of(native: object, deps: object = None) -> OurTool:
    """Return a tool that calls a `pydantic_ai.Tool`. Its context has `deps`, the call's id and its name.

    Raises `DefinitionError` for anything else, and for a tool that its own framework would not describe.
    """
    if not isinstance(native, Tool):
        raise DefinitionError(f"A pydantic-ai tool must be a pydantic_ai.Tool, not {brief_value(native)}.")
    theirs = cast("Tool[Any]", native)  # whatever its dependencies are
    schema = theirs.function_schema
    if theirs.prepare is not None:
        raise DefinitionError(
            f"The tool {theirs.name!r} of pydantic-ai has a `prepare` function, which only its own agent calls."
        )

    async def call(state: ThreadState, arguments: JSONObject) -> object:
        context = RunContext[Any](
            deps=deps,
            model=_NO_MODEL,
            usage=RunUsage(),
            tool_name=theirs.name,
            tool_call_id=state.call_id,
        )
        try:
            values = schema.validator.validate_python(arguments, context=None)
            if theirs.args_validator is not None:
                checked: Any = theirs.args_validator(context, **values)
                await checked if checked is not None else None
            return _returned(await schema.call(values, context))
        except ValidationError as error:
            errors = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in error.errors()
            )
            return ToolResult.fail(f"Invalid arguments: {errors}", error_code="invalid_arguments")
        except (ModelRetry, ToolFailed) as error:
            return ToolResult.fail(error.message)

    return OurTool(
        name=theirs.name,
        description=theirs.description or "",
        parameters=cast("JSONObject", dict(schema.json_schema)),  # JSON Schema, as pydantic writes it
        handler=call,
        requires_approval=theirs.requires_approval,
        timeout=theirs.timeout if theirs.timeout is not None else FUNCTION_TIMEOUT,
    )


def _returned(value: object) -> ToolResult:
    """Convert a native tool's return value: its values, and contents with bytes as files."""
    parts: list[object] = [value]
    if isinstance(value, ToolReturn):
        more = value.content
        parts = [value.return_value, *([more] if isinstance(more, str) else more or ())]
    parts = [each for part in parts for each in (_listed(part) if _has_files(part) else [part])]
    files = [each for each in parts if isinstance(each, BinaryContent)]
    values = [to_jsonable_python(each) for each in parts if not isinstance(each, BinaryContent)]
    attachments = tuple(
        Attachment(
            name=media_name(each.media_type, number, "file"), mime_type=each.media_type, data=each.base64
        )
        for number, each in enumerate(files, 1)
    )
    if not values:
        return ToolResult.ok(attached_text(attachments), attachments)
    return ToolResult.ok(values[0] if len(values) == 1 else values, attachments)


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _has_files(value: object) -> bool:
    return any(isinstance(each, BinaryContent) for each in _listed(value))


async def _refuse(_: list[ModelMessage], __: AgentInfo) -> NoReturn:
    raise ModelRetry("A tool converted from pydantic-ai has no model of its own.")


_NO_MODEL = FunctionModel(_refuse)
"""A context must have a model, which a tool seldom asks for."""
