"""Our own messages about a handler's texts are cut only after whole secrets were removed from them (D6)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import toolwright as tw
from tests.databases import sqlite_journal
from tests.kit import Watched, raising, send_to
from tests.runtime.rig import Rig, running
from tests.runtime.test_env import script
from tests.secrets.leaks import leaked_on_disk
from toolwright.adapters.files import open_folder
from toolwright.adapters.models.providers.provider import translate
from toolwright.core.errors import ModelRefused
from toolwright.core.journal.store import Store
from toolwright.core.model import Model, ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.event import Event, Topic
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio

SECRET = "k4nary" + "".join(f"-{number * 7919 % 9973:04}" for number in range(40))
STARTS = (10, 45, 85, 180)
"""Characters before the secret: cuts at 60, 100 and 200 characters pass through it."""


def rests(texts: Sequence[str]) -> list[str]:
    """Return eight consecutive characters of the secret that one of the texts contains."""
    parts = [SECRET[at : at + 8] for at in range(len(SECRET) - 7)]
    return [part for text in texts for part in parts if part in text]


@tw.tool(description="Repeat what is wrong.")
async def repeat(state: tw.ThreadState, way: str, start: int) -> str | tw.ToolResult:
    """Make the runtime produce a message about a text that contains the secret."""
    text = "p" * start + (await state.env("KEY") or "") + "q" * 300
    match way:
        case "read":
            await state.read_file(text)
        case "name":
            state.set_env(text + "\n", "x")
        case "refer":
            ref = await state.write_file("a.txt", "x")
            return tw.ToolResult.ok("x", (replace(ref, path=text),))
        case "data":
            file = tw.Attachment(name=text, mime_type="text/plain", data="?")
            return tw.ToolResult.ok("x", (file,))
        case "raise":
            raise ValueError(text)
        case _:
            await state.write_file(text + "\n", "x")
    return "done"


class Once:
    """A model that gives one answer, and then is done."""

    name = "test:once"

    def __init__(self, *answer: ModelEvent) -> None:
        self.answer = answer

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        for event in self.answer if request.step == 1 else (ModelResponse(text="Done."),):
            yield event


async def played(folder: Path, model: Model, tools: Sequence[tw.Tool] = ()) -> list[str]:
    """Return everything that a run with that model records and shows."""

    async def store(bus: MemoryBus) -> Store:
        return await sqlite_journal(folder / "journal.db", bus.publish)

    seen: list[Event] = []
    async with running(model, tools, store=store, files=open_folder(folder / "files")) as rig:
        thread = await rig.rt.threads.create("tester", env={"KEY": SECRET})
        follower = asyncio.create_task(_follow(rig, thread.id, seen))
        run = await rig.rt.threads.send(thread.id, "Go")
        run = await rig.rt.runs.wait(run.id, 10)
        await follower
        calls = await rig.rt.calls.list(status=None)
        shown = [repr(seen), repr(await rig.transcript(thread.id)), repr(run), repr(calls)]
    return [*shown, *_on_disk(folder)]


def _on_disk(folder: Path) -> list[str]:
    return [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]


async def _follow(rig: Rig, thread_id: str, seen: list[Event]) -> None:
    async for event in rig.rt.events.follow(Topic(kind="thread", id=thread_id), 0):
        seen.append(event)
        if event.type in ("run.completed", "run.failed"):
            return


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("way", ["read", "name", "refer", "data", "raise", "write"])
async def test_no_message_about_a_tools_error_holds_a_cut_secret(
    tmp_path: Path, way: str, start: int
) -> None:
    arguments = json.dumps({"way": way, "start": start})
    call = ModelCall(id="c", name="repeat", arguments=arguments)
    shown = await played(tmp_path, Once(ModelResponse(calls=(call,))), [repeat])
    assert "'error'" in shown[1]
    assert rests(shown) == []
    assert leaked_on_disk(tmp_path, SECRET) == []


@pytest.mark.parametrize("start", [1_850, 1_950])
async def test_a_models_long_error_holds_no_cut_secret(tmp_path: Path, start: int) -> None:
    error = RuntimeError("e" * start + SECRET + "e" * 300)
    shown = await played(tmp_path, Watched(before=raising(error)))
    assert "The model failed" in shown[2]
    assert rests(shown) == []


@pytest.mark.parametrize("start", [350, 450])
async def test_a_providers_long_error_holds_no_cut_secret(tmp_path: Path, start: int) -> None:
    async def refuse(_: ModelRequest) -> None:  # within the run, whose secrets are known there
        raise ModelRefused(translate("test", OSError("e" * start + SECRET + "e" * 300)).message)

    shown = await played(tmp_path, Watched(before=refuse))
    assert "is unavailable" in shown[2]
    assert rests(shown) == []


async def test_a_tool_whose_name_is_a_secret_is_still_called(tmp_path: Path) -> None:
    @tw.tool(description="Be called.", name=SECRET[:40].replace("-", "_"))
    async def named() -> str:
        return "called"

    model = script(named.name)
    async with running(model, [named]) as rig:
        run = await send_to(rig.rt, "tester", env={"KEY": named.name})
        await rig.rt.runs.wait(run.id, 10)
        message = (await rig.transcript(run.thread_id))[2]
        assert (message.content, message.tool_name) == ("called", named.name)
