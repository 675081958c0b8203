"""A process is killed at every commit of a run that waits for a value: the next one continues it, once."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.processes import KILLED, Processes, processes_of, sampled
from tests.crash.variables_child import UNITS, journal, regional, script, whole
from tests.runtime.rig import Rig, assert_valid, running
from tests.runtime.test_variables import parked
from toolwright.core.errors import NotFound

pytestmark = pytest.mark.anyio


processes = processes_of("variables_child")


async def carried_on(rig: Rig) -> str:
    """Complete the run. Return its id."""
    runs = await rig.rt.runs.list()
    if not runs:
        return await whole(rig)
    [run] = runs
    request_id = await parked(rig, run.id)
    with suppress(NotFound):  # answered already
        await rig.rt.requests.answer(run.thread_id, request_id, {"REGION": "eu"})
    return run.id


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", sampled(range(1, UNITS + 1)))
async def test_a_killed_process_loses_neither_the_request_nor_its_answer(
    processes: Processes, unit: int, when: str, tmp_path: Path
) -> None:
    assert processes.run(folder=str(tmp_path), unit=unit, when=when) == KILLED
    async with running(script(), [regional()], store=journal(str(tmp_path))) as rig:
        run = await rig.rt.runs.wait(await carried_on(rig), 10)
        assert (run.status, run.output) == ("completed", "Done.")
        messages = await rig.transcript(run.thread_id)
        assert_valid(messages)
        assert [message.content for message in messages if message.role == "tool"] == ["In eu"]
        assert await rig.rt.threads.env(run.thread_id) == {"REGION": "text"}
        assert await rig.rt.requests.list(run.thread_id) == []
