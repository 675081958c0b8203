"""The calls of one more step of a run: Python functions and modules of Toolwright's, and the depth of the stack.

A typical step: nested arguments, ten tools, a result of some 300 characters. The numbers are allowed to fall.
"""

import gc
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import pytest
from bench.loop import app_of
from bench.shop import NESTED, find_products

import toolwright
from toolwright.testing import runtime

pytestmark = pytest.mark.anyio

FEW, MANY = 10, 30  # steps: the difference is the cost of the steps, without that of the run
RUNS = 25
FUNCTIONS, MODULES, DEPTH = 160, 41, 19
OURS = f"{toolwright.__path__[0]}/"


@dataclass
class Way:
    """The number of entries per function, and the greatest number of our functions on the stack.

    A coroutine counts once, however often it resumes: the number of its pauses depends on timing.
    """

    entered: list[str] = field(default_factory=list[str])
    depth: int = 0
    frames: set[FrameType] = field(default_factory=set[FrameType])

    def enter(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(OURS):
            return
        if frame in self.frames:
            return
        self.frames.add(frame)
        self.entered.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
        depth, above = 0, frame
        while above is not None:
            depth += above.f_code.co_filename.startswith(OURS)
            above = above.f_back
        self.depth = max(self.depth, depth)


@contextmanager
def way() -> Generator[Way]:
    entered = Way()
    before = sys.getprofile()
    gc.disable()  # otherwise garbage of other tests would be collected during the count
    sys.setprofile(entered.enter)
    try:
        yield entered
    finally:
        sys.setprofile(before)
        gc.enable()


async def _led(steps: int) -> tuple[Counter[str], int]:
    """Return how often runs of that many steps enter each function, and the depth: the minimum of several runs.

    The first run includes one-time costs. In any run of a busy machine the motor and others run in addition, and
    not in all of them the same ones.
    """
    ways: list[Way] = []
    async with runtime(app_of(steps, find_products, NESTED)) as rt:
        thread = await rt.threads.create("bench")
        await rt.runs.wait((await rt.threads.send(thread.id, "go")).id, 20)
        for _ in range(RUNS):
            thread = await rt.threads.create("bench")
            with way() as taken:
                await rt.runs.wait((await rt.threads.send(thread.id, "go")).id, 20)
            taken.frames.clear()
            ways.append(taken)
    counts = [Counter(each.entered) for each in ways]
    least = {name: min(each[name] for each in counts) for name in counts[0]}
    return Counter(least), min(each.depth for each in ways)


async def test_one_more_step_enters_few_functions_and_modules() -> None:
    (few, _), (many, depth) = await _led(FEW), await _led(MANY)
    # whole calls per step: occasional calls by the clock or a busy machine are less than half of one
    more = sum(round((count - few[name]) / (MANY - FEW)) for name, count in many.items())
    a_step = {name for name, count in many.items() if count >= few[name] + MANY - FEW}
    modules = {each.rpartition(":")[0] for each in a_step}
    assert (more <= FUNCTIONS, len(modules) <= MODULES, depth <= DEPTH) == (True, True, True), (
        f"{more} functions, {len(modules)} modules, {depth} deep"
    )
