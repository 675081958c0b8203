"""Frame of all pages: navigation, keyboard shortcuts, theme, sign-out, and the view of the path."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, cast

from fastapi import Request
from nicegui import Client, PageArguments, ui
from nicegui.elements.mixins.text_element import TextElement

from toolwright.core.errors import StoreError, ToolwrightError, Unauthorized
from toolwright.web.console.dialogs import cancel, opened
from toolwright.web.console.pages import agents, people, spaces, tools
from toolwright.web.console.pages.pending import count_pending, draw_pending
from toolwright.web.console.pages.runs import draw_nodes, draw_run, draw_runs
from toolwright.web.console.pages.spaces import unread_of
from toolwright.web.console.pages.threads import draw_thread, draw_threads
from toolwright.web.console.room.view import draw_room
from toolwright.web.console.sign_in import Session
from toolwright.web.console.visit import SCOPE, ConsoleApp, Visit
from toolwright.web.console.widgets import action, box, heading, icon_action, link, nothing, plain_text

PLACES: Final = (  # path, name, icon, key, and whether it is for services only
    ("/", "Spaces", "forum", "s", False),
    ("/pending", "Pending", "pending_actions", "p", False),
    ("/threads", "Threads", "chat_bubble_outline", "t", False),
    ("/runs", "Runs", "timeline", "r", True),
    ("/agents", "Agents", "smart_toy", "a", True),
    ("/tools", "Tools", "build", "o", True),
)
KEYS: Final = (
    ("/", "Focus the message or search field"),
    ("Enter", "Send"),
    ("Shift Enter", "Insert a line break"),
    ("Esc", "Leave the field"),
    ("?", "Show these shortcuts"),
)
POLL_INTERVAL: Final = (
    3.0  # seconds between two counts, because there is no event stream of waiting items in threads
)
MAX_COUNT: Final = 99
THEMES: Final = {"light": False, "dark": True}


def draw_navigation(visit: Visit) -> None:
    """Render the navigation and keep its counts up to date."""
    counts: dict[str, TextElement] = {}
    with box("nav", "navigation") as navigation:
        navigation.props["aria-label"] = "Main"
        for path, name, icon, key, for_services in PLACES:
            if for_services and not visit.is_service:
                continue
            with link("", path, "place") as place:
                place.props["data-key"] = key
                place.props["title"] = f"{name} (g {key})"
                ui.icon(icon).props('aria-hidden="true"')
                plain_text(name, "span", "name")
                counts[path] = plain_text("", "span", "count")
        box("div", "room")
        with box("div", "row ways"):
            icon_action("contrast", "Light or dark", lambda: ui.run_javascript("toolwright.theme()"))
            keys = icon_action("keyboard", "Keys", lambda: _show_keys(visit))
            keys.props["data-keys"] = ""
            if visit.session.until is not None:
                icon_action("logout", "Sign out", lambda: _sign_out(visit))
    visit.run(_count(visit, counts["/"], counts["/pending"]))


def _sign_out(visit: Visit) -> None:
    """Ask whether to end this session or every session of the caller."""
    with opened(visit, "Sign out?") as dialog, box("div", "row"):
        action("Sign out", lambda: ui.run_javascript("toolwright.signOut()"), kind="primary")
        action("Sign out everywhere", lambda: ui.run_javascript("toolwright.signOut(true)"))
        cancel(dialog)


async def _count(visit: Visit, unread: TextElement, pending: TextElement) -> None:
    """Update the counts periodically, as long as the page is open."""
    while True:
        try:
            visit.caller  # noqa: B018 - `Unauthorized`
            _show(unread, sum((await unread_of(visit)).values()), "unread")
            _show(pending, await count_pending(visit), "waiting")
        except Unauthorized:
            return
        except StoreError:
            pass  # the views report this
        await asyncio.sleep(POLL_INTERVAL)


def _show(element: TextElement, count: int, what: str) -> None:
    text = "" if count == 0 else f"{MAX_COUNT}+" if count > MAX_COUNT else str(count)
    if element.text != text:
        element.text = text
        element.props["title"] = f"{count} {what}" if count else ""


def _show_keys(visit: Visit) -> None:
    places = [(f"g {key}", name) for _, name, _, key, only in PLACES if visit.is_service or not only]
    with opened(visit, "Keys"), box("dl", "facts"):
        for key, what in (*places, *KEYS):
            with box("dt"):
                plain_text(key, "kbd", "mono")
            plain_text(what, "dd")


Draw = Callable[..., Awaitable[None]]
"""Renders the view of a path. Receives the path's parameters by name."""
ROUTES: Final[dict[str, Draw]] = {
    "/": spaces.draw_list,
    "/spaces": spaces.draw_list,
    "/spaces/{space_id}": draw_room,
    "/pending": draw_pending,
    "/threads": draw_threads,
    "/threads/{thread_id}": draw_thread,
    "/runs": draw_runs,
    "/runs/{run_id}": draw_run,
    "/nodes": draw_nodes,
    "/agents": agents.draw_list,
    "/agents/{agent_id}": agents.draw_agent,
    "/people": people.draw_list,
    "/tools": tools.draw_list,
    "/tools/{name}": tools.draw_app_tool,
    "/tools/{agent_id}/{name}": tools.draw_agent_tool,
}


def register() -> None:
    """Register the single page of all paths with NiceGUI."""
    ui.page("/{_:path}", language="en-US")(page)


async def page(request: Request, client: Client) -> None:
    """Render the page. Its views change without reloading it."""
    # Set only by the console application.
    site, session = cast("tuple[ConsoleApp, Session]", request.scope[SCOPE])
    visit = Visit(site, session, client)
    client.on_delete(visit.close)
    client.on_exception(visit.fail)
    client.on_connect(visit.connected)
    client.on_disconnect(visit.disconnected)
    root = request.scope.get("root_path", "")
    ui.add_head_html(f'<link rel="stylesheet" href="{root}/static/console.css">')
    ui.add_head_html(f'<link rel="icon" href="{root}/static/icon.svg">')
    ui.add_body_html(f'<script src="{root}/static/console.js" defer></script>')
    ui.dark_mode(THEMES.get(request.cookies.get("toolwright_theme", "")))
    ui.colors(primary="var(--accent)")
    for outer in client.page_container.default_slot.children:
        outer.props["role"] = "none"  # the page is not a landmark; the navigation and the view are
    with box("div", "shell"):
        plain_text("To the view", "a", "skip").props["href"] = "#view"
        draw_navigation(visit)
        with box("main", "view") as main:
            main.props["id"] = "view"
            main.props["tabindex"] = "-1"
            _Views({path: _view(visit, draw) for path, draw in ROUTES.items()})
    visit.keep()


class _Views(ui.sub_pages):
    """The views by path."""

    def _render_404(self) -> None:
        heading("Not found")
        nothing("The console has no page with this address.")
        link("To the spaces", "/")


def _view(visit: Visit, draw: Draw) -> Callable[[PageArguments], Awaitable[None]]:
    """Render a view, or the reason why it cannot be shown."""

    async def shown(arguments: PageArguments) -> None:
        visit.begin_view()
        visit.query = dict(arguments.query_parameters)
        try:
            visit.caller  # noqa: B018 - `Unauthorized`
            await draw(visit, **arguments.path_parameters)
        except Unauthorized:
            visit.sign_in()
        except ToolwrightError as error:
            heading("Not found")
            nothing(error.message)
            link("To the spaces", "/")

    return shown
