"""Dockerfile, compose file and systemd unit: linted, and their commands run as they stand."""

import configparser
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.cli.shell import Shell
from tests.cli.test_serve import url_of
from toolwright.wiring.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
VARIABLE = re.compile(r"\$\{(\w+)(:[-?][^}]*)?\}")


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]  # keep the case of names
    parsed.read_string((ROOT / "deploy" / "toolwright.service").read_text(encoding="utf-8"))
    return parsed


def instructions(name: str) -> list[str]:
    """The arguments of an instruction of the Dockerfile, wherever it stands, on one line each."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)


def settings_among(names: set[str]) -> set[str]:
    return {name.removeprefix("TOOLWRIGHT_").lower() for name in names if name.startswith("TOOLWRIGHT_")}


def test_the_linter_of_dockerfiles_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "--no-color", "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_no_root_and_only_what_it_copies() -> None:
    assert instructions("USER") == ["10001"]
    sources = [each for line in instructions("COPY") if "--from" not in line for each in line.split()[:-1]]
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert kept[0] == "*"
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in kept, f"{source} is kept out of the build"


def test_what_is_installed_in_the_image_is_locked_by_hashes() -> None:
    locked = (ROOT / "requirements" / "server.txt").read_text(encoding="utf-8")
    names = re.findall(r"^([a-z0-9._-]+)==", locked, re.MULTILINE)
    assert {"fastapi", "asyncpg", "openai", "anthropic", "mcp"} <= set(names)
    assert locked.count("--hash=sha256:") > len(names)
    assert "://" not in locked
    newest = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    assert not [pin for pin in re.findall(r"^\S+==\S+", locked, re.MULTILINE) if pin not in newest]


def test_the_command_of_the_image_serves_and_its_health_check_sees_it(shell: Shell) -> None:
    [entry], [command] = instructions("ENTRYPOINT"), instructions("CMD")[-1:]
    [check] = [json.loads(line.partition("CMD ")[2]) for line in instructions("HEALTHCHECK")]
    arguments: list[str] = [*json.loads(entry), *json.loads(command)]
    assert arguments[:3] == ["toolwright", "serve", "app:app"]
    arguments[arguments.index("--port") + 1] = "0"
    shell.env["TOOLWRIGHT_SECRET_KEYS"] = "sk_0123456789abcdef"  # it listens on all addresses
    with shell.start(*arguments[1:]) as server:
        port = url_of(server).rpartition(":")[2]
        looked = [sys.executable, *check[1:-1], check[-1].replace(":8000", f":{port}")]
        assert subprocess.run(looked, capture_output=True).returncode == 0
        server.ctrl_c()
        assert server.end() == 0
    assert subprocess.run(looked, capture_output=True).returncode != 0


def test_the_compose_file_asks_for_what_its_example_lists_and_names_real_settings() -> None:
    services = COMPOSE["services"]
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    asked = {name for name, default in VARIABLE.findall(text) if default.startswith(":?")}
    listed = set(
        re.findall(r"^(\w+)=", (ROOT / "deploy" / "compose.env").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert asked <= listed
    assert listed <= {name for name, _ in VARIABLE.findall(text)}
    assert settings_among(set(services["toolwright"]["environment"])) <= Settings.model_fields.keys()
    mounted = {volume.partition(":")[0] for each in services.values() for volume in each["volumes"]}
    assert COMPOSE["volumes"].keys() <= mounted
    assert services["toolwright"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "healthcheck" in services["postgres"]


def test_the_unit_starts_the_server_with_real_settings() -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, arguments[:2]) == ("toolwright", ["serve", "app:app"])
    assigned = {each.partition("=")[0] for each in shlex.split(service["Environment"])}
    assert settings_among(assigned) <= Settings.model_fields.keys()
    assert service["KillSignal"] == "SIGTERM"
