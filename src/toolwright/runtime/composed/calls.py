"""Calls of composed requests, as solutions show them: read from the journal, with results and reasons."""

from collections.abc import Mapping, Sequence

from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.schemas.answer_form import AnswerFault, read_answer
from toolwright.core.schemas.meta import REASONING, Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.tools.tool import Tool
from toolwright.runtime.threads.results import PAGE, call_rows, shown


async def read_calls(store: Store, run: Run, tools: Mapping[str, Tool]) -> tuple[Call, ...]:
    """The calls that the model has made in the run, in order, with their results."""
    rows = await call_rows(store, run.id)
    reasons: Mapping[tuple[int, int], str] = {}
    if any(tool.meta is None for tool in tools.values()):
        reasons = _reasons(await _answers(store, run))
    return tuple([shown(row, tools, reasons.get((row.step, row.position))) for row in rows])


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
