"""Threads, the newest first, and a new one."""

from functools import partial
from typing import Final

from nicegui import ui

from toolwright.core.broken_rows import all_of
from toolwright.core.errors import InvalidRequest
from toolwright.core.text import brief, quantity
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.web.auth.permits import owner_of_new
from toolwright.web.console.browsing import read_short
from toolwright.web.console.runs.facts import KINDS
from toolwright.web.console.runs.filters import page_of, pager, text_filter
from toolwright.web.console.runs.links import agent_name, thread_path
from toolwright.web.console.threads.family import last_run_of, status_of, title_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, link, nothing, when, words

PAGE: Final = 50
MOST_AGENTS: Final = 500


async def draw_threads(visit: Visit) -> None:
    """The view: a person's own, for a service all."""
    with box("div", "head"):
        heading("Threads")
        box("div", "fill")
        text_filter(visit, "/threads", "agent", "Agent")
        action("New thread", lambda: ask_for_thread(visit), kind="primary")
    await _draw_list(visit)


async def _draw_list(visit: Visit) -> None:
    page, agent = page_of(visit.query), visit.query.get("agent")
    read = partial(
        visit.runtime.threads.list,
        None,
        among=visit.caller.users,
        agent=None if not agent else await visit.runtime.agents.id_of(agent),
        order="newest_first",
    )
    threads = await read_short(
        read, PAGE + 1, (page - 1) * PAGE, lambda thread: changed(thread, arguments=None)
    )
    shown = all_of(threads)[:PAGE]
    if not shown:
        nothing("There are no threads here yet.", "In a thread you talk with one agent.")
        return
    names = {each.answering: await agent_name(visit, each.answering) for each in shown}
    titles = [await title_of(visit, each) for each in shown]
    statuses = [await status_of(visit, each, await last_run_of(visit, each)) for each in shown]
    with box("div", "list"):
        for thread, title, status in zip(shown, titles, statuses, strict=True):
            _draw_thread(visit, thread, title, names[thread.answering], status)
    pager(visit, "/threads", page, more=len(threads) > PAGE)


def _draw_thread(visit: Visit, thread: Thread, title: str, agent: str, status: str) -> None:
    with link("", thread_path(thread.id), "item") as row:
        row.props["data-thread"] = thread.id
        badge(status, KINDS.get(status, "bad"))
        with box("span", "fill"):
            words(title, "span", "title")
            about = [
                agent if title != agent else "",
                "below another thread" if thread.parent_id is not None else "",
            ]
            if visit.is_service and thread.user_id is not None:
                about.append(f"for {brief(thread.user_id, 60)}")
            words(" · ".join(filter(None, about)), "div", "quiet small")
        words(quantity(thread.seq, "message"), "span", "quiet small wide")
        when(thread.created_at, "quiet small")


async def ask_for_thread(visit: Visit) -> None:
    """Ask for the agent and the first words, and begin."""
    names: dict[str, str] = {}
    if visit.is_service:
        agents = all_of(await visit.runtime.agents.list(MOST_AGENTS))
        names = {each.id: brief(each.name, 100) for each in agents}
    asked = visit.query.get("agent", "")
    dialog = ui.dialog()
    dialog.on("hide", dialog.delete)
    with dialog, ui.card().classes("dialog"), box("div", "stack"):
        words("New thread", "h2")
        if names:
            chosen = next((key for key, name in names.items() if asked in (key, name)), next(iter(names)))
            agent: ui.select | ui.input = ui.select(names, value=chosen, label="Agent", with_input=True)
        else:
            agent = ui.input("Agent", value=asked)
        agent.props("outlined dense")
        message = ui.textarea("First message").props("outlined dense autogrow autofocus")

        async def create() -> None:
            thread_id = await begin(visit, str(agent.value or "").strip(), str(message.value or ""))
            ui.navigate.to(thread_path(thread_id))

        async def confirmed() -> None:
            if await visit.act(create()):
                dialog.close()

        with box("div", "row"):
            action("Begin", confirmed, kind="primary")
            action("Never mind", dialog.close)
    dialog.open()


async def begin(visit: Visit, agent: str, message: str) -> str:
    """Create a thread, a person's for themselves, and send the first message if there is one; the thread's id."""
    if not agent:
        raise InvalidRequest("Say with whom: give an agent's name.")
    owner = owner_of_new(visit.caller, None)
    await visit.permits.agent(visit.caller, agent)
    thread = await visit.runtime.threads.create(agent, owner)
    if message.strip():
        await visit.runtime.threads.post(thread.id, message)
    return thread.id
