"""What the tests of all areas share: the turns of a script, a model that records its requests, tools, and waiting."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import toolwright as tw
from toolwright.core.model import ModelEvent, ModelRequest
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

T = TypeVar("T")

Turn: TypeAlias = dict[str, Any]  # a turn of a script
Before: TypeAlias = Callable[[ModelRequest], Awaitable[object]]

DONE: Turn = {"text": "Done."}


def call(name: str, /, **args: object) -> Turn:
    """Return a turn of one call."""
    return {"calls": [{"name": name, "args": args}]}


def calls(*made: str | Turn) -> Turn:
    """Return a turn of several calls: those of other turns, and of tools by name, without arguments."""
    turns = [call(each) if isinstance(each, str) else each for each in made]
    return {"calls": [one for turn in turns for one in turn["calls"]]}


class Watched:
    """A scripted model that records its requests; `before` is awaited first, and may act, raise or never return."""

    name = "test:watched"

    def __init__(
        self,
        turns: Sequence[object] | Mapping[str, Sequence[object]] = (DONE,),
        before: Before | None = None,
    ) -> None:
        self._script = ScriptedModel(turns)
        self.before = before
        self.requests: list[ModelRequest] = []
        self.asked = asyncio.Event()

    def of(self, name: str) -> list[ModelRequest]:
        """Return the requests in the name of that agent or prompt."""
        return [each for each in self.requests if each.who[-1] == name]

    def told(self, name: str) -> str:
        """Return all texts of the first request in that name."""
        first = self.of(name)[0]
        return "\n".join([first.system, *[message.content for message in first.messages]])

    def says(self, turns: Sequence[object] | Mapping[str, Sequence[object]]) -> None:
        """Replace the script, for answers with references that are unknown at the start."""
        self._script = ScriptedModel(turns)

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        self.asked.set()
        if self.before is not None:
            await self.before(request)
        async for event in self._script.respond(request):
            yield event


async def hang(_: object = None) -> None:
    """Never return."""
    await asyncio.Event().wait()


def raising(error: BaseException, who: str | None = None) -> Before:
    """Return what raises that error before each answer, or before those of that agent alone."""

    async def fail(request: ModelRequest) -> None:
        if who in (None, request.who[0]):
            raise error

    return fail


@tw.tool(description="Adds.")
async def add(a: int, b: int) -> int:
    return a + b


def hanging(name: str = "hang", **options: Any) -> tuple[tw.Tool, asyncio.Event]:  # options of a tool
    """Return a tool that never ends, and the event that is set once it has begun."""
    begun = asyncio.Event()

    @tw.tool(name=name, description="Never ends.", **options)
    async def never() -> str:
        begun.set()
        await hang()
        return "never"

    return never, begun


async def send_to(rt: Runtime, agent: str, content: str = "Go", **options: Any) -> Run:  # options of a thread
    """Send a message to a new thread of the agent. Return its run."""
    thread = await rt.threads.create(agent, **options)
    return await rt.threads.send(thread.id, content)


async def ran(rt: Runtime, agent: str, content: str = "Go", **options: Any) -> Run:  # options of a thread
    """Send a message to a new thread of the agent. Return its run, once it has ended."""
    return await rt.runs.wait((await send_to(rt, agent, content, **options)).id)


async def until(check: Callable[[], Awaitable[T | None]], seconds: float = 60) -> T:
    """Wait until the check returns something, and return it; for changes that notify nobody."""
    async with asyncio.timeout(seconds):
        for tries in range(1_000_000):
            if found := await check():
                return found
            await asyncio.sleep(0 if tries < 10 else 0.01)
    raise AssertionError("it never came")
