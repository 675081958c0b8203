"""Values that a run or a child waits for: which they are, and the form to give them."""

import asyncio
from collections.abc import Mapping

from nicegui.element import Element

from toolwright.core.errors import NotFound, VariablesLacking
from toolwright.runtime.children.requests import Wanted
from toolwright.web.console.sign_in import Field, entry_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, words


async def variables_form(visit: Visit, thread_id: str, request_id: str) -> None:
    """Show a form for what the open request of that thread asks for, as it is now."""
    await VariablesForm(visit, thread_id, request_id).refresh()


class VariablesForm:
    """Form for the missing values of an open request. The page never gets a value back."""

    def __init__(self, visit: Visit, thread_id: str, request_id: str) -> None:
        self._visit = visit
        self._thread_id = thread_id
        self._request_id = request_id
        self._fields: dict[str, Element] = {}  # of the values that are missing
        self._given: Element | None = None
        self._refreshing = asyncio.Lock()  # an older reading is never shown after a newer one
        self._card = box("section", "card stack")
        self._card.props["aria-label"] = "Values that are missing"

    async def refresh(self) -> None:
        """Show what is missing now. A field that stays keeps what somebody has typed into it."""
        async with self._refreshing:
            self._show(await self._read())

    async def _read(self) -> Wanted | None:
        try:
            await self._visit.permits.request(self._visit.caller, self._thread_id, self._request_id)
            return await self._visit.runtime.requests.get(self._thread_id, self._request_id)
        except NotFound:
            return None

    def _show(self, wanted: Wanted | None) -> None:
        if wanted is not None and self._given is not None and self._fields.keys() >= {*wanted.missing}:
            for name in self._fields.keys() - {*wanted.missing}:
                self._fields.pop(name).delete()
            self._list_given(wanted, self._given)
            return
        self._card.clear()
        self._given = None
        with self._card:
            if wanted is None:
                words("Nobody waits for these values any more.", "p", "quiet")
            else:
                self._ask(wanted)

    def _ask(self, wanted: Wanted) -> None:
        words("Values are missing", "h2")
        words(f"{wanted.agent_name} goes on once they are given. Secrets are kept encrypted.", "p", "quiet")
        self._given = box("div", "row small")
        self._list_given(wanted, self._given)
        missing = [each for each in wanted.required if each.name in wanted.missing]
        fields = [
            Field(name=each.name, secret=each.type == "secret", hint=each.description) for each in missing
        ]
        self._fields = entry_form(fields, "Give", self._give)

    def _list_given(self, wanted: Wanted, place: Element) -> None:
        given = [each.name for each in wanted.required if each.name not in wanted.missing]
        place.visible = bool(given)
        with place.clear():
            words("There already:", "span", "quiet")
            for name in given:
                badge(name, "good")

    async def _give(self, entered: Mapping[str, str]) -> None:
        await self._visit.act(self._answer(entered), "The values are given.")

    async def _answer(self, entered: Mapping[str, str]) -> None:
        await self._visit.permits.request(self._visit.caller, self._thread_id, self._request_id)
        try:
            await self._visit.runtime.requests.answer(self._thread_id, self._request_id, entered)
        except (VariablesLacking, NotFound):  # what was given is kept, or nobody asks any more
            await self.refresh()
            raise
        await self.refresh()
