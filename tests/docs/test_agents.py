"""Documentation for coding agents: the skill's programs run, and the wheel contains the skill and all pages."""

import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.test_guides import ROOT, TITLED
from tests.forks import Forks

SKILL = ROOT / "src" / "toolwright" / ".agents" / "skills" / "toolwright" / "SKILL.md"


def test_the_programs_of_the_skill_run(tmp_path: Path) -> None:
    for title, code in TITLED.findall(SKILL.read_text(encoding="utf-8")):
        (tmp_path / title).write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--toolwright-block-providers"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout


def test_the_skill_names_twenty_mistakes_and_existing_pages() -> None:
    text = SKILL.read_text(encoding="utf-8")
    assert re.findall(r"^(\d+)\. ", text, re.MULTILINE) == [str(number) for number in range(1, 21)]
    pages = re.findall(r"`((?:guides|reference)/[\w-]+\.md)`", text)
    assert [page for page in pages if not (ROOT / "docs" / page).exists()] == []


@pytest.mark.parametrize("code", ["not_found", "invalid_definition"])
def test_the_command_of_the_skill_explains_a_code(code: str, tmp_path: Path, commands: Forks) -> None:
    done = commands.run(["errors", code], tmp_path, os.environ)
    assert "What to do: " in done.stdout


@pytest.mark.slow
def test_the_wheel_contains_the_skill_and_every_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as contents:
        names = set(contents.namelist())
        index = contents.read("toolwright/docs/llms.txt").decode()
        whole = contents.read("toolwright/docs/llms-full.txt").decode()
        [metadata] = [contents.read(name).decode() for name in names if name.endswith("/METADATA")]
    pages = re.findall(r"^- \[.+\]\(([\w/.-]+\.md)\): \S", index, re.MULTILINE)
    assert len(pages) > 70
    assert {f"toolwright/docs/{page}" for page in pages} <= names
    assert [page for page in pages if f'<page path="{page}">' not in whole] == []
    assert f"toolwright/.agents/skills/toolwright/{SKILL.name}" in names
    assert "# Toolwright\n" in metadata
    assert re.findall(r"\]\((?!https?:)[^)]*\)", metadata) == []
    docs = {name for name in names if name.startswith("toolwright/docs/")}
    assert not [name for name in docs if "/decisions/" in name or not name.endswith((".md", ".txt"))]
