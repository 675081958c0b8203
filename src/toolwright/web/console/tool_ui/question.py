"""The component of questions that a tool or an MCP server asks a person in the middle of a call (elicitation)."""

from functools import partial

from toolwright.core.json_value import JSON
from toolwright.core.spaces.tool_ui import Submit
from toolwright.core.text import brief
from toolwright.web.console.schema_form import SchemaForm
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.form import read
from toolwright.web.console.tool_ui.parts import is_open, text_of, value_block, waiting_for_others
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, prose, words

_SAID = {"accept": ("Answered", "good"), "decline": ("Declined", "bad"), "cancel": ("Not answered", "")}


async def draw_question(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """A form of what is asked for: the result is `{"action": "accept", "content": {…}}`, `decline` or `cancel`."""
    call = facts.call
    source = text_of(call.args, "source")
    if source is not None:
        words(f"{brief(source, 200)} asks", "div", "quiet small")
    prose(text_of(call.args, "message") or "A question without words.")
    url = text_of(call.args, "url")
    if url is not None:
        prose(f"It is to be answered at this page:\n{url}")  # which makes a link of nothing but http(s)
    if not is_open(call):
        waiting_for_others(call)
        await _draw_answer(facts)
        return
    asked = call.args.get("requestedSchema") if isinstance(call.args, dict) else None
    form = SchemaForm(asked, name=call.name) if isinstance(asked, dict) else None

    async def accept() -> None:
        entered = None if form is None else read(form)
        if form is None:
            await submit({"action": "accept"})
        elif entered is not None:
            await submit({"action": "accept", "content": entered})

    with box("div", "row answers"):
        action("I have done it" if url is not None else "Answer", accept, kind="primary")
        action("Decline", partial(submit, {"action": "decline"}))
        action("Cancel", partial(submit, {"action": "cancel"}), kind="plain")


async def _draw_answer(facts: CallFacts) -> None:
    call = facts.call
    result: JSON = call.result
    if call.status == "error":
        words(call.error or "Nobody has answered.", "div", "error")
    elif isinstance(result, dict):
        said, kind = _SAID.get(str(result.get("action")), ("Answered", "good"))
        badge(said, kind)
        await value_block(result.get("content"))
