"""What tests on both kinds of journal begin with."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.crash.processes import Processes, Scene, scene_of


@pytest.fixture
async def scene(kind: str, processes: Processes, tmp_path: Path) -> AsyncGenerator[Scene]:
    """An empty one, with a journal of the `kind` that the test names."""
    async with scene_of(kind, processes, tmp_path) as empty:
        yield empty
