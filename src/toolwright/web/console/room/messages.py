"""The messages on the page of a space."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from nicegui.element import Element

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.runtime.spaces.messages import MessageView
from toolwright.web.console.components.elements import MessageFrame, Prose
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import MAX_SHOWN, box
from toolwright.wire.space import SpaceMessage

GONE = "A deleted person or agent"
MAX_DRAWN: Final = 200
"""Maximum number of messages on the page. Further messages replace those at the other end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMessage:
    """One message. `call` is its metadata if it shows a tool call. A streaming message has no position yet."""

    id: str
    entity_id: str
    author: str
    by_agent: bool
    content: str
    call: JSONObject | None = None
    parent_id: str | None = None
    reactions: Sequence[tuple[str, str]] = ()  # emoji and entity
    at: datetime
    edited: bool = False
    seq: int | None = None

    @property
    def gist(self) -> str:
        """The message shortened to one line."""
        if self.call is not None:
            return str(self.call.get("toolName"))
        return brief(" ".join(self.content.split()), 120)


def message_from_json(message: JSONObject) -> RoomMessage:
    """Return the message from its JSON (API §3)."""
    fields: Any = message  # rendered by `SpaceMessage`
    entity = fields.get("entity")
    metadata = fields["metadata"]
    return RoomMessage(
        id=fields["id"],
        entity_id=fields["entityId"],
        author=GONE if entity is None else entity["displayName"] or entity["externalId"] or entity["id"],
        by_agent=fields["role"] == "assistant",
        content=fields["content"],
        call=metadata if metadata.get("type") == "tool_call" else None,
        parent_id=fields["parentMessageId"],
        reactions=[(each["emoji"], each["entityId"]) for each in fields["reactions"]],
        at=datetime.fromisoformat(fields["createdAt"]),
        edited=fields.get("editedAt") is not None,
        seq=fields["seq"],
    )


def room_message(row: MessageView) -> RoomMessage:
    """Return the message from its row."""
    return message_from_json(SpaceMessage.of(row.message, entity=row.author, reactions=row.reactions))


@dataclass(slots=True, kw_only=True)
class MessageActions:
    """Actions on a message. Each receives the message in its current state."""

    react: Callable[[RoomMessage, str], Awaitable[object]]
    reply: Callable[[RoomMessage], object]
    edit: Callable[[RoomMessage], object]
    erase: Callable[[RoomMessage], object]
    show_run: Callable[[RoomMessage], Awaitable[object]]
    may_change: Callable[[RoomMessage], bool]


@dataclass(slots=True)
class _MessageRow:
    """A message on the page and its changing parts."""

    message: RoomMessage
    frame: MessageFrame
    prose: Prose | None = None
    card: CallCard | None = None


@dataclass(slots=True)
class MessageListView:
    """The messages on the page, in order."""

    visit: Visit
    actions: MessageActions
    space_id: str
    is_cut: bool = False  # whether the newest messages are no longer drawn
    _rows: dict[str, _MessageRow] = field(default_factory=dict[str, _MessageRow])
    _list: Element = field(init=False)
    _names: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self._list = box("div", "messages")
        self._list.props["role"] = "log"
        self._list.props["aria-label"] = "Messages"
        self._list.props["data-follow"] = ""

    @property
    def first(self) -> RoomMessage | None:
        """The oldest message on the page."""
        return next((row.message for row in self._rows.values()), None)

    @property
    def newest_seq(self) -> int:
        """The seq of the newest message on the page, or 0."""
        return max([row.message.seq or 0 for row in self._rows.values()], default=0)

    def get(self, message_id: str) -> RoomMessage | None:
        """Return the message with the id, or None if it is not on the page."""
        row = self._rows.get(message_id)
        return None if row is None else row.message

    async def draw_all(self, messages: Sequence[RoomMessage]) -> None:
        """Replace all messages on the page with these."""
        self.is_cut = False
        self._rows.clear()
        self._list.clear()
        for message in messages:
            await self.put(message)
            await asyncio.sleep(0)  # yield to other tasks

    async def draw_before(self, messages: Sequence[RoomMessage]) -> None:
        """Insert earlier messages before the others, and remove the newest messages beyond the maximum."""
        later = [*self._rows.values()]
        self._rows.clear()
        for index, message in enumerate(messages):
            row = self._rows[message.id] = self._new_row(message)
            row.frame.move(self._list, index)
            await self._draw_body(row)
            await asyncio.sleep(0)  # yield to other tasks
        for row in later:
            self._rows[row.message.id] = row
        for row in [*self._rows.values()][MAX_DRAWN:]:
            self.remove(row.message.id)
            self.is_cut = True

    async def put(self, message: RoomMessage) -> None:
        """Show the current state of a message. A new one is appended."""
        self._names[message.entity_id] = message.author
        row = self._rows.get(message.id)
        if row is None:
            if self.is_cut:
                return
            row = self._rows[message.id] = self._new_row(message)
            for old in [*self._rows][:-MAX_DRAWN]:
                self.remove(old)
            await self._draw_body(row)
            return
        row.message = message
        row.frame.props["streaming"] = False
        row.frame.props["message"] = self._frame(message)
        await self._draw_body(row)

    async def stream(self, message: RoomMessage) -> None:
        """Show a message that is still streaming."""
        if self.is_cut:
            return
        row = self._rows.get(message.id)
        if row is None:
            row = self._rows[message.id] = self._new_row(message)
        row.message = message
        row.frame.props["streaming"] = True
        await self._draw_body(row)

    def remove(self, message_id: str) -> None:
        """Remove the message from the page."""
        row = self._rows.pop(message_id, None)
        if row is not None:
            row.frame.delete()

    def set_reaction(self, message_id: str, emoji: str, entity_id: str, *, is_set: bool) -> None:
        """Add or remove a reaction."""
        row = self._rows.get(message_id)
        if row is None:
            return
        others = [each for each in row.message.reactions if each != (emoji, entity_id)]
        row.message = replace(row.message, reactions=[*others, (emoji, entity_id)] if is_set else others)
        row.frame.props["message"] = self._frame(row.message)

    def _new_row(self, message: RoomMessage) -> _MessageRow:
        with self._list:
            frame = MessageFrame(self._frame(message))
        row = _MessageRow(message, frame)
        actions = self.actions
        frame.on_react(lambda emoji: actions.react(row.message, emoji))
        frame.on("reply", lambda: actions.reply(row.message))
        frame.on("run", lambda: actions.show_run(row.message))
        frame.on("edit", lambda: actions.edit(row.message))
        frame.on("erase", lambda: actions.erase(row.message))
        return row

    async def _draw_body(self, row: _MessageRow) -> None:
        message = row.message
        if message.call is None:
            if row.prose is None:
                with row.frame:
                    row.prose = Prose("")
            row.prose.props["content"] = brief(message.content, MAX_SHOWN)
            return
        with row.frame:
            if row.card is None:
                row.card = CallCard(self.visit)
            if message.call.get("status") == "streaming":
                row.card.stream(message.call)
            else:
                await row.card.show_message(message.call, self.space_id)

    def _frame(self, message: RoomMessage) -> JSONObject:
        """Return the data of a message's frame."""
        parent = None if message.parent_id is None else self.get(message.parent_id)
        about = "An earlier message" if parent is None else f"{parent.author}: {parent.gist}"
        return {
            "id": message.id,
            "author": message.author,
            "byAgent": message.by_agent,
            "isCall": message.call is not None,
            "at": message.at.isoformat(),
            "edited": message.edited,
            "parent": None if message.parent_id is None else about,
            "mayChange": message.call is None and self.actions.may_change(message),
            "reactions": self._reactions(message),
        }

    def _reactions(self, message: RoomMessage) -> JSON:
        me = self.visit.speaker_id
        reactions: list[JSON] = []
        for emoji in dict.fromkeys([emoji for emoji, _ in message.reactions]):
            who = [entity for each, entity in message.reactions if each == emoji]
            names = ", ".join(self._names.get(each, "A former member") for each in who[:20])
            reactions.append({"emoji": emoji, "count": len(who), "mine": me in who, "who": names})
        return reactions
