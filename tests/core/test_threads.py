"""The threads of plain functions."""

import asyncio
import gc
import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from toolwright.core.concurrency import DaemonThreads

STUCK = """
import asyncio, threading
import toolwright as tw
from toolwright.core.tools.toolset import Toolset

@tw.tool(description="Hang", timeout=0.05)
def hang() -> None:
    threading.Event().wait()

print(asyncio.run(Toolset([hang]).call("hang", "{}")).error)
"""


def test_a_function_that_never_ends_does_not_keep_the_process_alive() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "Tool timed out after 50ms", "")


def test_threads_are_made_as_needed_reused_and_bounded() -> None:
    pool, gate, names = DaemonThreads(2, "test"), threading.Event(), set[str]()

    def work() -> str:
        gate.wait(10)
        names.add(threading.current_thread().name)
        return threading.current_thread().name

    assert pool.submit(str, 1).result(10) == "1"
    futures = [pool.submit(work) for _ in range(6)]
    gate.set()
    assert {future.result(10) for future in futures} <= {"test-0", "test-1"}
    pool.shutdown()
    with pytest.raises(RuntimeError):
        pool.submit(str)


def test_what_is_cancelled_before_its_turn_is_not_called() -> None:
    pool, gate, called = DaemonThreads(1, "test"), threading.Event(), list[int]()
    first = pool.submit(gate.wait, 10)
    second, third = pool.submit(called.append, 2), pool.submit(called.append, 3)
    assert second.cancel()
    gate.set()
    assert first.result(10)
    third.result(10)
    assert called == [3]
    pool.shutdown()


def test_a_pool_that_is_shut_down_cancels_what_waits() -> None:
    pool, gate = DaemonThreads(1, "test"), threading.Event()
    began = threading.Event()
    first = pool.submit(lambda: began.set() or gate.wait(10))
    second = pool.submit(str)
    assert began.wait(10)
    pool.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(CancelledError):
        second.result(10)
    gate.set()
    assert first.result(10) is True


def test_the_threads_of_a_forgotten_pool_end() -> None:
    pool, seen = DaemonThreads(1, "test"), list[threading.Thread]()
    pool.submit(lambda: seen.append(threading.current_thread())).result(10)
    del pool
    gc.collect()
    seen[0].join(10)
    assert not seen[0].is_alive()


def test_what_a_function_raises_is_in_its_future() -> None:
    pool = DaemonThreads(1, "test")

    def fail() -> None:
        raise KeyboardInterrupt

    assert isinstance(pool.submit(fail).exception(10), KeyboardInterrupt)
    assert pool.submit(str, 2).result(10) == "2"
    pool.shutdown()


def test_a_late_answer_after_the_loop_is_closed_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    pool, gate = DaemonThreads(1, "test"), threading.Event()

    async def hasty() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.get_running_loop().run_in_executor(pool, gate.wait, 10)

    asyncio.run(hasty())
    gate.set()
    pool.shutdown()
    assert caplog.text == ""
