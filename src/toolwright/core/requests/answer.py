"""Answers to composed requests: `{output, calls}` as JSON text, validated, and read as calls of tools."""

from collections.abc import Sequence
from copy import copy
from datetime import datetime

from toolwright.core.arguments.faults import ArgumentFault, Fault
from toolwright.core.arguments.judge import ResultJudge
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.model import AnswerSchema, ModelCall, ModelResponse
from toolwright.core.requests.conversation import heard, opening_of
from toolwright.core.requests.request import RequestForm
from toolwright.core.schemas.answer_form import AnswerFault, FormedAnswer, read_answer
from toolwright.core.schemas.meta import REASONING
from toolwright.core.schemas.output import Output
from toolwright.core.schemas.state_paths import has_references
from toolwright.core.threads.message import Message
from toolwright.core.tools.compose import closed_output, compose, with_call
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed


class ComposedForm:
    """The form of answers to a composed request (S1): `output`, or null while there is none, and `calls` of tools."""

    def __init__(self, request: RequestForm, output: Output, tools: Sequence[Tool], at: datetime) -> None:
        self._reasoning = request.config.call_reasoning
        composed = compose(output.schema, tools, reasoning=self._reasoning)
        self._schema = AnswerSchema(schema=composed, name="answer")
        self._output, self._output_judge = output, ResultJudge(closed_output(output.schema), "output")
        self._tools = {tool.name: tool for tool in tools}
        self._instances = request.instances
        self.opening = opening_of(request, at)
        self._envelope = ResultJudge(_envelope([*self._tools]), "answer")

    @property
    def schema(self) -> AnswerSchema:
        """The composed schema."""
        return self._schema

    def read(self, response: ModelResponse) -> FormedAnswer:
        """The calls and the output; of an answer by the provider's own calls these. Raises `AnswerFault`."""
        if response.calls:
            return FormedAnswer(response=response)
        answer = read_answer(response.text)
        faults = self._envelope.faults(answer)
        if faults or not isinstance(answer, dict):
            raise AnswerFault(faults)
        output, calls = answer["output"], _objects(answer["calls"])
        if output is not None:
            found = self._output_judge.faults(output) or self._output.faults(output)
            faults = [Fault(("output", *each.path), each.text) for each in found]
        asked: list[ModelCall] = []
        for number, call in enumerate(calls):
            tool = self._tools[str(call["_tool"])]
            arguments = _arguments(call, tool)
            faults += [
                Fault(("calls", number, *each.path), each.text) for each in self._faults(tool, arguments)
            ]
            asked.append(ModelCall(id="", name=tool.name, arguments=dumps_unescaped(arguments)))
        if faults:
            raise AnswerFault(faults)
        made = changed(response, calls=tuple(asked))
        return FormedAnswer(response=made, output=output, over=output is not None)

    def heard(self, messages: list[Message]) -> list[Message]:
        """The context's messages, then the conversation, calls and results as text."""
        return [*self.opening, *heard(messages)]

    def written(self, message: Message) -> Message:
        """Return one message of the conversation as the model reads it."""
        return heard([message])[0]

    def with_tool(self, tool: Tool) -> "ComposedForm":
        """Return the form of answers that may call one more tool, which has no meta-properties."""
        form = copy(self)
        form._schema = AnswerSchema(
            schema=with_call(self._schema.schema, tool, reasoning=self._reasoning), name=self._schema.name
        )
        form._tools = {**self._tools, tool.name: tool}
        form._envelope = ResultJudge(_envelope([*form._tools]), "answer")
        return form

    def _faults(self, tool: Tool, arguments: JSONObject) -> list[Fault]:
        """The faults of a call. What arguments refer to is known, and validated, when the call begins."""
        chosen = tool.meta is not None and "_instance" in tool.meta.choices and "_instance" in arguments
        if chosen and self._instances and arguments["_instance"] not in self._instances:
            return [Fault(("_instance",), f"must be one of {', '.join(map(repr, self._instances))}")]
        if has_references({name: each for name, each in arguments.items() if not name.startswith("_")}):
            return []
        assert tool.judge is not None, "set when the tool was made"
        try:
            tool.judge.read(arguments)
        except ArgumentFault as fault:
            return [*fault.faults]
        return []


def _envelope(names: list[str]) -> JSONObject:
    """The schema of an answer, but for what its output and its calls hold."""
    named: list[JSON] = [*names]
    calls: JSONObject = {"type": "array", "maxItems": 0}
    if names:
        call: JSONObject = {"type": "object", "properties": {"_tool": {"enum": named}}, "required": ["_tool"]}
        calls = {"type": "array", "items": call}
    return {
        "type": "object",
        "properties": {"output": True, "calls": calls},
        "required": ["calls", "output"],
    }


def _objects(calls: JSON) -> list[JSONObject]:
    return [each for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []


def _arguments(call: JSONObject, tool: Tool) -> JSONObject:
    """The arguments of a call; those of a tool without a schema of its own have no meta-properties."""
    added = ("_tool",) if tool.meta is not None else ("_tool", REASONING)
    return {name: each for name, each in call.items() if name not in added}
