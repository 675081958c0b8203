"""MCP programs from npm: locked, independent of the registry, and found or reported as missing."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.npm_peers import PROGRAMS, npm_program

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "npm"


def read(name: str) -> dict[str, Any]:
    """Return a document of the folder."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_every_package_is_named_by_its_exact_version_and_locked_by_a_hash_of_no_registry() -> None:
    wanted = read("package.json")["dependencies"]
    packages = read("package-lock.json")["packages"]
    assert packages.pop("")["dependencies"] == wanted
    assert {f"@modelcontextprotocol/{name}" for name in PROGRAMS} == set(wanted)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+(-[a-z]+\.\d+)?", version) for version in wanted.values())
    assert [name for name, package in packages.items() if "sha512-" not in package.get("integrity", "")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_without_a_program_from_npm_a_test_is_skipped_with_a_sentence_and_under_ci_it_fails(
    tmp_path: Path,
) -> None:
    with pytest.raises(pytest.skip.Exception, match="There is no 'inspector'"):
        npm_program("inspector", tmp_path, {})
    with pytest.raises(pytest.fail.Exception, match="There is no 'inspector'"):
        npm_program("inspector", tmp_path, {"CI": "true"})


@pytest.mark.peers
def test_the_conformance_suite_is_the_version_that_is_locked() -> None:
    done = subprocess.run(
        [*npm_program("conformance"), "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == read("package.json")["dependencies"]["@modelcontextprotocol/conformance"]
