"""The component that has somebody fill in a form, made from the tool's input schema."""

from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces.tool_ui import Submit
from toolwright.web.console.schema_fields import ABSENT
from toolwright.web.console.schema_form import SchemaForm
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.parts import arguments, is_open, outcome, waiting_for_others
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import action, box

ANYTHING: JSONObject = {"type": "object"}


async def draw_form(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """The fields of the tool's schema, in which its arguments stand at first: the result is what was entered."""
    call = facts.call
    if not is_open(call):
        if call.status != "complete":
            await arguments(call)
        waiting_for_others(call)
        await outcome(call)
        return
    form = SchemaForm(
        call.schema or ANYTHING, call.args if isinstance(call.args, dict) else ABSENT, name=call.name
    )

    async def send() -> None:
        entered = read(form)
        if entered is not None:
            await submit(entered)

    with box("div", "row answers"):
        action("Send", send, kind="primary")


def read(form: SchemaForm) -> JSONObject | None:
    """What was entered; None, and word of it on the page, for what cannot be taken."""
    try:
        return form.value()
    except InvalidRequest as error:
        complain(error.message)
        return None
