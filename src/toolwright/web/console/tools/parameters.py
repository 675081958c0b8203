"""Parameters of a tool as a table that people read: names, types, defaults, and what they mean."""

from collections.abc import Iterator
from typing import Final

from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.text import brief
from toolwright.core.value import value
from toolwright.web.console.widgets import badge, box, words

MOST_ROWS: Final = 200
MOST_CHOICES: Final = 12
LONGEST: Final = 300  # characters of a description or a default


@value
class Parameter:
    """One parameter in words."""

    name: str
    type: str
    required: bool = False
    default: str = ""
    description: str = ""


def parameters_of(schema: JSONObject) -> Iterator[Parameter]:
    """The parameters of an input schema, in their order."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return
    for name, part in properties.items():
        fields = part if isinstance(part, dict) else {}
        described = fields.get("description")
        yield Parameter(
            name=name,
            type=type_of(part),
            required=isinstance(required, list) and name in required,
            default=dumps_unescaped(fields["default"]) if "default" in fields else "",
            description=described if isinstance(described, str) else "",
        )


def type_of(part: JSON, depth: int = 0) -> str:
    """The type that a schema asks for, in a few words."""
    if not isinstance(part, dict) or depth > 4:
        return "any"
    reference = part.get("$ref")
    if isinstance(reference, str):
        return reference.rpartition("/")[2]
    choices = part.get("enum")
    if isinstance(choices, list):
        shown = [dumps_unescaped(each) for each in choices[:MOST_CHOICES]]
        return " | ".join([*shown, "…"] if len(choices) > MOST_CHOICES else shown)
    if "const" in part:
        return dumps_unescaped(part["const"])
    for several in (part.get("anyOf"), part.get("oneOf")):
        if isinstance(several, list):
            return " | ".join([type_of(each, depth + 1) for each in several[:MOST_CHOICES]])
    named = part.get("type")
    if named == "array":
        return f"list of {type_of(part.get('items'), depth + 1)}"
    if isinstance(named, list):
        return " | ".join([str(each) for each in named])
    return named if isinstance(named, str) else "any"


def parameter_table(schema: JSONObject) -> None:
    """The table, or word that there are none."""
    rows = [*parameters_of(schema)]
    if not rows:
        words("It takes no parameters.", "p", "quiet")
        return
    with box("div", "scroll card"), box("table", "grid"):
        with box("thead"), box("tr"):
            for title in ("Parameter", "Type", "Description"):
                words(title, "th")
        with box("tbody"):
            for row in rows[:MOST_ROWS]:
                _row(row)
    if len(rows) > MOST_ROWS:
        words(f"… and {len(rows) - MOST_ROWS} more", "p", "quiet small")


def _row(row: Parameter) -> None:
    with box("tr"):
        with box("td"), box("span", "row"):
            words(brief(row.name, 100), "span", "mono")
            if row.required:
                badge("required")
        words(brief(row.type, LONGEST), "td", "mono")
        with box("td"):
            words(brief(row.description, LONGEST), "p")
            if row.default:
                words(f"Default: {brief(row.default, LONGEST)}", "p", "quiet small")
