"""Head of a thread: parents and child threads, actions, and summaries."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import quote

from nicegui import ui

from toolwright.core.errors import NotFound, RowBroken
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_NAME, MAX_SUMMARY
from toolwright.core.text import brief
from toolwright.core.threads.compaction import Compaction, left_out
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.live import poll
from toolwright.web.console.runs.facts import (
    KINDS,
    address,
    agent_link,
    agent_name,
    reason,
    run_link,
    thread_link,
    thread_path,
)
from toolwright.web.console.runs.head import ask_to_cancel
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, code, heading, link, nothing, plain_text, when

log = logging.getLogger("toolwright.web")

MAX_DEPTH: Final = 4  # levels of the tree
MAX_CHILDREN: Final = 50  # children shown per thread; its own page shows all
MAX_ABOVE: Final = 20
MAX_TITLE: Final = 60  # characters of the first message
POLL_INTERVAL: Final = 2.0
"""Seconds between two polls, because a thread's events include its children but not further descendants."""


async def ancestors(visit: Visit, thread: Thread) -> list[Thread]:
    """Return the parent threads that the visitor may see, farthest first."""
    above: list[Thread] = []
    while thread.parent_id is not None and len(above) < MAX_ABOVE:
        try:
            await visit.permits.thread(visit.caller, thread.parent_id)
            thread = await visit.runtime.threads.get(thread.parent_id)
        except NotFound:
            break
        above.insert(0, thread)
    return above


async def draw_ancestors(visit: Visit, thread: Thread) -> None:
    """Render links to the parent threads."""
    above = await ancestors(visit, thread)
    if not above:
        return
    with box("nav", "row small") as trail:
        trail.props["aria-label"] = "Parent threads"
        for each in above:
            thread_link(each.id, await title_of(visit, each))
            plain_text("›", "span", "quiet")


async def title_of(visit: Visit, thread: Thread) -> str:
    """Return the title of a thread: its name, the beginning of its first message, or its agent's name."""
    if thread.name is None and thread.parent_id is None and thread.seq:
        title = ""
        try:
            first = await visit.runtime.threads.messages(thread.id, 1)
            if first and first[0].role == "user":
                title = " ".join(first[0].content[:1_000].split())
        except RowBroken as error:
            log.warning("%s", error)
        if title:
            return title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE].rstrip()} …"
    return brief(thread.name or await agent_name(visit, thread.answering), 100)


async def last_run_of(visit: Visit, thread: Thread) -> Run | None:
    """Return the thread's open run, or its newest run, or None. Returns None also if its row is broken."""
    try:
        if thread.run_id is not None:
            return await visit.runtime.runs.get(thread.run_id)
        runs = await visit.runtime.runs.list(thread_id=thread.id, limit=1)
    except RowBroken as error:
        log.warning("%s", error)
        return None
    return runs[0] if runs else None


async def waits_for_answer(visit: Visit, run: Run) -> bool:
    """Return whether a call of the open run waits for an external answer, such as a question of a handler."""
    return bool(await visit.runtime.calls.list(run_id=run.id, status=("waiting",), limit=1))


async def status_of(visit: Visit, thread: Thread, run: Run | None) -> str:
    """Return the status of the thread: `waiting` if its open run waits, `failed` if its newest run has failed.

    A run also waits while one of its calls waits for an external answer.
    """
    status = thread.child_status
    if run is None or thread.is_over:
        return status
    if not run.over:
        return "waiting" if run.status == "waiting" or await waits_for_answer(visit, run) else status
    return "failed" if run.status == "failed" else status


class FamilyTree:
    """Live tree of a thread's descendants."""

    def __init__(self, visit: Visit, thread_id: str) -> None:
        self._visit = visit
        self._thread_id = thread_id
        self._tree = box("div", "tree")
        self._drawn: list[tuple[int, Thread, int]] | None = None

    async def draw(self) -> None:
        """Render the tree, and poll for changes."""
        await self._refresh()
        self._visit.view.run(poll(self._refresh, POLL_INTERVAL))

    async def _refresh(self) -> None:
        await self._visit.permits.thread(self._visit.caller, self._thread_id)
        rows: list[tuple[int, Thread, int]] = []
        await self._gather(self._thread_id, 1, rows)
        if rows == self._drawn:
            return
        self._drawn = rows
        names = {each.answering: await agent_name(self._visit, each.answering) for _, each, _ in rows}
        with self._tree.clear():
            if not rows:
                nothing(
                    "No child threads.",
                    "Agents that it calls as tools run in child threads.",
                )
                return
            with box("div", "list") as items:
                items.props["role"] = "tree"
                for depth, thread, remaining in rows:
                    self._draw_row(depth, thread, names[thread.answering])
                    if remaining:
                        with box("div", "item small"):
                            link(f"and {remaining} more", f"{thread_path(thread.parent_id or '')}?tab=family")

    async def _gather(self, thread_id: str, depth: int, rows: list[tuple[int, Thread, int]]) -> None:
        children = await self._visit.runtime.threads.children(thread_id, MAX_CHILDREN + 1)
        visible = children[:MAX_CHILDREN]
        for place, child in enumerate(visible):
            has_more = len(children) > MAX_CHILDREN and place == len(visible) - 1
            rows.append((depth, child, 1 if has_more else 0))
            if depth < MAX_DEPTH and len(rows) < 4 * MAX_CHILDREN:
                await self._gather(child.id, depth + 1, rows)

    def _draw_row(self, depth: int, thread: Thread, agent: str) -> None:
        with box("div", "item") as row:
            row.props["role"] = "treeitem"
            row.props["aria-level"] = str(depth)
            row.style(f"padding-left: {14 + 22 * (depth - 1)}px")
            badge(thread.child_status, KINDS.get(thread.child_status, "bad"))
            with box("span", "fill"):
                thread_link(thread.id, thread.name or agent, "title")
                plain_text(agent if thread.name else "", "span", "quiet small")
            if thread.run_id is not None:
                run_link(thread.run_id, "current run")
            when(thread.created_at, "quiet small")


_FORM: Final[JSONObject] = {
    "type": "object",
    "properties": {"text": {"type": "string", "title": "Summary", "minLength": 1, "maxLength": MAX_SUMMARY}},
    "required": ["text"],
}


class ThreadSummary:
    """The summaries of a thread, one per side of an agent with two sides."""

    def __init__(self, visit: Visit, thread_id: str) -> None:
        self._visit = visit
        self._thread_id = thread_id
        self._place = box("div")

    async def show(self) -> None:
        """Render the omitted parts."""
        rows = await self._visit.runtime.threads.summaries(self._thread_id)
        with self._place.clear():
            for row in rows:
                if row.cut:
                    self._draw(row)

    def _draw(self, row: Compaction) -> None:
        with box("details", "folded section"):
            plain_text("The model receives a shortened conversation", "summary", "quiet small")
            with box("div", "stack"):
                if row.side:
                    badge(row.side)
                for line in left_out(row):
                    plain_text(line, "p", "small")
                code(row.text)
                with box("div", "row"):
                    action("Edit the summary", partial(self._edit, row), icon="edit")
                    action("Remove the summary", partial(self._remove, row), icon="delete")

    def _edit(self, row: Compaction) -> None:
        async def save(entered: JSONObject) -> None:
            await self._check()
            threads, by = self._visit.runtime.threads, self._visit.caller.label
            await threads.edit_summary(self._thread_id, str(entered["text"]), row.side or None, by=by)
            await self.show()

        values: JSONObject = {"text": row.summary or ""}
        fill_in(self._visit, "Edit the summary", _FORM, save, values=values)

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
            hint="The model receives the whole conversation again, until it is too long.",
        )

    async def _check(self) -> None:
        await self._visit.permits.thread(self._visit.caller, self._thread_id)


_NAME: JSONObject = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name (optional)", "maxLength": MAX_NAME}},
}


class ThreadHead:
    """Head of a thread's page: the thread, the status of its run, and their actions."""

    def __init__(self, visit: Visit, thread: Thread) -> None:
        self._visit = visit
        self._thread = thread
        self._drawn: tuple[Thread, Run | None, bool] | None = None
        with box("div", "head"):
            self._title = box("div", "row")
            box("div", "fill")
            self._actions = box("div", "row")
        self._dialogs = box("div")  # a question stays while the head is redrawn
        self._about = box("div", "row small about-thread")

    async def draw(self) -> None:
        """Render the current state."""
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
            if run is None or run.over:  # otherwise its run has more information
                badge(status, KINDS.get(status, "bad"))
        with self._actions.clear():
            if run is not None and not run.over:
                self._draw_run(run, asks=asks)
            if thread.parent_id is None:
                action("Rename", lambda: self._rename(thread), kind="plain")
            action("Delete", lambda: self._ask(ask_to_delete, thread.id), kind="plain")
        with self._about.clear():
            plain_text("Agent", "span", "quiet")
            agent_link(visit, thread.answering, agent)
            plain_text(
                f"for {brief(thread.user_id, 100)}" if thread.user_id and visit.is_service else "",
                "span",
                "quiet",
            )
            if thread.space_id is not None:
                link("in a space", f"/spaces/{quote(thread.space_id, safe='')}")
            if visit.is_service:
                link("all runs", address("/runs", thread=thread.id))
            for tag in thread.tags[:10]:
                badge(brief(tag, 40))
            plain_text(thread.id, "span", "quiet mono")

    def _ask(self, question: Callable[[Visit, str], object], about: str) -> None:
        with self._dialogs:
            question(self._visit, about)

    def _rename(self, thread: Thread) -> None:
        async def save(entered: JSONObject) -> None:
            name = str(entered.get("name") or "").strip()
            await self._visit.permits.thread(self._visit.caller, thread.id)
            await self._visit.runtime.threads.rename(thread.id, name or None)
            await self.draw()

        values: JSONObject = {} if thread.name is None else {"name": thread.name}
        with self._dialogs:
            fill_in(self._visit, "Rename this thread", _NAME, save, values=values)

    def _draw_run(self, run: Run, *, asks: bool) -> None:
        status = "waiting" if asks else run.status
        badge(status, KINDS.get(status, ""))
        plain_text(reason(run.waiting) or ("an answer" if asks else ""), "span", "quiet small")
        run_link(run.id, "current run", "")
        if run.cancel_requested_at is not None:
            plain_text("is being cancelled …", "span", "quiet")
        else:
            action("Cancel the run", lambda: self._ask(ask_to_cancel, run.id), kind="danger")


def ask_to_delete(visit: Visit, thread_id: str) -> None:
    """Ask for a confirmation, with the option to cancel work in progress first."""
    dialog = ui.dialog()
    dialog.on("hide", dialog.delete)
    with dialog, ui.card(), box("div", "stack"):
        plain_text("Delete this thread?", "h2")
        plain_text("Its messages, files, values and child threads are permanently deleted.", "p", "quiet")
        cancels = ui.checkbox("Cancel its runs in progress first")

        async def delete() -> None:
            await visit.permits.thread(visit.caller, thread_id)
            await visit.runtime.threads.delete(thread_id, bool(cancels.value))

        async def confirmed() -> None:
            if await visit.act(delete(), "The thread is deleted."):
                dialog.close()
                ui.navigate.to("/threads")

        with box("div", "row"):
            action("Delete thread", confirmed, kind="danger")
            action("Keep", dialog.close)
    dialog.open()
