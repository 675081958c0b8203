"""A canary in every place where secrets could leak: it is found in none (D6)."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx2
import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.databases import sqlite_journal
from tests.runtime.rig import Rig, assert_valid, running
from tests.runtime.test_env import script
from tests.secrets.leaks import CANARY, KEY, WAYS, Calling, leak, leaked, leaked_on_disk
from toolwright.adapters.cipher import FernetCipher, KeyFileCipher
from toolwright.adapters.files import open_folder
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import CannotUnseal
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Unit
from toolwright.core.json_value import JSON
from toolwright.core.ports import Cipher
from toolwright.core.threads.event import Event, Topic
from toolwright.testing import MemoryBus
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

FERNET_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@dataclass
class Watched:
    """A run with its followers."""

    rig: Rig
    model: Calling
    events: list[Event] = field(default_factory=list[Event])

    async def follow(self, topic: Topic, until: str) -> None:
        async for event in self.rig.rt.events.follow(topic, 0):
            self.events.append(event)
            if event.type == until:
                return


@asynccontextmanager
async def watched(
    folder: Path,
    model: Calling,
    cipher: Cipher | None = None,
    tools: tuple[tw.Tool, ...] = (leak,),
    inline_wait: float = 1.0,
) -> AsyncGenerator[Watched]:
    async def store(bus: MemoryBus) -> Store:
        return await sqlite_journal(folder / "journal.db", bus.publish)

    async with running(
        model,
        tools,
        store=store,
        cipher=cipher or KeyFileCipher(folder / "journal.db.key"),
        files=open_folder(folder / "files"),
        settings=Settings(max_result_text=1_024),
        inline_wait=inline_wait,
    ) as rig:
        yield Watched(rig, model)


async def everything(seen: Watched, thread_id: str) -> str:
    """Return everything that a caller could read over HTTP."""
    options = GatewayOptions(clock=SystemClock())
    transport = httpx2.ASGITransport(create_gateway(seen.rig.rt, options), client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        paths = [f"/api/threads/{thread_id}{end}" for end in ("", "/messages", "/files")]
        paths += ["/api/threads", "/api/runs", "/api/calls?status=done,error&limit=100", "/api/agents"]
        for run in await seen.rig.rt.runs.list():
            paths += [f"/api/runs/{run.id}", f"/api/runs/{run.id}/events"]
        for file in await seen.rig.rt.files.list(thread_id):
            paths.append(f"/api/threads/{thread_id}/files{file.path}")
        answers = [await client.get(path) for path in paths]
        answers.append(await client.patch(f"/api/threads/{thread_id}/env", json={"env": {"CANARY": CANARY}}))
        assert {answer.status_code for answer in answers} == {200}
        return "\n".join(f"{answer.headers} {answer.text}" for answer in answers)


@requirement("S0-3-4", "S2-4.3-5")
async def test_the_canary_is_in_no_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with watched(tmp_path, Calling()) as seen:
        thread = await seen.rig.rt.threads.create("tester", env={"CANARY": CANARY})
        topic = Topic(kind="thread", id=thread.id)
        follower = asyncio.create_task(seen.follow(topic, "run.completed"))
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        run = await seen.rig.rt.runs.wait(run.id, 30)
        await follower
        assert (run.status, run.step_count) == ("completed", len(WAYS) + 1)
        transcript = await seen.rig.transcript(thread.id)
        assert_valid(transcript)
        live = [event for event in seen.events if event.n is None]
        assert {event.type for event in live} >= {"message.delta", "tool.progress"}
        read = await everything(seen, thread.id)
        assert "[redacted:CANARY]" in read
        for place, text in {
            "transcript": repr(transcript),
            "run": repr(run),
            "events": repr(seen.events),
            "model requests": "".join(seen.model.requests),
            "log": caplog.text,
            "http": read,
        }.items():
            assert leaked(text, CANARY, KEY) == [], place
        assert leaked_on_disk(tmp_path, CANARY, KEY) == []  # including the WAL: the journal is open
    assert leaked_on_disk(tmp_path, CANARY, KEY) == []


@requirement("S2-9.1-3")
async def test_a_secret_tenv_is_kept_and_hidden_like_any_secret(tmp_path: Path) -> None:
    class Keyed(BaseModel):
        api_key: Annotated[str, tw.Secret]
        place: str

    @tw.tool(description="Leak.", tenvs=Keyed)
    async def leak_tenv(state: tw.ThreadState) -> str:
        return f"{state.tenvs.place}: {state.tenvs.api_key}"

    model = script("leak_tenv")
    async with watched(tmp_path, model, tools=(leak_tenv,)) as seen:  # type: ignore[arg-type]  # a model too
        thread = await seen.rig.rt.threads.create("tester", tenvs={"api_key": CANARY, "place": "Ulm"})
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        await seen.rig.rt.runs.wait(run.id, 10)
        assert (await seen.rig.transcript(thread.id))[2].content == "Ulm: [redacted:api_key]"
    assert leaked_on_disk(tmp_path, CANARY) == []


@requirement("S2-4.3-5")
async def test_a_submitted_result_is_cleaned_before_it_is_kept(tmp_path: Path) -> None:
    outside = tw.Tool(name="outside", description="Ask.", kind="external", timeout=30.0)
    model = script("outside")
    async with watched(tmp_path, model, tools=(outside,)) as seen:  # type: ignore[arg-type]  # a model too
        thread = await seen.rig.rt.threads.create("tester", env={"CANARY": CANARY})
        waiting = asyncio.Event()
        opened = asyncio.create_task(_opened(seen, thread.id, waiting))
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        await opened
        [call] = await seen.rig.rt.calls.list()
        result: JSON = {"a": CANARY, "b": [f"x{CANARY}" * 200]}
        await seen.rig.rt.calls.submit(run.id, call.id, result)
        await seen.rig.rt.runs.wait(run.id, 10)
        assert leaked_on_disk(tmp_path, CANARY) == []
        assert "[redacted:CANARY]" in (await seen.rig.transcript(thread.id))[2].content


async def _opened(seen: Watched, thread_id: str, waiting: asyncio.Event) -> None:
    """Return when a call of the thread waits."""
    async for _ in seen.rig.rt.events.follow(Topic(kind="thread", id=thread_id), 0):
        if await seen.rig.rt.calls.list():
            waiting.set()
            return


async def test_a_path_with_a_secret_is_refused(tmp_path: Path) -> None:
    @tw.tool(description="Write.")
    async def write(state: tw.ThreadState) -> str:
        await state.write_file(f"{await state.env('KEY')}.txt", "x")
        return "Written."

    async with watched(tmp_path, script("write"), tools=(write,)) as seen:  # type: ignore[arg-type]  # a model too
        thread = await seen.rig.rt.threads.create("tester", env={"KEY": KEY})
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        await seen.rig.rt.runs.wait(run.id, 10)
        assert "This path contains a secret" in (await seen.rig.transcript(thread.id))[2].content
    assert leaked_on_disk(tmp_path, KEY) == []


def test_a_journal_with_secrets_does_not_open_without_its_key_file(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    prompt = tw.Prompt("tester", "You test.", model=script())
    app = tw.App(agents=[tw.Agent("tester", prompt)])

    async def use(env: dict[str, str] | None = None) -> None:
        async with app.runtime(settings, grace=0.1) as rt:
            await rt.threads.create("tester", env=env)

    asyncio.run(use())
    asyncio.run(use({"KEY": KEY}))
    key = tmp_path / "journal.db.key"
    kept = key.read_bytes()
    key.unlink()
    with pytest.raises(CannotUnseal, match="Restore it"):
        asyncio.run(use())
    key.write_bytes(kept)
    asyncio.run(use())


async def test_a_result_built_again_after_a_conflict_is_as_clean(tmp_path: Path) -> None:
    async with watched(tmp_path, Calling(("file",))) as seen:
        thread = await seen.rig.rt.threads.create("tester", env={"CANARY": CANARY})
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        raced: list[Unit] = []

        async def before(_: int, unit: Unit) -> None:
            files = getattr(unit, "files", ())
            if files and not raced:
                raced.append(unit)
                mine = tw.Attachment(name=files[0].file.name, mime_type="text/plain", data="aGk=")
                await seen.rig.rt.threads.post(thread.id, "Mine", [mine])

        seen.rig.store.before = before
        await seen.rig.rt.runs.wait(run.id, 10)
        assert raced
        assert len(await seen.rig.rt.files.list(thread.id)) == 3
    assert leaked_on_disk(tmp_path, CANARY) == []


@requirement("S2-4.3-5")
def test_nothing_is_left_by_a_process_that_was_killed(tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.secrets.child", str(tmp_path)]
    killed = subprocess.run([*script, "die"], capture_output=True, timeout=60, check=False)
    assert killed.returncode == -9, killed.stderr.decode()
    assert (tmp_path / "journal.db-wal").stat().st_size > 0
    assert leaked_on_disk(tmp_path, CANARY, KEY) == []
    recovered = subprocess.run([*script, "live"], capture_output=True, timeout=60, check=True)
    assert recovered.stdout.decode().strip() == "completed"
    assert leaked(killed.stderr.decode() + recovered.stderr.decode(), CANARY, KEY) == []
    assert leaked_on_disk(tmp_path, CANARY, KEY) == []


async def test_keys_are_rotated_by_listing_the_new_one_first(tmp_path: Path) -> None:
    new = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU="
    async with watched(tmp_path, Calling(("text",)), FernetCipher([FERNET_KEY])) as seen:
        thread = await seen.rig.rt.threads.create("tester", env={"CANARY": CANARY})
    async with watched(tmp_path, Calling(("text",)), FernetCipher([new, FERNET_KEY])) as seen:
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        await seen.rig.rt.runs.wait(run.id, 10)
        assert "Bearer [redacted:CANARY]!" in (await seen.rig.transcript(thread.id))[2].content
        await seen.rig.rt.keys.renew()
    async with watched(tmp_path, Calling(("text",)), FernetCipher([new])) as seen:
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        await seen.rig.rt.runs.wait(run.id, 10)
        assert "Bearer [redacted:CANARY]!" in (await seen.rig.transcript(thread.id))[-2].content


async def test_without_its_key_a_secret_is_an_error_for_the_tool_and_nothing_else(tmp_path: Path) -> None:
    async with watched(tmp_path, Calling(("text",)), FernetCipher([FERNET_KEY])) as seen:
        thread = await seen.rig.rt.threads.create("tester", env={"CANARY": CANARY})
    other = FernetCipher(["YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU="])
    async with watched(tmp_path, Calling(("text",)), other) as seen:
        run = await seen.rig.rt.threads.send(thread.id, "Go")
        run = await seen.rig.rt.runs.wait(run.id, 10)
        assert run.status == "completed"
        assert (
            "cannot be read with these encryption keys" in (await seen.rig.transcript(thread.id))[2].content
        )
