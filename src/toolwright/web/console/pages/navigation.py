"""The navigation of all pages: where one can go, what is new there, the keys, the theme, and the way out."""

import asyncio
from typing import Final

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from toolwright.core.errors import StoreError, Unauthorized
from toolwright.web.console.dialogs import cancel, opened
from toolwright.web.console.pages.pending import count_pending
from toolwright.web.console.pages.spaces import unread_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, icon_action, link, words

PLACES: Final = (  # path, name, icon, key, and whether it is for services alone
    ("/", "Spaces", "forum", "s", False),
    ("/pending", "Pending", "pending_actions", "p", False),
    ("/threads", "Threads", "chat_bubble_outline", "t", False),
    ("/runs", "Runs", "timeline", "r", True),
    ("/agents", "Agents", "smart_toy", "a", True),
    ("/tools", "Tools", "build", "o", True),
)
KEYS: Final = (
    ("/", "Write, or search"),
    ("Enter", "Send"),
    ("Shift Enter", "Another line"),
    ("Esc", "Leave the field"),
    ("?", "These keys"),
)
LOOK_AGAIN: Final = (
    3.0  # seconds between two counts: what waits in threads has no events that one could follow
)
MOST: Final = 99


def draw_navigation(visit: Visit) -> None:
    """Draw it, and keep its counts."""
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
                words(name, "span", "name")
                counts[path] = words("", "span", "count")
        box("div", "room")
        with box("div", "row ways"):
            icon_action("contrast", "Light or dark", lambda: ui.run_javascript("toolwright.theme()"))
            keys = icon_action("keyboard", "Keys", lambda: _show_keys(visit))
            keys.props["data-keys"] = ""
            if visit.session.until is not None:
                icon_action("logout", "Sign out", lambda: _sign_out(visit))
    visit.run(_count(visit, counts["/"], counts["/pending"]))


def _sign_out(visit: Visit) -> None:
    """Ask whether the session of this browser is to end, or every session of the caller."""
    with opened(visit, "Sign out?") as dialog, box("div", "row"):
        action("Sign out", lambda: ui.run_javascript("toolwright.signOut()"), kind="primary")
        action("Sign out everywhere", lambda: ui.run_javascript("toolwright.signOut(true)"))
        cancel(dialog)


async def _count(visit: Visit, unread: TextElement, pending: TextElement) -> None:
    """Count repeatedly, as long as the page is open."""
    while True:
        try:
            visit.caller  # noqa: B018 - `Unauthorized`
            _show(unread, sum((await unread_of(visit)).values()), "unread")
            _show(pending, await count_pending(visit), "waiting")
        except Unauthorized:
            return
        except StoreError:
            pass  # the views say so
        await asyncio.sleep(LOOK_AGAIN)


def _show(shown: TextElement, count: int, what: str) -> None:
    text = "" if count == 0 else f"{MOST}+" if count > MOST else str(count)
    if shown.text != text:
        shown.text = text
        shown.props["title"] = f"{count} {what}" if count else ""


def _show_keys(visit: Visit) -> None:
    places = [(f"g {key}", name) for _, name, _, key, only in PLACES if visit.is_service or not only]
    with opened(visit, "Keys"), box("dl", "facts"):
        for key, what in (*places, *KEYS):
            with box("dt"):
                words(key, "kbd", "mono")
            words(what, "dd")
