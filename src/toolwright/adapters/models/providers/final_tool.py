"""The tool by which a model without structured output of its own gives its answer."""

from dataclasses import replace

from pydantic_ai.messages import ModelResponse as NativeResponse
from pydantic_ai.messages import ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.tools import ToolDefinition as NativeTool
from pydantic_core import to_json
from typing_extensions import TypeIs

from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSONObject, dumps_unescaped

FINAL_TOOL = "final_answer"
_DESCRIPTION = (
    "Give the final answer by calling this tool, not by text. Call it alone, after the results of all other calls: "
    "together with other calls it is ignored."
)
_ANSWER = "answer"


class FinalTool:
    """The tool whose arguments are the answer; an answer that is no object is its one argument, `answer`."""

    def __init__(self, schema: JSONObject, strict: bool | None) -> None:
        self.is_answer = schema.get("type") == "object"
        parameters = schema if self.is_answer else _with_answer(schema)
        self.native = NativeTool(
            name=FINAL_TOOL, description=_DESCRIPTION, parameters_json_schema=parameters, strict=strict
        )

    def read(self, response: NativeResponse) -> NativeResponse:
        """The response with the arguments of the final call as its text, unless it makes other calls too.

        The final call itself is left out: nobody answers it, and a provider refuses a call without a result.
        """
        final = [part for part in response.parts if is_final(part)]
        if not final:
            return response
        others = [part for part in response.parts if not is_final(part)]
        if any(isinstance(part, ToolCallPart) for part in others):
            return replace(response, parts=others)
        return replace(response, parts=[TextPart(self._text(final[0]))])

    def _text(self, call: ToolCallPart) -> str:
        """The answer as JSON text; what is no JSON stays as it is, for the judge."""
        written = call.args if isinstance(call.args, str) else to_json(call.args or {}).decode()
        if self.is_answer:
            return written
        try:
            arguments = parse_json(written)
        except NotJson:
            return written
        if not isinstance(arguments, dict) or _ANSWER not in arguments:
            return written
        return dumps_unescaped(arguments[_ANSWER])


def is_final(part: ModelResponsePart) -> TypeIs[ToolCallPart]:
    """Return whether a part of an answer is a call of the final tool."""
    return isinstance(part, ToolCallPart) and part.tool_name == FINAL_TOOL


def _with_answer(schema: JSONObject) -> JSONObject:
    """The schema of arguments with the answer as the one of them; definitions stay where they are referred to."""
    answer = {key: each for key, each in schema.items() if key != "$defs"}
    whole: JSONObject = {
        "type": "object",
        "properties": {_ANSWER: answer},
        "required": [_ANSWER],
        "additionalProperties": False,
    }
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole
