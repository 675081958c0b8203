"""The messages of a space: drawn one by one, changed in place, paged backwards."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from nicegui import ui
from nicegui.element import Element

from toolwright.web.console.room.said import Said
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, icon_action, prose, when, words

EMOJIS: Final = ("👍", "❤️", "😄", "🎉", "👀", "✅")
MOST_DRAWN: Final = 200
"""Messages on the page at once: further ones take the place of those at the other end."""


@dataclass(slots=True, kw_only=True)
class Doings:
    """What somebody can do with a message; each gets the message as it is then."""

    react: Callable[[Said, str], Awaitable[object]]
    reply: Callable[[Said], object]
    edit: Callable[[Said], object]
    erase: Callable[[Said], object]
    show_run: Callable[[Said], Awaitable[object]]
    may_change: Callable[[Said], bool]
    may_see_runs: bool


@dataclass(slots=True)
class _Row:
    """A message on the page, and its parts that change."""

    said: Said
    element: Element
    body: Element
    reactions: Element
    card: CallCard | None = None


@dataclass(slots=True)
class MessageList:
    """Messages in order, in an element of the page."""

    visit: Visit
    doings: Doings
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
    def first(self) -> Said | None:
        """The oldest message that is drawn."""
        return next((row.said for row in self._rows.values()), None)

    @property
    def newest_seq(self) -> int:
        """The place of the newest message that is drawn."""
        return max([row.said.seq or 0 for row in self._rows.values()], default=0)

    def known(self, message_id: str) -> Said | None:
        """That message, if it is drawn."""
        row = self._rows.get(message_id)
        return None if row is None else row.said

    async def draw_all(self, messages: Sequence[Said]) -> None:
        """These and no others."""
        self.is_cut = False
        self._rows.clear()
        self._list.clear()
        for said in messages:
            await self.put(said)

    async def draw_before(self, messages: Sequence[Said]) -> None:
        """Earlier ones, in front of all; as many of the newest go as there would be too many."""
        later = [*self._rows.values()]
        self._rows.clear()
        for index, said in enumerate(messages):
            row = self._rows[said.id] = self._new_row(said)
            row.element.move(self._list, index)
            await self._draw_body(row)
        for row in later:
            self._rows[row.said.id] = row
        for row in [*self._rows.values()][MOST_DRAWN:]:
            self.remove(row.said.id)
            self.is_cut = True

    async def put(self, said: Said) -> None:
        """The message as it is now: at the end if it is new."""
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
        was, row.said = row.said, said
        row.element.classes(remove="streaming")
        if was.content != said.content or was.edited != said.edited or said.call is not None:
            await self._draw_body(row)
        if was.reactions != said.reactions:
            self._draw_reactions(row)

    async def stream(self, said: Said) -> None:
        """The message as far as it has come."""
        if self.is_cut:
            return
        row = self._rows.get(said.id)
        if row is None:
            row = self._rows[said.id] = self._new_row(said)
        row.said = said
        row.element.classes("streaming")
        await self._draw_body(row)

    def remove(self, message_id: str) -> None:
        """The message is not to be seen any more."""
        row = self._rows.pop(message_id, None)
        if row is not None:
            row.element.delete()

    def set_reaction(self, message_id: str, emoji: str, entity_id: str, *, there: bool) -> None:
        """Somebody has reacted, or has taken it back."""
        row = self._rows.get(message_id)
        if row is None:
            return
        others = [each for each in row.said.reactions if each != (emoji, entity_id)]
        row.said = replace(row.said, reactions=[*others, (emoji, entity_id)] if there else others)
        self._draw_reactions(row)

    def _new_row(self, said: Said) -> _Row:
        with self._list, box("article", "message") as element:
            element.props["data-message"] = said.id
            face = "face agent" if said.by_agent else "face"
            words(said.author[:1].upper(), "span", face).props["aria-hidden"] = "true"
            with box("div", "by"):
                words(said.author, "span", "who")
                if said.by_agent:
                    words("agent", "span", "badge")
                when(said.at, "quiet small")
            body = box("div", "body")
            reactions = box("div", "body reactions")
            row = _Row(said, element, body, reactions)
            self._draw_tools(row)
        self._draw_reactions(row)
        return row

    async def _draw_body(self, row: _Row) -> None:
        said = row.said
        if said.call is not None:
            with row.body:
                if row.card is None:
                    row.card = CallCard(self.visit)
                if said.call.get("status") == "streaming":
                    row.card.stream(said.call)
                else:
                    await row.card.show_message(said.call, self.space_id)
            return
        with row.body.clear():
            parent = None if said.parent_id is None else self.known(said.parent_id)
            if said.parent_id is not None:
                words(
                    "An earlier message" if parent is None else f"{parent.author}: {parent.gist}",
                    "div",
                    "parent",
                )
            prose(said.content)
            if said.edited:
                words("edited", "span", "quiet small")

    def _draw_reactions(self, row: _Row) -> None:
        row.reactions.clear()
        me = self.visit.speaker_id
        emojis = list(dict.fromkeys([emoji for emoji, _ in row.said.reactions]))
        with row.reactions:
            for emoji in emojis:
                who = [entity for each, entity in row.said.reactions if each == emoji]
                mine = "reaction mine" if me in who else "reaction"
                button = box("button", mine).on("click", partial(self._react, row, emoji))
                button.props["aria-label"] = f"{emoji} by {len(who)}"
                button.props["aria-pressed"] = "true" if me in who else "false"
                button.props["title"] = ", ".join(self._names.get(each, "Somebody") for each in who[:20])
                with button:
                    words(f"{emoji} {len(who)}")

    async def _react(self, row: _Row, emoji: str) -> None:
        await self.doings.react(row.said, emoji)

    def _draw_tools(self, row: _Row) -> None:
        with box("div", "tools"):
            icon_action("add_reaction", "React", partial(self._choose_emoji, row))
            if row.said.call is None:
                icon_action("reply", "Reply", lambda: self.doings.reply(row.said))
            if row.said.by_agent and self.doings.may_see_runs:
                icon_action("timeline", "Its run", lambda: self.doings.show_run(row.said))
            if row.said.call is None and self.doings.may_change(row.said):
                icon_action("edit", "Edit", lambda: self.doings.edit(row.said))
                icon_action("delete_outline", "Delete", lambda: self.doings.erase(row.said))

    def _choose_emoji(self, row: _Row) -> None:
        with row.element, ui.dialog(value=True) as dialog, ui.card(), box("div", "row"):
            for emoji in EMOJIS:

                async def chosen(emoji: str = emoji) -> None:
                    dialog.close()
                    await self.doings.react(row.said, emoji)

                action(emoji, chosen)
        dialog.on("hide", dialog.delete)
