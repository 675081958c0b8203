"""Conversations as a model reads them: a side sees itself as the assistant, all others as users."""

from collections.abc import Container, Iterable, Mapping, Sequence

from toolwright.core.agents.active import ActiveAgent, answer_in
from toolwright.core.agents.agent import Side as SideConfig
from toolwright.core.env.redact import Redactor
from toolwright.core.requests.conversation import GO_ON
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Side
from toolwright.core.value import changed
from toolwright.wire.text import readable


def arranged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with every call's result right behind it, in the order of the calls.

    What came between goes behind the results.
    """
    places: dict[str | None, int] = {}  # of the last answer's calls in it
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
    """Return the results in the order of their calls: those that ran at once can be recorded in another one."""
    if len(results) > 1:
        results.sort(key=lambda each: places.get(each.call_id, len(places)))
    return results


class Heard:
    """Cache of what one side hears of the other's messages, so that none is made again at each step."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, Message | None]] = {}

    def of(
        self, message: Message, side: SideConfig | None, went_well: Container[str | None]
    ) -> Message | None:
        """Return the words of a message as a user's, or None if it has none."""
        known = self._made.get(id(message))
        if known is None or known[0] is not message:
            words = _words(message, side, went_well)
            made = changed(message, role="user", content=words, calls=(), native=None) if words else None
            known = self._made[id(message)] = message, made
        return known[1]

    def forget(self, count: int) -> None:
        """Forget what was heard if that is much more than the conversation's messages, of which there are so many."""
        if len(self._made) > 2 * count + 100:
            self._made.clear()


def heard_by(
    side: Side, messages: Iterable[Message], sides: Mapping[Side, SideConfig], heard: Heard | None = None
) -> list[Message]:
    """The conversation as one side of an agent with two hears it: of the other one the words, not the calls."""
    messages, known = [*messages], heard or Heard()
    went_well = {message.call_id for message in messages if message.status == "success"}
    read: list[Message] = []
    for message in messages:
        if message.role == "user" or message.side in (None, side):
            read.append(message)
        elif message.role == "assistant":
            words = known.of(message, sides.get(message.side or "side_a"), went_well)
            if words is not None:
                read.append(words)
    known.forget(len(messages))
    return read


def prompted(messages: list[Message], at: Message | None) -> list[Message]:
    """A model that has spoken last and is to go on is told so: some answer nobody but a user."""
    if at is None or at.role != "assistant" or at.calls:
        return messages
    return [*messages, changed(at, id=f"{at.id}.go", role="user", content=GO_ON, native=None)]


def as_read(
    messages: list[Message],
    active: ActiveAgent | None,
    *,
    is_arranged: bool = False,
    heard: Heard | None = None,
) -> list[Message]:
    """Return a thread's own conversation as the model of the active agent reads it.

    If it `is_arranged`, no message lies in it between a call and its result. `heard` is what its side has heard before.
    """
    if not is_arranged:
        messages = arranged(messages)
    last = messages[-1] if messages else None
    has_sides = active is not None and len(active.sides) > 1
    if not has_sides and (last is None or last.role != "assistant"):
        return messages
    side = None if active is None else active.side
    if last is not None and last.role == "assistant" and last.side not in (None, side):
        last = None  # the other side has spoken: that is heard as a user
    if active is not None and has_sides:
        messages = heard_by(active.side, messages, active.agent.sides, heard)
    return prompted(messages, last)


def as_formed(messages: list[Message], active: ActiveAgent | None, redactor: Redactor) -> list[Message]:
    """Return the messages as the form of the agent's answers has them, those without secrets that are none of the
    journal's.
    """
    form = None if active is None else active.form
    if form is None:
        return messages
    messages = form.heard(messages)
    if not redactor.secrets:
        return messages
    return [
        message if message.seq is not None else changed(message, content=redactor.text(message.content))
        for message in messages
    ]


def _words(message: Message, side: SideConfig | None, went_well: Container[str | None]) -> str:
    """Words of a side, also those of the tool that ends its turn."""
    if side is None or side.stop_tool is None:
        return message.content
    for call in message.calls:
        if call.name == side.stop_tool and call.id in went_well:
            answer, has_answer = answer_in(call.arguments, side.stop_tool_response_property)
            if has_answer:
                return answer if isinstance(answer, str) else readable(answer)
    return message.content
