"""Composed requests as runs: followed, stored, cancelled, and continued by another process."""

import asyncio
import gc
import json
import weakref
from pathlib import Path

import anyio
import pytest

import toolwright as tw
from tests.kit import Watched, hang, hanging, send_to
from tests.runtime.rig import running
from tests.runtime.solving import (
    DONE,
    SUMMARY,
    TEXT,
    TOOL,
    greet,
    greeting,
    said,
)
from toolwright.core.errors import (
    CallCancelled,
    NotFound,
    SolutionError,
    StoreError,
    ThreadTerminated,
)
from toolwright.core.journal.units import RequestCancel, Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.requests import speaker
from toolwright.core.threads.event import Topic
from toolwright.testing import runtime

pytestmark = pytest.mark.anyio


async def test_a_request_is_watched_and_kept_like_any_run() -> None:
    model = Watched([said(None, greet("Ada")), said(DONE)])
    async with runtime(tw.App(registry=greeting())) as rt:
        run = await rt.begin_request({"model": model}, SUMMARY, [TOOL, TEXT])
        seen: list[str] = []
        async for event in rt.events.follow(Topic(kind="run", id=run.id), after=0):
            seen.append(event.type)
            if event.type == "run.completed":
                break
        solution = await rt.solution(run.id)
        assert solution == await rt.solution(run.id)
        assert (solution.output, solution.run_id, solution.thread_id) == (DONE, run.id, run.thread_id)
        for type_ in ("run.started", "step.started", "tool.started", "tool.done", "step.done", "message"):
            assert type_ in seen
        [row] = await rt.calls.list(run_id=run.id, status=())
        assert (row.name, row.kind, row.result) == (
            "greetUser",
            "function",
            {"status": "success", "result": "Hello Ada"},
        )
        roles = [message.role for message in await rt.threads.messages(run.thread_id)]
        assert roles == ["user", "assistant", "tool", "assistant"]
        assert (await rt.runs.get(run.id)).output == DONE


async def test_a_solved_request_is_read_again_after_its_model_object_is_gone() -> None:
    async with runtime(tw.App(registry=greeting())) as rt:
        model = Watched([said(None, greet("Ada")), said(DONE)])
        solution = await rt.request({"model": model}, SUMMARY, [TOOL, TEXT])
        assert await rt.solution(solution.run_id) == solution


async def test_a_run_that_belongs_to_no_request_has_no_solution() -> None:
    prompt = tw.Prompt("a", model=Watched([{"text": "Hi."}]))
    async with runtime(tw.App(agents=[tw.Agent("a", prompt)])) as rt:
        run = await send_to(rt, "a")
        with pytest.raises(NotFound, match="does not belong to a composed request"):
            await rt.solution(run.id)
        with pytest.raises(NotFound):
            await rt.solution("run_nowhere")


async def test_a_run_that_belongs_to_no_request_is_not_waited_for() -> None:
    work, _ = hanging("work")

    prompt = tw.Prompt("a", model=Watched([{"calls": [{"name": "work"}]}]), tools=[work])
    async with runtime(tw.App(agents=[tw.Agent("a", prompt)])) as rt, asyncio.timeout(20):
        run = await rt.threads.send((await rt.threads.create("a")).id, "Go")
        with pytest.raises(NotFound, match="does not belong to a composed request"):
            await rt.solution(run.id)


LATER = tw.Tool(
    name="later",
    description="Answered by somebody outside, some time",
    kind="external",
    is_async=True,
    parameters={"type": "object", "properties": {}},
)


async def test_what_comes_after_the_solution_does_not_begin_the_request_again() -> None:
    async with runtime(tw.App(tools=[LATER])) as rt:
        model = Watched([said(None, {"_tool": "later"}), said(DONE)])
        solution = await rt.request({"model": model}, SUMMARY, [{"type": "tool", "tool": "later"}, TEXT])
        [call] = await rt.calls.list(run_id=solution.run_id, status=())
        with pytest.raises(CallCancelled):
            await rt.calls.submit(call.run_id, call.id, "late")
        with pytest.raises(ThreadTerminated):
            await rt.threads.send(solution.thread_id, "Once more")
        assert [run.id for run in await rt.runs.list()] == [solution.run_id]
        assert await rt.solution(solution.run_id) == solution


async def test_the_thread_of_a_request_is_over_however_it_ends() -> None:
    hanging = Hanging()
    async with runtime(tw.App(registry=hanging.registry)) as rt:
        failed = await rt.begin_request({"model": Watched([])}, SUMMARY, "Go")
        cancelled = await rt.begin_request(
            {"model": Watched([said(None, greet("Ada"))])}, SUMMARY, [TOOL, TEXT]
        )
        await hanging.begun.wait()
        await rt.runs.cancel(cancelled.id)
        for run, status in ((failed, "failed"), (cancelled, "cancelled")):
            assert (await rt.runs.wait(run.id)).status == status
            assert (await rt.threads.get(run.thread_id)).status == "terminated"


async def test_no_one_speaks_to_the_agent_of_requests() -> None:
    async with runtime(tw.App(registry=greeting())) as rt:
        solution = await rt.request({"model": Watched([said(DONE)])}, SUMMARY, [TEXT])
        agent = (await rt.threads.get(solution.thread_id)).agent
        request: JSONObject = {"schema": SUMMARY, "context": "Go"}
        with pytest.raises(NotFound, match=f"There is no agent '{agent}'"):
            await rt.threads.create(agent, arguments=request)
        with pytest.raises(NotFound):
            await rt.agents.get(agent)
        [run] = await rt.runs.list(agent=agent)
        assert run.id == solution.run_id


class Hanging:
    """A handler that ends when its run is cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.registry = tw.Registry()
        self.registry.handler("greetUser", self.greet)

    async def greet(self, userName: str, state: tw.ThreadState) -> str:  # noqa: N803 - as S1 spells it
        self.begun.set()
        await state.execution.abort_signal.wait()
        return userName


@pytest.mark.parametrize("how", ["task", "scope"])
async def test_a_wait_that_is_cancelled_cancels_the_run(how: str, tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    hanging = Hanging()
    model = Watched([said(None, greet("Ada")), said(DONE)])
    async with tw.App(registry=hanging.registry).runtime(settings, grace=0.1) as rt:

        async def ask() -> None:
            await rt.request({"model": model}, SUMMARY, [TOOL, TEXT])

        if how == "task":
            task = asyncio.create_task(ask())
            await hanging.begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await hanging.begun.wait()
                group.cancel_scope.cancel()
        [run] = await rt.runs.list()
        assert (await rt.runs.wait(run.id, 10)).status == "cancelled"
        with pytest.raises(SolutionError, match="The request was cancelled"):
            await rt.solution(run.id)


async def test_a_wait_is_cancelled_although_the_journal_is_unavailable() -> None:
    async def fail(_: int, unit: Unit) -> None:
        if isinstance(unit, RequestCancel):
            raise StoreError("No journal.")

    model = Watched(before=hang)
    async with running(model) as rig:
        asked = asyncio.create_task(rig.rt.request({"model": model}, SUMMARY, "Go"))
        await model.asked.wait()
        rig.store.before = fail
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked


async def test_a_request_that_is_cancelled_has_no_solution() -> None:
    hanging = Hanging()
    model = Watched([said(None, greet("Ada")), said(DONE)])
    async with runtime(tw.App(registry=hanging.registry)) as rt:
        asked = asyncio.create_task(rt.request({"model": model}, SUMMARY, [TOOL, TEXT]))
        await hanging.begun.wait()
        [run] = await rt.runs.list()
        await rt.runs.cancel(run.id)
        with pytest.raises(SolutionError, match="The request was cancelled") as caught:
            await asked
        assert (caught.value.run_id, caught.value.thread_id) == (run.id, run.thread_id)


SCRIPT = """\
- text: '{"output": null, "calls": [{"_tool": "greetUser", "userName": "Ada"}]}'
- text: '{"output": {"summary": "Done."}, "calls": []}'
"""


@pytest.mark.parametrize("named", [True, False])
async def test_a_request_outlives_the_process_that_began_it(named: bool, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    model = f"scripted:{tmp_path / 'script.yaml'}" if named else Watched([said(None, greet("Ada"))])
    hanging = Hanging()
    async with tw.App(registry=hanging.registry).runtime(settings, grace=0.1) as rt:
        run = await rt.begin_request({"model": model}, SUMMARY, [TOOL, TEXT])
        await hanging.begun.wait()
    async with tw.App(registry=greeting()).runtime(settings, grace=0.1) as rt:
        if not named:
            gone = "The model 'test:watched' of this request is an object, which exists only in the process"
            with pytest.raises(SolutionError, match=f"^{gone} that started it") as caught:
                await rt.solution(run.id)
            assert caught.value.run_id == run.id
            return
        solution = await rt.solution(run.id)
        assert (solution.output, solution.steps) == (DONE, 2)
        [call] = solution.calls
        assert call.result is not None
        assert call.result.error_code == "interrupted"
    async with tw.App().runtime(settings, grace=0.1) as rt:
        assert await rt.solution(run.id) == solution


async def test_an_output_that_came_with_calls_outlives_the_process(tmp_path: Path) -> None:
    turn = json.dumps(said(DONE, greet("Ada"), greet("Bob"))["text"])
    (tmp_path / "script.yaml").write_text(f"- text: {turn}\n")
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    hanging = Hanging()
    async with tw.App(registry=hanging.registry).runtime(settings, grace=0.1) as rt:
        config = {"model": f"scripted:{tmp_path / 'script.yaml'}"}
        run = await rt.begin_request(config, SUMMARY, [TOOL, TEXT])
        await hanging.begun.wait()
    async with tw.App(registry=greeting()).runtime(settings, grace=0.1) as rt:
        solution = await rt.solution(run.id)
    assert (solution.output, solution.steps, solution.stop_reason) == (DONE, 1, "end_turn")
    assert [call.result.status for call in solution.calls if call.result] == ["error", "success"]


async def test_a_finished_request_is_forgotten_though_its_solution_was_never_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speaker, "MAX_RELEASED", 2)
    async with runtime(tw.App()) as rt, asyncio.timeout(20):
        model = Watched([said(DONE)])
        gone = weakref.ref(model)
        for each in (model, Watched([said(DONE)]), Watched([said(DONE)])):
            run = await rt.begin_request({"model": each}, SUMMARY, "Go")
            assert (await rt.runs.wait(run.id)).status == "completed"
        del model, each
        while gone() is not None:  # until the drain has released the thread
            gc.collect()
            await asyncio.sleep(0)
