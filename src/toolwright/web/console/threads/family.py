"""The family of a thread: those above it, and the tree of those below."""

import logging
from typing import Final

from toolwright.core.broken_rows import all_of
from toolwright.core.errors import NotFound, RowBroken
from toolwright.core.text import brief
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.web.console.live import look_again
from toolwright.web.console.runs.facts import KINDS, agent_name, run_link, thread_link, thread_path
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, link, nothing, when, words

log = logging.getLogger("toolwright.web")

DEEPEST: Final = 4  # levels of the tree
MOST_CHILDREN: Final = 50  # of one thread; its own page has them all
MOST_ABOVE: Final = 20
LONGEST_TITLE: Final = 60  # characters of the first words
LOOK_AGAIN: Final = 2.0
"""Seconds between two looks: a thread's events tell of its children, not of theirs."""


async def ancestors(visit: Visit, thread: Thread) -> list[Thread]:
    """The threads above it that whoever looks may see, the farthest first."""
    above: list[Thread] = []
    while thread.parent_id is not None and len(above) < MOST_ABOVE:
        try:
            await visit.permits.thread(visit.caller, thread.parent_id)
            thread = await visit.runtime.threads.get(thread.parent_id)
        except NotFound:
            break
        above.insert(0, thread)
    return above


async def draw_ancestors(visit: Visit, thread: Thread) -> None:
    """Links to the threads above it."""
    above = await ancestors(visit, thread)
    if not above:
        return
    with box("nav", "row small") as trail:
        trail.props["aria-label"] = "Threads above"
        for each in above:
            thread_link(each.id, await title_of(visit, each))
            words("›", "span", "quiet")


async def title_of(visit: Visit, thread: Thread) -> str:
    """Return what a thread is called: its own name, else its first words, else its agent's name.

    A thread below another one is called after the agent that carries the work out, and so is one whose first words
    cannot be read.
    """
    if thread.name is None and thread.parent_id is None and thread.seq:
        first = await visit.runtime.threads.messages(thread.id, 1)
        said = " ".join(first[0].content[:1_000].split()) if first and first[0].role == "user" else ""
        if said:
            return said if len(said) <= LONGEST_TITLE else f"{said[:LONGEST_TITLE].rstrip()} …"
    return brief(thread.name or await agent_name(visit, thread.answering), 100)


async def last_run_of(visit: Visit, thread: Thread) -> Run | None:
    """Return the run that is open in the thread, else its newest one; None too if its row is broken."""
    if thread.run_id is not None:
        try:
            return await visit.runtime.runs.get(thread.run_id)
        except RowBroken as error:
            log.warning("%s", error)
            return None
    runs = await visit.runtime.runs.list(thread_id=thread.id, limit=1)
    return runs[0] if runs else None


async def waits_for_answer(visit: Visit, run: Run) -> bool:
    """Return whether a call of the open run waits for somebody outside, such as a question of a handler."""
    return bool(await visit.runtime.calls.list(run_id=run.id, status=("waiting",), limit=1))


async def status_of(visit: Visit, thread: Thread, run: Run | None) -> str:
    """Return the status of the thread: `waiting` if its open run waits, `failed` if its newest run has failed.

    A run waits also while a call of it waits for somebody outside.
    """
    told = thread.child_status
    if run is None or thread.is_over:
        return told
    if not run.over:
        return "waiting" if run.status == "waiting" or await waits_for_answer(visit, run) else told
    return "failed" if run.status == "failed" else told


class FamilyTree:
    """The threads below one, live."""

    def __init__(self, visit: Visit, thread_id: str) -> None:
        self._visit = visit
        self._thread_id = thread_id
        self._tree = box("div", "tree")
        self._drawn: list[tuple[int, Thread, int]] | None = None

    async def draw(self) -> None:
        """Draw it, and keep looking."""
        await self._look()
        self._visit.view.run(look_again(self._look, LOOK_AGAIN))

    async def _look(self) -> None:
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
                    "This thread has made no others.",
                    "Agents that it calls as tools work in threads below it.",
                )
                return
            with box("div", "list") as items:
                items.props["role"] = "tree"
                for depth, thread, left in rows:
                    self._draw_row(depth, thread, names[thread.answering])
                    if left:
                        with box("div", "item small"):
                            link(f"and {left} more", f"{thread_path(thread.parent_id or '')}?tab=family")

    async def _gather(self, thread_id: str, depth: int, rows: list[tuple[int, Thread, int]]) -> None:
        children = all_of(await self._visit.runtime.threads.children(thread_id, MOST_CHILDREN + 1))
        shown = children[:MOST_CHILDREN]
        for place, child in enumerate(shown):
            left = len(children) > MOST_CHILDREN and place == len(shown) - 1
            rows.append((depth, child, 1 if left else 0))
            if depth < DEEPEST and len(rows) < 4 * MOST_CHILDREN:
                await self._gather(child.id, depth + 1, rows)

    def _draw_row(self, depth: int, thread: Thread, agent: str) -> None:
        with box("div", "item") as row:
            row.props["role"] = "treeitem"
            row.props["aria-level"] = str(depth)
            row.style(f"padding-left: {14 + 22 * (depth - 1)}px")
            badge(thread.child_status, KINDS.get(thread.child_status, "bad"))
            with box("span", "fill"):
                thread_link(thread.id, thread.name or agent, "title")
                words(agent if thread.name else "", "span", "quiet small")
            if thread.run_id is not None:
                run_link(thread.run_id, "its run")
            when(thread.created_at, "quiet small")
