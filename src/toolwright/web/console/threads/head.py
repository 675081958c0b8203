"""The head of a thread, and its summaries."""

from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import quote

from nicegui import ui

from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_NAME, MAX_SUMMARY
from toolwright.core.text import brief
from toolwright.core.threads.compaction import Compaction, left_out
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.runs.facts import KINDS, agent_link, agent_name, reason, run_link
from toolwright.web.console.runs.head import ask_to_cancel
from toolwright.web.console.runs.rows import address
from toolwright.web.console.threads.family import last_run_of, status_of, title_of, waits_for_answer
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, code, heading, link, words

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


_NAME: JSONObject = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name (optional)", "maxLength": MAX_NAME}},
}


class ThreadHead:
    """What the thread is, how its run stands, and what can be done with both."""

    def __init__(self, visit: Visit, thread: Thread) -> None:
        self._visit = visit
        self._thread = thread
        self._drawn: tuple[Thread, Run | None, bool] | None = None
        with box("div", "head"):
            self._title = box("div", "row")
            box("div", "fill")
            self._actions = box("div", "row")
        self._dialogs = box("div")  # a question stays while the head is drawn again
        self._about = box("div", "row small about-thread")

    async def draw(self) -> None:
        """As things are."""
        visit = self._visit
        await visit.permits.thread(visit.caller, self._thread.id)
        thread = await visit.runtime.threads.get(self._thread.id)
        run = await last_run_of(visit, thread)
        asks = run is not None and not run.over and await waits_for_answer(visit, run)
        if self._drawn == (thread, run, asks):
            return
        self._drawn = (thread, run, asks)
        title, agent = await title_of(visit, thread), await agent_name(visit, thread.answering)
        status = await status_of(visit, thread, run)
        with self._title.clear():
            heading(title)
            if run is None or run.over:  # else its run says more
                badge(status, KINDS.get(status, "bad"))
        with self._actions.clear():
            if run is not None and not run.over:
                self._draw_run(run, asks=asks)
            if thread.parent_id is None:
                action("Rename", lambda: self._rename(thread), kind="plain")
            action("Delete", lambda: self._ask(ask_to_delete, thread.id), kind="plain")
        with self._about.clear():
            words("Agent", "span", "quiet")
            agent_link(visit, thread.answering, agent)
            words(
                f"for {brief(thread.user_id, 100)}" if thread.user_id and visit.is_service else "",
                "span",
                "quiet",
            )
            if thread.space_id is not None:
                link("in a space", f"/spaces/{quote(thread.space_id, safe='')}")
            if visit.is_service:
                link("all its runs", address("/runs", thread=thread.id))
            for tag in thread.tags[:10]:
                badge(brief(tag, 40))
            words(thread.id, "span", "quiet mono")

    def _ask(self, question: Callable[[Visit, str], object], about: str) -> None:
        with self._dialogs:
            question(self._visit, about)

    def _rename(self, thread: Thread) -> None:
        async def take(entered: JSONObject) -> None:
            name = str(entered.get("name") or "").strip()
            await self._visit.permits.thread(self._visit.caller, thread.id)
            await self._visit.runtime.threads.rename(thread.id, name or None)
            await self.draw()

        values: JSONObject = {} if thread.name is None else {"name": thread.name}
        with self._dialogs:
            fill_in(self._visit, "Rename this thread", _NAME, take, values=values)

    def _draw_run(self, run: Run, *, asks: bool) -> None:
        status = "waiting" if asks else run.status
        badge(status, KINDS.get(status, ""))
        words(reason(run.waiting) or ("an answer" if asks else ""), "span", "quiet small")
        run_link(run.id, "its run", "")
        if run.cancel_requested_at is not None:
            words("is being cancelled …", "span", "quiet")
        else:
            action("Cancel the run", lambda: self._ask(ask_to_cancel, run.id), kind="danger")


def ask_to_delete(visit: Visit, thread_id: str) -> None:
    """Ask, with the choice to cancel first what is in progress."""
    dialog = ui.dialog()
    dialog.on("hide", dialog.delete)
    with dialog, ui.card(), box("div", "stack"):
        words("Delete this thread?", "h2")
        words("Its messages, files, values and the threads below it are gone for good.", "p", "quiet")
        cancels = ui.checkbox("Cancel first what is at work in it")

        async def delete() -> None:
            await visit.permits.thread(visit.caller, thread_id)
            await visit.runtime.threads.delete(thread_id, bool(cancels.value))

        async def confirmed() -> None:
            if await visit.act(delete(), "The thread is deleted."):
                dialog.close()
                ui.navigate.to("/threads")

        with box("div", "row"):
            action("Delete it", confirmed, kind="danger")
            action("Keep it", dialog.close)
    dialog.open()
