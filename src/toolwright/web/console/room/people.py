"""People and agents in a space."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from nicegui import ui

from toolwright.core.errors import InvalidRequest
from toolwright.core.spaces import Entity
from toolwright.web.console.browsing import check_service
from toolwright.web.console.dialogs import opened
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, icon_action, plain_text

MAX_AGENTS: Final = 100_000  # agents precede people in the journal's list of entities
MAX_OFFERED: Final = 200  # people and agents offered; others can be added by id over the API


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A member of a space, for display."""

    entity_id: str
    name: str
    is_agent: bool


def name_of(entity: Entity) -> str:
    """Return the display name of an entity."""
    return entity.display_name or entity.external_id or entity.id


async def people_of(visit: Visit, limit: int, offset: int = 0) -> Sequence[Entity]:
    """Return a page of the app's people, oldest first."""
    agents = await visit.runtime.agents.list(MAX_AGENTS)
    rows = await visit.runtime.entities.list(limit, len(agents) + offset)
    return [each for each in rows if each.type == "human"]


async def guests_of(visit: Visit, space_id: str) -> Sequence[Guest]:
    """Return the members of the space, in the order of joining, without deleted ones."""
    members = await visit.runtime.spaces.members(space_id)
    entities = [await visit.runtime.spaces.entity(each.entity_id) for each in members]
    return [
        Guest(entity_id=each.id, name=name_of(each), is_agent=each.type == "agent")
        for each in entities
        if each is not None
    ]


def draw_guests(guests: Sequence[Guest], present: set[str], at_work: set[str]) -> None:
    """Render all members in a row and mark those who are present."""
    with box("div", "guests") as row:
        row.props["role"] = "list"
        row.props["aria-label"] = "Members"
        for guest in guests[:50]:
            is_active = guest.entity_id in (at_work if guest.is_agent else present)
            with box("span", "guest here" if is_active else "guest") as element:
                element.props["role"] = "listitem"
                element.props["title"] = (
                    f"{'Agent' if guest.is_agent else 'Person'}{', here now' if is_active else ''}"
                )
                plain_text(guest.name, "span")
                if guest.is_agent:
                    plain_text("agent", "span", "badge")
        if len(guests) > 50:
            plain_text(f"and {len(guests) - 50} more", "span", "quiet")


def activity_line(guests: Sequence[Guest], typing: set[str], at_work: set[str], me: str | None) -> str:
    """Return a sentence on who is typing and which agents are active, or an empty text."""
    people = [each.name for each in guests if each.entity_id in typing and each.entity_id != me]
    agents = [each.name for each in guests if each.entity_id in at_work]
    typed = f"{_listed(people)} {'is' if len(people) == 1 else 'are'} typing …" if people else ""
    works = f"{_listed(agents)} {'is' if len(agents) == 1 else 'are'} working …" if agents else ""
    return " ".join(filter(None, (typed, works)))


def _listed(names: Sequence[str]) -> str:
    parts = [*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


async def choose_members(visit: Visit, space_id: str) -> None:
    """Open a dialog with all members and candidates."""
    check_service(visit)
    guests = await guests_of(visit, space_id)
    members = {guest.entity_id for guest in guests}
    agents = {
        agent.entity_id: f"{agent.name} (agent)" for agent in await visit.runtime.agents.list(MAX_OFFERED)
    }
    people = {each.id: name_of(each) for each in await people_of(visit, MAX_OFFERED)}
    others = {id_: name for id_, name in (people | agents).items() if id_ not in members}
    with opened(visit, "Members") as dialog:
        with box("div", "list"):
            for guest in guests:
                _draw_member(visit, space_id, guest, dialog)
        if others:
            chosen = ui.select(others, label="Add a person or agent", with_input=True).props("outlined dense")

            async def add() -> None:
                if chosen.value is None:
                    raise InvalidRequest("Choose whom to add to the space.")
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
        if await visit.act(remove(), f"{guest.name} is no longer a member."):
            dialog.close()

    with box("div", "item"):
        plain_text(guest.name, "span", "fill")
        if guest.is_agent:
            plain_text("agent", "span", "badge")
        icon_action("person_remove", f"Remove {guest.name}", partial(removed))
