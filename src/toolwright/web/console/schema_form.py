"""A form on the page for what a JSON Schema describes, judged as the server judges it, with faults at its fields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.elements.mixins.validation_element import ValidationElement
from nicegui.elements.mixins.value_element import ValueElement

from toolwright.core.arguments.faults import ArgumentFault, Fault
from toolwright.core.arguments.judge import Judge
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.plain import Path, spell
from toolwright.core.text import brief, quantity
from toolwright.web.console.schema_fields import (
    ABSENT,
    Absence,
    Entry,
    Field,
    entry_of,
    fields_of,
    gather,
    kept_words,
)
from toolwright.web.console.widgets import box, words

_LONGEST_LABEL: Final = 200  # characters of an option
_MANY: Final = 12  # options, among which one searches
_Input: TypeAlias = ValueElement[Any]  # each kind of NiceGUI's elements has values of its own type
_DATES: Final = {"date": "date", "datetime": "datetime-local", "secret": "password"}


class SchemaForm:
    """A form, drawn where it is made.

    `values` stand in it at first, else the schema's defaults; what the schema does not know of them is kept too.
    """

    def __init__(self, schema: JSONObject, values: JSON | Absence = ABSENT, *, name: str = "form") -> None:
        self._root = fields_of(schema, values)
        self._judge = Judge(schema, name)
        self._drawn: dict[Path, _Drawn] = {}
        with box("div", "fields"):
            self._faults = words("", "div", "error")
            self._faults.props["role"] = "alert"
            self._faults.set_visibility(False)
            self._draw(self._root)

    def value(self) -> JSONObject:
        """What was entered; raises `InvalidRequest`, and shows what is wrong at the fields, if it cannot be taken."""
        try:
            entered = self._judge.read(gather(self._root, self._entries()))
        except ArgumentFault as fault:
            self.show(fault.faults)
            count = quantity(len(fault.faults), "field")
            raise InvalidRequest(f"Not sent yet: look at {count} of the form.") from fault
        self.show(())
        return entered

    def show(self, faults: Sequence[Fault]) -> None:
        """Show these faults at their fields, and no others."""
        texts: dict[Path, list[str]] = {}
        others: list[str] = []
        for fault in faults:
            place = self._place(fault.path)
            if place is None:
                others.append(brief(str(fault), 300))
            else:
                within = f"{spell(fault.path[len(place) :])} " if len(fault.path) > len(place) else ""
                texts.setdefault(place, []).append(f"{within}{fault.text}")
        for path, drawn in self._drawn.items():
            drawn.complain(brief("; ".join(texts[path]), 300) if path in texts else None)
        self._faults.text = "\n".join(others)
        self._faults.set_visibility(bool(others))

    def _entries(self) -> Mapping[Path, Entry]:
        return {path: drawn.element.value for path, drawn in self._drawn.items()}

    def _place(self, path: Path) -> Path | None:
        """The field in which that place is."""
        places = (path[:length] for length in range(len(path), -1, -1))
        return next((place for place in places if place in self._drawn), None)

    def _draw(self, field: Field) -> None:
        if field.kind == "kept":
            with box("div", "field"):
                words(field.label, "div", "small")
                words(kept_words(field), "div", "quiet small")
        elif field.kind != "group":
            self._drawn[field.path] = _drawn(field)
        elif not field.path:
            for each in field.fields:
                self._draw(each)
        else:
            with box("fieldset"):
                words(_label(field), "legend")
                if field.about:
                    words(field.about, "div", "quiet small")
                for each in field.fields:
                    self._draw(each)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A field on the page: what is entered is its element's value."""

    element: _Input
    complain: Callable[[str | None], None]


def _drawn(field: Field) -> _Drawn:
    with box("div", "field"):
        element = _element(field)
        element.props["data-field"] = spell(field.path)
        if field.about:
            about = words(field.about, "div", "quiet small")
            element.props["aria-describedby"] = about.html_id
        if isinstance(element, ValidationElement):
            return _Drawn(element, lambda fault: _complain(element, fault))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # NiceGUI says not of what
        fault = words("", "div", "fault small")
        fault.props["role"] = "alert"
        return _Drawn(element, lambda said: _say(fault, said))


def _complain(element: ValidationElement[Any], fault: str | None) -> None:
    element.error = fault


def _say(line: TextElement, fault: str | None) -> None:
    line.text = fault or ""


def _element(field: Field) -> _Input:
    entry, label = entry_of(field), _label(field)
    match field.kind:
        case "boolean":
            ticked = ui.checkbox(label, value=entry is True).props("dense")
            ticked.props["aria-label"] = label
            return ticked
        case "choice" | "choices":
            return _select(field, label, entry)
        case "long":
            element = ui.textarea(value=str(entry)).props("autogrow")
        case "lines" | "json":
            element = ui.textarea(value=str(entry)).props('autogrow input-class="mono"')
        case _:
            element = ui.input(value=str(entry), password=field.kind == "secret")
            element.props["autocomplete"] = "new-password" if field.kind == "secret" else "off"
            if field.kind in _DATES:
                element.props["type"] = _DATES[field.kind]
                element.props["stack-label"] = True
            elif field.kind in ("integer", "number"):
                element.props["inputmode"] = "decimal"
    element.props["label"] = label
    return _outlined(element)


def _select(field: Field, label: str, entry: Entry) -> _Input:
    options = {at: _option(each) for at, each in enumerate(field.options)}
    several = field.kind == "choices"
    element = ui.select(
        options, value=entry, multiple=several, clearable=not field.required, with_input=len(options) > _MANY
    )
    if several:
        element.props("use-chips")
    element.props["label"] = label
    return _outlined(element)


def _outlined(element: _Input) -> _Input:
    return element.props("outlined dense hide-bottom-space")


def _label(field: Field) -> str:
    hint = {"json": " (JSON)", "lines": " (one a line)", "datetime": " (UTC)"}.get(field.kind, "")
    if field.kind == "json" and field.label == "JSON":
        hint = ""
    return f"{field.label}{hint}{' *' if field.required else ''}"


def _option(option: JSON) -> str:
    return brief(option if isinstance(option, str) else dumps_unescaped(option), _LONGEST_LABEL)
