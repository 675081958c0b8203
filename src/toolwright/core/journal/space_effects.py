"""Effects on spaces and on the context of threads: messages, reactions, members; compactions, pins and hidden messages.

Each is a rule: the row operations that it consists of, and its preconditions.
"""

from datetime import datetime
from typing import TypeAlias

from toolwright.core.journal.rows import (
    Add,
    Clear,
    Delete,
    Find,
    GuardFailed,
    More,
    Most,
    Move,
    Not,
    Put,
    RowEffect,
    Rule,
    Sweep,
    Swept,
)
from toolwright.core.spaces import Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Value, changed

SPACE = "space:"
"""Prefix of the note of a deleted space (`Sweep`)."""
UNCHANGED = -1
"""Result of a rule on a space that has found nothing to change: its events are left out."""


class Source(Value):
    """The run that causes an event of a space; empty for actions of people and services."""

    thread_id: str | None = None
    run_id: str | None = None
    agent: str | None = None


NO_SOURCE = Source()


class SpaceEffect(Value):
    """Base of effects on a space: its id, the source, and the events for its followers."""

    space_id: str
    source: Source = NO_SOURCE
    events: tuple[EventDraft, ...] = ()

    def rule(self, at: datetime) -> Rule[int | None]:
        """Yield the row operations: none, unless the effect changes more than its events say.

        Returns the position of the message that it writes, None, or `UNCHANGED`.
        """
        yield []
        return None


class Announce(SpaceEffect):
    """Publish events to the space's followers without any other change."""


class Post(SpaceEffect):
    """Post a message at the next position of the space; its events get that `seq`.

    `revision` is the membership revision for which `deliveries` were built, or None if it does not matter. With
    `joining` the author becomes a member, unless already one.
    """

    message: SpaceMessage
    revision: int | None = None
    deliveries: tuple[Delivery, ...] = ()
    joining: Member | None = None

    def rule(self, at: datetime) -> Rule[int | None]:
        space = {"id": self.space_id}
        expected = space if self.revision is None else {**space, "revision": self.revision}
        counted = {"seq": More(by=1)}
        [row] = yield Move(kind=Space, where=expected, fields=counted, returns=("seq",), guard="space")
        if self.joining is not None and (yield Add(record=self.joining, guard=None)):
            yield _revise(self.space_id)
        yield Put(record=changed(self.message, seq=row.seq))
        return int(row.seq)


class Edit(SpaceEffect):
    """Update a message's content and metadata. Conflict: `message`, if it does not exist.

    With `if_there` a missing message is ignored: the message of a call can be deleted while the call runs.
    """

    message: SpaceMessage
    if_there: bool = False

    def rule(self, at: datetime) -> Rule[int | None]:
        new = self.message
        rows = yield Move(
            kind=SpaceMessage,
            where={"id": new.id, "space_id": self.space_id},
            fields={"content": new.content, "metadata": new.metadata, "edited_at": new.edited_at},
            returns=("seq",),
            guard=None if self.if_there else "message",
        )
        return rows[0].seq if rows else UNCHANGED


class Erase(SpaceEffect):
    """Delete a message with its reactions. Conflict: `message`, if it does not exist."""

    message_id: str

    def rule(self, at: datetime) -> Rule[int | None]:
        key = {"id": self.message_id, "space_id": self.space_id}
        yield Clear(kind=SpaceMessage, where=key, guard="message")
        yield Clear(kind=Reaction, where={"message_id": self.message_id})
        return None


class React(SpaceEffect):
    """Add a reaction of an entity to a message, once for each emoji."""

    reaction: Reaction

    def rule(self, at: datetime) -> Rule[int | None]:
        key = {"id": self.reaction.message_id, "space_id": self.space_id}
        yield Find(kind=SpaceMessage, where=key, columns=("id",), lock="update", guard="message")
        is_new = yield Add(record=self.reaction, guard=None)
        return None if is_new else UNCHANGED


class Unreact(SpaceEffect):
    """Remove an entity's reaction, if it exists."""

    message_id: str
    entity_id: str
    emoji: str

    def rule(self, at: datetime) -> Rule[int | None]:
        key = {"message_id": self.message_id, "entity_id": self.entity_id, "emoji": self.emoji}
        rows = yield Clear(kind=Reaction, where=key, returns=("emoji",))
        return None if rows else UNCHANGED


class SaveSpace(SpaceEffect):
    """Insert or update a space. In an update, `was` must be the stored row."""

    space: Space
    was: Space | None = None

    def rule(self, at: datetime) -> Rule[int | None]:
        new = self.space
        if self.was is None:
            yield Add(record=new)
            if (yield Swept(note=SPACE + self.space_id)):
                raise GuardFailed("duplicate")  # rows of a deleted space with that id are not deleted yet
            return None
        names = ("name", "description", "metadata", "delivery", "updated_at")
        fields = {name: getattr(new, name) for name in names}
        where = {"id": self.space_id, "updated_at": self.was.updated_at}
        yield Move(kind=Space, where=where, fields=fields, guard="space")
        return None


class DropSpace(SpaceEffect):
    """Delete a space with its members, messages and reactions."""

    def rule(self, at: datetime) -> Rule[int | None]:
        yield Clear(kind=Space, where={"id": self.space_id}, guard="space")
        yield Sweep(note=SPACE + self.space_id, at=at)
        yield Clear(kind=Member, where={"space_id": self.space_id})
        return None


class SaveMember(SpaceEffect):
    """Add an entity to a space, or change its role. `revision` is the expected revision of the membership."""

    member: Member
    revision: int

    def rule(self, at: datetime) -> Rule[int | None]:
        where = {"id": self.space_id, "revision": self.revision}
        yield Move(kind=Space, where=where, fields={"revision": More(by=1)}, guard="space")
        yield Put(record=self.member)
        return None


class DropMember(SpaceEffect):
    """Remove an entity from a space."""

    entity_id: str

    def rule(self, at: datetime) -> Rule[int | None]:
        yield _revise(self.space_id)
        yield Delete(kind=Member, key=(self.space_id, self.entity_id), guard="member")
        return None


class MarkRead(SpaceEffect):
    """Set the position up to which a member has read. It never moves back."""

    entity_id: str
    seq: int

    def rule(self, at: datetime) -> Rule[int | None]:
        where = {"space_id": self.space_id, "entity_id": self.entity_id}
        yield Move(kind=Member, where=where, fields={"read_seq": Most(value=self.seq)}, guard="member")
        return None


def _revise(space_id: str) -> Move:
    """Return the operation that counts a change of a space's membership."""
    return Move(kind=Space, where={"id": space_id}, fields={"revision": More(by=1)}, guard="space")


class Enter(RowEffect):
    """Set the thread's active space; None clears it. Conflict: `thread`, if the thread does not exist."""

    thread_id: str
    space_id: str | None

    def rule(self, at: datetime) -> Rule[None]:
        entered = {"space_id": self.space_id}
        yield Move(kind=Thread, where={"id": self.thread_id}, fields=entered, guard="thread")


class Compact(RowEffect):
    """Shorten a conversation as sent to a model. Conflict: `compaction`, if that number exists.

    `cut` is the position in the thread up to which messages no longer need to be read, or None to leave it unchanged.
    With `told`, a worker that executes a run of the thread re-reads the compaction.
    """

    compaction: Compaction
    cut: int | None = None
    told: bool = False

    def rule(self, at: datetime) -> Rule[None]:
        cut = {} if self.cut is None else {"cut": self.cut}
        counted = {"compacted": More(by=1), "posted": More(by=int(self.told)), **cut}
        yield Move(kind=Thread, where={"id": self.compaction.thread_id}, fields=counted, guard="thread")
        yield Add(record=self.compaction, guard="compaction")


class KeepTexts(RowEffect):
    """Store texts that were sent to a model. Existing texts with the same thread and digest are kept."""

    texts: tuple[SentText, ...]

    def rule(self, at: datetime) -> Rule[None]:
        yield [Add(record=each, guard=None) for each in self.texts]


class Pin(RowEffect):
    """Set whether a message of a thread's top-level conversation is included in every request.

    A worker that executes a run of the thread re-reads the pinned messages. Conflict: `message`, if the message does
    not exist, if its run was skipped, or if `most` others are pinned already.
    """

    thread_id: str
    seq: int
    pinned: bool
    most: int

    def rule(self, at: datetime) -> Rule[None]:
        place = {"thread_id": self.thread_id, "seq": self.seq, "within": None}
        yield Move(kind=Thread, where={"id": self.thread_id}, fields={"posted": More(by=1)}, guard="thread")
        if self.pinned:
            place["kept"] = True
            others = {"thread_id": self.thread_id, "pinned": True, "kept": True, "seq": Not(value=self.seq)}
            if len((yield Find(kind=Message, where=others, columns=("seq",)))) >= self.most:
                raise GuardFailed("message")
        yield Move(kind=Message, where=place, fields={"pinned": self.pinned}, guard="message")


class Hide(RowEffect):
    """Leave messages of a thread's top-level conversation out of all requests, or send them again if `by` is None.

    Conflict: `message`, if one of them does not exist, if its run was skipped, or if it is hidden, or shown, already.
    """

    thread_id: str
    seqs: tuple[int, ...]
    by: str | None = None

    def rule(self, at: datetime) -> Rule[None]:
        is_shown = self.by is None
        yield Move(kind=Thread, where={"id": self.thread_id}, fields={"hides": More(by=1)}, guard="thread")
        state = {"hidden_by": Not(value=None)} if is_shown else {"kept": True}
        fields = {"kept": is_shown, "hidden_by": self.by}
        for seq in self.seqs:
            place = {"thread_id": self.thread_id, "seq": seq, "within": None}
            yield Move(kind=Message, where={**place, **state}, fields=fields, guard="message")


ContextEffect: TypeAlias = Compact | Hide | KeepTexts | Pin
"""Effects on the requests sent to the models of a thread."""
