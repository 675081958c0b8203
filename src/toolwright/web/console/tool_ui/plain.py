"""The plain drawing of any call, for those that nothing else draws, and the field in which one is answered."""

from nicegui import ui

from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON
from toolwright.core.spaces.tool_ui import ShownCall, Submit
from toolwright.web.console.tool_ui.attachments import draw_attachments
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.parts import arguments, json_block, outcome, waiting_for_others
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import action, box, words


async def draw_plain(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """The arguments, and the result or the error."""
    call = facts.call
    await arguments(call)
    waiting_for_others(call)
    await outcome(call)
    draw_attachments(call)


async def draw_json(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """The result, else the arguments, as JSON."""
    call = facts.call
    if call.status == "error":
        await draw_plain(visit, facts, submit)
        return
    await json_block(call.args if call.result is None else call.result)
    draw_attachments(call)


def draw_answer(call: ShownCall, submit: Submit) -> None:
    """A field for the result of an open call, be it JSON or text, or for why there is none."""
    field = ui.textarea().props('outlined dense autogrow hide-bottom-space input-class="mono"')
    field.props["label"] = "Result: text, or JSON"
    field.props["maxlength"] = 200_000

    async def answer() -> None:
        if field.value and field.value.strip():
            await submit(read_result(field.value))
        else:
            complain('Write the result first: text, or JSON such as null or {"ok": true}.')

    async def fail() -> None:
        if field.value and field.value.strip():
            await submit(error=field.value.strip())
        else:
            complain("Write first why it failed: its agent reads that.")

    with box("div", "row answers"):
        action("Answer", answer, kind="primary")
        action("Report a failure", fail, kind="danger")
        words("What is no JSON is taken as text.", "span", "quiet small")


def read_result(entered: str) -> JSON:
    """What was entered: JSON, else the text as it is."""
    try:
        return parse_json(entered)
    except NotJson:
        return entered
