"""An agent with a tool of its own and the tools of one MCP server, and the results of its runs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import toolwright as tw
from tests.mcp.peers.catalogue import NAMES_PROCESSES
from tests.mcp.peers.hearing import Hearing
from tests.mcp.peers.serving import command, served
from toolwright import testing
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime

SETTLED = 12.0
"""Seconds within which a responsive server has listed its tools."""
PATIENCE = 60.0
"""Seconds for a run, on a busy machine."""


@tw.tool
async def own() -> str:
    """The agent's own tool."""
    return "own result"


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished run and the results of its calls, by the names of their tools, in the order of the calls."""

    run: Run
    messages: Sequence[Message]
    results: Mapping[str, str]


@dataclass
class Host:
    """A runtime whose agent `host` has the server `peer`;

    `hearing` records the messages that the server receives over HTTP.
    """

    rt: Runtime
    hearing: Hearing = field(default_factory=Hearing)

    async def run(self) -> Ran:
        """Execute a whole run in a new thread."""
        thread = await self.rt.threads.create("host")
        return await self.end_of((await self.rt.threads.send(thread.id, "Go")).id)

    async def end_of(self, run_id: str) -> Ran:
        """Wait until the run has finished, and return it."""
        run = await self.rt.runs.wait(run_id, PATIENCE)
        messages = await self.rt.threads.messages(run.thread_id)
        results = {str(each.tool_name): each.content for each in messages if each.role == "tool"}
        return Ran(run, messages, results)

    async def watched(self) -> tuple[Ran, list[str]]:
        """Return a run, and the types of its events as a follower receives them."""
        types: list[str] = []
        thread = await self.rt.threads.create("host")
        async with (
            asyncio.timeout(PATIENCE),
            self.rt.events.following(Topic(kind="thread", id=thread.id)) as following,
        ):
            run = await self.rt.threads.send(thread.id, "Go")
            async for event in following.events:
                types.append(event.type)
                if event.type == "run.completed":
                    break
        return await self.end_of(run.id), types

    async def status(self) -> str:
        """Return the status of the server as soon as it is known.

        A server that hangs is `connecting` until the timeout.
        """
        until = asyncio.get_running_loop().time() + SETTLED
        while (status := (await self.rt.mcp.of("host"))[0].status) == "connecting":
            if asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(0.05)
        return status

    async def faults(self) -> str:
        """Return all errors of the servers as the API reports them, one per line."""
        states = await self.rt.mcp.of("host")
        return "\n".join(
            f"{fault.tool or '-'}: {fault.message}" for state in states for fault in state.faults
        )

    async def tools(self) -> list[str]:
        """Return the names of the servers' tools as the API lists them."""
        return [tool.name for state in await self.rt.mcp.of("host") for tool in state.tools]

    async def until(self, names: list[str]) -> None:
        """Return once the servers have these tools."""
        async with asyncio.timeout(PATIENCE):
            while await self.tools() != names:  # noqa: ASYNC110 - a server does not report that it was asked
                await asyncio.sleep(0.02)


def calling(*names: str, args: Mapping[str, Any] | None = None) -> list[object]:
    """Return the turns of a model that calls those tools, one per step, then says that it is done."""
    turns = [{"calls": [{"name": name, "args": json.dumps(args or {})}]} for name in names]
    return [*turns, {"text": "done"}]


@asynccontextmanager
async def hosting(
    server: Mapping[str, Any], turns: Sequence[object], env: Mapping[str, Any] | None = None
) -> AsyncGenerator[Host]:
    """Run a runtime in memory, with that server as `peer` and the app's `env`."""
    model = testing.ScriptedModel(turns)
    agent = tw.Agent("host", tw.Prompt("host", "Do it.", model=model, tools=[own]))
    async with testing.runtime(tw.App(agents=[agent], mcp={"peer": server}, env=dict(env or {}))) as rt:
        yield Host(rt)


@contextmanager
def configured(name: str, way: str = "http", **options: Any) -> Generator[tuple[dict[str, Any], Hearing]]:
    """Yield the configuration of that running peer; `way` is http, json, sse or stdio."""
    if way == "stdio" or name in NAMES_PROCESSES:
        program, *arguments = command(name, options.get("revision"))
        yield {"command": program, "args": arguments}, Hearing()
        return
    with served(name, transport=way, **options) as peer:  # type: ignore[arg-type]  # one of the three remaining values
        yield {"url": peer.url, **({"transport": "sse"} if way == "sse" else {})}, peer.hearing


@asynccontextmanager
async def meeting(
    name: str,
    turns: Sequence[object],
    way: str = "http",
    settings: Mapping[str, Any] | None = None,
    revision: str | None = None,
) -> AsyncGenerator[Host]:
    """Run an agent that has the tools of that peer, configured with more `settings`."""
    with configured(name, way, revision=revision) as (server, hearing):
        async with hosting({**server, **(settings or {})}, turns) as host:
            host.hearing = hearing
            await host.status()  # a busy machine takes longer for it than a run waits
            yield host
