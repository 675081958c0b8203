"""Child threads: the link to the parent, and the child's state."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Side
from toolwright.core.value import Value

ChildStatus: TypeAlias = Literal["running", "idle", "terminated", "failed"]
ChildEnd: TypeAlias = Literal[ChildStatus, "failed_for_good"]
"""End of a thread's last session. `failed_for_good` means that a child which ends with its session has failed."""
ENDED: tuple[ChildEnd, ...] = ("terminated", "failed_for_good")
"""Statuses of threads that accept no more messages."""
MUTE = "mute"
"""Stored in place of the call that waits for a child's end, once the parent must no longer be notified."""


class Link(Value):
    """The link of a child thread to its parent (S0 §5).

    A child that is not `resumable` ends with its first session. `receives` is the side that receives the parent's
    messages. With `implicit` the end of each session is reported to the parent. The values of the names `hidden` are
    never shown to a model. Its answer must match the schema `output`, if given (S1 `_delegate`).
    """

    blocking: bool = True
    resumable: bool = False
    receives: Side = "side_a"
    implicit: bool = True
    hidden: tuple[str, ...] = ()
    output: JSONObject | None = None


def link_json(link: Link) -> JSON:
    """Return a link as JSON, for the journal."""
    written: list[JSON] = [link.blocking, link.resumable, link.receives, link.implicit, [*link.hidden]]
    return written if link.output is None else [*written, link.output]


def link_from_json(written: JSON) -> Link:
    """Return the link that `link_json` wrote."""
    blocking, resumable, receives, implicit, hidden, *output = cast("list[Any]", written)  # as written above
    return Link(
        blocking=blocking,
        resumable=resumable,
        receives=receives,
        implicit=implicit,
        hidden=tuple(hidden),
        output=output[0] if output else None,
    )


class Child(Value):
    """A child thread, as the parent's tools see it."""

    reference: str
    name: str | None
    agent_id: str
    status: ChildStatus


class RelatedThread(Protocol):
    """Another thread of the thread tree, as seen by a handler: a child, or the parent."""

    @property
    def thread_id(self) -> str:
        """The thread's id, which is also the reference of a child."""
        ...

    @property
    def name(self) -> str | None:
        """The thread's name, or None."""
        ...

    @property
    def agent_id(self) -> str:
        """The id of the thread's agent."""
        ...

    @property
    def status(self) -> ChildStatus:
        """The status when the thread was looked up."""
        ...

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """Return the thread's messages, oldest first."""
        ...

    def queue_message(self, text: str) -> None:
        """Send a message to the thread, committed with the call's result. A busy thread reads it later."""
        ...
