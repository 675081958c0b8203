"""The component that has somebody approve a call before it is made, or refuse it."""

from nicegui import ui

from toolwright.core.json_value import JSONObject
from toolwright.core.spaces.tool_ui import Submit
from toolwright.core.threads.approval import Terms
from toolwright.web.console.schema_form import SchemaForm
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.form import ANYTHING, read
from toolwright.web.console.tool_ui.parts import arguments, is_open, waiting_for_others
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, words


async def draw_approval(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """What is to be done, and whether: the result is `{"approved": true, "args"?: {…}, "reason"?: text}`."""
    call, terms = facts.call, facts.terms or Terms()
    words("May this be done?", "p")
    with box("div") as asked:
        await arguments(call)
    if not is_open(call):
        waiting_for_others(call)
        return
    forms: list[SchemaForm] = []
    reason = None
    with box("div") as edited:
        pass
    if terms.reason:
        reason = ui.input().props("outlined dense hide-bottom-space maxlength=2000 autocomplete=off")
        reason.props["label"] = "Reason (you may leave it out)"

    def answer(*, approved: bool) -> JSONObject:
        said = (reason.value or "").strip() if reason is not None else ""
        return {"approved": approved, "reason": said} if said else {"approved": approved}

    async def approve() -> None:
        changed = read(forms[0]) if forms else None
        if not forms:
            await submit(answer(approved=True))
        elif changed is not None:
            await submit({**answer(approved=True), "args": changed})

    def edit() -> None:
        asked.set_visibility(False)
        editing.set_visibility(False)
        with edited:
            values = call.args if isinstance(call.args, dict) else {}
            forms.append(SchemaForm(terms.schema or call.schema or ANYTHING, values, name=call.name))

    with box("div", "row answers"):
        action("Approve", approve, kind="primary")
        action("Refuse", lambda: submit(answer(approved=False)), kind="danger")
        editing = action("Change the arguments", edit, kind="plain")
        editing.set_visibility(terms.edit)
