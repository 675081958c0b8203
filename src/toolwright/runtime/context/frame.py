"""One conversation with a model within a run: the thread's own, or that of a prompt tool."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import is_
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import (
    Compaction,
    SentText,
    compaction_for,
    message_digest,
    message_tokens,
    shown,
)
from toolwright.core.threads.message import Message, Sent
from toolwright.core.threads.run import Side
from toolwright.runtime.context.conversation import Heard, arranged
from toolwright.runtime.context.execution import RunExecution

_Shown: TypeAlias = tuple[object, object, int, list[Message]]
_Counted: TypeAlias = tuple[Sequence[Message], bool, int, "blake2b"]
_NOTHING_COUNTED: _Counted = ((), False, 0, blake2b(digest_size=16))
A_MESSAGE = 1_000  # characters that take as long as a message itself
MOST_OFF = 5  # times that a provider's count may differ from the estimate: one further off is not believed


def is_mixed(messages: Sequence[Message]) -> bool:
    """Return whether something was said between a call and its result, or results are in another order."""
    return [each.id for each in arranged(messages)] != [each.id for each in messages]


@dataclass(slots=True)
class Frame:
    """A conversation within a call: speaker, messages, and the calls of the last step; `open` ones lack an answer.

    That of a prompt tool answers the call `call`, and begins with `opening`, which is no part of the journal. If a
    handler has made that call, it is its `holder`, and waits for the `answer` in memory: nothing in the conversation
    then parks the run or ends it. It is `mixed` if something was said between a call and its answer, or if answers are
    not in the order of the calls.

    `compactions` are those in force, by side. `sent` is the record of the last request, `texts` those that it refers to
    and that may not be in the journal. `printed` are a system text and tools, with the digests of their parts;
    `budget` is the most tokens of a request of an agent to a model; `is_over` says that one was sent that is longer
    than what was learned of it. `heard` is what the sides have heard of each other.
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
    compactions: dict[str, Compaction] = field(default_factory=dict[str, Compaction])
    sent: Sent | None = None
    texts: tuple[SentText, ...] = ()
    printed: tuple[object, object, tuple[str, str, str]] = (None, None, ("", "", ""))
    budget: tuple[object, object, int | None] = (None, None, None)
    is_over: bool = False
    heard: Heard = field(default_factory=Heard)
    _shown: dict[Side | None, _Shown] = field(default_factory=dict[Side | None, "_Shown"])
    _counted: dict[Side | None, _Counted] = field(default_factory=dict[Side | None, "_Counted"])

    @classmethod
    def of(cls, active: ActiveAgent | None, messages: Sequence[Message], calls: Iterable[Call]) -> "Frame":
        """The frame of these messages."""
        frame = cls(active, [*messages], {}, {})
        frame.begin(calls, {message.call_id for message in messages})
        frame.mixed = frame.mixed or is_mixed(messages)
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
            elif self.open:
                self.mixed = True

    def put(self, call: Call) -> None:
        """A call of the step stands otherwise now."""
        self.calls[call.id] = call
        if call.id in self.open:
            self.open[call.id] = call

    def take(self, message: Message) -> None:
        """A message has been said in it."""
        self.messages.append(message)
        if message.call_id is not None:
            if message.call_id != next(iter(self.open), None):  # one of those before it is waited for
                self.mixed = True
            self.open.pop(message.call_id, None)
        elif self.open:
            self.mixed = True

    # ── what its model is shown ─────────────────────────────────────────────────────────────────────────────

    def compaction(self, side: Side | None) -> Compaction | None:
        """Return the compaction by which a side reads the conversation, None if nothing is left out."""
        return compaction_for(self.compactions.values(), side) if self.compactions else None

    def shown(self, side: Side | None) -> list[Message]:
        """Return the messages that the model of a side is shown. Only what is new since the last time is looked at."""
        row = self.compaction(side)
        if row is None and not self.opening:
            return self.messages
        messages = self.messages
        was, by, count, known = self._shown.get(side, (None, None, 0, []))
        if was is not messages or by is not row:
            known = shown([*self.opening, *messages], row)
        elif count < len(messages):
            known += messages[count:]
        self._shown[side] = messages, row, len(messages), known
        return known

    def count(self, messages: Sequence[Message], side: Side | None, *, tokens: bool) -> tuple[int, str]:
        """Return the estimated tokens of the messages of a side's request, 0 unless asked for, and their digest.

        Only those that follow the ones of its last request are looked at, if that began with the same.
        """
        counted = self.count_at_once(messages, side, tokens=tokens, most=None)
        assert counted is not None, "nothing is too much"
        return counted

    def count_at_once(
        self, messages: Sequence[Message], side: Side | None, *, tokens: bool, most: int | None
    ) -> tuple[int, str] | None:
        """Return the same, or None if more than `most` characters are to be looked at."""
        known, was_counted, total, digest = self._counted.get(side, _NOTHING_COUNTED)
        same = len(known) <= len(messages) and was_counted == tokens and all(map(is_, known, messages))
        if not (known and same):  # the digest that a frame begins with is every frame's
            known, total, digest = (), 0, blake2b(digest_size=16)
        new, length = messages[len(known) :], 0
        for message in new if most is not None else ():
            length += len(message.content) + A_MESSAGE
            for call in message.calls:
                length += len(call.arguments)
        if most is not None and length > most:
            return None
        for message in new:
            digest.update(message_digest(message))
            total += message_tokens(message) if tokens else 0
        self._counted[side] = messages, tokens, total, digest
        return total, digest.hexdigest()

    def factor(self, side: Side | None) -> float:
        """Return the tokens that a provider counted in a side's last request for each estimated one, 1 if unknown."""
        last = None
        for each in reversed(self.messages):
            if each.sent is not None and each.side in (None, side):
                last = each.sent
                break
        if last is None or not last.tokens or not last.counted:
            return 1.0
        factor = last.counted / last.tokens
        return min(max(factor, 0.25), 4.0) if 1 / MOST_OFF <= factor <= MOST_OFF else 1.0
