"""The ends of external calls: one reader of the thread's events notifies each waiting caller of its own call."""

import asyncio

import pytest

from tests.play import AT
from toolwright.adapters.memory import MemoryFiles
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.errors import RowBroken
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.toolkits.external_calls import CallEnds
from toolwright.testing import MemoryBus, MemoryStore
from toolwright.wire.result import result_to_json

pytestmark = pytest.mark.anyio


class HalfBroken(MemoryStore):
    """A journal in which the row of one call cannot be read."""

    async def call(self, call_id: str) -> Call | None:
        if call_id == "broken":
            raise RowBroken("The call broken is broken.")
        return Call(
            id=call_id,
            thread_id="thr_1",
            run_id="run_1",
            step=1,
            position=0,
            name="add",
            kind="function",
            arguments="{}",
            model_call_id=call_id,
            status="done",
            result=result_to_json(ToolResult.ok(3)),
            created_at=AT,
        )


def asked(call_id: str) -> InboxEvent:
    return InboxEvent(
        thread_id="thr_1", event_id=f"ask_{call_id}", type="call", content={"callId": call_id}, created_at=AT
    )


async def test_a_call_whose_row_is_broken_is_reported_only_to_its_caller() -> None:
    bus = MemoryBus()
    keeper = FileKeeper(MemoryFiles(), SystemClock(), new_id, max_attachment=1_000, max_text=1_000)
    ends = CallEnds(HalfBroken(bus.publish), bus, keeper)
    over = Event(
        thread_id="thr_1", run_id="run_1", agent="agt_1", type="run.completed", payload={}, at=AT, n=1
    )
    with ends.expect(asked("broken"), "broken") as broken, ends.expect(asked("whole"), "whole") as whole:
        await asyncio.sleep(0)  # from now on the reader follows the thread
        bus.publish([over])
        assert (await whole).result == 3
        with pytest.raises(RowBroken):
            await broken
