"""The component that draws the calls of a tool: a user's own, or one that comes with the console, found by the name."""

from collections.abc import Mapping, Sequence
from typing import Final

from toolwright.core.spaces.tool_ui import Component, Drawing, ToolUI
from toolwright.core.state.elicitation import ELICIT
from toolwright.web.console.tool_ui.asking import draw_approval, draw_choice, draw_confirmation, draw_question
from toolwright.web.console.tool_ui.chart import draw_chart
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.parts import Draw, draw_form
from toolwright.web.console.tool_ui.showing import (
    draw_file,
    draw_image,
    draw_json,
    draw_plain,
    draw_progress,
    draw_table,
)

SHIPPED: Final[Mapping[Component, Draw]] = {
    "confirmation": draw_confirmation,
    "form": draw_form,
    "choice": draw_choice,
    "chart": draw_chart,
    "table": draw_table,
    "image": draw_image,
    "file": draw_file,
    "progress": draw_progress,
    "json": draw_json,
}
ASKING: Final = frozenset({draw_approval, draw_question, draw_confirmation, draw_choice, draw_form})
"""Components in which a call is answered: below the others there is a field for that."""
_NAMES: Final[Mapping[Component, Sequence[str]]] = {
    "confirmation": ("confirmaction", "confirm", "askconfirmation", "askyesno"),
    "form": ("showform", "askform", "fillform", "collectinput"),
    "choice": ("chooseoption", "choose", "askchoice", "choice", "selectoption", "pickoption"),
    "chart": ("renderchart", "showchart", "drawchart", "chart", "plotchart"),
    "table": ("rendertable", "showtable", "drawtable", "table"),
    "image": ("renderimage", "showimage", "image"),
    "file": ("showfile", "offerfile", "file"),
    "progress": ("showprogress", "progress"),
    "json": ("showjson", "json"),
}  # in small letters, without what parts their words
_USUAL: Final[Mapping[str, Component]] = {
    name: component for component, names in _NAMES.items() for name in names
}


def component_of(facts: CallFacts, tool_uis: Mapping[str, ToolUI]) -> Draw | Drawing:
    """What draws the call. Whether it may be made at all is asked before what its tool asks."""
    name = facts.call.name
    if facts.terms is not None:
        return draw_approval
    own = tool_uis.get(name)
    if own is not None:
        drawing = own.component
        return drawing if callable(drawing) else SHIPPED[drawing]
    if name == ELICIT:
        return draw_question
    usual = usual_component(name)
    return draw_plain if usual is None else SHIPPED[usual]


def usual_component(name: str) -> Component | None:
    """The component that a tool of that name usually wants, None if its name says nothing."""
    plain = name.lower().replace("_", "").replace("-", "")
    if plain.startswith("confirm"):
        return "confirmation"
    return _USUAL.get(plain)
