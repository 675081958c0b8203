"""One conversation with a model within a run: the thread's own, or that of a prompt tool."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.runtime.context.conversation import arranged
from toolwright.runtime.context.execution import RunExecution


@dataclass(slots=True)
class Frame:
    """A conversation within a call: speaker, messages, and the calls of the last step; `open` ones lack an answer.

    That of a prompt tool answers the call `call`, and begins with `opening`, which is no part of the journal. If a
    handler has made that call, it is its `holder`, and waits for the `answer` in memory: nothing in the conversation
    then parks the run or ends it. It is `mixed` if something was said between a call and its answer.
    """

    active: ActiveAgent | None
    messages: list[Message]
    calls: dict[str, Call]
    open: dict[str, Call]
    call: Call | None = None
    opening: tuple[Message, ...] = ()
    holder: RunExecution | None = None
    answer: ToolResult | None = None
    mixed: bool = False

    @classmethod
    def of(cls, active: ActiveAgent | None, messages: Sequence[Message], calls: Iterable[Call]) -> "Frame":
        """The frame of these messages."""
        frame = cls(active, [*messages], {}, {})
        frame.begin(calls, {message.call_id for message in messages})
        frame.mixed = [m.id for m in arranged(messages)] != [m.id for m in messages]
        return frame

    @property
    def id(self) -> str | None:
        """The id of the call that it answers, None for the thread's own."""
        return None if self.call is None else self.call.id

    @property
    def steps(self) -> int:
        """Number of steps in it, for the frame of a prompt tool."""
        return sum(message.role == "assistant" for message in self.messages)

    @property
    def turns(self) -> int:
        """Number of its model's answers."""
        return sum(message.role == "assistant" and message.by is not None for message in self.messages)

    def unanswered(self) -> list[Call]:
        """The calls of the step that the model has no answer to yet, in order."""
        return [*self.open.values()]

    def begin(self, calls: Iterable[Call], answered: Container[str | None]) -> None:
        """A step has made these calls, some of which are `answered` already."""
        self.calls, self.open = {}, {}
        for call in calls:
            self.calls[call.id] = call
            if call.id not in answered:
                self.open[call.id] = call

    def put(self, call: Call) -> None:
        """A call of the step stands otherwise now."""
        self.calls[call.id] = call
        if call.id in self.open:
            self.open[call.id] = call

    def take(self, message: Message) -> None:
        """A message has been said in it."""
        self.messages.append(message)
        if message.call_id is not None:
            self.open.pop(message.call_id, None)
        elif self.open:
            self.mixed = True
