"""The parts of a tool's interface, and the components by their names."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped, utf8_size
from toolwright.core.plain import is_large
from toolwright.core.spaces.tool_ui import ShownCall, Submit
from toolwright.core.text import brief
from toolwright.web.console.schema_form import ABSENT, SchemaForm
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import LONGEST_SHOWN, action, box, code, prose, size, words

Draw: TypeAlias = Callable[[Visit, CallFacts, Submit], Awaitable[None]]
"""Draws what a card shows of a call, below its head."""
MOST_ITEMS: Final = 200  # of one list or object that is shown as JSON
_MOST_FACTS: Final = 40
_SHORT: Final = 2_000  # characters of a value among others


def is_open(call: ShownCall) -> bool:
    """Return whether it waits for a result that the visitor may give."""
    return call.status == "requires_action" and call.may_answer


def text_of(args: JSON, *names: str) -> str | None:
    """The first of these arguments that is a text with something in it."""
    values = [args.get(name) for name in names] if isinstance(args, dict) else []
    return next((each for each in values if isinstance(each, str) and each.strip()), None)


def cut_json(whole: JSON, most: int = LONGEST_SHOWN) -> tuple[JSON, bool]:
    """As much of a value as somebody may read, and whether that is less than all."""
    left = [most]
    cut = _cut(whole, left)
    return cut, left[0] < 0


def _cut(whole: JSON, left: list[int]) -> JSON:
    if isinstance(whole, dict):
        shown: dict[str, JSON] = {}
        for name, each in whole.items():
            if left[0] <= 0 or len(shown) >= MOST_ITEMS:
                left[0] = -1
                return shown | {"…": f"{len(whole) - len(shown)} more"}
            left[0] -= len(name)
            shown[brief(name, 200)] = _cut(each, left)
        return shown
    if isinstance(whole, list):
        items: list[JSON] = []
        for each in whole:
            if left[0] <= 0 or len(items) >= MOST_ITEMS:
                left[0] = -1
                return [*items, f"… {len(whole) - len(items)} more"]
            items.append(_cut(each, left))
        return items
    text = whole if isinstance(whole, str) else ""
    room = max(left[0], 100)
    left[0] = -1 if len(text) > room else left[0] - len(text) - 4
    return brief(text, room) if isinstance(whole, str) else whole


async def json_block(whole: JSON) -> None:
    """A value as JSON; of a large one the beginning, and how large it is."""
    cut, less = cut_json(whole)
    if less:
        count = await asyncio.to_thread(utf8_size, whole) if is_large(whole) else utf8_size(whole)
        words(f"The beginning of {size(count)}:", "div", "quiet small")
    code(json.dumps(cut, ensure_ascii=False, indent=2))


async def value_block(whole: JSON) -> None:
    """A value: text as text, an object as a list of facts, anything else as JSON."""
    if isinstance(whole, str):
        prose(whole)
    elif isinstance(whole, dict) and 0 < len(whole) <= _MOST_FACTS:
        facts_block(whole)
    elif whole not in ({}, None):
        await json_block(whole)


def facts_block(values: Mapping[str, JSON]) -> None:
    """Names and values."""
    with box("dl", "facts"):
        for name, each in values.items():
            words(brief(name, 100), "dt")
            with box("dd"):
                _fact(each)


def _fact(each: JSON) -> None:
    if isinstance(each, dict | list):
        cut, _ = cut_json(each, _SHORT)
        parts = [*cut.values()] if isinstance(cut, dict) else cut if isinstance(cut, list) else []
        flat = not any(isinstance(part, dict | list) for part in parts)
        text = json.dumps(cut, ensure_ascii=False, indent=None if flat else 2)
        words(text, "span", "mono") if flat and len(text) < 80 else code(text)
    else:
        words(brief(each if isinstance(each, str) else dumps_unescaped(each), _SHORT), "span", "said")


async def arguments(call: ShownCall, *, but: tuple[str, ...] = ()) -> None:
    """The arguments, as far as they are known."""
    args = call.args
    if isinstance(args, dict):
        args = {name: each for name, each in args.items() if name not in but}
    await value_block(args)


async def outcome(call: ShownCall) -> None:
    """The result of a call, or its error, if it has one."""
    if call.status == "error":
        words(call.error or "The tool failed.", "div", "error")
    elif call.status == "complete" and call.result is not None:
        with box("div", "outcome"):
            words("Result", "div", "quiet small")
            await value_block(call.result)


def waiting_for_others(call: ShownCall) -> None:
    """Of a call that somebody else has to answer: that it waits."""
    if call.status == "requires_action" and not call.may_answer:
        words("It waits for somebody else’s answer.", "p", "quiet small")


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
