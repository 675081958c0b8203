"""`toolwright doctor`, `db upgrade`, `keys new` and `--version`."""

import asyncio
import base64
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from datetime import date
from importlib.metadata import metadata, version
from itertools import count
from pathlib import Path

import pytest
import yaml
from cryptography.fernet import Fernet

import toolwright as tw
from tests.cli.shell import Shell
from tests.models.wire_server import WireServer
from tests.postgres_server import fresh_database
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.schema import HEAD
from toolwright.adapters.system import build_version
from toolwright.cli.doctor import (
    EXTRAS,
    SLOW_ANSWER,
    SLOW_COMMIT,
    SLOW_FILE,
    answered,
    check_database,
    check_files,
    shutdowns,
)
from toolwright.testing import ScriptedModel
from toolwright.wiring import upkeep


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def findings(shell: Shell, *arguments: str) -> tuple[int, dict[str, list[str]]]:
    done = shell.run("doctor", "--port", free_port(), *arguments)
    assert done.stderr == ""
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return done.returncode, {what: said for what, *said in rows}


@pytest.mark.parametrize("name", ["toolwright.py", "toolwright/__init__.py"])
def test_a_file_that_hides_the_package_is_named(empty: Shell, name: str) -> None:
    file = empty.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("import toolwright as tw\n\napp = tw.App()\n")
    code, found = findings(empty)
    assert code == 1
    assert found["names"] == [
        "broken",
        f"{name} has the name of the package, so that programs in this folder import it instead: rename it.",
    ]
    assert f"{name} has the name of the package" in empty.refused("serve", "toolwright:app")[1]


def test_an_empty_folder_is_healthy_and_stays_empty(empty: Shell) -> None:
    code, found = findings(empty)
    assert code == 0
    assert found["python"][0] == "ok"
    assert found["schema"][0] == "note"
    assert found["model"][0] == "note"
    assert list(empty.folder.iterdir()) == []


def test_all_is_well_with_an_app_a_database_a_key_and_a_model(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_SECRET_KEYS"] = "sk_0123456789abcdef"
    assert shell.run("db", "upgrade").returncode == 0
    code, found = findings(shell)
    assert code == 0
    for what in ("database", "schema", "owner", "model", "app", "keys", "address"):
        assert found[what][0] == "ok", found[what]
    assert found["app"][1] == "app:app, agents: helper"


def test_the_model_of_a_judge_is_checked_too(empty: Shell) -> None:
    empty.env |= {"TOOLWRIGHT_MODEL": "openai:gpt-6.1-terra", "OPENAI_API_KEY": "sk-test"}
    (empty.folder / "app.py").write_text(
        """import toolwright as tw

hook = tw.hooks.Judge("nope:small", "Be careful.")
app = tw.App(agents=[tw.Agent("helper", instructions="Help.", hooks=[hook])])
"""
    )
    code, found = findings(empty)
    assert (code, found["model"][0]) == (1, "broken")
    assert "nope" in found["model"][1]


def test_tools_that_a_model_is_not_offered_are_named(empty: Shell) -> None:
    empty.env |= {"TOOLWRIGHT_MODEL": "openai:gpt-6.1-terra", "OPENAI_API_KEY": "sk-test"}
    (empty.folder / "app.py").write_text(
        """import toolwright as tw

within = {"type": "object", "properties": {"a": {"$ref": "#/anyOf/0"}}, "anyOf": [{}]}
odd = tw.Tool.from_config(
    {"name": "odd", "description": "Odd.", "executionType": "external", "inputSchema": within}
)
app = tw.App(agents=[tw.Agent("helper", tw.Prompt("helper", "Help.", tools=[odd]))])
"""
    )
    code, found = findings(empty)
    assert code == 0
    assert found["tools"][0] == "note"
    assert "helper: the tool 'odd' cannot be offered to openai:gpt-6.1-terra" in found["tools"][1]


@pytest.mark.parametrize(
    ("variable", "value", "broken"),
    [
        ("TOOLWRIGHT_DATABASE_URL", "sqlite:///nowhere/x.db", "database"),
        ("TOOLWRIGHT_DATABASE_URL", "sqlite:///app.py", "database"),
        ("TOOLWRIGHT_DATABASE_URL", "postgresql://me:hidden@127.0.0.1:1/x", "database"),
        ("TOOLWRIGHT_MAX_STEPS", "0", "settings"),
        ("TOOLWRIGHT_MODEL", "scripted:none.yaml", "model"),
        ("TOOLWRIGHT_APP", "app:nothing", "app"),
        ("TOOLWRIGHT_FILES_URL", "app.py", "files"),
        ("TOOLWRIGHT_FILES_URL", "/proc/files", "files"),
        ("TOOLWRIGHT_FILES_URL", "gs://bucket", "settings"),
        ("TOOLWRIGHT_CORS_ORIGINS", "https://shop.example/", "settings"),
        ("SSL_CERT_FILE", "nowhere.pem", "certificates"),
        ("SSL_CERT_FILE", "app.py", "certificates"),
    ],
)
def test_what_is_broken_is_named(shell: Shell, variable: str, value: str, broken: str) -> None:
    shell.env[variable] = value
    code, found = findings(shell)
    assert code == 1
    assert [what for what, said in found.items() if said[0] == "broken"] == [broken]
    assert "hidden" not in str(found)


def test_a_key_of_a_provider_that_no_header_takes_is_named_without_its_text(empty: Shell) -> None:
    empty.env["OPENAI_API_KEY"] = "sk-hidden…"
    empty.env["TOOLWRIGHT_MODEL"] = "openai:gpt-6-luna"
    code, found = findings(empty)
    assert code == 1
    state, said = found["model"]
    assert state == "broken"
    assert "has a key with characters that no HTTP header takes" in said
    assert "hidden" not in str(found)


def test_a_key_that_can_be_guessed_is_refused_by_every_command(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_SECRET_KEYS"] = "sk_0123456789abcdef,short"
    code, found = findings(shell)
    assert code == 1
    [said] = [said for level, said in found.values() if level == "broken"]
    assert "TOOLWRIGHT_SECRET_KEYS" in said
    assert "can be guessed" in said
    assert "short," not in said
    code, line = shell.refused("serve", "app:app", "--port", "0")
    assert code == 2
    assert "can be guessed" in line


PROVIDERS = ("google", "bedrock", "groq", "mistral", "cohere")  # a model that needs one of them names it


def test_every_extra_is_looked_for(empty: Shell) -> None:
    declared = set(metadata("toolwright-agents").get_all("Provides-Extra") or ())
    assert EXTRAS.keys() == declared - {"all", *PROVIDERS}
    there = findings(empty)[1]["extras"]
    assert all(extra in there[1] for extra in EXTRAS), "all are installed for the tests"
    empty.write("sitecustomize.py", "import sys\n\nsys.modules['agents'] = None\n")
    empty.env["PYTHONPATH"] = str(empty.folder)
    with empty.start_anew("doctor", "--port", free_port()) as doctor:
        assert doctor.end() == 0
    assert "not installed: openai-agents\n" in doctor.shown


@pytest.mark.anyio
async def test_a_model_is_asked_a_word_when_it_is_to_be_reached(empty: Shell) -> None:
    async with WireServer() as wire:
        empty.env |= {
            "TOOLWRIGHT_MODEL": "openai:gpt-6.1-terra",
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": f"{wire.base_url}/v1",
        }
        said = (await asyncio.to_thread(findings, empty))[1]["model"]
        assert (said, wire.requests) == (["ok", "openai:gpt-6.1-terra; --reach sends it a request"], [])
        wire.answer(text=["ok"])
        code, found = await asyncio.to_thread(findings, empty, "--reach")
        assert (code, found["model"][0], len(wire.requests)) == (0, "ok", 1)
        assert "openai:gpt-6.1-terra answered within" in found["model"][1]
        wire.fail(401, "Incorrect API key")
        code, found = await asyncio.to_thread(findings, empty, "--reach")
        assert (code, found["model"][0]) == (1, "broken")
        assert "Incorrect API key" in found["model"][1]


def test_a_variable_that_nothing_reads_is_a_note(empty: Shell) -> None:
    empty.env["TOOLWRIGHT_MAX_STEP"] = "5"
    code, found = findings(empty)
    assert code == 0
    assert found["settings"][0] == "note"
    assert "TOOLWRIGHT_MAX_STEP (did you mean TOOLWRIGHT_MAX_STEPS?)" in found["settings"][1]
    assert list(empty.folder.iterdir()) == []


def test_an_address_in_use_or_without_keys_is_broken(empty: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, found = findings(empty, "--port", str(other.getsockname()[1]))
    assert (code, found["address"][0]) == (1, "broken")
    code, found = findings(empty, "--host", "0.0.0.0")
    assert (code, found["address"][0]) == (1, "broken")


def test_the_process_that_executes_the_runs_is_named(shell: Shell) -> None:
    with shell.start("serve", "app:app", "--port", "0") as server:
        server.until("Ctrl-C stops it.")
        _, found = findings(shell)
        assert str(server.process.pid) in found["owner"][1] or "another process" in found["owner"][1]
        server.ctrl_c()
        assert server.end() == 0


def test_the_database_is_made_once_and_then_is_current(empty: Shell) -> None:
    empty.env["TOOLWRIGHT_DATABASE_URL"] = "sqlite:///here.db"
    made = empty.run("db", "upgrade")
    assert (made.returncode, made.stdout) == (
        0,
        f"sqlite:///here.db was created at revision {HEAD}.\n",
    )
    assert empty.run("db", "upgrade").stdout == f"sqlite:///here.db is at the newest revision, {HEAD}.\n"


@pytest.mark.anyio
async def test_a_postgres_database_is_upgraded_and_checked_alike(empty: Shell) -> None:
    async with fresh_database(migrated=False) as url:
        empty.env["TOOLWRIGHT_DATABASE_URL"] = url
        assert findings(empty)[1]["schema"][0] == "note"
        assert empty.run("db", "upgrade").stdout.endswith("was created at revision " + HEAD + ".\n")
        code, found = findings(empty)
        assert (code, found["schema"][0], found["owner"][0]) == (0, "ok", "ok")


BROKEN_ROW = """
    INSERT INTO entities (id, type, metadata, created_at, updated_at) VALUES
    ('ent_1', 'human', '{}', 1, 1), ('ent_2', 'human', 'no json', 1, 1)
"""
BROKEN_GOAL = """
    INSERT INTO goals (agent_id, id, description, status, priority, created_at)
    VALUES ('agent_1', 'goal_1', '"Win"', '[]', '"high"', 1)
"""
NAMED = [
    "The row of entities with id 'ent_2' is broken: metadata is not JSON.",
    "The row of goals with agent_id 'agent_1' and id 'goal_1' is broken: status is JSON of another shape.",
]


def broken_rows(shell: Shell) -> list[str]:
    done = shell.run("doctor", "--port", free_port())
    assert done.returncode == 1
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [said for what, verdict, said in rows if (what, verdict) == ("row", "broken")]


def test_each_broken_row_is_named_with_its_table_and_column(empty: Shell) -> None:
    assert empty.run("db", "upgrade").returncode == 0
    connection = sqlite3.connect(empty.folder / "toolwright.db")
    connection.execute(BROKEN_ROW)
    connection.execute(BROKEN_GOAL)
    connection.commit()
    connection.close()
    assert broken_rows(empty) == NAMED


@pytest.mark.anyio
async def test_broken_rows_on_postgres_are_named_alike(empty: Shell) -> None:
    async with fresh_database() as url:
        connection = await connect(url)
        await connection.execute(BROKEN_ROW)
        await connection.execute(BROKEN_GOAL)
        await connection.close()
        empty.env["TOOLWRIGHT_DATABASE_URL"] = url
        assert broken_rows(empty) == NAMED


@pytest.mark.anyio
async def test_passages_on_postgres_are_checked_too(empty: Shell) -> None:
    app = tw.App(agents=[tw.Agent("keeper", model=ScriptedModel([{"text": "Hi."}]))])
    async with fresh_database() as url:
        async with app.runtime(tw.Settings(database_url=url)) as rt:
            await rt.passages.add("keeper", "The door is green.")
        empty.env["TOOLWRIGHT_DATABASE_URL"] = url
        code, found = findings(empty)
        assert (code, found["database"][0], found["schema"][0]) == (0, "ok", "ok"), found


def test_the_times_of_a_commit_and_of_a_file_are_measured(empty: Shell) -> None:
    assert empty.run("db", "upgrade").returncode == 0
    code, found = findings(empty)
    assert code == 0
    assert re.search(r": a commit takes [0-9.]+ ms", found["database"][1]), found["database"]
    assert re.search(r": storing a file takes [0-9.]+ ms", found["files"][1]), found["files"]


@pytest.mark.anyio
async def test_what_is_slower_than_its_limit_is_a_note(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path}/here.db")
    await upkeep.upgrade(settings)
    for step, verdict in ((0.0, "ok"), (SLOW_COMMIT / 2, "ok"), (SLOW_FILE * 2, "note")):
        clock = count(0.0, step)
        [database, *_] = await check_database(settings, clock.__next__)
        files = await check_files(settings, clock.__next__)
        assert (database.verdict, files.verdict) == (verdict, verdict), (step, database, files)
        assert ("is slow" in database.message, "is slow" in files.message) == (verdict == "note",) * 2


def test_a_model_that_answers_slowly_is_a_note() -> None:
    assert answered("openai:gpt-6.1-terra", SLOW_ANSWER / 2).verdict == "ok"
    slow = answered("openai:gpt-6.1-terra", SLOW_ANSWER * 2)
    assert (slow.verdict, "slow" in slow.message) == ("note", True)


def test_a_model_that_its_provider_shuts_down_is_a_note() -> None:
    names = ("openai:gpt-5-mini", "openai:gpt-6.1-terra", "anthropic:claude-sonnet-4-5")
    assert [(each.verdict, each.message) for each in shutdowns(names, date(2026, 12, 1))] == [
        (
            "note",
            "openai:gpt-5-mini is shut down by its provider on 2026-12-11: name another model",
        ),
        (
            "note",
            "anthropic:claude-sonnet-4-5 was shut down by its provider on 2026-11-30: name another model",
        ),
    ]


def test_the_end_of_a_configured_model_is_reported(empty: Shell) -> None:
    empty.env |= {"TOOLWRIGHT_MODEL": "openai:gpt-5-mini-2025-08-07", "OPENAI_API_KEY": "sk-test"}
    assert "shut down by its provider on 2026-12-11" in " ".join(empty.run("doctor").stdout.split())


async def _store_secret(url: str, keys: Sequence[str] = ()) -> None:
    app = tw.App(agents=[tw.Agent("keeper", model=ScriptedModel([{"text": "Hi."}]))])
    async with app.runtime(tw.Settings(database_url=url, encryption_keys=tuple(keys))) as rt:
        await rt.threads.create("keeper", env={"TOKEN": "t-0123456789"})


@pytest.mark.anyio
async def test_secrets_that_the_configured_keys_cannot_decrypt_are_counted(empty: Shell) -> None:
    old, new = [Fernet.generate_key().decode() for _ in range(2)]
    await _store_secret(f"sqlite:///{empty.folder}/toolwright.db", [old])
    missing = "1 secret cannot be read: TOOLWRIGHT_ENCRYPTION_KEYS does not have the key that encrypted it"
    for keys, code, finding in (
        (old, 0, ["ok", "encrypted with 1 configured key(s)"]),
        (f"{new},{old}", 0, ["ok", "encrypted with 2 configured key(s)"]),
        (new, 1, ["broken", missing]),
    ):
        empty.env["TOOLWRIGHT_ENCRYPTION_KEYS"] = keys
        ended, found = findings(empty)
        assert (ended, found["secrets"]) == (code, finding)


@pytest.mark.anyio
async def test_secrets_whose_key_file_is_lost_or_another_are_counted(empty: Shell) -> None:
    await _store_secret(f"sqlite:///{empty.folder}/toolwright.db")
    file = empty.folder / "toolwright.db.key"
    assert findings(empty)[0] == 0
    missing = f"1 secret cannot be read: the key file {file} does not have the key that encrypted it"
    for text, said in (
        (Fernet.generate_key().decode(), missing),
        ("", "is empty. Restore its key."),
        (None, missing),
    ):
        file.unlink()
        if text is not None:
            file.write_text(text, encoding="ascii")
            file.chmod(0o600)
        code, found = findings(empty)
        assert (code, found["secrets"][0]) == (1, "broken")
        assert said in found["secrets"][1]


@pytest.mark.anyio
async def test_secrets_on_postgres_are_compared_with_the_keys_alike(empty: Shell) -> None:
    old, new = [Fernet.generate_key().decode() for _ in range(2)]
    async with fresh_database() as url:
        await _store_secret(url, [old])
        empty.env["TOOLWRIGHT_DATABASE_URL"] = url
        for keys, verdict in ((old, "ok"), (new, "broken"), ("", "broken")):
            empty.env["TOOLWRIGHT_ENCRYPTION_KEYS"] = keys
            assert findings(empty)[1]["secrets"][0] == verdict


def test_a_database_that_newer_code_has_changed_is_refused(empty: Shell) -> None:
    assert empty.run("db", "upgrade").returncode == 0
    connection = sqlite3.connect(empty.folder / "toolwright.db")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    done = empty.run("db", "upgrade")
    place = "sqlite:///toolwright.db"
    assert done.stdout == f"{place} is at revision 9999 of a newer version, which this version can use.\n"
    assert "revision 9999 of a newer version, which this version can use" in empty.run("doctor").stdout
    for unknown in ("0017b", "abcd", "٩٩٩٩", "99999"):  # no version has or will have it
        connection.execute("UPDATE alembic_version SET version_num = ?", (unknown,))
        connection.commit()
        assert unknown in empty.refused("db", "upgrade")[1]
        found = empty.run("doctor").stdout
        assert f"revision '{unknown}', which this version of toolwright does not know" in found
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.execute("UPDATE compatibility SET least = '9999'")
    connection.commit()
    connection.close()
    code, line = empty.refused("db", "upgrade")
    assert code == 1
    assert "'9999'" in line
    assert findings(empty)[0] == 1


def test_keys_are_printed_as_lines_of_an_env_file(empty: Shell) -> None:
    first, second = (empty.run("keys", "new").stdout for _ in range(2))
    keys = dict(line.split("=", 1) for line in first.splitlines() if not line.startswith("#"))
    assert keys["TOOLWRIGHT_SECRET_KEYS"].startswith("sk_")
    assert len(base64.urlsafe_b64decode(keys["TOOLWRIGHT_ENCRYPTION_KEYS"])) == 32
    assert first != second


def test_the_version_of_a_build_changes_with_its_code(empty: Shell) -> None:
    _, found = findings(empty)
    assert found["python"][1].endswith(f"toolwright {build_version()}")
    number, _, digest = build_version().partition("+")
    assert (number, len(digest)) == (version("toolwright-agents"), 8)
    package = Path(upkeep.__file__).parents[1]
    copy = empty.folder / "toolwright"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    program = "from toolwright.adapters.system import build_version; print(build_version())"
    seen: list[str] = []
    for change in ("", "# another line\n"):
        with (copy / "wiring" / "app.py").open("a", encoding="utf-8") as module:
            module.write(change)
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=empty.folder, capture_output=True, text=True, check=True
        )
        seen.append(done.stdout.strip())
    assert seen[0] == build_version() != seen[1]


def test_a_release_has_one_version_everywhere() -> None:
    root = Path(__file__).parents[2]
    declared = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((root / "deploy" / "helm" / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (declared, declared)
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## (\S+)(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    assert sections[0][0] == "Unreleased"
    assert [name for name, _ in sections[1:2]] in (
        [declared],
        [],
    )  # nothing was released before the first version
    assert all("\n### Wire\n" in text for _, text in sections)


def test_the_version_is_that_of_the_package(empty: Shell) -> None:
    assert empty.run("--version").stdout == f"toolwright {version('toolwright-agents')}\n"


def test_without_a_command_help_is_shown(empty: Shell) -> None:
    done = empty.run()
    assert done.returncode == 0
    for command in ("demo", "serve", "chat", "call", "tools", "db", "keys", "doctor"):
        assert command in done.stdout
