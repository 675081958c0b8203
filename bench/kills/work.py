"""The work of every worker: messages, the canned model's plan, effects, and the ledger that records them.

Workers of all systems import this module, so it needs only the standard library. The ledger is a file of JSON lines.
Each line is one `write` to a file that is opened for appending, so a killed process never leaves half a line.
"""

import asyncio
import json
import os
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

CALLS = (1, 2, 1)
"""Numbers of tool calls in the model's first answers to a message. The next answer is a text without calls."""
AT_ONCE = 4  # messages that a worker processes at once
MIN_SECONDS, MAX_SECONDS = 0.005, 0.025  # s that an effect takes

Handle = Callable[[str, bool], Awaitable[Mapping[str, str]]]
"""Process a message, or continue it if the second argument is true. Return the results that the model read, by call."""


def next_calls(message: str, answers: int) -> list[str]:
    """Return the calls of the model's next answer, after `answers` answers with calls; empty for the final text."""
    if answers >= len(CALLS):
        return []
    return [f"{message}.{answers + 1}.{number + 1}" for number in range(CALLS[answers])]


def all_calls(message: str) -> list[str]:
    """Return the calls that the model makes for a message. Each of them is one effect."""
    return [call for answers in range(len(CALLS)) for call in next_calls(message, answers)]


def result_of(call: str) -> str:
    """Return the result of a call whose effect has ended."""
    return f"done {call}"


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Return the records of a ledger, oldest first."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Work:
    """The messages and the ledger in a folder that consecutive processes share, and the URL of their database."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.folder = folder
        self.database = database
        records = read_ledger(folder / "ledger.jsonl")
        accepted = [each["message"] for each in records if each["kind"] == "accepted"]
        answered = {each["message"] for each in records if each["kind"] == "answered"}
        self._open = [each for each in accepted if each not in answered]
        self._next = len(accepted)
        self._ledger = os.open(folder / "ledger.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def record(self, kind: str, **fields: object) -> None:
        """Append a record with the process and the time."""
        line = json.dumps({"kind": kind, **fields, "process": os.getpid(), "time": time.monotonic()})
        os.write(self._ledger, f"{line}\n".encode())

    async def effect(self, call: str) -> str:
        """Make an effect of some milliseconds: record its start and its end. It has no guard against being repeated."""
        message = call.split(".")[0]
        self.record("begun", message=message, call=call)
        await asyncio.sleep(
            MIN_SECONDS + (MAX_SECONDS - MIN_SECONDS) * (zlib.crc32(call.encode()) % 1000) / 1000
        )
        self.record("ended", message=message, call=call)
        return result_of(call)

    async def run(self, handle: Handle) -> None:
        """Process messages until the file `stop` exists: first those that an earlier process has not answered."""
        messages = self._messages()

        async def each() -> None:
            for message, again in messages:
                try:
                    results = await handle(message, again)
                except Exception as error:  # noqa: BLE001 - a message that fails must not end the others
                    self.record("failed", message=message, error=f"{type(error).__name__}: {error}"[:500])
                else:
                    self.record("answered", message=message, results=dict(results))

        await asyncio.gather(*[each() for _ in range(AT_ONCE)])

    def _messages(self) -> Iterator[tuple[str, bool]]:
        for message in self._open:
            yield message, True
        while not (self.folder / "stop").exists():
            message = f"m{self._next:05}"
            self._next += 1
            self.record("accepted", message=message)
            yield message, False


def work() -> Work:
    """Return the work in the folder, and with the database, that the command line names."""
    return Work(Path(sys.argv[1]), sys.argv[2])
