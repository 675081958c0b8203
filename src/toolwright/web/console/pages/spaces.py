"""Pages of the visitor's spaces, with their unread counts."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, cast

from nicegui import ui

from toolwright.core.json_value import JSONObject
from toolwright.core.spaces import Space, SpaceKind
from toolwright.core.text import quantity
from toolwright.core.threads.event import Event, Topic
from toolwright.web.console.browsing import check_service
from toolwright.web.console.dialogs import fill_in
from toolwright.web.console.live import follow
from toolwright.web.console.room.people import name_of, people_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, link, nothing, plain_text

PAGE: Final = 50
NEW: Final[JSONObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1},
        "kind": {
            "enum": ["private", "public", "dm"],
            "title": "Kind",
            "description": "private: members only · public: everyone may read and write · dm: two members",
        },
    },
    "required": ["name", "kind"],
}
_CHANGES: Final = frozenset({"space.message", "member_added", "member_removed", "space.deleted"})


async def draw_list(visit: Visit) -> None:
    """Render the list of spaces."""
    with box("div", "head"):
        heading("Spaces")
        box("div", "fill")
        if visit.is_service:
            await _draw_speaker(visit)
            action("New space", partial(_ask_for_space, visit), kind="primary")
    await SpaceListView(visit).draw()


class SpaceListView:
    """Spaces, oldest first, a page at a time."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._list = box("div")
        self._offset = 0

    async def draw(self) -> None:
        """Render the spaces, and keep them up to date."""
        topic = Topic(kind="spaces", id="")
        self._visit.view.run(follow(self._visit, topic, read=self._read, draw=self._update))

    async def _update(self, events: Sequence[Event]) -> None:
        if any(each.type in _CHANGES for each in events):
            await self._read()

    async def _turn(self, offset: int) -> None:
        self._offset = offset
        await self._read()

    async def _read(self) -> None:
        visit, caller = self._visit, self._visit.caller
        seen_by = None if caller.kind == "service" else caller.entity_id
        spaces = await visit.runtime.spaces.list(PAGE + 1, self._offset, seen_by=seen_by)
        unread = await unread_of(visit)
        self._list.clear()
        with self._list:
            if not spaces:
                nothing("No spaces yet.", "People and agents talk in spaces.")
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
    """Return the unread counts of the current speaker, by space."""
    me = visit.speaker_id
    if me is None:
        return {}
    read = {each.space_id: each.read_seq for each in await visit.runtime.spaces.memberships(me)}
    spaces = await visit.runtime.spaces.list(200, seen_by=me)
    return {
        each.id: each.seq - read[each.id] for each in spaces if each.id in read and each.seq > read[each.id]
    }


def _draw_space(space: Space, unread: int | None) -> None:
    with link("", f"/spaces/{space.id}", "item"):
        with box("span", "fill"):
            plain_text(space.name or space.id, "span", "title")
            if space.description:
                plain_text(space.description, "div", "quiet small")
        badge(space.kind)
        if unread:
            plain_text(f"{unread} new", "span", "badge busy")
        plain_text(quantity(space.seq, "message"), "span", "quiet small")


async def _draw_speaker(visit: Visit) -> None:
    """Render the selection of a person to speak as."""
    people = await people_of(visit, 200)
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
    async def made(entered: JSONObject) -> None:
        check_service(visit)
        me = visit.speaker_id
        space = await visit.runtime.spaces.create(
            str(entered["name"]), cast("SpaceKind", entered["kind"]), members=[] if me is None else [me]
        )
        ui.navigate.to(f"/spaces/{space.id}")

    fill_in(
        visit,
        "New space",
        NEW,
        made,
        values={"kind": "private"},
        label="Create",
        done="The space was created.",
    )
