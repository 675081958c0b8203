"""What all tests share."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import journals
from tests.forks import Forks, forks
from tests.idle_clock import BACKEND
from tests.prerequisites import deno_program

# Many tests start processes of their own: those shall find their bytecode, not compile it anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A background job (`make test &`) ignores SIGINT, and so would its children, which some tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds for a command, on a machine with other work to do


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Async tests run on asyncio alone; those that are marked `idle_clock` do not wait, where all is in memory."""
    node: pytest.Function = request.node
    given = node.callspec.params if hasattr(node, "callspec") else {}
    kind = given.get("store", given.get(journals.FIXTURE, "memory"))
    return BACKEND if kind == "memory" and node.get_closest_marker("idle_clock") else "asyncio"


@pytest.fixture(autouse=True)
def journal_kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kind of journal on which the test of a suite over all stores runs (`tests/journals.py`)."""
    kind: str = getattr(request, "param", "memory")
    if kind != "memory":
        journals.choose(kind, request.getfixturevalue("tmp_path"))
    yield
    journals.choose("memory", Path())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of some suites run over all three stores."""
    journals.parametrize(metafunc, ROOT)


@pytest.fixture(scope="session")
def commands() -> Iterator[Forks]:
    """What begins commands, and runs them to their end."""
    with forks(PATIENCE) as server:
        yield server


@pytest.fixture(scope="session")
def deno() -> None:
    """For tests that run code by Deno: without it they would wait for what such code never says."""
    deno_program()


def pytest_collection() -> None:
    """Nothing that collection makes is garbage: it takes a third less time if nobody looks."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is there now stays; the collector looks at what tests make, as often as in a server of ours."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    gc.enable()
