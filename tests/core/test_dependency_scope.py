"""A scope of open values: who cancels an opening, and how a cancelled scope closes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from toolwright.core.dependencies.scope import Scope
from toolwright.core.errors import InvalidRequest

pytestmark = pytest.mark.anyio


class Door:
    """A resource that is slow to open, and to close."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.said: list[str] = []
        self.opening, self.may_open = asyncio.Event(), asyncio.Event()
        self.closing, self.may_close = asyncio.Event(), asyncio.Event()
        self.cancelled, self.closed = asyncio.Event(), asyncio.Event()
        self.deaf = deaf

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        self.said.append("opening")
        self.opening.set()
        try:
            await self.may_open.wait()
        except asyncio.CancelledError:
            self.said.append("given up")
            raise
        yield "door"
        self.closing.set()
        while not self.may_close.is_set():
            try:
                await self.may_close.wait()
            except asyncio.CancelledError:
                self.said.append("cancelled")
                self.cancelled.set()
                if not self.deaf:
                    raise
        self.said.append("closed")
        self.closed.set()

    def ask(self, scope: Scope) -> "asyncio.Task[object]":
        return asyncio.create_task(scope.value("door", "door", self.open, cleans_up=True))


async def test_the_last_one_who_gives_up_cancels_the_opening_and_the_next_one_opens_again() -> None:
    door, scope = Door(), Scope()
    asking = [door.ask(scope), door.ask(scope)]
    await door.opening.wait()
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    door.may_open.set()
    door.may_close.set()
    assert await door.ask(scope) == "door"
    assert door.said == ["opening", "given up", "opening"]
    await scope.close()
    assert door.said[3:] == ["closed"]


async def test_a_scope_that_closes_gives_up_what_still_opens_and_opens_nothing_more() -> None:
    door, scope = Door(), Scope()
    asking = door.ask(scope)
    await door.opening.wait()
    await scope.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert door.said == ["opening", "given up"]
    with pytest.raises(
        InvalidRequest, match="The call that needs 'door' has ended, so no dependency is opened"
    ):
        await scope.value("door", "door", door.open, cleans_up=True)


async def test_a_clean_up_ends_well_though_its_waiting_task_is_cancelled_repeatedly() -> None:
    door, scope = Door(), Scope()
    door.may_open.set()
    await door.ask(scope)
    closing = asyncio.create_task(scope.close())
    await door.closing.wait()
    for _ in range(3):
        closing.cancel()
        await asyncio.sleep(0)
    door.may_close.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert door.said == ["opening", "closed"]


@pytest.mark.idle_clock
async def test_who_is_cancelled_does_not_wait_long_for_a_clean_up_that_hangs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door, scope, loop = Door(), Scope(), asyncio.get_running_loop()
    door.may_open.set()
    await door.ask(scope)
    closing = asyncio.create_task(scope.close())
    await door.closing.wait()
    began = loop.time()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert loop.time() - began < 2.5  # real time, on a clock that does not wait
    await door.cancelled.wait()
    assert "The clean-up of dependencies took too long" in caplog.text


@pytest.mark.idle_clock
async def test_a_clean_up_that_swallows_its_cancellation_is_left_behind_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deaf, other, scope = Door(deaf=True), Door(), Scope()
    for door in (other, deaf):
        door.may_open.set()
    other.may_close.set()
    await scope.value("other", "other", other.open, cleans_up=True)
    await deaf.ask(scope)
    await scope.close()
    assert deaf.said == ["opening", "cancelled"]
    assert other.said == ["opening", "closed"]
    assert "ignores its cancellation and is abandoned" in caplog.text
    deaf.may_close.set()
    await deaf.closed.wait()
    assert deaf.said == ["opening", "cancelled", "closed"]
