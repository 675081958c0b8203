"""No test waits for ever: each has a deadline, and what a machine lacks is told at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.prerequisites import deno_program

ROOT = Path(__file__).parents[1]
HANGING = """
import asyncio, threading
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_that_awaits():
    await asyncio.Event().wait()

def test_that_blocks():
    threading.Event().wait()

@pytest.fixture
def stuck():
    threading.Event().wait()

def test_whose_fixture_blocks(stuck): ...

def test_that_passes(): ...
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_test_that_hangs_fails_at_its_deadline_and_the_others_go_on(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING, encoding="utf-8")
    options = [
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "no:cacheprovider",
        "-n",
        workers,
        "--timeout",
        "0.5",
    ]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "1 passed" in done.stdout, done.stdout
    assert "Timeout (>0.5s)" in done.stdout
    for name in ("that_awaits", "that_blocks", "whose_fixture_blocks"):
        assert f"test_hanging.py::test_{name}" in done.stdout


def test_every_test_has_a_deadline(pytestconfig: pytest.Config) -> None:
    assert 0 < float(pytestconfig.getini("timeout")) <= 120


def test_without_deno_a_test_is_skipped_with_a_sentence_and_under_ci_it_fails() -> None:
    def find() -> str:
        raise FileNotFoundError("deno")

    with pytest.raises(pytest.skip.Exception, match="There is no program `deno`"):
        deno_program(find, {})
    with pytest.raises(pytest.fail.Exception, match="There is no program `deno`"):
        deno_program(find, {"CI": "true"})
    assert deno_program().exists()
