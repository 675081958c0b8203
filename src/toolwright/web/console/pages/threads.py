"""Pages of threads: the list, and a thread with its tabs."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from nicegui import ui

from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.results import Attachment
from toolwright.core.text import brief, quantity
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.web.auth.permits import owner_of_new
from toolwright.web.console.browsing import read_short, tabs
from toolwright.web.console.live import follow
from toolwright.web.console.runs.facts import (
    KINDS,
    LOST,
    agent_name,
    draw_requests,
    joined,
    page_of,
    pager,
    run_link,
    text_filter,
    thread_path,
)
from toolwright.web.console.runs.head import retry
from toolwright.web.console.runs.writing import StreamedAnswer
from toolwright.web.console.threads.conversation import Composer, Conversation, ParticipantNames, draw_prompt
from toolwright.web.console.threads.files import ThreadValues, draw_files_of
from toolwright.web.console.threads.head import (
    FamilyTree,
    ThreadHead,
    ThreadSummary,
    draw_ancestors,
    last_run_of,
    status_of,
    title_of,
)
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, link, nothing, plain_text, when

TABS: Final = {"messages": "Messages", "family": "Child threads", "files": "Files", "values": "Values"}
_FACTS: Final = frozenset({"subagent.created", "subagent.finished", "variables.required", "variables.set"})
PAGE: Final = 50
MAX_AGENTS: Final = 500


async def draw_thread(visit: Visit, thread_id: str) -> None:
    """Render one tab of a thread's page."""
    await visit.permits.thread(visit.caller, thread_id)
    thread = await visit.runtime.threads.get(thread_id)
    names = {**TABS, **({"prompt": "Prompt"} if visit.is_service else {})}
    tab = visit.query.get("tab", "messages")
    tab = tab if tab in names else "messages"
    await draw_ancestors(visit, thread)
    head = ThreadHead(visit, thread)
    await head.draw()
    tabs(thread_path(thread_id), names, tab)
    match tab:
        case "family":
            await FamilyTree(visit, thread_id).draw()
        case "files":
            await draw_files_of(visit, thread_id)
        case "values":
            await ThreadValues(visit, thread).draw()
        case "prompt":
            await draw_prompt(visit, thread)
        case _:
            await LiveThread(visit, thread, head).draw()


class LiveThread:
    """The live conversation and the field for a new message."""

    def __init__(self, visit: Visit, thread: Thread, head: ThreadHead) -> None:
        self._visit = visit
        self._thread = thread
        self._head = head
        self._lost = plain_text(LOST, "div", "note")
        self._lost.set_visibility(False)
        self._place = box("div")

    async def draw(self) -> None:
        """Render the page, and keep it up to date."""
        user = "You" if self._thread.user_id in self._visit.caller.user_ids else "User"
        names = ParticipantNames(user=user, agent=await agent_name(self._visit, self._thread.answering))
        with self._place:
            self._summary = ThreadSummary(self._visit, self._thread.id)
            self._conversation = Conversation(self._visit, self._thread.id, names)
            self._writing = StreamedAnswer(self._visit)
            self._failure = box("div")
            self._empty = box("div")
            self._requests = box("div")
            if self._thread.is_over:
                plain_text("This thread is closed. Its agent no longer answers.", "p", "note section")
            else:
                Composer(self._visit, self._send)
        topic = Topic(kind="thread", id=self._thread.id)
        work = follow(self._visit, topic, read=self._read, draw=self._update, lost=self._lost.set_visibility)
        self._visit.view.run(work)

    async def _read(self) -> None:
        await self._head.draw()
        await self._summary.show()
        await self._conversation.read()
        self._writing.clear()
        with self._empty.clear():
            if self._conversation.is_empty:
                nothing("No messages yet.", "Write the first message below.")
        await self._show_open_calls()
        await self._draw_requests()
        await self._draw_failure()

    async def _show_open_calls(self) -> None:
        """Show the questions of the open run, because a handler's question is not part of any message."""
        run_id = (await self._visit.runtime.threads.get(self._thread.id)).run_id
        if run_id is not None:
            sight = self._visit.caller.sight
            for call in await self._visit.runtime.calls.list(run_id=run_id, sees=sight):
                await self._conversation.show_call(call)

    async def _draw_failure(self) -> None:
        """Show the error of the newest run if it has failed."""
        run = await last_run_of(self._visit, await self._visit.runtime.threads.get(self._thread.id))
        with self._failure.clear():
            if run is not None and run.status == "failed":
                with box("div", "error row section") as row:
                    row.props["role"] = "alert"
                    plain_text(joined(run.error_code or "", run.error or "The run failed."))
                    run_link(run.id)
                    action("Retry the run", lambda: retry(self._visit, run.id), icon="replay")

    async def _draw_requests(self) -> None:
        with self._requests.clear():
            await draw_requests(self._visit, self._thread.id)

    async def _send(self, text: str, files: Sequence[Attachment]) -> bool:
        async def post() -> None:
            await self._visit.permits.thread(self._visit.caller, self._thread.id)
            sent = await self._visit.runtime.threads.post(
                self._thread.id, text, files, by=self._visit.caller.through("console")
            )
            self._empty.clear()
            self._conversation.sent(sent.message)
            ui.run_javascript("toolwright.toEnd?.()")

        return await self._visit.act(post())

    async def _update(self, events: Sequence[Event]) -> None:
        """Update the rows that the events concern. They are re-read, so that no deleted row is drawn."""
        types = {each.type for each in events}
        try:
            if any(each.startswith("run.") for each in types):
                await self._head.draw()
                await self._draw_failure()
            if "context.compacted" in types:
                await self._summary.show()
            if "message" in types:
                self._empty.clear()
                await self._conversation.refresh()
        except NotFound:
            self._end()
            return
        if types & _FACTS or any(each.startswith("run.") for each in types):
            await self._draw_requests()
        touched = [str(each.payload["toolCallId"]) for each in events if "toolCallId" in each.payload]
        for call_id in dict.fromkeys(touched):
            await self._show_call(call_id)
        await self._writing.draw_all(events, self._conversation.progress)

    async def _show_call(self, call_id: str) -> None:
        try:
            await self._conversation.show_call(await self._visit.permits.call(self._visit.caller, call_id))
        except NotFound:
            return

    def _end(self) -> None:
        with self._place.clear():
            nothing("This thread was deleted.")
            link("To the threads", "/threads")
        self._visit.view.close()


async def draw_threads(visit: Visit) -> None:
    """Render the list of threads: a person's own, or all for a service."""
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
    page_threads = threads[:PAGE]
    if not page_threads:
        nothing("No threads yet.", "In a thread you talk to one agent.")
        return
    names = {each.answering: await agent_name(visit, each.answering) for each in page_threads}
    titles = [await title_of(visit, each) for each in page_threads]
    statuses = [await status_of(visit, each, await last_run_of(visit, each)) for each in page_threads]
    with box("div", "list"):
        for thread, title, status in zip(page_threads, titles, statuses, strict=True):
            _draw_thread(visit, thread, title, names[thread.answering], status)
    pager(visit, "/threads", page, more=len(threads) > PAGE)


def _draw_thread(visit: Visit, thread: Thread, title: str, agent: str, status: str) -> None:
    with link("", thread_path(thread.id), "item") as row:
        row.props["data-thread"] = thread.id
        badge(status, KINDS.get(status, "bad"))
        with box("span", "fill"):
            plain_text(title, "span", "title")
            about = [
                agent if title != agent else "",
                "child thread" if thread.parent_id is not None else "",
            ]
            if visit.is_service and thread.user_id is not None:
                about.append(f"for {brief(thread.user_id, 60)}")
            plain_text(" · ".join(filter(None, about)), "div", "quiet small")
        plain_text(quantity(thread.seq, "message"), "span", "quiet small wide")
        when(thread.created_at, "quiet small")


async def ask_for_thread(visit: Visit) -> None:
    """Ask for the agent and the first message, and create the thread."""
    names: dict[str, str] = {}
    if visit.is_service:
        agents = await visit.runtime.agents.list(MAX_AGENTS)
        names = {each.id: brief(each.name, 100) for each in agents}
    preset = visit.query.get("agent", "")
    dialog = ui.dialog()
    dialog.on("hide", dialog.delete)
    with dialog, ui.card().classes("dialog"), box("div", "stack"):
        plain_text("New thread", "h2")
        if names:
            chosen = next((key for key, name in names.items() if preset in (key, name)), next(iter(names)))
            agent: ui.select | ui.input = ui.select(names, value=chosen, label="Agent", with_input=True)
        else:
            agent = ui.input("Agent", value=preset)
        agent.props("outlined dense")
        message = ui.textarea("First message").props("outlined dense autogrow autofocus")

        async def create() -> None:
            thread_id = await begin(visit, str(agent.value or "").strip(), str(message.value or ""))
            ui.navigate.to(thread_path(thread_id))

        async def confirmed() -> None:
            if await visit.act(create()):
                dialog.close()

        with box("div", "row"):
            action("Start", confirmed, kind="primary")
            action("Cancel", dialog.close)
    dialog.open()


async def begin(visit: Visit, agent: str, message: str) -> str:
    """Create a thread and send the first message, if any. Returns the thread's id. A person owns their threads."""
    if not agent:
        raise InvalidRequest("Enter an agent's name.")
    owner = owner_of_new(visit.caller, None)
    await visit.permits.agent(visit.caller, agent)
    thread = await visit.runtime.threads.create(agent, owner)
    if message.strip():
        await visit.runtime.threads.post(thread.id, message, by=visit.caller.through("console"))
    return thread.id
