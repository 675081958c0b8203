"""Forms generated from JSON Schemas, and their fields."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, cast

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.elements.mixins.validation_element import ValidationElement
from nicegui.elements.mixins.value_element import ValueElement

from toolwright.core.arguments.errors import FieldError, InvalidArguments
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, Path, dumps_unescaped, spell
from toolwright.core.text import brief, quantity
from toolwright.core.value import Value
from toolwright.web.console.widgets import box, plain_text

Kind: TypeAlias = Literal[
    "text", "long", "secret", "integer", "number", "boolean", "choice", "choices", "date", "datetime", "lines",
    "json", "kept", "group",
]  # fmt: skip
Entry: TypeAlias = str | bool | int | Sequence[int] | None
"""Input of a field: text, checkbox state, or the numbers of the selected options."""
MAX_DEPTH: Final = 3  # nesting levels of objects with their own fields
MAX_FIELDS: Final = 100  # fields per form; the rest is entered as JSON
MAX_OPTIONS: Final = 1_000
MAX_TEXT: Final = 20_000  # characters of a value that can be edited
_SHORT: Final = 200  # characters of a single-line text
_HOPS: Final = 5  # length of a chain of references
_PLAIN: Final = frozenset({"text", "long", "secret", "date", "datetime"})
_MAX_LABEL: Final = 200  # characters of an option
_MANY: Final = 12  # number of options from which they can be searched
_DATES: Final = {"date": "date", "datetime": "datetime-local", "secret": "password"}


class Absence(Enum):
    """Marker for a missing value, which is different from null."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT


class Field(Value):
    """One field. The field of an object is a `group` of others. `initial` is its initial value."""

    path: Path
    kind: Kind
    label: str
    about: str = ""
    required: bool = False
    nullable: bool = False
    options: Sequence[JSON] = ()
    initial: JSON | Absence = ABSENT
    fields: Sequence["Field"] = ()


def fields_of(schema: JSONObject, values: JSON | Absence = ABSENT) -> Field:
    """Return the fields of an object schema, with the given values, or the schema's defaults for missing values."""
    return _Reading(schema).field((), schema, "JSON", values, required=True)


def entry_of(field: Field) -> Entry:
    """Return the initial entry of the field."""
    initial = field.initial
    match field.kind:
        case "boolean":
            return initial is True
        case "choice":
            return _place(field.options, initial)
        case "choices":
            chosen = cast("list[JSON]", initial) if initial is not ABSENT else []
            return [place for each in chosen if (place := _place(field.options, each)) is not None]
        case "datetime" if isinstance(initial, str):
            return _utc(initial)
        case "lines" if isinstance(initial, list):
            return "\n".join(map(str, initial))
        case _ if initial is ABSENT or (initial is None and field.kind != "json"):
            return ""
        case _:
            is_text = isinstance(initial, str) and field.kind != "json"
            return str(initial) if is_text else json.dumps(initial, ensure_ascii=False, indent=2)


def gather(field: Field, entries: Mapping[Path, Entry]) -> JSONObject:
    """Return the entered object. Raises `InvalidArguments` for values that are not JSON, a number or a timestamp."""
    errors: list[FieldError] = []
    whole = _gather(field, entries, errors)
    if errors:
        raise InvalidArguments(errors)
    if not isinstance(whole, dict):
        raise InvalidArguments([FieldError((), "must be a JSON object, such as {}")])
    return whole


def _gather(field: Field, entries: Mapping[Path, Entry], errors: list[FieldError]) -> JSON | Absence:
    if field.kind != "group":
        try:
            return _read(field, entries.get(field.path))
        except ValueError as error:
            errors.append(FieldError(field.path, str(error)))
            return ABSENT
    parts = {str(each.path[-1]): _gather(each, entries, errors) for each in field.fields}
    present: JSONObject = {name: each for name, each in parts.items() if not isinstance(each, Absence)}
    return present if present or field.required else ABSENT


def _read(field: Field, entry: Entry) -> JSON | Absence:
    """Return the value of a field. Raises `ValueError` with a message that follows the field's name."""
    if field.kind == "kept" or (entry == entry_of(field) and field.initial is not ABSENT):
        return field.initial
    match field.kind:
        case "boolean":
            return (
                True if entry is True else False if field.required or field.initial is not ABSENT else ABSENT
            )
        case "choice":
            return field.options[entry] if isinstance(entry, int) else _left_out(field)
        case "choices":
            chosen = [field.options[each] for each in cast("Sequence[int]", entry or ())]
            return chosen if chosen or field.required or field.initial is not ABSENT else ABSENT
        case _:
            text = entry if isinstance(entry, str) else ""
            return _read_text(field, text) if text.strip() else _left_out(field)


def _left_out(field: Field) -> JSON | Absence:
    return None if field.required and field.nullable else ABSENT


def _read_text(field: Field, text: str) -> JSON:
    match field.kind:
        case "integer":
            return _number(text, int, "must be a whole number")
        case "number":
            return _number(text, _int_or_float, "must be a number")
        case "datetime":
            return f"{text}:00Z" if len(text) == len("2026-01-01T00:00") else f"{text}Z"
        case "lines":
            return [line for line in text.split("\n") if line.strip()]
        case "json":
            try:
                return parse_json(text)
            except NotJson as error:
                raise ValueError(f"is not valid JSON: {brief(str(error), 200)}") from error
        case _:
            return text


def _int_or_float(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _number(text: str, read: type[int] | object, error: str) -> JSON:
    try:
        number = cast("type[int]", read)(text.strip().replace("_", " "))
    except ValueError:
        raise ValueError(error) from None
    if number - number != 0:
        raise ValueError(error)
    return number


def _place(options: Sequence[JSON], chosen: JSON | Absence) -> int | None:
    """Return the number of an option. `true` does not equal 1."""
    places = (at for at, each in enumerate(options) if each == chosen and type(each) is type(chosen))
    return next(places, None)


def _utc(instant: str) -> str:
    """Return a timestamp in the format of a date and time field."""
    try:
        moment = datetime.fromisoformat(instant)
    except ValueError:
        return ""
    moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment
    return moment.replace(tzinfo=None, microsecond=0).isoformat()


class _Reading:
    """Reads a schema with its definitions."""

    def __init__(self, root: JSONObject) -> None:
        self._root = root
        self._remaining = MAX_FIELDS

    def field(
        self, path: Path, schema: JSON, name: str, initial: JSON | Absence, *, required: bool = False
    ) -> Field:
        schema, nullable = self._plain(schema)
        if initial is ABSENT and "default" in schema:
            initial = schema["default"]
        options = _options(schema)
        kind = self._kind(path, schema, initial, options)
        title, about = schema.get("title"), schema.get("description")
        if kind == "choices":
            options = _options(self._plain(schema.get("items"))[0])
        return Field(
            path=path,
            kind=kind,
            label=brief(title if isinstance(title, str) and title.strip() else name, 100),
            about=brief(about, 400) if isinstance(about, str) else "",
            required=required,
            nullable=nullable,
            options=options,
            initial=initial,
            fields=self._within(path, schema, initial) if kind == "group" else (),
        )

    def _within(self, path: Path, schema: JSONObject, values: JSON | Absence) -> Sequence[Field]:
        # `_kind` has classified the object as a group
        properties = cast("JSONObject", schema.get("properties", {}))
        needed = schema.get("required")
        needed = needed if isinstance(needed, list) else []
        held = values if isinstance(values, dict) else {}
        parts: JSONObject = {**properties, **{name: {} for name in held if name not in properties}}
        self._remaining -= len(parts)
        return [
            self.field((*path, name), part, name, held.get(name, ABSENT), required=name in needed)
            for name, part in parts.items()
        ]

    def _kind(self, path: Path, schema: JSONObject, initial: JSON | Absence, options: Sequence[JSON]) -> Kind:
        if self._is_group(path, schema, initial):
            return "group"
        usual = self._usual_kind(schema, options)
        if initial is not ABSENT and (initial is not None or usual == "json"):
            if _is_long(initial):
                return "kept"
            if not _takes(usual, initial, options, self._plain(schema.get("items"))[0]):
                return "json"
        return usual

    def _usual_kind(self, schema: JSONObject, options: Sequence[JSON]) -> Kind:
        if options:
            return "choice"
        match schema.get("type"):
            case "string":
                return _text_kind(schema)
            case "integer":
                return "integer"
            case "number":
                return "number"
            case "boolean":
                return "boolean"
            case "array":
                items, _ = self._plain(schema.get("items"))
                if _options(items):
                    return "choices"
                return "lines" if items.get("type") == "string" and not schema.get("prefixItems") else "json"
            case _:
                return "json"

    def _is_group(self, path: Path, schema: JSONObject, initial: JSON | Absence) -> bool:
        properties = schema.get("properties")
        if schema.get("type", "object") != "object" or len(path) >= MAX_DEPTH:
            return False
        if properties is None and schema.get("additionalProperties") is False:
            return not path
        held = len(initial) if isinstance(initial, dict) else 0
        fits = initial is ABSENT or initial is None or isinstance(initial, dict)
        return isinstance(properties, dict) and fits and len(properties) + held <= self._remaining

    def _plain(self, schema: JSON) -> tuple[JSONObject, bool]:
        """Return the schema without references and null, and whether it allows null."""
        nullable = False
        current: JSONObject = schema if isinstance(schema, dict) else {}
        for _ in range(_HOPS):
            others, takes_null = _alternatives(current)
            nullable |= takes_null
            rest = {
                name: part
                for name, part in current.items()
                if name not in ("$ref", "anyOf", "oneOf", "allOf")
            }
            reference = current.get("$ref")
            if isinstance(reference, str):
                current = {**self._referred(reference), **rest}
            elif len(others) == 1:
                current = {**others[0], **rest}
            elif others and all("const" in each for each in others):
                current = {**rest, "enum": [each["const"] for each in others]}
            else:
                break
        types = current.get("type")
        if isinstance(types, list):
            nullable |= "null" in types
            kinds = [each for each in types if each != "null"]
            current = {**current, "type": kinds[0] if len(kinds) == 1 else None}
        return current, nullable

    def _referred(self, reference: str) -> JSONObject:
        place: JSON = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            if not isinstance(place, dict):
                return {}
            place = place.get(step.replace("~1", "/").replace("~0", "~"))
        return place if isinstance(place, dict) and reference.startswith("#/") else {}


def _alternatives(schema: JSONObject) -> tuple[list[JSONObject], bool]:
    """Return the alternatives of the schema without null, and whether null is one of them."""
    for keyword in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            objects = [each for each in branches if isinstance(each, dict)]
            others = [each for each in objects if each.get("type") != "null"]
            return others, keyword != "allOf" and len(others) < len(objects)
    return [], False


def _options(schema: JSONObject) -> Sequence[JSON]:
    options = schema.get("enum")
    if "const" in schema:
        return [schema["const"]]
    few = isinstance(options, list) and len(options) <= MAX_OPTIONS
    return [each for each in options if each is not None] if few and isinstance(options, list) else []


def _text_kind(schema: JSONObject) -> Kind:
    form, most = schema.get("format"), schema.get("maxLength")
    if form == "password" or schema.get("writeOnly") is True:
        return "secret"
    if form == "date":
        return "date"
    if form == "date-time":
        return "datetime"
    short = isinstance(most, int) and most <= _SHORT
    return "text" if short or isinstance(form, str) or "pattern" in schema else "long"


def _is_long(initial: JSON | Absence) -> bool:
    text = initial if isinstance(initial, str) else json.dumps(initial, ensure_ascii=False)
    return len(text) > MAX_TEXT


def _takes(kind: Kind, initial: JSON | Absence, options: Sequence[JSON], items: JSONObject) -> bool:
    """Return whether the field can show its initial value."""
    match kind:
        case "text" | "secret" | "date":
            return isinstance(initial, str) and "\n" not in initial
        case "long":
            return isinstance(initial, str)
        case "datetime":
            return isinstance(initial, str) and bool(_utc(initial))
        case "integer" | "number":
            return isinstance(initial, int | float) and not isinstance(initial, bool)
        case "boolean":
            return isinstance(initial, bool)
        case "choice":
            return _place(options, initial) is not None
        case "choices":
            choices = _options(items)
            return isinstance(initial, list) and all(_place(choices, each) is not None for each in initial)
        case "lines":
            return isinstance(initial, list) and all(
                isinstance(each, str) and each.strip() and "\n" not in each for each in initial
            )
        case _:
            return kind == "json"


def too_long_note(field: Field) -> str:
    """Return the note for a value that is too long to be edited."""
    text = field.initial if isinstance(field.initial, str) else json.dumps(field.initial, ensure_ascii=False)
    return f"{quantity(len(text), 'character')}, too long to edit here. It is kept unchanged."


_Input: TypeAlias = ValueElement[Any]  # value types differ between NiceGUI elements


class SchemaForm:
    """A form on the page. It is drawn where the object is created."""

    def __init__(self, schema: JSONObject, values: JSON | Absence = ABSENT, *, name: str = "form") -> None:
        self._root = fields_of(schema, values)
        self._validator = ArgumentValidator(schema, name)
        self._drawn: dict[Path, _Drawn] = {}
        with box("div", "fields"):
            self._error_list = plain_text("", "div", "error")
            self._error_list.props["role"] = "alert"
            self._error_list.set_visibility(False)
            self._draw(self._root)

    def value(self) -> JSONObject:
        """Return the entered value. If it is invalid, show the errors at the fields and raise `InvalidRequest`."""
        try:
            entered = self._validator.read(gather(self._root, self._entries()))
        except InvalidArguments as error:
            self.show(error.faults)
            count = quantity(len(error.faults), "field")
            raise InvalidRequest(f"Not sent. Correct {count} in the form.") from error
        self.show(())
        return entered

    def show(self, errors: Sequence[FieldError]) -> None:
        """Show these errors at their fields and remove other errors."""
        texts: dict[Path, list[str]] = {}
        others: list[str] = []
        for error in errors:
            place = self._place(error.path)
            if place is None:
                others.append(brief(str(error), 300))
            else:
                within = f"{spell(error.path[len(place) :])} " if len(error.path) > len(place) else ""
                texts.setdefault(place, []).append(f"{within}{error.text}")
        for path, drawn in self._drawn.items():
            drawn.complain(brief("; ".join(texts[path]), 300) if path in texts else None)
        self._error_list.text = "\n".join(others)
        self._error_list.set_visibility(bool(others))

    def _entries(self) -> Mapping[Path, Entry]:
        return {path: drawn.element.value for path, drawn in self._drawn.items()}

    def _place(self, path: Path) -> Path | None:
        """Return the field that contains the path."""
        places = (path[:length] for length in range(len(path), -1, -1))
        return next((place for place in places if place in self._drawn), None)

    def _draw(self, field: Field) -> None:
        if field.kind == "kept":
            with box("div", "field"):
                plain_text(field.label, "div", "small")
                plain_text(too_long_note(field), "div", "quiet small")
        elif field.kind != "group":
            self._drawn[field.path] = _drawn(field)
        elif not field.path:
            for each in field.fields:
                self._draw(each)
        else:
            with box("fieldset"):
                plain_text(_label(field), "legend")
                if field.about:
                    plain_text(field.about, "div", "quiet small")
                for each in field.fields:
                    self._draw(each)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A field on the page. Its element's value is the input."""

    element: _Input
    complain: Callable[[str | None], None]


def _drawn(field: Field) -> _Drawn:
    with box("div", "field"):
        element = _element(field)
        element.props["data-field"] = spell(field.path)
        if field.about:
            about = plain_text(field.about, "div", "quiet small")
            element.props["aria-describedby"] = about.html_id
        if isinstance(element, ValidationElement):
            return _Drawn(element, lambda fault: _complain(element, fault))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # untyped in NiceGUI
        error = plain_text("", "div", "fault small")
        error.props["role"] = "alert"
        return _Drawn(element, lambda said: _show_error(error, said))


def _complain(element: ValidationElement[Any], error: str | None) -> None:
    element.error = error


def _show_error(line: TextElement, error: str | None) -> None:
    line.text = error or ""


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
    hint = {"json": " (JSON)", "lines": " (one per line)", "datetime": " (UTC)"}.get(field.kind, "")
    if field.kind == "json" and field.label == "JSON":
        hint = ""
    return f"{field.label}{hint}{' *' if field.required else ''}"


def _option(option: JSON) -> str:
    return brief(option if isinstance(option, str) else dumps_unescaped(option), _MAX_LABEL)
