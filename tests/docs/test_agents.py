"""Documentation for coding agents: the skill's programs run, its statements hold, and the wheel contains all pages."""

import asyncio
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

import toolwright as tw
from tests.docs.test_guides import ROOT, TITLED
from tests.forks import Forks
from tests.kit import call

SKILL = ROOT / "src" / "toolwright" / ".agents" / "skills" / "toolwright" / "SKILL.md"


def test_the_programs_of_the_skill_run(tmp_path: Path) -> None:
    for title, code in TITLED.findall(SKILL.read_text(encoding="utf-8")):
        (tmp_path / title).write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--toolwright-block-providers"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "4 passed" in done.stdout, done.stdout


def test_the_skill_names_twenty_mistakes_and_existing_pages() -> None:
    text = SKILL.read_text(encoding="utf-8")
    assert re.findall(r"^(\d+)\. ", text, re.MULTILINE) == [str(number) for number in range(1, 21)]
    pages = re.findall(r"`((?:guides|reference)/[\w-]+\.md)`", text)
    assert [page for page in pages if not (ROOT / "docs" / page).exists()] == []
    assert len(text.split()) < 1_500


@tw.tool(read_only=True)
def pages(book: str, copies: int = 1) -> int:
    """Return how many pages a book has."""
    return 100 * copies


def scripted(*turns: object) -> tw.testing.ScriptedModel:
    return tw.testing.ScriptedModel([*turns, {"text": "Done."}])


def untyped() -> object:
    def echo(text) -> str:  # type: ignore[no-untyped-def]  # pyright: ignore[reportMissingParameterType,reportUnknownParameterType,reportUnknownVariableType]
        """Return the text."""
        return text  # pyright: ignore[reportUnknownVariableType]

    return tw.tool(echo)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def undescribed() -> object:
    def echo(text: str) -> str:
        return text

    return tw.tool(echo)


def without_a_provider() -> object:
    return tw.run_sync(tw.Agent("clerk", model="gpt-6.1-terra"), "Hello")


def without_anyone_to_answer() -> object:
    agent = tw.Agent("clerk", tools=tw.Toolset([pages]).requiring_approval())
    return tw.run_sync(agent, "Hello", model=scripted(call("pages", book="Emma")))


def continued_in_another_loop() -> object:
    agent = tw.Agent("clerk", model=scripted())
    thread = asyncio.run(tw.run(agent, "Hello")).thread_id
    return asyncio.run(tw.run(agent, "Hello", thread=thread))


def handed_over_without_a_description() -> object:
    critic = tw.Agent("critic", model=scripted())
    poet = tw.Agent("poet", model=scripted(), tools=["critic"])
    return tw.run_sync(poet, "Hello", app=tw.App(agents=[poet, critic]))


def named_without_an_app() -> object:
    return tw.run_sync("clerk", "Hello")


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (without_a_provider, tw.errors.RunFailed),
        (untyped, tw.errors.DefinitionError),
        (undescribed, tw.errors.DefinitionError),
        (without_anyone_to_answer, tw.errors.InvalidRequest),
        (continued_in_another_loop, tw.errors.NotFound),
        (handed_over_without_a_description, tw.errors.DefinitionError),
        (named_without_an_app, tw.errors.DefinitionError),
    ],
)
def test_a_mistake_of_the_skill_raises_its_error(
    mistake: Callable[[], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        mistake()


def test_a_number_as_text_is_an_invalid_argument() -> None:
    model = scripted(call("pages", book="Emma", copies="2"))
    result = tw.run_sync(tw.Agent("clerk", tools=[pages]), "Hello", model=model)
    assert [each.result and each.result.error_code for each in result.calls] == ["invalid_arguments"]


def test_a_condition_that_raises_asks_for_an_approval() -> None:
    tools = tw.Toolset([pages]).requiring_approval(
        approval=tw.Approval(when=lambda arguments: bool(arguments["copies"]))
    )
    asked: list[tw.CallWaiting] = []

    def approve(waiting: tw.CallWaiting) -> bool:
        asked.append(waiting)
        return True

    model = scripted(call("pages", book="Emma"))
    tw.run_sync(tw.Agent("clerk", tools=tools), "Hello", model=model, approve=approve)
    assert [waiting.arguments for waiting in asked] == [{"book": "Emma"}]


def test_a_run_at_its_limit_of_steps_completes_without_an_output() -> None:
    agent = tw.Agent("clerk", tools=[pages], max_steps=1)
    result = tw.run_sync(agent, "Hello", model=scripted(call("pages", book="Emma")))
    assert (result.status, result.output, result.stop_reason) == ("completed", None, "max_steps")


@pytest.mark.parametrize("code", ["not_found", "invalid_definition"])
def test_the_command_of_the_skill_explains_a_code(code: str, tmp_path: Path, commands: Forks) -> None:
    done = commands.run(["errors", code], tmp_path, os.environ)
    assert "What to do: " in done.stdout


@pytest.mark.slow
def test_the_wheel_of_a_source_distribution_contains_the_skill_and_every_page(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), "-t"]
    subprocess.run([*build, "sdist"], cwd=ROOT, capture_output=True, check=True)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as contents:
        contents.extractall(tmp_path, filter="data")
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    subprocess.run([*build, "wheel"], cwd=source, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as contents:
        names = set(contents.namelist())
        index = contents.read("toolwright/docs/llms.txt").decode()
        whole = contents.read("toolwright/docs/llms-full.txt").decode()
        [metadata] = [contents.read(name).decode() for name in names if name.endswith("/METADATA")]
    pages = re.findall(r"^- \[.+\]\(([\w/.-]+\.md)\): \S", index, re.MULTILINE)
    assert len(pages) > 70
    assert {f"toolwright/docs/{page}" for page in pages} <= names
    assert "```" not in index
    assert [page for page in pages if f'<page path="{page}">' not in whole] == []
    assert f"toolwright/.agents/skills/toolwright/{SKILL.name}" in names
    assert "# Toolwright\n" in metadata
    assert re.findall(r"\]\((?!https?:)[^)]*\)", metadata) == []
    docs = {name for name in names if name.startswith("toolwright/docs/")}
    assert not [name for name in docs if "/decisions/" in name or not name.endswith((".md", ".txt"))]
