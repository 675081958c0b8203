"""The members of a space, whom a service takes in and takes out."""

from functools import partial
from typing import Final

from nicegui import ui

from toolwright.core.broken_rows import all_of
from toolwright.core.errors import InvalidRequest
from toolwright.web.console.browsing import check_service
from toolwright.web.console.dialogs import opened
from toolwright.web.console.room.people import Guest, guests_of, name_of, people_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, icon_action, words

MOST: Final = 200  # people and agents that can be chosen from; others are taken in by their ids over the API


async def choose_members(visit: Visit, space_id: str) -> None:
    """A dialog with all members, and whoever else could be one."""
    check_service(visit)
    there = await guests_of(visit, space_id)
    members = {guest.entity_id for guest in there}
    agents = {
        agent.entity_id: f"{agent.name} (agent)" for agent in all_of(await visit.runtime.agents.list(MOST))
    }
    people = {each.id: name_of(each) for each in all_of(await people_of(visit, MOST))}
    others = {id_: name for id_, name in (people | agents).items() if id_ not in members}
    with opened(visit, "Members") as dialog:
        with box("div", "list"):
            for guest in there:
                _draw_member(visit, space_id, guest, dialog)
        if others:
            chosen = ui.select(others, label="Somebody else", with_input=True).props("outlined dense")

            async def add() -> None:
                if chosen.value is None:
                    raise InvalidRequest("Choose who is to come into the space.")
                check_service(visit)
                await visit.runtime.spaces.add_member(space_id, chosen.value)

            async def added() -> None:
                if await visit.act(add(), "Added."):
                    dialog.close()

            action("Add", added, kind="primary")


def _draw_member(visit: Visit, space_id: str, guest: Guest, dialog: ui.dialog) -> None:
    async def remove() -> None:
        check_service(visit)
        await visit.runtime.spaces.remove_member(space_id, guest.entity_id)

    async def removed() -> None:
        if await visit.act(remove(), f"{guest.name} is no member any more."):
            dialog.close()

    with box("div", "item"):
        words(guest.name, "span", "fill")
        if guest.is_agent:
            words("agent", "span", "badge")
        icon_action("person_remove", f"Take {guest.name} out", partial(removed))
