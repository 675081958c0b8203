"""Nothing outlives the processes that requested it: no process, no folder, even if they are killed."""

import asyncio
import fcntl
import gc
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from tests.sandbox.rig import children, descriptors, folders, run, sandbox
from toolwright.adapters.sandbox.deno import DenoSandbox
from toolwright.adapters.sandbox.process import LifeLine, kill, opened, sweep
from toolwright.core.state.sandbox import CodeOptions

pytestmark = pytest.mark.anyio
JS = 'import ready from "ready"; await ready(); '


@pytest.fixture(autouse=True)
def alone() -> Generator[None]:
    """Only one test at a time sweeps, since leftovers of another would disturb it."""
    with (Path(tempfile.gettempdir()) / "toolwright-sweep.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "source", "timeout"),
    [
        ("javascript", JS + "for (;;);", "60"),
        ("javascript", JS + "await new Promise(() => {})", "60"),
        ("javascript", JS + "setInterval(() => {}, 10); await new Promise(() => {})", "60"),
        ("javascript", JS + 'for (;;) console.log("x")', "60"),
        ("python", "import asyncio\nawait ready()\nawait asyncio.sleep(9)", "60"),
        ("python", "await ready()\nwhile True: pass", "1"),  # only its timeout ends it
    ],
    ids=["loops", "waits", "ticks", "logs", "python waits", "python loops"],
)
async def test_the_code_dies_with_a_killed_parent(language: str, source: str, timeout: str) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sandbox.parent", language, source, timeout, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    async with asyncio.timeout(30):
        assert await parent.stdout.readline() == b"ready\n"
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert workers
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, workers, timeout=20)
    assert [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE] == []
    left = folders(parent.pid)
    assert len(left) == (1 if language == "javascript" else 0)
    sweep()
    assert folders(parent.pid) == left, "it is too young"
    sweep(0.0)
    assert not folders(parent.pid), "a later sandbox takes it away"


async def test_a_sweep_leaves_the_folders_of_the_living() -> None:
    seen: list[set[str]] = []

    async def look() -> None:
        await asyncio.to_thread(sweep, 0.0)
        seen.append(folders())

    async with sandbox() as box:
        outcome = await run(box, 'import look from "look"; await look()', imports={"look": look})
    assert outcome.status == "success" and len(seen[0]) == 1


async def test_a_closed_lifeline_kills_the_process_at_the_other_end() -> None:
    line = LifeLine()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "while True: pass", pass_fds=(line.end,), start_new_session=True
    )
    line.tie(process.pid)
    line.close()
    async with asyncio.timeout(20):
        assert await process.wait() == -signal.SIGKILL


async def test_a_process_that_is_killed_from_outside_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    before, killed = children(), False

    async def shoot() -> None:
        nonlocal killed
        [pid] = children() - before
        kill(pid)
        killed = True

    async with sandbox() as box:
        outcome = await run(
            box, 'import shoot from "shoot"; await shoot(); for (;;);', imports={"shoot": shoot}
        )
    assert killed
    assert outcome.error is not None and outcome.error.code == "exited"
    assert outcome.error.message == "The code's process exited with status -9."
    assert "status -9" in caplog.text


async def test_a_process_that_cannot_be_started_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    box = DenoSandbox(deno="/nowhere/deno")
    outcome = await box.start("1", CodeOptions())
    await box.close()
    assert outcome.error is not None and outcome.error.code == "exited"
    assert str(outcome.error) == "The code was not executed: no sandbox process could be started."
    assert "/nowhere/deno" in caplog.text and not folders()


async def test_many_runs_that_end_in_all_ways_drop_stale_wake_open() -> None:
    async with sandbox() as box:
        await run(box, "1", language="javascript")
        gc.collect()
        before, open_before = children(), descriptors()
        for _ in range(3):
            await run(box, "export default 1", language="javascript")
            await run(box, "throw 1", language="javascript")
            await run(box, "for (;;);", language="javascript", timeout=0.05)
            await run(box, "await 1; for (;;);", language="javascript", timeout=0.2)
        gc.collect()
        assert not children() - before
        assert descriptors() == open_before
        assert not folders()


async def test_a_run_that_is_cancelled_at_any_moment_leaves_neither_process_nor_folder() -> None:
    async def use(running: asyncio.Event) -> None:
        async with opened(lambda _: ["sleep", "60"], lambda _: {}, {"imports.json": "{}"}, 1024):
            running.set()
            await asyncio.Event().wait()

    before = children()
    for turns in range(30):
        running = asyncio.Event()
        task = asyncio.create_task(use(running))
        if turns % 2:  # its termination is cancelled too
            await running.wait()
            task.cancel()
        for _ in range(turns // 2):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not folders()
        assert not children() - before  # it is reaped, and the loop has noticed: its pipes are closed
