"""Configuration and fixtures of all tests."""

import asyncio
import gc
import os
import re
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import pytest
from hypothesis import settings

from tests import journals
from tests.forks import Forks, forks
from tests.idle_clock import BACKEND
from tests.prerequisites import deno_program


def has_room(folder: Path) -> bool:
    """Return whether temporary files can be there: it exists, has room, and programs in it can be executed."""
    if not os.access(folder, os.W_OK):
        return False
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize >= ROOM and not system.f_flag & os.ST_NOEXEC


# Many tests start processes, which must find cached bytecode instead of compiling it each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# SQLite and Postgres wait for the disk, and deleting files takes it long; no test cuts the power.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30  # bytes of the tests' files and databases, several times over
if has_room(MEMORY):
    tempfile.tempdir = os.environ.setdefault("TMPDIR", str(MEMORY))

# A background job (`make test &`) ignores SIGINT, and so would its children, which some tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]

# Every new client reads the certificates of all authorities, which takes 30 ms: one dummy authority is sufficient.
AUTHORITY = str(ROOT / "tests" / "authority.pem")
os.environ.setdefault("SSL_CERT_FILE", AUTHORITY)


async def accept(
    loop: Any, protocol: Any, connection: Any, extra: Any, tls: Any, server: Any, *rest: Any
) -> None:
    """Create a server's connection, unless the server is closed by now; asyncio would leave it incomplete."""
    if server is not None and not server.sockets:
        connection.close()
        return
    await ACCEPT(loop, protocol, connection, extra, tls, server, *rest)


def close_loop(loop: Any) -> None:
    """Close an event loop, after the connections that its servers still hold.

    Servers do not close connections that arrived during their stop. A garbage collection in a later test would find
    them, and that test would fail. Connections that a client forgot still fail their test.
    """
    if not loop.is_closed():
        for transport in list(loop._transports.values()):  # asyncio has no public list of them
            if transport._server is not None and transport._sock is not None:
                transport._sock.close()
                transport._sock, transport._closing = None, True
    CLOSE(loop)


LOOP = cast("Any", asyncio.SelectorEventLoop)
ACCEPT, CLOSE = LOOP._accept_connection2, LOOP.close
LOOP._accept_connection2, LOOP.close = accept, close_loop

settings.register_profile(
    "suite", deadline=None
)  # the duration of an example depends on other work of the machine
settings.load_profile("suite")
PATIENCE = 110.0  # seconds for a command, on a busy machine
REST = ("exhaustive", "outage", "browser", "peers", "slow")  # the marks that `make test` excludes
MARKED = re.compile(rf"\bmark\.({'|'.join(REST)}|matrix)\b|\b(sampled|kill_points)\(")
WHOLE = re.compile(rf"^pytestmark = .*\bmark\.({'|'.join(REST)})\b", re.MULTILINE)
SAMPLE = 16  # one of that many points of a matrix runs in `make test`, at least one


def has_marked_tests(module: Path) -> bool:
    """Return whether some of a module's tests carry one of the excluded marks. Returns False if none can."""
    is_suite = ROOT in module.parents and module.relative_to(ROOT).as_posix() in journals.MODULES
    return is_suite or bool(MARKED.search(module.read_text(encoding="utf-8")))


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Run async tests on asyncio only; tests marked `idle_clock` do not wait, if everything is in memory."""
    node: pytest.Function = request.node
    given = node.callspec.params if hasattr(node, "callspec") else {}
    kind = given.get("store", given.get(journals.FIXTURE, "memory"))
    return BACKEND if kind == "memory" and node.get_closest_marker("idle_clock") else "asyncio"


@pytest.fixture(autouse=True)
def journal_kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Return the kind of journal on which the test of a suite over all stores runs (`tests/journals.py`)."""
    kind: str = getattr(request, "param", "memory")
    if kind != "memory":
        journals.choose(kind, request.getfixturevalue("tmp_path"))
    yield
    journals.choose("memory", Path())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some suites over all three stores."""
    journals.parametrize(metafunc, ROOT)


@pytest.fixture(scope="session")
def commands() -> Iterator[Forks]:
    """The starter of commands, which also runs them to their end."""
    with forks(PATIENCE) as server:
        yield server


@pytest.fixture(scope="session")
def deno() -> None:
    """Skip tests that run code in Deno if it is missing; they would wait for output that never arrives."""
    deno_program()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules without selected tests, as their marks tell, since each worker would import them all."""
    expression = str(config.option.markexpr)
    if collection_path.suffix != ".py":
        return None
    if set(expression.split(" or ")) <= set(REST):
        return None if has_marked_tests(collection_path) else True
    left_out = {each.removeprefix("not ") for each in expression.split(" and not ")}
    whole = WHOLE.search(collection_path.read_text(encoding="utf-8")) if left_out <= set(REST) else None
    return True if whole is not None and whole[1] in left_out else None


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the points of matrices that only `make test-rest` runs.

    With `REST_PART` keep a part of the tests of `make test-rest`, for `.ci/run`, which has 30 minutes.
    """
    matrices = defaultdict[tuple[str, object], list[pytest.Function]](list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("matrix"):
            script = item.callspec.params.get("script")  # each crash script is a matrix of its own
            matrices[item.nodeid.partition("[")[0], script].append(item)
    for points in matrices.values():
        points.sort(key=lambda item: crc32(item.nodeid.encode()))
        for item in points[ceil(len(points) / SAMPLE) :]:
            item.add_marker("exhaustive")
    part = os.environ.get("REST_PART")
    left_out = [item for item in items if part is not None and not is_in_part(item, int(part))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {id(item) for item in left_out}
        items[:] = [item for item in items if id(item) not in gone]


def is_in_part(item: pytest.Item, part: int) -> bool:
    """Return whether a test is in that part of `make test-rest`. Those of `make test` are in each."""
    if item.get_closest_marker("exhaustive"):
        return journals.is_in_part(item.nodeid, part, journals.EXHAUSTIVE_PARTS)
    is_rest = any(item.get_closest_marker(mark) for mark in REST)
    return not is_rest or journals.is_in_part(item.nodeid, part, journals.PARTS)


def pytest_collection() -> None:
    """Disable the collector during collection, which produces no garbage; it takes a third less time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze the existing objects; the collector checks the objects of tests, as often as in a server of ours.

    The little garbage of the imports is frozen with them: to look for it takes a second in each worker.
    """
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    gc.enable()
