"""A journal is backed up while it is served and written to, and its copy can be served instead."""

import asyncio
import signal
import stat
import threading
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.test_serve import url_of
from toolwright.adapters.cipher import KeyFileCipher
from toolwright.client import Client
from toolwright.core.errors import CannotUnseal
from toolwright.core.results import Attachment
from toolwright.wiring.backups import move_parts

APP = """
import toolwright as tw
from toolwright.testing import ScriptedModel

@tw.tool(description="Say who one is.")
async def who(state: tw.ThreadState) -> str:
    return (await state.env("NAME"))[::-1]

turns = [{"text": "", "calls": [{"name": "who", "args": {}}]}, {"text": "Done."}] * 2
app = tw.App(agents=[tw.Agent("helper", tw.Prompt("p", "Help.", model=ScriptedModel(turns), tools=[who]))])
"""
SECRET = "correct horse battery"
SERVE = ("serve", "backup_app:app", "--port", "0")


async def conversation(client: Client, number: int) -> str:
    """Create a thread with a secret and a file, in which a run has finished."""
    thread = await client.threads.create(
        "helper", env={"NAME": {"value": f"{SECRET} {number}", "type": "secret"}}
    )
    file = Attachment(name="note.txt", mime_type="text/plain", data="aGVsbG8=" if number % 2 else "Ynll")
    sent = await client.threads.send(thread.id, f"Who is {number}?", [file])
    await client.runs.wait(sent.run_id, 30)
    return thread.id


async def checked(client: Client, thread_id: str) -> None:
    """Check that the thread is complete: its messages, its file, and its secret, which a new run can decrypt."""
    [file] = await client.files.list(thread_id)
    assert await client.files.read(thread_id, file.path) in (b"hello", b"bye")
    before = len(await client.threads.messages(thread_id))
    assert before >= 4
    run = await client.runs.wait((await client.threads.send(thread_id, "Again?")).run_id, 30)
    assert (run.status, run.error) == ("completed", None)
    [call] = await client.calls.list("done", run.id)
    assert (call.name, call.status) == ("who", "done")


async def written(url: str, enough: threading.Event, stop: threading.Event) -> list[str]:
    """Start conversations one after another, until the event is set."""
    threads: list[str] = []
    async with Client(url) as client:
        while not stop.is_set():
            threads += await asyncio.gather(*[conversation(client, len(threads) + i) for i in range(4)])
            if len(threads) >= 8:
                enough.set()
    return threads


def test_a_copy_that_is_made_under_load_can_be_served_with_everything(shell: Shell) -> None:
    shell.write("backup_app.py", APP)
    enough, stop, threads = threading.Event(), threading.Event(), list[str]()
    with shell.start(*SERVE) as server:
        url = url_of(server)
        load = threading.Thread(target=lambda: threads.extend(asyncio.run(written(url, enough, stop))))
        load.start()
        try:
            assert enough.wait(60)
            done = shell.run("backup", "copy.db")
            assert (done.returncode, done.stderr) == (0, "")
        finally:
            stop.set()
            load.join()
        server.process.send_signal(signal.SIGTERM)
        server.end()
    assert sorted(each.name for each in shell.folder.glob("copy.db*")) == [
        "copy.db",
        "copy.db.files",
        "copy.db.key",
    ]
    for name in ("copy.db", "copy.db.key"):
        assert stat.S_IMODE((shell.folder / name).stat().st_mode) == 0o600
    for each in shell.folder.glob("toolwright.db*"):
        each.rename(each.with_name(f"lost-{each.name}"))
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///copy.db"
    with shell.start(*SERVE) as server:
        copied = asyncio.run(all_checked(url_of(server), set(threads)))
        assert copied >= 8
        server.process.send_signal(signal.SIGTERM)
        server.end()


async def all_checked(url: str, known: set[str]) -> int:
    async with Client(url) as client:
        threads = [each.id for each in await client.threads.list(limit=1_000)]
        whole = [each for each in threads if len(await client.threads.messages(each)) >= 4]
        for thread_id in whole[:8]:
            await checked(client, thread_id)
        assert set(threads) <= known
    return len(whole)


def journal(shell: Shell, name: str = "toolwright.db") -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = f"sqlite:///{name}"
    assert shell.run("db", "upgrade").returncode == 0


def test_a_backup_replaces_another_one_only_by_force(shell: Shell) -> None:
    journal(shell)
    assert shell.run("backup", "copy.db").returncode == 0
    first = (shell.folder / "copy.db").read_bytes()
    (shell.folder / "copy.db.files").mkdir()
    code, line = shell.refused("backup", "copy.db")
    assert code == 1
    assert "--force" in line
    assert (shell.folder / "copy.db").read_bytes() == first
    assert shell.run("backup", "copy.db", "--force").returncode == 0
    assert sorted(each.name for each in shell.folder.glob("copy.db*")) == ["copy.db", "copy.db.files"]


@pytest.mark.parametrize(
    ("url", "target", "words"),
    [
        ("memory://", "copy.db", "in memory"),
        ("postgresql://ann:secret@db.example/journal", "copy.db", "pg_dump"),
        ("sqlite:///nothing.db", "copy.db", "There is no database 'nothing.db'"),
        ("sqlite:///toolwright.db", "toolwright.db", "the database itself"),
        ("sqlite:///toolwright.db", "no/copy.db", "its folder does not exist"),
        ("sqlite:///toolwright.db", ".", "is a folder"),
    ],
)
def test_what_cannot_be_backed_up_is_refused_in_one_line(
    shell: Shell, url: str, target: str, words: str
) -> None:
    journal(shell)
    shell.env["TOOLWRIGHT_DATABASE_URL"] = url
    before = sorted(shell.folder.rglob("*"))
    code, line = shell.refused("backup", target)
    assert code == 1
    assert words in line
    assert "secret@" not in line
    assert sorted(shell.folder.rglob("*")) == before


@pytest.mark.parametrize(
    "target",
    [
        *[f"toolwright.db{ending}" for ending in ("-wal", "-shm", "-journal", ".lock", ".key")],
        "toolwright.db.migrate.lock",
        "toolwright.db.files",
        "toolwright.db.partial",
        "toolwright.db.files/copy.db",
        "kept.db",  # the folder of its files would be the folder of the journal's files
    ],
)
def test_no_backup_takes_the_place_of_what_belongs_to_the_database(shell: Shell, target: str) -> None:
    journal(shell)
    (shell.folder / "toolwright.db.files").mkdir()
    if target == "kept.db":
        (shell.folder / "kept.db.files").mkdir()
        shell.env["TOOLWRIGHT_FILES_URL"] = "kept.db.files"
    elif target == "toolwright.db.files":
        (shell.folder / target).rmdir()  # as long as there is no file
    before = {each: each.stat().st_ino for each in shell.folder.rglob("*")}
    code, line = shell.refused("backup", target, "--force")
    assert code == 1
    assert "belongs to the journal that is being backed up. Name another file." in line
    assert {each: each.stat().st_ino for each in shell.folder.rglob("*")} == before


def test_force_replaces_nothing_that_is_no_database(shell: Shell) -> None:
    journal(shell)
    shell.write("app.py", APP)
    code, line = shell.refused("backup", "app.py", "--force")
    assert (code, "'app.py' is not a database. Name another file." in line) == (1, True)
    assert (shell.folder / "app.py").read_text() == APP


def test_a_thread_is_not_looked_for_in_a_database_that_is_not_there(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///mistaken.db"
    code, line = shell.refused("threads", "delete", "thr_1")
    assert (code, "There is no database 'mistaken.db'" in line) == (1, True)
    assert list(shell.folder.glob("mistaken*")) == []


def test_a_backup_whose_process_died_blocks_no_other(shell: Shell) -> None:
    journal(shell)
    partial = shell.folder / "copy.db.partial"
    (partial / "files" / "sha256").mkdir(parents=True)
    (partial / "database").write_bytes(b"half a database")
    (shell.folder / "copy.db.files").mkdir()  # an earlier backup has got this far
    assert shell.run("backup", "copy.db").returncode == 0
    assert sorted(each.name for each in shell.folder.glob("copy.db*")) == ["copy.db", "copy.db.files"]
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///copy.db"
    assert "newest revision" in shell.run("db", "upgrade").stdout


def test_an_older_copy_can_be_read_until_the_new_database_takes_its_place(tmp_path: Path) -> None:
    target, partial = tmp_path / "copy.db", tmp_path / "copy.db.partial"
    older, newer = KeyFileCipher(tmp_path / "copy.db.key"), KeyFileCipher(partial / "key")
    partial.mkdir()
    sealed, sealed_anew = older.seal("sesame")[0], newer.seal("sesame")[0]
    with pytest.raises(FileNotFoundError):  # the process dies before the database is moved
        move_parts(target, partial, has_key=True)
    between = KeyFileCipher(tmp_path / "copy.db.key")
    assert (between.open(sealed), between.open(sealed_anew)) == ("sesame", "sesame")
    (partial / "database").touch()
    move_parts(target, partial, has_key=True)
    last = KeyFileCipher(tmp_path / "copy.db.key")
    assert last.open(sealed_anew) == "sesame"
    with pytest.raises(CannotUnseal):
        last.open(sealed)


def test_a_copy_that_is_served_is_not_replaced(shell: Shell) -> None:
    journal(shell)
    assert shell.run("backup", "copy.db").returncode == 0
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///copy.db"
    with shell.start("serve", "--port", "0") as server:
        url_of(server)
        shell.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///toolwright.db"
        code, line = shell.refused("backup", "copy.db", "--force")
        assert (code, "A process is serving" in line) == (1, True)
        server.process.send_signal(signal.SIGTERM)
        server.end()
