"""The pytest plugin, in separate pytest sessions; and the guard against requests to providers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai.models.test import TestModel

import toolwright as tw
from tests.forks import PYTEST, Forks
from tests.kit import ran
from toolwright import testing
from toolwright.adapters.models.embeddings import OpenAIEmbedder
from toolwright.core.errors import ModelRefused

pytestmark = pytest.mark.anyio

SHOP = """
import pytest
import toolwright as tw
from toolwright import testing

shop = tw.App(agents=[tw.Agent("shop", instructions="Be brief.", model="openai:gpt-6.1-terra")])


async def ask(rt):
    thread = await rt.threads.create("shop")
    return await rt.runs.wait((await rt.threads.send(thread.id, "Hi")).id, 30)
"""
FIXTURE = """
@pytest.mark.anyio
async def test_scripted(toolwright_runtime):
    async with toolwright_runtime(shop, model=testing.ScriptedModel([{"text": "Hello."}])) as rt:
        assert (await ask(rt)).output == "Hello."


@pytest.mark.anyio
async def test_asks(toolwright_runtime):
    async with toolwright_runtime(shop) as rt:
        assert (await ask(rt)).status == "failed"
"""
ASKS = """
@pytest.mark.anyio
async def test_asks():
    async with testing.runtime(shop) as rt:
        assert (await ask(rt)).status == "failed"


def test_asks_in_a_loop_of_its_own():
    with pytest.raises(tw.errors.RunFailed):
        tw.run_sync(tw.Agent("a", instructions="x", model="openai:gpt-6.1-terra"), "Hi")


@pytest.mark.toolwright_providers
@pytest.mark.anyio
async def test_marked():
    async with testing.runtime(shop) as rt:
        assert "OPENAI_API_KEY" in (await ask(rt)).error
"""
BLOCKED = (
    "This test would have sent a request to a provider for 'openai:gpt-6.1-terra'. Give the app a test model"
)


def pytest_in(
    folder: Path, *arguments: str, forks: Forks | None = None, **files: str
) -> subprocess.CompletedProcess[str]:
    """Run a pytest session over these files, as a user starts it, or in a fork, which takes less time."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    backend = "import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    (folder / "conftest.py").write_text(backend)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "PYTEST"))}
    others = ("-p", "no:cacheprovider", "-p", "no:schemathesis")  # loading them takes a second
    options = [*others, "-q", *arguments]
    if forks is not None:
        return forks.run(options, folder, environ, program=PYTEST)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_fixture_begins_runtimes_in_which_no_provider_is_asked(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = pytest_in(tmp_path, test_shop=SHOP + FIXTURE)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert BLOCKED in done.stdout


@pytest.mark.parametrize(
    ("ini", "arguments"),
    [("toolwright_block_providers = true\n", ()), ("", ("--toolwright-block-providers",))],
)
def test_where_it_is_opted_in_every_test_that_would_ask_a_provider_fails(
    tmp_path: Path, commands: Forks, ini: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\n{ini}")
    done = pytest_in(tmp_path, *arguments, forks=commands, test_shop=SHOP + ASKS)
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert done.stdout.count(BLOCKED) >= 2


def test_without_being_asked_for_it_guards_nothing(tmp_path: Path, commands: Forks) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = pytest_in(tmp_path, forks=commands, test_shop=SHOP + ASKS)
    assert "3 passed" in done.stdout, done.stdout


def test_tests_that_do_not_use_toolwright_load_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    text = """
import sys


def test_nothing():
    ours = {name for name in sys.modules if name.startswith("toolwright.")}
    assert ours == {"toolwright.pytest_plugin"}
    assert not {"pydantic", "sqlalchemy", "fastapi"} & {*sys.modules}
"""
    others = ("hypothesispytest", "langsmith_plugin")
    done = pytest_in(tmp_path, *[word for name in others for word in ("-p", f"no:{name}")], test_nothing=text)
    assert "1 passed" in done.stdout, done.stdout


async def test_no_provider_is_asked_within_the_block_and_its_end_names_the_models() -> None:
    app = tw.App(agents=[tw.Agent("shop", instructions="Be brief.", model="openai:gpt-6.1-terra")])
    embedder = OpenAIEmbedder("small", key="sk-test", base_url="http://127.0.0.1:1")

    async def ask() -> None:
        with testing.no_providers():
            async with testing.runtime(app) as rt:
                run = await ran(rt, "shop", "Hi")
                assert (run.status, run.error_code) == ("failed", "model_refused")
            with pytest.raises(ModelRefused, match="'openai:small' is a provider's"):
                await embedder.embed(["a"])

    with pytest.raises(
        AssertionError,
        match=r"sent a request to a provider for 'openai:gpt-6.1-terra', 'openai:small'\. Give the app",
    ):
        await ask()
    await embedder.aclose()


async def test_doubles_of_ours_and_of_pydantic_ai_are_no_providers() -> None:
    app = tw.App(agents=[tw.Agent("shop", instructions="Be brief.", model="openai:gpt-6.1-terra")])
    with testing.no_providers():
        for model in (testing.ScriptedModel([{"text": "Hi."}]), TestModel(custom_output_text="Hi.")):
            async with testing.runtime(app, model=model) as rt:
                thread = await rt.threads.create("shop")
                assert (await rt.runs.wait((await rt.threads.send(thread.id, "Hi")).id, 30)).output == "Hi."


async def test_an_error_of_the_block_comes_before_the_error_of_the_guard() -> None:
    app = tw.App(agents=[tw.Agent("shop", instructions="Be brief.", model="openai:gpt-6.1-terra")])
    with pytest.raises(LookupError), testing.no_providers():
        async with testing.runtime(app) as rt:
            await ran(rt, "shop", "Hi")
        raise LookupError("mine")
