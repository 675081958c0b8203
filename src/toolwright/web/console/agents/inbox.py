"""Inbox of an agent: what has come to it, how that went, and another try for what has failed."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from toolwright.core.agents.agent import Agent
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import InboxEvent, InboxStatus
from toolwright.web.console.browsing import Listing, folded
from toolwright.web.console.live import follow
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, link, nothing, when, words

_KINDS: Final[dict[InboxStatus, str]] = {
    "pending": "waiting",
    "processing": "busy",
    "processed": "good",
    "failed": "bad",
}


class Inbox:
    """The events of an agent's home thread, the oldest first."""

    def __init__(self, visit: Visit, agent: Agent) -> None:
        self._visit = visit
        self._agent = agent
        self._inboxes = visit.runtime.inboxes

    async def draw(self) -> None:
        """Draw them."""
        with box("section", "section"):
            words("Inbox", "h2")
            words("What failed three runs waits until it is tried again.", "p", "quiet small under")
            read = partial(self._inboxes.list, self._agent.id, None)
            empty = partial(nothing, "Nothing has come", "Messages, plans and services put events here.")
            self._list = Listing(self._visit, read, self._show, empty=empty)
            await self._list.show()
            home = Topic(kind="thread", id=self._agent.home_thread_id)
            self._visit.view.run(follow(self._visit, home, read=self._list.follow, draw=self._changed))

    async def _changed(self, _: Sequence[Event]) -> None:
        await self._list.follow()

    def _show(self, event: InboxEvent) -> None:
        with box("li", "item"), box("div", "fill stack"):
            with box("div", "row"):
                words(event.type.replace("_", " "), "span", "title")
                badge(event.status, _KINDS[event.status])
                if event.attempts:
                    words(f"{event.attempts} failed", "span", "quiet small")
                when(event.created_at, "quiet small")
                if event.run_id is not None:
                    link("Its run", f"/runs/{event.run_id}", "small")
                box("span", "fill")
                if event.status == "failed":
                    action("Retry", partial(self._retry, event), icon="replay")
            folded(self._visit, "Data", event.content)

    async def _retry(self, event: InboxEvent) -> None:
        async def go() -> None:
            await self._inboxes.retry(self._agent.id, event.event_id)
            await self._list.show()

        await self._visit.act(go(), "It is tried again.")
