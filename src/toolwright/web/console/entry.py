"""Entry of values that are secrets: forms whose fields only the browser knows, until they are sent."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from nicegui import events, ui

from toolwright.core.text import brief
from toolwright.core.value import value
from toolwright.web.console.widgets import badge, box, words

LONGEST_HINT: Final = 500  # characters
_SEND: Final = """(event) => {
  event.preventDefault();
  const fields = [...event.target.elements].filter((field) => field.name);
  const entered = Object.fromEntries(fields.map((field) => [field.name, field.value]));
  for (const field of fields) if (field.type === "password") field.value = "";
  emit(entered);
}"""
"""A constant: it has the fields' values sent, and forgets the secrets. The server never keeps them for the page."""


@value
class Field:
    """A field of such a form; one that is `secret` shows dots, one with `choices` takes no other."""

    name: str
    secret: bool = False
    choices: Sequence[str] = ()
    hint: str = ""
    label: str = ""


Send = Callable[[Mapping[str, str]], Awaitable[object]]
"""Takes what was entered, by the fields' names; fields that were left empty are not in it."""


def entry_form(fields: Sequence[Field], label: str, send: Send) -> None:
    """Show the fields, and a button of that label which sends them."""
    with box("form", "stack") as form:
        form.props["autocomplete"] = "off"
        for n, field in enumerate(fields):
            _field(n, field)
        with box("div", "row"):
            button = ui.button(label, color=None).props("no-caps unelevated type=submit")
            button.classes("action primary")

    async def submitted(event: events.GenericEventArguments) -> None:
        entered = _read(event.args, fields)
        button.disable()
        try:
            await send(entered)
        finally:
            if not button.is_deleted:
                button.enable()

    form.on("submit", submitted, js_handler=_SEND)


def _field(n: int, field: Field) -> None:
    with box("label", "entry"):
        with box("span", "row"):
            words(field.label or field.name, "span", "" if field.label else "mono")
            if field.secret:
                badge("secret")
        if field.hint:
            words(brief(field.hint, LONGEST_HINT), "span", "quiet small")
        shown = box("select" if field.choices else "input")
        shown.props["name"] = f"field{n}"  # whatever the field is called
        if field.choices:
            with shown:
                for choice in field.choices:
                    words(choice, "option").props["value"] = choice
            return
        shown.props["type"] = "password" if field.secret else "text"
        shown.props["autocomplete"] = "off"
        shown.props["spellcheck"] = "false"


def _read(args: object, fields: Sequence[Field]) -> dict[str, str]:
    """What came from the browser, where anything may come from."""
    sent = cast("dict[str, object]", args) if isinstance(args, dict) else {}
    entered = {field.name: sent.get(f"field{n}") for n, field in enumerate(fields)}
    return {name: text for name, text in entered.items() if isinstance(text, str) and text}
