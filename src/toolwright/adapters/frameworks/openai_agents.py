"""Tool conversion to and from the OpenAI Agents SDK."""

import inspect
import json
from functools import partial
from typing import Any, cast

from agents import FunctionTool
from agents.tool import (
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    ValidToolOutputPydanticModelsTypeAdapter,
)
from agents.tool_context import ToolContext
from pydantic import ValidationError

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.results import Attachment, ToolResult, attached_text, media_name
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief
from toolwright.core.tools.tool import FUNCTION_TIMEOUT, Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.wire.result import images, text_with_files


def native_tools(toolset: Toolset, state: ThreadState | None) -> list[FunctionTool]:
    """Return a `FunctionTool` for each tool: `Agent(…, tools=toolset.for_openai_agents())`.

    Arguments are validated here. Every failure is text for the model. Images are shown to the model.
    """
    return [
        FunctionTool(
            name=function["name"],
            description=function["description"],
            params_json_schema=function["parameters"],
            on_invoke_tool=partial(_call, toolset, state, function["name"]),
            strict_json_schema=False,  # in OpenAI's format
        )
        for each in toolset.definitions(provider="openai")
        for function in [cast("dict[str, Any]", each["function"])]
    ]


async def _call(
    toolset: Toolset, state: ThreadState | None, name: str, _: ToolContext[Any], arguments: str
) -> str | list[ToolOutputText | ToolOutputImage]:
    result = await toolset.call(name, arguments, state)
    pictures = images(result)
    if not pictures:
        return text_with_files(result)
    output_images = [
        ToolOutputImage(image_url=f"data:{each.mime_type};base64,{each.data}") for each in pictures
    ]
    return [ToolOutputText(text=text_with_files(result)), *output_images]


def tool_of(native: object, context: object) -> Tool:
    """Return a tool that calls a function tool of the SDK, with its timeout and its approval.

    Raises `DefinitionError` for anything else, and for a tool that is disabled or guarded.
    """
    if not isinstance(native, FunctionTool):
        raise DefinitionError(
            f"An OpenAI Agents SDK tool must be an agents.FunctionTool, not {brief_value(native)}."
        )

    _check_conditions(native)

    def place(call_id: str, arguments: JSONObject) -> ToolContext[Any]:
        written = json.dumps(arguments)
        return ToolContext(context, tool_name=native.name, tool_call_id=call_id, tool_arguments=written)

    async def call(state: ThreadState, arguments: JSONObject) -> object:
        where = place(state.call_id or "call", arguments)
        return _returned(await native.on_invoke_tool(where, where.tool_arguments))

    rule = native.needs_approval

    async def needs_approval(arguments: JSONObject) -> bool:
        assert not isinstance(rule, bool), "a function of the context, the arguments and the call's id"
        answer = rule(place("call", arguments), arguments, "call")
        return bool(await answer if inspect.isawaitable(answer) else answer)

    return Tool(
        name=native.name,
        description=native.description,
        parameters=cast("JSONObject", json.loads(json.dumps(native.params_json_schema))),
        handler=call,
        requires_approval=rule if isinstance(rule, bool) else needs_approval,
        timeout=FUNCTION_TIMEOUT if native.timeout_seconds is None else native.timeout_seconds,
    )


def _returned(value: object) -> object:
    """Convert the SDK's outputs of a tool to a result with texts and files. Any other value is unchanged."""
    listed: list[object] = [*cast("list[object]", value)] if isinstance(value, list) else [value]
    try:
        outputs = [ValidToolOutputPydanticModelsTypeAdapter.validate_python(each) for each in listed]
    except ValidationError:
        return cast("object", value)
    texts: list[str] = []
    files: list[Attachment] = []
    for each in outputs:
        match each:
            case ToolOutputText(text=text):
                texts.append(text)
            case ToolOutputImage(image_url=url, file_id=file_id):
                _add_file(url, None, url or file_id, texts, files)
            case ToolOutputFileContent(file_data=data, filename=name, file_url=url, file_id=file_id):
                _add_file(data, name, url or file_id or name, texts, files)
    text = "\n".join(texts) or (attached_text(files) if files else "")
    return ToolResult.ok(text, tuple(files))


def _add_file(
    data: str | None, name: str | None, reference: str | None, texts: list[str], files: list[Attachment]
) -> None:
    """Add a file whose bytes are in the output, or its reference as text."""
    head, _, encoded = (data or "").partition(";base64,")
    if not (head.startswith("data:") and encoded):
        texts.append(f"File: {brief(reference or 'without a name')}")
        return
    kind = head.removeprefix("data:") or "application/octet-stream"
    word = "image" if kind.startswith("image/") else "file"
    number = 1 + sum(each.mime_type == kind for each in files)
    files.append(Attachment(name=name or media_name(kind, number, word), mime_type=kind, data=encoded))


def _check_conditions(native: FunctionTool) -> None:
    """Reject a tool that is restricted by rules which only the SDK's own runner enforces."""
    reasons = {
        "is disabled (is_enabled=False): leave it out": native.is_enabled is False,
        "has an is_enabled function, which only the SDK's runner calls": native.is_enabled
        not in (True, False),
        "has guardrails, which only the SDK's runner applies": native.tool_input_guardrails
        or native.tool_output_guardrails,
    }
    for reason, applies in reasons.items():
        if applies:
            raise DefinitionError(f"The OpenAI Agents SDK tool {native.name!r} {reason}.")
