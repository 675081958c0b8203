"""What a change costs: the files and folders of the source that a commit touches, by area of the code.

`make cost` prints medians over the last hundred commits that change the source.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from statistics import median

AREAS = {
    "a tool call": r"/(calls|tools|arguments)/",
    "a run": r"/(runs|context)/",
    "a route": r"/web/routes/|/routes\.py$",
    "a row": r"/(sql|programs|rows|versions)/",
    "spaces": r"spaces?(/|\.py$)|/channels",
    "agents and memory": r"/(agents|memory|mind)",
    "MCP": r"/mcp",
    "the console": r"/console/",
    "the client": r"/client/",
    "everything": r"",
}
Commit = Sequence[PurePosixPath]
"""The files of the source that a commit touches."""


def commits(count: int) -> list[Commit]:
    """Return the newest commits that change the source."""
    command = [
        "git",
        "log",
        "--no-merges",
        "--name-only",
        "--format=%x00",
        f"-{count}",
        "--",
        "src/toolwright",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [[PurePosixPath(line) for line in each.split()] for each in done.stdout.split("\0")[1:]]


def table(history: Sequence[Commit]) -> Iterator[str]:
    """Yield a line for each area: its commits, and the medians of their files and folders."""
    yield f"{'area':20}{'commits':>9}{'files':>7}{'folders':>9}"
    for area, pattern in AREAS.items():
        touching = [each for each in history if any(re.search(pattern, str(path)) for path in each)]
        if touching:
            files = median(len(each) for each in touching)
            folders = median(len({path.parent for path in each}) for each in touching)
            yield f"{area:20}{len(touching):>9}{files:>7g}{folders:>9g}"


if __name__ == "__main__":
    print("\n".join(table(commits(int(sys.argv[1]) if len(sys.argv) > 1 else 100))))
