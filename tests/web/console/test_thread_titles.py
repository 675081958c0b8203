"""Titles of threads in lists, even if a row of their data cannot be read."""

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import toolwright as tw
from tests.kit import send_to
from toolwright.testing import FunctionModel
from toolwright.web.auth.access import SERVICE
from toolwright.web.console.threads.head import last_run_of, status_of, title_of
from toolwright.web.console.visit import Visit

pytestmark = pytest.mark.anyio
BOSS = tw.Agent("boss", tw.Prompt("boss", "Work.", model=FunctionModel(lambda _: {"text": "Done."})))


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Book\n  a trip", "Book a trip"),
        ("word " * 400, f"{('word ' * 12).rstrip()} …"),
        ("x" * 5_000, f"{'x' * 60} …"),
    ],
)
async def test_a_thread_is_called_by_its_first_words(said: str, title: str, tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path}/journal.db")
    async with tw.App(agents=[BOSS]).runtime(settings) as rt:
        visit = cast("Visit", SimpleNamespace(runtime=rt, caller=SERVICE, is_service=True))
        run = await send_to(rt, "boss", said)
        await rt.runs.wait(run.id, 60)
        assert await title_of(visit, await rt.threads.get(run.thread_id)) == title


async def test_a_message_or_a_run_that_cannot_be_read_hides_no_thread(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path}/journal.db")
    async with tw.App(agents=[BOSS]).runtime(settings) as rt:
        visit = cast("Visit", SimpleNamespace(runtime=rt, caller=SERVICE, is_service=True))
        thread = await rt.threads.create("boss")
        run = await rt.threads.send(thread.id, "Book a trip")
        await rt.runs.wait(run.id, 60)
        with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
            journal.execute("UPDATE messages SET body = 'no json'")
            journal.execute("UPDATE runs SET cost = 'weird'")
        thread = await rt.threads.get(thread.id)
        assert await title_of(visit, thread) == "boss"
        assert await last_run_of(visit, thread) is None
        assert await status_of(visit, thread, None) == "idle"
