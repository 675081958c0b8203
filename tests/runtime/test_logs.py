"""The log reports failures, recoveries and claims, once each, with ids and without secrets."""

import asyncio
import logging
from collections.abc import Generator

import pytest

import toolwright as tw
from tests.api.rig import serving
from tests.kit import call, ran, send_to
from tests.runtime.rig import running
from tests.runtime.test_owners import by_hand, left_by_the_dead
from toolwright.core.env.logs import TextFormatter
from toolwright.core.journal.units import Takeover, Unit
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tw.tool
async def break_down(state: tw.ThreadState) -> str:
    """Break."""
    raise ValueError(f"the key {await state.env('KEY')} is refused")


class Lines(logging.Handler):
    """Collects the lines as a command would write them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(TextFormatter("%(levelname)s %(name)s: %(message)s"))
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Generator[list[str]]:
    handler = Lines()
    caplog.set_level(logging.INFO, logger="toolwright")
    logging.getLogger("toolwright").addHandler(handler)
    yield handler.said
    logging.getLogger("toolwright").removeHandler(handler)


async def test_a_tool_that_raises_is_a_line_with_its_run_and_call(lines: list[str]) -> None:
    model = ScriptedModel([call("break_down"), {"text": "Oh."}])
    async with running(model, [break_down], app_env={"KEY": "correct horse battery"}) as rig:
        run = await ran(rig.rt, "tester", env={"KEY": "correct horse battery staple"})
        assert run.status == "completed"
        [made] = await rig.store.inner.calls(run_id=run.id)
    [said] = [line for line in lines if "raised" in line]
    assert said.startswith("WARNING toolwright.tools: The tool 'break_down' raised ValueError.")
    assert run.id in said
    assert made.id in said
    assert "Traceback" in said
    assert "correct horse" not in said
    assert "[redacted:KEY]" in said


async def test_a_run_that_fails_is_a_line(lines: list[str]) -> None:
    async with running(ScriptedModel([{"fail": "refused", "message": "No such model."}])) as rig:
        run = await rig.run()
        assert run.status == "failed"
    [said] = [line for line in lines if f"Run {run.id} of the agent" in line and " failed " in line]
    assert said.startswith("WARNING toolwright.runs: ")
    assert "of the agent 'tester' failed (model scripted, code model_refused): " in said
    assert "No such model." in said


async def test_the_begin_the_answers_and_the_end_of_a_run_are_lines_with_names(lines: list[str]) -> None:
    calls: dict[str, object] = {"calls": [{"name": "nothing", "args": {}}]}
    async with running(ScriptedModel([calls, {"text": "Hi."}])) as rig:
        run = await rig.run()
    said = [
        line.split(": ", 1)[1]
        for line in lines
        if line.startswith(("INFO toolwright.runs", "INFO toolwright.models"))
    ]
    assert said[0].startswith(f"Run {run.id} of the agent 'tester' begins or continues.")
    assert said[1].startswith("scripted answered the agent 'tester' in ")
    assert ", 1 call." in said[1]
    assert ", 0 calls." in said[2]
    assert said[3].startswith(
        f"Run {run.id} of the agent 'tester' is completed (end_turn) after 2 steps and "
    )


async def test_a_takeover_is_a_line_once_it_is_in_the_journal(lines: list[str]) -> None:
    async with by_hand(ScriptedModel([{"text": "Hi."}])) as (rt, store, motor):
        run = await send_to(rt, "worker")
        await left_by_the_dead(store.inner, rt, run.id, 0)
        others = 1

        async def take_first(_: int, unit: Unit) -> None:
            nonlocal others
            if isinstance(unit, Takeover) and others:
                others -= 1
                await left_by_the_dead(store.inner, rt, run.id, 0)

        store.before = take_first
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).status == "completed"
        assert [type(unit) for unit in store.units].count(Takeover) == 2
    [said] = [line for line in lines if "taken over" in line]
    assert said.startswith(f"WARNING toolwright.runtime: Run {run.id} is taken over: ")


async def test_a_claim_of_a_worker_is_a_line_and_its_renewals_are_none(lines: list[str]) -> None:
    async with serving(ScriptedModel([call("ask_outside", user_name="Ada"), {"text": "Thanks."}])) as api:
        _, call_id = await api.waiting()
        for _ in range(3):
            await api.post(f"/api/calls/{call_id}/claim", {"worker": "ann", "leaseMs": 5_000})
        await api.post(f"/api/calls/{call_id}/claim", {"worker": "bob", "leaseMs": 5_000}, 409)
    claims = [line for line in lines if "claimed" in line]
    assert claims == [f"INFO toolwright.runtime: The worker 'ann' has claimed the call {call_id} for 5 s."]


@pytest.mark.idle_clock
async def test_a_call_that_lasts_longer_than_a_minute_is_logged_once(lines: list[str]) -> None:
    @tw.tool(timeout=600.0)
    async def think(seconds: int) -> str:
        """Think."""
        await asyncio.sleep(seconds)
        return "Thought."

    calls = [{"name": "think", "args": {"seconds": seconds}} for seconds in (50, 250)]
    model = ScriptedModel([{"calls": [each]} for each in calls] + [{"text": "Done."}])
    async with running(model, [think]) as rig:
        run = await rig.run()
        assert run.status == "completed"
        [_, slow] = await rig.store.inner.calls(run_id=run.id)
    [said] = [line for line in lines if "in progress" in line]
    assert said.startswith(
        "WARNING toolwright.tools: A call of the tool 'think' has been in progress for 60 s."
    )
    assert "is cancelled after 600 s" in said
    assert run.id in said and slow.id in said
