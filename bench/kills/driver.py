"""Driver: start a worker, kill it with SIGKILL at a random time, start it again, and count what the ledger has.

The times are drawn uniformly from a window in which the worker makes twice `EFFECTS_A_KILL` effects. The window
follows the system's own pace, so that a slow system is not killed more often per effect. Every fifth process is killed
while it starts and recovers instead, within the time that an undisturbed start takes to the first effect.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.kills.counts import Counts, count
from bench.kills.databases import new_database, postgres_version
from bench.kills.systems import ROOT, System
from bench.kills.work import read_ledger

EFFECTS_A_KILL = 40
STARTING = 5  # every fifth process is killed while it starts
UNDISTURBED = 50  # messages of the run without kills
PATIENCE = 120.0  # s until a process without progress, or the last one, counts as stuck


class WorkerFailed(Exception):
    """A worker failed without having been killed."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Result of one system: kills, of which some were timed for the start of a process, and what was counted.

    `recoveries` are the seconds from the start of a process after a kill to its first effect, sorted. `exits` are the
    processes that ended by themselves before they were killed. `pace` is the effects per second.
    """

    kills: int
    starting_kills: int
    exits: int
    pace: float
    recoveries: Sequence[float]
    counts: Counts


class Ledger:
    """Reads the records that were appended to a ledger."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.jsonl"

    def size(self) -> int:
        """Return the current size in bytes."""
        return self._path.stat().st_size if self._path.exists() else 0

    def since(self, offset: int) -> bytes:
        """Return the bytes after the offset."""
        if not self._path.exists():
            return b""
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read()


@dataclass
class Pace:
    """Effects per second of a system, from the time that its processes have worked so far."""

    effects: int
    seconds: float

    def window(self, effects: int) -> float:
        """Return the seconds that so many effects take."""
        return effects * self.seconds / self.effects


def measure(system: System, kills: int, seed: int, effects_a_kill: int = EFFECTS_A_KILL) -> Measured:
    """Measure a system in a new folder: an undisturbed run, then `kills` kills, then a run to the end."""
    chance = random.Random(f"{seed} {system.name}")
    with tempfile.TemporaryDirectory() as folder:
        _undisturbed(system, Path(folder, "warm"), 4)  # afterwards its bytecode is cached
        starting, pace = _undisturbed(system, Path(folder, "pace"), UNDISTURBED)
        work = Path(folder, "kills")
        with new_database(system, work) as url:
            start = partial(_process, system, work, url)
            starts = _kill(start, work, kills, chance, starting, pace, effects_a_kill)
            (work / "stop").touch()
            is_stuck = False
            with start() as process:
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    is_stuck = True
        counts = count(read_ledger(work / "ledger.jsonl"), is_stuck=is_stuck)
        return Measured(
            kills=kills,
            starting_kills=kills // STARTING,
            exits=starts.exits,
            pace=pace.effects / pace.seconds,
            recoveries=sorted(starts.recoveries),
            counts=counts,
        )


def _undisturbed(system: System, folder: Path, messages: int) -> tuple[float, Pace]:
    """Run a worker without kills. Return the seconds to its first effect, and its pace."""
    ledger = Ledger(folder)
    started = time.monotonic()
    with new_database(system, folder) as url, _process(system, folder, url) as process:
        _until(lambda: ledger.since(0).count(b'"answered"') >= messages, process, folder)
        (folder / "stop").touch()
        _until(lambda: process.poll() is not None, None, folder)
    records = read_ledger(folder / "ledger.jsonl")
    counted = count(records)
    if counted != Counts(messages=counted.messages, effects=counted.effects):
        raise WorkerFailed(f"{system.name}, without kills: {counted}")
    begun = [each["time"] for each in records if each["kind"] == "begun"]
    return begun[0] - started, Pace(len(begun), records[-1]["time"] - begun[0])


@dataclass
class Starts:
    """Processes that ended by themselves, and the seconds from a start after a kill to the first effect."""

    exits: int = 0
    recoveries: list[float] = field(default_factory=list[float])


def _kill(
    start: Callable[[], AbstractContextManager["subprocess.Popen[bytes]"]],
    folder: Path,
    kills: int,
    chance: random.Random,
    starting: float,
    pace: Pace,
    effects_a_kill: int,
) -> Starts:
    """Start and kill processes, `kills` times."""
    ledger = Ledger(folder)
    starts = Starts()
    done = 0
    while done < kills:
        if starts.exits > kills:
            raise WorkerFailed(f"The worker ends by itself: {_log(folder)}")
        offset = ledger.size()
        started = time.monotonic()
        with start() as process:
            begun = None
            if done % STARTING == STARTING - 1:
                time.sleep(chance.uniform(0, starting))
            elif (begun := _first_effect(ledger, offset, process)) is not None:
                if done:
                    starts.recoveries.append(begun - started)
                time.sleep(chance.uniform(0, pace.window(2 * effects_a_kill)))
            if process.poll() is not None:
                starts.exits += 1
                continue
            os.killpg(process.pid, signal.SIGKILL)
            done += 1
            if begun is not None:
                pace.seconds += time.monotonic() - begun
        pace.effects += ledger.since(offset).count(b'"begun"')
    return starts


def p50(values: Sequence[float]) -> float | None:
    """Return the median, or None if there is no value."""
    return statistics.median(values) if values else None


@contextmanager
def _process(system: System, folder: Path, url: str) -> Generator["subprocess.Popen[bytes]"]:
    """Start a worker in a session of its own, in which nothing survives the block."""
    folder.mkdir(exist_ok=True)
    environ = {name: each for name, each in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".venv" / "pycache")
    with (folder / "log.txt").open("ab") as log:
        command = [str(system.python), "-m", f"bench.kills.workers.{system.worker}", str(folder), url]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _first_effect(ledger: Ledger, offset: int, process: "subprocess.Popen[bytes]") -> float | None:
    """Return when the first effect after the offset began, or None if the process has ended or is stuck."""
    waited = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < waited:
        for line in ledger.since(offset).split(b"\n")[:-1]:
            record = json.loads(line)
            if record["kind"] == "begun":
                return float(record["time"])
        time.sleep(0.002)
    return None


def _until(holds: Callable[[], bool], process: "subprocess.Popen[bytes] | None", folder: Path) -> None:
    waited = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > waited or (process is not None and process.poll() is not None):
            raise WorkerFailed(f"The undisturbed run has no progress: {_log(folder)}")
        time.sleep(0.01)


def _log(folder: Path) -> str:
    """Return the end of what the workers printed."""
    return (folder / "log.txt").read_text(encoding="utf-8", errors="replace")[-2_000:]


def versions(system: System) -> dict[str, Any]:
    """Return the versions of the system's packages, its Python and its database."""
    script = (
        "import sqlite3, sys\nfrom importlib.metadata import version\n"
        "print(*[version(name) for name in sys.argv[1:]], sys.version.split()[0], sqlite3.sqlite_version)"
    )
    command = [str(system.python), "-c", script, *system.packages]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found = dict(zip((*system.packages, "Python", "SQLite"), printed, strict=True))
    if system.database != "SQLite":
        del found["SQLite"]
        found[system.database] = postgres_version()
    if system.worker == "toolwright_agent":
        commit = ["git", "rev-parse", "--short=8", "HEAD"]
        found["commit"] = subprocess.run(
            commit, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    return found
