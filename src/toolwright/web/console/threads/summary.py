"""What is left out of a thread's conversation, and the summary in its place: shown, edited and removed."""

from functools import partial
from typing import Final

from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_SUMMARY
from toolwright.core.threads.compaction import Compaction, left_out
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, code, words

_FORM: Final[JSONObject] = {
    "type": "object",
    "properties": {"text": {"type": "string", "title": "Summary", "minLength": 1, "maxLength": MAX_SUMMARY}},
    "required": ["text"],
}


class ThreadSummary:
    """The summaries of a thread, one for each side of an agent with two."""

    def __init__(self, visit: Visit, thread_id: str) -> None:
        self._visit = visit
        self._thread_id = thread_id
        self._place = box("div")

    async def show(self) -> None:
        """Render what is left out now."""
        rows = await self._visit.runtime.threads.summaries(self._thread_id)
        with self._place.clear():
            for row in rows:
                if row.cut:
                    self._draw(row)

    def _draw(self, row: Compaction) -> None:
        with box("details", "folded section"):
            words("The model is shown a shorter conversation", "summary", "quiet small")
            with box("div", "stack"):
                if row.side:
                    badge(row.side)
                for line in left_out(row):
                    words(line, "p", "small")
                code(row.text)
                with box("div", "row"):
                    action("Edit the summary", partial(self._edit, row), icon="edit")
                    action("Remove the summary", partial(self._remove, row), icon="delete")

    def _edit(self, row: Compaction) -> None:
        async def take(entered: JSONObject) -> None:
            await self._check()
            threads, by = self._visit.runtime.threads, self._visit.caller.label
            await threads.edit_summary(self._thread_id, str(entered["text"]), row.side or None, by=by)
            await self.show()

        values: JSONObject = {"text": row.summary or ""}
        fill_in(self._visit, "Edit the summary", _FORM, take, values=values)

    def _remove(self, row: Compaction) -> None:
        async def go() -> None:
            await self._check()
            threads, by = self._visit.runtime.threads, self._visit.caller.label
            await threads.remove_summary(self._thread_id, row.side or None, by=by)
            await self.show()

        confirm(
            self._visit,
            "Remove the summary?",
            "Remove",
            go,
            done="Removed.",
            hint="The model is shown the whole conversation again, until it is too long.",
        )

    async def _check(self) -> None:
        await self._visit.permits.thread(self._visit.caller, self._thread_id)
