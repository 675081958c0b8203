"""A database that another program has locked: the log reports it while the lock is awaited."""

import logging
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import toolwright as tw
from toolwright.adapters.store.sqlite.file import connect
from toolwright.testing import ScriptedModel


class Releasing(logging.Handler):
    """Releases the other program's lock once the log mentions it."""

    def __init__(self, other: sqlite3.Connection) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._other = other

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        if self._other.in_transaction:
            self._other.execute("ROLLBACK")


@contextmanager
def locked(path: Path, begin: str) -> Generator[Releasing]:
    """The database, locked by another connection until the log mentions it."""
    log = logging.getLogger("toolwright.journal")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute(begin)
        handler = Releasing(other)
        log.addHandler(handler)
        try:
            yield handler
        finally:
            log.removeHandler(handler)


def test_opening_a_locked_database_says_so_and_goes_on_once_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (a)")
    with locked(path, "BEGIN EXCLUSIVE") as log, closing(connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert log.messages == [f"The database {path} is locked by another program. Waiting up to 30 s."]


@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_run_on_a_locked_database_says_so_and_goes_on_once_it_is_free(tmp_path: Path, begin: str) -> None:
    path = tmp_path / "journal.db"
    agent, url = tw.Agent("a", model=ScriptedModel([{"text": "Hi."}])), f"sqlite:///{path}"
    tw.run_sync(agent, "One.", database_url=url)
    with locked(path, begin) as log:
        assert tw.run_sync(agent, "Two.", database_url=url).output == "Hi."
    assert f"The database {path} is locked by another program. Waiting up to 30 s." in log.messages
