"""Env and tenvs of threads: the source of a value, how it is set, and the values that a thread must have (D4, D5)."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.databases import sqlite_journal
from tests.kit import call
from tests.runtime.rig import Rig, running
from toolwright.core.errors import CannotSeal, Forbidden, InvalidRequest, NotFound, TenvsRequired
from toolwright.core.journal.store import Store
from toolwright.core.ports import Cipher
from toolwright.testing import MemoryBus, ScriptedModel

pytestmark = pytest.mark.anyio


def script(*calls: str) -> ScriptedModel:
    """Return a model that makes these calls, one per step, and then is done."""
    return ScriptedModel([*[call(name) for name in calls], {"text": "Done."}])


async def finished(rig: Rig, thread_id: str) -> str:
    """Send a message and wait for the run's end. Return its id."""
    run = await rig.rt.threads.send(thread_id, "Go")
    run = await rig.rt.runs.wait(run.id, 10)
    assert run.status == "completed", run.error
    return run.id


class SearchTenvs(BaseModel):
    store_id: str
    location: str | None = None
    key: Annotated[str, tw.Secret] = "none-given"


def seeing(seen: list[Any], names: tuple[str, ...]) -> tw.Tool:  # values that the tool saw
    @tw.tool(description="Look.")
    async def look(state: tw.ThreadState) -> str:
        seen.append([(await state.env(name), await state.env_type(name)) for name in names])
        return "Looked."

    return look


async def test_the_nearest_layer_wins() -> None:
    seen: list[Any] = []
    names = ("A", "B", "C", "D", "E")
    async with running(
        script("look"),
        [seeing(seen, names)],
        app_env=dict.fromkeys("BCD", "app"),
        options={"env": {**dict.fromkeys("CD", "agent"), "B": "agent"}},
        prompt_options={"env": {"D": "prompt", "E": {"value": "prompt", "type": "text"}}},
    ) as rig:
        thread = await rig.rt.threads.create(
            "tester", env={"A": "thread", "C": {"value": "thread", "type": "text"}}
        )
        await finished(rig, thread.id)
        assert seen == [
            [
                ("thread", "secret"),
                ("app", "secret"),
                ("thread", "text"),
                ("app", "secret"),
                ("prompt", "text"),
            ]
        ]


async def test_a_name_without_a_value_is_none_and_an_empty_text_is_a_value() -> None:
    seen: list[Any] = []
    async with running(script("look"), [seeing(seen, ("A", "B"))], app_env={"B": "app"}) as rig:
        thread = await rig.rt.threads.create("tester", env={"B": ""})
        await finished(rig, thread.id)
        assert seen == [[(None, None), ("", "secret")]]


async def test_what_a_handler_sets_it_reads_at_once_and_others_with_its_result() -> None:
    seen: list[Any] = []

    @tw.tool(description="Set.")
    async def put(state: tw.ThreadState) -> str:
        state.set_env("A", "mine", "text")
        state.set_env("B", None)
        seen.append([await state.env("A"), await state.env("B"), await state.env_type("A")])
        return "Set."

    async with running(script("put", "look"), [put, seeing(seen, ("A", "B"))], app_env={"B": "app"}) as rig:
        thread = await rig.rt.threads.create("tester", env={"B": "thread"})
        await finished(rig, thread.id)
        assert seen == [["mine", "app", "text"], [("mine", "text"), ("app", "secret")]]
        assert await rig.rt.threads.env(thread.id) == {"A": "text"}


async def test_what_a_handler_set_stays_also_with_an_error() -> None:
    @tw.tool(description="Fail.")
    async def fail(state: tw.ThreadState) -> str:
        state.set_env("A", "kept")
        raise RuntimeError("no")

    async with running(script("fail"), [fail]) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        assert await rig.rt.threads.env(thread.id) == {"A": "secret"}


async def test_a_value_set_from_outside_is_seen_by_the_next_call_of_the_same_run() -> None:
    seen: list[Any] = []
    rigs: list[Rig] = []
    threads: list[str] = []

    @tw.tool(description="Wait.")
    async def outside() -> str:
        await rigs[0].rt.threads.set_env(threads[0], {"A": "new"})
        return "Set."

    async with running(script("outside", "look"), [outside, seeing(seen, ("A",))]) as rig:
        rigs.append(rig)
        threads.append((await rig.rt.threads.create("tester", env={"A": "old"})).id)
        await finished(rig, threads[0])
        assert seen == [[("new", "secret")]]


async def test_a_value_is_taken_away_with_none() -> None:
    async with running(script()) as rig:
        thread = await rig.rt.threads.create("tester", env={"A": "a", "B": "b"})
        assert await rig.rt.threads.set_env(thread.id, {"A": None, "C": {"value": "c", "type": "text"}}) == {
            "B": "secret",
            "C": "text",
        }
        with pytest.raises(NotFound):
            await rig.rt.threads.set_env("thr_none", {"A": "a"})


@pytest.mark.parametrize(
    "env",
    [
        {"A": 1}, {"A": {"type": "text"}}, {"A": {"value": "x", "type": "number"}}, {"A": {"value": 1}}, {"": "x"},
        {"A": {"value": "x", "more": 1}}, {"A": "\x00"}, {"A": "\ud800"}, {"A\x00": "x"}, {"A" * 201: "x"},
        {"A": "x" * 70_000}, {1: "x"}, {"A\n": "x"}, {f"N{n}": "x" for n in range(1_001)},
        "A=x", ["A"], {"A": ["x"]}, {"A": None},
    ],
)  # fmt: skip
async def test_an_invalid_value_is_refused_and_never_repeated(env: Any) -> None:  # of any form on purpose
    async with running(script()) as rig:
        with pytest.raises(InvalidRequest) as caught:
            await rig.rt.threads.create("tester", env=env)
        assert caught.value.details[0]["path"].startswith("env")
        assert "xxx" not in caught.value.message
        assert await rig.rt.threads.list() == []


async def test_a_handler_that_sets_an_invalid_value_gets_the_error() -> None:
    @tw.tool(description="Set.")
    async def put(state: tw.ThreadState) -> str:
        state.set_env("", "x")
        return "Set."

    async with running(script("put"), [put]) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        result = (await rig.transcript(thread.id))[2]
        assert (result.status, "a name is printable" in result.content) == ("error", True)


@tw.tool(description="Search.", tenvs=SearchTenvs)
async def search(state: tw.ThreadState) -> dict[str, str | None]:
    return {"store": state.tenvs.store_id, "location": state.tenvs.location}


@requirement("S2-9.1-1", "S2-9.4-1")
async def test_tenvs_are_merged_prompt_agent_thread() -> None:
    async with running(
        script("search"),
        [search],
        prompt_options={"tenvs": {"store_id": "prompt", "location": "prompt"}},
        options={"tenvs": {"store_id": "agent"}},
    ) as rig:
        for given, store in (({}, "agent"), ({"store_id": "thread"}, "thread")):
            thread = await rig.rt.threads.create("tester", tenvs=given)
            await finished(rig, thread.id)
            shown = (await rig.transcript(thread.id))[2].content
            assert shown == f'{{"store":"{store}","location":"prompt"}}'


@requirement("S2-9.3-3")
async def test_a_thread_without_required_tenvs_is_not_created_and_all_names_are_reported() -> None:
    class More(BaseModel):
        user: str
        size: int

    @tw.tool(description="More.", tenvs=More)
    async def more() -> str:
        return ""

    async with running(script(), [search, more]) as rig:
        with pytest.raises(TenvsRequired) as caught:
            await rig.rt.threads.create("tester", tenvs={"size": "big", "location": 4, "key": 5})
        assert caught.value.missing == ["store_id", "user"]
        assert caught.value.invalid == [
            {"name": "location", "message": "must be a string or null, not a number"},
            {"name": "key", "message": "must be a string, not a number"},
            {"name": "size", "message": "must be an integer, not a string"},
        ]
        assert await rig.rt.threads.list() == []
        assert rig.store.units == []


@pytest.mark.parametrize(
    "tenvs", [["store_id"], "x", {"store_id": object()}, {1: "x"}, {"": "x"}, {"a\x00": 1}]
)
async def test_tenvs_that_are_no_json_object_are_refused(tenvs: Any) -> None:  # of any form on purpose
    async with running(script(), [search], prompt_options={"tenvs": {"store_id": "x"}}) as rig:
        with pytest.raises(InvalidRequest):
            await rig.rt.threads.create("tester", tenvs=tenvs)


async def test_a_thread_whose_agent_has_come_to_need_more_gets_an_error_result(tmp_path: Path) -> None:
    class Later(BaseModel):
        new_name: str

    async def file(bus: MemoryBus) -> Store:
        return await sqlite_journal(tmp_path / "journal.db", bus.publish)

    async with running(
        script("search"), [search], prompt_options={"tenvs": {"store_id": "x"}}, store=file
    ) as rig:
        thread = await rig.rt.threads.create("tester")

    @tw.tool(name="search", description="Search.", tenvs=Later)
    async def changed() -> str:
        return "never"

    async with running(script("search"), [changed], store=file) as rig:
        await finished(rig, thread.id)
        result = (await rig.transcript(thread.id))[2]
        assert '"error_code":"tenvs_required","missing":["new_name"]' in result.content


class NoKeys:
    """A cipher without keys."""

    key = None
    keys = ()

    def derived(self, purpose: str) -> tuple[bytes, ...]:
        return ()

    def seal(self, text: str) -> tuple[str, str]:
        raise CannotSeal

    def open(self, sealed: str) -> str:
        raise AssertionError(sealed)


async def test_without_keys_a_secret_is_refused_and_text_is_kept() -> None:
    @tw.tool(description="Set.")
    async def put(state: tw.ThreadState) -> str:
        state.set_env("A", "x")
        return "Set."

    cipher: Cipher = NoKeys()
    async with running(script("put"), [put], cipher=cipher) as rig:
        with pytest.raises(CannotSeal, match="TOOLWRIGHT_ENCRYPTION_KEYS"):
            await rig.rt.threads.create("tester", env={"A": "x"})
        assert await rig.rt.threads.list() == []
        thread = await rig.rt.threads.create("tester", env={"A": {"value": "x", "type": "text"}})
        with pytest.raises(CannotSeal):
            await rig.rt.threads.set_env(thread.id, {"B": "x"})
        await finished(rig, thread.id)
        assert "TOOLWRIGHT_ENCRYPTION_KEYS" in (await rig.transcript(thread.id))[2].content
        assert await rig.rt.threads.env(thread.id) == {"A": "text"}


async def test_a_persons_values_hold_in_their_threads_behind_the_threads_own() -> None:
    seen: list[Any] = []
    async with running(script("look", "look"), [seeing(seen, ("A", "B"))], app_env={"B": "app"}) as rig:
        people = rig.rt.entities
        ada = await people.create(external_id="user-ada")
        assert await people.set_env(ada.id, {"A": "ada", "B": {"value": "ada", "type": "text"}}) == {
            "A": "secret",
            "B": "text",
        }
        for user_id in (ada.id, "user-ada"):
            thread = await rig.rt.threads.create("tester", user_id, env={"A": "thread"})
            await finished(rig, thread.id)
        other = await rig.rt.threads.create("tester", "user-bob")
        await finished(rig, other.id)
        mine, theirs = [("thread", "secret"), ("ada", "text")], [(None, None), ("app", "secret")]
        assert seen == [mine] * 4 + [theirs] * 2
        await people.delete(ada.id)
        again = await people.create(external_id="user-ada")
        assert await people.env(again.id) == {}


async def test_values_of_an_unknown_user_or_of_an_agent_cannot_be_set() -> None:
    async with running(script()) as rig:
        with pytest.raises(NotFound):
            await rig.rt.entities.set_env("ent_none", {"A": "x"})
        with pytest.raises(Forbidden):
            await rig.rt.entities.set_env(rig.rt.agents.declared[0].entity_id, {"A": "x"})
