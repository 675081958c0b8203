"""A thread that another one has made: how it hangs on that, and how it stands."""

from typing import Literal, TypeAlias

from toolwright.core.run import Side
from toolwright.core.value import value

ChildStatus: TypeAlias = Literal["running", "idle", "terminated", "failed"]
MUTE = "mute"
"""What stands in place of the call that waits for a child's end, once nobody is to be told of it."""


@value
class Link:
    """How a child thread hangs on its parent (S0 §5).

    One that is not `resumable` is over with its first session. Messages from the parent are for the side
    `receives`. With `implicit` the end of each session is told to the parent. The values of the names `hidden` are
    never shown to a model.
    """

    blocking: bool = True
    resumable: bool = False
    receives: Side = "side_a"
    implicit: bool = True
    hidden: tuple[str, ...] = ()
