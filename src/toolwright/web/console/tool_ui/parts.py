"""Parts of tool UI components: the facts of a call as visible to a visitor, and components by name."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, Literal, TypeAlias, cast

from toolwright.core.errors import Forbidden, InvalidJSON, InvalidRequest, NotFound, ToolwrightError
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped, is_large, utf8_size
from toolwright.core.results import AttachmentRef, ToolResult
from toolwright.core.text import brief
from toolwright.core.threads.approval import Terms, terms_from_json
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.tools.tool_ui import ShownCall, Submit
from toolwright.core.value import Value, changed
from toolwright.web.console.schema_form import ABSENT, SchemaForm
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import MAX_SHOWN, action, box, code, plain_text, prose, size
from toolwright.wire.call import arguments_json, call_message_id
from toolwright.wire.result import result_from_json

Status: TypeAlias = Literal["streaming", "running", "requires_action", "complete", "error"]
_ENDS = {"expired": "Not answered in time.", "cancelled": "The call was cancelled."}
MAX_ITEMS: Final = 200  # items of a list or object shown as JSON
_MAX_FACTS: Final = 40
_SHORT: Final = 2_000  # characters of one value among others
ANYTHING: JSONObject = {"type": "object"}


class CallFacts(Value):
    """A call and its context. `agent` is the name of the agent that made it, if known; `decisions` are about it."""

    call: ShownCall
    agent: str | None = None
    terms: Terms | None = None
    shows_run: bool = False
    late: bool = False
    ends_at: datetime | None = None
    decisions: tuple[JSONObject, ...] = ()


async def facts_of_row(visit: Visit, row: Call) -> CallFacts:
    """Return the facts of a call from its row, which the visitor may see."""
    result = _result_of(row)
    owns, attachments = await _reads_thread(visit, row), _attachments(result)
    has_files = owns or await _has_files(visit, row, attachments)
    call = ShownCall(
        id=row.id,
        name=row.name,
        args=arguments_json(row.arguments),
        status=status_of(row, result),
        result=None if result is None else result.result,
        error=_error_of(row, result),
        schema=await _schema_of(visit, row),
        attachments=attachments if has_files else (),
        may_answer=await _may_answer(visit, row),
        run_id=row.run_id,
        thread_id=row.thread_id if has_files else None,
    )
    return CallFacts(
        call=call,
        agent=await _agent_of(visit, row),
        terms=terms_from_json(row.terms) if row.awaits_approval else None,
        shows_run=owns,
        late=row.status == "pending" and row.deadline is not None,
        ends_at=row.expires_at if row.status in OPEN else None,
        decisions=row.decisions,
    )


async def facts_of_message(visit: Visit, metadata: JSONObject) -> CallFacts:
    """Return the facts of a call from a message in a space, with arguments and result as shown there.

    A result that was cut for the model is read from the call, if the visitor may see that: the message can be forged.
    """
    call_id = str(metadata.get("toolCallId"))
    if metadata.get("status") == "requires_action":
        with suppress(NotFound):
            metadata = (await visit.permits.message(visit.caller, call_message_id(call_id))).metadata
    status, is_cut = _shown_call(metadata), metadata.get("resultTruncated") is True
    try:
        row = await (
            visit.permits.call(visit.caller, call_id) if is_cut else visit.runtime.calls.row(call_id)
        )
    except NotFound:
        return CallFacts(call=status)
    facts = await facts_of_row(visit, row)
    call = changed(
        facts.call,
        name=status.name,
        args=status.args,
        status=status.status,
        result=facts.call.result if is_cut and status.result is not None else status.result,
        error=facts.call.error if is_cut and status.error is not None else status.error,
        may_answer=facts.call.may_answer and status.status == "requires_action",
    )
    asks = metadata.get("approval") is True
    is_late = metadata.get("timedOut") is True and status.status == "requires_action"
    return changed(facts, call=call, agent=None, terms=facts.terms if asks else None, late=is_late)


def facts_of_stream(payload: JSONObject) -> CallFacts:
    """Return the facts of a call that a model is still writing, from a `tool.started` or `tool.streaming` event."""
    partial = payload.get("partialArgs")
    call = ShownCall(
        id=str(payload.get("streamId")),
        name=str(payload.get("toolName")),
        args=payload.get("text", "") if partial is None else partial,
        status="streaming",
    )
    return CallFacts(call=call)


def status_of(row: Call, result: ToolResult | None) -> Status:
    """Return the status of a call for display."""
    match row.status:
        case "waiting" | "pending":
            return "running" if row.ends_with_run and not row.awaits_approval else "requires_action"
        case "done" | "resolved":
            return "complete" if result is None or result.status == "success" else "error"
        case "error" | "expired" | "cancelled":
            return "error"
        case _:
            return "running"


def _shown_call(metadata: JSONObject) -> ShownCall:
    """Return the call of a message. A forged message can have any content."""
    status, result = metadata.get("status"), metadata.get("result")
    statuses: Sequence[Status] = ("running", "requires_action", "complete", "error")
    failed = status == "error" and isinstance(result, dict)
    return ShownCall(
        id=str(metadata.get("toolCallId")),
        name=str(metadata.get("toolName")),
        args=metadata.get("args"),
        status=cast("Status", status) if status in statuses else "running",
        result=None if status == "error" else result,
        error=str(cast("JSONObject", result).get("error")) if failed else None,
    )


def _result_of(row: Call) -> ToolResult | None:
    if row.result is None:
        return None
    try:
        return result_from_json(row.result)
    except InvalidJSON:
        return ToolResult.fail("The recorded result cannot be read.")


def _error_of(row: Call, result: ToolResult | None) -> str | None:
    if result is not None:
        return (result.error or "The tool failed.") if result.status == "error" else None
    return _ENDS.get(row.status)


def _attachments(result: ToolResult | None) -> Sequence[AttachmentRef]:
    attachments = () if result is None else result.attachments
    return [each for each in attachments if isinstance(each, AttachmentRef)]


async def _may_answer(visit: Visit, row: Call) -> bool:
    if row.status not in OPEN:
        return False
    try:
        await visit.permits.answer(visit.caller, row)
    except (NotFound, Forbidden):
        return False
    return True


async def _reads_thread(visit: Visit, row: Call) -> bool:
    try:
        await visit.permits.thread(visit.caller, row.thread_id)
    except NotFound:
        return False
    return True


async def _has_files(visit: Visit, row: Call, attachments: Sequence[AttachmentRef]) -> bool:
    """Return whether the visitor may read the files of the call's result.

    This applies to a thread that they may not read otherwise.
    """
    if not attachments:
        return False
    try:
        await visit.permits.file(visit.caller, row.thread_id, attachments[0].path, row.id)
    except NotFound:
        return False
    return True


async def _agent_of(visit: Visit, row: Call) -> str | None:
    if row.agent is None:
        return None
    try:
        return (await visit.runtime.agents.get(row.agent)).name
    except NotFound:
        return None


async def _schema_of(visit: Visit, row: Call) -> JSONObject | None:
    """Return the input schema of the call's tool, or None if the tool is unknown."""
    try:
        active = None if row.agent is None else await visit.runtime.agents.usable(row.agent)
    except ToolwrightError:
        active = None
    tool = None if active is None else active.by_name.get(row.name)
    if tool is None and row.name in visit.runtime.tools:
        tool = visit.runtime.tools[row.name]
    return None if tool is None else tool.parameters


Draw: TypeAlias = Callable[[Visit, CallFacts, Submit], Awaitable[None]]
"""Renders the body of a call's card."""


def is_open(call: ShownCall) -> bool:
    """Return whether the call waits for a result that the visitor may submit."""
    return call.status == "requires_action" and call.may_answer


def text_of(args: JSON, *names: str) -> str | None:
    """Return the first of these arguments that is a non-empty text."""
    values = [args.get(name) for name in names] if isinstance(args, dict) else []
    return next((each for each in values if isinstance(each, str) and each.strip()), None)


def cut_json(whole: JSON, most: int = MAX_SHOWN) -> tuple[JSON, bool]:
    """Return a value truncated to a readable size, and whether it was truncated."""
    budget = [most]
    cut = _cut(whole, budget)
    return cut, budget[0] < 0


def _cut(whole: JSON, budget: list[int]) -> JSON:
    if isinstance(whole, dict):
        parts: dict[str, JSON] = {}
        for name, each in whole.items():
            if budget[0] <= 0 or len(parts) >= MAX_ITEMS:
                budget[0] = -1
                return parts | {"…": f"{len(whole) - len(parts)} more"}
            budget[0] -= len(name)
            parts[brief(name, 200)] = _cut(each, budget)
        return parts
    if isinstance(whole, list):
        items: list[JSON] = []
        for each in whole:
            if budget[0] <= 0 or len(items) >= MAX_ITEMS:
                budget[0] = -1
                return [*items, f"… {len(whole) - len(items)} more"]
            items.append(_cut(each, budget))
        return items
    text = whole if isinstance(whole, str) else ""
    room = max(budget[0], 100)
    budget[0] = -1 if len(text) > room else budget[0] - len(text) - 4
    return brief(text, room) if isinstance(whole, str) else whole


async def json_block(whole: JSON) -> None:
    """Render a value as JSON. For a large value the beginning and its size are shown."""
    cut, less = cut_json(whole)
    if less:
        count = await asyncio.to_thread(utf8_size, whole) if is_large(whole) else utf8_size(whole)
        plain_text(f"The beginning of {size(count)}:", "div", "quiet small")
    code(json.dumps(cut, ensure_ascii=False, indent=2))


async def value_block(whole: JSON) -> None:
    """Render a value: text as text, an object as a list of facts, others as JSON."""
    if isinstance(whole, str):
        prose(whole)
    elif isinstance(whole, dict) and 0 < len(whole) <= _MAX_FACTS:
        facts_block(whole)
    elif whole not in ({}, None):
        await json_block(whole)


def facts_block(values: Mapping[str, JSON]) -> None:
    """Render names and values as a list of facts."""
    with box("dl", "facts"):
        for name, each in values.items():
            plain_text(brief(name, 100), "dt")
            with box("dd"):
                _fact(each)


def _fact(each: JSON) -> None:
    if isinstance(each, dict | list):
        cut, _ = cut_json(each, _SHORT)
        parts = [*cut.values()] if isinstance(cut, dict) else cut if isinstance(cut, list) else []
        flat = not any(isinstance(part, dict | list) for part in parts)
        text = json.dumps(cut, ensure_ascii=False, indent=None if flat else 2)
        plain_text(text, "span", "mono") if flat and len(text) < 80 else code(text)
    else:
        plain_text(brief(each if isinstance(each, str) else dumps_unescaped(each), _SHORT), "span", "said")


async def arguments(call: ShownCall, *, but: tuple[str, ...] = ()) -> None:
    """Render the arguments received so far."""
    args = call.args
    if isinstance(args, dict):
        args = {name: each for name, each in args.items() if name not in but}
    await value_block(args)


async def outcome(call: ShownCall) -> None:
    """Render the result or the error of a call, if any."""
    if call.status == "error":
        plain_text(call.error or "The tool failed.", "div", "error")
    elif call.status == "complete" and call.result is not None:
        with box("div", "outcome"):
            plain_text("Result", "div", "quiet small")
            await value_block(call.result)


def waiting_for_others(call: ShownCall) -> None:
    """Render a note that the call waits for another person's answer."""
    if call.status == "requires_action" and not call.may_answer:
        plain_text("Waiting for another person’s answer.", "p", "quiet small")


async def draw_form(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the fields of the tool's schema, with its arguments as initial values. The result is the input."""
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
    """Return the entered value, or None and show the error on the page."""
    try:
        return form.value()
    except InvalidRequest as error:
        complain(error.message)
        return None
