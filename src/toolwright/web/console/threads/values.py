"""The values of a thread: which names it has, and a form to set them; a value never comes back to the page."""

from collections.abc import Mapping
from functools import partial
from typing import Final, cast

from toolwright.core.env.env import Given
from toolwright.core.errors import InvalidRequest
from toolwright.core.threads.thread import Thread
from toolwright.web.console.entry import Field, entry_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, nothing, words

LONGEST_NAME: Final = 200
MOST_SHOWN: Final = 500


class ThreadValues:
    """Names and types, and what the caller may set."""

    def __init__(self, visit: Visit, thread: Thread) -> None:
        self._visit = visit
        self._thread = thread
        self._names = box("div")

    async def draw(self) -> None:
        """Draw them, and the form."""
        await self._draw_names()
        settable = None if self._visit.is_service else await self._user_env()
        with box("section", "card stack section"):
            words("Set a value", "h2")
            if settable is not None and not settable:
                words("This agent takes no values from people.", "p", "quiet")
                return
            hint = "" if settable is None else f"You may set: {', '.join(settable)}"
            words("It is of the type that the agent declares, else a secret, kept encrypted.", "p", "quiet")
            fields = [
                Field(name="name", label="Name", hint=hint),
                Field(name="value", label="Value", secret=True),
            ]
            entry_form(fields, "Set it", self._set)

    async def _user_env(self) -> list[str]:
        return sorted(await self._visit.permits.settable(self._thread.agent))

    async def _draw_names(self) -> None:
        names = await self._visit.runtime.threads.env(self._thread.id)
        with self._names.clear():
            if not names:
                nothing("No values were set in this thread.", "Tools that need some ask for them.")
                return
            with box("div", "list"):
                for name in sorted(names)[:MOST_SHOWN]:
                    with box("div", "item"):
                        words(name, "span", "mono fill")
                        badge(names[name])
                        action("Take away", partial(self._take_away, name), kind="plain")

    async def _set(self, entered: Mapping[str, str]) -> None:
        name = entered.get("name", "").strip()[:LONGEST_NAME]
        await self._visit.act(self._write({name: entered.get("value", "")}), "The value is set.")

    async def _take_away(self, name: str) -> None:
        await self._visit.act(self._write({name: None}), "The value is gone.")

    async def _write(self, values: dict[str, str | None]) -> None:
        if not all(values):
            raise InvalidRequest("Say which value it is: give its name.")
        visit, thread_id = self._visit, self._thread.id
        await visit.permits.thread(visit.caller, thread_id)
        await visit.permits.env(visit.caller, self._thread.agent, values, thread_id)
        await visit.runtime.threads.set_env(thread_id, cast("Given", values))  # text, or None, by name
        await self._draw_names()
