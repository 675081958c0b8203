"""Entry points for the tests of this folder: an agent whose model is recorded, also over HTTP."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

import toolwright as tw
from tests import journals
from tests.kit import Watched
from toolwright.adapters.system import SystemClock
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelRequest
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions

Arguments = Mapping[str, JSON] | str


@dataclass
class Seen:
    """The records of a finished run."""

    rt: Runtime
    run: Run
    messages: Sequence[Message]
    requests: Sequence[ModelRequest]

    @property
    def results(self) -> list[Message]:
        """Return the messages that answer calls, in order."""
        return [message for message in self.messages if message.role == "tool"]


def turns(*calls: tuple[str, Arguments]) -> list[object]:
    """Return a script of one call per step, and a final answer."""
    made: list[object] = [{"calls": [{"name": name, "args": args}]} for name, args in calls]
    return [*made, {"text": "Done."}]


def app_of(
    model: object,
    tools: Sequence[tw.Tool],
    prompt: Mapping[str, Any] | None = None,  # additional fields of the prompt
    agent: Mapping[str, Any] | None = None,  # additional fields of the agent
) -> tw.App:
    """Return an app of one agent `tester`."""
    spoken = tw.Prompt("tester", "You test.", model=model, tools=tools, **(prompt or {}))
    return tw.App(agents=[tw.Agent("tester", spoken, **(agent or {}))])


async def ended(rt: Runtime, thread_id: str, content: str = "Go") -> Run:
    """Send a message and wait until its run has finished."""
    return await rt.runs.wait((await rt.threads.send(thread_id, content)).id, 10)


@asynccontextmanager
async def carried_out(
    tools: Sequence[tw.Tool],
    *calls: tuple[str, Arguments],
    settings: tw.Settings | None = None,
    **thread: Any,  # the thread's tenvs, env, …
) -> AsyncGenerator[Seen]:
    """Execute a run in which a model makes these calls, one per step."""
    model = Watched(turns(*calls))
    async with journals.runtime(app_of(model, tools), settings) as rt:
        made = await rt.threads.create("tester", **thread)
        run = await ended(rt, made.id)
        assert run.status == "completed", run.error
        yield Seen(rt, run, await rt.threads.messages(made.id), model.requests)


async def results(tools: Sequence[tw.Tool], *calls: tuple[str, Arguments], **thread: Any) -> list[Message]:
    """Return the results of these calls."""
    async with carried_out(tools, *calls, **thread) as seen:
        return seen.results


def error_of(message: Message) -> dict[str, Any]:
    """Return the text of a failed call as the model reads it."""
    assert message.status == "error", message.content
    read: dict[str, Any] = json.loads(message.content)
    return read


@asynccontextmanager
async def over_http(rt: Runtime) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield a client of the gateway over a runtime on this machine."""
    served = create_gateway(rt, GatewayOptions(clock=SystemClock()))
    transport = httpx2.ASGITransport(served, client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client
