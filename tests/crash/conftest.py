"""Fixtures for tests on both kinds of journal."""

import subprocess
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from tests.crash.processes import Processes, Scene, fork_server, scene_of


@pytest.fixture(scope="session")
def forks() -> Iterator["subprocess.Popen[str]"]:
    """One fork server for all crashes, since importing everything takes a second."""
    with fork_server() as server:
        yield server


@pytest.fixture
async def scene(kind: str, processes: Processes, tmp_path: Path) -> AsyncGenerator[Scene]:
    """An empty scene, with a journal of the `kind` that the test names."""
    async with scene_of(kind, processes, tmp_path) as empty:
        yield empty
