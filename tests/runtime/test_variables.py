"""A run waits for missing values, and continues when they are provided (S0 §3, D4)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.behaviour.marks import requirement
from tests.databases import OpenStore, store_on
from tests.kit import DONE, Watched, calls, send_to
from tests.runtime.rig import Rig, assert_valid, running
from toolwright.core.errors import InvalidRequest, NotFound, VariablesRequired
from toolwright.core.journal.units import Answer, Leave, Park, Unit
from toolwright.core.threads.event import Topic
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.runtime.children.requests import Requests
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

KEY, REGION = "sk-0123456789", "eu-west"
VARIABLES = [
    tw.Variable("API_KEY", type="secret", description="The key"),
    tw.Variable("REGION", description="Where"),
    tw.Variable("HINT", required=False),
]


store = store_on("memory", "sqlite", "postgres")


def searching(seen: list[Any]) -> tw.Tool:  # values that the tool saw
    @tw.tool(description="Search.", variables=VARIABLES)
    async def search(state: tw.ThreadState) -> str:
        seen.append((await state.env("API_KEY"), await state.env("REGION"), await state.env_type("REGION")))
        return f"Found with {await state.env('API_KEY')}"

    return search


def searches() -> Watched:
    return Watched([calls("search"), DONE])


async def parked(rig: Rig, run_id: str) -> str:
    """Wait until the run is suspended. Return the id of its request."""
    async with asyncio.timeout(10):
        async for event in rig.rt.events.follow(Topic(kind="run", id=run_id), after=0):
            if event.type == "variables.required":
                return str(event.payload["requestId"])
    raise AssertionError("the events have an end")


async def asking(rig: Rig) -> tuple[str, str, str]:
    """Return a thread, its suspended run, and the request."""
    run = await rig.send()
    return run.thread_id, run.id, await parked(rig, run.id)


@requirement("S0-3-1", "S0-3-2", "S0-3-3")
async def test_a_run_waits_for_what_is_missing_before_a_model_is_asked(store: OpenStore) -> None:
    model, seen = searches(), list[Any]()
    async with running(model, [searching(seen)], store=store) as rig:
        thread_id, run_id, request_id = await asking(rig)
        run = await rig.rt.runs.get(run_id)
        assert (run.status, len(model.requests)) == ("waiting", 0)
        assert run.waiting == {
            "reason": "variables",
            "requestId": request_id,
            "missing": ["API_KEY", "REGION"],
            "variablesEndpoint": f"/threads/{thread_id}/variables/{request_id}",
        }
        wanted = await rig.rt.requests.get(thread_id, request_id)
        assert (wanted.agent_name, wanted.missing) == ("tester", ("API_KEY", "REGION"))
        assert wanted.required == tuple(VARIABLES[:2])
        done = await rig.rt.requests.answer(thread_id, request_id, {"API_KEY": KEY, "REGION": REGION})
        assert (done.request_id, done.child_thread_id) == (request_id, None)
        assert (await rig.rt.runs.wait(run_id, 10)).status == "completed"
        assert seen == [(KEY, REGION, "text")]
        assert await rig.rt.threads.env(thread_id) == {"API_KEY": "secret", "REGION": "text"}
        messages = await rig.transcript(thread_id)
        assert_valid(messages)
        assert messages[2].content == "Found with [redacted:API_KEY]"
        with pytest.raises(NotFound):
            await rig.rt.requests.get(thread_id, request_id)
        assert await rig.rt.requests.list(thread_id) == []


async def test_the_answer_goes_on_with_the_call_without_another_model_call() -> None:
    model, seen = Watched([calls("forget", "search"), DONE]), list[Any]()

    @tw.tool(description="Forget.")
    async def forget(state: tw.ThreadState) -> str:
        state.set_env("API_KEY", None)
        return "Forgotten."

    async with running(model, [searching(seen), forget]) as rig:
        run = await send_to(rig.rt, "tester", env={"API_KEY": KEY, "REGION": REGION})
        request_id = await parked(rig, run.id)
        assert len(model.requests) == 1
        assert (await rig.rt.requests.get(run.thread_id, request_id)).missing == ("API_KEY",)
        before = len(rig.store.units)
        await rig.rt.requests.answer(run.thread_id, request_id, {"API_KEY": KEY})
        await rig.rt.runs.wait(run.id, 10)
        assert (len(seen), len(model.requests)) == (1, 2)
        made = [type(unit).__name__ for unit in rig.store.units[before:]]
        assert made[made.index("Claim") :] == ["Claim", "Result", "Result", "Answer"]


async def test_a_part_of_the_values_is_kept_and_the_rest_is_named(store: OpenStore) -> None:
    seen: list[Any] = []
    async with running(searches(), [searching(seen)], store=store) as rig:
        thread_id, run_id, request_id = await asking(rig)
        with pytest.raises(VariablesRequired, match="'API_KEY'") as lacking:
            await rig.rt.requests.answer(thread_id, request_id, {"REGION": REGION})
        assert lacking.value.missing == ["API_KEY"]
        assert (await rig.rt.requests.get(thread_id, request_id)).missing == ("API_KEY",)
        assert await rig.rt.threads.env(thread_id) == {"REGION": "text"}
        assert (await rig.rt.runs.get(run_id)).status == "waiting"
        await rig.rt.requests.answer(thread_id, request_id, {"API_KEY": ""})  # an empty text is a value
        assert (await rig.rt.runs.wait(run_id, 10)).status == "completed"
        assert seen == [("", REGION, "text")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"OTHER": "x", "REGION": REGION}, "env.OTHER was not requested."),
        ({"HINT": "x", "REGION": REGION}, "env.HINT was not requested."),
        ({"API_KEY": {"value": "plain-text-value", "type": "text"}}, "env.API_KEY is declared as a secret."),
        ({"API_KEY": None}, "env.API_KEY must be text, or an object with value and type."),
        ({"API_KEY": 7}, "env.API_KEY must be text, or an object with value and type."),
        (["API_KEY"], "env must be an object of names and values."),
    ],
)
async def test_what_was_not_asked_for_is_refused_and_nothing_is_kept(given: Any, words: str) -> None:
    async with running(searches(), [searching([])]) as rig:
        thread_id, _, request_id = await asking(rig)
        with pytest.raises(InvalidRequest) as refused:
            await rig.rt.requests.answer(thread_id, request_id, given)
        assert refused.value.message == words
        assert await rig.rt.threads.env(thread_id) == {}


async def test_requests_that_are_not_there_are_all_alike() -> None:
    async with running(searches(), [searching([])]) as rig:
        thread_id, run_id, request_id = await asking(rig)
        other = await rig.rt.threads.create("tester")
        values = {"API_KEY": KEY, "REGION": REGION}
        for thread, request in (
            (other.id, request_id),
            (thread_id, "req_none"),
            (thread_id, "\x00"),
            ("", ""),
        ):
            with pytest.raises(NotFound, match="There is no open request"):
                await rig.rt.requests.get(thread, request)
            with pytest.raises(NotFound, match="There is no open request"):
                await rig.rt.requests.answer(thread, request, values)
        await rig.rt.requests.answer(thread_id, request_id, values)
        await rig.rt.runs.wait(run_id, 10)
        with pytest.raises(NotFound, match="There is no open request"):
            await rig.rt.requests.answer(thread_id, request_id, values)


async def test_many_answers_at_once_let_the_run_go_on_once(store: OpenStore) -> None:
    model, seen = searches(), list[Any]()
    async with running(model, [searching(seen)], store=store) as rig:
        thread_id, run_id, request_id = await asking(rig)
        parts = [{"API_KEY": KEY}, {"REGION": REGION}] * 10
        answers = await asyncio.gather(
            *[rig.rt.requests.answer(thread_id, request_id, part) for part in parts], return_exceptions=True
        )
        refused = {type(answer) for answer in answers if isinstance(answer, BaseException)}
        assert refused <= {VariablesRequired, NotFound}
        assert (await rig.rt.runs.wait(run_id, 10)).status == "completed"
        assert (len(seen), len(model.requests)) == (1, 2)
        assert_valid(await rig.transcript(thread_id))


async def test_values_of_any_layer_let_the_run_go_on() -> None:
    seen: list[Any] = []
    async with running(searches(), [searching(seen)]) as rig:
        ada = await rig.rt.entities.create(external_id="ada")
        thread = await rig.rt.threads.create("tester", ada.id)
        run = await rig.rt.threads.send(thread.id, "Go")
        request_id = await parked(rig, run.id)
        await rig.rt.threads.set_env(thread.id, {"REGION": REGION})
        assert (await rig.rt.requests.get(thread.id, request_id)).missing == ("API_KEY",)
        await rig.rt.entities.set_env(ada.id, {"API_KEY": KEY})
        assert (await rig.rt.runs.wait(run.id, 10)).status == "completed"
        assert seen == [(KEY, REGION, "text")]
        with pytest.raises(NotFound):
            await rig.rt.requests.get(thread.id, request_id)


async def test_a_configured_agent_brings_what_its_runs_wait_for(tmp_path: Path) -> None:
    """The run started with the agent's earlier configuration, and continues with the current one."""
    seen: list[Any] = []
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps([calls("search"), {"text": "Done."}]))
    app = tw.App(agents=[], tools=[searching(seen)])
    config: dict[str, Any] = {"model": f"scripted:{script}", "tools": ["search"], "toolkits": []}
    async with journals.runtime(app) as rt:
        rig = Rig(rt, None)  # type: ignore[arg-type]  # no barriers here
        await rt.agents.save("scout", config)
        run = await send_to(rt, "scout")
        await parked(rig, run.id)
        await rt.agents.save("scout", {**config, "env": {"API_KEY": KEY, "REGION": REGION}})
        run = await rt.runs.wait(run.id, 10)
        assert (run.status, run.error) == ("completed", None)
        assert seen == [(KEY, REGION, "text")]


async def test_a_cancel_of_a_run_that_waits_closes_its_request(store: OpenStore) -> None:
    async with running(searches(), [searching([])], store=store) as rig:
        thread_id, run_id, request_id = await asking(rig)
        await rig.rt.runs.cancel(run_id)
        assert (await rig.rt.runs.wait(run_id, 10)).status == "cancelled"
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(thread_id, request_id, {"API_KEY": KEY, "REGION": REGION})
        assert await rig.rt.requests.list(thread_id) == []
        assert await rig.rt.threads.env(thread_id) == {}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("whose", ["thread", "user"])
async def test_a_value_set_while_the_run_parks_is_not_lost(whose: str, when: str, store: OpenStore) -> None:
    seen: list[Any] = []
    async with running(searches(), [searching(seen)], store=store) as rig:
        ada = await rig.rt.entities.create(external_id="ada")
        values = {"API_KEY": KEY, "REGION": REGION}
        thread = await rig.rt.threads.create("tester", ada.id)

        async def give(_: int, unit: Unit) -> None:
            if not isinstance(unit, Park):
                return
            if whose == "thread":
                await rig.rt.threads.set_env(thread.id, values)
            else:
                await rig.rt.entities.set_env(ada.id, values)

        setattr(rig.store, when, give)
        run = await rig.rt.threads.send(thread.id, "Go")
        assert (await rig.rt.runs.wait(run.id, 10)).status == "completed"
        assert seen == [(KEY, REGION, "text" if whose == "thread" else "secret")]
        assert await rig.rt.requests.list(thread.id) == []


async def test_a_suspended_run_checks_again_when_the_work_in_progress_has_ended() -> None:
    """On a database with overlapping commits a value can become visible after the run has checked."""
    async with running(searches(), [searching([])]) as rig:
        left = asyncio.Event()

        async def leaves(_: int, unit: Unit) -> None:
            if isinstance(unit, Leave):
                left.set()

        rig.store.after = leaves
        thread_id, run_id, request_id = await asking(rig)
        async with asyncio.timeout(10):
            await left.wait()
        wake = await rig.store.wake(thread_id)
        request = await rig.store.children.request(request_id)
        assert 19 < (wake.due - request.created_at).total_seconds() < 21
        assert (await rig.rt.runs.get(run_id)).status == "waiting"


async def test_tools_of_one_name_with_values_of_their_own_do_not_answer_for_each_other() -> None:
    """A value configured for one tool does not apply to another: the run waits, and does not loop."""
    seen: list[Any] = []

    @tw.tool(description="Other.", variables=[tw.Variable("API_KEY", type="secret")])
    async def other(state: tw.ThreadState) -> str:
        return await state.env("API_KEY") or ""

    app = tw.App(
        agents=[tw.Agent("tester", tw.Prompt("tester", "x", model=ScriptedModel([])))],
        tools=[searching(seen), other],
    )
    given = {"API_KEY": KEY, "REGION": REGION}
    config: dict[str, Any] = {"tools": [{"name": "search", "env": given}, "other"], "toolkits": []}
    async with journals.runtime(app) as rt:
        rig = Rig(rt, None)  # type: ignore[arg-type]  # no barriers here
        await rt.agents.save("scout", config)
        run = await send_to(rt, "scout")
        request_id = await parked(rig, run.id)
        assert (await rt.requests.get(run.thread_id, request_id)).missing == ("API_KEY",)
        for _ in range(100):
            await asyncio.sleep(0)
        assert [each.id for each in await rt.requests.list(run.thread_id)] == [request_id]


@requirement("S0-3-4")
async def test_secrets_are_in_no_event_request_or_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with running(searches(), [searching([])]) as rig:
        thread_id, run_id, request_id = await asking(rig)
        with pytest.raises(VariablesRequired) as lacking:
            await rig.rt.requests.answer(thread_id, request_id, {"API_KEY": KEY})
        shown = repr(await rig.rt.requests.get(thread_id, request_id)) + repr(lacking.value)
        shown += repr(await rig.rt.requests.list(thread_id))
        done = await rig.rt.requests.answer(thread_id, request_id, {"REGION": REGION})
        await rig.rt.runs.wait(run_id, 10)
        events = await rig.rt.events.list(Topic(kind="thread", id=thread_id), 0, 500, 0)
        said = repr(await rig.transcript(thread_id)) + repr(events) + repr(done) + shown + caplog.text
        assert KEY not in said
        assert "[redacted:API_KEY]" in said
        [required] = [event for event in events if event.type == "variables.required"]
        assert required.payload["missing"] == ["API_KEY", "REGION"]
        answer = next(unit for unit in rig.store.units if isinstance(unit, Answer))
        assert KEY not in repr(answer)


async def test_the_runtime_has_the_noun() -> None:
    async with running(searches(), [searching([])]) as rig:
        assert isinstance(rig.rt.requests, Requests)


async def test_what_a_url_needs_is_waited_for_like_a_variable_that_is_declared() -> None:
    config: dict[str, Any] = {
        "name": "fetch",
        "description": "Fetch.",
        "inputSchema": {"type": "object"},
        "executionType": "gateway",
        "visible": False,
        "execution": {"url": "https://shop.test/${env.SHOP}", "headers": {"x-key": "${env.SHOP_KEY}"}},
        "variables": [{"name": "SHOP", "type": "text", "required": False, "description": "Where"}],
    }
    asked: list[PreparedCall] = []

    async def shop(prepared: PreparedCall, state: tw.ThreadState) -> tw.ToolResult:
        asked.append(prepared)
        return tw.ToolResult.ok("Fetched.")

    model = Watched([calls("fetch"), DONE])
    async with running(model, [tw.Tool.from_config(config)], executors={"gateway": shop}) as rig:
        thread_id, run_id, request_id = await asking(rig)
        wanted = await rig.rt.requests.get(thread_id, request_id)
        assert [(each.name, each.type, each.description) for each in wanted.required] == [
            ("SHOP", "text", "Where"),
            ("SHOP_KEY", "secret", ""),
        ]
        await rig.rt.requests.answer(thread_id, request_id, {"SHOP": "x", "SHOP_KEY": KEY})
        assert (await rig.rt.runs.wait(run_id, 10)).status == "completed"
        assert len(asked) == 1
