"""A failed run is retried: it continues from its last commit, as the same run."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.kit import ran
from tests.runtime.rig import assert_valid, running
from toolwright.core.errors import (
    NotFailed,
    NotFound,
    RunOver,
    ThreadTerminated,
)
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.testing import FunctionModel

pytestmark = pytest.mark.anyio
DOWN = {"fail": "refused", "message": "No credit."}


class Turns:
    """A model that uses its turns in order across runs; `asked` contains the messages of each request."""

    def __init__(self, *turns: dict[str, Any]) -> None:
        self._turns = list(turns)
        self.asked: list[Sequence[Message]] = []
        self.model = FunctionModel(self._next)

    def _next(self, messages: Sequence[Message]) -> dict[str, Any]:
        self.asked.append(messages)
        return self._turns.pop(0)


@tw.tool(description="Count.")
def count(state: tw.ThreadState) -> int:
    done.append(state.call_id)
    return len(done)


done: list[str] = []


async def test_it_goes_on_behind_its_last_step_and_repeats_no_call() -> None:
    done.clear()
    turns = Turns({"calls": [{"name": "count", "args": {}}]}, DOWN, {"text": "One."}, {"text": "More."})
    async with running(turns.model, [count]) as rig:
        thread = await rig.rt.threads.create("tester")
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Count")).id, 10)
        assert (run.status, run.step_count) == ("failed", 1)
        retried = await rig.rt.runs.retry(run.id)
        assert (retried.id, retried.error, retried.error_code, retried.completed_at) == (
            run.id,
            None,
            None,
            None,
        )
        run = await rig.rt.runs.wait(run.id, 10)
        assert (run.status, run.output, run.step_count, run.error) == ("completed", "One.", 2, None)
        assert len(done) == 1
        assert [message.role for message in turns.asked[-1]] == ["user", "assistant", "tool"]
        assert_valid(await rig.transcript(thread.id))
        events = await rig.rt.events.list(Topic(kind="run", id=run.id))
        kinds = [event.type for event in events if event.type.startswith("run.")]
        assert kinds == [
            "run.queued", "run.started", "run.failed", "run.queued", "run.started", "run.completed"
        ]  # fmt: skip
        assert (
            await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "And?")).id, 10)
        ).output == "More."


async def test_one_of_many_retries_at_once_is_taken() -> None:
    turns = Turns(DOWN, {"text": "There."})
    async with running(turns.model) as rig:
        run = await rig.run()
        answers = await asyncio.gather(*[rig.rt.runs.retry(run.id) for _ in range(5)], return_exceptions=True)
        assert len([each for each in answers if not isinstance(each, BaseException)]) == 1
        assert all(isinstance(each, NotFailed) for each in answers if isinstance(each, BaseException))
        assert (await rig.rt.runs.wait(run.id, 10)).output == "There."
        assert len(turns.asked) == 2


async def test_a_retried_run_can_fail_and_be_retried_again() -> None:
    async with running(Turns(DOWN, DOWN, {"text": "There."}).model) as rig:
        run = await rig.run()
        for expected in ("failed", "completed"):
            await rig.rt.runs.retry(run.id)
            assert (await rig.rt.runs.wait(run.id, 10)).status == expected


class Sum(BaseModel):
    total: int


async def test_an_agent_whose_answers_broke_their_schema_is_told_to_answer_again() -> None:
    bad = {"json": {"total": "x"}}
    turns = Turns(bad, bad, bad, bad, {"json": {"total": 3}})
    async with running(turns.model, prompt_options={"output": Sum}) as rig:
        run = await rig.run("Add")
        assert (run.status, run.error_code, len(turns.asked)) == ("failed", "output", 3)
        await rig.rt.runs.retry(run.id)
        run = await rig.rt.runs.wait(run.id, 10)
        assert (run.status, run.output) == ("completed", {"total": 3})
        assert all(messages[-1].role == "user" for messages in turns.asked)
        assert "Answer again" in turns.asked[3][-1].content


async def test_a_stream_of_a_retried_run_goes_to_its_last_end() -> None:
    async with running(Turns(DOWN, {"text": "There."}).model) as rig:
        run = await rig.run()
        assert [type(each) async for each in rig.rt.runs.stream(run.id)] == [tw.RunDone]
        await rig.rt.runs.retry(run.id)
        for _ in range(2):  # possibly while it continues, and after it has finished
            values = [each async for each in rig.rt.runs.stream(run.id)]
            last = values[-1]
            assert isinstance(last, tw.RunDone)
            assert (last.result.status, last.result.text) == ("completed", "There.")
            assert [type(each) for each in values].count(tw.RunDone) == 1


async def test_what_cannot_be_retried_is_reported_and_stays_as_it_is() -> None:
    async with running(Turns(DOWN, {"text": "Hi."}, DOWN, {"text": "Bye."}).model) as rig:
        rt = rig.rt
        failed = await ran(rt, "tester", "One")
        later = await rt.runs.wait((await rt.threads.send(failed.thread_id, "Two")).id, 10)
        with pytest.raises(RunOver, match="has continued with a later run"):
            await rt.runs.retry(failed.id)
        with pytest.raises(NotFailed, match="is completed: only a failed run can be retried"):
            await rt.runs.retry(later.id)
        with pytest.raises(NotFound, match="There is no run 'nope'"):
            await rt.runs.retry("nope")
        assert (await rt.runs.get(failed.id)) == failed
        assert (await rt.threads.get(failed.thread_id)).status == "idle"


async def test_a_child_whose_session_has_ended_permanently_is_not_retried_alone() -> None:
    turns = Turns({"calls": [{"name": "helper", "args": {"message": "Help"}}]}, DOWN, {"text": "No help."})
    helper = tw.Agent("helper", instructions="Help.", model=turns.model)
    boss = tw.Agent("boss", instructions="Ask.", model=turns.model, tools=[helper.as_tool("Helps.")])
    async with running(turns.model, agents=[boss, helper]) as rig:
        run = await ran(rig.rt, "boss")
        assert run.output == "No help."
        [child] = [each for each in await rig.rt.runs.list() if each.status == "failed"]
        with pytest.raises(ThreadTerminated, match="The session of the thread"):
            await rig.rt.runs.retry(child.id)


async def test_a_run_of_a_deleted_agent_asks_no_model_again() -> None:
    turns = Turns(DOWN, {"text": "Too late."})
    async with running(turns.model) as rig:
        await rig.rt.agents.save("ranger", {"agent": {"system": "Be."}})
        run = await ran(rig.rt, "ranger")
        assert run.status == "failed"
        await rig.rt.agents.delete("ranger")
        await rig.rt.runs.retry(run.id)
        run = await rig.rt.runs.wait(run.id, 10)
        assert run.status == "failed"
        assert "is not configured in this app" in (run.error or "")
