"""The shell of all pages, around the view of the path."""

from collections.abc import Awaitable, Callable
from typing import Final, cast

from fastapi import Request
from nicegui import Client, PageArguments, ui

from toolwright.core.errors import ToolwrightError, Unauthorized
from toolwright.web.console.pages import agents, people, spaces, tools
from toolwright.web.console.pages.navigation import draw_navigation
from toolwright.web.console.pages.pending import draw_pending
from toolwright.web.console.pages.runs import draw_nodes, draw_run, draw_runs
from toolwright.web.console.pages.threads import draw_thread, draw_threads
from toolwright.web.console.room.view import draw_room
from toolwright.web.console.sessions import Session
from toolwright.web.console.visit import SCOPE, ConsoleApp, Visit
from toolwright.web.console.widgets import box, heading, link, nothing, words

Draw = Callable[..., Awaitable[None]]
"""Draws the view of a path, whose parameters it takes by their names."""
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
THEMES: Final = {"light": False, "dark": True}


def register() -> None:
    """Tell NiceGUI of the one page that all paths have."""
    ui.page("/{_:path}", language="en-US")(page)


async def page(request: Request, client: Client) -> None:
    """A page as it is loaded; within it views are shown without loading it again."""
    # What the console has put there, and nobody else.
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
        outer.props["role"] = "none"  # the page is no landmark: the navigation and the view in it are
    with box("div", "shell"):
        words("To the view", "a", "skip").props["href"] = "#view"
        draw_navigation(visit)
        with box("main", "view") as main:
            main.props["id"] = "view"
            main.props["tabindex"] = "-1"
            _Views({path: _view(visit, draw) for path, draw in ROUTES.items()})
    visit.keep()


class _Views(ui.sub_pages):
    """The views by their paths."""

    def _render_404(self) -> None:
        heading("Not here")
        nothing("The console has no such page.")
        link("To the spaces", "/")


def _view(visit: Visit, draw: Draw) -> Callable[[PageArguments], Awaitable[None]]:
    """Draw a view, or say why it cannot be shown."""

    async def shown(arguments: PageArguments) -> None:
        visit.begin_view()
        visit.query = dict(arguments.query_parameters)
        try:
            visit.caller  # noqa: B018 - `Unauthorized`
            await draw(visit, **arguments.path_parameters)
        except Unauthorized:
            visit.sign_in()
        except ToolwrightError as error:
            heading("Not here")
            nothing(error.message)
            link("To the spaces", "/")

    return shown
