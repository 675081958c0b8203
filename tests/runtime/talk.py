"""Conversations with an app in memory: messages, calls, and the requests of models."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import toolwright as tw
from tests import journals
from tests.kit import Watched
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime


def says(*texts: str) -> Watched:
    """Return a model that answers with these texts."""
    return Watched([{"text": text} for text in texts])


@dataclass
class Talk:
    """A thread of an agent, and its runs."""

    rt: Runtime
    thread_id: str
    runs: list[Run] = field(default_factory=list[Run])

    async def say(self, text: str = "Go") -> Run:
        """Send a message and wait until its run has finished."""
        sent = await self.rt.threads.send(self.thread_id, text)
        self.runs.append(await self.rt.runs.wait(sent.id, 10))
        return self.runs[-1]

    async def messages(self) -> Sequence[Message]:
        return await self.rt.threads.messages(self.thread_id, 1_000)

    async def said(self) -> list[tuple[str, str]]:
        """Return role and content of every message."""
        return [(message.role, message.content) for message in await self.messages()]

    async def results(self) -> list[str]:
        """Return the results that the model has read, in order."""
        return [message.content for message in await self.messages() if message.role == "tool"]

    async def calls(self) -> Sequence[Call]:
        """Return all calls, nested calls after their parents."""
        found = await self.rt.calls.list(status=None, limit=200)
        return sorted(found, key=lambda each: (each.step, [int(n) for n in each.id.split(".")[1:]]))

    async def made(self) -> list[tuple[str, str, str]]:
        """Return each call's nesting position, its tool and its status."""
        return [(".".join(each.id.split(".")[1:]), each.name, each.status) for each in await self.calls()]


@asynccontextmanager
async def talking(
    app: tw.App, agent: str, settings: tw.Settings | None = None, **options: Any
) -> AsyncGenerator[Talk]:  # options of a thread
    """Create a thread of the agent, in memory."""
    async with journals.runtime(app, settings) as rt:
        thread = await rt.threads.create(agent, **options)
        yield Talk(rt, thread.id)


async def until(talk: Talk, event: str) -> None:
    """Wait until the thread's followers have received that event."""
    async with asyncio.timeout(10):
        async for told in talk.rt.events.follow(Topic(kind="thread", id=talk.thread_id), after=0):
            if told.type == event:
                return


async def opened(talk: Talk) -> str:
    """Return the id of the external call, once there is one."""
    async with asyncio.timeout(10):
        async for _ in talk.rt.events.follow(Topic(kind="thread", id=talk.thread_id), after=0):
            if found := await talk.rt.calls.list():
                return found[0].id
    raise AssertionError("no call was opened")


def heard(model: Watched, number: int = -1) -> list[tuple[str, str]]:
    """Return roles and contents of the messages in one of the model's requests."""
    return [(message.role, message.content) for message in model.requests[number].messages]


def assert_answered(model: Watched) -> None:
    """Check that in every request each call is answered, directly after the message that makes it."""
    for request in model.requests:
        waiting: list[str] = []
        for message in request.messages:
            if message.role == "tool":
                assert message.call_id == waiting.pop(0)
            else:
                assert not waiting
                waiting = [each.id for each in message.calls]
        assert not waiting
