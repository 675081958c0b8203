"""Conversations as sent to a model: the active side is the assistant, all other authors are users."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent, answer_in
from toolwright.core.agents.agent import Side as SideConfig
from toolwright.core.model import Model, ToolDefinition
from toolwright.core.requests.conversation import GO_ON
from toolwright.core.threads.call import UNSETTLED, Call
from toolwright.core.threads.compaction import (
    Compaction,
    SentText,
    compaction_for,
    message_tokens,
    shown,
    text_tokens,
)
from toolwright.core.threads.message import Decided, Message, Sent, StateReport
from toolwright.core.threads.run import Run, Side
from toolwright.core.threads.state_report import new_report
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.context.execution import RunExecution
from toolwright.wire.text import readable

A_MESSAGE = 1_000  # characters whose processing takes as long as the message itself
MAX_OFF = 5  # maximum factor between a provider's count and the estimate: larger differences are ignored


def arranged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with every call's result directly after it, in the order of the calls.

    Messages in between are moved after the results.
    """
    places: dict[str | None, int] = {}  # positions of the calls in the last answer
    open_calls: set[str | None] = set()
    results: list[Message] = []
    later: list[Message] = []
    in_order: list[Message] = []
    for message in messages:
        if message.role == "tool":
            open_calls.discard(message.call_id)
            results.append(message)
            continue
        if open_calls:
            later.append(message)
            continue
        in_order += [*_by_place(results, places), *later, message]
        results, later = [], []
        if message.role == "assistant":
            places = {call.id: place for place, call in enumerate(message.calls)}
            open_calls = {*places}
    return [*in_order, *_by_place(results, places), *later]


def _by_place(results: list[Message], places: Mapping[str | None, int]) -> list[Message]:
    """Return the results in the order of their calls: concurrent calls can be recorded in another order."""
    if len(results) > 1:
        results.sort(key=lambda each: places.get(each.call_id, len(places)))
    return results


class OtherSideCache:
    """Caches one side's view of the other side's messages between steps."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, Message | None]] = {}

    def user_message(
        self, message: Message, side: SideConfig | None, went_well: Container[str | None]
    ) -> Message | None:
        """Return the text of a message as a user message, or None if it has no text."""
        known = self._made.get(id(message))
        if known is None or known[0] is not message:
            words = _user_text(message, side, went_well)
            made = (
                changed(message, role="user", content=words, calls=(), native=None, state=None)
                if words
                else None
            )
            known = self._made[id(message)] = message, made
        return known[1]

    def forget(self, count: int) -> None:
        """Clear the cache if it is much larger than the conversation, which has `count` messages."""
        if len(self._made) > 2 * count + 100:
            self._made.clear()


def as_read_by_side(
    side: Side,
    messages: Iterable[Message],
    sides: Mapping[Side, SideConfig],
    seen: OtherSideCache | None = None,
) -> list[Message]:
    """Return the conversation as one side reads it: the other side's texts are user messages, without calls."""
    messages, known = [*messages], seen or OtherSideCache()
    went_well = {message.call_id for message in messages if message.status == "success"}
    read: list[Message] = []
    for message in messages:
        if message.role == "user" or message.side in (None, side):
            read.append(message)
        elif message.role == "assistant":
            words = known.user_message(message, sides.get(message.side or "side_a"), went_well)
            if words is not None:
                read.append(words)
    known.forget(len(messages))
    return read


def prompted(messages: list[Message], at: Message | None) -> list[Message]:
    """Return the messages with a user message added if the model wrote the last one: some models require it."""
    if at is None or at.role != "assistant" or at.calls:
        return messages
    return [*messages, changed(at, id=f"{at.id}.go", role="user", content=GO_ON, native=None)]


def as_read(
    messages: list[Message],
    active: ActiveAgent | None,
    *,
    is_arranged: bool = False,
    seen: OtherSideCache | None = None,
) -> list[Message]:
    """Return a thread's own conversation as sent to the model of the active agent.

    `is_arranged` states that each call is directly followed by its result. `seen` caches the other side's messages.
    """
    if not is_arranged:
        messages = arranged(messages)
    last = messages[-1] if messages else None
    has_sides = active is not None and len(active.sides) > 1
    if not has_sides and (last is None or last.role != "assistant"):
        return messages
    side = None if active is None else active.side
    if last is not None and last.role == "assistant" and last.side not in (None, side):
        last = None  # the other side has answered: its message is a user message
    if active is not None and has_sides:
        messages = as_read_by_side(active.side, messages, active.agent.sides, seen)
    return prompted(messages, last)


def as_formed(messages: list[Message], active: ActiveAgent | None) -> list[Message]:
    """Return the messages as the form of the agent's answers arranges them."""
    form = None if active is None else active.form
    return messages if form is None else form.as_sent(messages)


def _user_text(message: Message, side: SideConfig | None, went_well: Container[str | None]) -> str:
    """Return the text of a side's message, or of the tool call that ends its turn."""
    if side is None or side.stop_tool is None:
        return message.content
    for call in message.calls:
        if call.name == side.stop_tool and call.id in went_well:
            answer, has_answer = answer_in(call.arguments, side.stop_tool_response_property)
            if has_answer:
                return answer if isinstance(answer, str) else readable(answer)
    return message.content


_Shown: TypeAlias = tuple[object, object, int, list[Message]]
_Counted: TypeAlias = tuple[Sequence[Message], int]


def is_mixed(messages: Sequence[Message]) -> bool:
    """Return whether a message lies between a call and its result, or results are in another order than their calls."""
    return [each.id for each in arranged(messages)] != [each.id for each in messages]


@dataclass(slots=True)
class RequestParts:
    """Parts that the requests of a conversation share as long as its agent and its model stay the same.

    `budget` is the maximum number of tokens of a request. `digests` are those of the last system text and tools.
    """

    active: ActiveAgent
    model: Model
    budget: int | None
    system: str = ""
    tools: tuple[ToolDefinition, ...] | None = None
    digests: tuple[str, str] = ("", "")


@dataclass(slots=True)
class Frame:
    """A conversation: active agent, messages, and the calls of the last step; `open` calls have no answer yet.

    The frame of a prompt tool answers the call `call`, and begins with `opening`, which is not in the journal. The
    frame is `mixed` if a message lies between a call and its answer, or if answers are not in the order of the calls.

    The frame of a call that a handler makes is no conversation: it has that one call, made within `call`, with its
    `tools`. The handler is the `holder` and reads the result. It waits in memory, so that nothing suspends or ends the
    run in the meantime.

    `compactions` are the effective ones, by side. `sent` is the record of the last request, `texts` the texts that it
    refers to and that can be missing from the journal. `state_parts` is the agent's current state, or None for an agent
    without one, `state` what the last request reported of it. `parts` are what the last request shares with the next.
    `base` is a prompt tool's agent with the tools that are not available in the current step.
    `decided` is what the functions of the prompt have returned for the run `decided_for`, or None for a prompt without
    such functions; `text` is the system text that they returned, `told` are parts of the state that they returned.
    `is_over` means that a request exceeded the learned budget. `heard` caches each side's view of the other side's
    messages.
    """

    active: ActiveAgent | None
    messages: list[Message]
    calls: dict[str, Call]
    open: dict[str, Call]
    call: Call | None = None
    opening: tuple[Message, ...] = ()
    holder: RunExecution | None = None
    tools: Mapping[str, Tool] | None = None
    mixed: bool = False
    compactions: dict[str, Compaction] = field(default_factory=dict[str, Compaction])
    sent: Sent | None = None
    texts: tuple[SentText, ...] = ()
    state_parts: Mapping[str, str] | None = None
    state: StateReport | None = None
    parts: RequestParts | None = None
    base: ActiveAgent | None = None
    decided: Decided | None = None
    decided_for: str = ""
    text: str | None = None
    told: Mapping[str, str] | None = None
    is_over: bool = False
    heard: OtherSideCache = field(default_factory=OtherSideCache)
    _shown: dict[Side | None, _Shown] = field(default_factory=dict[Side | None, "_Shown"])
    _counted: dict[Side | None, _Counted] = field(default_factory=dict[Side | None, "_Counted"])

    @classmethod
    def create(
        cls,
        active: ActiveAgent | None,
        messages: Sequence[Message],
        calls: Iterable[Call],
        call: Call | None = None,
    ) -> "Frame":
        """Return a frame with these messages and calls, which answers `call`, or is the thread's own conversation."""
        frame = cls(active, [*messages], {}, {}, call)
        frame.begin(calls, {message.call_id for message in messages})
        frame.mixed = frame.mixed or is_mixed(messages)
        return frame

    @property
    def id(self) -> str | None:
        """The id of the call that the frame answers; None for the thread's own conversation."""
        return None if self.call is None else self.call.id

    def step(self, run: Run) -> int:
        """Return the number of the next answer's step. A prompt tool answers within the step that has called it."""
        return run.step_count + 1 if self.call is None else run.step_count

    @property
    def steps(self) -> int:
        """Number of steps in the conversation, for the frame of a prompt tool."""
        return sum(message.role == "assistant" for message in self.messages)

    @property
    def next_position(self) -> int:
        """Position of the next call: in the step, or counted from 1 in the whole conversation of a prompt tool."""
        if self.call is None:
            return len(self.calls)
        return sum(len(message.calls) for message in self.messages) + 1

    @property
    def turns(self) -> int:
        """Number of answers of the conversation's model."""
        return sum(message.role == "assistant" and message.by is not None for message in self.messages)

    def unanswered(self) -> list[Call]:
        """Return the calls of the step that have no answer yet, in order."""
        return [*self.open.values()]

    def begin(self, calls: Iterable[Call], answered: Container[str | None]) -> None:
        """Set the calls of the step, some of which are already `answered`."""
        self.calls, self.open = {}, {}
        for call in calls:
            self.calls[call.id] = call
            if call.id not in answered:
                self.open[call.id] = call
            elif self.open:
                self.mixed = True

    def put(self, call: Call) -> None:
        """Replace a call of the step by its new state."""
        self.calls[call.id] = call
        if call.id in self.open:
            self.open[call.id] = call
            if self.holder is not None and call.status not in UNSETTLED:  # no message answers it
                del self.open[call.id]

    def append(self, message: Message) -> None:
        """Append a committed message."""
        self.messages.append(message)
        if message.call_id is not None:
            if message.call_id != next(iter(self.open), None):  # an earlier call has no answer yet
                self.mixed = True
            self.open.pop(message.call_id, None)
        elif self.open:
            self.mixed = True

    # ── the messages that the model reads ───────────────────────────────────────────────────────────────────

    def compaction(self, side: Side | None) -> Compaction | None:
        """Return the compaction that applies to a side's view of the conversation, or None if nothing is left out."""
        return compaction_for(self.compactions.values(), side) if self.compactions else None

    def shown(self, side: Side | None) -> list[Message]:
        """Return the messages that a side's model reads. Processes only the messages added since the last time."""
        messages = self.messages
        if not self.compactions and not self.opening:
            return messages
        row = self.compaction(side)
        was, by, count, known = self._shown.get(side, (None, None, 0, []))
        if was is not messages or by is not row:
            known = shown([*self.opening, *messages], row)
        elif count < len(messages):
            known += messages[count:]
        self._shown[side] = messages, row, len(messages), known
        return known

    def count(self, messages: Sequence[Message], side: Side | None) -> int:
        """Return the estimated tokens of the messages of a side's request.

        If the request begins with the messages of the side's previous request, only the new messages are processed.
        """
        counted = self.count_at_once(messages, side, most=None)
        assert counted is not None, "nothing is too much"
        return counted

    def count_at_once(
        self, messages: Sequence[Message], side: Side | None, *, most: int | None
    ) -> int | None:
        """Return the same as `count`, or None if more than `most` characters would have to be processed."""
        known, total = self._counted.get(side, ((), 0))
        # equality compares two messages that are one object without looking into them
        if known != messages[: len(known)]:
            known, total = (), 0
        new, length = messages[len(known) :], 0
        for message in new if most is not None else ():
            length += len(message.content) + A_MESSAGE
            for call in message.calls:
                length += len(call.arguments)
        if most is not None and length > most:
            return None
        total += sum(map(message_tokens, new))
        self._counted[side] = messages, total
        return total

    def report(self, agent_id: str, messages: Sequence[Message]) -> StateReport | None:
        """Return the report of the agent's state after these messages, or None for an agent without one."""
        return None if self.state_parts is None else new_report(agent_id, self.state_parts, messages)

    @property
    def state_tokens(self) -> int:
        """The estimated tokens of the agent's whole state."""
        return sum(map(text_tokens, (self.state_parts or {}).values()))

    def factor(self, side: Side | None) -> float:
        """Return the ratio of the provider's token count to the estimate in a side's last request, or 1 if unknown."""
        last = None
        for each in reversed(self.messages):
            if each.sent is not None and each.side in (None, side):
                last = each.sent
                break
        if last is None or not last.tokens or not last.counted:
            return 1.0
        factor = last.counted / last.tokens
        return min(max(factor, 0.25), 4.0) if 1 / MAX_OFF <= factor <= MAX_OFF else 1.0
