"""The cost of running a line of untrusted code, from its start to its result."""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from deno import find_deno_bin  # type: ignore[import-untyped]  # the wheel has no types

from bench.row import Row
from toolwright.adapters.sandbox.deno import FLAGS
from toolwright.core.json_value import JSON
from toolwright.core.state.sandbox import read_options
from toolwright.wiring.executors import CodeSandbox

ROUNDS = 20
SOURCES: dict[str, str] = {
    "javascript": "export default 1",
    "typescript": "export default 1 as number",
    "python": "1",
}


def _bare() -> float:
    """Return the ms of `deno run` of an empty file in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.mjs"
        empty.touch()
        environ = {"DENO_DIR": os.path.join(folder, "deno"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}  # noqa: PTH118 - text
        begin = time.perf_counter()
        subprocess.run([find_deno_bin(), "run", *FLAGS, str(empty)], env=environ, check=True)
        return (time.perf_counter() - begin) * 1e3


async def _run(box: CodeSandbox, language: str) -> float:
    begin = time.perf_counter()
    outcome = await box.start(SOURCES[language], read_options(language=language))
    wanted: JSON = 1
    assert outcome.result == wanted, outcome
    return (time.perf_counter() - begin) * 1e3


async def _measure() -> list[Row]:
    box = CodeSandbox()
    taken: dict[str, list[float]] = {language: [] for language in SOURCES}
    floors: list[float] = []
    for _ in range(ROUNDS):
        floors.append(await asyncio.to_thread(_bare))
        for language, each in taken.items():
            each.append(await _run(box, language))
    await box.close()
    floor = statistics.median(floors)
    return [
        Row(
            f"run a line of {language}",
            statistics.median(each),
            "ms",
            floor,
            None,
            note="floor: deno, an empty file",
        )
        for language, each in taken.items()
    ]


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    return asyncio.run(_measure())
