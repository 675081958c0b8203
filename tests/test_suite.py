"""The suite itself: every test has a timeout, missing programs are reported, `make test` tests every property."""

import asyncio
import gc
import json
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import journals
from tests.conftest import REST, WHOLE, has_marked_tests
from tests.postgres_server import fresh_database
from tests.prerequisites import deno_program
from toolwright.adapters.store.postgres.connection import connect

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
        "-p",
        "no:schemathesis",
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


@pytest.mark.parametrize("ticks", range(5))
def test_a_connection_that_comes_while_its_server_stops_fails_no_later_test(ticks: int) -> None:
    clients: list[socket.socket] = []

    async def serve_for_a_moment() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.write(b"x" * 10_000_000), "127.0.0.1", 0)
        clients.append(socket.create_connection(server.sockets[0].getsockname()))
        for _ in range(ticks):
            await asyncio.sleep(0)
        server.close()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(serve_for_a_moment())
        gc.collect()
    clients[0].close()
    assert [str(each.message) for each in warned] == []


def test_a_connection_that_a_client_forgets_is_warned_of() -> None:
    async def connect_and_forget(port: int) -> None:
        await asyncio.open_connection("127.0.0.1", port)

    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.warns(ResourceWarning, match="unclosed"):
        asyncio.run(connect_and_forget(listener.getsockname()[1]))
        gc.collect()


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


COLLECT = """
import json, sys
import pytest

for options in json.loads(sys.argv[1]):
    print("SELECTION")
    pytest.main(["-p", "no:cacheprovider", "-p", "no:schemathesis", "--collect-only", *options])
"""


def shown(*selections: Sequence[str]) -> list[str]:
    """Return pytest's list of the tests that it would run, for each set of options; one process imports them once."""
    command = [sys.executable, "-c", COLLECT, json.dumps(selections)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout.split("SELECTION\n")[1:]


def collected(*selections: Sequence[str]) -> list[set[str]]:
    """Return the test functions of which pytest would run something, for each set of options."""
    return [set(re.findall(r"^(tests/\S+?::\w+)", each, re.MULTILINE)) for each in shown(*selections)]


def test_make_test_runs_every_test_but_outages_the_browser_and_mcps_peers_at_some_point() -> None:
    selection = re.search(r'-m "(.*)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert selection
    folders = ["tests/crash", "tests/browser", "tests/mcp"]
    marks = ("outage or browser or peers or slow", "exhaustive", selection[1])
    whole, beside, exhaustive, chosen = collected(folders, *[["-m", each, *folders] for each in marks])
    assert len(beside) > 10
    assert exhaustive
    assert chosen == whole - beside


def test_marks_of_the_rest_come_from_the_test_modules_themselves_and_from_two_helpers() -> None:
    helpers = {"tests/conftest.py", "tests/journals.py", "tests/crash/processes.py"}
    named = re.compile(rf"\b(mark|marks|add_marker)\b.*\b({'|'.join(REST)})\b")
    others = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    marking = {
        path.relative_to(ROOT).as_posix() for path in others if named.search(path.read_text(encoding="utf-8"))
    }
    assert marking <= helpers
    assert has_marked_tests(ROOT / "tests/crash/test_crash.py")
    assert has_marked_tests(ROOT / "tests/runtime/test_spaces.py")
    assert not has_marked_tests(ROOT / "tests/core/test_validator.py")


def test_a_mark_of_a_whole_module_is_on_one_line_so_that_make_test_does_not_import_the_module() -> None:
    longer = re.compile(r"^pytestmark = [(\[]\n(.*?)^[)\]]", re.MULTILINE | re.DOTALL)
    marked = re.compile(rf"\bmark\.({'|'.join(REST)})\b")
    modules = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    assert WHOLE.search(modules["test_schemathesis.py"])
    hidden = [name for name, text in modules.items() if any(map(marked.search, longer.findall(text)))]
    assert hidden == []


def test_ci_runs_what_the_readme_says_and_all_tests() -> None:
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in (
        "make test",
        "make test-rest",
    ):  # a test that fails twice, the second time alone, fails CI
        assert re.search(rf"^{command} \|\| make again(\s+#.*)?$", commands, re.MULTILINE), command
    # The later Pythons and the checks run in parallel to the rest: the script waits for them, and a failure ends it.
    later = 'make test-pythons MINORS="3.$((12 + REST_PART % 2)) 3.14"'
    assert f'{{ {later} && nice -n 10 make check; }} > "$log" 2>&1 &\nbeside=$!\n' in commands
    assert 'wait "$beside" || { cat "$log"; exit 1; }' in commands
    # Each test of `make test-rest` is in one part, and the part changes with each commit.
    assert "export REST_PART=$(git rev-list --count HEAD 2> /dev/null || echo 0)" in commands
    for parts in (journals.EXHAUSTIVE_PARTS, journals.PARTS):
        for name in map(str, range(1_000)):
            assert sum(journals.is_in_part(name, part, parts) for part in range(1_001, 1_001 + parts)) == 1
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    sample = re.search(r"^SAMPLE := (\S+ \S+) \$\(foreach each,(.*?),(.*)\)$", makefile, re.MULTILINE)
    assert sample
    files = [*sample[1].split(), *[sample[3].replace("$(each)", each) for each in sample[2].split()]]
    assert [each for each in files if not (ROOT / each).exists()] == []
    assert "`make test` " in (ROOT / "README.md").read_text(encoding="utf-8")


async def contents(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables of a database, and the positions of its sequences."""
    connection = await connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        queries = {name: f"SELECT * FROM {name}" for (name,) in tables}
        queries["sequences"] = "SELECT sequencename, last_value FROM pg_sequences"
        return {
            name: [tuple(row) for row in await connection.fetch(query)] for name, query in queries.items()
        }
    finally:
        await connection.close()


@pytest.mark.anyio
async def test_a_postgres_database_that_is_used_again_is_as_a_new_one() -> None:
    async with fresh_database() as used:
        left_open = await connect(used)
        await left_open.execute("INSERT INTO reactions VALUES ('msg_1', 'ent_1', '+1', 5)")
        await left_open.execute("UPDATE counters SET value = 7")
        await left_open.execute("UPDATE alembic_version SET version_num = '9999'")
        await left_open.execute("INSERT INTO counters VALUES ('another', 1)")
        await left_open.execute("SELECT nextval('unnumbered_events_place_seq')")
        await left_open.execute("BEGIN")
        await left_open.execute("LOCK TABLE threads")
    await left_open.close()
    async with fresh_database() as again, fresh_database() as new:
        assert again == used != new
        assert await contents(again) == await contents(new)


def test_suites_over_all_stores_run_on_each_and_make_test_has_a_sample() -> None:
    assert [each for each in sorted(journals.MODULES) if not (ROOT / each).exists()] == []
    selections = [["-m", marks, "tests/runtime/test_spaces.py"] for marks in ("exhaustive", "not exhaustive")]
    rest, sample = ({kind: text.count(f"[{kind}") for kind in journals.KINDS} for text in shown(*selections))
    assert rest["memory"] == 0
    for kind in ("sqlite", "postgres"):
        assert sample[kind] > 0
        assert sample[kind] + rest[kind] == sample["memory"]
