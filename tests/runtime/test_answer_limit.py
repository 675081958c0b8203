"""How long an answer may take, on a loop whose time moves when the test says so."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from toolwright.core.errors import ModelUnavailable
from toolwright.runtime.abort import Abort
from toolwright.runtime.answer_limit import AnswerLimit


class Ahead(asyncio.SelectorEventLoop):
    """A loop that is so many seconds ahead."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def on_the_loop(body: Callable[[Ahead], Awaitable[None]]) -> None:
    loop = Ahead()
    try:
        loop.run_until_complete(body(loop))
    finally:
        loop.close()


async def _turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_model_that_says_something_in_time_may_go_on() -> None:
    async def body(loop: Ahead) -> None:
        limit = AnswerLimit(600, 3_600, Abort())
        async with limit.scope:
            for _ in range(5):
                loop.ahead += 599
                limit.progress()
                await _turn()
        limit.check()

    on_the_loop(body)


@pytest.mark.parametrize(("steps", "what"), [((608,), "silent"), ((599,) * 7, "not complete")])
def test_silence_and_a_long_answer_end_the_scope(steps: tuple[int, ...], what: str) -> None:
    async def body(loop: Ahead) -> None:
        limit = AnswerLimit(600, 3_600, Abort())
        with pytest.raises(TimeoutError):
            async with limit.scope:
                for step in steps:
                    loop.ahead += step
                    await _turn()
                    limit.progress()
        with pytest.raises(ModelUnavailable, match=what):
            limit.check()

    on_the_loop(body)


def test_an_abort_is_not_undone_by_what_the_model_says_after_it() -> None:
    async def body(loop: Ahead) -> None:
        abort = Abort()
        limit = AnswerLimit(600, 3_600, abort)
        with pytest.raises(TimeoutError):
            async with limit.scope:
                abort.within(limit.scope)
                loop.ahead += 60
                abort.set()
                limit.progress()
                await _turn()
        limit.check()

    on_the_loop(body)


def test_a_stream_of_small_events_does_not_set_the_timer_again_and_again() -> None:
    async def body(loop: Ahead) -> None:
        limit = AnswerLimit(600, 3_600, Abort())
        async with limit.scope:
            when = limit.scope.when()
            loop.ahead += 5
            limit.progress()
            assert limit.scope.when() == when
            loop.ahead += 5
            limit.progress()
            assert limit.scope.when() != when

    on_the_loop(body)
