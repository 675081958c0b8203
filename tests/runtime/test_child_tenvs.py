"""Tenvs of children: fixed in the call's declaration, or passed on by the caller; never inherited."""

from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.databases import OpenStore, store_on
from tests.kit import DONE, call, ran
from tests.runtime.family_rig import create, home, journal, worker
from tests.runtime.kin import kin
from toolwright import testing
from toolwright.core.errors import DefinitionError
from toolwright.core.journal.child_effects import Spawn
from toolwright.core.journal.units import Apply, Result, Unit

pytestmark = pytest.mark.anyio

KEY = "sk-0123456789-of-the-caller"


class ShopTenvs(BaseModel):
    shop_url: str
    per_page: int = 10


class KeyTenvs(BaseModel):
    api_key: Annotated[str, tw.Secret]


@tw.tool(description="Looks.", tenvs=ShopTenvs)
async def look(state: tw.ThreadState) -> str:
    return f"{state.tenvs.shop_url} {state.tenvs.per_page}"


@tw.tool(description="Uses a key.", tenvs=KeyTenvs)
async def use(state: tw.ThreadState) -> str:
    assert state.tenvs.api_key == KEY
    return f"used {state.tenvs.api_key}"


LOOKS = [call("look"), {"text": "Looked."}]
FIXED = {"tenvs": {"shop_url": "https://fixed.test"}}
PASSED = {"passTenvs": ["shop_url", "per_page"]}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (FIXED, "https://fixed.test 10"),
        (PASSED, "https://own.test 3"),
        ({"pass_tenvs": ["per_page"], **FIXED}, "https://fixed.test 3"),
        ({**PASSED, "resumable": {"receivesMessages": "side_a"}}, "https://own.test 3"),
        ({**PASSED, "blocking": False}, "https://own.test 3"),
        ({**PASSED, "immediate": True}, "https://own.test 3"),
    ],
    ids=["fixed", "passed", "both", "resumable", "not blocking", "immediate"],
)
async def test_a_child_is_given_its_tenvs_however_it_begins(config: dict[str, Any], found: str) -> None:
    begin = create(message="Do") if "resumable" in config else call("worker", message="Do")
    turns = [DONE] if "immediate" in config else [begin, DONE, DONE]
    async with home(worker(LOOKS, [look]), config, turns) as at:
        thread = await at.ran(tenvs={"shop_url": "https://own.test", "per_page": 3, "other": 1})
        [child] = await at.children(thread.id)
        for run in await at.rt.runs.list(thread_id=child.id):
            await at.rt.runs.wait(run.id, 10)
        assert await at.results(child.id) == [found]


async def test_what_is_passed_on_are_the_tenvs_as_the_caller_sees_them_those_of_its_prompt_too() -> None:
    config = tw.SubagentToolConfig(name="worker", pass_tenvs=("shop_url",))
    boss = tw.Prompt(
        "boss",
        model=testing.ScriptedModel([call("worker", message="Do"), DONE]),
        tools=[config],
        tenvs={"shop_url": "https://prompt.test"},
    )
    async with testing.runtime(tw.App(agents=[tw.Agent("boss", boss), worker(LOOKS, [look])])) as rt:
        run = await ran(rt, "boss")
        [child] = await rt.threads.children(run.thread_id)
        assert (await rt.threads.messages(child.id))[2].content == "https://prompt.test 10"


async def test_a_child_passes_on_what_it_was_given_itself() -> None:
    clerk = tw.Agent(
        "clerk",
        instructions="You look.",
        model=testing.ScriptedModel(LOOKS),
        tools=[look],
        expose_as_tool=True,
        tool_description="Looks.",
    )
    config: Any = {"name": "clerk", "passTenvs": ["shop_url"]}
    middle = worker([call("clerk", message="Look"), DONE], [config])
    boss = tw.Prompt(
        "boss",
        model=testing.ScriptedModel([call("worker", message="Do"), DONE]),
        tools=[tw.SubagentToolConfig(name="worker", tenvs={"shop_url": "https://boss.test"})],
    )
    async with testing.runtime(tw.App(agents=[tw.Agent("boss", boss), middle, clerk])) as rt:
        run = await ran(rt, "boss")
        [child] = await rt.threads.children(run.thread_id)
        [grandchild] = await rt.threads.children(child.id)
        assert (await rt.threads.messages(grandchild.id))[2].content == "https://boss.test 10"


@pytest.mark.parametrize(
    ("config", "missing", "words"),
    [
        ({}, ["shop_url"], "missing: shop_url"),
        ({"passTenvs": ["shop_url"]}, ["shop_url"], "missing: shop_url"),
        ({"tenvs": {"shop_url": 5}}, [], "shop_url must be a string, not a number"),
        (
            {"tenvs": {"shop_url": "x", "per_page": "many"}},
            [],
            "per_page must be an integer, not a string",
        ),
    ],
)
async def test_a_child_without_required_tenvs_does_not_begin_and_the_error_says_how_they_are_given(
    config: dict[str, Any], missing: list[str], words: str
) -> None:
    async with home(worker(LOOKS, [look]), config, [call("worker", message="Do"), DONE]) as at:
        thread = await at.ran()
        [result] = await at.results(thread.id)
        assert result["error_code"] == "tenvs_required"
        assert result["missing"] == missing
        assert result["error"] == (
            "The agent 'worker' cannot start: its tools require tenvs that are not set: "
            f"{words}. A child does not inherit tenvs. Set them with tenvs= or pass_tenvs= in its "
            "SubagentToolConfig."
        )
        assert await at.children(thread.id) == []


async def test_a_secret_that_is_passed_on_stays_one_in_the_child_and_is_sealed() -> None:
    worker_of_key = worker([call("use"), {"text": f"I used {KEY}."}], [use])
    async with home(worker_of_key, {"passTenvs": ["api_key"]}, [call("worker", message="Do"), DONE]) as at:
        thread = await at.ran(tenvs={"api_key": KEY})
        [child] = await at.children(thread.id)
        assert await at.results(child.id) == ["used [redacted:api_key]"]
        [row] = await journal(at.rt).env_of(child.id)
        assert (row.kind, row.type, row.key is not None) == ("tenv", "secret", True)
        assert KEY not in row.value
        assert KEY not in str(await at.results(thread.id))


async def test_a_child_that_is_put_off_has_its_tenvs_when_it_begins() -> None:
    key = tw.Variable("PIN", type="secret", required=True, scoped=True, description="Whose?")
    config = {**PASSED, "blocking": False}
    agent = worker(LOOKS, [look], variables=[key])
    async with home(agent, config, [call("worker", message="Do"), DONE, DONE]) as at:
        thread = await at.ran(tenvs={"shop_url": "https://own.test"})
        [request] = await at.rt.requests.list(thread.id)
        answered = await at.rt.requests.answer(thread.id, request.id, {"PIN": "pin-12345678"})
        assert answered.child_thread_id is not None
        [run] = await at.rt.runs.list(thread_id=answered.child_thread_id)
        await at.rt.runs.wait(run.id, 10)
        assert await at.results(answered.child_thread_id) == ["https://own.test 10"]


store = store_on("memory", "sqlite")


async def test_a_child_that_finds_no_room_at_its_commit_leaves_no_tenvs_behind(store: OpenStore) -> None:
    config: Any = {"name": "worker", **PASSED, "resumable": {"receivesMessages": "side_a", "maxInstances": 1}}
    model = testing.ScriptedModel([create(message="Hi"), DONE])
    boss = tw.Agent("boss", tw.Prompt("boss", model=model, tools=[config]))
    begun: list[str] = []
    async with kin(store, boss, worker(LOOKS, [look])) as rig:

        async def overtake(_: int, unit: Unit) -> None:
            spawned = (
                [each for each in unit.effects if isinstance(each, Spawn)] if isinstance(unit, Result) else []
            )
            for one in spawned:
                assert isinstance(unit, Result)
                assert [(each.owner, each.kind) for each in unit.env] == [(one.thread_id, "tenv")]
                begun.append(one.thread_id)
                other = Spawn(
                    thread_id="thr_other",
                    thread=replace(one.thread, id="thr_other", run_id="run_other"),
                    event=replace(one.event, thread_id="thr_other", event_id="msg_other"),
                    run=replace(one.run, id="run_other", thread_id="thr_other"),
                    queued=one.queued,
                )
                await rig.store.commit(Apply(token="other", at=unit.at, effects=(other,)))

        rig.store.before = overtake
        run = await ran(rig.rt, "boss", tenvs={"shop_url": "https://own.test"})
        assert run.output == "Done."
        [refused] = begun
        assert [each.id for each in await rig.rt.threads.children(run.thread_id)] == ["thr_other"]
        assert await rig.store.env_of(refused) == []


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"tenvs": ["a"]}, "tenvs must be an object"),
        ({"tenvs": {"a": object()}}, r"tenvs\.a input was not a valid JSON value"),
        ({"tenvs": {" ": 1}}, "has the name ' ': a name is printable"),
        ({"passTenvs": "shop_url"}, "passTenvs must be a list"),
        ({"passTenvs": [5]}, r"passTenvs\.0 must be text"),
        ({"pass_tenvs": ["a\n"]}, "has the name"),
        ({"tenvs": {"a": 1}, "passTenvs": ["a"]}, "'a' is in both tenvs and pass_tenvs; keep one of them"),
        ({"tenvs": {f"n{n}": 1 for n in range(5000)}}, "tenvs must have at most 1000 items"),
    ],
)
def test_an_invalid_configuration_is_refused(config: dict[str, Any], fault: str) -> None:
    with pytest.raises(DefinitionError, match=fault) as raised:
        tw.SubagentToolConfig.model_validate({"name": "worker", **config})
    assert raised.value.message.startswith("SubagentToolConfig is invalid: ")


def test_the_values_are_not_shown_where_the_configuration_is() -> None:
    assert KEY not in repr(tw.SubagentToolConfig(name="worker", tenvs={"api_key": KEY}))
