"""Journals of suites that run over all three stores: each test in memory, on SQLite and on Postgres.

`make test` runs every test of them in memory and a sample on the two databases; `make test-rest` runs the rest.
`SUITES` lists these modules. A test that is independent of the journal, or must be in memory, has the marker
`one_journal`. Every journal opened here has the kind that the test runs on.
"""

import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from cryptography.fernet import Fernet

from tests.databases import OpenStore, database, prepare, stores
from toolwright import testing
from toolwright.core.model import Model
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualMotor, by_hand_on
from toolwright.wiring.app import App
from toolwright.wiring.settings import Settings

SAMPLE = 8
FIXTURE = "journal_kind"
KINDS = ("memory", "sqlite", "postgres")
SUITES = {
    "tests/behaviour": "s0 s1 s2_attachments s2_context s2_examples s2_results s3_examples s3_mcp s3_tools s4_tools",
    "tests/api": "agents approvals bounded_pages deps files home_tools long_conversations memory mcp_servers offers"
    " people people_and_agents queries requests runs spaces streams thread_deletion threads variables whole_results",
    "tests/runtime": "agents app_calls approvals approvals_elsewhere call_ends call_over channels deferred_children"
    " context_window delegates deps elicitation entities family_ends handoff immediate imports invoke mcp_tasks"
    " mind_limits owned_summaries parallel_calls prompt_tools sent_prompts space_stream spaces subagents variables"
    " variables_later",
}
MODULES = {f"{folder}/test_{name}.py" for folder, names in SUITES.items() for name in names.split()}
KEY = Fernet.generate_key().decode()
_kind, _folder = ["memory"], [Path()]
_numbers = count(1)


EXHAUSTIVE_PARTS, PARTS = (
    16,
    2,
)  # of the exhaustive tests and of the others of `make test-rest`: `.ci/run` runs one


def is_in_part(test: str, part: int, parts: int) -> bool:
    """Return whether that test, by its id, is in that part; each following number is another part."""
    return crc32(test.encode()) % parts == part % parts


def parametrize(metafunc: pytest.Metafunc, root: Path) -> None:
    """Run a test of these suites over all three stores."""
    test = metafunc.definition
    path = test.path.relative_to(root).as_posix()
    alone = any(test.get_closest_marker(name) for name in ("one_journal", "idle_clock"))
    own = {"store", "journal", "shared", "durable", "opened", "kind"} & set(
        metafunc.fixturenames
    )  # the test has its own parametrization
    if path not in MODULES or alone or own or not inspect.iscoroutinefunction(metafunc.function):
        return
    first = crc32(f"{path}::{metafunc.function.__name__}".encode())
    exhaustive = [pytest.mark.exhaustive]
    kinds = [
        pytest.param(kind, marks=exhaustive if kind != "memory" and (first + n) % SAMPLE else [])
        for n, kind in enumerate(KINDS)
    ]
    metafunc.parametrize(FIXTURE, kinds, indirect=True)


def choose(kind: str, folder: Path) -> None:
    """Set the kind of journals opened from now on, and the folder of SQLite's files."""
    _kind[0], _folder[0] = kind, folder


def is_in_memory() -> bool:
    """Return whether the test runs on a journal in memory."""
    return _kind[0] == "memory"


@asynccontextmanager
async def opening() -> AsyncGenerator[OpenStore]:
    """Yield a function that opens an empty journal of the test's kind."""
    async with stores(_kind[0], _new_folder()) as found:
        yield found


@asynccontextmanager
async def runtime(
    app: App, settings: Settings | None = None, *, model: str | Model | object | None = None
) -> AsyncGenerator[Runtime]:
    """Like `testing.runtime`, on an empty journal of the test's kind."""
    if is_in_memory():
        async with testing.runtime(app, settings, model=model) as running:
            yield running
        return
    async with database(_kind[0], _new_folder()) as url:
        prepare(url)
        given = settings or Settings()
        keys = given.encryption_keys or (KEY,)  # in memory a key is created
        kept: dict[str, object] = {"database_url": url, "files_url": "memory://", "encryption_keys": keys}
        if given.max_outage is None:
            kept["max_outage"] = timedelta(0)  # as in memory
        chosen = given.model_copy(update=kept)
        over = app if model is None else app.with_model(model)
        async with over.runtime(chosen, grace=1.0) as running:
            yield running


@asynccontextmanager
async def by_hand(
    app: App, settings: Settings | None = None, **options: Any
) -> AsyncGenerator[tuple[Runtime, ManualMotor]]:
    """Like `testing.by_hand`, on an empty journal of the test's kind."""
    async with opening() as found, by_hand_on(found, app, settings, **options) as turned:
        yield turned


def _new_folder() -> Path:
    folder = _folder[0] / f"journal-{next(_numbers)}"
    if _kind[0] == "sqlite":
        folder.mkdir()
    return folder
