"""The messages of a room."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from nicegui.element import Element

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.runtime.spaces.history import MessageView
from toolwright.web.console.components.elements import MessageFrame, Prose
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import LONGEST_SHOWN, box
from toolwright.wire.space import space_message_json

GONE = "A deleted person or agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMessage:
    """One message; `call` is its metadata if it shows a tool call. One that streams has no place yet."""

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
        """The message in one line."""
        if self.call is not None:
            return str(self.call.get("toolName"))
        return brief(" ".join(self.content.split()), 120)


def message_from_json(message: JSONObject) -> RoomMessage:
    """Return the message of that JSON (API §3)."""
    fields: Any = message  # as `space_message_json` writes it
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


def shown_message(row: MessageView) -> RoomMessage:
    """Return the message of that row."""
    return message_from_json(space_message_json(row.message, row.author, row.reactions))


MOST_DRAWN: Final = 200
"""Messages on the page at once: further ones take the place of those at the other end."""


@dataclass(slots=True, kw_only=True)
class MessageActions:
    """Actions on a message; each gets the message in its current state."""

    react: Callable[[RoomMessage, str], Awaitable[object]]
    reply: Callable[[RoomMessage], object]
    edit: Callable[[RoomMessage], object]
    erase: Callable[[RoomMessage], object]
    show_run: Callable[[RoomMessage], Awaitable[object]]
    may_change: Callable[[RoomMessage], bool]


@dataclass(slots=True)
class _Row:
    """A message on the page, and its parts that change."""

    said: RoomMessage
    frame: MessageFrame
    prose: Prose | None = None
    card: CallCard | None = None


@dataclass(slots=True)
class MessageList:
    """Messages in order, in an element of the page."""

    visit: Visit
    doings: MessageActions
    space_id: str
    is_cut: bool = False  # whether the newest messages are not drawn any more
    _rows: dict[str, _Row] = field(default_factory=dict[str, _Row])
    _list: Element = field(init=False)
    _names: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self._list = box("div", "messages")
        self._list.props["role"] = "log"
        self._list.props["aria-label"] = "Messages"
        self._list.props["data-follow"] = ""

    @property
    def first(self) -> RoomMessage | None:
        """The oldest message that is drawn."""
        return next((row.said for row in self._rows.values()), None)

    @property
    def newest_seq(self) -> int:
        """The place of the newest message that is drawn."""
        return max([row.said.seq or 0 for row in self._rows.values()], default=0)

    def known(self, message_id: str) -> RoomMessage | None:
        """Return the message with that id, if it is drawn."""
        row = self._rows.get(message_id)
        return None if row is None else row.said

    async def draw_all(self, messages: Sequence[RoomMessage]) -> None:
        """Draw these messages only."""
        self.is_cut = False
        self._rows.clear()
        self._list.clear()
        for said in messages:
            await self.put(said)
            await asyncio.sleep(0)  # others have their turn

    async def draw_before(self, messages: Sequence[RoomMessage]) -> None:
        """Draw earlier messages before the others, and remove the newest beyond the maximum."""
        later = [*self._rows.values()]
        self._rows.clear()
        for index, said in enumerate(messages):
            row = self._rows[said.id] = self._new_row(said)
            row.frame.move(self._list, index)
            await self._draw_body(row)
            await asyncio.sleep(0)  # others have their turn
        for row in later:
            self._rows[row.said.id] = row
        for row in [*self._rows.values()][MOST_DRAWN:]:
            self.remove(row.said.id)
            self.is_cut = True

    async def put(self, said: RoomMessage) -> None:
        """Draw the current state of a message; a new one at the end."""
        self._names[said.entity_id] = said.author
        row = self._rows.get(said.id)
        if row is None:
            if self.is_cut:
                return
            row = self._rows[said.id] = self._new_row(said)
            for old in [*self._rows][:-MOST_DRAWN]:
                self.remove(old)
            await self._draw_body(row)
            return
        row.said = said
        row.frame.props["streaming"] = False
        row.frame.props["said"] = self._frame(said)
        await self._draw_body(row)

    async def stream(self, said: RoomMessage) -> None:
        """Draw a message that is still streaming."""
        if self.is_cut:
            return
        row = self._rows.get(said.id)
        if row is None:
            row = self._rows[said.id] = self._new_row(said)
        row.said = said
        row.frame.props["streaming"] = True
        await self._draw_body(row)

    def remove(self, message_id: str) -> None:
        """Remove the message from the page."""
        row = self._rows.pop(message_id, None)
        if row is not None:
            row.frame.delete()

    def set_reaction(self, message_id: str, emoji: str, entity_id: str, *, there: bool) -> None:
        """Add or remove a reaction."""
        row = self._rows.get(message_id)
        if row is None:
            return
        others = [each for each in row.said.reactions if each != (emoji, entity_id)]
        row.said = replace(row.said, reactions=[*others, (emoji, entity_id)] if there else others)
        row.frame.props["said"] = self._frame(row.said)

    def _new_row(self, said: RoomMessage) -> _Row:
        with self._list:
            frame = MessageFrame(self._frame(said))
        row = _Row(said, frame)
        doings = self.doings
        frame.on_react(lambda emoji: doings.react(row.said, emoji))
        frame.on("reply", lambda: doings.reply(row.said))
        frame.on("run", lambda: doings.show_run(row.said))
        frame.on("edit", lambda: doings.edit(row.said))
        frame.on("erase", lambda: doings.erase(row.said))
        return row

    async def _draw_body(self, row: _Row) -> None:
        said = row.said
        if said.call is None:
            if row.prose is None:
                with row.frame:
                    row.prose = Prose("")
            row.prose.props["content"] = brief(said.content, LONGEST_SHOWN)
            return
        with row.frame:
            if row.card is None:
                row.card = CallCard(self.visit)
            if said.call.get("status") == "streaming":
                row.card.stream(said.call)
            else:
                await row.card.show_message(said.call, self.space_id)

    def _frame(self, said: RoomMessage) -> JSONObject:
        """Return the data of a message's frame."""
        parent = None if said.parent_id is None else self.known(said.parent_id)
        about = "An earlier message" if parent is None else f"{parent.author}: {parent.gist}"
        return {
            "id": said.id,
            "author": said.author,
            "byAgent": said.by_agent,
            "isCall": said.call is not None,
            "at": said.at.isoformat(),
            "edited": said.edited,
            "parent": None if said.parent_id is None else about,
            "mayChange": said.call is None and self.doings.may_change(said),
            "reactions": self._reactions(said),
        }

    def _reactions(self, said: RoomMessage) -> JSON:
        me = self.visit.speaker_id
        shown: list[JSON] = []
        for emoji in dict.fromkeys([emoji for emoji, _ in said.reactions]):
            who = [entity for each, entity in said.reactions if each == emoji]
            names = ", ".join(self._names.get(each, "Somebody") for each in who[:20])
            shown.append({"emoji": emoji, "count": len(who), "mine": me in who, "who": names})
        return shown
