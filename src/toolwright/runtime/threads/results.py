"""Results of runs, read from the journal."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.run_result import RunResult, last_text
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import NotFound
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.limits import MAX_ATTACHMENT
from toolwright.core.schemas.meta import Call, read_call
from toolwright.core.schemas.output import Output
from toolwright.core.threads.call import Call as CallRow
from toolwright.core.threads.run import Run
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.files import WholeResults
from toolwright.wire.call import arguments_json
from toolwright.wire.result import result_from_json
from toolwright.wire.run_events import RecordedCall

PAGE = 500
"""Rows per read."""


class RunResults:
    """Reads the results of runs, and the rows that their events refer to."""

    def __init__(self, store: Store, agents: Agents, whole: WholeResults) -> None:
        self._store = store
        self._agents = agents
        self._whole = whole

    async def result(self, run_id: str) -> RunResult:
        """Return the run's result, as of now if it has not finished. Raises `NotFound`.

        The results of its calls are whole as long as they have at most 25 MiB together.
        """
        run = await self._store.run(run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id!r}.")
        active = await self._agents.usable(run.agent, run.revision)
        tools: Mapping[str, Tool] = {} if active is None else active.by_name
        read = await self._store.run_messages(run.id)
        messages = tuple([each for each in read if each.within is None])
        rows = await self._whole.of_calls(await call_rows(self._store, run.id), MAX_ATTACHMENT)
        return RunResult(
            status=run.status,
            output=await _output(run, active),
            text=last_text(messages),
            messages=messages,
            calls=tuple([shown(row, tools) for row in rows]),
            usage=run.usage,
            cost=run.cost,
            stop_reason=run.stop_reason,
            error=run.error,
            error_code="cancelled" if run.status == "cancelled" else run.error_code,
            thread_id=run.thread_id,
            run_id=run.id,
        )

    async def call(self, call_id: str) -> RecordedCall:
        """Return the recorded call. Raises `NotFound`."""
        row = await self._store.call(call_id)
        if row is None:
            raise NotFound(f"There is no call {call_id!r}.")
        result = None if row.result is None else result_from_json(row.result)
        if result is not None:
            result = await self._whole.of(row.thread_id, result)
        return RecordedCall(name=row.name, arguments=arguments_json(row.arguments), result=result)

    async def text(self, thread_id: str, seq: int) -> str:
        """Return the text of the thread's message at that position, empty if there is none."""
        messages = await self._store.messages(thread_id, 1, seq - 1)
        return messages[0].content if messages else ""


async def _output(run: Run, active: ActiveAgent | None) -> Any:  # an instance of the declared output type
    """Return the output as its prompt declares it, or as JSON if it does not match the current declaration."""
    output = None if active is None else active.sides[run.side].prompt.output
    if not isinstance(output, Output) or run.output is None or run.status != "completed":
        return run.output
    try:
        return await in_thread_if_large(run.output, output.load, run.output)
    except ValidationError:
        return run.output


async def call_rows(store: Store, run_id: str) -> list[CallRow]:
    """Return the calls that the model has made in the run, in order, without nested calls."""
    rows: list[CallRow] = []
    while page := await store.calls(run_id=run_id, limit=PAGE, offset=len(rows)):
        rows += page
    top_level = [row for row in rows if row.parent_id is None]
    return sorted(top_level, key=lambda row: (row.step, row.position))


def shown(row: CallRow, tools: Mapping[str, Tool], reason: str | None = None) -> Call:
    """Return a call as shown in results and solutions."""
    try:
        arguments: JSON = json.loads(row.arguments or "{}")
    except (ValueError, RecursionError):  # the result reports it
        arguments = {}
    result = None if row.result is None else result_from_json(row.result)
    tool = tools.get(row.name)
    if tool is None or tool.meta is None or not isinstance(arguments, dict):
        args = arguments if isinstance(arguments, dict) else {}
        return Call(tool=row.name, args=args, reasoning=reason, result=result)
    return changed(read_call(tool.name, tool.meta, arguments, row.kind == "latent"), result=result)
