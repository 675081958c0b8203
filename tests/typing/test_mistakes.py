"""mypy --strict and pyright strict report exactly the lines that are marked as mistakes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "mistakes.py"
ROOT = Path(__file__).parents[2]


def mypy() -> set[int]:
    """Return the lines that mypy reports."""
    options = [
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "--cache-dir",
        str(ROOT / "build/mypy"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(PROGRAM)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return {int(line) for line in re.findall(r"mistakes\.py:(\d+): error", done.stdout)}


def pyright() -> set[int]:
    """Return the lines that pyright reports."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "-p", str(PROGRAM.parent)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_type_checkers_report_the_mistakes_and_nothing_else(checker: Callable[[], set[int]]) -> None:
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    expected = {n for n, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert len(expected) >= 9
    assert checker() == expected
