"""Counts of Python calls: the cost of a code path, without a clock."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import toolwright

_OURS = toolwright.__path__[0]


@contextmanager
def calls_of_ours() -> Generator[list[str]]:
    """Yield the names of Toolwright's functions that this thread enters within the block, in order."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_OURS):
            names.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(before)
