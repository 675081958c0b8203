"""Pages of runs, with the prompts that were sent to models."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, get_args
from urllib.parse import quote

from nicegui.element import Element

from toolwright.core.errors import NotFound
from toolwright.core.journal.reads import Depths
from toolwright.core.journal.units import Node
from toolwright.core.json_value import JSONObject
from toolwright.core.text import brief, quantity
from toolwright.core.threads.compaction import NO_RECORD, SentPrompt, left_out
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, RunStatus
from toolwright.core.threads.state_report import is_report
from toolwright.core.value import changed
from toolwright.runtime.health import seconds_since
from toolwright.web.auth.permits import reads_system_text
from toolwright.web.console.browsing import Listing, check_service, read_short, tabs
from toolwright.web.console.live import follow, poll
from toolwright.web.console.runs.facts import (
    KINDS,
    LOST,
    Rows,
    agent_name,
    choice_filter,
    joined,
    page_of,
    pager,
    price,
    reason,
    run_path,
    span,
    text_filter,
    tokens,
)
from toolwright.web.console.runs.head import RunHead
from toolwright.web.console.runs.timeline import RunDetail, Timeline
from toolwright.web.console.runs.writing import StreamedAnswer
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import (
    badge,
    box,
    code,
    heading,
    json_text,
    link,
    nothing,
    plain_text,
    when,
)

SIZE: Final = 10  # prompts per page
MAX_MESSAGES: Final = 200  # newest messages of a prompt that are drawn
TABS: Final = {"timeline": "Timeline", "prompts": "Prompts"}
POLL_INTERVAL: Final = 2.0  # seconds between two reads of a run whose events the visitor may not see
PAGE: Final = 50
"""Seconds between two polls. No topic has the events of all runs, and reading a page is cheaper than following all."""


async def draw_prompts(visit: Visit, run: Run) -> None:
    """Render the requests that were sent to models, a page of steps at a time."""

    async def read(limit: int, offset: int) -> Sequence[SentPrompt]:
        await visit.permits.run(visit.caller, run.id)
        return await visit.runtime.sent_prompts.of_run(run.id, limit, offset)

    listing = Listing(visit, read, partial(_draw, visit), empty=_no_prompts, size=SIZE)
    await listing.show()


def counted(prompt: SentPrompt) -> str:
    """Return a short text with the tokens of a request and of its parts."""
    sent = prompt.sent
    if sent is None:
        return ""
    totals = {"estimated": sent.tokens, "counted": sent.counted, "at most": sent.budget}
    parts = [f"{name} {tokens:,}" for name, tokens in prompt.parts.items() if tokens]
    return joined(*[f"{tokens:,} {name}" for name, tokens in totals.items() if tokens is not None], *parts)


def _no_prompts() -> None:
    nothing("No model requests yet.", "Each request to the model appears here after its response.")


def _draw(visit: Visit, prompt: SentPrompt) -> None:
    with box("li", "item"), box("div", "fill stack"):
        with box("div", "row"):
            plain_text(f"Step {prompt.step}", "h2", "title")
            for each in (prompt.by, prompt.side, prompt.within):
                if each is not None:
                    badge(each)
        if prompt.sent is None:
            plain_text(NO_RECORD, "p", "quiet")
            return
        plain_text(counted(prompt), "p", "quiet small")
        for line in left_out(prompt.compaction):
            plain_text(line, "p", "small")
        if reads_system_text(visit.caller):
            _fold_text(visit, "System", prompt.system)
            _fold_text(visit, "State", prompt.changing)
            if prompt.tools:
                tools: list[JSONObject] = [*prompt.tools]
                title = quantity(len(tools), "tool")
                _fold(visit, title, lambda: [code(json_text(each)) for each in tools])
        reads_reports = reads_system_text(visit.caller)
        messages = [each for each in prompt.messages if reads_reports or not is_report(each)]
        _fold(visit, quantity(len(messages), "message"), lambda: _draw_messages(messages))


def _draw_messages(messages: Sequence[Message]) -> None:
    hidden = len(messages) - MAX_MESSAGES
    if hidden > 0:
        plain_text(f"{quantity(hidden, 'earlier message')} not shown here.", "p", "quiet small")
    for message in messages[-MAX_MESSAGES:]:
        with box("div", "row"):
            plain_text(message.tool_name or message.role, "span", "title small")
            if message.pinned:
                badge("pinned")
        if message.content:
            code(message.content)
        for call in message.calls:
            code(f"{call.name}({call.arguments})")
        for file in message.attachments:
            plain_text(file.path, "p", "quiet small")


def _fold_text(visit: Visit, title: str, text: str) -> None:
    if text:
        _fold(visit, title, lambda: code(text))


def _fold(visit: Visit, title: str, draw: Callable[[], object]) -> None:
    """Render a folded part. Its content is drawn when it is first opened."""
    details = box("details", "folded")
    with details:
        plain_text(title, "summary", "quiet small")
        place = box()

    async def fill() -> None:
        if not place.default_slot.children:
            with place:
                draw()

    details.on("toggle", lambda: visit.act(fill()), args=[])


_STOPPED: Final = frozenset({"rejected", "denied", "failed"})
_GREW: Final = frozenset({"message", "step.started", "step.done"})


async def draw_run(visit: Visit, run_id: str) -> None:
    """Render the page of a run: all of the run, or only its status."""
    run, sight = await visit.permits.visible_run(visit.caller, run_id)
    if sight == "status":
        await _draw_status(visit, run)
        return
    if visit.query.get("tab") == "prompts":
        await RunHead(visit).show(run)
        tabs(run_path(run.id), TABS, "prompts")
        await draw_prompts(visit, run)
        return
    await RunView(visit, run).draw()


class RunView:
    """A run for visitors who may see all of it."""

    def __init__(self, visit: Visit, run: Run) -> None:
        self._visit = visit
        self._run_id = run.id
        self._lost = plain_text(LOST, "div", "note")
        self._lost.set_visibility(False)
        self._head = RunHead(visit)
        tabs(run_path(run.id), TABS, "timeline")
        plain_text("Timeline", "h2", "section")
        self._course = RunDetail(visit, run)
        self._timeline = Timeline(visit, self._course)
        self._writing = StreamedAnswer(visit)
        self._empty = box("div")
        self._verdicts = box("div", "stack")

    async def draw(self) -> None:
        """Render the page, and keep it up to date."""
        topic = Topic(kind="run", id=self._run_id)
        work = follow(self._visit, topic, read=self._read, draw=self._update, lost=self._lost.set_visibility)
        await self._show_head()
        self._visit.view.run(work)

    async def _read(self) -> None:
        await self._show_head()
        await self._course.read()
        await self._timeline.draw()
        await self._show_verdicts()
        self._writing.clear()
        with self._empty.clear():
            if not self._course.numbers:
                nothing("Nothing has happened yet.", "Steps appear here as they are executed.")

    async def _show_verdicts(self) -> None:
        """List the verdicts of the app's hooks, if there are any."""
        verdicts = await self._visit.runtime.runs.verdicts(self._run_id)
        with self._verdicts.clear():
            if verdicts:
                plain_text("Hooks", "h2", "section")
            for each in verdicts:
                with box("div", "row"):
                    plain_text(f"Step {each.step}", "span", "quiet small")
                    badge(each.ruling, "bad" if each.ruling in _STOPPED else "")
                    plain_text(f"{each.hook} at {each.point}", "span", "small")
                    plain_text(each.reason or "", "span", "quiet small")

    async def _show_head(self) -> None:
        await self._visit.permits.run(self._visit.caller, self._run_id)
        self._course.run = await self._visit.runtime.runs.get(self._run_id)
        await self._head.show(self._course.run)

    async def _update(self, events: Sequence[Event]) -> None:
        """Update the rows that the events concern. They are re-read, so that no deleted row is drawn."""
        types = {each.type for each in events}
        if types & _GREW or any(each.startswith("run.") for each in types):
            try:
                await self._show_head()
            except NotFound:
                self._visit.view.close()
                return
        if types & _GREW or "tool.started" in types:
            self._empty.clear()
            await self._timeline.refresh()
        if "hook.verdict" in types:
            await self._show_verdicts()
        touched = dict.fromkeys(
            [str(each.payload["toolCallId"]) for each in events if "toolCallId" in each.payload]
        )
        for call_id in touched:
            try:
                call = await self._visit.permits.call(self._visit.caller, call_id)
            except NotFound:
                continue
            await self._timeline.show_calls([call])
        await self._writing.draw_all(events, self._timeline.progress)


async def _draw_status(visit: Visit, run: Run) -> None:
    """Render the status of a run that a person caused in a thread of someone else (D24)."""
    heading("Run")
    card = box("div", "card stack")

    async def show(current: Run) -> None:
        name = await agent_name(visit, current.agent)
        with card.clear():
            with box("div", "row"):
                plain_text(name, "span", "title")
                badge(current.status, KINDS.get(current.status, ""))
            when(current.started_at or current.created_at)
            plain_text(
                "This run belongs to another person's thread. Only its status is shown.",
                "p",
                "quiet",
            )

    async def read() -> None:
        current, _ = await visit.permits.visible_run(visit.caller, run.id)
        await show(current)

    await show(run)
    if not run.over:
        visit.view.run(poll(read, POLL_INTERVAL))


STATUSES: Final[Mapping[str, RunStatus]] = {each: each for each in get_args(RunStatus)}


async def draw_runs(visit: Visit) -> None:
    """Render the list of runs, for services only, as in the API."""
    check_service(visit)
    with box("div", "head"):
        heading("Runs")
        box("div", "fill")
        choice_filter(visit, "/runs", "status", "Status", STATUSES)
        text_filter(visit, "/runs", "agent", "Agent")
        text_filter(visit, "/runs", "thread", "Thread")
        if await visit.runtime.nodes():
            link("Nodes", "/nodes")
    await RunListView(visit).draw()


async def draw_nodes(visit: Visit) -> None:
    """Render the nodes of the cluster, for services only."""
    check_service(visit)
    with box("div", "head"):
        heading("Nodes")
        box("div", "fill")
        link("Runs", "/runs")
    lost = plain_text(LOST, "div", "note")
    lost.set_visibility(False)
    place = box("div")

    async def read() -> None:
        check_service(visit)
        nodes, depths = await visit.runtime.nodes(), await visit.runtime.depths()
        with place.clear():
            _draw_nodes(nodes, depths)

    await read()
    visit.view.run(poll(read, POLL_INTERVAL, lost.set_visibility))


def _draw_nodes(nodes: Sequence[Node], depths: Depths) -> None:
    if not nodes:
        nothing(
            "This database has no cluster.", "Set TOOLWRIGHT_CLUSTER to execute runs in several processes."
        )
        return
    now = datetime.now(UTC)
    with box("table", "grid"):
        with box("thead"), box("tr"):
            for title in ("Node", "Version", "Busy", "Slots", "Clock", "Last heartbeat", "State", "Address"):
                plain_text(title, "th")
        with box("tbody"):
            for node in nodes:
                with box("tr"):
                    plain_text(node.id, "td", "mono")
                    plain_text(node.version, "td")
                    plain_text(str(node.busy), "td")
                    plain_text(str(node.slots), "td")
                    plain_text(f"{node.skew / 1e6:+.3f} s", "td")
                    plain_text(f"{seconds_since(node.seen, now):.1f} s ago", "td")
                    alive = node.is_alive(now)
                    plain_text("living" if alive else "dead", "td", "" if alive else "bad")
                    plain_text(node.address, "td", "mono")
    waits = seconds_since(depths.oldest_wake, now)
    plain_text(f"The oldest unclaimed wake-up has been due for {waits:.1f} s.", "p", "quiet small")


class RunListView:
    """A page of runs, kept up to date."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._page = page_of(visit.query)
        self._names: dict[str, str] = {}
        self._lost = plain_text(LOST, "div", "note")
        self._lost.set_visibility(False)
        self._empty = box("div")
        self._rows = Rows[Run](_open_row, self._draw_row)
        self._pager = box("div")
        self._more: bool | None = None

    async def draw(self) -> None:
        """Render the page, and poll for changes."""
        await self._read()
        self._visit.view.run(poll(self._read, POLL_INTERVAL, self._lost.set_visibility))

    async def _read(self) -> None:
        check_service(self._visit)
        query = self._visit.query
        agent = query.get("agent")
        agent_id = None if not agent else await self._visit.runtime.agents.id_of(agent)

        async def read(limit: int, offset: int) -> Sequence[Run]:
            return await self._visit.runtime.runs.list(
                status=STATUSES.get(query.get("status", "")),
                agent=agent_id,
                thread_id=query.get("thread") or None,
                limit=limit,
                offset=offset,
            )

        first = (self._page - 1) * PAGE
        runs = await read_short(read, PAGE + 1, first, lambda run: changed(run, output=None))
        for agent_id in {each.agent for each in runs} - {*self._names}:
            self._names[agent_id] = await agent_name(self._visit, agent_id)
        self._rows.show({each.id: each for each in runs[:PAGE]})
        self._draw_footer(empty=not runs, more=len(runs) > PAGE)

    def _draw_footer(self, *, empty: bool, more: bool) -> None:
        with self._empty.clear():
            if empty and {*self._visit.query} - {"page"}:
                nothing("No matching runs.", "Remove a filter.")
            elif empty:
                nothing("No runs yet.", "A run starts when an agent receives a message.")
        if more != self._more:
            self._more = more
            with self._pager.clear():
                pager(self._visit, "/runs", self._page, more=more)

    def _draw_row(self, run: Run) -> None:
        badge(run.status, KINDS.get(run.status, ""))
        with box("span", "fill"):
            plain_text(self._names.get(run.agent, run.agent), "span", "title")
            about = run.error if run.error is not None else reason(run.waiting)
            plain_text(brief(about, 160), "div", "bad small" if run.error else "quiet small")
        plain_text(joined(tokens(run.usage), price(run.cost)), "span", "quiet small wide")
        plain_text(span(run.started_at, run.completed_at), "span", "quiet small")
        when(run.started_at or run.created_at, "quiet small")


def _open_row(run_id: str) -> Element:
    row = link("", run_path(run_id), "item")
    row.props["data-run"] = quote(run_id)
    return row
