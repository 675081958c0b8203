"""What one more step of a run enters: Python functions and modules of Toolwright's, and how deep they call each other.

A step as users have it: nested arguments, ten tools, a result of some 300 characters. The numbers may fall.
"""

import gc
import sys
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

FEW, MANY = 10, 30  # steps: what both have in common is the run's, and not the step's
RUNS = 25  # on a machine under load the motor has its turn in most of them
FUNCTIONS, MODULES, DEPTH = 209, 52, 19
OURS = f"{toolwright.__path__[0]}/"


@dataclass
class Way:
    """The functions that were entered, and the greatest number of ours on the stack at once."""

    entered: list[str] = field(default_factory=list[str])
    depth: int = 0

    def enter(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(OURS):
            return
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
    gc.disable()  # what other tests have left would be ended on top of what is counted
    sys.setprofile(entered.enter)
    try:
        yield entered
    finally:
        sys.setprofile(before)
        gc.enable()


async def _led(steps: int) -> Way:
    """The shortest way of some runs: the first has made what is made once, in others the motor may have had a turn."""
    ways: list[Way] = []
    async with runtime(app_of(steps, find_products, NESTED)) as rt:
        thread = await rt.threads.create("bench")
        await rt.runs.wait((await rt.threads.send(thread.id, "go")).id, 20)
        for _ in range(RUNS):
            thread = await rt.threads.create("bench")
            with way() as taken:
                await rt.runs.wait((await rt.threads.send(thread.id, "go")).id, 20)
            ways.append(taken)
    return min(ways, key=lambda each: len(each.entered))


async def test_one_more_step_enters_few_functions_and_modules() -> None:
    few, many = await _led(FEW), await _led(MANY)
    more = (len(many.entered) - len(few.entered)) / (MANY - FEW)
    a_step = {
        each for each in many.entered if many.entered.count(each) >= few.entered.count(each) + MANY - FEW
    }
    modules = {each.rpartition(":")[0] for each in a_step}
    assert (more <= FUNCTIONS, len(modules) <= MODULES, many.depth <= DEPTH) == (True, True, True), (
        f"{more} functions, {len(modules)} modules, {many.depth} deep"
    )
