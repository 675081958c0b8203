"""Changes: what one unit of a drain is to contain, while it is put together; and what it does to its step and run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from toolwright.core.env.env import EnvChange
from toolwright.core.files.file import FileChange
from toolwright.core.journal.units import Advance, Leaving
from toolwright.core.json_value import JSON
from toolwright.core.threads.call import Call, CallChange
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import InboxChange
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, RunStatus, Step, StopReason
from toolwright.core.value import changed, value
from toolwright.runtime.spaces.showing import Intended

_empty = cast("Callable[[], Any]", list)  # of whatever its field says
"""A new list for whatever its field holds: `list[T]()` takes ten times as long, a few times at every step."""
_empty_dict = cast("Callable[[], Any]", dict)


@dataclass(frozen=True, slots=True)
class Injected:
    """A message that a handler says in the thread with its result."""

    id: str
    role: Literal["user", "assistant"]
    content: str


@dataclass(slots=True, kw_only=True)
class Changes:
    """The changes that one unit of a drain is to contain, while they are put together.

    `whole` are the results, by their calls, of which the records have the beginning and a file the rest.
    """

    messages: list[Message] = field(default_factory=_empty)
    calls: dict[str, Call] = field(default_factory=_empty_dict)
    call_changes: list[CallChange] = field(default_factory=_empty)
    events: list[EventDraft] = field(default_factory=_empty)
    step: Step | None = None
    read: tuple[str, ...] = ()
    nested: tuple[Call, ...] = ()
    edited: tuple[Message, ...] = ()
    injected: Sequence[Injected] = ()
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    inbox: tuple[InboxChange, ...] = ()
    effects: tuple[Intended, ...] = ()
    shown: Mapping[str, str] | None = None
    whole: Mapping[str, JSON] | None = None
    dropped: tuple[int, ...] = ()
    leaving: Leaving | None = None

    def show(self, call_id: str, space_id: str) -> None:
        """The call is shown in that space from now on."""
        self.shown = {**(self.shown or {}), call_id: space_id}

    def copy(self) -> "Changes":
        """The changes as they are, to be tried again from here."""
        return changed(
            self,
            messages=[*self.messages],
            calls={**self.calls},
            call_changes=[*self.call_changes],
            events=[*self.events],
        )


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run. `fault` tells what made it fail: the model, or anything else, which may be what it read.

    `reason` is the agent's own, for a run that it skips. A thread that is `terminated` with it has no later run.
    """

    status: RunStatus
    stop_reason: StopReason | None = None
    error: str | None = None
    fault: Literal["model", "batch"] = "batch"
    reason: str | None = None
    terminated: bool = False
    error_code: str | None = None


@value
class Next:
    """The next commit of a run: a unit of that kind with these changes, and the run's row after it.

    `ends_step`: all calls of the step are answered with it. `end`: so the run ends with it, unless a message or a
    cancel has come between; if it is `forced`, it ends also then.
    """

    kind: Callable[..., Advance]
    changes: Changes
    run: Run
    ends_step: bool = False
    end: End | None = None
    forced: bool = False
