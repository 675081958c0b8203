"""Page of people: their names, external ids, and variables for their threads."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, cast

from toolwright.core.env.env import EnvType, read_env
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_NAME
from toolwright.core.spaces import Entity, EntityFields
from toolwright.core.text import brief
from toolwright.runtime.spaces.entities import MAX_EXTERNAL_ID
from toolwright.web.console.browsing import Listing, check_service
from toolwright.web.console.dialogs import cancel, confirm, fill_in, opened
from toolwright.web.console.room.people import people_of
from toolwright.web.console.sign_in import SignInField, entry_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, icon_action, nothing, plain_text, when

_PERSON: JSONObject = {
    "type": "object",
    "properties": {
        "display_name": {"type": "string", "title": "Name", "maxLength": MAX_NAME},
        "external_id": {
            "type": "string",
            "title": "External id",
            "description": "The person's id in access tokens.",
            "maxLength": MAX_EXTERNAL_ID,
            "format": "id",  # characters of one line
        },
    },
}
_FIELDS: Final = (
    SignInField(name="name", label="Name of the variable"),
    SignInField(name="type", label="Type", choices=("secret", "text")),
    SignInField(name="value", label="Value", secret=True),
)


async def draw_list(visit: Visit) -> None:
    """Render people, oldest first."""
    check_service(visit)
    await _People(visit).draw()


class _People:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._entities = visit.runtime.entities

    async def draw(self) -> None:
        with box("div", "head"):
            heading("People")
            box("span", "fill")
            action("New person", partial(self._edit, None), icon="person_add")
        empty = partial(nothing, "No people yet", "Create a person before they sign in with a token.")
        self._list = Listing(self._visit, self._read, self._show, empty=empty)
        await self._list.show()

    async def _read(self, limit: int, offset: int) -> Sequence[Entity]:
        return await people_of(self._visit, limit, offset)

    def _show(self, person: Entity) -> None:
        name = person.display_name or person.external_id or person.id
        with box("li", "item"):
            with box("div", "fill"):
                with box("div", "row"):
                    plain_text(name, "span", "title")
                    if person.created_at is not None:
                        when(person.created_at, "quiet small")
                plain_text(brief(person.external_id or "no external id", 120), "p", "quiet small mono")
            icon_action("key", f"Values of {brief(name, 60)}", partial(self._values, person, name))
            icon_action("edit", f"Edit {brief(name, 60)}", partial(self._edit, person))
            icon_action("delete", f"Delete {brief(name, 60)}", partial(self._delete, person, name))

    def _edit(self, person: Entity | None) -> None:
        async def save(entered: JSONObject) -> None:
            # guaranteed by the schema
            fields = cast("EntityFields", {name: text or None for name, text in entered.items()})
            if person is None:
                await self._entities.register(**fields)
            else:
                await self._entities.update(person.id, **fields)
            await self._list.show()

        values: JSONObject = {}
        if person is not None:
            values = {"display_name": person.display_name or "", "external_id": person.external_id or ""}
        title, done = ("New person", "The person was created.") if person is None else ("Person", "Saved.")
        fill_in(self._visit, title, _PERSON, save, values=values, done=done)

    def _delete(self, person: Entity, name: str) -> None:
        async def go() -> None:
            await self._entities.delete(person.id)
            await self._list.show()

        hint = "The person leaves all spaces and can no longer sign in. Their threads are kept."
        confirm(self._visit, f"Delete {brief(name, 100)}?", "Delete", go, done="Deleted.", hint=hint)

    async def _values(self, person: Entity, name: str) -> None:
        async def draw() -> None:
            with opened(self._visit, f"Values of {brief(name, 100)}") as dialog:
                await _Values(self._visit, person.id).draw()
                with box("div", "row"):
                    cancel(dialog, "Close")

        await self._visit.act(draw())


class _Values:
    """Names of a person's variables, and a form to set one. Values are never sent to the page."""

    def __init__(self, visit: Visit, person_id: str) -> None:
        self._visit = visit
        self._person_id = person_id

    async def draw(self) -> None:
        plain_text("Used in all threads of this person.", "p", "quiet small")
        self._place = box("div", "stack")
        await self._show(await self._visit.runtime.entities.env(self._person_id))

    async def _show(self, names: Mapping[str, EnvType]) -> None:
        self._place.clear()
        with self._place:
            if names:
                with box("ul", "list"):
                    for name, kind in names.items():
                        with box("li", "item"):
                            plain_text(brief(name, 100), "span", "mono fill")
                            badge(kind)
                            icon_action("delete", f"Delete {brief(name, 60)}", partial(self._drop, name))
            entry_form(_FIELDS, "Set", self._set)

    async def _set(self, entered: Mapping[str, str]) -> None:
        value = {"value": entered.get("value", ""), "type": entered.get("type", "secret")}
        await self._change({entered.get("name", ""): value}, "Saved.")

    async def _drop(self, name: str) -> None:
        await self._change({name: None}, "Deleted.")

    async def _change(self, env: Mapping[str, Mapping[str, str] | None], done: str) -> None:
        async def go() -> None:
            names = await self._visit.runtime.entities.set_env(self._person_id, read_env(env))
            await self._show(names)

        await self._visit.act(go(), done)
