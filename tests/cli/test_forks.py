"""Forked commands behave like commands in new processes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.shell import COMMAND, PATIENCE, Shell
from tests.forks import Forks


@pytest.mark.parametrize(
    "arguments",
    [["--version"], [], ["tools", "list"], ["call", "add", '{"a": 1, "b": 2}'], ["call", "fail"], ["talk"]],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_fork_says_what_a_new_process_says(shell: Shell, commands: Forks, arguments: list[str]) -> None:
    variables = os.environ | {"TOOLWRIGHT_APP": "app:app", "COLUMNS": "90"}
    anew = subprocess.run(
        [*COMMAND, *arguments],
        cwd=shell.folder,
        env=variables,
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    forked = commands.run(arguments, shell.folder, variables, "")
    assert (forked.returncode, forked.stdout, forked.stderr) == (anew.returncode, anew.stdout, anew.stderr)


def test_a_fork_that_fails_is_reported_and_does_not_affect_the_next_one(
    commands: Forks, tmp_path: Path
) -> None:
    gone = commands.run(["--version"], tmp_path / "gone", os.environ, "")
    assert gone.returncode == 1
    assert "FileNotFoundError" in gone.stderr
    assert commands.run(["--version"], tmp_path, os.environ, "").returncode == 0


def test_a_fork_that_does_not_end_in_time_is_killed_and_leaves_the_next_one_alone(shell: Shell) -> None:
    with shell.start("serve", "app:app", "--port", "0") as server:
        server.until("Ctrl-C stops it.")
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.01)
        assert server.process.returncode == -signal.SIGKILL
    assert shell.run("--version").returncode == 0


def test_a_program_that_is_forked_fails_by_a_warning(commands: Forks, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(
        "import warnings\n\nprint('begun')\nwarnings.warn('old')\n", encoding="utf-8"
    )
    done = commands.run([], tmp_path, os.environ, program="page.py")
    assert (done.returncode, done.stdout) == (1, "begun\n")
    assert "UserWarning: old" in done.stderr
