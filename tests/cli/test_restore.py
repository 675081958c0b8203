"""The way back to a backup, as each guide describes it, after a server was killed."""

import asyncio
import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.shell import Running, Shell
from tests.cli.test_backup import APP, SERVE, checked, conversation, journal
from tests.cli.test_serve import url_of
from tests.store.test_migrations import migrated
from toolwright.adapters.store.schema import HEAD
from toolwright.client import Client

DOCS = Path(__file__).parents[2] / "docs"
BASH = re.compile(r"```bash\n(.*?)```", re.DOTALL)
BLOCKS = [
    (page, block) for page in sorted(DOCS.rglob("*.md")) for block in BASH.findall(page.read_text("utf-8"))
]
WAYS_BACK = {
    page.name: [
        line.split(" #")[0].split() for line in block.splitlines() if line.startswith("toolwright restore")
    ]
    for page, block in BLOCKS
    if re.search("^toolwright restore", block, re.MULTILINE)  # without sudo, which a test cannot use
}


def test_no_page_moves_the_parts_of_a_database_by_hand() -> None:
    by_hand = [
        (page.name, block) for page, block in BLOCKS if re.search(r"\b(mv|cp|rm)\b[^\n]*\.db\b", block)
    ]
    assert by_hand == []
    assert set(WAYS_BACK) == {"back-up-and-restore.md", "upgrade-and-roll-back.md"}


async def talk(url: str, numbers: range) -> set[str]:
    async with Client(url) as client:
        return {await conversation(client, number) for number in numbers}


async def listed(url: str) -> set[str]:
    """Return the threads of a server, after one of them was checked and answered again."""
    async with Client(url) as client:
        threads = {each.id for each in await client.threads.list(limit=1_000)}
        await checked(client, min(threads))
        return threads


def kill(server: Running) -> None:
    """Kill the server as the kernel does for lack of memory."""
    server.process.kill()
    server.end()


def parts(folder: Path, name: str = "toolwright.db") -> set[str]:
    return {each.name for each in folder.glob(f"{name}*")} - {f"{name}.lock", f"{name}.migrate.lock"}


def killed_with_a_newer_journal(shell: Shell, copy: str) -> tuple[set[str], set[str]]:
    """Return the threads of a backup, and those of the journal whose server was killed later."""
    shell.write("backup_app.py", APP)
    with shell.start(*SERVE) as server:
        older = asyncio.run(talk(url_of(server), range(2)))
        assert shell.run("backup", copy).returncode == 0
        newer = asyncio.run(talk(url_of(server), range(2, 12)))
        kill(server)
    assert parts(shell.folder) >= {"toolwright.db", "toolwright.db-wal", "toolwright.db-shm"}
    return older, older | newer


@pytest.mark.parametrize("page", sorted(WAYS_BACK))
def test_the_way_back_of_each_page_works_after_a_kill(shell: Shell, page: str) -> None:
    [[_, *command]] = WAYS_BACK[page]
    copy = str(shell.folder / Path(command[-1]).name)
    older, both = killed_with_a_newer_journal(shell, copy)
    done = shell.run(*command[:-1], copy)
    assert (done.returncode, done.stderr) == (0, "")
    [aside] = shell.folder.glob("toolwright.db.replaced-*")
    assert parts(shell.folder) == {"toolwright.db", "toolwright.db.files", "toolwright.db.key", aside.name}
    assert stat.S_IMODE((shell.folder / "toolwright.db").stat().st_mode) == 0o600
    with closing(sqlite3.connect(shell.folder / "toolwright.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with shell.start(*SERVE) as server:
        assert asyncio.run(listed(url_of(server))) == older
        kill(server)
    undone = shell.run("restore", str(aside / "toolwright.db"))  # complete, with its log
    assert (undone.returncode, undone.stderr) == (0, "")
    with shell.start(*SERVE) as server:
        assert asyncio.run(listed(url_of(server))) == both
        kill(server)


@pytest.mark.parametrize("options", [(), ("--no-work",)], ids=["executes the runs", "serves only"])
def test_nothing_is_restored_while_a_server_has_the_database_open(
    shell: Shell, options: tuple[str, ...]
) -> None:
    journal(shell)
    assert shell.run("backup", "copy.db").returncode == 0
    with shell.start("serve", "--port", "0", *options) as server:
        url_of(server)
        before = parts(shell.folder)
        code, line = shell.refused("restore", "copy.db")
        assert code == 1
        assert "Stop it, then restore." in line
        assert parts(shell.folder) == before
        server.ctrl_c()
        server.end()
    assert shell.run("restore", "copy.db").returncode == 0


@pytest.mark.parametrize(
    ("url", "source", "words"),
    [
        ("memory://", "copy.db", "in memory"),
        ("postgresql://ann:secret@db.example/journal", "copy.db", "pg_restore"),
        ("sqlite:///toolwright.db", "nothing.db", "There is no backup 'nothing.db'"),
        ("sqlite:///toolwright.db", ".", "There is no backup '.'"),
        ("sqlite:///toolwright.db", "toolwright.db", "belongs to the database itself"),
        ("sqlite:///toolwright.db", "app.py", "not a database"),
        ("sqlite:///toolwright.db", "other.db", "is not a database of Toolwright"),
        ("sqlite:///toolwright.db", "damaged.db", "is damaged"),
        ("sqlite:///no/toolwright.db", "copy.db", "its folder does not exist"),
    ],
)
def test_what_cannot_be_restored_is_refused_and_nothing_is_moved(
    shell: Shell, url: str, source: str, words: str
) -> None:
    journal(shell)
    assert shell.run("backup", "copy.db").returncode == 0
    with closing(sqlite3.connect(shell.folder / "other.db")) as other:
        other.execute("CREATE TABLE pets (name)")
    content = (shell.folder / "copy.db").read_bytes()
    half = len(content) // 8192 * 4096
    (shell.folder / "damaged.db").write_bytes(content[:half] + b"\xa5" * 4096 + content[half + 4096 :])
    shell.env["TOOLWRIGHT_DATABASE_URL"] = url
    before = {each: each.stat().st_ino for each in shell.folder.iterdir() if each.suffix != ".lock"}
    code, line = shell.refused("restore", source)
    assert code == 1
    assert words in line
    assert "secret@" not in line
    assert {each: each.stat().st_ino for each in shell.folder.iterdir() if each.suffix != ".lock"} == before


def test_a_damaged_database_is_replaced_too(shell: Shell) -> None:
    journal(shell)
    assert shell.run("backup", "copy.db").returncode == 0
    (shell.folder / "toolwright.db").write_bytes(b"\xa5" * 65_536)
    assert shell.run("restore", "copy.db").returncode == 0
    [aside] = shell.folder.glob("toolwright.db.replaced-*")
    assert (aside / "toolwright.db").read_bytes() == b"\xa5" * 65_536
    assert "newest revision" in shell.run("db", "upgrade").stdout


def test_a_restore_that_was_killed_is_finished_by_the_next(shell: Shell) -> None:
    older, both = killed_with_a_newer_journal(shell, "copy.db")
    aside = shell.folder / "toolwright.db.replaced-20260101-000000-000000"
    aside.mkdir()
    (shell.folder / "toolwright.db").rename(aside / "toolwright.db")  # as far as the killed one has got
    assert shell.run("restore", "copy.db").returncode == 0
    assert [each.name for each in shell.folder.glob("toolwright.db.replaced-*")] == [aside.name]
    with shell.start(*SERVE) as server:
        assert asyncio.run(listed(url_of(server))) == older
        kill(server)
    assert shell.run("restore", str(aside / "toolwright.db")).returncode == 0
    with shell.start(*SERVE) as server:
        assert asyncio.run(listed(url_of(server))) == both
        kill(server)


def test_what_a_backup_lacks_is_named(shell: Shell) -> None:
    shell.write("backup_app.py", APP)
    with shell.start(*SERVE) as server:
        asyncio.run(talk(url_of(server), range(2)))
        server.ctrl_c()
        server.end()
    assert shell.run("backup", "copy.db").returncode == 0
    (shell.folder / "copy.db.files").rename(shell.folder / "forgotten")
    (shell.folder / "copy.db.key").unlink()
    done = shell.run("restore", "copy.db")
    assert done.returncode == 0
    assert (
        "The content of 2 files is missing in the backup: its folder of files belongs beside it."
        in done.stderr
    )
    assert "The key file of the previous database is used." in done.stderr
    assert (shell.folder / "toolwright.db.key").exists()


def test_files_in_a_store_of_their_own_are_only_added_to(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_FILES_URL"] = str(shell.folder / "store")
    older, _ = killed_with_a_newer_journal(shell, "copy.db")
    (shell.folder / "store").rename(shell.folder / "lost")
    assert "2 files" in shell.run("restore", "copy.db").stdout
    with shell.start(*SERVE) as server:
        assert asyncio.run(listed(url_of(server))) == older
        kill(server)


@pytest.mark.anyio
async def test_a_backup_of_an_older_revision_stays_as_it_is(empty: Shell) -> None:
    await migrated(f"sqlite:///{empty.folder / 'toolwright.db'}", "0016")
    assert empty.run("db", "upgrade", "--backup", "before.db").returncode == 0
    for source, revision in (("before.db", "0016"), ("toolwright.db.replaced-*/toolwright.db", HEAD)):
        [path] = empty.folder.glob(source)
        assert empty.run("restore", str(path)).returncode == 0
        with closing(sqlite3.connect(empty.folder / "toolwright.db")) as file:
            assert file.execute("SELECT version_num FROM alembic_version").fetchone() == (revision,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_root_restores_belongs_to_the_owner_of_the_database(shell: Shell) -> None:
    older, _ = killed_with_a_newer_journal(shell, "copy.db")
    assert older
    os.chown(shell.folder / "toolwright.db", 12_345, 12_345)
    assert shell.run("restore", "copy.db").returncode == 0
    restored = [shell.folder / f"toolwright.db{ending}" for ending in ("", ".key", ".files")]
    restored += [
        *(shell.folder / "toolwright.db.files").rglob("*"),
        *shell.folder.glob("toolwright.db.replaced-*"),
    ]
    assert {each.stat().st_uid for each in restored} == {12_345}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_root_restores_on_a_new_machine_belongs_to_the_owner_of_the_folder(empty: Shell) -> None:
    assert empty.run("db", "upgrade").returncode == 0
    assert empty.run("backup", "copy.db").returncode == 0
    folder = empty.folder / "new"
    folder.mkdir()
    os.chown(folder, 12_345, 12_345)
    assert empty.at(folder).run("restore", str(empty.folder / "copy.db")).returncode == 0
    restored = {each.name: each.stat().st_uid for each in folder.iterdir()}
    assert restored == {"toolwright.db": 12_345, "toolwright.db.lock": 12_345}
