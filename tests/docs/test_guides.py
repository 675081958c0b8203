"""The code of README and guides runs unchanged."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.twin import TWINS
from tests.forks import Forks
from tests.models.wire_server import WireCall, WireServer
from toolwright.wiring.settings import Settings

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = [*GUIDES, ROOT / "docs" / "durability.md"]
"""Pages with programs."""
BLOCK = re.compile(r"```python(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)```", re.DOTALL)
OUTPUT = re.compile(r"```text title=\"Output\"\n(.*?)```", re.DOTALL)
TITLED = re.compile(r"```(?:python|yaml) title=\"(?P<title>[^\"]+)\"\n(?P<code>.*?)```", re.DOTALL)
SERVED = ("client", "django", "outside-workers", "people")
"""Pages whose block `app.py` is served, with the settings of their `export` lines, while their program calls it."""
EXPORT = re.compile(r"^export (\w+)=(\S+)$", re.MULTILINE)
pytestmark = pytest.mark.anyio


def blocks(path: Path) -> str:
    """Return all Python of a page as one program, except the blocks of separate files."""
    found = BLOCK.finditer(path.read_text(encoding="utf-8"))
    return "\n".join(match["code"] for match in found if match["title"] in (None, "app.py"))


def write_files(path: Path, folder: Path) -> None:
    """Write the blocks of a page whose titles are file names into the folder of its program."""
    for match in TITLED.finditer(path.read_text(encoding="utf-8")):
        (folder / match["title"]).write_text(match["code"], encoding="utf-8")


def program(page: Path) -> str:
    """Return the program of a page, with the scripted twin of its models if it has one."""
    play = (
        f"from tests.docs.twin import play\nplay({page.stem!r})\n"
        if (TWINS / f"{page.stem}.yaml").exists()
        else ""
    )
    return play + blocks(page)


def pattern(shown: str) -> str:
    """Return the pattern of an output as a page shows it: `…` stands for any text, two spaces for a tab."""
    return re.escape(shown).replace("…", ".*").replace(r"\ \ ", r"\s+")


def environment(server: WireServer) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    return kept | {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"{server.base_url}/v1"}


async def run(*command: str, folder: Path, environ: dict[str, str] | None = None, typed: str = "") -> str:
    """Return the output of the command, with `typed` as its input. It must succeed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(
        110
    ):  # a program starts slowly on a busy machine; the test itself times out after 120 s
        out, err = await process.communicate(typed.encode())
    assert process.returncode == 0, (out + err).decode()
    return out.decode()


@pytest.mark.parametrize(
    "guide", [page for page in GUIDES if page.stem not in SERVED], ids=lambda path: path.stem
)
def test_the_code_of_a_guide_runs(guide: Path, tmp_path: Path, commands: Forks) -> None:
    write_files(guide, tmp_path)
    (tmp_path / "page.py").write_text(program(guide), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # programs can start `toolwright`
    done = commands.run([], tmp_path, {**os.environ, "PATH": path}, program="page.py")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    shown = "".join(OUTPUT.findall(guide.read_text(encoding="utf-8")))
    assert re.fullmatch(pattern(shown), done.stdout), f"shown:\n{shown}\nprinted:\n{done.stdout}"


@pytest.mark.parametrize("page", SERVED)
def test_the_program_of_a_guide_calls_its_server(page: str, tmp_path: Path, commands: Forks) -> None:
    text = (ROOT / "docs" / "guides" / f"{page}.md").read_text(encoding="utf-8")
    write_files(ROOT / "docs" / "guides" / f"{page}.md", tmp_path)
    (tmp_path / "serve.py").write_text(SERVE.format(page=page), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    environ = kept | dict(EXPORT.findall(text)) | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "serve.py"], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = re.findall(r"http://[^/, ]+\d", server.stdout.readline())[0]
            code = "\n".join(match["code"] for match in BLOCK.finditer(text) if match["title"] is None)
            (tmp_path / "page.py").write_text(code.replace("http://127.0.0.1:8000", url), encoding="utf-8")
            done = commands.run([], tmp_path, environ, program="page.py")
        finally:
            server.terminate()
    assert done.returncode == 0, done.stderr
    shown = "".join(OUTPUT.findall(text))
    assert re.fullmatch(pattern(shown), done.stdout), f"shown:\n{shown}\nprinted:\n{done.stdout}"


SERVE = """\
import runpy
import sys

from tests.docs.twin import play

play({page!r})
sys.argv = ["toolwright", "serve", "app:app", "--port", "0"]
runpy.run_module("toolwright.cli", run_name="__main__")
"""


def test_every_twin_has_a_page() -> None:
    assert {twin.stem for twin in TWINS.iterdir()} <= {page.stem for page in GUIDES}


async def test_the_guide_to_tests_runs_in_a_new_process_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(blocks(ROOT / "docs" / "guides" / "testing.md"), encoding="utf-8")
    await run(sys.executable, "-W", "error", "page.py", folder=tmp_path)


async def test_the_payment_of_the_readme_waits_over_a_kill_and_is_made_once(
    tmp_path: Path, commands: Forks
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    write_files(ROOT / "README.md", tmp_path)
    async with asyncio.timeout(110), WireServer() as server:

        async def command(*arguments: str) -> str:
            done = await asyncio.to_thread(commands.run, arguments, tmp_path, environment(server))
            return done.stdout

        async def started(*arguments: str) -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(
                sys.executable, *arguments, cwd=tmp_path, env=environment(server), stdout=subprocess.DEVNULL
            )

        server.answer(
            calls=[WireCall(id="c1", name="pay", arguments=(json.dumps({"to": "Ann", "amount": 5}),))]
        )
        server.answer(text=["Ann has her 5 euros."])

        async def until(*arguments: str) -> str:
            """Run a command until it prints something."""
            while not (printed := await command(*arguments)):  # noqa: ASYNC110 - another process does what it waits for
                await asyncio.sleep(0.1)
            return printed

        asking = await started("pay.py")
        try:
            waiting = await until("calls")
        finally:
            asking.kill()
            await asking.wait()
        approved = await command("approve", waiting.split("\t")[0])
        serving = await started("-m", "toolwright.cli", "serve", "pay:app", "--port", "0")
        try:
            await until("runs", "list", "--status", "completed")
        finally:
            serving.terminate()
            await serving.wait()
    charged = (tmp_path / "charged.txt").read_text(encoding="utf-8")
    assert re.fullmatch(pattern(shown), waiting + approved + charged)


async def test_a_call_that_a_death_interrupts_runs_again_with_the_same_key(
    tmp_path: Path, commands: Forks
) -> None:
    page = ROOT / "docs" / "durability.md"
    write_files(page, tmp_path)
    [shown] = re.findall(r"```text\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    async with WireServer() as server:

        async def worker(part: str) -> str:
            environ = environment(server)
            done = await asyncio.to_thread(commands.run, [part], tmp_path, environ, program="worker.py")
            return done.stdout

        server.answer(calls=[WireCall(id="c1", name="charge", arguments=(json.dumps({"euros": 5}),))])
        server.answer(text=["I have charged 5 euros."])
        printed = await worker("first") + await worker("second")
    assert re.fullmatch(pattern(shown), printed)
    first, second = re.findall(r"key (\S+)", printed)
    assert first == second


def test_every_setting_is_in_the_guide_to_them() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `TOOLWRIGHT_(\w+)`", page, re.MULTILINE)
    assert sorted(name.lower() for name in listed) == sorted(Settings.model_fields)


def test_every_guide_is_linked_from_the_index_and_the_readme_leads_there() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [guide.name for guide in GUIDES if f"(guides/{guide.name})" not in index] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    further = readme[readme.index("## Read on") :]
    assert "(docs/index.md)" in further
    assert further.count("](") <= 15


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
