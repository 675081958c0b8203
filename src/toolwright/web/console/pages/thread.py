"""One thread: its conversation live, its family, files, values and prompt."""

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from toolwright.core.errors import NotFound
from toolwright.core.results.content import Attachment
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.thread import Thread
from toolwright.web.console.browsing import tabs
from toolwright.web.console.live import follow
from toolwright.web.console.runs.facts import joined
from toolwright.web.console.runs.head import retry
from toolwright.web.console.runs.links import agent_name, run_link, thread_path
from toolwright.web.console.runs.rows import LOST
from toolwright.web.console.runs.waiting import draw_requests
from toolwright.web.console.runs.writing import Writing
from toolwright.web.console.threads.composer import Composer
from toolwright.web.console.threads.conversation import Conversation, Names
from toolwright.web.console.threads.family import FamilyTree, draw_ancestors, last_run_of
from toolwright.web.console.threads.files import draw_files_of
from toolwright.web.console.threads.head import ThreadHead
from toolwright.web.console.threads.prompt import draw_prompt
from toolwright.web.console.threads.summary import ThreadSummary
from toolwright.web.console.threads.values import ThreadValues
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, link, nothing, words

TABS: Final = {"messages": "Messages", "family": "Threads below", "files": "Files", "values": "Values"}
_FACTS: Final = frozenset({"subagent.created", "subagent.finished", "variables.required"})


async def draw_thread(visit: Visit, thread_id: str) -> None:
    """The view, one tab of it."""
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
            await ThreadView(visit, thread, head).draw()


class ThreadView:
    """The conversation, live, and where one writes."""

    def __init__(self, visit: Visit, thread: Thread, head: ThreadHead) -> None:
        self._visit = visit
        self._thread = thread
        self._head = head
        self._lost = words(LOST, "div", "note")
        self._lost.set_visibility(False)
        self._place = box("div")

    async def draw(self) -> None:
        """Draw it, and keep it as it is."""
        user = "You" if self._thread.user_id in self._visit.caller.user_ids else "User"
        names = Names(user=user, agent=await agent_name(self._visit, self._thread.answering))
        with self._place:
            self._summary = ThreadSummary(self._visit, self._thread.id)
            self._conversation = Conversation(self._visit, self._thread.id, names)
            self._writing = Writing(self._visit)
            self._failure = box("div")
            self._empty = box("div")
            self._requests = box("div")
            if self._thread.is_over:
                words("This thread is over: nobody answers in it any more.", "p", "note section")
            else:
                Composer(self._visit, self._send)
        topic = Topic(kind="thread", id=self._thread.id)
        work = follow(self._visit, topic, read=self._read, draw=self._take, lost=self._lost.set_visibility)
        self._visit.view.run(work)

    async def _read(self) -> None:
        await self._head.draw()
        await self._summary.show()
        await self._conversation.read()
        self._writing.clear()
        with self._empty.clear():
            if self._conversation.is_empty:
                nothing("Nothing was said here yet.", "Write the first message below.")
        await self._show_open_calls()
        await self._draw_requests()
        await self._draw_failure()

    async def _show_open_calls(self) -> None:
        """Show what the open run asks somebody: a question of a handler stands in no message."""
        run_id = (await self._visit.runtime.threads.get(self._thread.id)).run_id
        if run_id is not None:
            sight = self._visit.caller.sight
            for call in await self._visit.runtime.calls.list(run_id=run_id, sees=sight):
                await self._conversation.show_call(call)

    async def _draw_failure(self) -> None:
        """Show the error of the newest run, if that has failed."""
        run = await last_run_of(self._visit, await self._visit.runtime.threads.get(self._thread.id))
        with self._failure.clear():
            if run is not None and run.status == "failed":
                with box("div", "error row section") as told:
                    told.props["role"] = "alert"
                    words(joined(run.error_code or "", run.error or "The run failed."))
                    run_link(run.id)
                    action("Retry the run", lambda: retry(self._visit, run.id), icon="replay")

    async def _draw_requests(self) -> None:
        with self._requests.clear():
            await draw_requests(self._visit, self._thread.id)

    async def _send(self, text: str, files: Sequence[Attachment]) -> bool:
        async def post() -> None:
            await self._visit.permits.thread(self._visit.caller, self._thread.id)
            sent = await self._visit.runtime.threads.post(self._thread.id, text, files)
            self._empty.clear()
            self._conversation.sent(sent.message)
            ui.run_javascript("toolwright.toEnd?.()")

        return await self._visit.act(post())

    async def _take(self, events: Sequence[Event]) -> None:
        """What has happened: rows are read anew, so that nothing is drawn that is not there."""
        types = {each.type for each in events}
        try:
            if any(each.startswith("run.") for each in types):
                await self._head.draw()
                await self._draw_failure()
            if "context.compacted" in types:
                await self._summary.show()
            if "message" in types:
                self._empty.clear()
                await self._conversation.look_again()
        except NotFound:
            self._end()
            return
        if types & _FACTS or any(each.startswith("run.") for each in types):
            await self._draw_requests()
        touched = [str(each.payload["toolCallId"]) for each in events if "toolCallId" in each.payload]
        for call_id in dict.fromkeys(touched):
            await self._show_call(call_id)
        await self._writing.take_all(events, self._conversation.progress)

    async def _show_call(self, call_id: str) -> None:
        try:
            await self._conversation.show_call(await self._visit.permits.call(self._visit.caller, call_id))
        except NotFound:
            return

    def _end(self) -> None:
        with self._place.clear():
            nothing("This thread is gone.")
            link("To the threads", "/threads")
        self._visit.view.close()
