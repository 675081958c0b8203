"""Settings for people: what belongs together, and what is refused in one sentence."""

from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.cli.shell import Shell
from toolwright.core.errors import CannotServe, DefinitionError
from toolwright.wiring.gateway import serve
from toolwright.wiring.settings import Settings, warning

SECRET = "a-secret-that-is-long-enough-for-hs256"
LONG = "sk_0123456789abcdef"
PEOPLE: dict[str, Any] = {"public_keys": ["pk"], "jwt_secret": SECRET}
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "settings.md"


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
        ({"public_keys": ["pk"]}, "public_keys", "must be verified"),
        ({"embedder": "text-embedding-3-small"}, "embedder", "an embedder is a provider"),
        ({"embedder": "anthropic:x"}, "embedder", "an embedder is a provider"),
        ({"embedder": "openai:"}, "embedder", "an embedder is a provider"),
        ({"jwt_secret": SECRET}, "public_keys", "need one of the public_keys"),
        ({"jwt_jwks_url": "https://id.example/k"}, "public_keys", "need one of the public_keys"),
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


def test_the_environment_is_read_and_a_fault_names_its_variable(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_PUBLIC_KEYS"] = "pk_one,pk_two"
    for command in (["doctor"], ["serve", "--port", "0"]):
        done = shell.run(*command)
        assert done.returncode in (1, 2)
        assert (
            "TOOLWRIGHT_PUBLIC_KEYS is not valid: people's tokens must be verified"
            in done.stdout + done.stderr
        )
    shell.env["TOOLWRIGHT_JWT_SECRET"] = SECRET
    assert "2 public keys, no secret key" in shell.run("doctor", "--port", "0").stdout.replace("\n", " ")
    shell.env["TOOLWRIGHT_SECRET_KEYS"] = "sk_0123456789abcdef"
    assert "1 secret key, 2 public keys" in shell.run("doctor", "--port", "0").stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("origins", "said"),
    [
        ("shop.example", "an origin is a scheme and a host"),
        ("https://shop.example/", "without a path, not 'https://shop.example/'"),
        ("https://shop.example/app", "without a path"),
        ("https://", "an origin is a scheme and a host"),
        ("https://me@shop.example", "an origin is a scheme and a host"),
        ("null", "an origin is a scheme and a host"),
        ("https://shop.example,*", "give it alone"),
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
        "No setting is called so, and nothing reads it: TOOLWRIGHT_SECRET_KEY (did you mean TOOLWRIGHT_SECRET_KEYS?), "
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
    assert (code, line) == (1, "toolwright: The files folder 'app.py' cannot be written: Not a directory.")


def test_every_setting_stands_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert f"`TOOLWRIGHT_{name.upper()}`" in text, name


@pytest.mark.anyio
async def test_a_server_with_public_keys_alone_may_listen_anywhere() -> None:
    """It goes beyond the check of its reach, and ends at a database that is not there."""
    app = tw.App()
    closed = tw.Settings(database_url="sqlite:///nowhere/x.db")
    with pytest.raises(CannotServe):
        await serve(app, closed, host="0.0.0.0", port=0)
    with pytest.raises(tw.ToolwrightError, match="its folder is not there"):
        await serve(app, tw.Settings(database_url="sqlite:///nowhere/x.db", **PEOPLE), host="0.0.0.0", port=0)


def test_the_level_of_the_log_may_be_written_in_capitals() -> None:
    settings = Settings.model_validate({"log": "INFO", "log_format": " Json"})
    assert (settings.log, settings.log_format) == ("info", "json")
    with pytest.raises(DefinitionError, match="TOOLWRIGHT_LOG is not valid"):
        Settings.model_validate({"log": "LOUD"})
