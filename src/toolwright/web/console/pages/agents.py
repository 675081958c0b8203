"""Pages of agents, with their inboxes."""

from collections.abc import Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

from nicegui import ui

from toolwright.core.agents.agent import Agent
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_DESCRIPTION, MAX_NAME
from toolwright.core.text import brief, quantity
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import InboxEvent, InboxStatus
from toolwright.core.value import Value
from toolwright.runtime.agents.agents import AgentView
from toolwright.web.console.agents.configuration import (
    ConfigurationView,
    PreviewPanel,
    Servers,
    StoredConfiguration,
    check_allowed,
    model_name,
)
from toolwright.web.console.agents.mind import BlockListView, Goals, Memories, PassageListView, PlanListView
from toolwright.web.console.browsing import Listing, check_service, folded, tabs
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.live import follow
from toolwright.web.console.room.people import name_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, link, nothing, plain_text, when

_KINDS: Final[dict[InboxStatus, str]] = {
    "pending": "waiting",
    "processing": "busy",
    "processed": "good",
    "failed": "bad",
}
TABS: Final = {
    "configuration": "Configuration",
    "prompt": "Prompt",
    "memory": "Memory",
    "mind": "Mind",
    "plans": "Plans",
    "inbox": "Inbox",
}
PER_PERSON_TABS: Final = ("prompt", "memory", "mind", "plans")
MAX_OWNERS: Final = 100  # people listed, each with a link
MAX_SEARCHED: Final = 1_000  # agents searched by the filter


class Inbox:
    """The events of an agent's home thread, oldest first."""

    def __init__(self, visit: Visit, agent: Agent) -> None:
        self._visit = visit
        self._agent = agent
        self._inboxes = visit.runtime.inboxes

    async def draw(self) -> None:
        """Render the events."""
        with box("section", "section"):
            plain_text("Inbox", "h2")
            plain_text(
                "An event whose run failed three times is not retried automatically.",
                "p",
                "quiet small under",
            )
            read = partial(self._inboxes.list, self._agent.id, None)
            empty = partial(nothing, "No events", "Messages, plans and services add events here.")
            self._list = Listing(self._visit, read, self._show, empty=empty)
            await self._list.show()
            home = Topic(kind="thread", id=self._agent.home_thread_id)
            self._visit.view.run(follow(self._visit, home, read=self._list.follow, draw=self._changed))

    async def _changed(self, _: Sequence[Event]) -> None:
        await self._list.follow()

    def _show(self, event: InboxEvent) -> None:
        with box("li", "item"), box("div", "fill stack"):
            with box("div", "row"):
                plain_text(event.type.replace("_", " "), "span", "title")
                badge(event.status, _KINDS[event.status])
                if event.attempts:
                    plain_text(f"{event.attempts} failed", "span", "quiet small")
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

        await self._visit.act(go(), "The event is retried.")


_TRIGGER: JSONObject = {
    "type": "object",
    "properties": {
        "service": {"type": "string", "title": "Service", "minLength": 1, "maxLength": MAX_NAME},
        "payload": {"title": "Payload", "description": "Data of the event in the agent's inbox."},
    },
    "required": ["service"],
}
_NAMES: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": MAX_NAME},
        "description": {"type": "string", "title": "Description", "maxLength": MAX_DESCRIPTION},
    },
    "required": ["name"],
}


async def draw_agent(visit: Visit, agent_id: str) -> None:
    """Render an agent by id or name, with the tab in the query."""
    check_service(visit)
    view = await visit.runtime.agents.show(agent_id)
    tab = visit.query.get("tab", "")
    tab = tab if tab in TABS else next(iter(TABS))
    with box("div", "head"):
        heading(view.agent.name)
        badge("in the app's code" if view.config is None else "configured")
        box("span", "fill")
        _actions(visit, view)
    if view.agent.description:
        plain_text(brief(view.agent.description, 600), "p", "quiet")
    tabs(f"/agents/{view.agent.id}", TABS, tab)
    await _draw_tab(visit, view, tab)


async def _draw_tab(visit: Visit, view: AgentView, tab: str) -> None:
    agent, user_id = view.agent, visit.query.get("user") or None
    if tab in PER_PERSON_TABS:
        await _owners(visit, agent, tab, user_id)
    match tab:
        case "prompt":
            await PreviewPanel(visit, agent, user_id).draw()
        case "memory":
            await BlockListView(visit, agent, user_id).draw()
            await PassageListView(visit, agent, user_id).draw()
        case "mind":
            await Goals(visit, agent, user_id).draw()
            await Memories(visit, agent, user_id).draw()
        case "plans":
            await PlanListView(visit, agent, user_id).draw()
        case "inbox":
            await Inbox(visit, agent).draw()
        case _:
            if view.config is None:
                hint = "The app declares this agent: change it in the app's code."
                plain_text(hint, "p", "quiet small under")
            await ConfigurationView(visit, agent).draw()
            Servers(visit, agent).draw()
            if view.config is not None:
                await StoredConfiguration(visit, view).draw()


async def _owners(visit: Visit, agent: Agent, tab: str, user_id: str | None) -> None:
    """Render links to the agent's own data and its data per person, or nothing if there is no data for people."""
    people = list(await visit.runtime.minds.people(agent.id))[:MAX_OWNERS]
    if user_id is not None and user_id not in people:
        people.append(user_id)
    if not people:
        return
    path = f"/agents/{agent.id}?tab={tab}"
    with box("nav", "row under") as bar:
        bar.props["aria-label"] = "Owner"
        plain_text("Owner", "span", "quiet")
        for each in (None, *people):
            entity = None if each is None else await visit.runtime.entities.get_for_display(each)
            name = "The agent" if each is None else each if entity is None else name_of(entity)
            owner_link = link(
                brief(name, 60), path if each is None else f"{path}&user={quote(each, safe='')}"
            )
            if each == user_id:
                owner_link.props["aria-current"] = "page"


def _actions(visit: Visit, view: AgentView) -> None:
    agent = view.agent

    async def talk() -> None:
        async def go() -> None:
            thread = await visit.runtime.threads.create(agent.id)
            ui.navigate.to(f"/threads/{thread.id}")

        await visit.act(go())

    def trigger() -> None:
        async def submit(entered: JSONObject) -> None:
            await visit.runtime.inboxes.trigger(agent.id, str(entered["service"]), entered.get("payload"))

        hint = "The agent processes the payload in its home thread."
        fill_in(
            visit, f"Trigger {agent.name}", _TRIGGER, submit, label="Trigger", done="Triggered.", hint=hint
        )

    action("Talk", talk, icon="chat_bubble_outline", kind="primary")
    action("Trigger", trigger, icon="bolt")
    if view.config is not None:
        _changes(visit, view)


def _changes(visit: Visit, view: AgentView) -> None:
    agent = view.agent

    def rename() -> None:
        async def submit(entered: JSONObject) -> None:
            name, description = str(entered["name"]), str(entered.get("description") or "")
            await visit.runtime.agents.update(agent.id, name=name, description=description)
            ui.navigate.reload()

        values: JSONObject = {"name": agent.name, "description": agent.description}
        fill_in(visit, "Name and description", _NAMES, submit, values=values)

    def delete() -> None:
        async def go() -> None:
            await visit.runtime.agents.delete(agent.id)
            ui.navigate.to("/agents")

        hint = "The agent leaves its spaces. Its runs in progress end, and no new ones start."
        confirm(visit, f"Delete the agent {agent.name}?", "Delete", go, done="Deleted.", hint=hint)

    action("Rename", rename, icon="edit")
    action("Delete", delete, icon="delete", kind="danger")


_NEW: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": MAX_NAME},
        "description": {"type": "string", "title": "Description", "maxLength": MAX_DESCRIPTION},
        "config": {
            "type": "object",
            "title": "Configuration",
            "default": {"agent": {"system": "You help."}, "tools": []},
        },
    },
    "required": ["name", "config"],
}


async def draw_list(visit: Visit) -> None:
    """Render all agents, with a filter."""
    check_service(visit)
    await _Agents(visit).draw()


class _AgentRow(Value):
    view: AgentView
    model: str = ""
    tools: int = 0
    fits: bool = True


class _Agents:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._filter = ""

    async def draw(self) -> None:
        with box("div", "head"):
            heading("Agents")
            box("span", "fill")
            action("New agent", self._new, icon="add")
        field = ui.input("Filter", on_change=lambda event: self._narrow(event.value))
        field.props("outlined dense clearable debounce=200").classes("search")
        field.props["data-focus"] = True
        self._list = Listing(self._visit, self._read, _show, empty=self._none)
        await self._list.show()

    async def _read(self, limit: int, offset: int) -> Sequence[_AgentRow]:
        if not self._filter:
            return await self._rows(await self._visit.runtime.agents.show_all(limit, offset))
        every = await self._visit.runtime.agents.show_all(MAX_SEARCHED)
        fitting = [
            each for each in every if self._filter in f"{each.agent.name} {each.agent.description}".casefold()
        ]
        return await self._rows(fitting[offset : offset + limit])

    async def _rows(self, agents: Sequence[AgentView]) -> Sequence[_AgentRow]:
        return [await self._row(each) for each in agents]

    async def _row(self, view: AgentView) -> _AgentRow:
        active = await self._visit.runtime.agents.usable(view.agent.id)
        if active is None:
            return _AgentRow(view=view, fits=False)
        names = {tool.name for side in active.sides.values() for tool in side.tools}
        return _AgentRow(view=view, model=model_name(active.model), tools=len(names))

    async def _narrow(self, text: str | None) -> None:
        self._filter = (text or "").strip().casefold()
        await self._visit.act(self._list.show(0))

    def _none(self) -> None:
        if self._filter:
            nothing("No matching agents", "The filter searches names and descriptions.")
        else:
            nothing("No agents yet", "Declare one in the app, tw.App(agents=[…]), or configure one here.")

    def _new(self) -> None:
        async def submit(entered: JSONObject) -> None:
            config = entered["config"]
            check_allowed(self._visit, config)
            name, description = str(entered["name"]), str(entered.get("description") or "")
            saved = await self._visit.runtime.agents.save(name, config, description)
            ui.navigate.to(f"/agents/{saved.agent.id}")

        hint = "Replaces a configured agent of the same name."
        fill_in(self._visit, "New agent", _NEW, submit, done="The agent was created.", hint=hint)


def _show(row: _AgentRow) -> None:
    agent = row.view.agent
    with box("li", "item"), box("div", "fill"):
        with box("div", "row"):
            link(agent.name, f"/agents/{agent.id}", "title")
            badge("in the app's code" if row.view.config is None else "configured")
            if not row.fits:
                badge("cannot run", "bad")
        if agent.description:
            plain_text(brief(agent.description, 240), "p", "quiet small")
        if row.fits:
            facts = [row.model, quantity(row.tools, "tool"), *agent.toolkits]
            plain_text(brief(" · ".join(facts), 240), "p", "quiet small")
