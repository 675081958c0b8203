"""`toolwright db upgrade`: its output, the copy that it makes first, and the owner of the file afterwards."""

import os
import sqlite3
import stat
from contextlib import closing

import pytest

from tests.cli.shell import Shell
from tests.store.test_migrations import migrated
from tests.store.test_shrinking import made_before
from toolwright.adapters.store.locks import FileLock
from toolwright.adapters.store.schema import HEAD, REVISIONS
from toolwright.adapters.store.sqlite.file import is_shrinkable

pytestmark = pytest.mark.anyio

SOMEBODY = 12_345
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


async def test_an_upgrade_says_what_it_does_and_how_to_keep_a_way_back(empty: Shell) -> None:
    await migrated(f"sqlite:///{empty.folder / 'toolwright.db'}", "0016")
    done = empty.run("db", "upgrade")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == (
        "sqlite:///toolwright.db is at revision 0016. The upgrade executes all of these steps, or none:"
    )
    listed = [line.split()[0] for line in said if line.startswith("  00")]
    assert listed == [each for each in REVISIONS if each > "0016"]
    assert "Older versions of Toolwright cannot open it afterwards." in said
    assert "Only a copy allows a rollback: make one with --backup FILE." in said
    assert f"sqlite:///toolwright.db was upgraded from revision 0016 to revision {HEAD}." in said


async def test_an_upgrade_makes_a_copy_of_the_older_revision_first(empty: Shell) -> None:
    await migrated(f"sqlite:///{empty.folder / 'toolwright.db'}", "0016")
    assert empty.run("db", "upgrade", "--backup", "before.db").returncode == 0
    for name, revision in (("before.db", "0016"), ("toolwright.db", HEAD)):
        with closing(sqlite3.connect(empty.folder / name)) as file:
            assert file.execute("SELECT version_num FROM alembic_version").fetchone() == (revision,)


async def test_nothing_is_upgraded_where_the_copy_cannot_be_made(empty: Shell) -> None:
    await migrated(f"sqlite:///{empty.folder / 'toolwright.db'}", "0016")
    (empty.folder / "before.db").write_text("taken")
    refused = empty.run("db", "upgrade", "--backup", "before.db")
    assert refused.returncode == 2
    assert refused.stderr == "toolwright: 'before.db' already exists. Name another file for the copy.\n"
    assert "make one with" not in refused.stdout
    with closing(sqlite3.connect(empty.folder / "toolwright.db")) as file:
        assert file.execute("SELECT version_num FROM alembic_version").fetchone() == ("0016",)
    (empty.folder / "toolwright.db").unlink()
    code, line = empty.refused("db", "upgrade", "--backup", "other.db")
    assert (code, "There is no database at sqlite:///toolwright.db" in line) == (2, True)


async def test_an_upgrade_rewrites_an_earlier_file_unless_it_is_served(empty: Shell) -> None:
    path = empty.folder / "toolwright.db"
    made_before(path)
    lock = FileLock(path)
    assert await lock.acquire()
    assert "Stop the server and upgrade again." in empty.run("db", "upgrade").stdout
    await lock.release()
    assert not is_shrinkable(path)
    assert "From now on it shrinks" in empty.run("db", "upgrade").stdout
    assert is_shrinkable(path)
    assert len(empty.run("db", "upgrade").stdout.splitlines()) == 1


@root_only
@pytest.mark.parametrize("revision", ["0016", HEAD])
async def test_what_root_upgrades_stays_its_owners(empty: Shell, revision: str) -> None:
    path = empty.folder / "toolwright.db"
    if revision == HEAD:
        made_before(path)
    else:
        await migrated(f"sqlite:///{path}", revision)
    path.chmod(0o640)
    os.chown(path, SOMEBODY, SOMEBODY)
    for left in empty.folder.glob("toolwright.db?*"):
        left.unlink()
    assert empty.run("db", "upgrade").returncode == 0
    there = {each.name: each.stat() for each in empty.folder.glob("toolwright.db*")}
    assert {(one.st_uid, one.st_gid) for one in there.values()} == {(SOMEBODY, SOMEBODY)}, there
    assert stat.S_IMODE(there["toolwright.db"].st_mode) == 0o640
