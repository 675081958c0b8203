"""Agent that answers composed requests, and its answers: `{output, calls}`, validated and parsed as calls."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Any

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Side
from toolwright.core.agents.catalog import REQUESTS, Catalog
from toolwright.core.agents.prompt import Context, Prompt
from toolwright.core.arguments.errors import FieldError, InvalidArguments, within
from toolwright.core.arguments.validator import ResultValidator
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.limits import MAX_NAME
from toolwright.core.model import AnswerSchema, ModelCall, ModelResponse
from toolwright.core.requests.conversation import as_sent, opening_of, system_of
from toolwright.core.requests.request import RequestForm, read_request
from toolwright.core.schemas.meta import REASONING, Call
from toolwright.core.schemas.output import FormedAnswer, InvalidAnswer, Output, OutputForm, read_answer
from toolwright.core.schemas.state_paths import has_references
from toolwright.core.text import hint
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Side as SideName
from toolwright.core.threads.run import StopReason, Usage
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.compose import closed_output, compose, with_call
from toolwright.core.tools.registry import resolve
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Value, changed, field

OBJECT = "object:"
"""Prefix of a model object in a stored request; the id of its thread or agent follows."""
MAX_RELEASED = 1_000
"""Maximum number of solved requests whose objects are kept."""


class Solution(Value, gc=True):
    """The result of a composed request.

    `output` matches the output schema, and is an instance if a type was given. If `max_steps` was reached, it is None
    and `stop_reason` is `max_steps`. `calls` are the calls of all steps, in order, with their results. `state` is the
    final state, `states` the state of each instance. `steps` counts the model's answers.
    """

    output: Any  # an instance of the declared type
    calls: tuple[Call, ...] = ()
    state: JSONObject = field(default_factory=dict[str, JSON])
    states: Mapping[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    stop_reason: StopReason | None = None
    run_id: str = ""
    thread_id: str = ""


class ComposedForm:
    """The form of answers to a composed request (S1): `output`, null until it is known, and `calls` of tools."""

    def __init__(self, request: RequestForm, output: Output, tools: Sequence[Tool], at: datetime) -> None:
        self._reasoning = request.config.call_reasoning
        composed = compose(output.schema, tools, reasoning=self._reasoning)
        self._schema = AnswerSchema(schema=composed, name="answer")
        self._output, self._output_validator = output, ResultValidator(closed_output(output.schema), "output")
        self._set_tools({tool.name: tool for tool in tools})
        self._instances = request.instances
        self.opening = opening_of(request, at)

    @property
    def schema(self) -> AnswerSchema:
        """The composed schema."""
        return self._schema

    def read(self, response: ModelResponse) -> FormedAnswer:
        """Parse an answer: its output and calls. Calls in the provider's own format take precedence.

        Raises `InvalidAnswer`.
        """
        if response.calls:
            return FormedAnswer(response=response)
        answer = read_answer(response.text)
        errors = self._envelope.errors(answer)
        if errors or not isinstance(answer, dict):
            raise InvalidAnswer(errors)
        output, calls = answer["output"], _objects(answer["calls"])
        if output is not None:
            errors = within(self._output_validator.errors(output) or self._output.errors(output), "output")
        model_calls: list[ModelCall] = []
        for number, call in enumerate(calls):
            tool = self._tools[str(call["_tool"])]
            arguments = _arguments(call, tool)
            errors += within(self._call_errors(tool, arguments), "calls", number)
            model_calls.append(ModelCall(id="", name=tool.name, arguments=dumps_unescaped(arguments)))
        if errors:
            raise InvalidAnswer(errors)
        with_calls = changed(response, calls=tuple(model_calls))
        return FormedAnswer(response=with_calls, output=output, over=output is not None)

    def as_sent(self, messages: list[Message]) -> list[Message]:
        """Return the context's messages, then the conversation, with calls and results as text."""
        return [*self.opening, *as_sent(messages)]

    def written(self, message: Message) -> Message:
        """Return one message of the conversation as the model reads it."""
        return as_sent([message])[0]

    def with_tool(self, tool: Tool) -> "ComposedForm":
        """Return a form of answers that can also call this tool, which has no meta-properties."""
        form = copy(self)
        form._schema = AnswerSchema(
            schema=with_call(self._schema.schema, tool, reasoning=self._reasoning), name=self._schema.name
        )
        form._set_tools({**self._tools, tool.name: tool})
        return form

    def without(self, names: Collection[str]) -> "ComposedForm":
        """Return a form of answers that cannot call the tools of these names."""
        form = copy(self)
        form._set_tools({name: tool for name, tool in self._tools.items() if name not in names})
        composed = compose(self._output.schema, form._tools.values(), reasoning=self._reasoning)
        form._schema = AnswerSchema(schema=composed, name=self._schema.name)
        return form

    def _set_tools(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._envelope = ResultValidator(_envelope([*tools]), "answer")

    def _call_errors(self, tool: Tool, arguments: JSONObject) -> list[FieldError]:
        """Return the errors of a call. References in arguments are validated later, when the call starts."""
        chosen = tool.meta is not None and "_instance" in tool.meta.choices and "_instance" in arguments
        if chosen and self._instances and arguments["_instance"] not in self._instances:
            return [FieldError(("_instance",), f"must be one of {', '.join(map(repr, self._instances))}")]
        if has_references({name: each for name, each in arguments.items() if not name.startswith("_")}):
            return []
        assert tool.validator is not None, "set when the tool was made"
        try:
            tool.validator.read(arguments)
        except InvalidArguments as error:
            return [*error.faults]
        return []


def _envelope(names: list[str]) -> JSONObject:
    """Return the schema of an answer, without the contents of its output and its calls."""
    required: list[JSON] = [*names]
    calls: JSONObject = {"type": "array", "maxItems": 0}
    if names:
        call: JSONObject = {
            "type": "object",
            "properties": {"_tool": {"enum": required}},
            "required": ["_tool"],
        }
        calls = {"type": "array", "items": call}
    return {
        "type": "object",
        "properties": {"output": True, "calls": calls},
        "required": ["calls", "output"],
    }


def _objects(calls: JSON) -> list[JSONObject]:
    return [each for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []


def _arguments(call: JSONObject, tool: Tool) -> JSONObject:
    """Return the arguments of a call. For a tool without its own schema, meta-properties are removed."""
    added = ("_tool",) if tool.meta is not None else ("_tool", REASONING)
    return {name: each for name, each in call.items() if name not in added}


class RequestAgents:
    """Creates the agents that answer the composed requests of threads, whose arguments are the requests.

    A model or output type that is an object cannot be stored as JSON. It is kept here while its request is open, and
    for the most recently finished requests.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._open: dict[str, _Objects] = {}
        self._released: dict[str, _Objects] = {}

    def keep(self, thread_id: str, model: object, output: Output, agent: ActiveAgent) -> None:
        """Store the agent, output and model object (or None) with which the request of this thread is solved."""
        self._open[thread_id] = _Objects(model=model, output=output, agent=agent)

    def release(self, thread_id: str) -> None:
        """Release a request that is solved or abandoned. Only the objects of the most recent requests are kept."""
        objects = self._open.pop(thread_id, None)
        if objects is not None:
            self._released[thread_id] = changed(objects, agent=None)
            if len(self._released) > MAX_RELEASED:
                del self._released[next(iter(self._released))]

    def output_of(self, thread_id: str, request: RequestForm) -> Output:
        """Return the declared output of that thread's request."""
        objects = self._objects(thread_id)
        return Output(request.output) if objects is None else objects.output

    def agent(self, thread: Thread) -> ActiveAgent:
        """Return the agent of that thread. Raises `DefinitionError` if the request does not fit the app any more."""
        objects = self._objects(thread.id)
        if objects is not None and objects.agent is not None:
            return objects.agent
        request = read_request("The request of this thread", thread.arguments)
        output = self.output_of(thread.id, request)
        return request_agent(self._catalog, request, output, self.model_of(request), thread.created_at)

    def model_of(self, request: RequestForm) -> object:
        """Return the model that a stored request names.

        Raises `DefinitionError` for a model object that no longer exists.
        """
        written = request.config.model
        if written is None or not written.startswith(OBJECT):
            return written
        owner, _, name = written.removeprefix(OBJECT).partition(" ")
        objects, agent = self._objects(owner), self._catalog.find(owner)
        if objects is not None and objects.model is not None:
            return objects.model
        if agent is not None and agent.model is not None:
            return agent.model
        raise DefinitionError(
            f"The model {name!r} of this request is an object, which exists only in the process that started it."
        )

    def with_output(self, thread: Thread, active: ActiveAgent) -> ActiveAgent:
        """Return an agent for a delegated call, whose answer must match the `_output` that the call's tool declares."""
        schema = None if thread.link is None else thread.link.output
        if schema is None:
            return active
        sides: dict[SideName, ActiveAgent] = {}
        form = OutputForm(Output(schema))
        for name, side in active.sides.items():
            sides[name] = changed(side, form=form, sides=sides)
        return sides[active.side]

    def _objects(self, thread_id: str) -> "_Objects | None":
        return self._open.get(thread_id) or self._released.get(thread_id)


class _Objects(Value, gc=True):
    """The objects of one request: its model (None if it is given by name), its declared output, and its agent."""

    model: object
    output: Output
    agent: ActiveAgent | None


def written_model(owner: str, model: object) -> str | None:
    """Return a model as stored in a request: its name, or a reference to the object of that thread or agent."""
    if model is None or isinstance(model, str):
        return model
    return f"{OBJECT}{owner} {getattr(model, 'name', type(model).__name__)}"[:MAX_NAME]


def request_agent(
    catalog: Catalog, request: RequestForm, output: Output, model: object, at: datetime
) -> ActiveAgent:
    """Return the agent that answers the request. Raises `DefinitionError` for missing or unsuitable tools."""
    tools = request_tools(catalog, request)
    config = request.config
    prompt = Prompt(
        config.name,
        prompt=system_of(request, tools),
        model=model,
        tools=tools,
        reasoning=config.reasoning,
        model_settings=config.settings,
        context=None if config.context is None else Context(**config.context.model_dump()),
        parallel=1,  # a call can refer to results of earlier calls
    )
    active = catalog.activate(changed(REQUESTS, side_a=Side(prompt, max_steps=config.max_steps)))
    sides: dict[SideName, ActiveAgent] = {}
    sides["side_a"] = changed(
        active.offering((), tools),
        form=ComposedForm(request, output, tools, at),
        sides=sides,
    )
    return sides["side_a"]


def known_tools(catalog: Catalog, request: RequestForm) -> dict[str, Tool]:
    """Return the tools of the request by name, as declared, excluding tools that the app no longer has."""
    listed = [
        Tool.from_schema(*each) if not isinstance(each, str) else catalog.tools[each]
        for each in request.tools
        if not isinstance(each, str) or each in catalog.tools
    ]
    return {tool.name: tool for tool in listed}


def request_tools(catalog: Catalog, request: RequestForm) -> tuple[Tool, ...]:
    """Return the tools of the request. Its own tools are executed by the handlers of the app's registry (D17)."""
    listed: list[Tool] = []
    for each in request.tools:
        if not isinstance(each, str):
            listed += resolve([Tool.from_schema(*each)], catalog.handlers)
            catalog.check_delegate(listed[-1])
        elif each in catalog.tools:
            listed.append(catalog.tools[each])
        else:
            names = [tool.name for tool in catalog.tools]
            raise DefinitionError(
                f"The request names the tool {each!r}, which the app does not have.{hint(each, names)}"
            )
    return tuple(listed)
