"""The spaces that somebody sees, with what is unread in them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from nicegui import ui

from toolwright.core.broken_rows import all_of
from toolwright.core.errors import Forbidden, InvalidRequest
from toolwright.core.spaces.space import Space
from toolwright.core.threads.event import Event, Topic
from toolwright.web.console.live import follow
from toolwright.web.console.room.people import name_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, link, nothing, words

PAGE: Final = 50
KINDS: Final = {
    "public": "Public: everybody may read and write",
    "private": "Private: members alone",
    "dm": "Two",
}
_CHANGES: Final = frozenset({"space.message", "member_added", "member_removed", "space.deleted"})


async def draw_list(visit: Visit) -> None:
    """The view."""
    with box("div", "head"):
        heading("Spaces")
        box("div", "fill")
        if visit.is_service:
            await _draw_speaker(visit)
            action("New space", partial(_ask_for_space, visit), kind="primary")
    await SpaceList(visit).draw()


class SpaceList:
    """Spaces, the oldest first, a page at a time."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._list = box("div")
        self._offset = 0

    async def draw(self) -> None:
        """Draw them, and keep them as they are."""
        topic = Topic(kind="spaces", id="")
        self._visit.view.run(follow(self._visit, topic, read=self._read, draw=self._take))

    async def _take(self, events: Sequence[Event]) -> None:
        if any(each.type in _CHANGES for each in events):
            await self._read()

    async def _turn(self, offset: int) -> None:
        self._offset = offset
        await self._read()

    async def _read(self) -> None:
        visit, caller = self._visit, self._visit.caller
        seen_by = None if caller.kind == "service" else caller.entity_id
        spaces = all_of(await visit.runtime.spaces.list(PAGE + 1, self._offset, seen_by=seen_by))
        unread = await unread_of(visit)
        self._list.clear()
        with self._list:
            if not spaces:
                nothing("There are no spaces for you yet.", "In a space people and agents talk.")
                return
            with box("div", "list"):
                for space in spaces[:PAGE]:
                    _draw_space(space, unread.get(space.id))
            with box("div", "row section"):
                if self._offset:
                    action("Earlier spaces", partial(self._turn, max(0, self._offset - PAGE)), kind="plain")
                if len(spaces) > PAGE:
                    action("Later spaces", partial(self._turn, self._offset + PAGE), kind="plain")


async def unread_of(visit: Visit) -> Mapping[str, int]:
    """How many messages whoever speaks here has not read, by the spaces that they are in."""
    me = visit.speaker_id
    if me is None:
        return {}
    read = {each.space_id: each.read_seq for each in await visit.runtime.spaces.memberships(me)}
    spaces = all_of(await visit.runtime.spaces.list(200, seen_by=me))
    return {
        each.id: each.seq - read[each.id] for each in spaces if each.id in read and each.seq > read[each.id]
    }


def _draw_space(space: Space, unread: int | None) -> None:
    with link("", f"/spaces/{space.id}", "item"):
        with box("span", "fill"):
            words(space.name or space.id, "span", "title")
            if space.description:
                words(space.description, "div", "quiet small")
        badge(space.kind)
        if unread:
            words(f"{unread} new", "span", "badge busy")
        words(f"{space.seq} messages", "span", "quiet small")


async def _draw_speaker(visit: Visit) -> None:
    """Who a service speaks for."""
    people = [each for each in all_of(await visit.runtime.entities.list(200)) if each.type == "human"]
    names = {each.id: name_of(each) for each in people}
    chosen = visit.speaker_id if visit.speaker_id in names else None

    def choose(entity_id: str | None) -> None:
        visit.speak_for(entity_id)
        ui.navigate.to("/")

    if names:
        select = ui.select(names, value=chosen, label="You are", on_change=lambda event: choose(event.value))
        select.props("outlined dense options-dense clearable").classes("speaker")
    link("People", "/people", "quiet")


def _ask_for_space(visit: Visit) -> None:
    with ui.dialog(value=True) as dialog, ui.card():
        words("A new space", "h2")
        name = ui.input("Name").props("outlined dense autofocus")
        kind = ui.select(dict(KINDS), value="private", label="Kind").props("outlined dense")
        members = ui.input("Members: names of agents, ids of entities, with commas").props("outlined dense")

        async def made() -> None:
            if not visit.is_service:
                raise Forbidden("Only a service may do this: it needs a secret key.")
            named = (name.value or "").strip()
            if not named:
                raise InvalidRequest("Give the space a name.")
            guests = [each.strip() for each in (members.value or "").split(",") if each.strip()]
            me = visit.speaker_id
            everybody = [*guests, *([me] if me is not None and me not in guests else [])]
            space = await visit.runtime.spaces.create(named, kind.value, members=everybody)
            ui.navigate.to(f"/spaces/{space.id}")

        async def confirmed() -> None:
            if await visit.act(made()):
                dialog.close()

        with box("div", "row"):
            action("Make it", confirmed, kind="primary")
            action("Never mind", dialog.close)
    dialog.on("hide", dialog.delete)
