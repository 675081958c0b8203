"""Widgets of the console's pages. External data in them is text, never markup."""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final
from urllib.parse import quote, urlencode

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.web.console.components.elements import Prose

FILES: Final = "/console/files"
MAX_SHOWN: Final = 20_000  # maximum characters of one text on a page


def box(tag: str = "div", classes: str = "") -> Element:
    """Return an element with the given tag."""
    return ui.element(tag).classes(classes)


def plain_text(content: str, tag: str = "span", classes: str = "") -> TextElement:
    """Return an element with the text, without markup."""
    return TextElement(tag=tag, text=brief(content, MAX_SHOWN)).classes(classes)


def heading(title: str) -> TextElement:
    """Render the heading of a view, which is also the title of the browser window."""
    ui.page_title(f"{brief(title, 80)} · Toolwright")
    return plain_text(title, "h1")


def prose(content: str) -> None:
    """Render a message with its line breaks, fenced code and web links."""
    Prose(brief(content, MAX_SHOWN))


def code(content: str) -> None:
    """Render a scrollable fixed-width text."""
    block = box("pre", "code")
    block.props["tabindex"] = "0"  # so that the keyboard can scroll it
    with block:
        plain_text(content.rstrip("\n"), "code")


def json_text(value: JSON) -> str:
    """Return indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def link(content: str, path: str, classes: str = "") -> TextElement:
    """Return a link to a path of the console, such as `/runs/run_1`, which is shown without reloading the page."""
    return ui.link(brief(content, 300), path).classes(classes)


def badge(content: str, kind: str = "") -> TextElement:
    """Render a status in a few words. `kind` is a color class: good, bad, busy, waiting."""
    return plain_text(content, "span", f"badge {kind}")


def when(instant: datetime, classes: str = "quiet") -> TextElement:
    """Render a timestamp. The browser shows it in its own time zone, and as an age while it is recent."""
    element = plain_text(f"{instant:%Y-%m-%d %H:%M} UTC", "time", classes)
    element.props["datetime"] = instant.isoformat()
    return element


def draw_decisions(decisions: Sequence[JSONObject]) -> None:
    """Render who has decided about a call or a run, when and through which door, a line each."""
    for each in decisions:
        with box("div", "row small decision"):
            plain_text(decision_text(each), "span", "quiet")
            with suppress(ValueError):
                when(datetime.fromisoformat(str(each.get("at"))))


def decision_text(decision: JSONObject) -> str:
    """Return a decision in words, such as `Approved by Ada (console)`."""
    by = decision.get("by")
    who = by if isinstance(by, dict) else {}
    kind, name = str(who.get("kind")), who.get("name") or who.get("id")
    label = "" if not isinstance(name, str) else f" {brief(name, 100)}"
    named = label.strip() if kind == "person" and label else f"the {kind}{label}"
    door = "" if kind == "app" else f" ({decision.get('door')})"
    return f"{str(decision.get('action')).capitalize()} by {named}{door}"


def nothing(title: str, hint: str = "") -> None:
    """Render a note in place of an empty list."""
    with box("div", "nothing"):
        plain_text(title, "p")
        if hint:
            plain_text(hint, "p", "quiet")


def action(
    label: str,
    handler: Callable[[], Awaitable[object] | object],
    *,
    icon: str | None = None,
    kind: str = "",
) -> Element:
    """Return a button. `kind` is a class: primary, danger, plain. It is disabled while its action is running."""
    button = ui.button(label, icon=icon, color=None).props("no-caps unelevated").classes(f"action {kind}")

    async def press() -> None:
        button.disable()
        try:
            done = handler()
            if isinstance(done, Awaitable):
                await done
        finally:
            if not button.is_deleted:
                button.enable()

    button.on_click(press)
    return button


def icon_action(icon: str, label: str, handler: Callable[[], object]) -> Element:
    """Render an icon button of Google's Material icons; `label` is its accessible name."""
    button = box("button", "icon-action")
    button.props["type"] = "button"
    button.props["aria-label"] = button.props["title"] = label
    with button:
        glyph = plain_text(icon, "i", "material-icons")
        glyph.props["aria-hidden"] = "true"
    return button.on("click", lambda: handler())


def file_url(thread_id: str, path: str, call_id: str | None = None) -> str:
    """Return the URL of a thread's file. Access depends on the session or on the call that shows the file."""
    within = quote(quote(thread_id, safe=""), safe="")  # a slash must not separate path segments
    query = "" if call_id is None else f"?{urlencode({'call': call_id})}"
    return f"{FILES}/{within}/{quote(path.lstrip('/'))}{query}"


def size(count: int) -> str:
    """Return a size in a readable unit."""
    amount = float(count)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
