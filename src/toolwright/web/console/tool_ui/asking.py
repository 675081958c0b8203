"""Tool UI components for input: approval, choice, question."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from nicegui import ui

from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.text import brief
from toolwright.core.threads.approval import Terms
from toolwright.core.tools.tool_ui import Submit
from toolwright.core.value import Value
from toolwright.web.console.schema_form import SchemaForm
from toolwright.web.console.tool_ui.parts import (
    ANYTHING,
    CallFacts,
    arguments,
    is_open,
    outcome,
    read,
    text_of,
    value_block,
    waiting_for_others,
)
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import action, badge, box, plain_text, prose

QUESTION: Final = ("question", "message", "title", "text", "prompt")
MAX_OPTIONS: Final = 500
_BUTTONS: Final = 8  # options that are all shown at once
_MAX_TEXT: Final = 200  # characters
_ANSWERS = {"accept": ("Answered", "good"), "decline": ("Declined", "bad"), "cancel": ("Not answered", "")}


async def draw_approval(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render an approval. The result is `{"approved": true, "args"?: {…}, "reason"?: text}`."""
    call, terms = facts.call, facts.terms or Terms()
    plain_text("Allow this call?", "p")
    if terms.why is not None:
        plain_text(terms.why, "p", "quiet")
    with box("div") as element:
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
        reason.props["label"] = "Reason (optional)"

    def answer(*, approved: bool) -> JSONObject:
        text = (reason.value or "").strip() if reason is not None else ""
        return {"approved": approved, "reason": text} if text else {"approved": approved}

    async def approve() -> None:
        changed = read(forms[0]) if forms else None
        if not forms:
            await submit(answer(approved=True))
        elif changed is not None:
            await submit({**answer(approved=True), "args": changed})

    def edit() -> None:
        element.set_visibility(False)
        editing.set_visibility(False)
        with edited:
            values = call.args if isinstance(call.args, dict) else {}
            forms.append(SchemaForm(terms.schema or call.schema or ANYTHING, values, name=call.name))

    with box("div", "row answers"):
        action("Approve", approve, kind="primary")
        action("Refuse", lambda: submit(answer(approved=False)), kind="danger")
        editing = action("Edit the arguments", edit, kind="plain")
        editing.set_visibility(terms.edit)


class Option(Value):
    """An option of a choice."""

    label: str
    value: JSON
    about: str = ""


async def draw_confirmation(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render yes and no. The result is `{"confirmed": true}`, or false."""
    call = facts.call
    await _ask(facts)
    if is_open(call):
        with box("div", "row answers"):
            action("Yes", partial(submit, {"confirmed": True}), kind="primary")
            action("No", partial(submit, {"confirmed": False}))
        return
    waiting_for_others(call)
    confirmed = call.result.get("confirmed") if isinstance(call.result, dict) else call.result
    if call.status == "complete" and isinstance(confirmed, bool):
        badge("Yes" if confirmed else "No", "good" if confirmed else "bad")
    else:
        await outcome(call)


async def draw_choice(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render a choice of one or several options. The result is `{"choice": value}` or `{"choices": [value, …]}`."""
    call = facts.call
    options, several = read_options(call.args), takes_several(call.args)
    await _ask(facts, but=("options", "choices", "items", "multiple"))
    if is_open(call) and options:
        if several:
            _draw_several(options, submit)
        elif len(options) <= _BUTTONS:
            _draw_buttons(options, submit)
        else:
            _draw_select(options, submit)
        return
    if not is_open(call) and call.status == "requires_action":
        for option in options[:_BUTTONS]:
            badge(option.label)
    waiting_for_others(call)
    await _draw_chosen(facts, options)


def read_options(args: JSON) -> Sequence[Option]:
    """Return the options of a call that asks for a choice. Empty if they cannot be read."""
    candidates = (
        [args.get(name) for name in ("options", "choices", "items")] if isinstance(args, dict) else [args]
    )
    lists = [each for each in candidates if isinstance(each, list)]
    listed = lists[0] if lists else list[JSON]()
    return [option for each in listed[:MAX_OPTIONS] if (option := _option(each)) is not None]


def takes_several(args: JSON) -> bool:
    """Return whether more than one option may be chosen."""
    return isinstance(args, dict) and any(args.get(name) is True for name in ("multiple", "multi", "several"))


def _option(value: JSON) -> Option | None:
    if isinstance(value, dict):
        names = ("label", "title", "name", "text", "value", "id")
        label = next((value[name] for name in names if isinstance(value.get(name), str | int)), None)
        if label is None:
            return None
        chosen = next((value[name] for name in ("value", "id") if name in value), label)
        about = value.get("description")
        return Option(
            label=brief(str(label), _MAX_TEXT),
            value=chosen,
            about=brief(about, 400) if isinstance(about, str) else "",
        )
    if value is None or isinstance(value, list):
        return None
    return Option(label=brief(_text(value), _MAX_TEXT), value=value)


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else dumps_unescaped(value)


async def _ask(facts: CallFacts, but: tuple[str, ...] = ()) -> None:
    call = facts.call
    question = text_of(call.args, *QUESTION)
    if question is None:
        await arguments(call, but=but)
        return
    prose(question)
    question_name = next(name for name in QUESTION if text_of(call.args, name) is not None)
    await arguments(call, but=(*but, question_name))


def _draw_buttons(options: Sequence[Option], submit: Submit) -> None:
    with box("div", "options"):
        for option in options:
            with box("div"):
                action(option.label, partial(submit, {"choice": option.value}))
                if option.about:
                    plain_text(option.about, "div", "quiet small")


def _draw_select(options: Sequence[Option], submit: Submit) -> None:
    select = ui.select({at: each.label for at, each in enumerate(options)}, with_input=True)
    select.props("outlined dense").props["label"] = "Choose"

    async def send() -> None:
        if isinstance(select.value, int):
            await submit({"choice": options[select.value].value})
        else:
            complain("Choose one of the options first.")

    action("Answer", send, kind="primary")


def _draw_several(options: Sequence[Option], submit: Submit) -> None:
    with box("div", "stack"):
        boxes = [_checkbox(option) for option in options]

    async def send() -> None:
        chosen: list[JSON] = [
            option.value for option, ticked in zip(options, boxes, strict=True) if ticked.value
        ]
        await submit({"choices": chosen})

    action("Answer", send, kind="primary")


def _checkbox(option: Option) -> ui.checkbox:
    with box("div"):
        ticked = ui.checkbox(option.label).props("dense")
        ticked.props["aria-label"] = option.label
        if option.about:
            plain_text(option.about, "div", "quiet small")
    return ticked


async def _draw_chosen(facts: CallFacts, options: Sequence[Option]) -> None:
    call = facts.call
    if call.status != "complete" or not isinstance(call.result, dict):
        await outcome(call)
        return
    labels: Mapping[str, str] = {_text(each.value): each.label for each in options}
    chosen = call.result.get("choices", [call.result.get("choice")])
    if "choice" not in call.result and "choices" not in call.result:
        await value_block(call.result)
        return
    with box("div", "row"):
        for each in chosen[:MAX_OPTIONS] if isinstance(chosen, list) else [chosen]:
            badge(labels.get(_text(each), brief(_text(each), _MAX_TEXT)), "good")


async def draw_question(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render a form of the requested input.

    The result is `{"action": "accept", "content": {…}}`, `decline` or `cancel`.
    """
    call = facts.call
    source = text_of(call.args, "source")
    if source is not None:
        plain_text(f"{brief(source, 200)} asks", "div", "quiet small")
    prose(text_of(call.args, "message") or "A question without a message.")
    url = text_of(call.args, "url")
    if url is not None:
        prose(f"Answer it on this page:\n{url}")  # renders only http(s) URLs as links
    if not is_open(call):
        waiting_for_others(call)
        await _draw_answer(facts)
        return
    schema = call.args.get("requestedSchema") if isinstance(call.args, dict) else None
    form = SchemaForm(schema, name=call.name) if isinstance(schema, dict) else None

    async def accept() -> None:
        entered = None if form is None else read(form)
        if form is None:
            await submit({"action": "accept"})
        elif entered is not None:
            await submit({"action": "accept", "content": entered})

    with box("div", "row answers"):
        action("Done" if url is not None else "Answer", accept, kind="primary")
        action("Decline", partial(submit, {"action": "decline"}))
        action("Cancel", partial(submit, {"action": "cancel"}), kind="plain")


async def _draw_answer(facts: CallFacts) -> None:
    call = facts.call
    result: JSON = call.result
    if call.status == "error":
        plain_text(call.error or "Not answered.", "div", "error")
    elif isinstance(result, dict):
        label, kind = _ANSWERS.get(str(result.get("action")), ("Answered", "good"))
        badge(label, kind)
        await value_block(result.get("content"))
