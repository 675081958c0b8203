"""Runs the migrations with alembic. Imported only when there is something to migrate, because alembic loads slowly."""

import sqlite3
import threading
from pathlib import Path

import sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from toolwright.adapters.store.schema import MIN_REVISION
from toolwright.adapters.store.sqlite.file import connect
from toolwright.core.errors import StoreError
from toolwright.core.text import sentence

_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps its state in globals of the process, so two databases cannot be migrated at once."""
_FOLDER = Path(__file__).parent / "migrations"


def config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration, without an ini file."""
    result = Config()
    result.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    result.attributes["connection"] = connection
    return result


def migrate(connection: Connection) -> None:
    """Migrate the database to the newest revision, within the connection's transaction."""
    try:
        with _ONE_AT_A_TIME:
            command.upgrade(config(connection), "head")
        connection.execute(text("DELETE FROM compatibility"))
        connection.execute(text("INSERT INTO compatibility (least) VALUES (:least)"), {"least": MIN_REVISION})
    except DBAPIError as error:
        raise _failed(error) from error


def _failed(error: DBAPIError) -> StoreError:
    return StoreError(
        sentence(f"The database cannot be migrated, and stays as it was: {error.orig}")
        + " Fix the cause, then run `toolwright db upgrade`."
    )


def sqlite_engine(path: Path) -> sqlalchemy.Engine:
    """Return an engine whose transactions include DDL. By default Python's driver commits before each DDL statement."""

    def creator() -> sqlite3.Connection:
        return connect(path)

    engine = create_engine("sqlite://", creator=creator, poolclass=NullPool)

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", begin)
    return engine


def migrate_sqlite(path: Path) -> None:
    """Migrate an SQLite file, in one transaction. Raises `StoreError`, also if the disk is full at its commit."""
    engine = sqlite_engine(path)
    try:
        with engine.begin() as connection:
            migrate(connection)
    except DBAPIError as error:
        raise _failed(error) from error
    finally:
        engine.dispose()
