"""The messages of a thread as a handler sees and changes them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.state import checks as given
from toolwright.core.text import brief
from toolwright.core.threads.message import Message
from toolwright.core.value import changed
from toolwright.runtime.env.redaction import clean_message
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.move import Injected

Speaker = Literal["user", "assistant"]


class Words:
    """What one call says in its thread, and what it changes there."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._injected: dict[str, Injected] = {}
        self._edits: dict[str, str] = {}

    def messages(self, limit: int, offset: int) -> Sequence[Message]:
        """The messages with what this call has said and changed, oldest first."""
        given.page(limit, offset)
        return tuple([self._edited(each) for each in self._all()[offset : offset + limit]])

    def message(self, message_id: str) -> Message | None:
        """One of them."""
        wanted = given.text("The id of a message", message_id)
        found = next((each for each in self._all() if each.id == wanted), None)
        return None if found is None else self._edited(found)

    def inject(self, content: str, role: str) -> str:
        """Say something with the call's result, in somebody's name; the new message's id."""
        if role not in get_args(Speaker):
            raise InvalidRequest(f"A message is the user's or the assistant's, not {brief_value(role)}.")
        message_id = self._hold.new_id("msg")
        speaker: Speaker = "user" if role == "user" else "assistant"
        self._injected[message_id] = Injected(message_id, speaker, given.message(content))
        return message_id

    def update(self, message_id: str, content: str) -> None:
        """Change what a message says, with the call's result."""
        if self.message(message_id) is None:
            raise NotFound(f"There is no message {brief(repr(message_id), 200)} in this thread.")
        text, said = given.text("A message", content), self._injected.get(message_id)
        if said is None:
            self._edits[message_id] = text
        else:
            self._injected[message_id] = replace(said, content=text)

    @property
    def injected(self) -> list[Injected]:
        """What is said with the call's result."""
        return [*self._injected.values()]

    @property
    def edits(self) -> list[Message]:
        """The changed messages as they are to be, without secrets."""
        found = [self.message(each) for each in self._edits]
        return [clean_message(each, self._hold.redactor) for each in found if each is not None]

    def _all(self) -> list[Message]:
        """What was said, and what this call says, which has no place yet."""
        there = self._hold.root.messages
        if not self._injected:
            return there
        known = {each.id for each in there}  # those of a call that is over are there
        return [*there, *[said(self._hold, each) for each in self._injected.values() if each.id not in known]]

    def _edited(self, message: Message) -> Message:
        content = self._edits.get(message.id)
        return message if content is None else changed(message, content=content, native=None)


def said(hold: Hold, injected: Injected, seq: int | None = None) -> Message:
    """An injected message at its place, if it has one."""
    return Message(
        id=injected.id,
        role=injected.role,
        content=injected.content,
        seq=seq,
        run_id=hold.run.id,
        step=hold.run.step_count,
        side=hold.side if injected.role == "assistant" else None,
        created_at=hold.clock.now(),
    )
