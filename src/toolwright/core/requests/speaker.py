"""The agent that answers composed requests: made again of each request, with its tools and the form of its answers."""

from datetime import datetime

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Side
from toolwright.core.agents.catalog import REQUESTS, Catalog
from toolwright.core.agents.model_settings import Context
from toolwright.core.agents.prompt import Prompt
from toolwright.core.errors import DefinitionError
from toolwright.core.limits import MAX_NAME
from toolwright.core.requests.answer import ComposedForm
from toolwright.core.requests.conversation import system_of
from toolwright.core.requests.request import RequestForm, read_request
from toolwright.core.schemas.answer_form import OutputForm
from toolwright.core.schemas.output import Output
from toolwright.core.text import hint
from toolwright.core.threads.run import Side as SideName
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.registry import resolve
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed, value

OBJECT = "object:"
"""How the model of a kept request begins that is an object; the thread or the agent follows that has it."""
REMEMBERED = 1_000
"""Requests that are solved, of which the objects are kept."""


class RequestAgents:
    """Makes the agents of the threads of composed requests, whose arguments are the requests.

    What JSON cannot carry, a model or an output type that is an object, is kept here while its request is solved, and
    of the last that were solved.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._open: dict[str, _Objects] = {}
        self._released: dict[str, _Objects] = {}

    def keep(self, thread_id: str, model: object, output: Output, agent: ActiveAgent) -> None:
        """The request of this thread is solved by that agent, of a model object if it is not None, for that output."""
        self._open[thread_id] = _Objects(model=model, output=output, agent=agent)

    def release(self, thread_id: str) -> None:
        """The request of this thread is solved, or nobody waits for it: its objects are kept among the last alone."""
        objects = self._open.pop(thread_id, None)
        if objects is not None:
            self._released[thread_id] = changed(objects, agent=None)
            if len(self._released) > REMEMBERED:
                del self._released[next(iter(self._released))]

    def output_of(self, thread_id: str, request: RequestForm) -> Output:
        """The output that the request of that thread is for."""
        objects = self._objects(thread_id)
        return Output(request.output) if objects is None else objects.output

    def of(self, thread: Thread) -> ActiveAgent:
        """The agent of that thread. Raises `DefinitionError` for a request that does not fit the app any more."""
        objects = self._objects(thread.id)
        if objects is not None and objects.agent is not None:
            return objects.agent
        request = read_request("The request of this thread", thread.arguments)
        output = self.output_of(thread.id, request)
        return request_agent(self._catalog, request, output, self.model_of(request), thread.created_at)

    def model_of(self, request: RequestForm) -> object:
        """The model that a kept request names. Raises `DefinitionError` for an object that is gone."""
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
            f"The model {name!r} of this request is an object, which only the process that began it has."
        )

    def told_output(self, thread: Thread, active: ActiveAgent) -> ActiveAgent:
        """An agent that executes a delegated call: its answer must be what the call's tool declares as `_output`."""
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


@value
class _Objects:
    """The objects of one request: its model, None for one that is named, its output as it was declared, its agent."""

    model: object
    output: Output
    agent: ActiveAgent | None


def written_model(owner: str, model: object) -> str | None:
    """How a model is written in a kept request: by its name, or as the object of that thread or agent."""
    if model is None or isinstance(model, str):
        return model
    return f"{OBJECT}{owner} {getattr(model, 'name', type(model).__name__)}"[:MAX_NAME]


def request_agent(
    catalog: Catalog, request: RequestForm, output: Output, model: object, at: datetime
) -> ActiveAgent:
    """The agent that answers the request. Raises `DefinitionError` for tools that are not there or do not fit."""
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
        parallel=1,  # a call can refer to what those before it have returned
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
    """The tools of the request by name, as they are declared, but for those that the app has no more."""
    listed = [
        Tool.from_schema(*each) if not isinstance(each, str) else catalog.tools[each]
        for each in request.tools
        if not isinstance(each, str) or each in catalog.tools
    ]
    return {tool.name: tool for tool in listed}


def request_tools(catalog: Catalog, request: RequestForm) -> tuple[Tool, ...]:
    """The tools of the request, its own executed by the handlers of the app's registry (D17)."""
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
