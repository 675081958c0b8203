"""What a handler may do only while its call is at work: once that is over, nothing that it writes would be kept."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from toolwright.runtime.hold.execution import RunExecution

Member = TypeVar("Member", bound=Callable[..., object])
Later = TypeVar("Later", bound=Callable[..., Coroutine[Any, Any, object]])  # whatever it yields


class Writing(Protocol):
    """What writes for a call."""

    @property
    def execution(self) -> RunExecution:
        """Where the call stands."""
        ...


def writes(member: Member) -> Member:
    """The same, which raises `InvalidRequest` once the call is over."""

    @wraps(member)
    def checked(state: Writing, *args: object, **named: object) -> object:
        state.execution.check()
        return member(state, *args, **named)

    return cast("Member", checked)  # it takes and gives what the member does


def writes_later(member: Later) -> Later:
    """The same for what waits; also if the call has ended meanwhile."""

    @wraps(member)
    async def checked(state: Writing, *args: object, **named: object) -> object:
        state.execution.check()
        written = await member(state, *args, **named)
        state.execution.check()
        return written

    return cast("Later", checked)  # as above
