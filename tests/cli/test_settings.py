"""Settings as users write them: combinations, and invalid values that are rejected with one sentence."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.cli.shell import Shell
from toolwright.core.errors import CannotServe, DefinitionError
from toolwright.web.auth.access import ServiceKey
from toolwright.wiring.gateway import serve
from toolwright.wiring.settings import SECRETS, Settings, warning

SECRET = "a-secret-that-is-long-enough-for-hs256"
LONG = "sk_0123456789abcdef"
PEOPLE: dict[str, Any] = {"public_keys": ["pk"], "jwt_secret": SECRET}
GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


@pytest.mark.parametrize(
    "given",
    [
        PEOPLE,
        {**PEOPLE, "jwt_secret": "ü" * 16, "jwt_entity_claim": "email"},
        {**PEOPLE, "jwt_jwks_url": ""},
        {"public_keys": "pk, pk2", "jwt_jwks_url": "https://id.example/jwks.json"},
        {"public_keys": ["pk"], "jwt_jwks_url": "http://127.0.0.1:9000/jwks.json", "jwt_secret": " "},
        {"public_keys": ["pk"], "jwt_jwks_url": "http://[::1]/k", "secret_keys": ["sk_0123456789abcdef"]},
        {"public_keys": (), "jwt_secret": "", "jwt_jwks_url": ""},
    ],
)
def test_settings_that_belong_together_are_taken(given: dict[str, Any]) -> None:
    settings = tw.Settings(**given)
    assert settings.keyed == bool(settings.public_keys or settings.secret_keys)


@pytest.mark.parametrize(
    ("given", "name", "said"),
    [
        ({"public_keys": ["pk"]}, "public_keys", "require a way to verify people's tokens"),
        ({"embedder": "text-embedding-3-small"}, "embedder", "must be a model of openai"),
        ({"embedder": "anthropic:x"}, "embedder", "must be a model of openai"),
        ({"embedder": "openai:"}, "embedder", "must be a model of openai"),
        ({"node_url": "foo"}, "node_url", "must be http:// or https://, a host and a port, without a path"),
        ({"node_url": "http://:80"}, "node_url", "must be http:// or https://, a host and a port"),
        ({"node_url": "http://h:99999"}, "node_url", "must be http:// or https://, a host and a port"),
        ({"node_url": "http://h/path"}, "node_url", "must be http:// or https://, a host and a port"),
        ({"cors_origins": "http://h:99999"}, "cors_origins", "an origin must be a scheme and a host"),
        ({"database_url": "postgresql://h:x/d"}, "database_url", "a number from 1 to 65535"),
        ({"database_url": "postgresql://a:5432,b:99999/d"}, "database_url", "a number from 1 to 65535"),
        ({"database_url": "postgresql://u:a/b@h/d"}, "database_url", "a number from 1 to 65535"),
        ({"jwt_secret": SECRET}, "public_keys", "have no effect without public_keys"),
        ({"jwt_jwks_url": "https://id.example/k"}, "public_keys", "have no effect without public_keys"),
        ({**PEOPLE, "jwt_jwks_url": "https://id.example/k"}, "jwt_jwks_url", "not both"),
        ({**PEOPLE, "jwt_secret": "too-few-bytes"}, "jwt_secret", "32 bytes or more"),
        ({**PEOPLE, "jwt_secret": "-----BEGIN PUBLIC KEY-----" + SECRET}, "jwt_secret", "PEM"),
        ({**PEOPLE, "secret_keys": ["short"]}, "secret_keys", "can be guessed"),
        (
            {**PEOPLE, "secret_keys": [LONG], "public_keys": [LONG]},
            "public_keys",
            "must not be a secret key too",
        ),
        ({**PEOPLE, "jwt_entity_claim": ""}, "jwt_entity_claim", "must not be empty"),
        *[
            ({name: 2**31}, name, "must be at most 2147483647")
            for name in (
                "database_connections",
                "max_steps",
                "context_tokens",
                "max_chain_depth",
                "max_subagent_depth",
                "concurrency",
            )
        ],
        *[
            ({"public_keys": ["pk"], "jwt_jwks_url": url}, "jwt_jwks_url", "must begin with https://")
            for url in (
                "http://id.example/k",
                "id.example",
                "file:///k",
                "https://",
                "https://a:b/",
                "http://[",
            )
        ],
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_sentence(
    given: dict[str, Any], name: str, said: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        tw.Settings(**given)
    message = refused.value.message
    assert message.startswith(f"The setting TOOLWRIGHT_{name.upper()} is not valid: ")
    assert message.count("The setting") == 1
    assert said in message
    assert "\n" not in message
    assert "too-few-bytes" not in message
    assert SECRET not in message


def test_a_secret_is_not_shown() -> None:
    assert SECRET not in repr(tw.Settings(**PEOPLE))


def test_the_environment_is_read_and_an_error_names_its_variable(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_PUBLIC_KEYS"] = "pk_one,pk_two"
    for command in (["doctor"], ["serve", "--port", "0"]):
        done = shell.run(*command)
        assert done.returncode in (1, 2)
        assert (
            "TOOLWRIGHT_PUBLIC_KEYS is not valid: public_keys require a way to verify people's tokens"
            in done.stdout + done.stderr
        )
    shell.env["TOOLWRIGHT_JWT_SECRET"] = SECRET
    assert "2 public keys, no secret key" in shell.run("doctor", "--port", "0").stdout.replace("\n", " ")
    shell.env["TOOLWRIGHT_SECRET_KEYS"] = "sk_0123456789abcdef"
    assert "1 secret key, 2 public keys" in shell.run("doctor", "--port", "0").stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("origins", "said"),
    [
        ("shop.example", "an origin must be a scheme and a host"),
        ("https://shop.example/", "without a path, not 'https://shop.example/'"),
        ("https://shop.example/app", "without a path"),
        ("https://", "an origin must be a scheme and a host"),
        ("https://me@shop.example", "an origin must be a scheme and a host"),
        ("null", "an origin must be a scheme and a host"),
        ("https://shop.example,*", "use it alone"),
        ("https://ok.example, http://a b", "not 'http://a b'"),
    ],
)
def test_origins_that_no_browser_sends_are_refused(origins: str, said: str) -> None:
    with pytest.raises(
        DefinitionError, match="The setting TOOLWRIGHT_CORS_ORIGINS is not valid: "
    ) as refused:
        tw.Settings(cors_origins=origins)  # type: ignore[arg-type]  # a text, as in the environment
    assert said in refused.value.message


@pytest.mark.parametrize(
    "origin", ["*", "https://shop.example", "http://localhost:5173", "http://[::1]:80", "tauri://localhost"]
)
def test_origins_are_taken_as_browsers_send_them(origin: str) -> None:
    assert tw.Settings(cors_origins=(origin,)).cors_origins == (origin,)


def test_variables_that_nothing_reads_are_named_with_what_was_meant() -> None:
    settings = list(Settings.model_fields)
    known = [
        "PATH",
        "TOOLWRIGHT_APP",
        "toolwright_model",
        *[f"TOOLWRIGHT_{name.upper()}" for name in settings],
    ]
    assert warning(known, settings) is None
    assert warning(["TOOLWRIGHT_SECRET_KEY", "TOOLWRIGHT_ZZZZ", *known], settings) == (
        "Unknown settings are ignored: TOOLWRIGHT_SECRET_KEY (did you mean TOOLWRIGHT_SECRET_KEYS?), "
        "TOOLWRIGHT_ZZZZ."
    )


def test_a_server_warns_once_of_variables_that_nothing_reads(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_FILE_URL"] = "here"
    with shell.start("serve", "--port", "0") as server:
        server.until("Ctrl-C stops it.")
        server.ctrl_c()
        assert server.end() == 0
        assert server.shown.count("TOOLWRIGHT_FILE_URL (did you mean TOOLWRIGHT_FILES_URL?)") == 1


def test_a_server_without_a_folder_for_files_does_not_start(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_FILES_URL"] = "app.py"
    code, line = shell.refused("serve", "--port", "0")
    assert (code, line) == (
        1,
        "toolwright: The files folder 'app.py' cannot be written: Not a directory. "
        "(toolwright errors store_unavailable)",
    )


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_ATTRIBUTE_COUNT_LIMIT": "x"},
            "Telemetry cannot be set up with these variables (OTEL_…): OTEL_ATTRIBUTE_COUNT_LIMIT must be",
        ),
        (
            {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "-5"},
            "Telemetry cannot be set up with these variables (OTEL_…): interval value -5.0 is invalid",
        ),
        ({"TOOLWRIGHT_SENTRY_DSN": "hidden"}, "TOOLWRIGHT_SENTRY_DSN (or SENTRY_DSN) is not a DSN of Sentry"),
        (
            {"SENTRY_DSN": "https://hidden@host"},
            "TOOLWRIGHT_SENTRY_DSN (or SENTRY_DSN) is not a DSN of Sentry",
        ),
        (
            {"SENTRY_DSN": "https://hidden@h:x/1"},
            "TOOLWRIGHT_SENTRY_DSN (or SENTRY_DSN) is not a DSN of Sentry",
        ),
    ],
)
def test_a_variable_that_a_library_of_telemetry_refuses_is_one_sentence(
    shell: Shell, variables: dict[str, str], said: str
) -> None:
    shell.env.update(variables)
    code, line = shell.refused("serve", "app:app", "--port", "0")
    assert code == 1
    assert line.startswith(f"toolwright: {said}")
    assert "hidden" not in line


def test_a_variable_for_the_processes_of_uvicorn_is_not_read(shell: Shell) -> None:
    shell.env["WEB_CONCURRENCY"] = "many"
    with shell.start("serve", "--port", "0") as server:
        server.until("Ctrl-C stops it.")
        server.ctrl_c()
        assert server.end() == 0


def test_every_setting_stands_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert f"`TOOLWRIGHT_{name.upper()}`" in text, name


@pytest.mark.anyio
async def test_a_server_with_public_keys_alone_may_listen_anywhere() -> None:
    """The URL passes the check of its reach; the command fails because there is no database."""
    app = tw.App()
    closed = tw.Settings(database_url="sqlite:///nowhere/x.db")
    with pytest.raises(CannotServe):
        await serve(app, closed, host="0.0.0.0", port=0)
    with pytest.raises(tw.ToolwrightError, match="its folder does not exist"):
        await serve(app, tw.Settings(database_url="sqlite:///nowhere/x.db", **PEOPLE), host="0.0.0.0", port=0)


def test_the_level_of_the_log_may_be_written_in_capitals() -> None:
    settings = Settings.model_validate({"log": "INFO", "log_format": " Json"})
    assert (settings.log, settings.log_format) == ("info", "json")
    with pytest.raises(DefinitionError, match="TOOLWRIGHT_LOG is not valid"):
        Settings.model_validate({"log": "LOUD"})


NAMED = f"scraper(metrics)={LONG}"


def test_a_secret_key_may_have_a_name_and_a_scope_and_is_never_shown() -> None:
    settings = tw.Settings(secret_keys=(NAMED, "b64/key+with/signs=="))
    assert [(one.name, one.scope, one.key) for one in map(ServiceKey.read, settings.secret_keys)] == [
        ("scraper", "metrics", LONG),
        (None, "all", "b64/key+with/signs=="),
    ]
    assert LONG not in repr(settings)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            f"scraper(write)={LONG}",
            "the scope of the key 'scraper' must be metrics, read or all, not 'write'",
        ),
        (f"scraper()={LONG}", "must be metrics, read or all, not ''"),
        ("scraper(metrics)=short", "can be guessed"),
    ],
)
def test_a_named_key_that_is_not_valid_is_refused(entry: str, said: str) -> None:
    with pytest.raises(DefinitionError, match="The setting TOOLWRIGHT_SECRET_KEYS is not valid") as refused:
        tw.Settings(secret_keys=(entry,))
    assert said in refused.value.message
    assert LONG not in refused.value.message


def test_a_named_key_is_no_public_key() -> None:
    given: dict[str, Any] = {**PEOPLE, "public_keys": [LONG], "secret_keys": [NAMED]}
    with pytest.raises(DefinitionError, match="must not be a secret key too"):
        tw.Settings(**given)


def test_keys_new_prints_a_key_with_a_name_and_a_scope(empty: Shell) -> None:
    printed = empty.run("keys", "new", "--name", "scraper", "--scope", "metrics").stdout.strip()
    read = ServiceKey.read(printed)
    assert (read.name, read.scope) == ("scraper", "metrics")
    assert tw.Settings(secret_keys=(printed,)).secret_keys == (printed,)
    empty.env["TOOLWRIGHT_SECRET_KEYS"] = f"{printed},{LONG}"
    assert "2 secret keys: scraper (metrics)" in empty.run("doctor", "--port", "0").stdout.replace("\n", " ")
    for wrong in (("--name", "a b"), ("--name", "scraper", "--scope", "write"), ("--scope", "read")):
        refused = empty.run("keys", "new", *wrong)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1


FILED = {
    "database_url": "sqlite:///filed.db",
    "encryption_keys": base64.urlsafe_b64encode(b"k" * 32).decode(),
    "secret_keys": LONG,
    "jwt_secret": SECRET,
    "sentry_dsn": "https://key@sentry.example/1",
}
SHOWN = "import json, toolwright as tw; print(json.dumps(tw.Settings().model_dump(mode='json')))"


def filed(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Return the settings as JSON, of a process with these variables."""
    kept = {name: each for name, each in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    return subprocess.run(
        [sys.executable, "-c", SHOWN],
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_secret_can_stand_in_a_file(tmp_path: Path) -> None:
    assert set(FILED) == set(SECRETS)
    variables = {"TOOLWRIGHT_PUBLIC_KEYS": "pk"}
    for name, text in FILED.items():
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
        variables |= {f"TOOLWRIGHT_{name.upper()}_FILE": name, f"TOOLWRIGHT_{name.upper()}": ""}
    read = json.loads(filed(tmp_path, **variables).stdout)
    expected = {name: [text] if name.endswith("_keys") else text for name, text in FILED.items()}
    assert {name: read[name] for name in FILED} == expected
    assert warning(variables, list(Settings.model_fields)) is None


def test_keys_in_a_file_stand_in_lines_of_their_own_or_between_commas(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(f"{NAMED}\r\n{LONG}1,{LONG}2\r\n\r\n".encode())
    read = json.loads(filed(tmp_path, TOOLWRIGHT_SECRET_KEYS_FILE="keys").stdout)
    assert read["secret_keys"] == [NAMED, f"{LONG}1", f"{LONG}2"]


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (None, {}, "TOOLWRIGHT_SECRET_KEYS_FILE: the file 'keys' cannot be read: No such file or directory."),
        (b"\xff\xfe", {}, "'keys' cannot be read: it is not UTF-8 text."),
        (b" \n", {}, "TOOLWRIGHT_SECRET_KEYS_FILE: the file 'keys' is empty."),
        (b"k" * 70_000, {}, "is larger than 64 KiB."),
        (b"short", {}, "The setting TOOLWRIGHT_SECRET_KEYS is not valid: a secret key of fewer"),
        (
            LONG.encode(),
            {"TOOLWRIGHT_SECRET_KEYS": LONG},
            "Set TOOLWRIGHT_SECRET_KEYS or TOOLWRIGHT_SECRET_KEYS_FILE, not both.",
        ),
    ],
)
def test_a_file_of_a_secret_that_is_not_right_is_one_sentence(
    empty: Shell, content: bytes | None, more: dict[str, str], said: str
) -> None:
    if content is not None:
        (empty.folder / "keys").write_bytes(content)
    empty.env |= {"TOOLWRIGHT_SECRET_KEYS_FILE": "keys", **more}
    _, line = empty.refused("db", "upgrade")
    assert said in line
    assert LONG not in line


def test_a_setting_given_in_python_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWRIGHT_SECRET_KEYS_FILE", str(tmp_path / "absent"))
    assert tw.Settings(secret_keys=(LONG,)).secret_keys == (LONG,)


def test_an_empty_variable_means_that_nothing_is_set(tmp_path: Path) -> None:
    empty = {f"TOOLWRIGHT_{name.upper()}": "" for name in Settings.model_fields}
    assert json.loads(filed(tmp_path, **empty).stdout) == json.loads(filed(tmp_path).stdout)
    assert tw.Settings(model=" ").model is None


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("scr aper(read)=sk_0123456789abcdef0", "must not contain parentheses or blanks"),
        ("ops (read)=sk_opsopsopsopsops00", "must not contain parentheses or blanks"),
        ("x(read) =sk_xxxxxxxxxxxxxxxx", "must not contain parentheses or blanks"),
        ("scraper=sk_0123456789abcdef0", "'=' only at its end"),
        ("dup(read)=sk_dupdupdupdupdup0,sk_dupdupdupdupdup0", "must be listed once"),
    ],
)
def test_an_entry_that_was_meant_to_have_a_name_is_no_key(keys: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        Settings(secret_keys=tuple(keys.split(",")))
    # base64 ends with these characters
    assert Settings(secret_keys=("c2VjcmV0LXNlY3JldC1rZXk==",)).secret_keys


def test_a_fifo_is_no_file_of_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setenv("TOOLWRIGHT_SECRET_KEYS_FILE", str(tmp_path / "fifo"))
    with pytest.raises(DefinitionError, match="is not a file"):
        Settings()
