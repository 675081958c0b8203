"""Large answers that are not read, and incomplete bodies: both hold a bounded number of bytes in total."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from toolwright.adapters.system import SystemClock
from toolwright.core.errors import Overloaded, ToolwrightError
from toolwright.web.answers import BODIES, CUT, UNREAD, ApiResponse, UnreadAnswers, answer
from toolwright.web.middleware import BodyLimit, answer_error
from toolwright.web.options import GatewayOptions
from toolwright.web.shares import CALLER

pytestmark = pytest.mark.anyio
LARGE = 100_000


class Reader:
    """A connection whose reader accepts nothing until it is released."""

    def __init__(self, caller: str, *, may_read: bool = False) -> None:
        self.began = asyncio.Event()
        self.may_read = asyncio.Event()
        self.cut = False
        self.body = b""
        self.ended = False
        self.scope: Scope = {"type": "http", CALLER: caller, "extensions": {CUT: self._cut}}
        if may_read:
            self.may_read.set()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            return
        self.began.set()
        await self.may_read.wait()
        self.body += message["body"]
        self.ended = not message["more_body"]

    async def read(self, sent: ApiResponse) -> None:
        await sent(self.scope, self._receive, self.send)

    async def _receive(self) -> Message:
        raise AssertionError("An answer does not look at its request.")

    def _cut(self) -> None:
        self.cut = True


def large(size: int = LARGE) -> ApiResponse:
    return answer({"text": "x" * size})


async def test_the_caller_with_the_most_unread_bytes_makes_room() -> None:
    UNREAD.set(UnreadAnswers(3 * LARGE + LARGE // 2))
    first, second = Reader("person:ada"), Reader("person:ada")
    other, healthy = Reader("person:bob"), Reader("service", may_read=True)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(first.read(large()))
        await first.began.wait()
        for each in (second, other):
            tasks.create_task(each.read(large()))
            await each.began.wait()
        assert not first.cut

        await healthy.read(large())
        await ended  # its buffer is released, although it was never read
        assert first.cut
        assert not (second.cut or other.cut or healthy.cut)
        assert healthy.ended
        for each in (second, other):
            each.may_read.set()
    assert second.ended and other.ended and not first.ended
    assert len(second.body) == len(other.body) == len(healthy.body)


async def test_an_answer_that_is_larger_than_the_bound_is_sent_alone() -> None:
    UNREAD.set(UnreadAnswers(LARGE))
    reader, next_one = Reader("service"), Reader("service", may_read=True)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(reader.read(large(2 * LARGE)))
        await reader.began.wait()
        assert not reader.cut
        await next_one.read(large(2 * LARGE))
        await ended
    assert reader.cut and next_one.ended


async def test_an_answer_that_has_not_begun_is_refused() -> None:
    UNREAD.set(UnreadAnswers(2 * LARGE + LARGE // 2))
    readers = [Reader("service") for _ in range(4)]
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        last = [tasks.create_task(refused(each, large())) for each in readers]
        assert sorted([await each for each in last[:2]]) == [True, True]
        assert not any(each.cut or each.began.is_set() for each in readers[:2])
        for each in readers:
            each.may_read.set()
    assert [each.ended for each in readers] == [False, False, True, True]


async def refused(reader: Reader, sent: ApiResponse) -> bool:
    try:
        await reader.read(sent)
    except Overloaded:
        return True
    return False


async def test_answers_that_were_read_count_no_more() -> None:
    UNREAD.set(UnreadAnswers(2 * LARGE + LARGE // 2))
    stuck = Reader("person:ada")
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(stuck.read(large(LARGE)))
        await stuck.began.wait()
        for _ in range(10):
            reader = Reader("person:bob", may_read=True)
            await reader.read(large())
            assert reader.ended
        assert not stuck.cut
        stuck.may_read.set()


async def test_callers_without_a_name_are_told_apart_by_their_address() -> None:
    UNREAD.set(UnreadAnswers(3 * LARGE + LARGE // 2))
    readers = [Reader("") for _ in range(4)]
    for number, each in enumerate(readers):
        del each.scope[CALLER]
        each.scope["client"] = ("10.0.0.1" if number in (1, 2) else f"10.0.1.{number}", 5_000)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for each in readers:
            tasks.create_task(each.read(large()))
            await each.began.wait()
        assert [each.cut for each in readers] == [False, True, False, False]
        for each in readers:
            each.may_read.set()


class Sender:
    """A caller that sends the first part of a body and then nothing."""

    def __init__(self, caller: str, size: int = LARGE) -> None:
        self.sent_first = asyncio.Event()
        self.may_end = asyncio.Event()
        self.status = 0
        self._parts = iter([{"type": "http.request", "body": b"x" * size, "more_body": True}])
        self._scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": [],
            CALLER: caller,
        }

    async def send_to(self, app: BodyLimit) -> None:
        await app(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        part = next(self._parts, None)
        if part is not None:
            return part
        self.sent_first.set()  # the previous part has been counted
        await self.may_end.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]


async def whole(scope: Scope, receive: Receive, send: Send) -> None:
    """Read a body to its end, and answer."""
    try:
        while (await receive())["more_body"]:
            pass
    except ToolwrightError as error:
        await answer_error(error)(scope, receive, send)
        return
    await answer({})(scope, receive, send)


async def test_the_caller_with_the_most_unfinished_bodies_makes_room() -> None:
    BODIES.set(UnreadAnswers(3 * LARGE + LARGE // 2))
    app = BodyLimit(whole, GatewayOptions(clock=SystemClock()))
    first, second, other, new = Sender("ada"), Sender("ada"), Sender("bob"), Sender("cleo")
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        made: list[asyncio.Task[None]] = []
        for each in (first, second, other):
            made.append(tasks.create_task(each.send_to(app)))
            await each.sent_first.wait()
        made.append(tasks.create_task(new.send_to(app)))
        await new.sent_first.wait()
        await made[0]
        assert first.status == 503
        assert [each.done() for each in made] == [True, False, False, False]
        for each in (second, other, new):
            each.may_end.set()
    assert [each.status for each in (second, other, new)] == [200, 200, 200]
    for each in [Sender("ada", LARGE) for _ in range(3)]:  # all bytes have been released
        each.may_end.set()
        await each.send_to(app)
        assert each.status == 200
