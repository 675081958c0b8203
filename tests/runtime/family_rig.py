"""A boss and an agent that it calls, with models that record their requests."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import toolwright as tw
from tests import journals
from tests.kit import Watched, call
from toolwright.core.journal.store import Store
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.runtime.runtime import Runtime

Config = Mapping[str, Any]


def create(**args: object) -> dict[str, object]:
    return call("subagent_create", agent="worker", **{"name": "Ada", **args})


def worker(turns: Sequence[object], tools: Sequence[tw.Tool] = (), **options: Any) -> tw.Agent:
    """Return an agent that is called as a tool."""
    prompt = {key: options.pop(key) for key in ("variables", "required_schema", "tenvs") if key in options}
    side = {
        key: options.pop(key)
        for key in [*options]
        if key in ("stop_tool", "stop_tool_response_property", "session_fail", "max_steps")
    }
    spoken = tw.Prompt("worker", "You work.", model=Watched(turns), tools=tools, **prompt)
    return tw.Agent(
        "worker", tw.Side(spoken, **side), expose_as_tool=True, tool_description="Works.", **options
    )


def model_of(agent: tw.Agent) -> Watched:
    side = agent.sides["side_a"].prompt
    assert isinstance(side, tw.Prompt)
    assert isinstance(side.model, Watched)
    return side.model


@dataclass
class Home:
    rt: Runtime
    boss: Watched

    async def thread(self, **options: Any) -> Thread:
        return await self.rt.threads.create("boss", **options)

    async def run(self, thread_id: str, text: str = "Go") -> Run:
        sent = await self.rt.threads.send(thread_id, text)
        return await self.rt.runs.wait(sent.id, 10)

    async def ran(self, text: str = "Go", **options: Any) -> Thread:
        """Return a new thread of the boss after the run of its first message."""
        thread = await self.thread(**options)
        await self.run(thread.id, text)
        return thread

    async def children(self, thread_id: str) -> Sequence[Thread]:
        return await self.rt.threads.children(thread_id)

    async def results(self, thread_id: str) -> list[Any]:
        told = await self.rt.threads.messages(thread_id, 1000)
        return [_read(m.content) for m in told if m.role == "tool"]

    async def heard(self, thread_id: str) -> list[str]:
        return [m.content for m in await self.rt.threads.messages(thread_id, 1000) if m.role == "user"]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@asynccontextmanager
async def home(
    agent: tw.Agent,
    config: Config | str,
    turns: Sequence[object],
    tools: Sequence[tw.Tool] = (),
    **options: Any,
) -> AsyncGenerator[Home]:
    """Run a boss whose prompt calls that agent, configured in that way."""
    boss = Watched(turns)
    named: Any = {"name": "worker", **config} if isinstance(config, Mapping) else config
    prompt = tw.Prompt("boss", "You lead.", model=boss, tools=[*tools, named], **options)
    async with journals.runtime(tw.App(agents=[tw.Agent("boss", prompt), agent])) as rt:
        yield Home(rt, boss)


RESUMABLE: Config = {"resumable": {"receives_messages": "side_a"}}


async def until(rt: Runtime, thread_id: str, check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds; it is checked after each event of the thread."""
    async with asyncio.timeout(10):
        async for _ in rt.events.follow(Topic(kind="thread", id=thread_id), after=0):
            if await check():
                return


def journal(rt: Runtime) -> Store:
    """Return the store, for data without a public interface."""
    return rt._store  # pyright: ignore[reportPrivateUsage]  # see the docstring
