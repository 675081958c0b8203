"""A process that is a node of a cluster: `python -m tests.crash.node_child URL FILE TTL` runs until it is terminated.

Its tools record each effect as a line of the file: the process, the tool, the id of the call. Options follow as
`name=value`. `bus` is the cluster's bus, `shift` the error of the node's clock in seconds, `blocks` the seconds for
which its first tool blocks the event loop, and `hung` the seconds after which a node with a blocked loop sends no
heartbeat.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import toolwright as tw
from toolwright import testing
from toolwright.adapters import system
from toolwright.adapters.store.postgres import leases
from toolwright.core.threads.message import Message

CALLS = 4


blocking: list[float] = []
"""The seconds for which the next calls block the event loop."""


def noting(path: str, name: str, *, read_only: bool) -> tw.Tool:
    """Return a tool that takes a moment, and records its begin."""

    @tw.tool(name=name, description="Work.", read_only=read_only)
    async def work(state: tw.ThreadState) -> str:
        with Path(path).open("a", encoding="utf-8") as file:  # noqa: ASYNC230 - one line
            file.write(f"{os.getpid()} {name} {state.call_id}\n")
        if blocking:
            time.sleep(blocking.pop())  # noqa: ASYNC251 - as a blocking tool does
        await asyncio.sleep(0.05)
        return "worked"

    return work


def answer(messages: Sequence[Message]) -> dict[str, object]:
    """A model that calls the tools in turn, then reports it."""
    done = sum(message.role == "tool" for message in messages)
    if done == CALLS:
        return {"text": "All done."}
    return {"calls": [{"name": "effect" if done % 2 else "look", "args": {}}]}


def worker(path: str) -> tw.Agent:
    """Return the agent of every node."""
    tools = [noting(path, "look", read_only=True), noting(path, "effect", read_only=False)]
    return tw.Agent("worker", instructions="Work.", model=testing.FunctionModel(answer), tools=tools)


def set_clock(shift: float) -> None:
    """Shift the clock of this process by that number of seconds."""
    right = time.time

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # a plain datetime is sufficient
            return datetime.now(tz) + timedelta(seconds=shift)

    time.time = lambda: right() + shift
    system.datetime = Shifted  # type: ignore[misc]  # shifts the clocks of the product


async def main() -> None:
    """Be a node until SIGTERM."""
    url, path, ttl, *options = sys.argv[1:]
    chosen = dict(each.split("=", 1) for each in options)
    (leases.PostgresLeases.__init__.__kwdefaults__ or {})["ttl"] = float(ttl)  # not a setting for operators
    leases.HUNG = float(chosen.get("hung", leases.HUNG))
    if "shift" in chosen:
        set_clock(float(chosen["shift"]))
    if "blocks" in chosen:
        blocking.append(float(chosen["blocks"]))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with tw.App(agents=[worker(path)]).runtime(
        tw.Settings(
            database_url=url, cluster=chosen.get("bus", "postgres"), concurrency=8, files_url=f"{path}.files"
        ),
        grace=60.0,
    ):
        print("ready", flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
