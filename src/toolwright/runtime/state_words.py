"""The messages of a thread as a handler sees and changes them."""

from collections.abc import Sequence
from typing import Literal, get_args

from toolwright.core.content import AttachmentRef
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.message import Message
from toolwright.core.plain import unwritable
from toolwright.core.value import changed
from toolwright.runtime.hold import Hold
from toolwright.runtime.move import Injected
from toolwright.runtime.redaction import clean_message

Speaker = Literal["user", "assistant"]


class Words:
    """What one call says in its thread, and what it changes there."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self.injected: list[Injected] = []
        self._edits: dict[str, str] = {}

    def messages(self, limit: int, offset: int) -> Sequence[Message]:
        """The messages with what this call has changed, oldest first."""
        chosen = self._hold.root.messages[offset : offset + limit]
        return tuple([self._edited(each) for each in chosen])

    def message(self, message_id: str) -> Message | None:
        """One of them."""
        found = next((each for each in self._hold.root.messages if each.id == message_id), None)
        return None if found is None else self._edited(found)

    def inject(self, content: str, role: str) -> str:
        """Say something with the call's result, in somebody's name; the new message's id."""
        if role not in get_args(Speaker):
            raise InvalidRequest(f"A message is the user's or the assistant's, not {role!r}.")
        message_id = self._hold.new_id("msg")
        self.injected.append(
            Injected(message_id, "user" if role == "user" else "assistant", _checked(content))
        )
        return message_id

    def update(self, message_id: str, content: str) -> None:
        """Change what a message says, with the call's result."""
        if self.message(message_id) is None:
            raise NotFound(f"There is no message {message_id!r} in this thread.")
        self._edits[message_id] = _checked(content)

    @property
    def edits(self) -> list[Message]:
        """The changed messages as they are to be, without secrets."""
        found = [self.message(each) for each in self._edits]
        return [clean_message(each, self._hold.redactor) for each in found if each is not None]

    def _edited(self, message: Message) -> Message:
        content = self._edits.get(message.id)
        return message if content is None else changed(message, content=content, native=None)


def said(hold: Hold, given: Injected, seq: int, refs: Sequence[AttachmentRef] = ()) -> Message:
    """An injected message at its place."""
    return Message(
        id=given.id,
        role=given.role,
        content=given.content,
        seq=seq,
        run_id=hold.run.id,
        step=hold.run.step_count,
        side=hold.side if given.role == "assistant" else None,
        attachments=tuple(refs),
        created_at=hold.clock.now(),
    )


def _checked(content: str) -> str:
    if not isinstance(content, str) or unwritable(content):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise InvalidRequest("A message is text without NUL or lone surrogates.")
    return content
