"""Calls of composed requests, as solutions show them: read from the journal, with results and reasons."""

import json
from collections.abc import Mapping, Sequence

from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.schemas.answer_form import AnswerFault, read_answer
from toolwright.core.schemas.meta import REASONING, Call, read_call
from toolwright.core.threads.call import Call as CallRow
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.wire.result import result_from_json

PAGE = 500
"""Rows that are read at once."""


async def read_calls(store: Store, run: Run, tools: Mapping[str, Tool]) -> tuple[Call, ...]:
    """The calls that the model has made in the run, in order, with their results."""
    rows = await _rows(store, run)
    reasons: Mapping[tuple[int, int], str] = {}
    if any(tool.meta is None for tool in tools.values()):
        reasons = _reasons(await _answers(store, run))
    return tuple([_call(row, tools, reasons.get((row.step, row.position))) for row in rows])


async def _rows(store: Store, run: Run) -> list[CallRow]:
    rows: list[CallRow] = []
    while page := await store.calls(run_id=run.id, limit=PAGE, offset=len(rows)):
        rows += page
    own = [row for row in rows if row.parent_id is None]
    return sorted(own, key=lambda row: (row.step, row.position))


async def _answers(store: Store, run: Run) -> list[Message]:
    """The messages of the run with which its model has made calls."""
    messages: list[Message] = []
    while page := await store.messages(run.thread_id, PAGE, len(messages)):
        messages += page
    return [each for each in messages if each.run_id == run.id and each.calls and each.within is None]


def _reasons(answers: Sequence[Message]) -> dict[tuple[int, int], str]:
    """Why calls are made, by step and position: those of tools without meta-properties keep it in the answer alone."""
    reasons: dict[tuple[int, int], str] = {}
    for answer in answers:
        for position, call in enumerate(_written(answer.content)):
            reason = call.get(REASONING) if isinstance(call, dict) else None
            if isinstance(reason, str):
                reasons[answer.step, position] = reason
    return reasons


def _written(text: str) -> list[JSON]:
    """The calls in the text of an answer; none if they were made in another way."""
    try:
        answer = read_answer(text)
    except AnswerFault:
        return []
    calls = answer.get("calls") if isinstance(answer, dict) else None
    return calls if isinstance(calls, list) else []


def _call(row: CallRow, tools: Mapping[str, Tool], reason: str | None) -> Call:
    """A call as the document shows it."""
    try:
        arguments: JSON = json.loads(row.arguments or "{}")
    except ValueError:  # the result says so
        arguments = {}
    result = None if row.result is None else result_from_json(row.result)
    tool = tools.get(row.name)
    if tool is None or tool.meta is None or not isinstance(arguments, dict):
        args = arguments if isinstance(arguments, dict) else {}
        return Call(tool=row.name, args=args, reasoning=reason, result=result)
    return changed(read_call(tool.name, tool.meta, arguments, row.kind == "latent"), result=result)
