"""Runs that wait for values across restarts: of the process, of the app, of the keys."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

import toolwright as tw
from tests.conformance.test_values import put, row
from tests.databases import OpenStore, database, opened
from tests.kit import calls
from tests.play import AT, token
from tests.runtime.rig import Rig, running
from tests.runtime.test_variables import KEY, REGION, parked, searching
from toolwright.adapters.cipher import FernetCipher
from toolwright.core.errors import NotFound, VariablesRequired
from toolwright.core.journal.units import SetEnv
from toolwright.testing import MemoryBus, ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenStore]:
    async with database(request.param, tmp_path) as url:
        yield lambda bus: opened(url, bus)


def regional(seen: list[Any]) -> tw.Tool:  # values that the tool saw
    @tw.tool(description="Search.", variables=[tw.Variable("REGION")])
    async def search(state: tw.ThreadState) -> str:
        seen.append(await state.env("REGION"))
        return "Found."

    return search


def script() -> ScriptedModel:
    return ScriptedModel([calls("search"), {"text": "Done."}])


async def left_waiting(store: OpenStore, tool: tw.Tool) -> tuple[str, str, str]:
    """Run a process that ends while its run waits. Return the thread, the run, the request."""
    async with running(script(), [tool], store=store) as rig:
        run = await rig.send()
        return run.thread_id, run.id, await parked(rig, run.id)


async def completed(rig: Rig, run_id: str) -> None:
    run = await rig.rt.runs.wait(run_id, 10)
    assert (run.status, run.output) == ("completed", "Done.")


async def test_a_request_is_answered_in_another_process(store: OpenStore) -> None:
    seen: list[Any] = []
    thread_id, run_id, request_id = await left_waiting(store, regional(seen))
    async with running(script(), [regional(seen)], store=store) as rig:
        assert (await rig.rt.requests.get(thread_id, request_id)).missing == ("REGION",)
        await rig.rt.requests.answer(thread_id, request_id, {"REGION": REGION})
        await completed(rig, run_id)
    assert seen == [REGION]


async def test_a_value_set_while_no_process_ran_resumes_the_run(store: OpenStore) -> None:
    seen: list[Any] = []
    thread_id, run_id, _ = await left_waiting(store, regional(seen))
    journal = await store(MemoryBus())
    values = put(row(thread_id, "REGION", REGION))
    await journal.commit(SetEnv(token=token(), at=AT, thread_id=thread_id, env=values))
    await journal.close()
    async with running(script(), [regional(seen)], store=store) as rig:
        await completed(rig, run_id)
    assert seen == [REGION]


@pytest.mark.parametrize("layer", ["app_env", "options", "prompt_options"])
async def test_an_app_that_brings_the_value_lets_the_run_go_on(layer: str, store: OpenStore) -> None:
    seen: list[Any] = []
    _, run_id, _ = await left_waiting(store, regional(seen))
    env = {"REGION": REGION}
    options: dict[str, Any] = {layer: env if layer == "app_env" else {"env": env}}
    async with running(script(), [regional(seen)], store=store, **options) as rig:
        await completed(rig, run_id)
    assert seen == [REGION]


async def test_a_tool_that_needs_the_value_no_more_lets_the_run_go_on(store: OpenStore) -> None:
    seen: list[Any] = []
    thread_id, run_id, request_id = await left_waiting(store, regional(seen))

    @tw.tool(description="Search.")
    async def search() -> str:
        return "Found."

    async with running(script(), [search], store=store) as rig:
        with suppress(NotFound):  # it can have checked by itself
            await rig.rt.requests.answer(thread_id, request_id, {})
        await completed(rig, run_id)


async def test_a_value_under_an_older_key_counts_and_one_under_a_lost_key_is_asked_for(
    tmp_path: Path,
) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    seen: list[Any] = []

    def at(folder: Path) -> OpenStore:
        return lambda bus: opened(f"sqlite:///{folder / 'journal.db'}", bus)

    async with running(script(), [searching(seen)], store=at(first), cipher=FernetCipher([old])) as rig:
        run = await rig.send()
        request_id = await parked(rig, run.id)
        with pytest.raises(VariablesRequired):
            await rig.rt.requests.answer(run.thread_id, request_id, {"API_KEY": KEY})
    shutil.copytree(first, second)
    async with running(script(), [searching(seen)], store=at(first), cipher=FernetCipher([new, old])) as rig:
        assert (await rig.rt.requests.get(run.thread_id, request_id)).missing == ("REGION",)
        await rig.rt.requests.answer(run.thread_id, request_id, {"REGION": REGION})
        await completed(rig, run.id)
    async with running(script(), [searching(seen)], store=at(second), cipher=FernetCipher([new])) as rig:
        assert (await rig.rt.requests.get(run.thread_id, request_id)).missing == ("API_KEY", "REGION")
        await rig.rt.requests.answer(run.thread_id, request_id, {"API_KEY": KEY, "REGION": REGION})
        await completed(rig, run.id)
    assert seen == [(KEY, REGION, "text")] * 2
