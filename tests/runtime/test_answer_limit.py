"""The time limit of an answer, on a loop whose time the test controls."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from tests.ahead import Ahead
from toolwright.core.concurrency import Supervision
from toolwright.core.errors import ModelUnavailable
from toolwright.core.model import AttemptStarted, TextDelta
from toolwright.runtime.context.execution import Cancellation
from toolwright.runtime.model.ask import AnswerLimit


def on_the_loop(body: Callable[[Ahead], Awaitable[None]]) -> None:
    loop = Ahead()
    try:
        loop.run_until_complete(body(loop))
    finally:
        loop.close()


async def ended(work: Coroutine[Any, Any, None], limit: AnswerLimit) -> bool:
    """Whether it ends by itself within the limit."""
    supervised = Supervision(work, "model")
    limit.begin(supervised)
    in_time = await supervised.end()
    if in_time:
        supervised.result()
    return in_time


async def _turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_model_that_says_something_in_time_may_go_on() -> None:
    async def body(loop: Ahead) -> None:
        limit = AnswerLimit(600, 3_600, Cancellation())

        async def speak() -> None:
            for _ in range(5):
                loop.ahead += 599
                assert limit.progress(TextDelta("a"))
                await _turn()

        assert await ended(speak(), limit)

    on_the_loop(body)


def test_the_pause_before_another_attempt_is_no_silence() -> None:
    async def body(loop: Ahead) -> None:
        limit = AnswerLimit(600, 3_600, Cancellation())

        async def speak() -> None:
            assert limit.progress(AttemptStarted(number=2, pause=60.0))
            loop.ahead += 650
            await _turn()
            assert limit.progress(TextDelta("a"))

        assert await ended(speak(), limit)

    on_the_loop(body)


@pytest.mark.parametrize(("steps", "what"), [((608,), "sent nothing"), ((599,) * 7, "not complete")])
def test_silence_and_a_long_answer_end_the_scope(steps: tuple[int, ...], what: str) -> None:
    async def body(loop: Ahead) -> None:
        limit = AnswerLimit(600, 3_600, Cancellation())

        async def speak() -> None:
            for step in steps:
                loop.ahead += step
                await _turn()
                limit.progress(TextDelta("a"))

        assert not await ended(speak(), limit)
        with pytest.raises(ModelUnavailable, match=what):
            limit.check()

    on_the_loop(body)


def test_an_abort_is_not_undone_by_what_the_model_says_after_it() -> None:
    async def body(loop: Ahead) -> None:
        abort = Cancellation()
        limit = AnswerLimit(600, 3_600, abort)

        async def speak() -> None:
            loop.ahead += 60
            abort.set()
            limit.progress(TextDelta("a"))
            await _turn()

        assert not await ended(speak(), limit)
        limit.check()

    on_the_loop(body)


def test_a_stream_of_small_events_does_not_set_the_timer_repeatedly() -> None:
    async def body(loop: Ahead) -> None:
        limit = AnswerLimit(600, 3_600, Cancellation())

        async def speak() -> None:
            timers = loop.timers
            for _ in range(100):
                loop.ahead += 7
                assert limit.progress(TextDelta("a"))
            assert loop.timers == timers

        assert await ended(speak(), limit)

    on_the_loop(body)
